"""Comparison, logic and selection.

Chips whose vsel takes mask bits repeat after repeat (vcmpvs exists) compare to bits and select; on the others a
comparison becomes arithmetic (`Builder.step01` of a difference) and a selection becomes bit masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ascend_sim import asc
from ascend_sim.ops.registry import NoKernel, kernel
from ascend_sim.ops.schema import OpCall

from ._map import Operand, plan_map
from ._program import Builder, Reg

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

_HOW = {"Equal": "eq", "NotEqual": "ne", "Less": "lt", "LessEqual": "le", "Greater": "gt", "GreaterEqual": "ge"}
_FLOATS = ("float16", "bfloat16", "float32")


def to_bool(b: Builder, ones: Reg) -> Reg:
    """0.0 / 1.0 to bytes of 0 and 1."""
    byte = b.cast(b.cast(ones, "float16"), "uint8")
    return Reg(byte.number, "uint8")


def _ones(b: Builder, mask: Reg, dtype: str) -> Reg:
    """Mask bits to 1.0 and 0.0."""
    return b.select(mask, b.dup(1.0, dtype), 0.0)


def nonzero(b: Builder, x: Reg) -> Reg:
    """x != 0 as bytes."""
    if b.selects:
        return to_bool(b, _ones(b, b.compare("ne", x, 0.0), x.dtype))
    return to_bool(b, b.step01(b.abs(x)))


def compared(b: Builder, how: str, x: Reg, y: Reg) -> Reg:
    """1.0 where ``x how y``, else 0.0, in the type of x (float32 for int32 operands)."""
    if x.dtype == "int32":
        difference = b.cast(b.sub(x, y), "float32")
        x, y = difference, b.dup(0.0, "float32")
    if b.selects:
        value = b._filled.get(y.number)
        other: Reg | float = float(value) if isinstance(value, int | float) else y
        return _ones(b, b.compare(how, x, other), x.dtype)
    if how in ("lt", "ge"):
        less = b.step01(b.sub(y, x))
        return less if how == "lt" else _inverse(b, less)
    if how in ("gt", "le"):
        greater = b.step01(b.sub(x, y))
        return greater if how == "gt" else _inverse(b, greater)
    differ = b.step01(b.abs(b.sub(x, y)))
    return differ if how == "ne" else _inverse(b, differ)


def _inverse(b: Builder, ones: Reg) -> Reg:
    return b.adds(b.muls(ones, -1.0), 1.0)


@kernel(*_HOW)
def plan_compare(call: OpCall, soc: Soc) -> list[asc.Launch]:
    x = call.inputs[0]
    if x is None or x.dtype not in (*_FLOATS, "int32", "int8", "uint8", "bool"):
        raise NoKernel(f"{call.type} of {None if x is None else x.dtype}")
    small = x.dtype in ("int8", "uint8", "bool")
    work = "float16" if small else x.dtype if x.dtype == "int32" else "float32"

    def make(b: Builder, operands: Sequence[Operand]) -> list[Reg]:
        a, c = (o.as_type(b, work) for o in operands)
        return [to_bool(b, compared(b, _HOW[call.type], a, c))]

    return plan_map(call, soc, make)


@kernel("LogicalAnd", "LogicalOr", "LogicalNot")
def plan_logical(call: OpCall, soc: Soc) -> list[asc.Launch]:
    if any(s is None or s.dtype != "bool" for s in call.inputs):
        raise NoKernel(f"{call.type} of types other than bool")

    def make(b: Builder, operands: Sequence[Operand]) -> list[Reg]:
        regs = [o.as_type(b, "float16") for o in operands]
        if call.type == "LogicalNot":
            return [to_bool(b, _inverse(b, regs[0]))]
        return [to_bool(b, b.min(*regs) if call.type == "LogicalAnd" else b.max(*regs))]

    return plan_map(call, soc, make)


@kernel("Select", "SelectV2")
def plan_select(call: OpCall, soc: Soc) -> list[asc.Launch]:
    """where(condition, x1, x2)."""
    condition, x = call.inputs[0], call.inputs[1]
    if condition is None or x is None or condition.dtype not in ("bool", "uint8", "int8"):
        raise NoKernel("Select with this condition")
    if x.dtype not in (*_FLOATS, "int32"):
        raise NoKernel(f"Select of {x.dtype}")

    def make(b: Builder, operands: Sequence[Operand]) -> list[Reg]:
        flag = operands[0].as_type(b, "float16")
        work = "float32" if x.dtype in _FLOATS else x.dtype
        if b.selects and x.dtype == "float16":
            work = "float16"
        yes, no = (o.as_type(b, work) for o in operands[1:])
        if b.selects and x.dtype in _FLOATS:
            return [b.cast(b.select(b.compare("ne", flag, 0.0), yes, no), x.dtype)]
        mask = b.cast(b.muls(flag, -1.0), "int32")  # all bits of the lane where true
        chosen = b.bitwise("or", b.bitwise("and", yes, mask), b.bitwise("and", no, b.bitwise("not", mask)))
        return [b.cast(chosen, x.dtype)]

    return plan_map(call, soc, make)
