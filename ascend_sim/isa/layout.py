"""Data layouts of the cube unit as NumPy transforms, both ways.

K0 = C0 = 32 bytes of elements (16 for 16-bit types), M0 = N0 = 16. Ascend C naming: Nz = FRACTAL_NZ, column blocks
outermost, each a row-major panel; Zz = rows of row-major fractals (L0A); Zn = rows of column-major fractals (L0B).
Source: asc-devkit, data format appendix. Every array keeps its block dimensions explicit; ``reshape(-1)`` gives the
storage order.
"""

from __future__ import annotations

from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
CUBE = 16  # M0 = N0


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def c0_of(dtype: Any) -> int:
    """Elements of a 32-byte block of a NumPy type."""
    return 32 // int(np.dtype(dtype).itemsize)


def _pad_last2(x: Array, rows: int, cols: int) -> Array:
    m, k = x.shape[-2:]
    if m == rows and k == cols:
        return x
    out = np.zeros((*x.shape[:-2], rows, cols), x.dtype)
    out[..., :m, :k] = x
    return out


def nd_to_nz(x: Array, k0: int | None = None, m0: int = CUBE) -> Array:
    """(..., M, K) -> (..., K1, Mp, K0), zero filled. ``k0`` defaults to 32 bytes; 16 for framework FRACTAL_NZ."""
    k0 = k0 or c0_of(x.dtype)
    m, k = x.shape[-2:]
    mp, k1 = ceil_div(m, m0) * m0, ceil_div(k, k0)
    y = _pad_last2(x, mp, k1 * k0).reshape(*x.shape[:-2], mp, k1, k0)
    return np.ascontiguousarray(np.moveaxis(y, -2, -3))


def nz_to_nd(y: Array, m: int, k: int) -> Array:
    """(..., K1, Mp, K0) -> (..., M, K)."""
    x = np.moveaxis(y, -3, -2)
    return np.ascontiguousarray(x.reshape(*x.shape[:-2], -1)[..., :m, :k])


def nd_to_zz(x: Array, k0: int | None = None) -> Array:
    """(M, K) -> (M1, K1, 16, K0): layout of L0A."""
    k0 = k0 or c0_of(x.dtype)
    m, k = x.shape
    m1, k1 = ceil_div(m, CUBE), ceil_div(k, k0)
    y = _pad_last2(x, m1 * CUBE, k1 * k0).reshape(m1, CUBE, k1, k0)
    return np.ascontiguousarray(y.transpose(0, 2, 1, 3))


def zz_to_nd(y: Array, m: int, k: int) -> Array:
    """(M1, K1, 16, K0) -> (M, K)."""
    m1, k1, m0, k0 = y.shape
    return y.transpose(0, 2, 1, 3).reshape(m1 * m0, k1 * k0)[:m, :k]


def nd_to_zn(x: Array, k0: int | None = None) -> Array:
    """(K, N) -> (K1, N1, 16, K0), inner fractal transposed: layout of L0B."""
    k0 = k0 or c0_of(x.dtype)
    k, n = x.shape
    k1, n1 = ceil_div(k, k0), ceil_div(n, CUBE)
    y = _pad_last2(x, k1 * k0, n1 * CUBE).reshape(k1, k0, n1, CUBE)
    return np.ascontiguousarray(y.transpose(0, 2, 3, 1))


def zn_to_nd(y: Array, k: int, n: int) -> Array:
    """(K1, N1, 16, K0) -> (K, N)."""
    k1, n1, n0, k0 = y.shape
    return y.transpose(0, 3, 1, 2).reshape(k1 * k0, n1 * n0)[:k, :n]


def nchw_to_nc1hwc0(x: Array, c0: int | None = None) -> Array:
    """(N, C, H, W) -> (N, C1, H, W, C0), zero filled."""
    c0 = c0 or c0_of(x.dtype)
    n, c, h, w = x.shape
    c1 = ceil_div(c, c0)
    y = x
    if c1 * c0 != c:
        y = np.zeros((n, c1 * c0, h, w), x.dtype)
        y[:, :c] = x
    return np.ascontiguousarray(y.reshape(n, c1, c0, h, w).transpose(0, 1, 3, 4, 2))


def nc1hwc0_to_nchw(y: Array, c: int) -> Array:
    """(N, C1, H, W, C0) -> (N, C, H, W)."""
    n, c1, h, w, c0 = y.shape
    return np.ascontiguousarray(y.transpose(0, 1, 4, 2, 3).reshape(n, c1 * c0, h, w)[:, :c])


