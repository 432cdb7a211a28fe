"""Quantisation by one scale, and back: Quantize, AscendQuant and AscendDequant as vector programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ascend_sim import asc
from ascend_sim.isa.enums import RoundMode
from ascend_sim.ops.registry import NoKernel, kernel
from ascend_sim.ops.schema import OpCall, TensorSpec

from ._map import Operand, plan_map
from ._program import Builder, Reg

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

_FLOATS = ("float16", "bfloat16", "float32")
_LIMITS = {"int8": (-128.0, 127.0), "uint8": (0.0, 255.0)}
_MODES = {"round": RoundMode.RINT, "floor": RoundMode.FLOOR, "ceil": RoundMode.CEIL, "trunc": RoundMode.TRUNC}


def _bounded(b: Builder, value: Reg, mode: RoundMode, zero: Reg | float, dtype: str) -> Reg:
    """Rounded, plus the zero point, within the limits of an 8-bit type."""
    value = b.truncate(value, mode)
    value = b.adds(value, zero) if isinstance(zero, float) else b.add(value, zero)
    low, high = _LIMITS[dtype]
    return b.cast(b.mins(b.maxs(value, low), high), dtype)


def _input(call: OpCall, types: Sequence[str]) -> TensorSpec:
    x = call.inputs[0]
    if x is None or x.dtype not in types:
        raise NoKernel(f"{call.type} of {None if x is None else x.dtype}")
    return x


@kernel("Quantize")
def plan_quantize(call: OpCall, soc: Soc) -> list[asc.Launch]:
    """round(x / scale) + zero point, one scale for all."""
    _input(call, _FLOATS)
    dtype = call.outputs[0].dtype
    given = [i for i, s in enumerate(call.inputs) if s is not None]
    if dtype not in _LIMITS or any(call.inputs[i].size != 1 for i in given[1:]):  # type: ignore[union-attr]
        raise NoKernel(f"Quantize to {dtype}, or with several scales")

    def make(b: Builder, operands: Sequence[Operand]) -> list[Reg]:
        x, scale, *zero = (o.as_type(b, "float32") for o in operands)
        return [_bounded(b, b.div(x, scale), RoundMode.RINT, zero[0] if zero else 0.0, dtype)]

    return plan_map(call, soc, make, inputs=given)


@kernel("AscendQuant")
def plan_ascend_quant(call: OpCall, soc: Soc) -> list[asc.Launch]:
    """round(x * scale + offset)."""
    _input(call, _FLOATS)
    dtype = call.outputs[0].dtype
    mode = _MODES[str(call.attr("round_mode", "Round")).lower()]
    if dtype not in _LIMITS:
        raise NoKernel(f"AscendQuant to {dtype}")
    scale = float(call.attr("scale", 1.0))
    scale *= scale if call.attr("sqrt_mode", False) else 1.0

    def make(b: Builder, operands: Sequence[Operand]) -> list[Reg]:
        y = b.adds(b.muls(operands[0].as_type(b, "float32"), scale), float(call.attr("offset", 0.0)))
        return [_bounded(b, y, mode, 0.0, dtype)]

    return plan_map(call, soc, make)


@kernel("AscendDequant")
def plan_ascend_dequant(call: OpCall, soc: Soc) -> list[asc.Launch]:
    """int32 * scale, one known scale for all."""
    _input(call, ("int32",))
    word = call.inputs[1]
    if word is None or word.const is None or word.size != 1:
        raise NoKernel("AscendDequant with scales per channel")
    raw = np.frombuffer(word.const, np.uint32)
    scale = float(raw[:1].view(np.float32)[0])
    scale *= scale if call.attr("sqrt_mode", False) else 1.0

    def make(b: Builder, operands: Sequence[Operand]) -> list[Reg]:
        y = b.muls(operands[0].as_type(b, "float32"), scale)
        return [b.cast(b.relu(y) if call.attr("relu_flag", False) else y, call.outputs[0].dtype)]

    return plan_map(call, soc, make, inputs=[0])
