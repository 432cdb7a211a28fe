"""Gradients of activation functions: each is the derivative written out, in float32, rounded once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ascend_sim.ops.registry import Array
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, broadcast, like, need, text
from ascend_sim.ops.values import _functions as fn
from ascend_sim.ops.values._blocks import elementwise
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._numeric import narrow, widen


def _sigmoid(y: Array, dy: Array) -> Any:
    return dy * y * (1 - y)


def _tanh(y: Array, dy: Array) -> Any:
    return dy * (1 - y * y)


def _swish(dy: Array, x: Array) -> Any:
    s = fn.sigmoid(x)
    return dy * s * (1 + x * (1 - s))


def _mish(dy: Array, x: Array) -> Any:
    t = np.tanh(fn.softplus(x))
    return dy * (t + x * fn.sigmoid(x) * (1 - t * t))


def _hard_swish(dy: Array, x: Array) -> Any:
    return np.where(x <= -3, 0, np.where(x < 3, dy * (x / 3 + x.dtype.type(0.5)), dy)).astype(x.dtype)


def _hard_sigmoid(dy: Array, x: Array) -> Any:
    return np.where((x > -3) & (x < 3), dy / 6, 0).astype(x.dtype)


def _log_sigmoid(dy: Array, x: Array) -> Any:
    return dy * fn.sigmoid(-x)


def _threshold(dy: Array, x: Array, threshold: float) -> Any:
    return np.where(x <= threshold, 0, dy).astype(x.dtype)


_C, _K = 0.7978845608028654, 0.044715  # sqrt(2 / pi), the cubic term of the tanh form


def _gelu(dy: Array, x: Array, approximate: str) -> Any:
    kind = x.dtype.type
    if approximate == "tanh":
        t = np.tanh(kind(_C) * (x + kind(_K) * x * x * x))
        slope = kind(_C) * (1 + kind(3 * _K) * x * x)
        return dy * (kind(0.5) * (1 + t) + kind(0.5) * x * (1 - t * t) * slope)
    density = np.exp(-x * x / 2) * kind(0.3989422804014327)
    return dy * (kind(0.5) * (1 + fn.erf(x * kind(0.7071067811865476))) + x * density)


def _leaky_relu(dy: Array, x: Array, slope: float) -> Any:
    return np.where(x > 0, dy, dy * dy.dtype.type(slope))


def _hardtanh(x: Array, dy: Array, low: float, high: float) -> Any:
    return np.where((x <= low) | (x >= high), 0, dy).astype(x.dtype)


def _elu(dy: Array, x: Array, alpha: float, scale: float, input_scale: float, is_result: bool) -> Any:
    kind = x.dtype.type
    if is_result:
        inner = kind(input_scale) * (x + kind(alpha) * kind(scale))
    else:
        inner = kind(input_scale) * kind(alpha) * kind(scale) * np.exp(np.minimum(x, 0) * kind(input_scale))
    return np.where(x <= 0, dy * inner, dy * kind(scale)).astype(x.dtype)


def _softplus(dy: Array, x: Array, beta: float, threshold: float) -> Any:
    scaled = x * x.dtype.type(beta)
    return np.where(scaled > threshold, dy, dy * fn.sigmoid(-scaled) * np.exp(np.minimum(scaled, threshold))).astype(
        x.dtype
    )


def _shrink(dy: Array, x: Array, lambd: float) -> Any:
    return np.where((x >= -lambd) & (x <= lambd), 0, dy).astype(x.dtype)


def _logit(x: Array, dy: Array, eps: float) -> Any:
    with np.errstate(all="ignore"):
        inner = dy / (x * (1 - x))
        if eps >= 0:
            return np.where((x < eps) | (x > 1 - eps), 0, inner).astype(x.dtype)
        return np.where((x < 0) | (x > 1), np.nan, inner).astype(x.dtype)


_GRADIENTS: dict[str, tuple[str, Callable[..., Array], dict[str, Any]]] = {
    "SigmoidGrad": ("y dy", _sigmoid, {}),
    "TanhGrad": ("y dy", _tanh, {}),
    "SwishGrad": ("grad x", _swish, {}),
    "MishGrad": ("grad x", _mish, {}),
    "HardSwishGrad": ("grad x", _hard_swish, {}),
    "HardSigmoidGrad": ("grads input_x", _hard_sigmoid, {}),
    "LogSigmoidGrad": ("grads features", _log_sigmoid, {}),
    "ThresholdGradV2D": ("gradients features", _threshold, {"threshold": 0.0}),
    "GeluGradV2": ("dy x", _gelu, {"approximate": "none"}),
    "LeakyReluGrad": ("gradients features", _leaky_relu, {"negative_slope": 0.0}),
    "HardtanhGrad": ("result grad", _hardtanh, {"min_val": -1.0, "max_val": 1.0}),
    "EluGradV2": (
        "grads activations",
        _elu,
        {"alpha": 1.0, "scale": 1.0, "input_scale": 1.0, "is_result": False},
    ),
    "SoftplusV2Grad": ("input_gradients input_features", _softplus, {"beta": 1.0, "threshold": 20.0}),
    "SoftShrinkGrad": ("input_grad input_x", _shrink, {"lambd": 0.5}),
    "HardShrinkGrad": ("gradients features", _shrink, {"lambd": 0.5}),
    "LogitGrad": ("x dy", _logit, {"eps": -1.0}),
}


def _infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    a, b = need(inputs, 0, "first input"), need(inputs, 1, "second input")
    if a.logical_shape != b.logical_shape or a.dtype != b.dtype:
        raise ShapeError(f"the second input is {text(b)}; expected the same as the first, {text(a)}")
    return [like(a)]


def _values(function: Callable[..., Array], attrs: dict[str, Any]) -> Any:
    names = tuple(attrs.items())

    def values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
        a, b = arrays[0], arrays[1]
        assert a is not None and b is not None
        given = [call.attr(n, d) for n, d in names]
        return [elementwise(lambda u, v: function(u, v, *given), [a, b], a.shape, call.outputs[0].dtype)]

    return values


for _name, (_inputs, _function, _attrs) in _GRADIENTS.items():
    define(_name, "elementwise", _inputs, _infer, _values(_function, _attrs))


def _infer_prelu(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    dy, x, weight = (need(inputs, i, n) for i, n in enumerate(("grads", "features", "weights")))
    shape = broadcast(dy.logical_shape, x.logical_shape, weight.logical_shape)
    return [like(x, shape), like(x, shape)]


def _prelu(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """Gradients of x and of the slopes (not yet summed over what the slopes were broadcast to)."""
    dy, x, weight = (widen(a) for a in arrays if a is not None)
    first = np.where(x > 0, dy, dy * weight)
    second = np.where(x > 0, 0, dy * x)
    return [
        narrow(np.broadcast_to(r, o.logical_shape), o.dtype) for r, o in zip((first, second), call.outputs, strict=True)
    ]


define("PReluGradTensor", "elementwise", "grads features weights", _infer_prelu, _prelu)
