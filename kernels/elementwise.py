"""Elementwise operators: arithmetic, activations, rounding, logic and type conversion.

Each operator is a chain of steps (`_lower`) between the casts into and out of its compute type. Live bytes per
element and the 16-bit rule follow the stock kernels (fit over published 910B2 kernel times and TBE sources).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ascend_sim import asc
from ascend_sim.isa.enums import RoundMode
from ascend_sim.ops.registry import NoKernel, kernel
from ascend_sim.ops.schema import OpCall

from ._cast64 import TYPES, cast64_launch
from ._lower import Step, apply_steps, compute_dtype
from ._map import Operand, constant, plan_map
from ._program import Builder, Reg
from ._vector import converts

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

_FLOATS = ("float16", "bfloat16", "float32")

# Bytes one element occupies in UB in the stock schedule where that is known (910B2 tile sizes).
_LIVE = {
    ("Sigmoid", "float32"): 16, ("Sigmoid", "float16"): 16, ("Sigmoid", "bfloat16"): 16,
    ("Exp", "float32"): 12, ("Exp", "float16"): 12, ("Exp", "bfloat16"): 12,
    ("Gelu", "float32"): 20, ("Gelu", "float16"): 20, ("Gelu", "bfloat16"): 20,
    ("GeluV2", "float32"): 20, ("GeluV2", "float16"): 20, ("GeluV2", "bfloat16"): 20,
    ("Maximum", "float32"): 12, ("Maximum", "int32"): 12, ("Maximum", "float16"): 6, ("Maximum", "bfloat16"): 16,
    ("Maximum", "int8"): 9,
}  # fmt: skip


def _exp_steps(call: OpCall) -> list[Step]:
    """base ** (scale x + shift) as exp of a linear form."""
    base, scale, shift = (float(call.attr(n, d)) for n, d in (("base", -1.0), ("scale", 1.0), ("shift", 0.0)))
    log = 1.0 if base == -1.0 else math.log(base)
    steps: list[Step] = []
    if scale * log != 1.0:
        steps.append(("muls", scale * log))
    if shift * log != 0.0:
        steps.append(("adds", shift * log))
    return [*steps, ("exp",)]


def _log_steps(call: OpCall) -> list[Step]:
    base, scale, shift = (float(call.attr(n, d)) for n, d in (("base", -1.0), ("scale", 1.0), ("shift", 0.0)))
    steps: list[Step] = []
    if scale != 1.0:
        steps.append(("muls", scale))
    if shift != 0.0:
        steps.append(("adds", shift))
    steps.append(("log",))
    return steps if base == -1.0 else [*steps, ("muls", 1 / math.log(base))]


def _power_steps(call: OpCall) -> list[Step]:
    power, scale, shift = (float(call.attr(n, d)) for n, d in (("power", 1.0), ("scale", 1.0), ("shift", 0.0)))
    steps: list[Step] = []
    if scale != 1.0:
        steps.append(("muls", scale))
    if shift != 0.0:
        steps.append(("adds", shift))
    return steps if power == 1.0 else [*steps, ("pows", power)]


def _steps(call: OpCall) -> list[Step]:
    """The chain of a unary operator."""
    simple = {
        "Relu": "relu", "Relu6": "relu6", "Sigmoid": "sigmoid", "Tanh": "tanh", "Sqrt": "sqrt", "Rsqrt": "rsqrt",
        "Reciprocal": "reciprocal", "Inv": "reciprocal", "Square": "square", "Abs": "abs", "Neg": "neg",
        "Erf": "erf", "Erfc": "erfc", "HardSwish": "hswish", "Softplus": "softplus", "Softsign": "softsign",
        "Mish": "mish", "Gelu": "gelu", "Floor": "floor", "Ceil": "ceil", "Round": "round", "Rint": "round",
        "Trunc": "trunc", "Sign": "sign", "Expm1": "expm1", "Log1p": "log1p",
    }  # fmt: skip
    fast = "fast_" if call.type in ("Sigmoid", "Swish") and call.attr("_op_impl_mode") == "high_performance" else ""
    if call.type in simple:
        return [(fast + simple[call.type],)]
    if call.type == "Exp":
        return _exp_steps(call)
    if call.type == "Log":
        return _log_steps(call)
    if call.type == "Power":
        return _power_steps(call)
    if call.type == "GeluV2":
        return [("gelu" if call.attr("approximate", "none") == "tanh" else "gelu_erf",)]
    if call.type == "FastGelu":
        return [("swish", 1.702)]
    attributes: dict[str, tuple[str, tuple[tuple[str, float], ...]]] = {
        "LeakyRelu": ("leaky_relu", (("negative_slope", 0.0),)),
        "Elu": ("elu", (("alpha", 1.0), ("scale", 1.0), ("input_scale", 1.0))),
        "Swish": ("swish", (("scale", 1.0),)),
        "HardSigmoid": ("hsigmoid", (("alpha", 0.16666666), ("beta", 0.5))),
        "Muls": ("muls", (("value", 1.0),)),
        "Adds": ("adds", (("value", 0.0),)),
        "ClipByValueD": ("clip", (("min", -math.inf), ("max", math.inf))),
    }
    if call.type == "Selu":
        return [("elu", 1.6732632423543772, 1.0507009873554805, 1.0)]
    if call.type == "CeluV2":
        alpha = float(call.attr("alpha", 1.0))
        return [("elu", alpha, 1.0, 1.0 / alpha)]
    name, defaults = attributes[call.type]
    return [(fast + name, *(float(call.attr(n, d)) for n, d in defaults))]


def chain(
    b: Builder, soc: Soc, operands: Sequence[Operand], steps: Sequence[Step], out_dtype: str, work: str | None = None
) -> Reg:
    """Operands through the steps in the compute type, then to the output's type."""
    dtype = work or compute_dtype(soc, operands[0].dtype, steps)
    first, *extras = [o.as_type(b, dtype) for o in operands]
    return b.cast(apply_steps(b, first, steps, extras), out_dtype)


