"""Vector instructions of the kernel language: names and overloads of pyasc, checks, the work of each.

Every elementwise call has two forms. "First n": ``add(dst, src0, src1, count)``. High-dimensional:
``add(dst, src0, src1, mask, repeat_times, repeat_params[, is_set_mask])`` with ``mask`` a lane count or a list of
64-bit words, low word first. ``is_set_mask=False`` takes the mask from `set_vector_mask`.
"""

from __future__ import annotations

from typing import Any

from ascend_sim.asc.checked import Checked, Operand, check_conversion, check_lanes, check_types, work_dtype
from ascend_sim.asc.machine import FULL_MASK, Core, current
from ascend_sim.asc.params import BinaryRepeatParams, CopyRepeatParams, UnaryRepeatParams
from ascend_sim.asc.tensor import LocalTensor
from ascend_sim.isa import vector
from ascend_sim.isa.dtypes import DataType, int4
from ascend_sim.isa.enums import MaskMode
from ascend_sim.isa.instr import Pipe, ScalarWork
from ascend_sim.isa.lanes import Mask
from ascend_sim.isa.legality import InstructionError, source_place

V = Pipe.V
SET_REGISTER = ScalarWork("set_register")
UNARY = UnaryRepeatParams()
BINARY = BinaryRepeatParams()


def mask_of(core: Core, call: str, mask: Any, is_set_mask: bool) -> tuple[Mask, bool]:
    """(mask, counter) of a high-dimensional call."""
    if not is_set_mask:
        return (core.mask[0] if core.mask_counter else core.mask), core.mask_counter
    if isinstance(mask, list | tuple):
        return tuple(int(m) for m in mask), core.mask_counter
    if mask is None:
        raise InstructionError(call, "mask", None, "give a lane count, a list of words, or count for the first-n form")
    return int(mask), core.mask_counter


def operand(name: str, t: Any, call: str) -> Operand:
    if not isinstance(t, LocalTensor):
        raise InstructionError(call, name, type(t).__name__, "must be a LocalTensor in the unified buffer")
    return Operand(name, t.dtype, t.mem, t.addr, t.end)


def issue(core: Core, checked: Checked, dst: Any = None, *srcs: Any) -> None:
    """Record a vector instruction on its tensors."""
    if core.auto is not None:
        core.auto.before(V, dst, srcs)
    tb = core.tb
    if tb is not None:
        place = source_place() if core.debug else None
        for work in checked.works:
            tb.execute(V, work, place)


def selection(
    core: Core, call: str, mask: Any, repeat_times: Any, params: Any, is_set_mask: bool, count: int | None
) -> tuple[Mask, int, bool]:
    """(mask or count, repeat or -1, counter)."""
    if count is not None:
        return int(count), -1, False
    if repeat_times is None or repeat_times is True or repeat_times is False:
        if mask is None:
            raise InstructionError(call, "count", None, "give count, or mask, repeat_times and repeat_params")
        if isinstance(mask, list | tuple):
            raise InstructionError(call, "repeat_times", repeat_times, "a mask needs repeat_times and repeat_params")
        return int(mask), -1, False
    selected, counter = mask_of(core, call, mask, is_set_mask)
    return selected, int(repeat_times), counter


def _elementwise2(
    call: str, op: str, dst: LocalTensor, src0: LocalTensor, src1: LocalTensor, mask: Any, repeat_times: Any,
    params: BinaryRepeatParams | None, is_set_mask: bool, count: int | None, mixed: bool = False,
) -> None:  # fmt: skip
    core = current()
    selected, repeat, counter = selection(core, call, mask, repeat_times, params, is_set_mask, count)
    operands = (operand("dst", dst, call), operand("src0", src0, call), operand("src1", src1, call))
    d, a, b = dst.dtype, src0.dtype, src1.dtype
    check_types(core.rules, call, op, mixed, d, a, b)
    checked = check_lanes(
        core.rules, call, op, work_dtype(d, a), operands, selected, repeat, params or BINARY, counter
    )
    issue(core, checked, dst, src0, src1)
    if core.memory is not None:
        sources = [core.view(src0), core.view(src1)]
        vector.run_elementwise(op, core.view(dst), sources, checked.lanes, core.rules.half_saturates)


def _elementwise1(
    call: str, op: str, dst: LocalTensor, src: LocalTensor, scalar: Any, mask: Any, repeat_times: Any,
    params: UnaryRepeatParams | None, is_set_mask: bool, count: int | None, mixed: bool = False,
) -> None:  # fmt: skip
    core = current()
    selected, repeat, counter = selection(core, call, mask, repeat_times, params, is_set_mask, count)
    operands = (operand("dst", dst, call), operand("src", src, call))
    d, a = dst.dtype, src.dtype
    check_types(core.rules, call, op, mixed, d, a, a)
    checked = check_lanes(core.rules, call, op, work_dtype(d, a), operands, selected, repeat, params or UNARY, counter)
    issue(core, checked, dst, src)
    if core.memory is not None:
        vector.run_elementwise(
            op, core.view(dst), [core.view(src)], checked.lanes, core.rules.half_saturates, scalar
        )


