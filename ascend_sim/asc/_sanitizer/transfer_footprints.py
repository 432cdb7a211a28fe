"""Bytes that transfers, im2col loads and scalar accesses touch."""

from __future__ import annotations

from typing import Any

import numpy as np

from ascend_sim.asc._sanitizer.footprints import Touch, footprint
from ascend_sim.asc._sanitizer.spans import Span, rows, run, span
from ascend_sim.isa import load3d
from ascend_sim.isa.buffers import BLOCK, FRACTAL, View
from ascend_sim.isa.layout import CUBE, ceil_div


@footprint("mte.run_copy")
def _copy(dst: View, src: View, count: int, length: int, src_gap: int, dst_gap: int,
          atomic: str | None = None) -> Touch:  # fmt: skip
    return Touch(
        rows(src, count, length, length + src_gap), rows(dst, count, length, length + dst_gap), atomic is not None
    )


@footprint("mte.run_widen")
def _widen(dst: View, src: View, count: int, length: int, src_gap: int, dst_gap: int) -> Touch:
    read = length // dst.dtype.size * src.dtype.size
    return Touch(rows(src, count, read, read + src_gap), rows(dst, count, length, length + dst_gap))


@footprint("mte.run_nd2nz")
def _nd2nz(dst: View, src: View, nd: int, n: int, d: int, src_matrix: int, src_pitch: int, c0_stride: int,
           n_stride: int, dst_matrix: int) -> Touch:  # fmt: skip
    size = src.dtype.size
    c1 = ceil_div(d, src.dtype.block)
    reads = span(src.data, src.start, (nd, n, d * size), (src_matrix * size, src_pitch * size, 1))
    strides = (dst_matrix * size, c0_stride * BLOCK, n_stride * BLOCK, 1)
    return Touch(reads, span(dst.data, dst.start, (nd, c1, n, BLOCK), strides))


@footprint("mte.run_nz2nd")
def _nz2nd(dst: View, src: View, nd: int, n: int, d: int, src_matrix: int, src_n: int, dst_pitch: int,
           dst_matrix: int, atomic: str | None) -> Touch:  # fmt: skip
    size = src.dtype.size
    c1 = ceil_div(d, src.dtype.block)
    strides = (src_matrix * 256 * size, src_n * BLOCK, BLOCK, 1)
    reads = span(src.data, src.start, (nd, c1, n, BLOCK), strides)
    writes = span(dst.data, dst.start, (nd, n, d * size), (dst_matrix * size, dst_pitch * size, 1))
    return Touch(reads, writes, atomic is not None)


@footprint("mte.run_pad_in")
def _pad_in(dst: View, src: View, count: int, length: int, src_gap: int, dst_gap: int, left: int, right: int,
            value: Any) -> Touch:  # fmt: skip
    row = ceil_div((left + right) * dst.dtype.size + length, BLOCK) * BLOCK
    return Touch(rows(src, count, length, length + src_gap), rows(dst, count, row, row + dst_gap))


@footprint("mte.run_pad_out")
def _pad_out(dst: View, src: View, count: int, length: int, src_gap: int, dst_gap: int,
             atomic: str | None) -> Touch:  # fmt: skip
    row = ceil_div(length, BLOCK) * BLOCK
    return Touch(
        rows(src, count, length, row + src_gap), rows(dst, count, length, length + dst_gap), atomic is not None
    )


@footprint("mte.run_fill")
def _fill(dst: View, repeat: int, blocks: int, gap: int, value: Any, unit: int) -> Touch:
    return Touch([], rows(dst, repeat, blocks * unit, (blocks + gap) * unit))


@footprint("mte.run_load2d")
def _load2d(dst: View, src: View, start: int, repeat: int, src_stride: int, dst_gap: int, transpose: bool,
            step: int = 1) -> Touch:  # fmt: skip
    first = start if step > 0 else start - (repeat - 1) * src_stride
    reads = span(src.data, src.start + first * FRACTAL, (repeat, FRACTAL), (src_stride * FRACTAL, 1))
    return Touch(reads, rows(dst, repeat, FRACTAL, FRACTAL * (1 + dst_gap)))


