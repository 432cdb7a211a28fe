"""Where elements of a matrix lie in the cube's buffers, element by element, and the im2col matrix by loops."""

from __future__ import annotations

from typing import Any

import numpy as np


def zz(x: np.ndarray, k0: int) -> np.ndarray:
    """Zz by its offset formula."""
    m, k = x.shape
    kb = -(-k // k0)
    out = np.zeros(-(-m // 16) * kb * 16 * k0, x.dtype)
    for i in range(m):
        for j in range(k):
            out[((i // 16) * kb + j // k0) * 16 * k0 + (i % 16) * k0 + j % k0] = x[i, j]
    return out


def zn(x: np.ndarray, k0: int) -> np.ndarray:
    k, n = x.shape
    nb = -(-n // 16)
    out = np.zeros(-(-k // k0) * nb * 16 * k0, x.dtype)
    for i in range(k):
        for j in range(n):
            out[((i // k0) * nb + j // 16) * 16 * k0 + (j % 16) * k0 + i % k0] = x[i, j]
    return out


def nz(x: np.ndarray, k0: int, rows: int | None = None) -> np.ndarray:
    m, k = x.shape
    mp = rows or -(-m // 16) * 16
    out = np.zeros(-(-k // k0) * mp * k0, x.dtype)
    for i in range(m):
        for j in range(k):
            out[(j // k0) * mp * k0 + i * k0 + j % k0] = x[i, j]
    return out


def from_l0c(b: Any, m: int, n: int, dtype: Any, at: int = 0) -> np.ndarray:
    mp, n1 = -(-m // 16) * 16, -(-n // 16)
    flat = b.get("L0C", dtype, n1 * mp * 16, at)
    return np.array([[flat[(j // 16) * mp * 16 + i * 16 + j % 16] for j in range(n)] for i in range(m)])


def reference_im2col(fmap: np.ndarray, kernel: tuple[int, int], stride: Any, pads: Any, dilation: Any, value: float
                     ) -> np.ndarray:  # fmt: skip
    """Row (ho, wo), column (c1, kh, kw, c0), by loops."""
    c1, h, w, c0 = fmap.shape
    left, right, top, bottom = pads
    oh = (h + top + bottom - dilation[0] * (kernel[0] - 1) - 1) // stride[0] + 1
    ow = (w + left + right - dilation[1] * (kernel[1] - 1) - 1) // stride[1] + 1
    out = np.full((oh * ow, c1 * kernel[0] * kernel[1] * c0), value, fmap.dtype)
    for p in range(oh * ow):
        for tap, (c, i, j) in enumerate(np.ndindex(c1, *kernel)):
            y = p // ow * stride[0] + i * dilation[0] - top
            x = p % ow * stride[1] + j * dilation[1] - left
            if 0 <= y < h and 0 <= x < w:
                out[p, tap * c0 : tap * c0 + c0] = fmap[c, y, x]
    return out
