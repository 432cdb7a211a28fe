"""Layouts against the offset formulas of the Ascend C data format appendix, element by element."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_sim.isa import layout

DTYPES = [np.int8, np.float16, np.float32]
sizes = st.integers(1, 40)


def numbered(*shape: int, dtype=np.int32) -> np.ndarray:
    return np.arange(1, 1 + int(np.prod(shape))).reshape(shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=20, deadline=None)
@given(m=sizes, k=sizes)
def test_matrix_layouts(dtype, m: int, k: int) -> None:
    x = (numbered(m, k) % 100).astype(dtype)
    k0 = 32 // np.dtype(dtype).itemsize
    mp, kb, nb = -(-m // 16) * 16, -(-k // k0), -(-k // 16)
    nz, zz = layout.nd_to_nz(x).reshape(-1), layout.nd_to_zz(x).reshape(-1)
    zn = layout.nd_to_zn(x).reshape(-1)  # x read as B(k=m, n=k)
    for r in range(m):
        for c in range(k):
            assert nz[(c // k0) * mp * k0 + r * k0 + c % k0] == x[r, c]
            assert zz[((r // 16) * kb + c // k0) * 16 * k0 + (r % 16) * k0 + c % k0] == x[r, c]
            assert zn[((r // k0) * nb + c // 16) * 16 * k0 + (c % 16) * k0 + r % k0] == x[r, c]
    np.testing.assert_array_equal(layout.nz_to_nd(layout.nd_to_nz(x), m, k), x)
    np.testing.assert_array_equal(layout.zz_to_nd(layout.nd_to_zz(x), m, k), x)
    np.testing.assert_array_equal(layout.zn_to_nd(layout.nd_to_zn(x), m, k), x)


@settings(max_examples=20, deadline=None)
@given(n=st.integers(1, 3), c=st.integers(1, 40), h=st.integers(1, 4), w=st.integers(1, 4))
def test_nc1hwc0(n: int, c: int, h: int, w: int) -> None:
    x = numbered(n, c, h, w).astype(np.float16)
    c1 = -(-c // 16)
    flat = layout.nchw_to_nc1hwc0(x).reshape(-1)
    for i, j, k, q in np.ndindex(n, c, h, w):
        assert flat[(((i * c1 + j // 16) * h + k) * w + q) * 16 + j % 16] == x[i, j, k, q]
    np.testing.assert_array_equal(layout.nc1hwc0_to_nchw(layout.nchw_to_nc1hwc0(x), c), x)
    five = numbered(n, c, 2, h, w)
    np.testing.assert_array_equal(layout.ndc1hwc0_to_ncdhw(layout.ncdhw_to_ndc1hwc0(five), c), five)


@settings(max_examples=20, deadline=None)
@given(o=st.integers(1, 20), c=st.integers(1, 20), kh=st.integers(1, 3), kw=st.integers(1, 3))
def test_fractal_z(o: int, c: int, kh: int, kw: int) -> None:
    x = numbered(o, c, kh, kw).astype(np.float16)
    n1 = -(-o // 16)
    y = layout.oihw_to_fractal_z(x)
    flat = y.reshape(-1)
    for n, i, a, b in np.ndindex(o, c, kh, kw):
        offset = ((((i // 16) * kh + a) * kw + b) * n1 + n // 16) * 256 + (n % 16) * 16 + i % 16
        assert flat[offset] == x[n, i, a, b]
    np.testing.assert_array_equal(layout.fractal_z_to_oihw(y, (o, c, kh, kw)), x)


def test_im2col_makes_a_convolution() -> None:
    torch_like = np.random.default_rng(0)
    x = torch_like.integers(-4, 5, (1, 16, 6, 7)).astype(np.float16)
    w = torch_like.integers(-4, 5, (5, 16, 3, 2)).astype(np.float16)
    pads, stride, dilation = (1, 2, 0, 1), (2, 1), (1, 2)
    fmap = layout.nchw_to_nc1hwc0(x)[0]
    matrix = layout.im2col(fmap, (3, 2), stride, pads, dilation).astype(np.int64)
    weights = layout.oihw_to_fractal_z(w).reshape(-1, 16, 16).transpose(0, 2, 1).reshape(-1, 16).astype(np.int64)
    got = (matrix @ weights)[:, :5]
    left, right, top, bottom = pads
    padded = np.pad(x[0].astype(np.int64), ((0, 0), (top, bottom), (left, right)))
    out_h, out_w = (6 + 1 - 3) // 2 + 1, (7 + 3 - 3) // 1 + 1
    for n in range(5):
        for i in range(out_h):
            for j in range(out_w):
                window = padded[:, i * 2 : i * 2 + 3, j : j + 3 : 2]
                assert got[i * out_w + j, n] == (window * w[n]).sum()