@footprint("mte.run_load2d_transposed")
def _load2dt(dst: View, src: View, start: int, repeat: int, src_stride: int, dst_gap: int, dst_fractal_gap: int,
             src_fractal_gap: int = 0) -> Touch:  # fmt: skip
    k0 = src.dtype.block
    parts = max(k0 // CUBE, CUBE // k0)
    square = parts * FRACTAL
    reads = span(
        src.data, src.start + start * square, (repeat, parts, FRACTAL),
        (src_stride * square, (1 + src_fractal_gap) * FRACTAL, 1),
    )  # fmt: skip
    strides = ((1 + dst_gap) * FRACTAL, (1 + dst_fractal_gap) * FRACTAL, 1)
    return Touch(reads, span(dst.data, dst.start, (repeat, parts, FRACTAL), strides))


def _map_rows(src: View, window: Any, low: int, high: int, first: int, blocks: int, width: int, at: int) -> list[Span]:
    """Rows ``low``..``high`` of ``blocks`` channel blocks of ``width`` channels; ``at`` bytes before block 0."""
    low, high = max(low, 0), min(high, window.h - 1)
    if high < low or blocks <= 0:
        return []
    line = window.w * width * src.dtype.bits // 8
    plane = window.h * line
    return span(src.data, src.start + at + first * plane + low * line, (blocks, (high - low + 1) * line), (plane, 1))


@footprint("load3d.run_load3d_v2")
def _load3d_v2(dst: View, src: View, window: Any, channels: int, m_start: int, k_start: int, m_ext: int, k_ext: int,
               pad_value: Any, to_l0b: bool, transpose: bool) -> Touch:  # fmt: skip
    if not m_ext or not k_ext:
        return Touch([], [])
    dtype = src.dtype
    c0, taps = dtype.block, window.kernel_h * window.kernel_w
    k0 = dst.dtype.block
    m_unit, k_unit = (k0, CUBE) if to_l0b or transpose else (CUBE, k0)
    m_unit = max(m_unit, CUBE)
    size = ceil_div(m_ext, m_unit) * m_unit * ceil_div(k_ext, k_unit) * k_unit * dtype.bits // 8
    last = min(m_start + m_ext, window.out_h * window.out_w) - 1
    low = m_start // window.out_w * window.stride_h - window.pads[2]
    high = last // window.out_w * window.stride_h - window.pads[2]
    reads: list[Span] = []
    full, rest = divmod(channels, c0)
    plane = window.h * window.w
    k_end = min(k_start + k_ext, taps * channels)
    for blocks, width, first_k, at in ((full, c0, 0, 0), (1, rest, full * taps * c0, full * plane * c0)):
        begin, end = max(k_start - first_k, 0), min(k_end - first_k, blocks * taps * width)
        if not width or end <= begin:
            continue
        first, after = begin // (taps * width), ceil_div(end, taps * width)
        tap_low, tap_high = 0, window.kernel_h - 1
        if after - first == 1:  # within one channel block only some rows of the filter
            tap_low = begin // width % taps // window.kernel_w
            tap_high = (end - 1) // width % taps // window.kernel_w
        reads += _map_rows(
            src, window, low + tap_low * window.dilation_h, high + tap_high * window.dilation_h, first, after - first,
            width, at * dtype.bits // 8,
        )  # fmt: skip
    return Touch(reads, run(dst, size))


@footprint("load3d.run_load3d_v1")
def _load3d_v1(dst: View, src: View, window: Any, c1_index: int, fetch_h: int, fetch_w: int, top: int, left: int,
               jump: int, mode: int, repeat: int, pad_value: Any, channels: int = 0,
               to_l0b: bool = False) -> Touch:  # fmt: skip
    writes = rows(dst, repeat, FRACTAL, FRACTAL * max(jump, 1))
    if not repeat or channels:  # few channels: any part of the map may be read
        return Touch(run(src, window.h * window.w * channels * src.dtype.bits // 8) if repeat else [], writes)
    taps = window.kernel_h * window.kernel_w
    tap = (c1_index * window.kernel_h + fetch_h) * window.kernel_w + fetch_w
    taps_used = tap + (np.arange(repeat) if mode == 0 else np.zeros(1, int))
    positions = np.arange(CUBE if mode == 0 else CUBE * repeat)
    y0, _ = load3d._walk(window, top, left, positions)
    c1, inner = np.divmod(taps_used, taps)
    dy = inner // window.kernel_w * window.dilation_h
    reads: list[Span] = []
    for block in np.unique(c1):
        mine = dy[c1 == block]
        reads += _map_rows(
            src, window, int(y0.min() + mine.min()), int(y0.max() + mine.max()), int(block), 1, src.dtype.block, 0
        )
    return Touch(reads, writes)


@footprint("scalar.run_get")
def _get(src: View) -> Touch:
    return Touch(run(src, src.dtype.size), [])


@footprint("scalar.run_set")
def _set(dst: View, value: Any) -> Touch:
    return Touch([], run(dst, dst.dtype.size))
