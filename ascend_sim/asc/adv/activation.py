"""Softmax over the rows of a tensor."""

from __future__ import annotations

from typing import Any

from ascend_sim.asc.adv.scratch import Scratch, rows_of
from ascend_sim.asc.calls_rearrange import brcb
from ascend_sim.asc.calls_reduce import whole_reduce_max, whole_reduce_sum
from ascend_sim.asc.calls_vector import add, adds, cast, div, exp, sub
from ascend_sim.asc.calls_vector import max as vector_max
from ascend_sim.asc.params import BinaryRepeatParams, BrcbRepeatParams, UnaryRepeatParams
from ascend_sim.asc.tensor import LocalTensor
from ascend_sim.isa.dtypes import float16, float32
from ascend_sim.isa.enums import ReduceOrder, RoundMode
from ascend_sim.isa.layout import ceil_div
from ascend_sim.isa.legality import InstructionError

LANES = 64  # float32 lanes of a repeat
MOST_REPEATS = 248  # a multiple of 8 below 256: brcb takes eight rows at a time
MOST_COLUMNS = 255 * 8  # the repeat stride of a row counts 32-byte blocks


def fold_rows(work: Any, src: LocalTensor, dst: LocalTensor, rows: int, columns: int) -> None:
    """dst (rows x 64) = ``work`` over the 64-column pieces of src (rows x columns)."""
    stride = columns // 8
    head = min(LANES, columns)
    adds(dst, src, 0.0, head, rows, UnaryRepeatParams(1, 1, 8, stride))
    for first in range(LANES, columns, LANES):
        mask = min(LANES, columns - first)
        work(dst, dst, src[first:], mask, rows, BinaryRepeatParams(1, 1, 1, 8, 8, stride))


def over_rows(work: Any, dst: LocalTensor, src: LocalTensor, per_row: LocalTensor, rows: int, columns: int) -> None:
    """dst = src ``work`` the row's value; ``per_row`` holds one 32-byte block per row."""
    stride = columns // 8
    for first in range(0, columns, LANES):
        mask = min(LANES, columns - first)
        params = BinaryRepeatParams(1, 1, 0, stride, stride, 1)
        work(dst[first:], src[first:], per_row, mask, rows, params)


def softmax(
    dst: LocalTensor, sum: LocalTensor, max: LocalTensor, src: LocalTensor, tiling: Any = None,
    temp_buffer: LocalTensor | None = None, reuse_source: bool = False, basic_block: bool = False,
    data_format_nz: bool = False,
) -> None:  # fmt: skip
    """dst = exp(src - max) / sum over the last axis. ``sum`` and ``max`` get one 32-byte block per row, filled with the
    row's value. float32, or half computed in float32. Shapes come from the tiling or the source's shape info."""
    call = "softmax"
    if data_format_nz:
        raise InstructionError(call, "data_format_nz", True, "only ND tensors are supported")
    if src.dtype not in (float16, float32) or dst.dtype is not src.dtype:
        raise InstructionError(call, "data types", f"{dst.dtype}, {src.dtype}", "both half or both float32")
    rows, columns = rows_of(call, src, getattr(tiling, "src_m", 0), getattr(tiling, "src_k", 0))
    if columns > MOST_COLUMNS:
        raise InstructionError(call, "columns", columns, f"at most {MOST_COLUMNS}")
    for first in range(0, rows, MOST_REPEATS):
        part = min(MOST_REPEATS, rows - first)
        at, per_row = first * columns, first * sum.dtype.block
        _rows(call, dst[at:], sum[per_row:], max[per_row:], src[at:], part, columns, temp_buffer)


def _rows(
    call: str, dst: LocalTensor, total: LocalTensor, top: LocalTensor, src: LocalTensor, rows: int, columns: int,
    temp_buffer: LocalTensor | None,
) -> None:  # fmt: skip
    scratch = Scratch(call, temp_buffer)
    wide = scratch.take(float32, rows * columns) if src.dtype is float16 else dst
    start = wide if src.dtype is float16 else src
    if src.dtype is float16:
        cast(wide, src, RoundMode.CAST_NONE, rows * columns)
    folded = scratch.take(float32, rows * LANES)
    eights = ceil_div(rows, 8)
    values, blocks = scratch.take(float32, eights * 8), scratch.take(float32, eights * 64)
    narrow = None
    if top.dtype is float16:
        narrow = scratch.take(float16, eights * 8), scratch.take(float16, eights * 128)
    head = min(LANES, columns)
    fold_rows(vector_max, start, folded, rows, columns)
    whole_reduce_max(values, folded, head, rows, 1, 1, 8, ReduceOrder.ORDER_ONLY_VALUE)
    _spread(top, values, blocks, narrow, rows)
    over_rows(sub, wide, start, blocks, rows, columns)
    exp(wide, wide, rows * columns)
    fold_rows(add, wide, folded, rows, columns)
    whole_reduce_sum(values, folded, head, rows, 1, 1, 8)
    _spread(total, values, blocks, narrow, rows)
    over_rows(div, wide, wide, blocks, rows, columns)
    if src.dtype is float16:
        cast(dst, wide, RoundMode.CAST_NONE, rows * columns)


def _spread(
    result: LocalTensor, values: LocalTensor, blocks: LocalTensor, narrow: tuple[LocalTensor, LocalTensor] | None,
    rows: int,
) -> None:  # fmt: skip
    """One block per row: for the computation in ``blocks``, for the caller in ``result``."""
    eights = ceil_div(rows, 8)
    brcb(blocks, values, eights, BrcbRepeatParams(1, 8))
    if narrow is None:
        adds(result, blocks, 0.0, rows * 8)
        return
    halves, half_blocks = narrow
    cast(halves, values, RoundMode.CAST_NONE, eights * 8)
    brcb(half_blocks, halves, eights, BrcbRepeatParams(1, 8))
    adds(result, half_blocks, 0.0, rows * 16)
