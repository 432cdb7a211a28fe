"""Vector instructions that compute and convert at once, dequantising conversions, bilinear interpolation."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ascend_sim.asc.calls_vector import BINARY, UNARY, issue, mask_of, operand, selection
from ascend_sim.asc.checked import MAX_REPEATS, Checked, Operand, check_lanes, check_operand, work_dtype
from ascend_sim.asc.machine import current
from ascend_sim.asc.params import BinaryRepeatParams, UnaryRepeatParams, VdeqInfo
from ascend_sim.asc.tensor import LocalTensor
from ascend_sim.isa import composite
from ascend_sim.isa.buffers import BLOCK
from ascend_sim.isa.dtypes import DataType, float16, int16, int32, uint32, uint64
from ascend_sim.isa.instr import Pipe, ScalarWork, VectorWork
from ascend_sim.isa.lanes import Lanes, Mask
from ascend_sim.isa.legality import ChipRules, InstructionError

SET_REGISTER = ScalarWork("set_register")
_RELU_CASTS = ("f162s8", "s162s8", "f322f16")
_FUNCTIONS = {
    "vmulconv": composite.run_mul_cast, "vaddreluconv": composite.run_add_relu_cast,
    "vsubreluconv": composite.run_sub_relu_cast,
}  # fmt: skip


@lru_cache(maxsize=4096)
def _check_narrowing(rules: ChipRules, call: str, op: str, dst: DataType, a: DataType, b: DataType) -> None:
    """Types of a computing conversion: sources alike, the pair in the chip's table."""
    if a is not b:
        raise InstructionError(call, "data types", f"{dst}, {a}, {b}", "both sources must have the same type")
    table = rules.table.get(op, frozenset())
    token = f"{a.short}2{dst.short}" if op != "vmulconv" else f"{dst.short}{a.short}{b.short}"
    if not table:
        raise InstructionError(call, "chip", rules.name, f"has no instruction {op}")
    if token not in table:
        rule = f"{op} takes {' '.join(sorted(table))} on {rules.name} (family {rules.family})"
        raise InstructionError(call, "data types", f"{a} -> {dst}", rule)


def _narrowing(
    call: str, op: str, dst: LocalTensor, src0: LocalTensor, src1: LocalTensor, mask: Any, repeat_times: Any,
    params: BinaryRepeatParams | None, is_set_mask: bool, count: int | None,
) -> None:  # fmt: skip
    core = current()
    selected, repeat, counter = selection(core, call, mask, repeat_times, params, is_set_mask, count)
    operands = (operand("dst", dst, call), operand("src0", src0, call), operand("src1", src1, call))
    _check_narrowing(core.rules, call, op, dst.dtype, src0.dtype, src1.dtype)
    checked = check_lanes(
        core.rules, call, op, work_dtype(dst.dtype, src0.dtype), operands, selected, repeat, params or BINARY, counter
    )
    issue(core, checked, dst, src0, src1)
    if core.memory is not None:
        _FUNCTIONS[op](core.view(dst), core.view(src0), core.view(src1), checked.lanes)


def mul_cast(
    dst: LocalTensor, src0: LocalTensor, src1: LocalTensor, mask: Any = None, repeat_times: Any = None,
    repeat_params: BinaryRepeatParams | None = None, is_set_mask: bool = True, *, count: int | None = None,
) -> None:  # fmt: skip
    """dst = src0 x src1 as int8 or uint8 (vmulconv)."""
    _narrowing("mul_cast", "vmulconv", dst, src0, src1, mask, repeat_times, repeat_params, is_set_mask, count)


def add_relu_cast(
    dst: LocalTensor, src0: LocalTensor, src1: LocalTensor, mask: Any = None, repeat_times: Any = None,
    repeat_params: BinaryRepeatParams | None = None, is_set_mask: bool = True, *, count: int | None = None,
) -> None:  # fmt: skip
    """dst = max(src0 + src1, 0), narrowed (vaddreluconv)."""
    _narrowing("add_relu_cast", "vaddreluconv", dst, src0, src1, mask, repeat_times, repeat_params, is_set_mask, count)