def _binary(call: str, op: str, text: str, mixed: bool = False) -> Any:
    def instruction(
        dst: LocalTensor, src0: LocalTensor, src1: LocalTensor, mask: Any = None, repeat_times: Any = None,
        repeat_params: BinaryRepeatParams | None = None, is_set_mask: bool = True, *, count: int | None = None,
    ) -> None:  # fmt: skip
        _elementwise2(call, op, dst, src0, src1, mask, repeat_times, repeat_params, is_set_mask, count, mixed)

    return named(instruction, call, f"{text} ({op}). Operands (dst, src0, src1), then count or mask form.")


def _unary(call: str, op: str, text: str) -> Any:
    def instruction(
        dst: LocalTensor, src: LocalTensor, mask: Any = None, repeat_times: Any = None,
        repeat_params: UnaryRepeatParams | None = None, is_set_mask: bool = True, *, count: int | None = None,
    ) -> None:  # fmt: skip
        _elementwise1(call, op, dst, src, None, mask, repeat_times, repeat_params, is_set_mask, count)

    return named(instruction, call, f"{text} ({op}). Operands (dst, src), then count or mask form.")


def _scalar(call: str, op: str, text: str, mixed: bool = False) -> Any:
    def instruction(
        dst: LocalTensor, src: LocalTensor, scalar: Any, mask: Any = None, repeat_times: Any = None,
        repeat_params: UnaryRepeatParams | None = None, is_set_mask: bool = True, *, count: int | None = None,
    ) -> None:  # fmt: skip
        _elementwise1(call, op, dst, src, scalar, mask, repeat_times, repeat_params, is_set_mask, count, mixed)

    return named(instruction, call, f"{text} ({op}). Operands (dst, src, scalar), then count or mask form.")