@kernel(
    "Relu", "Relu6", "LeakyRelu", "Elu", "Selu", "CeluV2", "Sigmoid", "Swish", "HardSwish", "HardSigmoid", "Softplus",
    "Softsign", "Mish", "Gelu", "GeluV2", "FastGelu", "Tanh", "Erf", "Erfc", "Sqrt", "Rsqrt", "Reciprocal", "Inv",
    "Square", "Abs", "Neg", "Sign", "Floor", "Ceil", "Round", "Rint", "Trunc", "Expm1", "Log1p", "Muls", "Adds",
    "Power", "Exp", "Log", "ClipByValueD",
)  # fmt: skip
def plan_unary(call: OpCall, soc: Soc) -> list[asc.Launch]:
    steps = _steps(call)
    x = call.inputs[0]
    if x is None or (x.dtype not in _FLOATS and x.dtype != "int32"):
        raise NoKernel(f"{call.type} of {None if x is None else x.dtype}")
    if x.dtype == "int32" and any(s[0] in ("floor", "sign", "pows", "sqrt") for s in steps):
        raise NoKernel(f"{call.type} of int32")

    def make(b: Builder, operands: Sequence[Operand]) -> list[Reg]:
        return [chain(b, soc, operands, steps, call.outputs[0].dtype)]

    return plan_map(call, soc, make, inputs=(0,), live_floor=_LIVE.get((call.type, x.dtype), 0))


_BINARY = {
    "Add": "add", "Sub": "sub", "Mul": "mul", "RealDiv": "div", "Div": "div", "Maximum": "max", "Minimum": "min",
    "SquaredDifference": "squared_difference", "PRelu": "prelu",
}  # fmt: skip


@kernel("Add", "Sub", "Mul", "RealDiv", "Div", "Maximum", "Minimum", "SquaredDifference")
def plan_binary(call: OpCall, soc: Soc) -> list[asc.Launch]:
    step = _BINARY[call.type]
    a, c = call.inputs[0], call.inputs[1]
    if a is None or c is None:
        raise NoKernel(f"{call.type} without two inputs")
    work = compute_dtype(soc, a.dtype, [(step,)])
    if a.dtype in ("int8", "uint8", "bool"):
        if step not in ("max", "min"):
            raise NoKernel(f"{call.type} of {a.dtype} has no exact vector sequence")
        work = "float16"
    elif a.dtype not in _FLOATS and (step == "div" or a.dtype not in ("int32", "int16")):
        raise NoKernel(f"{call.type} of {a.dtype}")
    if a.dtype == "float16" and step == "squared_difference":
        work = "float32"

    def make(b: Builder, operands: Sequence[Operand]) -> list[Reg]:
        return [chain(b, soc, operands, [(step,)], call.outputs[0].dtype, work)]

    return plan_map(call, soc, make, live_floor=_LIVE.get((call.type, a.dtype), 0))


@kernel("AddN")
def plan_add_n(call: OpCall, soc: Soc) -> list[asc.Launch]:
    present = [i for i, s in enumerate(call.inputs) if s is not None]
    steps = [("add",)] * (len(present) - 1)
    first = call.inputs[present[0]]
    if first is None or first.dtype not in (*_FLOATS, "int32"):
        raise NoKernel("AddN of this type")
    work = "float32" if first.dtype == "float16" and len(present) > 2 else compute_dtype(soc, first.dtype, steps)

    def make(b: Builder, operands: Sequence[Operand]) -> list[Reg]:
        if not steps:
            assert operands[0].reg is not None
            return [b.copy(operands[0].reg)]
        return [chain(b, soc, operands, steps, call.outputs[0].dtype, work)]

    return plan_map(call, soc, make, inputs=present)


@kernel("Axpy")
def plan_axpy(call: OpCall, soc: Soc) -> list[asc.Launch]:
    alpha = float(call.attr("alpha", 1.0))
    x = call.inputs[0]
    if x is None or x.dtype not in _FLOATS:
        raise NoKernel("Axpy of this type")
    work = "float32"

    def make(b: Builder, operands: Sequence[Operand]) -> list[Reg]:
        a, c = (o.as_type(b, work) for o in operands)
        return [b.cast(b.add(a, b.muls(c, alpha)), call.outputs[0].dtype)]

    return plan_map(call, soc, make)