def sub_relu_cast(
    dst: LocalTensor, src0: LocalTensor, src1: LocalTensor, mask: Any = None, repeat_times: Any = None,
    repeat_params: BinaryRepeatParams | None = None, is_set_mask: bool = True, *, count: int | None = None,
) -> None:  # fmt: skip
    """dst = max(src0 - src1, 0), narrowed (vsubreluconv)."""
    _narrowing("sub_relu_cast", "vsubreluconv", dst, src0, src1, mask, repeat_times, repeat_params, is_set_mask, count)


def add_deq_relu(
    dst: LocalTensor, src0: LocalTensor, src1: LocalTensor, mask: Any = None, repeat_times: Any = None,
    repeat_params: BinaryRepeatParams | None = None, is_set_mask: bool = True, *, count: int | None = None,
) -> None:  # fmt: skip
    """dst = max(half((src0 + src1) x scale), 0), the scale from `set_deq_scale`. One instruction (vadddeqrelu) on
    310, 910 and 310P; on 910B the language expands it to vadd, vconv and vrelu."""
    core = current()
    call, rules = "add_deq_relu", core.rules
    single = rules.exists("vadddeqrelu")
    if not single and rules.family != "910B1":
        raise InstructionError(call, "chip", rules.name, "has no instruction vadddeqrelu")
    if (dst.dtype, src0.dtype, src1.dtype) != (float16, int32, int32):
        given = f"{dst.dtype}, {src0.dtype}, {src1.dtype}"
        raise InstructionError(call, "data types", given, "takes int32 sources and a half destination")
    selected, repeat, counter = selection(core, call, mask, repeat_times, repeat_params, is_set_mask, count)
    operands = (operand("dst", dst, call), operand("src0", src0, call), operand("src1", src1, call))
    checked = check_lanes(
        rules, call, "vadddeqrelu", "int32_float16", operands, selected, repeat, repeat_params or BINARY, counter
    )
    if not single:
        checked = checked._replace(works=tuple(w for work in checked.works for w in _expanded(work)))
    issue(core, checked, dst, src0, src1)
    if core.memory is not None:
        composite.run_add_deq_relu(
            core.view(dst), core.view(src0), core.view(src1), checked.lanes, float(core.deq_scale)
        )


