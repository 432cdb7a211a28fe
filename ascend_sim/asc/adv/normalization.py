"""Root mean square normalisation."""

from __future__ import annotations

from typing import Any

from ascend_sim.asc.adv.activation import LANES, MOST_COLUMNS, MOST_REPEATS, fold_rows, over_rows
from ascend_sim.asc.adv.scratch import Scratch
from ascend_sim.asc.calls_rearrange import brcb
from ascend_sim.asc.calls_reduce import whole_reduce_sum
from ascend_sim.asc.calls_vector import add, adds, cast, div, mul, muls, sqrt
from ascend_sim.asc.params import BinaryRepeatParams, BrcbRepeatParams
from ascend_sim.asc.tensor import LocalTensor
from ascend_sim.isa.dtypes import float16, float32
from ascend_sim.isa.enums import RoundMode
from ascend_sim.isa.layout import ceil_div
from ascend_sim.isa.legality import InstructionError


def rmsnorm(
    dst: LocalTensor, src: LocalTensor, gamma: LocalTensor, epsilon: float, tiling: Any,
    temp_buffer: LocalTensor | None = None, basic_block: bool = False,
) -> None:  # fmt: skip
    """dst = src / sqrt(mean(src^2) + epsilon) x gamma over rows of ``tiling.h_length`` elements; ``tiling.b_length`` x
    ``tiling.s_length`` rows. float32, or half computed in float32."""
    call = "rmsnorm"
    if src.dtype not in (float16, float32) or dst.dtype is not src.dtype or gamma.dtype is not src.dtype:
        given = f"{dst.dtype}, {src.dtype}, {gamma.dtype}"
        raise InstructionError(call, "data types", given, "all half or all float32")
    rows, columns = int(tiling.b_length) * int(tiling.s_length), int(tiling.h_length)
    if rows < 1 or columns < 1 or columns > MOST_COLUMNS or columns * src.dtype.size % 32:
        rule = f"rows of 32-byte multiples, at most {MOST_COLUMNS} elements"
        raise InstructionError(call, "tiling", f"{rows} x {columns}", rule)
    true_columns = int(tiling.original_h_length) or columns
    for first in range(0, rows, MOST_REPEATS):
        part = min(MOST_REPEATS, rows - first)
        at = first * columns
        _rows(call, dst[at:], src[at:], gamma, epsilon, part, columns, true_columns, temp_buffer)


def _rows(
    call: str, dst: LocalTensor, src: LocalTensor, gamma: LocalTensor, epsilon: float, rows: int, columns: int,
    true_columns: int, temp_buffer: LocalTensor | None,
) -> None:  # fmt: skip
    scratch = Scratch(call, temp_buffer)
    n, eights = rows * columns, ceil_div(rows, 8)
    half = src.dtype is float16
    x = scratch.take(float32, n) if half else src
    scale = scratch.take(float32, columns) if half else gamma
    out = x if half else dst
    squares, folded = scratch.take(float32, n), scratch.take(float32, rows * LANES)
    values, blocks = scratch.take(float32, eights * 8), scratch.take(float32, eights * 64)
    if half:
        cast(x, src, RoundMode.CAST_NONE, n)
        cast(scale, gamma, RoundMode.CAST_NONE, columns)
    mul(squares, x, x, n)
    fold_rows(add, squares, folded, rows, columns)
    whole_reduce_sum(values, folded, min(LANES, columns), rows, 1, 1, 8)
    muls(values, values, 1.0 / true_columns, eights * 8)
    adds(values, values, epsilon, eights * 8)
    sqrt(values, values, eights * 8)
    brcb(blocks, values, eights, BrcbRepeatParams(1, 8))
    over_rows(div, out, x, blocks, rows, columns)
    stride = columns // 8
    for first in range(0, columns, LANES):
        params = BinaryRepeatParams(1, 1, 1, stride, stride, 0)
        mul(out[first:], out[first:], scale[first:], min(LANES, columns - first), rows, params)
    if half:
        cast(dst, out, RoundMode.CAST_NONE, n)
