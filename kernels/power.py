"""Pow of two tensors, in float32: exp(y ln |x|), with the sign of odd powers, NaN for broken powers of negative
numbers, and the powers of zero put right. Comparisons are arithmetic, so that every chip has the sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ascend_sim import asc
from ascend_sim.isa.enums import RoundMode
from ascend_sim.ops.registry import NoKernel, kernel
from ascend_sim.ops.schema import OpCall

from ._map import Operand, plan_map
from ._program import Builder, Reg
from ._vector import legal

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

_TINY = 2.0**-126  # least normal float32
_LARGE = 3.0e38
_WHOLE = 2.0**30  # powers above are even


def power(b: Builder, x: Reg, y: Reg) -> Reg:
    """x ** y of float32 registers."""
    size = b.abs(x)
    result = b.exp(b.mul(b.ln(b.maxs(size, _TINY)), y))
    positive, zero = b.step01(y), b.adds(b.muls(b.step01(size), -1.0), 1.0)
    below = b.step01(b.muls(y, -1.0))
    result = b.mul(result, b.adds(b.muls(b.mul(zero, positive), -1.0), 1.0))
    result = b.mul(result, b.adds(b.muls(b.mul(zero, below), _LARGE), 1.0))
    whole = b.mins(b.abs(y), _WHOLE)
    odd = b.sub(whole, b.muls(b.truncate(b.muls(whole, 0.5), RoundMode.FLOOR), 2.0))
    broken = b.step01(b.sub(whole, b.truncate(whole, RoundMode.FLOOR)))
    negative = b.step01(b.muls(x, -1.0))
    result = b.mul(result, b.adds(b.muls(b.mul(negative, odd), -2.0), 1.0))
    return b.add(result, b.ln(b.adds(b.muls(b.mul(negative, broken), -2.0), 1.0)))  # ln 1 = 0, ln -1 = NaN


@kernel("Pow")
def plan_pow(call: OpCall, soc: Soc) -> list[asc.Launch]:
    """The launch of a Pow. Raises `NoKernel` for integers and on chips without a float32 exponential."""
    x = call.inputs[0]
    if x is None or x.dtype not in ("float16", "bfloat16", "float32") or not legal(soc, "vexp", "float32"):
        raise NoKernel(f"Pow of {None if x is None else x.dtype}")

    def make(b: Builder, operands: Sequence[Operand]) -> list[Reg]:
        base, exponent = (o.as_type(b, "float32") for o in operands)
        return [b.cast(power(b, base, exponent), call.outputs[0].dtype)]

    return plan_map(call, soc, make)