def _expanded(work: VectorWork) -> tuple[VectorWork, ...]:
    return (
        work._replace(op="vadd", dtype="int32"), work._replace(op="vconv_deq", dtype="int32_float16"),
        work._replace(op="vrelu", dtype="float16", repeats=(work.repeats + 1) // 2),
    )  # fmt: skip


def set_deq_scale(scale: Any, *args: Any, offset: int | None = None, sign_mode: bool | None = None,
                  vdeq_info: VdeqInfo | None = None) -> None:  # fmt: skip
    """The DEQSCALE register: ``(scale)`` half, for int32 to half; ``(scale, offset, sign_mode)`` for int16 to 8 bits;
    ``(vdeq, vdeq_info)`` sixteen of those, one per lane of a block, put into 128 bytes of the unified buffer."""
    core = current()
    call = "set_deq_scale"
    if isinstance(scale, LocalTensor):
        info = args[0] if args else vdeq_info
        if not isinstance(info, VdeqInfo) or scale.dtype is not uint64:
            raise InstructionError(call, "vdeq", scale.dtype, "expected a uint64 tensor and a VdeqInfo")
        core.rules.require_span(call, "vdeq", "UB", scale.addr, 128, scale.end)
        parts = [list(x or ()) for x in info]
        for name, part in zip(("scale", "offset", "sign_mode"), parts, strict=True):
            if len(part) != 16:
                raise InstructionError(call, f"vdeq_info.{name}", len(part), "must have 16 entries")
        words = [deq_word(float(s), int(o), bool(m)) for s, o, m in zip(*parts, strict=True)]
        core.deq_vector = scale
        core.emit(Pipe.S, ScalarWork("set_value", 16), scale)
        if core.memory is not None:
            core.view(scale).flat(16)[...] = np.array(words, np.uint64)
    elif args or offset is not None:
        given = list(args) + [x for x in (offset, sign_mode) if x is not None]
        if len(given) != 2:
            raise InstructionError(call, "arguments", given, "expected (scale, offset, sign_mode)")
        if not -256 <= int(given[0]) <= 255:
            raise InstructionError(call, "offset", given[0], "must lie in -256..255 (9 bits)")
        core.deq_word = deq_word(float(scale), int(given[0]), bool(given[1]))
    else:
        core.deq_scale = float(scale)
    core.emit(Pipe.S, SET_REGISTER)


def deq_word(scale: float, offset: int, sign_mode: bool) -> int:
    """64-bit parameter word: float32 scale, 9-bit offset from bit 37, sign in bit 46 (asc-devkit, SetDeqScale)."""
    bits = int(np.asarray(scale, np.float32).view(np.uint32))
    return bits | (offset & 511) << 37 | int(sign_mode) << 46


@lru_cache(maxsize=1 << 12)
def _check_cast_deq(
    rules: ChipRules, dst: Operand, src: Operand, mask: Mask, repeat: int, params: tuple[int, ...], counter: bool,
    vector: bool,
) -> Checked:  # fmt: skip
    call = "cast_deq"
    if rules.family not in ("310P3", "910B1"):
        raise InstructionError(call, "chip", rules.name, "has no dequantising conversion")
    pair = (src.dtype.name, dst.dtype.name)
    if pair == ("int32", "float16"):
        if rules.family != "910B1":
            raise InstructionError(call, "data types", "int32 -> float16", f"does not exist on {rules.name}")
        return check_lanes(rules, call, "vconv_deq", "int32_float16", (dst, src), mask, repeat, params, counter)
    if pair not in (("int16", "int8"), ("int16", "uint8")):
        given = f"{src.dtype} -> {dst.dtype}"
        raise InstructionError(call, "data types", given, "int16 to int8 or uint8, int32 to half")
    # a block of 16 lanes fills half a block of the destination, so the destination is walked like the source
    op = "vconv_vdeq" if vector else "vconv_deq"
    walked = dst._replace(dtype=int16)
    checked = check_lanes(
        rules, call, op, f"int16_{dst.dtype.name}", (walked, src), mask, repeat, params, counter
    )
    return checked


def cast_deq(
    dst: LocalTensor, src: LocalTensor, mask: Any = None, repeat_times: Any = None,
    repeat_params: UnaryRepeatParams | None = None, is_set_mask: bool = True, is_vec_deq: bool = True,
    half_block: bool = True, *, count: int | None = None,
) -> None:  # fmt: skip
    """Dequantise with the parameters of `set_deq_scale` (vconv deq): int16 to int8 or uint8, each block of 16 into the
    lower or (``half_block``) upper half of a destination block; int32 to half. ``is_vec_deq`` uses sixteen
    parameters. Called as ``(dst, src, count, is_vec_deq, half_block)`` or with mask, repeat_times, params."""
    core = current()
    call = "cast_deq"
    if isinstance(repeat_times, bool):  # count form with positional switches
        given: Any = repeat_params
        is_vec_deq, half_block, repeat_times = repeat_times, bool(given) if given is not None else half_block, None
        repeat_params = None
    selected, repeat, counter = selection(core, call, mask, repeat_times, repeat_params, is_set_mask, count)
    eight = dst.dtype.size == 1
    vector = eight and bool(is_vec_deq) and core.deq_vector is not None
    checked = _check_cast_deq(
        core.rules, operand("dst", dst, call), operand("src", src, call), selected, repeat,
        tuple(repeat_params or UNARY), counter, vector,
    )  # fmt: skip
    if eight and core.deq_word is None and not vector:
        raise InstructionError(call, "scale", None, "set_deq_scale(scale, offset, sign_mode) was not called")
    issue(core, checked, dst, src)
    if core.memory is None:
        return
    if not eight:
        from ascend_sim.isa import vector as elementwise

        elementwise.run_cast(core.view(dst), core.view(src), 1, checked.lanes, True, float(np.float16(core.deq_scale)))
        return
    words = core.view(core.deq_vector).flat(16) if vector else np.array([core.deq_word], np.uint64)
    signed = bool(int(words[0]) >> 46 & 1)
    if signed != (dst.dtype.name == "int8"):
        raise InstructionError(call, "dst data type", dst.dtype, "int8 with sign_mode, uint8 without")
    composite.run_cast_deq(core.view(dst), core.view(src), checked.lanes, words, bool(half_block))


def bilinear_interpolation(
    dst: LocalTensor, src0: LocalTensor, src0_offset: LocalTensor, src1: LocalTensor, mask: Any, h_repeat: int,
    repeat_mode: bool, dst_blk_stride: int, v_r_offset: int, v_repeat: int, shared_tmp_buffer: LocalTensor,
) -> None:  # fmt: skip
    """``v_repeat`` rows of 128 halves, each the sum of ``h_repeat`` gathered rows times weights (vbi). On 910B the
    language expands it to gatherb, brcb, mul and add; ``shared_tmp_buffer`` then holds the gathered rows."""
    core = current()
    call, rules = "bilinear_interpolation", core.rules
    if rules.family not in ("310P3", "910B1"):
        raise InstructionError(call, "chip", rules.name, "has no bilinear interpolation")
    for name, t, dtype in (("dst", dst, float16), ("src0", src0, float16), ("src1", src1, float16),
                           ("src0_offset", src0_offset, uint32)):  # fmt: skip
        if t.dtype is not dtype:
            raise InstructionError(call, f"{name} data type", t.dtype, f"must be {dtype}")
    h, v, step = int(h_repeat), int(v_repeat), int(v_r_offset)
    rules.require_range(call, "h_repeat", h, 1, MAX_REPEATS)
    rules.require_range(call, "v_repeat", v, 1, MAX_REPEATS)
    rules.require_range(call, "v_r_offset", step, 128, 65534)
    if step * 2 % BLOCK:
        raise InstructionError(call, "v_r_offset", step, "must be a multiple of 16 elements")
    selected, _ = mask_of(core, call, mask, True)
    repeats = h * v
    weights = repeats * (8 if repeat_mode else 1)
    strides = (int(dst_blk_stride), 8)
    for row in (dst[(v - 1) * step :], dst):
        checked = check_lanes(rules, call, "vbi", "float16", (operand("dst", row, call),), selected, 1, strides, False)
    check_operand(rules, call, operand("src0_offset", src0_offset, call), repeats * 32)
    check_operand(rules, call, operand("src1", src1, call), weights * 2)
    check_operand(rules, call, operand("src0", src0, call), BLOCK)
    needed = repeats * 256 if rules.family == "910B1" else repeats * 32  # the gathered rows, or their offsets
    check_operand(rules, call, operand("shared_tmp_buffer", shared_tmp_buffer, call), needed)
    if rules.family == "910B1":
        works = [
            VectorWork("vgatherb", "float16", repeats), VectorWork("vbrcb", "float16", -(-weights // 8)),
            VectorWork("vmul", "float16", repeats), VectorWork("vadd", "float16", max(repeats - v, 1)),
        ]  # fmt: skip
    else:
        works = [VectorWork("vbi", "float16", repeats)]
    issue(core, Checked(tuple(works), Lanes()), dst, src0, src0_offset, src1, shared_tmp_buffer)
    if core.memory is not None:
        try:
            composite.run_bilinear(
                core.view(dst), core.view(src0), core.view(src0_offset), core.view(src1), checked.lanes, h,
                bool(repeat_mode), step, v, src0.end - src0.addr,
            )  # fmt: skip
        except IndexError as error:
            raise InstructionError(call, "src0_offset", "out of range", str(error)) from error


__all__ = [
    "add_deq_relu", "add_relu_cast", "bilinear_interpolation", "cast_deq", "mul_cast", "set_deq_scale",
    "sub_relu_cast",
]  # fmt: skip
