"""Which bytes each instruction reads and writes: one function per semantics of `ascend_sim.isa`, same parameters."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ascend_sim.asc._sanitizer.spans import Span, lane_spans, rows, run, span, table
from ascend_sim.isa import load3d, rearrange
from ascend_sim.isa.buffers import BLOCK, FRACTAL, View
from ascend_sim.isa.lanes import Lanes, used_lanes
from ascend_sim.isa.layout import CUBE, ceil_div
from ascend_sim.isa.vector import READS_DST


class Touch(NamedTuple):
    """Bytes of one execution. ``atomic``: the writes combine with what is there."""

    reads: list[Span]
    writes: list[Span]
    atomic: bool = False


Footprint = Callable[..., Touch]
FOOTPRINTS: dict[str, Footprint] = {}


def footprint(*names: str) -> Callable[[Footprint], Footprint]:
    """Register the function below for the semantics ``module.function``."""

    def add(function: Footprint) -> Footprint:
        FOOTPRINTS.update(dict.fromkeys(names, function))
        return function

    return add


# ---- vector unit


@footprint("vector.run_elementwise")
def _elementwise(op: str, dst: View, sources: Sequence[View], lanes: Lanes, *rest: Any, **more: Any) -> Touch:
    reads = [s for k, source in enumerate(sources) for s in lane_spans(source, lanes, k + 1)]
    writes = lane_spans(dst, lanes, 0)
    return Touch(reads + writes if op in READS_DST else reads, writes)


@footprint("vector.run_duplicate")
def _duplicate(dst: View, scalar: Any, lanes: Lanes) -> Touch:
    return Touch([], lane_spans(dst, lanes, 0))


@footprint("vector.run_cast")
def _cast(dst: View, src: View, mode: int, lanes: Lanes, *rest: Any) -> Touch:
    return Touch(lane_spans(src, lanes, 1), lane_spans(dst, lanes, 0))


@footprint("vector.run_cast_int4")
def _cast_int4(dst: View, src: View, mode: int, count: int) -> Touch:
    return Touch(run(src, count * src.dtype.bits // 8), run(dst, count * dst.dtype.bits // 8))


@footprint("vector.run_copy")
def _vcopy(dst: View, src: View, lanes: Lanes) -> Touch:
    return Touch(lane_spans(src, lanes, 1), lane_spans(dst, lanes, 0))


def _bits(dst: View, lanes: Lanes) -> list[Span]:
    return run(dst, ceil_div(lanes.n, 8) if lanes.n >= 0 else lanes.repeats * lanes.width // 8)


@footprint("rearrange.run_compare")
def _compare(dst: View, a: View, b: View, mode: int, lanes: Lanes) -> Touch:
    return Touch([*lane_spans(a, lanes, 1), *lane_spans(b, lanes, 2)], _bits(dst, lanes))


@footprint("rearrange.run_compare_scalar")
def _compare_scalar(dst: View, a: View, scalar: Any, mode: int, lanes: Lanes) -> Touch:
    return Touch(lane_spans(a, lanes, 1), _bits(dst, lanes))


@footprint("rearrange.run_select_masked")
def _select(dst: View, mask: View, count: int, a: View, b: View | None, scalar: Any, mode: int, lanes: Lanes,
            width: int) -> Touch:  # fmt: skip
    reads = [*run(mask, ceil_div(count, 8)), *lane_spans(a, lanes, 1)]
    return Touch(reads + (lane_spans(b, lanes, 2) if b is not None else []), lane_spans(dst, lanes, 0))


@footprint("rearrange.run_move_register")
def _move_register(dst: View, src: View, nbytes: int) -> Touch:
    return Touch(run(src, nbytes), run(dst, nbytes))


@footprint("rearrange.run_brcb")
def _brcb(dst: View, src: View, repeats: int, dst_blk: int, dst_rep: int) -> Touch:
    writes = span(dst.data, dst.start, (repeats, 8, BLOCK), (dst_rep * BLOCK, dst_blk * BLOCK, 1))
    return Touch(run(src, repeats * 8 * src.dtype.size), writes)


@footprint("rearrange.run_gather_table")
def _gather(dst: View, src: View, offsets: View, base: int, lanes: Lanes, limit: int) -> Touch:
    where = rearrange.gather_offsets(dst, offsets, lanes).astype(np.int64) + base
    inside = where[(where >= 0) & (where + src.dtype.size <= limit)]
    count = lanes.n if lanes.n >= 0 else lanes.repeats * lanes.width
    return Touch([*run(offsets, count * 4), *table(src, inside, src.dtype.size)], lane_spans(dst, lanes, 0))


@footprint("rearrange.run_gatherb_table")
def _gatherb(dst: View, src: View, offsets: View, repeats: int, dst_blk: int, dst_rep: int, limit: int) -> Touch:
    where = offsets.flat(repeats * 8).astype(np.int64)
    inside = where[(where >= 0) & (where + BLOCK <= limit)]
    writes = span(dst.data, dst.start, (repeats, 8, BLOCK), (dst_rep * BLOCK, dst_blk * BLOCK, 1))
    return Touch([*run(offsets, repeats * 32), *table(src, inside, BLOCK)], writes)


@footprint("rearrange.run_gather_mask_rows")
def _gather_mask(dst: View, src: View, pattern: View | int, repeats: int, elements: int, src_strides: tuple[int, int],
                 pattern_stride: int) -> Touch:  # fmt: skip
    blocks = ceil_div(elements, src.dtype.block)
    strides = (src_strides[0] * BLOCK, src_strides[1] * BLOCK, 1)
    reads = span(src.data, src.start, (repeats, blocks, BLOCK), strides)
    if isinstance(pattern, int):
        kept = int(rearrange.pattern_bits(pattern, elements).sum()) * repeats
    else:
        packed = ceil_div(elements, 8)
        reads = reads + rows(pattern, repeats, packed, pattern_stride * BLOCK)
        starts = (pattern.start + r * pattern_stride * BLOCK for r in range(repeats))
        bits = [rearrange.unpack_bits(pattern.data[at : at + packed], elements) for at in starts]
        kept = int(sum(int(b.sum()) for b in bits))
    return Touch(reads, run(dst, kept * dst.dtype.size))


@footprint("rearrange.run_nchwconv")
def _nchwconv(dst: Sequence[View], src: Sequence[View], repeats: int, dst_rep: int, src_rep: int, dst_high: bool,
              src_high: bool) -> Touch:  # fmt: skip
    size = src[0].dtype.size
    take = 16 if size == 1 else BLOCK
    src_at, dst_at = (16 if size == 1 and high else 0 for high in (src_high, dst_high))
    src_step, dst_step = (0 if repeats == 1 else step * BLOCK for step in (src_rep, dst_rep))
    return Touch(
        [s for v in src for s in span(v.data, v.start + src_at, (repeats, take), (src_step, 1))],
        [s for v in dst for s in span(v.data, v.start + dst_at, (repeats, take), (dst_step, 1))],
    )


@footprint("rearrange.run_transpose")
def _transpose(dst: View, src: View) -> Touch:
    return Touch(run(src, 512), run(dst, 512))


def _results(dst: View, lanes: Lanes, width: int, stride: int) -> list[Span]:
    size = dst.dtype.size
    return span(dst.data, dst.start, (lanes.repeats, width * size), (stride * size, 1))


@footprint("reduce.whole_sum")
def _whole_sum(dst: View, src: View, lanes: Lanes, saturate: bool) -> Touch:
    return Touch(lane_spans(src, lanes, 1), _results(dst, lanes, 1, lanes.rep[0]))


@footprint("reduce.whole_max", "reduce.whole_min")
def _whole_extreme(dst: View, src: View, lanes: Lanes, order: int) -> Touch:
    width = 2 if order in (0, 1) else 1
    return Touch(lane_spans(src, lanes, 1), _results(dst, lanes, width, lanes.rep[0] * width))


@footprint("reduce.block_sum", "reduce.block_max", "reduce.block_min")
def _block(dst: View, src: View, lanes: Lanes, saturate: bool = False) -> Touch:
    width = used_lanes(lanes) // src.dtype.block
    return Touch(lane_spans(src, lanes, 1), _results(dst, lanes, width, lanes.rep[0] * 8))


@footprint("reduce.pair_sum")
def _pair(dst: View, src: View, lanes: Lanes, saturate: bool) -> Touch:
    writes = _results(dst, lanes, used_lanes(lanes) // 2, lanes.rep[0] * 128 // dst.dtype.size)
    return Touch(lane_spans(src, lanes, 1), writes)


@footprint("reduce.run_tensor")
def _tensor(dst: View, src: View, op: str, count: int, lanes: Lanes | None, width: int, sequential: bool,
            saturate: bool, index: bool) -> Touch:  # fmt: skip
    reads = run(src, count * src.dtype.size) if lanes is None else lane_spans(src, lanes, 1)
    return Touch(reads, run(dst, (2 if index else 1) * dst.dtype.size))


# ---- transfers


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


# ---- cube


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


# ---- scalar unit


@footprint("scalar.run_get")
def _get(src: View) -> Touch:
    return Touch(run(src, src.dtype.size), [])


@footprint("scalar.run_set")
def _set(dst: View, value: Any) -> Touch:
    return Touch([], run(dst, dst.dtype.size))


# ---- compositions


@footprint("composite.run_mul_cast", "composite.run_add_relu_cast", "composite.run_sub_relu_cast",
           "composite.run_add_deq_relu")  # fmt: skip
def _two_sources(dst: View, a: View, b: View, lanes: Lanes, *rest: Any) -> Touch:
    return Touch([*lane_spans(a, lanes, 1), *lane_spans(b, lanes, 2)], lane_spans(dst, lanes, 0))


@footprint("rearrange.run_arange")
def _arange(dst: View, first: Any, lanes: Lanes) -> Touch:
    return Touch([], lane_spans(dst, lanes, 0))


@footprint("rearrange.run_scatter")
def _scatter(dst: View, src: View, offsets: View, base: int, lanes: Lanes, limit: int) -> Touch:
    where = rearrange.gather_offsets(src, offsets, lanes).astype(np.int64) + base
    inside = where[(where >= 0) & (where + dst.dtype.size <= limit)]
    count = lanes.n if lanes.n >= 0 else lanes.repeats * lanes.width
    return Touch([*run(offsets, count * 4), *lane_spans(src, lanes, 1)], table(dst, inside, dst.dtype.size))


# ---- semantics without a footprint of their own


class _Spy(View):
    """A view that notes what is taken from it."""

    def flat(self, n: int) -> Any:
        _seen.log.append((self, run(self, n * self.dtype.bits // 8)))
        return super().flat(n)

    def strided(self, shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> Any:
        size = self.dtype.size
        _seen.log.append((self, span(self.data, self.start + offset, (*shape, size), (*strides, 1))))
        return super().strided(shape, strides, offset)


class _Seen(threading.local):
    log: list[tuple[View, list[Span]]] = []  # noqa: RUF012 (replaced before each use)


_seen = _Seen()


def spied(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Touch]:
    """Run semantics that have no footprint: what they take from their first view (or list of views), and what changes
    in its memory, counts as written, the rest as read."""
    _seen.log = []
    targets: list[View] = []

    def spy(value: Any) -> Any:
        if isinstance(value, View):
            if not targets:
                targets.append(value)
            return _Spy(*value)
        if isinstance(value, list | tuple) and value and all(isinstance(v, View) for v in value):
            if not targets:
                targets.extend(value)
            return [_Spy(*v) for v in value]
        return value

    given = [spy(a) for a in args]
    named = {k: spy(v) for k, v in kwargs.items()}
    memories = {id(v.data): (v.data, v.data.copy()) for v in targets}
    result = function(*given, **named)
    reads: list[Span] = []
    writes: list[Span] = []
    for view, spans in _seen.log:
        written = any(view.data is t.data and view.start == t.start for t in targets)
        (writes if written else reads).extend(spans)
    for data, before in memories.values():
        changed = np.flatnonzero(data != before)
        if len(changed):
            writes.append(Span(data, 0, (), (), at=changed))
    return result, Touch(reads, writes)
