"""Elementwise operators that frameworks call beside the classic ones: special functions, thresholds, odd arithmetic.

Names follow the operators behind aclnn where those are public ("Ascend/op-plugin"); none has a kernel here, so they are
charged by the estimate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ascend_sim.ops.dtypes import FLOATING
from ascend_sim.ops.registry import Array
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, broadcast, like, need, text
from ascend_sim.ops.values import _functions as fn
from ascend_sim.ops.values._blocks import elementwise
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._numeric import narrow, widen
from ascend_sim.ops.values.elementwise import binary_infer, binary_values

Unary = Callable[..., Array]


def _lgamma(x: Array) -> Array:
    """log |gamma(x)|, one value at a time (the C library's)."""
    flat = np.asarray(x, np.float64).reshape(-1)
    out = np.empty_like(flat)
    for i, v in enumerate(flat):
        if v <= 0 and (v == math.floor(v)):
            out[i] = math.inf
        elif math.isinf(v) or math.isnan(v):
            out[i] = abs(v)
        else:
            out[i] = math.lgamma(v)
    return out.reshape(x.shape).astype(x.dtype)


def _digamma(x: Array) -> Array:
    """Derivative of log gamma: recurrence up to 10, then the asymptotic series; reflection for negative arguments."""
    z = np.asarray(x, np.float64)
    negative = z < 0
    poles = (z <= 0) & (z == np.floor(z))
    with np.errstate(all="ignore"):
        fold = np.where(negative, 1 - z, z)
        total = np.zeros_like(fold)
        for _ in range(10):
            low = fold < 10
            total = np.where(low, total - 1 / fold, total)
            fold = np.where(low, fold + 1, fold)
        r = 1 / (fold * fold)
        series = r * (1 / 12 - r * (1 / 120 - r * (1 / 252 - r * (1 / 240 - r * (1 / 132 - r * 691 / 32760)))))
        y = total + np.log(fold) - 0.5 / fold - series
        y = np.where(negative, y - np.pi / np.tan(np.pi * z), y)
    y = np.where(poles, np.where(z == 0, np.copysign(np.inf, -z), np.nan), y)
    return y.astype(x.dtype)


def _erfinv(x: Array) -> Array:
    """Inverse error function: a rational start (Winitzki), then Newton steps with the error function itself."""
    z = np.asarray(x, np.float64)
    with np.errstate(all="ignore"):
        a = 0.147
        log = np.log1p(-z * z)
        half = 2 / (np.pi * a) + log / 2
        y = np.sign(z) * np.sqrt(np.sqrt(half * half - log / a) - half)
        for _ in range(3):
            error = fn.erf(y) - z
            y = y - error / (2 / np.sqrt(np.pi) * np.exp(-y * y))
        y = np.where(np.abs(z) == 1, np.sign(z) * np.inf, np.where(np.abs(z) > 1, np.nan, y))
    return y.astype(x.dtype)


def _sinc(x: Array) -> Array:
    with np.errstate(all="ignore"):
        z = x * x.dtype.type(np.pi)
        return np.where(x == 0, 1, np.sin(z) / z).astype(x.dtype)


def _entropy(x: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.where(np.isnan(x), x, np.where(x > 0, -x * np.log(x), np.where(x == 0, 0, -np.inf))).astype(x.dtype)


def _logit(x: Array, eps: float) -> Array:
    z = np.clip(x, eps, 1 - eps).astype(x.dtype) if eps >= 0 else x
    with np.errstate(all="ignore"):
        result: Array = np.log(z / (1 - z))
    return result


def _softplus(x: Array, beta: float, threshold: float) -> Array:
    kind = x.dtype.type
    scaled = x * kind(beta)
    return np.where(scaled > threshold, x, fn.softplus(scaled) / kind(beta)).astype(x.dtype)


def _soft_shrink(x: Array, lambd: float) -> Array:
    low = x.dtype.type(lambd)
    return np.where(np.isnan(x), x, np.where(x > low, x - low, np.where(x < -low, x + low, 0))).astype(x.dtype)


def _hard_shrink(x: Array, lambd: float) -> Array:
    return np.where((x >= -lambd) & (x <= lambd), 0, x).astype(x.dtype)


def _nan_to_num(x: Array, nan: float, posinf: float, neginf: float) -> Array:
    return np.where(np.isnan(x), nan, np.where(x == np.inf, posinf, np.where(x == -np.inf, neginf, x))).astype(x.dtype)


def _log_sigmoid(x: Array) -> Array:
    result: Array = np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))
    return result


_UNARY: dict[str, tuple[Unary, dict[str, Any]]] = {
    "Exp2": (np.exp2, {}), "Log2": (np.log2, {}), "Log10": (np.log10, {}), "Erfinv": (_erfinv, {}),
    "Lgamma": (_lgamma, {}), "Digamma": (_digamma, {}), "Sinc": (_sinc, {}), "Entr": (_entropy, {}),
    "Frac": (lambda x: x - np.trunc(x), {}), "LogSigmoid": (_log_sigmoid, {}),
    "Deg2rad": (lambda x: x * x.dtype.type(np.pi / 180), {}),
    "Rad2deg": (lambda x: x * x.dtype.type(180 / np.pi), {}),
    "Logit": (_logit, {"eps": -1.0}), "SoftplusV2": (_softplus, {"beta": 1.0, "threshold": 20.0}),
    "SoftShrink": (_soft_shrink, {"lambd": 0.5}), "HardShrink": (_hard_shrink, {"lambd": 0.5}),
    "NanToNum": (_nan_to_num, {"nan": 0.0, "posinf": 0.0, "neginf": 0.0}),
}  # fmt: skip