def merged_groups(groups: int, cin: int, cout: int, c0: int = CUBE) -> tuple[int, int, int]:
    """(groups, C1, N1) after merging so many groups into one dense block that channels fill whole blocks of 16:
    E = lcm(lcm(cin, 16) / cin, lcm(cout, 16) / cout), at most ``groups``. ``cin``, ``cout`` per group. This is how
    GE lays out FRACTAL_Z weights of grouped convolutions (hicann/metadef, transfer of FRACTAL_Z with groups)."""
    if groups == 1:
        return 1, ceil_div(cin, c0), ceil_div(cout, CUBE)
    e = min(lcm(lcm(cin, CUBE) // cin, lcm(cout, CUBE) // cout), groups)
    return ceil_div(groups, e), ceil_div(e * cin, CUBE), ceil_div(e * cout, CUBE)


def oihw_to_fractal_z(x: Array, c0: int | None = None, n0: int = CUBE) -> Array:
    """(Cout, Cin, Kh, Kw) -> (C1*Kh*Kw, N1, 16, C0): convolution weights."""
    c0 = c0 or c0_of(x.dtype)
    n, c, kh, kw = x.shape
    n1, c1 = ceil_div(n, n0), ceil_div(c, c0)
    y = np.zeros((n1 * n0, c1 * c0, kh, kw), x.dtype)
    y[:n, :c] = x
    y = y.reshape(n1, n0, c1, c0, kh, kw).transpose(2, 4, 5, 0, 1, 3)
    return np.ascontiguousarray(y.reshape(c1 * kh * kw, n1, n0, c0))


def fractal_z_to_oihw(y: Array, shape: tuple[int, int, int, int]) -> Array:
    """(C1*Kh*Kw, N1, 16, C0) -> (Cout, Cin, Kh, Kw)."""
    n, c, kh, kw = shape
    rows, n1, n0, c0 = y.shape
    c1 = rows // (kh * kw)
    x = y.reshape(c1, kh, kw, n1, n0, c0).transpose(3, 4, 0, 5, 1, 2).reshape(n1 * n0, c1 * c0, kh, kw)
    return np.ascontiguousarray(x[:n, :c])


def ncdhw_to_ndc1hwc0(x: Array, c0: int | None = None) -> Array:
    """(N, C, D, H, W) -> (N, D, C1, H, W, C0), zero filled."""
    n, c, d, h, w = x.shape
    y = nchw_to_nc1hwc0(x.reshape(n, c, d * h, w), c0)
    c1, c0 = y.shape[1], y.shape[4]
    return np.ascontiguousarray(y.reshape(n, c1, d, h, w, c0).transpose(0, 2, 1, 3, 4, 5))


def ndc1hwc0_to_ncdhw(y: Array, c: int) -> Array:
    """(N, D, C1, H, W, C0) -> (N, C, D, H, W)."""
    n, d, c1, h, w, c0 = y.shape
    x = nc1hwc0_to_nchw(y.transpose(0, 2, 1, 3, 4, 5).reshape(n, c1, d * h, w, c0), c)
    return x.reshape(n, c, d, h, w)


def oidhw_to_fractal_z_3d(x: Array, c0: int | None = None) -> Array:
    """(Cout, Cin, D, Kh, Kw) -> (D*C1*Kh*Kw, N1, 16, C0)."""
    return np.concatenate([oihw_to_fractal_z(x[:, :, d], c0) for d in range(x.shape[2])])


def im2col(
    fmap: Array,
    kernel: tuple[int, int],
    stride: tuple[int, int] = (1, 1),
    pads: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilation: tuple[int, int] = (1, 1),
    pad_value: Any = 0,
) -> Array:
    """The matrix load3d sees: feature map (C1, H, W, C0) -> (Ho*Wo, C1*Kh*Kw*C0).

    ``pads`` is (left, right, top, bottom). Row = ho*Wo + wo; column = ((c1*Kh + kh)*Kw + kw)*C0 + c0.
    """
    c1, h, w, c0 = fmap.shape
    kh, kw = kernel
    left, right, top, bottom = pads
    ho = (h + top + bottom - dilation[0] * (kh - 1) - 1) // stride[0] + 1
    wo = (w + left + right - dilation[1] * (kw - 1) - 1) // stride[1] + 1
    padded = np.full((c1, h + top + bottom, w + left + right, c0), pad_value, fmap.dtype)
    padded[:, top : top + h, left : left + w] = fmap
    out = np.empty((ho, wo, c1, kh, kw, c0), fmap.dtype)
    for i in range(kh):
        for j in range(kw):
            y, x = i * dilation[0], j * dilation[1]
            tap = padded[:, y : y + (ho - 1) * stride[0] + 1 : stride[0], x : x + (wo - 1) * stride[1] + 1 : stride[1]]
            out[:, :, :, i, j] = tap.transpose(1, 2, 0, 3)
    return out.reshape(ho * wo, c1 * kh * kw * c0)
