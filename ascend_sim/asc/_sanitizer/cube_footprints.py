"""Bytes that the cube and its exits touch."""

from __future__ import annotations

from typing import Any

from ascend_sim.asc._sanitizer.footprints import Touch, footprint
from ascend_sim.asc._sanitizer.spans import rows, run, span
from ascend_sim.isa.buffers import FRACTAL, View
from ascend_sim.isa.layout import CUBE, ceil_div


@footprint("cube.run_mmad")
def _mmad(dst: View, a: View, b: View, m: int, n: int, k: int, initialise: bool, bias: View | None = None,
          hf32: bool = False, a_depth: int = 0) -> Touch:  # fmt: skip
    if not m or not n or not k:
        return Touch([], [])
    k0 = a.dtype.block
    m1, n1 = ceil_div(m, CUBE), ceil_div(n, CUBE)
    reads = [*run(a, m1 * ceil_div(max(a_depth, k), k0) * FRACTAL), *run(b, n1 * ceil_div(k, k0) * FRACTAL)]
    writes = run(dst, m1 * n1 * 256 * dst.dtype.size)
    if bias is not None:
        reads += run(bias, n * bias.dtype.size)
    elif not initialise:
        reads += writes
    return Touch(reads, writes)


@footprint("fixpipe.run_fixpipe")
def _fixpipe(dst: View, src: View, n: int, m: int, src_stride: int, dst_stride: int, mode: int, words: Any,
             relu: bool, row_major: bool, nd: int = 1, src_nd: int = 0, dst_nd: int = 0, split: bool = False,
             atomic: str | None = None) -> Touch:  # fmt: skip
    size, out = src.dtype.size, dst.dtype.size
    panel = CUBE * size
    reads = span(src.data, src.start, (nd, ceil_div(n, CUBE), m * panel), (src_nd * 1024, src_stride * panel, 1))
    if row_major:
        writes = span(dst.data, dst.start, (nd, m, n * out), (dst_nd * out, dst_stride * out, 1))
    else:
        c0 = 32 if out == 1 else 8 if split else CUBE
        writes = rows(dst, ceil_div(n, c0), m * c0 * out, dst_stride * 32)
    return Touch(reads, writes, atomic is not None)


@footprint("fixpipe.run_l0c_to_ub")
def _l0c_to_ub(dst: View, src: View, count: int, length: int, src_gap: int, dst_gap: int, *rest: Any) -> Touch:
    size, row = 256 * src.dtype.size, length * 256 * dst.dtype.size
    return Touch(rows(src, count, length * size, (length + src_gap) * size), rows(dst, count, row, row + dst_gap * 32))


@footprint("fixpipe.run_ub_to_l0c")
def _ub_to_l0c(dst: View, src: View, count: int, length: int, src_gap: int, dst_gap: int) -> Touch:
    row, size = length * 256 * src.dtype.size, 256 * dst.dtype.size
    return Touch(rows(src, count, row, row + src_gap * 32), rows(dst, count, length * size, (length + dst_gap) * size))


@footprint("fixpipe.run_broadcast_to_l0c")
def _broadcast(dst: View, src: View, count: int, length: int, src_gap: int, dst_gap: int) -> Touch:
    row, size = length * CUBE * src.dtype.size, 256 * dst.dtype.size
    return Touch(rows(src, count, row, row + src_gap * 32), rows(dst, count, length * size, (length + dst_gap) * size))
