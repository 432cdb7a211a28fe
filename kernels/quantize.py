"""Quantisation by one scale, and back: Quantize, AscendQuant and AscendDequant as vector programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ascend_sim import asc
from ascend_sim.isa.enums import RoundMode
from ascend_sim.ops.registry import NoKernel, kernel
from ascend_sim.ops.schema import OpCall, TensorSpec

from ._cast64 import cast64_launch
from ._layouts import rewire
from ._map import Operand, plan_map
from ._program import Builder, Reg

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

WORDS = ("workspace", 0)  # scales as float32
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
def plan_ascend_dequant(call: OpCall, soc: Soc) -> list[Any]:
    """int32 * scale: one known scale for all, or one per channel. Those are float32 numbers in 64-bit words: the scalar
    unit takes them out first."""
    x = _input(call, ("int32",))
    word = call.inputs[1]
    if word is None:
        raise NoKernel("AscendDequant without scales")
    twice, relu = bool(call.attr("sqrt_mode", False)), bool(call.attr("relu_flag", False))
    dtype = call.outputs[0].dtype

    def finish(b: Builder, y: Reg) -> list[Reg]:
        return [b.cast(b.relu(y) if relu else y, dtype)]

    if word.const is not None and word.size == 1:
        raw = np.frombuffer(word.const, np.uint32)
        scale = float(raw[:1].view(np.float32)[0])
        scale *= scale if twice else 1.0
        return plan_map(call, soc, lambda b, o: finish(b, b.muls(o[0].as_type(b, "float32"), scale)), inputs=[0])
    factors = per_channel(word, x, (x.origin_format or x.format) == "NCHW")
    seen = replace(call, inputs=(x, factors))

    def make(b: Builder, operands: Sequence[Operand]) -> list[Reg]:
        y, factor = (o.as_type(b, "float32") for o in operands)
        y = b.mul(y, factor)
        return finish(b, b.mul(y, factor) if twice else y)

    launches = [] if word.dtype == "float32" else [rewire(_words(word, soc), {("in", 0): ("in", 1), ("out", 0): WORDS})]
    table = {} if word.dtype == "float32" else {("in", 1): WORDS}
    return [*launches, *(rewire(launch, table) for launch in plan_map(seen, soc, make))]


def _words(word: TensorSpec, soc: Soc) -> asc.Launch:
    """Low halves of 64-bit words."""
    if word.dtype not in ("int64", "uint64"):
        raise NoKernel(f"scales of {word.dtype}")
    x, y = (TensorSpec((word.size,), dtype) for dtype in ("int64", "int32"))
    return cast64_launch(OpCall("Cast", (x,), (y,), ()), soc)


def per_channel(scale: TensorSpec, x: TensorSpec, first: bool) -> TensorSpec:
    """Scales as float32 that broadcast against ``x``: along its second axis if channels come ``first``, else along the
    last one."""
    rank = len(x.shape)
    if x.format == "NC1HWC0":
        c0 = x.shape[-1]
        if scale.size % c0 or scale.size != x.logical_shape[1]:
            raise NoKernel(f"{scale.size} scales do not fill blocks of {c0}")
        return TensorSpec((1, scale.size // c0, 1, 1, c0), "float32", x.format, (1, scale.size, 1, 1), "NCHW")
    if x.format not in ("ND", "NCHW", "NHWC") or (first and rank < 2):
        raise NoKernel(f"scales per channel of {x.format}")
    axis = 1 if first else rank - 1
    return TensorSpec(tuple(scale.size if k == axis else 1 for k in range(rank)), "float32", x.format)
