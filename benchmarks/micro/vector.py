"""Vector instructions by their machine name. Operands lie in different bank groups, so nothing conflicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ascend_sim import asc
from ascend_sim.asc.machine import current
from ascend_sim.isa.instr import Pipe, VectorWork
from ascend_sim.ops.schema import ITEM_BITS

BANK = 64 * 1024  # a layer of banks
P = asc.TPosition.VECCALC
BINARY = {
    "vadd": asc.add, "vsub": asc.sub, "vmul": asc.mul, "vdiv": asc.div, "vmax": asc.max, "vmin": asc.min,
    "vand": asc.bitwise_and, "vor": asc.bitwise_or, "vaddrelu": asc.add_relu, "vsubrelu": asc.sub_relu,
    "vmadd": asc.fused_mul_add, "vmaddrelu": asc.fused_mul_add_relu, "vmla": asc.mul_add_dst,
}  # fmt: skip
UNARY = {
    "vabs": asc.abs, "vrelu": asc.relu, "vexp": asc.exp, "vln": asc.ln, "vsqrt": asc.sqrt, "vrsqrt": asc.rsqrt,
    "vrec": asc.reciprocal, "vnot": asc.bitwise_not,
}  # fmt: skip
SCALAR = {
    "vadds": asc.adds, "vmuls": asc.muls, "vmaxs": asc.maxs, "vmins": asc.mins, "vlrelu": asc.leaky_relu,
    "vaxpy": asc.axpy, "vshl": asc.shift_left, "vshr": asc.shift_right,
}  # fmt: skip
BLOCKS = {"vcgadd": asc.block_reduce_sum, "vcgmax": asc.block_reduce_max, "vcgmin": asc.block_reduce_min}
WHOLE = {"vcadd": asc.whole_reduce_sum, "vcmax": asc.whole_reduce_max, "vcmin": asc.whole_reduce_min}


def width(*types: str) -> int:
    """Elements of a repeat."""
    return 256 * 8 // max(ITEM_BITS[t] for t in types)


def tensors(dst: str, *sources: str) -> list[asc.LocalTensor]:
    """Destination and sources in the unified buffer, each in a bank layer of its own, the second source eight groups
    away from the first."""
    places = (0, BANK, 2 * BANK + 256)
    return [asc.LocalTensor(t, P, at) for t, at in zip((dst, *sources), places, strict=False)]


def prepare(op: str, types: tuple[str, ...], repeats: int) -> Callable[[], Callable[[], None]] | None:
    """Maker of the call that issues ``op`` once with ``repeats`` repeats; types are sources, then destination. None
    when the kernel language has no call for the instruction."""
    maker = _maker(op, types, repeats)
    return None if maker is None else maker


def record(op: str, dtype: str, repeats: int) -> Callable[[], Callable[[], None]]:
    """The instruction put into the trace as it is, for what has no call of its own."""

    def make() -> Callable[[], None]:
        core, work = current(), VectorWork(op, dtype, repeats)
        return lambda: core.emit(Pipe.V, work)

    return make


def _maker(op: str, types: tuple[str, ...], n: int) -> Callable[[], Callable[[], None]] | None:
    dst, first = types[-1], types[0]
    full = width(*types)
    if op in BINARY:
        return lambda: _bind(BINARY[op], *tensors(dst, *types[:2]), full, n, asc.BinaryRepeatParams())
    if op in UNARY:
        return lambda: _bind(UNARY[op], *tensors(dst, first), full, n, asc.UnaryRepeatParams())
    if op in SCALAR:
        value = 1 if "int" in first else 1.0
        rep = 4 if ITEM_BITS[first] < ITEM_BITS[dst] else 8
        strides = asc.UnaryRepeatParams(1, 1, 8, rep)
        return lambda: _bind(SCALAR[op], *tensors(dst, first), value, full, n, strides)
    if op in BLOCKS:
        return lambda: _bind(BLOCKS[op], *tensors(dst, first), n, full, 1, 1, 8)
    if op in WHOLE:
        return lambda: _bind(WHOLE[op], *tensors(dst, first), full, n, 1, 1, 8)
    if op == "vcpadd":
        return lambda: _bind(asc.pair_reduce_sum, *tensors(dst, first), n, full, 1, 1, 8)
    if op == "vdup":
        return lambda: _bind(asc.duplicate, *tensors(dst), 0, full, n)
    if op == "vcopy":
        return lambda: _bind(asc.copy, *tensors(dst, first), full, n, asc.CopyRepeatParams(1, 1, 8, 8))
    if op == "vbrcb":
        return lambda: _bind(asc.brcb, *tensors(dst, first), n, asc.BrcbRepeatParams(1, 8))
    if op == "vsel":
        return lambda: _select(dst, full, n)
    if op in ("vcmpv", "vcmps"):
        return lambda: _compare(op, first, full, n)
    if op == "vgather":
        return lambda: _bind(asc.gather, *tensors(dst, first, "uint32"), 0, full, n, 8)
    if op == "vgatherb":
        return lambda: _bind(asc.gatherb, *tensors(dst, first, "uint32"), n, asc.GatherRepeatParams(1, 8))
    if op == "vreducev2":
        pattern = "uint16" if ITEM_BITS[first] == 16 else "uint32"
        params = asc.GatherMaskParams(1, n, 8, 0)
        return lambda: _bind(asc.gather_mask, *tensors(dst, first, pattern), False, 0, params)
    if op == "vconv" and "int4" not in types:
        return lambda: _cast(first, dst, full, n)
    return None


def _bind(function: Callable[..., Any], *args: Any) -> Callable[[], None]:
    return lambda: function(*args)


def _select(dtype: str, full: int, n: int) -> Callable[[], None]:
    dst, a, b = tensors(dtype, dtype, dtype)
    mask = asc.LocalTensor("uint8", P, BANK - 8192)
    mode = asc.SelMode.VSEL_TENSOR_TENSOR_MODE
    return _bind(asc.select, dst, mask, a, b, mode, full, n, asc.BinaryRepeatParams())


def _compare(op: str, dtype: str, full: int, n: int) -> Callable[[], None]:
    dst, a, b = tensors("uint8", dtype, dtype)
    if op == "vcmps":
        return _bind(asc.compare_scalar, dst, a, 0.0, asc.CMPMODE.LT, full, n, asc.UnaryRepeatParams())
    return _bind(asc.compare, dst, a, b, asc.CMPMODE.LT, full, n, asc.BinaryRepeatParams())


def _cast(src: str, dst: str, full: int, n: int) -> Callable[[], None]:
    to, source = tensors(dst, src)
    blocks = [8 * ITEM_BITS[t] // max(ITEM_BITS[src], ITEM_BITS[dst]) for t in (dst, src)]
    strides = asc.UnaryRepeatParams(1, 1, *blocks)
    legal = [m for m in asc.RoundMode if _converts(source.dtype, to.dtype, int(m))]
    return _bind(asc.cast, to, source, legal[0], full, n, strides)


def _converts(src: Any, dst: Any, mode: int) -> bool:
    try:
        current().rules.require_conversion("cast", dst, src, mode)
    except asc.InstructionError:
        return False
    return True
