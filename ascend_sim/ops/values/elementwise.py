"""Elementwise operators: unary functions and activations, and binary arithmetic with broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ascend_sim.ops import epilogue
from ascend_sim.ops.dtypes import FLOATING, dtype_name
from ascend_sim.ops.registry import Array, Infer, Values
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, broadcast, like, need, same_dtype, text
from ascend_sim.ops.values import _functions as fn
from ascend_sim.ops.values._blocks import elementwise
from ascend_sim.ops.values._define import Specs, define, infer_same
from ascend_sim.ops.values._numeric import convert, float32, narrow, widen

Unary = Callable[..., Array]

# ---- unary: name -> (function, attributes handed over in order with their IR defaults, floats only)

_UNARY: dict[str, tuple[Unary, dict[str, Any], bool]] = {
    "Relu": (lambda x: np.maximum(x, 0), {}, False),
    "Relu6": (lambda x: np.clip(x, 0, 6), {}, False),
    "LeakyRelu": (fn.leaky_relu, {"negative_slope": 0.0}, True),
    "Elu": (fn.elu, {"alpha": 1.0, "scale": 1.0, "input_scale": 1.0}, True),
    "Selu": (lambda x: fn.elu(x, 1.6732632423543772, 1.0507009873554805), {}, True),
    "CeluV2": (lambda x, alpha: fn.elu(x, alpha, 1.0, 1.0 / alpha), {"alpha": 1.0}, True),
    "Sigmoid": (fn.sigmoid, {}, True),
    "Swish": (lambda x, scale: x * fn.sigmoid(x * x.dtype.type(scale)), {"scale": 1.0}, True),
    "HardSwish": (fn.hard_swish, {}, True),
    "HardSigmoid": (fn.hard_sigmoid, {"alpha": 0.16666666, "beta": 0.5}, True),
    "ThresholdedRelu": (lambda x, alpha: np.where(x > alpha, x, 0).astype(x.dtype), {"alpha": 1.0}, True),
    "Shrink": (
        lambda x, lambd, bias: np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0)).astype(x.dtype),
        {"lambd": 0.5, "bias": 0.0},
        True,
    ),
    "Softplus": (fn.softplus, {}, True),
    "Softsign": (lambda x: x / (1 + np.abs(x)), {}, True),
    "Mish": (lambda x: x * np.tanh(fn.softplus(x)), {}, True),
    "Gelu": (fn.gelu_tanh, {}, True),
    "FastGelu": (lambda x: x * fn.sigmoid(x * x.dtype.type(1.702)), {}, True),
    "Tanh": (np.tanh, {}, True),
    "Erf": (fn.erf, {}, True),
    "Erfc": (lambda x: 1 - fn.erf(x), {}, True),
    "Sqrt": (np.sqrt, {}, True),
    "Rsqrt": (lambda x: 1 / np.sqrt(x), {}, True),
    "Reciprocal": (np.reciprocal, {}, True),
    "Inv": (np.reciprocal, {}, True),
    "Square": (np.square, {}, False),
    "Abs": (np.abs, {}, False),
    "Neg": (np.negative, {}, False),
    "Sign": (np.sign, {}, False),
    "Floor": (np.floor, {}, True),
    "Ceil": (np.ceil, {}, True),
    "Round": (np.rint, {}, True),
    "Rint": (np.rint, {}, True),
    "Trunc": (np.trunc, {}, True),
    "Expm1": (np.expm1, {}, True),
    "Log1p": (np.log1p, {}, True),
    "Sin": (np.sin, {}, True),
    "Cos": (np.cos, {}, True),
    "Tan": (np.tan, {}, True),
    "Asin": (np.arcsin, {}, True),
    "Acos": (np.arccos, {}, True),
    "Atan": (np.arctan, {}, True),
    "Sinh": (np.sinh, {}, True),
    "Cosh": (np.cosh, {}, True),
    "Asinh": (np.arcsinh, {}, True),
    "Acosh": (np.arccosh, {}, True),
    "Atanh": (np.arctanh, {}, True),
    "Muls": (lambda x, value: x * x.dtype.type(value), {"value": 1.0}, False),
    "Adds": (lambda x, value: x + x.dtype.type(value), {"value": 0.0}, False),
    "Power": (
        lambda x, power, scale, shift: np.power(x * x.dtype.type(scale) + x.dtype.type(shift), x.dtype.type(power)),
        {"power": 1.0, "scale": 1.0, "shift": 0.0},
        True,
    ),
}


def _exp(x: Array, base: float, scale: float, shift: float) -> Array:
    """base ** (scale x + shift); base -1 means e."""
    kind = x.dtype.type
    if (scale, shift) != (1.0, 0.0):
        x = x * kind(scale) + kind(shift)
    result: Array = np.exp(x) if base == -1.0 else np.power(kind(base), x)
    return result


def _log(x: Array, base: float, scale: float, shift: float) -> Array:
    kind = x.dtype.type
    if (scale, shift) != (1.0, 0.0):
        x = x * kind(scale) + kind(shift)
    result: Array = np.log(x) if base == -1.0 else np.log(x) / kind(np.log(base))
    return result


_UNARY["Exp"] = (_exp, {"base": -1.0, "scale": 1.0, "shift": 0.0}, True)
_UNARY["Log"] = (_log, {"base": -1.0, "scale": 1.0, "shift": 0.0}, True)


def _gelu_v2(x: Array, approximate: str) -> Array:
    return fn.gelu_tanh(x) if approximate == "tanh" else fn.gelu_erf(x)


_UNARY["GeluV2"] = (_gelu_v2, {"approximate": "none"}, True)


def _unary_infer(floats: bool) -> Infer:
    def infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
        x = need(inputs, 0, "x")
        if floats and x.dtype not in FLOATING:
            raise ShapeError(f"x is {text(x)}; expected a floating-point type")
        return [like(x)]

    return infer


def _unary_values(function: Unary, attrs: dict[str, Any]) -> Values:
    names = tuple(attrs.items())

    def values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
        x = arrays[0]
        assert x is not None
        parameters = [call.attr(n, d) for n, d in names]
        if parameters:
            return [elementwise(lambda v: function(v, *parameters), [x], x.shape, call.outputs[0].dtype)]
        return [elementwise(function, [x], x.shape, call.outputs[0].dtype)]

    return values


for _name, (_function, _attrs, _floats) in _UNARY.items():
    define(_name, "elementwise", "x", _unary_infer(_floats), _unary_values(_function, _attrs))


# ---- binary


def binary_infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    a, b = need(inputs, 0, "x1"), need(inputs, 1, "x2")
    dtype = same_dtype((a, b), ("x1", "x2"))
    shape = broadcast(a.logical_shape, b.logical_shape)
    return [like(a if len(a.logical_shape) >= len(b.logical_shape) else b, shape, dtype)]


def _integer_div(a: Array, b: Array) -> Array:
    """Division of the Div operator: integers truncate toward zero, division by zero gives 0."""
    if a.dtype.kind in "fc":
        result: Array = a / b
        return result
    safe = np.where(b == 0, 1, b)
    q = np.floor_divide(a, safe)
    if a.dtype.kind == "i":
        q = q + ((np.remainder(a, safe) != 0) & ((a < 0) != (safe < 0)))
    return np.where(b == 0, 0, q).astype(a.dtype)


def _div_no_nan(a: Array, b: Array) -> Array:
    return np.where(b == 0, 0, _integer_div(a, np.where(b == 0, 1, b).astype(b.dtype))).astype(a.dtype)


def _pow(a: Array, b: Array) -> Array:
    if a.dtype.kind in "iu":
        return np.power(a.astype(np.float64), b.astype(np.float64)).astype(a.dtype)
    return np.power(a, b)


def _shift(function: Callable[..., Any]) -> Callable[[Array, Array], Array]:
    """Shift by 0 to bits - 1; any other amount leaves only what fills from the side: the sign going right, else 0."""

    def shifted(a: Array, b: Array) -> Array:
        bits = a.dtype.itemsize * 8
        inside = (b >= 0) & (b < bits)
        result: Array = function(a, np.where(inside, b, bits - 1).astype(b.dtype))
        if function is np.right_shift and a.dtype.kind == "i":
            return result
        return np.where(inside, result, 0).astype(a.dtype)

    return shifted


_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "RealDiv": np.divide,
    "Div": _integer_div,
    "DivNoNan": _div_no_nan,
    "TruncateDiv": _integer_div,
    "FloorDiv": np.floor_divide,
    "Mod": np.fmod,
    "FloorMod": np.mod,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
    "Pow": _pow,
    "Atan2": np.arctan2,
    "SquaredDifference": lambda a, b: np.square(a - b),
    "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
    "LeftShift": _shift(np.left_shift),
    "RightShift": _shift(np.right_shift),
}


def binary_values(function: Callable[[Array, Array], Array]) -> Values:
    def values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
        a, b = arrays[0], arrays[1]
        assert a is not None and b is not None
        return [elementwise(function, [a, b], call.outputs[0].logical_shape, call.outputs[0].dtype)]

    return values


for _name, _binary in _BINARY.items():
    define(_name, "elementwise", "x1 x2", binary_infer, binary_values(_binary))


# ---- several inputs and the odd ones


def _infer_add_n(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    need(inputs, 0, "x0")
    present = [s for s in inputs if s is not None]
    names = [f"x{i}" for i in range(len(present))]
    same_dtype(present, names)
    shape = broadcast(*(s.logical_shape for s in present), names=names)
    return [like(max(present, key=lambda s: len(s.logical_shape)), shape)]


def _add_n(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    first, *others = [widen(a) for a in arrays if a is not None]
    total = first
    for other in others:
        total = total + other
    return [narrow(np.broadcast_to(total, call.outputs[0].logical_shape), call.outputs[0].dtype)]


define("AddN", "elementwise", "x*", _infer_add_n, _add_n)


def _infer_prelu(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x, weight = need(inputs, 0, "x"), need(inputs, 1, "weight")
    shape = x.logical_shape
    if weight.size != 1 and (len(shape) < 2 or weight.size != shape[1]):
        broadcast_weight = broadcast(shape, weight.logical_shape, names=("x", "weight"))
        if broadcast_weight != shape:
            raise ShapeError(f"weight is {text(weight)}; expected one slope, or one per channel of x {text(x)}")
    return [like(x)]


def _prelu(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x, weight = arrays[0], arrays[1]
    assert x is not None and weight is not None
    slope = widen(weight)
    if slope.ndim <= 1 and slope.size != 1:
        slope = slope[: x.shape[1]]  # may be filled up to whole channel blocks
        slope = slope.reshape(-1, *(1,) * (x.ndim - 2))
    elif slope.size == 1:
        slope = slope.reshape(())
    return [narrow(fn.leaky_relu(widen(x), slope), call.outputs[0].dtype)]


define("PRelu", "elementwise", "x weight", _infer_prelu, _prelu)


def _clip_values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x, *bounds = arrays
    assert x is not None
    y = widen(x)
    low, high = [*bounds, None, None][:2]
    if low is not None:
        y = np.maximum(y, widen(low))
    if high is not None:
        y = np.minimum(y, widen(high))
    return [narrow(np.broadcast_to(y, x.shape), call.outputs[0].dtype)]


define("ClipByValue", "elementwise", "x clip_value_min? clip_value_max?", infer_same, _clip_values)


def _clip_attrs(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    y = np.clip(widen(x), call.attr("min", -np.inf), call.attr("max", np.inf))
    return [narrow(y, call.outputs[0].dtype)]


define("ClipByValueV2", "elementwise", "x clip_value_min? clip_value_max?", infer_same, _clip_values)
define("ClipByValueD", "elementwise", "x", infer_same, _clip_attrs)


def _infer_cast(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    if "dst_type" not in attrs:
        raise ShapeError("attribute dst_type is missing")
    try:
        return [like(x, dtype=dtype_name(attrs["dst_type"]))]
    except ValueError as error:
        raise ShapeError(f"attribute dst_type: {error}") from error


def _cast(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    return [convert(x, call.outputs[0].dtype)]


define("Cast", "elementwise", "x", _infer_cast, _cast)


def _infer_axpy(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    return binary_infer(inputs, attrs)


def _axpy(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    a, b = arrays[0], arrays[1]
    assert a is not None and b is not None
    a, b = widen(a), widen(b)
    return [narrow(a + b * b.dtype.type(call.attr("alpha", 1.0)), call.outputs[0].dtype)]


define("Axpy", "elementwise", "x1 x2", _infer_axpy, _axpy)


def _infer_addc(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    specs = [need(inputs, i, n) for i, n in enumerate(("input_data", "x1", "x2"))]
    shape = broadcast(*(s.logical_shape for s in specs), names=("input_data", "x1", "x2"))
    same_dtype(specs, ("input_data", "x1", "x2"))
    return [like(specs[0], shape)]


def _addc(function: Callable[[Array, Array], Array]) -> Values:
    def values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
        x, a, b, value = (widen(v) if v is not None else None for v in [*arrays, None][:4])
        assert x is not None and a is not None and b is not None
        with np.errstate(all="ignore"):
            product = function(a, b)
            return [narrow(x + (product if value is None else value * product), call.outputs[0].dtype)]

    return values


define("Addcmul", "elementwise", "input_data x1 x2 value?", _infer_addc, _addc(np.multiply))
define("Addcdiv", "elementwise", "input_data x1 x2 value?", _infer_addc, _addc(np.divide))


def _infer_bias_add(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x, bias = need(inputs, 0, "x"), need(inputs, 1, "bias")
    axis = _channel_axis(len(x.logical_shape), str(attrs.get("data_format", "NHWC")))
    if bias.logical_shape != (x.logical_shape[axis],):
        raise ShapeError(f"bias is {text(bias)}; expected [{x.logical_shape[axis]}] for x {text(x)}")
    return [like(x)]


def _channel_axis(ndim: int, fmt: str) -> int:
    return 1 if fmt.startswith("NC") and ndim > 1 else ndim - 1


def _bias_add(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x, bias = arrays[0], arrays[1]
    assert x is not None and bias is not None
    axis = _channel_axis(x.ndim, str(call.attr("data_format", "NHWC")))
    shape = [1] * x.ndim
    shape[axis] = -1
    return [narrow(widen(x) + widen(bias).reshape(shape), call.outputs[0].dtype)]


define("BiasAdd", "elementwise", "x bias", _infer_bias_add, _bias_add)


def _infer_fused(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    steps = attrs.get("steps")
    if not steps:
        raise ShapeError("attribute steps is missing or empty")
    try:
        epilogue.check(steps, len(inputs) - 1)
    except ValueError as error:
        raise ShapeError(f"attribute steps: {error}") from error
    others = [need(inputs, i, f"x{i}") for i in range(1, len(inputs))]
    prelu = iter(others)
    shapes = [x.logical_shape]
    for step in steps:
        if step[0] in epilogue.BINARY:
            other = next(prelu)
            if step[0] != "prelu":
                shapes.append(other.logical_shape)
    return [like(x, broadcast(*shapes, names=[f"x{i}" for i in range(len(shapes))]))]


def _fused(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x, *others = (a for a in arrays if a is not None)
    steps = call.attr("steps")
    shape = call.outputs[0].logical_shape
    if not shape:
        one = replace(call, outputs=(replace(call.outputs[0], shape=(1,), origin_shape=None),))
        return [_fused([a.reshape(1) for a in (x, *others)], one)[0].reshape(())]
    extras = epilogue.aligned(steps, others, len(shape))

    def run(first: Array, *rest: Array) -> Array:
        # steps overwrite their accumulator: what was not widened must be copied
        start = first.copy() if x.dtype == np.float32 else float32(first)
        return epilogue.apply(start, steps, iter(rest))

    return [elementwise(run, [x, *extras], shape, call.outputs[0].dtype)]


define("FusedElementwise", "elementwise", "x others*", _infer_fused, _fused)
