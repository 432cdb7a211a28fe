"""Bytes that the instructions of the vector unit touch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascend_sim.asc._sanitizer.footprints import Touch, footprint
from ascend_sim.asc._sanitizer.spans import Span, lane_spans, rows, run, span, table
from ascend_sim.isa import rearrange
from ascend_sim.isa.buffers import BLOCK, View
from ascend_sim.isa.lanes import Lanes, used_lanes
from ascend_sim.isa.layout import ceil_div
from ascend_sim.isa.vector import READS_DST


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