def named(function: Any, name: str, text: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    return function


add = _binary("add", "vadd", "dst = src0 + src1")
sub = _binary("sub", "vsub", "dst = src0 - src1")
mul = _binary("mul", "vmul", "dst = src0 * src1")
div = _binary("div", "vdiv", "dst = src0 / src1")
max = _binary("max", "vmax", "dst = max(src0, src1)")
min = _binary("min", "vmin", "dst = min(src0, src1)")
bitwise_and = _binary("bitwise_and", "vand", "dst = src0 & src1")
bitwise_or = _binary("bitwise_or", "vor", "dst = src0 | src1")
add_relu = _binary("add_relu", "vaddrelu", "dst = max(src0 + src1, 0)")
sub_relu = _binary("sub_relu", "vsubrelu", "dst = max(src0 - src1, 0)")
mul_add_dst = _binary("mul_add_dst", "vmla", "dst = src0 * src1 + dst", mixed=True)
fused_mul_add = _binary("fused_mul_add", "vmadd", "dst = src0 * dst + src1")
fused_mul_add_relu = _binary("fused_mul_add_relu", "vmaddrelu", "dst = max(src0 * dst + src1, 0)")

abs = _unary("abs", "vabs", "dst = |src|")
relu = _unary("relu", "vrelu", "dst = max(src, 0)")
exp = _unary("exp", "vexp", "dst = e ** src")
ln = _unary("ln", "vln", "dst = natural logarithm of src")
sqrt = _unary("sqrt", "vsqrt", "dst = square root of src")
rsqrt = _unary("rsqrt", "vrsqrt", "dst = 1 / square root of src")
reciprocal = _unary("reciprocal", "vrec", "dst = 1 / src")
bitwise_not = _unary("bitwise_not", "vnot", "dst = ~src")

adds = _scalar("adds", "vadds", "dst = src + scalar")
muls = _scalar("muls", "vmuls", "dst = src * scalar")
maxs = _scalar("maxs", "vmaxs", "dst = max(src, scalar)")
mins = _scalar("mins", "vmins", "dst = min(src, scalar)")
leaky_relu = _scalar("leaky_relu", "vlrelu", "dst = src if src >= 0 else src * scalar")
axpy = _scalar("axpy", "vaxpy", "dst = src * scalar + dst", mixed=True)
shift_left = _scalar("shift_left", "vshl", "dst = src << scalar")
shift_right = _scalar("shift_right", "vshr", "dst = src >> scalar")


def duplicate(
    dst: LocalTensor, scalar: Any, mask: Any = None, repeat_times: Any = None, dst_block_stride: int = 1,
    dst_repeat_stride: int = 8, is_set_mask: bool = True, *, count: int | None = None,
) -> None:  # fmt: skip
    """dst lanes = scalar (vdup): ``duplicate(dst, scalar, count)`` or with mask, repeat_times, block stride, repeat
    stride. 16- and 32-bit types."""
    core = current()
    selected, repeat, counter = selection(core, "duplicate", mask, repeat_times, None, is_set_mask, count)
    if dst.dtype.size not in (2, 4):
        raise InstructionError("duplicate", "data type", dst.dtype, "must be a 16-bit or 32-bit type")
    strides = (int(dst_block_stride), int(dst_repeat_stride))
    operands = (operand("dst", dst, "duplicate"),)
    checked = check_lanes(
        core.rules, "duplicate", "vdup", dst.dtype.name, operands, selected, repeat, strides, counter
    )
    issue(core, checked, dst)
    if core.memory is not None:
        vector.run_duplicate(core.view(dst), scalar, checked.lanes)


def cast(
    dst: LocalTensor, src: LocalTensor, round_mode: int, mask: Any = None, repeat_times: Any = None,
    repeat_params: UnaryRepeatParams | None = None, is_set_mask: bool = True, *, count: int | None = None,
) -> None:  # fmt: skip
    """dst = src converted (vconv). Masks, counts and repeats are in elements of the wider type."""
    core = current()
    rules = core.rules
    mode = int(round_mode)
    selected, repeat, counter = selection(core, "cast", mask, repeat_times, repeat_params, is_set_mask, count)
    d, s = dst.dtype, src.dtype
    check_conversion(rules, "cast", d, s, mode)
    operands = (operand("dst", dst, "cast"), operand("src", src, "cast"))
    checked = check_lanes(
        rules, "cast", "vconv", work_dtype(d, s), operands, selected, repeat, repeat_params or UNARY, counter
    )
    issue(core, checked, dst, src)
    if core.memory is not None:
        _run_cast(core, dst, src, mode, checked)


def _run_cast(core: Core, dst: LocalTensor, src: LocalTensor, mode: int, checked: Checked) -> None:
    lanes = checked.lanes
    to, source = core.view(dst), core.view(src)
    if int4 in (dst.dtype, src.dtype):
        if lanes.n < 0 or lanes.n % 2:
            raise InstructionError("cast", "count", lanes.n, "int4 needs the first-n form with an even count")
        vector.run_cast_int4(to, source, mode, lanes.n)
        return
    scale = core.deq_scale if src.dtype.name == "int32" and dst.dtype.name == "float16" else None
    scale = None if scale == 1.0 else scale
    vector.run_cast(to, source, mode, lanes, True, scale)


def copy(
    dst: LocalTensor, src: LocalTensor, mask: Any, repeat_time: int, repeat_params: CopyRepeatParams,
    is_set_mask: bool = True,
) -> None:  # fmt: skip
    """Masked copy inside the unified buffer (vcopy)."""
    core = current()
    selected, repeat, counter = selection(core, "copy", mask, repeat_time, None, is_set_mask, None)
    p = CopyRepeatParams(*repeat_params)
    check_types(core.rules, "copy", "vcopy", False, dst.dtype, src.dtype, src.dtype)
    strides = (p.dst_stride, p.src_stride, p.dst_repeat_size, p.src_repeat_size)
    operands = (operand("dst", dst, "copy"), operand("src", src, "copy"))
    checked = check_lanes(core.rules, "copy", "vcopy", dst.dtype.name, operands, selected, repeat, strides, counter)
    issue(core, checked, dst, src)
    if core.memory is not None:
        vector.run_copy(core.view(dst), core.view(src), checked.lanes)


def set_vector_mask(*args: int, dtype: DataType | None = None, mode: MaskMode | None = None) -> None:
    """Set the mask register: ``(length)`` leading lanes (or the element count in counter mode) or ``(high, low)``."""
    core = current()
    counter = core.mask_counter if mode is None else mode == MaskMode.COUNTER
    if len(args) == 1:
        length = int(args[0])
        if counter:
            core.mask = (length, 0)
        else:
            if not 0 <= length <= 128:
                raise InstructionError("set_vector_mask", "length", length, "must lie in 0..128")
            bits = (1 << length) - 1
            core.mask = (bits & FULL_MASK[0], bits >> 64)
    elif len(args) == 2:
        core.mask = (int(args[1]), int(args[0]))
    else:
        raise InstructionError("set_vector_mask", "arguments", args, "expected (length) or (mask_high, mask_low)")
    core.emit(Pipe.S, SET_REGISTER)


def reset_mask() -> None:
    """All lanes active."""
    core = current()
    core.mask = FULL_MASK
    core.emit(Pipe.S, SET_REGISTER)


def set_mask_count() -> None:
    """Counter mode: the mask register holds the number of elements."""
    core = current()
    core.mask_counter = True
    core.emit(Pipe.S, SET_REGISTER)


def set_mask_norm() -> None:
    """Normal mode: the mask register holds lane bits."""
    core = current()
    core.mask_counter = False
    core.emit(Pipe.S, SET_REGISTER)