def _float_infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    if x.dtype not in FLOATING:
        raise ShapeError(f"x is {text(x)}; expected a floating-point type")
    return [like(x)]


def _unary_values(function: Unary, attrs: dict[str, Any]) -> Any:
    names = tuple(attrs.items())

    def values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
        x = arrays[0]
        assert x is not None
        given = [call.attr(n, d) for n, d in names]
        return [elementwise(lambda v: function(v, *given), [x], x.shape, call.outputs[0].dtype)]

    return values


for _name, (_function, _attrs) in _UNARY.items():
    define(_name, "elementwise", "x", _float_infer, _unary_values(_function, _attrs))


def _infer_any(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    return [like(need(inputs, 0, "x"))]


def _threshold(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """``value`` where x <= threshold."""
    x = arrays[0]
    assert x is not None
    low, value = call.attr("threshold", 0), call.attr("value", 0)
    return [np.where(widen(x) <= low, np.asarray(value).astype(x.dtype), x)]


define("ThresholdV2", "elementwise", "x", _infer_any, _threshold)


def _sign_bits(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    return [np.signbit(widen(x))]


define("SignBits", "elementwise", "x", lambda i, a: [like(need(i, 0, "x"), dtype="bool")], _sign_bits)


# ---- two inputs


def _xlogy(a: Array, b: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.where(np.isnan(b), b, np.where(a == 0, 0, a * np.log(b))).astype(a.dtype)


def _xlog1py(a: Array, b: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.where(np.isnan(b), b, np.where(a == 0, 0, a * np.log1p(b))).astype(a.dtype)


def _heaviside(a: Array, b: Array) -> Array:
    return np.where(np.isnan(a) if a.dtype.kind == "f" else False, a, np.where(a == 0, b, a > 0)).astype(a.dtype)


def _gcd(a: Array, b: Array) -> Array:
    result: Array = np.gcd(a, b)
    return result


_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "Hypot": np.hypot, "Fmax": np.fmax, "Fmin": np.fmin, "LogAddExp": np.logaddexp, "LogAddExp2": np.logaddexp2,
    "Xlogy": _xlogy, "Xlog1py": _xlog1py, "CopySign": np.copysign, "Heaviside": _heaviside, "Gcd": _gcd, "Lcm": np.lcm,
}  # fmt: skip

for _name, _binary in _BINARY.items():
    define(_name, "elementwise", "x1 x2", binary_infer, binary_values(_binary))


def _leaky_relu_tensor(a: Array, b: Array) -> Any:
    return np.where(a > 0, a, a * b)


define("LeakyReluTensor", "elementwise", "x weight", binary_infer, binary_values(_leaky_relu_tensor))


# ---- three inputs


def _ternary_infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    specs = [need(inputs, i, f"x{i}") for i in range(3)]
    return [TensorSpec(broadcast(*(s.logical_shape for s in specs)), specs[0].dtype)]


def _lerp(start: Array, end: Array, weight: Array) -> Any:
    """start + weight (end - start), from the nearer end."""
    step = end - start
    return np.where(np.abs(weight) < 0.5, start + weight * step, end - step * (1 - weight)).astype(start.dtype)


def _ternary_values(function: Callable[[Array, Array, Array], Array]) -> Any:
    def values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
        given = [a for a in arrays if a is not None]
        return [elementwise(function, given, call.outputs[0].logical_shape, call.outputs[0].dtype)]

    return values


define("Lerp", "elementwise", "start end weight", _ternary_infer, _ternary_values(_lerp))


# ---- gated halves


def _infer_glu(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    shape = list(x.logical_shape)
    dim = int(attrs.get("dim", -1))
    if not shape or shape[dim] % 2:
        raise ShapeError(f"x is {text(x)}; expected an even size along dim {dim}")
    shape[dim] //= 2
    return [like(x, tuple(shape))]


def _glu(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    a, b = np.split(widen(x), 2, axis=int(call.attr("dim", -1)))
    return [narrow(a * fn.sigmoid(b), call.outputs[0].dtype)]


def _glu_grad(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    dy, x = arrays[0], arrays[1]
    assert dy is not None and x is not None
    dim = int(call.attr("dim", -1))
    a, b = np.split(widen(x), 2, axis=dim)
    gate, g = fn.sigmoid(b), widen(dy)
    return [narrow(np.concatenate([g * gate, g * a * gate * (1 - gate)], dim), call.outputs[0].dtype)]


define("GLU", "elementwise", "x", _infer_glu, _glu)
define("GLUGrad", "elementwise", "grad_out x", lambda i, a: [like(need(i, 1, "x"))], _glu_grad)
