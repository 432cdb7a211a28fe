"""Reducing vector instructions, per repeat, per block, per pair, and over whole tensors."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ascend_sim.asc.calls_vector import issue, mask_of, operand
from ascend_sim.asc.checked import MAX_REPEATS, Checked, Operand, check_operand, lane_span, mask_lanes
from ascend_sim.asc.machine import current
from ascend_sim.asc.tensor import LocalTensor
from ascend_sim.isa import reduce
from ascend_sim.isa.buffers import REPEAT
from ascend_sim.isa.dtypes import DataType
from ascend_sim.isa.enums import ReduceOrder
from ascend_sim.isa.instr import VectorWork
from ascend_sim.isa.lanes import Lanes, Mask
from ascend_sim.isa.layout import ceil_div
from ascend_sim.isa.legality import ChipRules, InstructionError

# results per repeat and unit of the destination repeat stride, in elements
_SHAPES = {"vcadd": (1, 1), "vcgadd": (8, 8), "vcgmax": (8, 8), "vcgmin": (8, 8)}


@lru_cache(maxsize=1 << 15)
def _check(
    rules: ChipRules, call: str, op: str, dst: Operand, src: Operand, mask: Mask, counter: bool, repeat: int,
    dst_rep: int, src_blk: int, src_rep: int, results: int, unit: int, align: int,
) -> Checked:  # fmt: skip
    if dst.dtype is not src.dtype:
        raise InstructionError(call, "data types", f"{dst.dtype}, {src.dtype}", "must be the same")
    rules.require(call, op, src.dtype)
    width = REPEAT // src.dtype.size
    if counter:
        total = mask if isinstance(mask, int) else mask[0]
        repeats, used = ceil_div(total, width), min(total, width)
    else:
        if not 0 <= repeat <= MAX_REPEATS:
            raise InstructionError(call, "repeat_time", repeat, f"must lie in 0..{MAX_REPEATS}")
        repeats, used, total = repeat, mask_lanes(rules, call, mask, width), -1
    for name, value in (("src_blk_stride", src_blk), ("src_rep_stride", src_rep), ("dst_rep_stride", dst_rep)):
        rules.require_range(call, name, value, 0, 65535 if name != "src_blk_stride" else 255)
    check_operand(rules, call, src, lane_span(src.dtype, used, repeats, src_blk, src_rep))
    nbytes = ((repeats - 1) * dst_rep * unit + results) * dst.dtype.size if repeats else 0
    rules.require_memory(call, "dst", dst.mem, "UB")
    rules.require_span(call, "dst", "UB", dst.addr, nbytes, dst.end, align)
    lanes = Lanes(-1, repeats, width, mask if total < 0 else width, total, (1, src_blk), (dst_rep, src_rep))
    if not repeats:
        return Checked((), lanes)
    return Checked((VectorWork(op, src.dtype.name, repeats, counter),), lanes)


def _reduce(
    call: str, op: str, dst: LocalTensor, src: LocalTensor, mask: Any, repeat: int, dst_rep: int, src_blk: int,
    src_rep: int, is_set_mask: bool, results: int, unit: int, align: int,
) -> Lanes | None:  # fmt: skip
    """Check and record; the lanes when values are wanted."""
    core = current()
    selected, counter = mask_of(core, call, mask, is_set_mask)
    checked = _check(
        core.rules, call, op, operand("dst", dst, call), operand("src", src, call), selected, counter, int(repeat),
        int(dst_rep), int(src_blk), int(src_rep), results, unit, align,
    )  # fmt: skip
    issue(core, checked, dst, src)
    return checked.lanes if core.memory is not None and checked.lanes.repeats else None


def whole_reduce_sum(
    dst: LocalTensor, src: LocalTensor, mask: Any, repeat_time: int, dst_rep_stride: int, src_blk_stride: int,
    src_rep_stride: int, is_set_mask: bool = True,
) -> None:  # fmt: skip
    """One sum per repeat (vcadd); ``dst_rep_stride`` in elements."""
    lanes = _reduce(
        "whole_reduce_sum", "vcadd", dst, src, mask, repeat_time, dst_rep_stride, src_blk_stride, src_rep_stride,
        is_set_mask, 1, 1, dst.dtype.size,
    )  # fmt: skip
    if lanes is not None:
        core = current()
        reduce.whole_sum(core.view(dst), core.view(src), lanes, core.rules.half_saturates)


def repeat_reduce_sum(
    dst: LocalTensor, src: LocalTensor, repeat_time: int, mask: Any, dst_blk_stride: int, src_blk_stride: int,
    dst_rep_stride: int, src_rep_stride: int, is_set_mask: bool = True,
) -> None:  # fmt: skip
    """`whole_reduce_sum` with another order of arguments."""
    whole_reduce_sum(dst, src, mask, repeat_time, dst_rep_stride, src_blk_stride, src_rep_stride, is_set_mask)


def _whole_extreme(
    call: str, op: str, dst: LocalTensor, src: LocalTensor, mask: Any, repeat: int, dst_rep: int, src_blk: int,
    src_rep: int, order: int, is_set_mask: bool,
) -> None:  # fmt: skip
    width = 2 if order in (ReduceOrder.ORDER_VALUE_INDEX, ReduceOrder.ORDER_INDEX_VALUE) else 1
    lanes = _reduce(
        call, op, dst, src, mask, repeat, dst_rep, src_blk, src_rep, is_set_mask, width, width, width * dst.dtype.size
    )
    if lanes is not None:
        core = current()
        function = reduce.whole_max if op == "vcmax" else reduce.whole_min
        function(core.view(dst), core.view(src), lanes, order)


def whole_reduce_max(
    dst: LocalTensor, src: LocalTensor, mask: Any, repeat_time: int, dst_rep_stride: int, src_blk_stride: int,
    src_rep_stride: int, order: ReduceOrder = ReduceOrder.ORDER_VALUE_INDEX, is_set_mask: bool = True,
) -> None:  # fmt: skip
    """Greatest value of each repeat and its index (vcmax); ``dst_rep_stride`` in results (pairs or elements)."""
    _whole_extreme(
        "whole_reduce_max", "vcmax", dst, src, mask, repeat_time, dst_rep_stride, src_blk_stride, src_rep_stride,
        order, is_set_mask,
    )  # fmt: skip


def whole_reduce_min(
    dst: LocalTensor, src: LocalTensor, mask: Any, repeat_time: int, dst_rep_stride: int, src_blk_stride: int,
    src_rep_stride: int, order: ReduceOrder = ReduceOrder.ORDER_VALUE_INDEX, is_set_mask: bool = True,
) -> None:  # fmt: skip
    """Least value of each repeat and its index (vcmin)."""
    _whole_extreme(
        "whole_reduce_min", "vcmin", dst, src, mask, repeat_time, dst_rep_stride, src_blk_stride, src_rep_stride,
        order, is_set_mask,
    )  # fmt: skip


def _block(
    call: str, op: str, dst: LocalTensor, src: LocalTensor, repeat: int, mask: Any, dst_rep: int, src_blk: int,
    src_rep: int, is_set_mask: bool,
) -> None:  # fmt: skip
    lanes = _reduce(
        call, op, dst, src, mask, repeat, dst_rep, src_blk, src_rep, is_set_mask, 8, 8, 8 * dst.dtype.size
    )
    if lanes is not None:
        core = current()
        function = {"vcgadd": reduce.block_sum, "vcgmax": reduce.block_max, "vcgmin": reduce.block_min}[op]
        function(core.view(dst), core.view(src), lanes, core.rules.half_saturates)


def block_reduce_sum(
    dst: LocalTensor, src: LocalTensor, repeat: int, mask: Any, dst_rep_stride: int, src_blk_stride: int,
    src_rep_stride: int, is_set_mask: bool = True,
) -> None:  # fmt: skip
    """One sum per 32-byte block, eight per repeat (vcgadd); ``dst_rep_stride`` in eights of elements."""
    strides = (dst_rep_stride, src_blk_stride, src_rep_stride)
    _block("block_reduce_sum", "vcgadd", dst, src, repeat, mask, *strides, is_set_mask)


def block_reduce_max(
    dst: LocalTensor, src: LocalTensor, repeat: int, mask: Any, dst_rep_stride: int, src_blk_stride: int,
    src_rep_stride: int, is_set_mask: bool = True,
) -> None:  # fmt: skip
    """Greatest value of each 32-byte block (vcgmax)."""
    strides = (dst_rep_stride, src_blk_stride, src_rep_stride)
    _block("block_reduce_max", "vcgmax", dst, src, repeat, mask, *strides, is_set_mask)


def block_reduce_min(
    dst: LocalTensor, src: LocalTensor, repeat: int, mask: Any, dst_rep_stride: int, src_blk_stride: int,
    src_rep_stride: int, is_set_mask: bool = True,
) -> None:  # fmt: skip
    """Least value of each 32-byte block (vcgmin)."""
    strides = (dst_rep_stride, src_blk_stride, src_rep_stride)
    _block("block_reduce_min", "vcgmin", dst, src, repeat, mask, *strides, is_set_mask)


def pair_reduce_sum(
    dst: LocalTensor, src: LocalTensor, repeat_time: int, mask: Any, dst_rep_stride: int, src_blk_stride: int,
    src_rep_stride: int, is_set_mask: bool = True,
) -> None:  # fmt: skip
    """Sum of neighbouring pairs (vcpadd); ``dst_rep_stride`` in 128 bytes."""
    half = REPEAT // src.dtype.size // 2
    lanes = _reduce(
        "pair_reduce_sum", "vcpadd", dst, src, mask, repeat_time, dst_rep_stride, src_blk_stride, src_rep_stride,
        is_set_mask, 1, half, 32,
    )  # fmt: skip
    if lanes is not None:
        core = current()
        reduce.pair_sum(core.view(dst), core.view(src), lanes, core.rules.half_saturates)


@lru_cache(maxsize=1 << 14)
def _check_tensor(
    rules: ChipRules, call: str, op: str, dst: Operand, src: Operand, tmp: Operand, count: int, work_elements: int
) -> tuple[VectorWork, ...]:
    """Works of a reduction over a whole tensor: one pass per level until one result is left."""
    if dst.dtype is not src.dtype:
        raise InstructionError(call, "data types", f"{dst.dtype}, {src.dtype}", "must be the same")
    rules.require(call, op, src.dtype)
    rules.require_range(call, "count", count, 1, 1 << 24)
    check_operand(rules, call, src, count * src.dtype.size)
    rules.require_span(call, "dst", "UB", dst.addr, src.dtype.size, dst.end, src.dtype.size)
    check_operand(rules, call, tmp._replace(name="shared_tmp_buffer"), work_elements * tmp.dtype.size)
    width = REPEAT // src.dtype.size
    works: list[VectorWork] = []
    n = count
    while n > 1:
        repeats = ceil_div(n, width)
        for first in range(0, repeats, MAX_REPEATS):
            works.append(VectorWork(op, src.dtype.name, min(MAX_REPEATS, repeats - first), False))
        n = repeats if op == "vcadd" or repeats == 1 else repeats * 2
    return tuple(works) or (VectorWork(op, src.dtype.name, 1, False),)


def _work_elements(dtype: DataType, count: int, op: str) -> int:
    """Elements the work tensor must hold (asc-devkit: results of the first level, rounded to a block)."""
    repeats = ceil_div(count, REPEAT // dtype.size)
    results = repeats if op == "vcadd" else repeats * 2
    return ceil_div(results, dtype.block) * dtype.block


def _tensor(
    call: str, op: str, dst: LocalTensor, src: LocalTensor, tmp: LocalTensor, args: tuple[Any, ...],
    kwargs: dict[str, Any], index: bool,
) -> None:  # fmt: skip
    core = current()
    names = ("mask", "repeat_time", "src_rep_stride") if "mask" in kwargs or len(args) >= 3 else ("count",)
    if index:
        names = (*names, "cal_index")
    given = dict(zip(names, args, strict=False)) | kwargs
    cal_index = bool(given.get("cal_index", False))
    dense = "count" in given
    width = REPEAT // src.dtype.size
    if dense:
        count = int(given["count"])
    else:
        selected, repeat, stride = given["mask"], int(given["repeat_time"]), int(given["src_rep_stride"])
        count = width * (repeat - 1) + (int(selected) if isinstance(selected, int) else width)
    works = _check_tensor(
        core.rules, call, op, operand("dst", dst, call), operand("src", src, call), operand("tmp", tmp, call), count,
        _work_elements(src.dtype, count, op),
    )  # fmt: skip
    issue(core, Checked(works, Lanes()), dst, src)
    if core.memory is None:
        return
    lanes = None
    if not dense:
        mask = selected if isinstance(selected, int) else tuple(selected)
        lanes = Lanes(-1, repeat, width, mask, -1, (1, 1), (1, stride))
    reduce.run_tensor(
        core.view(dst), core.view(src), op, count, lanes, width, core.rules.family == "910B1",
        core.rules.half_saturates, cal_index,
    )  # fmt: skip


def reduce_sum(dst: LocalTensor, src: LocalTensor, shared_tmp_buffer: LocalTensor, *args: Any, **kwargs: Any) -> None:
    """Sum of a tensor: ``(dst, src, tmp, count)`` or ``(dst, src, tmp, mask, repeat_time, src_rep_stride)``."""
    _tensor("reduce_sum", "vcadd", dst, src, shared_tmp_buffer, args, kwargs, False)


def reduce_max(dst: LocalTensor, src: LocalTensor, shared_tmp_buffer: LocalTensor, *args: Any, **kwargs: Any) -> None:
    """Greatest value of a tensor, and its index behind it when ``cal_index``."""
    _tensor("reduce_max", "vcmax", dst, src, shared_tmp_buffer, args, kwargs, True)


def reduce_min(dst: LocalTensor, src: LocalTensor, shared_tmp_buffer: LocalTensor, *args: Any, **kwargs: Any) -> None:
    """Least value of a tensor, and its index behind it when ``cal_index``."""
    _tensor("reduce_min", "vcmin", dst, src, shared_tmp_buffer, args, kwargs, True)
