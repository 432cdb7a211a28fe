"""Semantics of the cube unit.

A in L0A is Zz, B in L0B is Zn, C in L0C is Nz of 16 x 16 fractals. Products of 16-bit floats are exact in float32 and
accumulate in float32 (order inside an mmad is that of the host's BLAS); 8-bit integers accumulate exactly in int32
and wrap. Source: asc-devkit, Mmad page and data format appendix.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.isa.buffers import View
from ascend_sim.isa.dtypes import bfloat16, float16, float32, int4, unpack_int4
from ascend_sim.isa.instr import Pipe
from ascend_sim.isa.layout import CUBE, ceil_div, zn_to_nd, zz_to_nd
from ascend_sim.isa.rows import instruction

Array = NDArray[Any]


def read_a(view: View, m: int, k: int) -> Array:
    """(m, k) matrix from Zz storage."""
    k0 = view.dtype.block
    shape = (ceil_div(m, CUBE), ceil_div(k, k0), CUBE, k0)
    return zz_to_nd(_fractals(view, shape), m, k)


def read_b(view: View, k: int, n: int) -> Array:
    """(k, n) matrix from Zn storage."""
    k0 = view.dtype.block
    shape = (ceil_div(k, k0), ceil_div(n, CUBE), CUBE, k0)
    return zn_to_nd(_fractals(view, shape), k, n)


def _fractals(view: View, shape: tuple[int, ...]) -> Array:
    flat = view.flat(int(np.prod(shape)))
    return (unpack_int4(flat) if view.dtype is int4 else flat).reshape(shape)


def c_view(view: View, m: int, n: int, rows: int | None = None) -> Array:
    """Writable (N1, Mp, 16) array of C in Nz storage; ``rows`` is the panel height when not 16*ceil(m/16)."""
    mp = rows or ceil_div(m, CUBE) * CUBE
    n1 = ceil_div(n, CUBE)
    size = view.dtype.size
    return view.strided((n1, ceil_div(m, CUBE) * CUBE, CUBE), (mp * CUBE * size, CUBE * size, size))


def round_hf32(x: Array) -> Array:
    """float32 values rounded to the 11-bit mantissa (10 stored bits and the hidden one) of hf32, half to even."""
    bits: Array = x.view(np.uint32).astype(np.uint64)
    dropped = 13
    bits = (bits + (1 << (dropped - 1)) - 1 + ((bits >> dropped) & 1)) >> dropped << dropped
    return np.where(np.isfinite(x), (bits & 0xFFFFFFFF).astype(np.uint32).view(np.float32), x)


def product(a: Array, b: Array) -> Array:
    """a @ b as the cube computes it: float32 for floats, exact int64 for integers."""
    if a.dtype.kind in "iu":
        exact = np.float32 if a.shape[1] * 2**14 < 2**24 else np.float64
        whole: Array = (a.astype(exact) @ b.astype(exact)).astype(np.int64)
        return whole
    out: Array = a.astype(np.float32) @ b.astype(np.float32)
    return out


def unpack_index(view: View, k: int, n: int) -> Array:
    """(k, n) 2-bit entries of sparse weights from their Zn storage: 16 x 32 fractals of 128 bytes, four entries a
    byte, lowest bits first."""
    k1, n1 = ceil_div(k, 32), ceil_div(n, CUBE)
    raw = view.flat(k1 * n1 * 128)
    entries = np.stack([raw >> shift & 3 for shift in (0, 2, 4, 6)], -1).reshape(k1, n1, CUBE, 32)
    return zn_to_nd(entries, k, n)


@instruction(
    "mmad_sp", "mmad_with_sparse", Pipe.M, "C = A x B, + C unless cmatrix_init_val; of every four columns of A each"
    " column of B uses the two its index names", "int8 x int8 to int32; k, a multiple of 4, counts columns of A",
    "first index: 0..2 from the first of the four, second: 0..2 from the second",
)  # fmt: skip
def run_mmad_sparse(dst: View, a: View, b: View, index: View, m: int, n: int, k: int, initialise: bool) -> None:
    rows, cols, half = ceil_div(m, CUBE) * CUBE, ceil_div(n, CUBE) * CUBE, k // 2
    left = read_a(a, rows, k).astype(np.int64)
    right = read_b(b, half, cols).astype(np.int64)
    entry = unpack_index(index, half, cols).astype(np.int64)
    kept = np.arange(half)
    chosen = kept[:, None] // 2 * 4 + kept[:, None] % 2 + entry  # column of A that meets each kept weight
    dense = np.zeros((k, cols), np.int64)
    np.add.at(dense, (chosen, np.arange(cols)[None, :]), right)
    result = (left @ dense).reshape(rows, cols // CUBE, CUBE).transpose(1, 0, 2)
    target = c_view(dst, m, n)
    target[...] = (result if initialise else result + target).astype(np.int32)


@instruction(
    "mmad", "mmad", Pipe.M, "C = A x B, + C unless cmatrix_init_val, + bias row when given",
    "m, n, k lie in 0..4095; any zero makes it a no-operation",
    "dst lies in L0C, A in L0A, B in L0B; A is Zz, B is Zn, C is Nz", "L0A and L0B start on 512 bytes, L0C on 64",
)  # fmt: skip
def run_mmad(
    dst: View, a: View, b: View, m: int, n: int, k: int, initialise: bool, bias: View | None = None, hf32: bool = False,
    a_depth: int = 0,
) -> None:  # fmt: skip
    """``a_depth``: columns of A in L0A when more than ``k`` rounded up to whole fractals."""
    if not m or not n or not k:
        return
    # edges are computed on whole fractals, as the hardware does, but only k columns contribute
    rows, cols = ceil_div(m, CUBE) * CUBE, ceil_div(n, CUBE) * CUBE
    left, right = read_a(a, rows, max(a_depth, k))[:, :k], read_b(b, k, cols)
    if hf32 and a.dtype is float32:
        left, right = round_hf32(np.ascontiguousarray(left)), round_hf32(np.ascontiguousarray(right))
    target = c_view(dst, m, n)
    with np.errstate(all="ignore"):
        result = product(left, right).reshape(rows, cols // CUBE, CUBE).transpose(1, 0, 2)
        if bias is not None:
            row = bias.flat(n).astype(result.dtype)
            wide = np.zeros(cols, result.dtype)
            wide[:n] = row
            result = result + wide.reshape(cols // CUBE, 1, CUBE)
        elif not initialise:
            result = result + (target.astype(np.float32) if dst.dtype in (float16, bfloat16) else target)
        target[...] = result.astype(dst.dtype.np)
