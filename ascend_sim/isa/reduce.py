"""Semantics of the reducing vector instructions.

Order of sums (asc-devkit, reduction notes): inside a repeat or block a binary tree over neighbours. Partial sums of
half lanes are kept in float32 and rounded once, saturating where the chip's half arithmetic saturates.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.isa.buffers import View
from ascend_sim.isa.dtypes import DataType, float16, float_max
from ascend_sim.isa.enums import ReduceOrder
from ascend_sim.isa.instr import Pipe
from ascend_sim.isa.lanes import Lanes, active, compute, finish, read_lanes, used_lanes
from ascend_sim.isa.rows import instruction, observed

Array = NDArray[Any]
V = Pipe.V


def tree_sum(values: Array, limit: float | None = None) -> Array:
    """Sum over the last axis, neighbours first: ((x0 + x1) + (x2 + x3)) + ... ``limit`` saturates each partial sum."""
    n = values.shape[-1]
    size = 1 << max(n - 1, 0).bit_length()
    if size != n:
        values = np.concatenate([values, np.zeros((*values.shape[:-1], size - n), values.dtype)], -1)
    while values.shape[-1] > 1:
        values = values[..., 0::2] + values[..., 1::2]
        if limit is not None:
            values = np.clip(values, -limit, limit)
    return values[..., 0]


def _limit(dtype: DataType, saturate: bool) -> float | None:
    return float_max(float16) if saturate and dtype is float16 else None


def masked(src: View, lanes: Lanes, fill: Any) -> Array:
    """(repeats, used) source lanes in compute type; inactive lanes hold ``fill``."""
    values = compute(read_lanes(src, lanes, 1), src.dtype)
    on = active(lanes)
    return values if on is None else np.where(on, values, values.dtype.type(fill))


@instruction(
    "vcadd", "whole_reduce_sum reduce_sum", V, "one sum per repeat",
    "dst is aligned to its element", "dst repeat stride counts elements",
)  # fmt: skip
def whole_sum(dst: View, src: View, lanes: Lanes, saturate: bool) -> None:
    with np.errstate(all="ignore"):
        sums = finish(tree_sum(masked(src, lanes, 0), _limit(dst.dtype, saturate)), dst.dtype, saturate)
    _scatter(dst, sums[:, None], lanes.rep[0])


def _scatter(dst: View, results: Array, stride: int) -> None:
    """Write row r of ``results`` at element r * stride; later repeats win where they overlap."""
    n, width = results.shape
    size = dst.dtype.size
    if n == 0:
        return
    if stride >= width or n == 1:
        dst.strided((n, width), (stride * size, size))[...] = results
        return
    for r in range(n):
        dst.strided((width,), (size,), r * stride * size)[...] = results[r]


@instruction(
    "vcmax", "whole_reduce_max reduce_max", V, "greatest value of each repeat and its index, lowest index wins",
    "dst repeat stride counts (value, index) pairs, or elements when only one of them is written",
)  # fmt: skip
def whole_max(dst: View, src: View, lanes: Lanes, order: int) -> None:
    _whole_extreme(dst, src, lanes, order, True)


@instruction(
    "vcmin", "whole_reduce_min reduce_min", V, "least value of each repeat and its index, lowest index wins",
    "dst repeat stride counts (value, index) pairs, or elements when only one of them is written",
)  # fmt: skip
def whole_min(dst: View, src: View, lanes: Lanes, order: int) -> None:
    _whole_extreme(dst, src, lanes, order, False)


def extremes(values: Array, greatest: bool) -> tuple[Array, Array]:
    """(value, lowest index) of the extreme of each row."""
    index = values.argmax(-1) if greatest else values.argmin(-1)
    return np.take_along_axis(values, index[..., None], -1)[..., 0], index


def _whole_extreme(dst: View, src: View, lanes: Lanes, order: int, greatest: bool) -> None:
    fill = -np.inf if greatest else np.inf
    value, index = extremes(masked(src, lanes, fill), greatest)
    value = value.astype(dst.dtype.np)
    word = index.astype(np.uint16 if dst.dtype.size == 2 else np.uint32).view(dst.dtype.np)
    if order == ReduceOrder.ORDER_ONLY_VALUE:
        _scatter(dst, value[:, None], lanes.rep[0])
    elif order == ReduceOrder.ORDER_ONLY_INDEX:
        wide = View(dst.data, dst.start, dst.dtype)
        _scatter(wide, word[:, None], lanes.rep[0])
    else:
        pair = (value, word) if order == ReduceOrder.ORDER_VALUE_INDEX else (word, value)
        _scatter(dst, np.stack(pair, -1), lanes.rep[0] * 2)


@instruction(
    "vcgadd", "block_reduce_sum", V, "one sum per 32-byte block, eight per repeat",
    "dst repeat stride counts eight elements", "dst is aligned to eight elements",
)  # fmt: skip
def block_sum(dst: View, src: View, lanes: Lanes, saturate: bool) -> None:
    with np.errstate(all="ignore"):
        blocks = masked(src, lanes, 0).reshape(lanes.repeats, -1, src.dtype.block)
        _block_results(dst, lanes, finish(tree_sum(blocks, _limit(dst.dtype, saturate)), dst.dtype, saturate), src)


@instruction("vcgmax", "block_reduce_max", V, "greatest value of each 32-byte block", "dst repeat stride counts eight")
def block_max(dst: View, src: View, lanes: Lanes, saturate: bool) -> None:
    blocks = masked(src, lanes, -np.inf).reshape(lanes.repeats, -1, src.dtype.block)
    _block_results(dst, lanes, blocks.max(-1).astype(dst.dtype.np), src)


@instruction("vcgmin", "block_reduce_min", V, "least value of each 32-byte block", "dst repeat stride counts eight")
def block_min(dst: View, src: View, lanes: Lanes, saturate: bool) -> None:
    blocks = masked(src, lanes, np.inf).reshape(lanes.repeats, -1, src.dtype.block)
    _block_results(dst, lanes, blocks.min(-1).astype(dst.dtype.np), src)


def _block_results(dst: View, lanes: Lanes, results: Array, src: View) -> None:
    """Eight results per repeat; blocks without an active lane keep the destination (910B's behaviour)."""
    size = dst.dtype.size
    target = dst.strided((lanes.repeats, results.shape[1]), (lanes.rep[0] * 8 * size, size))
    on = active(lanes)
    if on is None:
        target[...] = results
    else:
        np.copyto(target, results, where=on.reshape(lanes.repeats, -1, src.dtype.block).any(-1))


@instruction(
    "vcpadd", "pair_reduce_sum", V, "sum of each pair of neighbouring lanes, half a repeat of results",
    "dst repeat stride counts 128 bytes",
)  # fmt: skip
def pair_sum(dst: View, src: View, lanes: Lanes, saturate: bool) -> None:
    with np.errstate(all="ignore"):
        values = masked(src, lanes, 0)
        sums = finish(values[:, 0::2] + values[:, 1::2], dst.dtype, saturate)
    on = active(lanes)
    size = dst.dtype.size
    target = dst.strided((lanes.repeats, used_lanes(lanes) // 2), (lanes.rep[0] * 128, size))
    if on is None:
        target[...] = sums
    else:
        np.copyto(target, sums, where=on[:, 0::2] | on[:, 1::2])


def tensor_sum(values: Array, dtype: DataType, width: int, sequential: bool, saturate: bool) -> Any:
    """Sum of contiguous elements as the tensor-level reduce does it: a tree inside each repeat of ``width``, then the
    repeat results one after the other (910B, "first n" form) or again by trees (the other chips)."""
    with np.errstate(all="ignore"):
        sums = _level(compute(values, dtype), dtype, width, saturate)
        if sequential:
            total = compute(sums[:1], dtype)
            for value in compute(sums[1:], dtype):
                total = compute(finish(total + value, dtype, saturate), dtype)
            return finish(total, dtype, saturate)[0]
        while len(sums) > 1:
            sums = _level(compute(sums, dtype), dtype, width, saturate)
        return sums[0]


@observed
def run_tensor(
    dst: View, src: View, op: str, count: int, lanes: Lanes | None, width: int, sequential: bool, saturate: bool,
    index: bool,
) -> None:  # fmt: skip
    """Reduce ``count`` contiguous elements, or the ``lanes`` of a source; ``index`` writes the position behind an
    extreme."""
    if lanes is None:
        flat = src.flat(count)
    else:
        flat = masked(src, lanes, 0.0 if op == "vcadd" else -np.inf if op == "vcmax" else np.inf)
    target = dst.flat(2 if index else 1)
    if op == "vcadd":
        step = width if lanes is None else flat.shape[1]
        target[0] = tensor_sum(flat.reshape(-1), src.dtype, step, sequential and lanes is None, saturate)
        return
    value, where = extremes(np.asarray(flat).reshape(1, -1), op == "vcmax")
    target[0] = value[0]
    if index:
        word = np.asarray([where[0]]).astype(np.uint16 if src.dtype.size == 2 else np.uint32)
        target[1:2] = word.view(dst.dtype.np)


def _level(values: Array, dtype: DataType, width: int, saturate: bool) -> Array:
    groups = -(-len(values) // width)
    padded = np.zeros(groups * width, values.dtype)
    padded[: len(values)] = values
    return finish(tree_sum(padded.reshape(groups, width), _limit(dtype, saturate)), dtype, saturate)