@kernel("ClipByValue", "ClipByValueV2")
def plan_clip(call: OpCall, soc: Soc) -> list[asc.Launch]:
    present = [i for i, s in enumerate(call.inputs) if s is not None]
    x = call.inputs[0]
    if x is None or x.dtype not in (*_FLOATS, "int32"):
        raise NoKernel("clip of this type")
    kinds = [{1: "max", 2: "min"}[i] for i in present if i]
    work = compute_dtype(soc, x.dtype, [("max",)])

    def make(b: Builder, operands: Sequence[Operand]) -> list[Reg]:
        if not kinds:
            assert operands[0].reg is not None
            return [b.copy(operands[0].reg)]
        return [chain(b, soc, operands, [(k,) for k in kinds], call.outputs[0].dtype, work)]

    for i in present[1:]:
        bound = call.inputs[i]
        assert bound is not None
        if bound.size != 1 and constant(bound) is None and bound.size != x.size:
            raise NoKernel("clip bounds that broadcast")
    return plan_map(call, soc, make, inputs=present)


@kernel("PRelu")
def plan_prelu(call: OpCall, soc: Soc) -> list[asc.Launch]:
    x, weight = call.inputs[0], call.inputs[1]
    if x is None or weight is None or x.dtype not in _FLOATS:
        raise NoKernel("PRelu of this type")
    shape = weight.shape
    if weight.format not in ("NC1HWC0",) and weight.size != 1 and len(shape) == 1 and len(x.shape) > 2:
        shape = (*shape, *(1,) * (len(x.shape) - 2))  # one slope per channel of NC...
    if x.format == "NC1HWC0" and weight.size != 1 and weight.format != "NC1HWC0":
        c0 = x.shape[-1]
        if weight.size != x.shape[1] * c0:
            raise NoKernel("slopes that do not fill the channel blocks")
        shape = (1, weight.size // c0, 1, 1, c0)
    viewed = type(weight)(shape, weight.dtype, x.format, weight.logical_shape if False else None)
    if x.format == "NC1HWC0":
        logical = (1, x.logical_shape[1], 1, 1)
        viewed = type(weight)(shape, weight.dtype, x.format, logical, "NCHW")
    seen = OpCall(call.type, (x, viewed), call.outputs, call.attrs)

    def make(b: Builder, operands: Sequence[Operand]) -> list[Reg]:
        return [chain(b, soc, operands, [("prelu",)], call.outputs[0].dtype)]

    return plan_map(seen, soc, make)


@kernel("Cast")
def plan_cast(call: OpCall, soc: Soc) -> list[asc.Launch]:
    x, y = call.inputs[0], call.outputs[0]
    if x is None:
        raise NoKernel("Cast without input")
    if x.dtype == "int64" and not converts(soc, "int64", "int32") and call.outputs[0].dtype in TYPES:
        return [cast64_launch(call, soc)]

    def make(b: Builder, operands: Sequence[Operand]) -> list[Reg]:
        reg = operands[0].reg
        assert reg is not None
        return [convert(b, reg, x.dtype, y.dtype)]

    return plan_map(call, soc, make)


_WRAPS = ("int8", "uint8", "int16", "uint16")


def convert(b: Builder, x: Reg, src: str, dst: str) -> Reg:
    """The Cast operator: to integers by truncation, to floats by rounding, to bool by comparison with zero."""
    if src == dst or ({src, dst} == {"bool", "uint8"} and dst == "uint8"):
        return b.copy(x)
    if dst == "bool":
        from .select import nonzero

        return nonzero(b, b.cast(x, "float16" if src in ("int8", "uint8", "float16") else "float32"))
    if src in ("int32", "int64", "uint32", "int16", "uint16") and dst in _WRAPS:
        raise NoKernel(f"{src} -> {dst} wraps; the vector unit saturates")
    if {src, dst} & {"int64", "uint64", "uint16", "uint32", "float64"} and not (
        (src == "int64" and dst in ("int32", "float32")) or (dst == "int64" and src in ("int32", "float32"))
    ):
        raise NoKernel(f"{src} -> {dst} has no vector conversion")
    if (src == "uint8" and dst == "int8") or (src == "int8" and dst == "uint8"):
        raise NoKernel(f"{src} -> {dst} wraps; the vector unit saturates")
    if dst in _FLOATS:
        return b.cast(x, dst)
    if src in _FLOATS:
        if src != "float16" and dst in ("int8", "uint8"):
            x = b.truncate(b.cast(x, "float32"), RoundMode.TRUNC)
            return b.cast(b.cast(x, "float16"), dst, RoundMode.TRUNC)
        return b.cast(x, dst, RoundMode.TRUNC)
    return b.cast(x, dst)  # integer to a wider integer


