"""Normalisations: batch, layer, RMS, group, instance, local response, L2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from ascend_sim.ops import epilogue
from ascend_sim.ops.dtypes import FLOATING
from ascend_sim.ops.registry import Array
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import (
    ShapeError,
    axes_of,
    axis_of,
    const_ints,
    data_format,
    ints,
    like,
    need,
    optional,
    rank,
    text,
)
from ascend_sim.ops.values._define import Specs, define, infer_same
from ascend_sim.ops.values._numeric import float32, narrow, widen


def _channel(shape: Sequence[int], fmt: str) -> int:
    """Axis of the channels: 1 in NC..., else the last one."""
    return 1 if fmt.startswith("NC") and len(shape) > 1 else len(shape) - 1


def _along(vector: Array, axis: int, ndim: int) -> Array:
    """A per-channel vector shaped to broadcast along ``axis``."""
    shape = [1] * ndim
    shape[axis] = -1
    return float32(vector).reshape(shape)


# ---- batch normalisation


def _check_channels(inputs: Specs, attrs: dict[str, Any], names: Sequence[str], default: str) -> TensorSpec:
    x = need(inputs, 0, "x")
    if x.dtype not in FLOATING:
        raise ShapeError(f"x is {text(x)}; expected a floating-point type")
    shape = rank(x, "x", 2)
    fmt = data_format(attrs, x, default)
    c = shape[_channel(shape, fmt)]
    for index, name in enumerate(names, 1):
        spec = optional(inputs, index)
        if spec is not None and spec.size != c:
            raise ShapeError(f"{name} is {text(spec)}; expected [{c}] for x {text(x)} in {fmt}")
    return x


def _scale_shift(x: Array, parts: Sequence[Array | None], epsilon: float, axis: int) -> Array:
    """(x - mean) / sqrt(variance + epsilon) * scale + offset, as one multiply and add per element.

    ``parts`` are scale, offset, mean, variance."""
    scale, offset, mean, variance = parts
    assert mean is not None and variance is not None
    factor = 1 / np.sqrt(variance.astype(np.float64) + epsilon)
    if scale is not None:
        factor = factor * scale.astype(np.float64)
    shift = -mean.astype(np.float64) * factor
    if offset is not None:
        shift = shift + offset.astype(np.float64)
    y = widen(x) * _along(factor, axis, x.ndim)
    y += _along(shift, axis, x.ndim)
    return y


def _infer_bn_infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    return [like(_check_channels(inputs, attrs, ("scale", "offset", "mean", "variance"), "NCHW"))]


def _bn_infer(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x, spec = arrays[0], call.inputs[0]
    assert x is not None and spec is not None
    axis = _channel(x.shape, data_format(dict(call.attrs), spec, "NCHW"))
    y = _scale_shift(x, arrays[1:5], float(call.attr("epsilon", 1e-5)), axis)
    return [narrow(epilogue.apply(y, call.attr("epilogue", ()), iter(())), call.outputs[0].dtype)]


define("BNInfer", "norm", "x scale offset mean variance", _infer_bn_infer, _bn_infer)


def _infer_bn_inference(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    return [like(_check_channels(inputs, attrs, ("mean", "variance", "scale", "b"), "NCHW"))]


def _bn_inference(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x, spec = arrays[0], call.inputs[0]
    assert x is not None and spec is not None
    mean, variance, scale, offset = [*arrays[1:], None, None][:4]
    axis = _channel(x.shape, data_format(dict(call.attrs), spec, "NCHW"))
    y = _scale_shift(x, (scale, offset, mean, variance), float(call.attr("epsilon", 1e-5)), axis)
    return [narrow(y, call.outputs[0].dtype)]


define("BNInferenceD", "norm", "x mean variance scale? b?", _infer_bn_inference, _bn_inference)


def _infer_batch_norm(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = _check_channels(inputs, attrs, ("scale", "offset", "mean", "variance"), "NHWC")
    scale = need(inputs, 1, "scale")
    if not attrs.get("is_training", True):
        need(inputs, 3, "mean")
        need(inputs, 4, "variance")
    return [like(x), *[like(scale)] * 4]


def _batch_norm(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """y, batch_mean, batch_variance, reserve_space_1, reserve_space_2 (mean and variance once more)."""
    x, scale, offset, mean, variance = [*arrays, None, None][:5]
    spec = call.inputs[0]
    assert x is not None and spec is not None
    axis = _channel(x.shape, data_format(dict(call.attrs), spec, "NHWC"))
    running = (mean, variance)
    if call.attr("is_training", True):
        others = tuple(i for i in range(x.ndim) if i != axis)
        wide = widen(x)
        mean = wide.mean(axis=others)
        variance = wide.var(axis=others)
        count = prod(x.shape[i] for i in others)
        unbiased = variance * (count / max(count - 1, 1))
        running = (mean, unbiased)
    y = _scale_shift(x, (scale, offset, mean, variance), float(call.attr("epsilon", 1e-4)), axis)
    results = [y, running[0], running[1], mean, variance]
    return [narrow(np.asarray(r), o.dtype) for r, o in zip(results, call.outputs, strict=True)]


define("BatchNorm", "norm", "x scale offset mean? variance?", _infer_batch_norm, _batch_norm)


# ---- over the last axes


def _normalise(x: Array, axes: tuple[int, ...], epsilon: float) -> tuple[Array, Array, Array]:
    """Normalised x, mean and variance over ``axes`` (kept)."""
    mean = x.mean(axis=axes, keepdims=True, dtype=x.dtype)
    y = x - mean
    variance = np.square(y).mean(axis=axes, keepdims=True, dtype=x.dtype)
    y *= 1 / np.sqrt(variance + x.dtype.type(epsilon))
    return y, mean, variance


def _affine(y: Array, gamma: Array | None, beta: Array | None) -> Array:
    if gamma is not None:
        y *= widen(gamma)
    if beta is not None:
        y += widen(beta)
    return y


def _infer_layer_norm(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x, gamma, beta = need(inputs, 0, "x"), need(inputs, 1, "gamma"), optional(inputs, 2)
    shape = rank(x, "x", 1)
    axis = axis_of(int(attrs.get("begin_norm_axis", 0)), len(shape), "begin_norm_axis")
    params = axis_of(int(attrs.get("begin_params_axis", 0)), len(shape), "begin_params_axis")
    for name, spec in (("gamma", gamma), ("beta", beta)):
        if spec is not None and spec.size != prod(shape[params:]):
            raise ShapeError(f"{name} is {text(spec)}; expected {list(shape[params:])} for x {text(x)}")
    stat = like(x, (*shape[:axis], *(1,) * (len(shape) - axis)))
    return [like(x), stat, stat]


def _layer_norm(reciprocal_deviation: bool) -> Any:
    def values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
        x, gamma, beta = arrays[0], arrays[1], arrays[2] if len(arrays) > 2 else None
        assert x is not None and gamma is not None
        axis = axis_of(int(call.attr("begin_norm_axis", 0)), x.ndim)
        params = axis_of(int(call.attr("begin_params_axis", 0)), x.ndim)
        epsilon = float(call.attr("epsilon", 1e-7))
        y, mean, variance = _normalise(widen(x), tuple(range(axis, x.ndim)), epsilon)
        y = _affine(y, gamma.reshape(x.shape[params:]), None if beta is None else beta.reshape(x.shape[params:]))
        last = 1 / np.sqrt(variance + epsilon) if reciprocal_deviation else variance
        return [narrow(r, o.dtype) for r, o in zip((y, mean, last), call.outputs, strict=False)]

    return values


define("LayerNorm", "norm", "x gamma beta", _infer_layer_norm, _layer_norm(False))
define("LayerNormV3", "norm", "x gamma beta", _infer_layer_norm, _layer_norm(True))


def _inner_shape(inputs: Specs, attrs: dict[str, Any]) -> tuple[int, ...]:
    given = attrs.get("normalized_shape")
    return tuple(const_ints(optional(inputs, 1), "normalized_shape") if given is None else ints(given, "shape"))


def _infer_layer_norm_v4(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    inner, shape = _inner_shape(inputs, attrs), x.logical_shape
    if not inner or shape[len(shape) - len(inner) :] != inner:
        raise ShapeError(f"normalized_shape {list(inner)} does not end the shape of x {text(x)}")
    for index, name in ((2, "gamma"), (3, "beta")):
        spec = optional(inputs, index)
        if spec is not None and spec.logical_shape != inner:
            raise ShapeError(f"{name} is {text(spec)}; expected {list(inner)}")
    stat = TensorSpec((*shape[: len(shape) - len(inner)], *(1,) * len(inner)), "float32")
    return [like(x), stat, stat]


def _layer_norm_v4(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x, _, gamma, beta = [*arrays, None, None, None][:4]
    assert x is not None
    inner = _inner_shape(call.inputs, dict(call.attrs))
    epsilon = float(call.attr("epsilon", 1e-5))
    y, mean, variance = _normalise(widen(x), tuple(range(x.ndim - len(inner), x.ndim)), epsilon)
    results = (_affine(y, gamma, beta), mean, 1 / np.sqrt(variance + epsilon))
    return [narrow(r, o.dtype) for r, o in zip(results, call.outputs, strict=False)]


define("LayerNormV4", "norm", "x normalized_shape? gamma? beta?", _infer_layer_norm_v4, _layer_norm_v4)


def _infer_rms_norm(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x, gamma = need(inputs, 0, "x"), need(inputs, 1, "gamma")
    shape, inner = x.logical_shape, gamma.logical_shape
    if not inner or shape[len(shape) - len(inner) :] != inner:
        raise ShapeError(f"gamma is {text(gamma)}, which does not end the shape of x {text(x)}")
    return [like(x), TensorSpec((*shape[: len(shape) - len(inner)], *(1,) * len(inner)), "float32")]


def _rms_norm(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x, gamma = arrays[0], arrays[1]
    assert x is not None and gamma is not None
    wide = widen(x)
    axes = tuple(range(x.ndim - gamma.ndim, x.ndim))
    power = np.square(wide).mean(axis=axes, keepdims=True, dtype=wide.dtype)
    deviation = 1 / np.sqrt(power + wide.dtype.type(call.attr("epsilon", 1e-6)))
    results = (wide * deviation * widen(gamma), deviation)
    return [narrow(r, o.dtype) for r, o in zip(results, call.outputs, strict=False)]


define("RmsNorm", "norm", "x gamma", _infer_rms_norm, _rms_norm)


def _infer_add_rms_norm(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    a, b = need(inputs, 0, "x1"), need(inputs, 1, "x2")
    if a.logical_shape != b.logical_shape or a.dtype != b.dtype:
        raise ShapeError(f"x2 is {text(b)}; expected the same as x1 {text(a)}")
    y, deviation = _infer_rms_norm([a, need(inputs, 2, "gamma")], attrs)
    return [y, deviation, like(a)]


def _add_rms_norm(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    a, b, gamma = arrays[:3]
    assert a is not None and b is not None and gamma is not None
    total = widen(a) + widen(b)
    inner = OpCall("RmsNorm", (), call.outputs[:2], call.attrs)
    return [*_rms_norm([total, gamma], inner), narrow(total, call.outputs[2].dtype)]


define("AddRmsNorm", "norm", "x1 x2 gamma", _infer_add_rms_norm, _add_rms_norm)


# ---- per instance and per group


def _infer_instance(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = _check_channels(inputs, attrs, ("gamma", "beta"), "NCHW")
    shape = x.logical_shape
    axis = _channel(shape, data_format(attrs, x, "NCHW"))
    stat = like(x, tuple(s if i in (0, axis) else 1 for i, s in enumerate(shape)))
    return [like(x), stat, stat]


def _instance(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x, gamma, beta = [*arrays, None, None][:3]
    spec = call.inputs[0]
    assert x is not None and spec is not None
    axis = _channel(x.shape, data_format(dict(call.attrs), spec, "NCHW"))
    axes = tuple(i for i in range(1, x.ndim) if i != axis)
    y, mean, variance = _normalise(widen(x), axes, float(call.attr("epsilon", 1e-6)))
    y = _affine(y, *(None if v is None else _along(v, axis, x.ndim) for v in (gamma, beta)))
    return [narrow(r, o.dtype) for r, o in zip((y, mean, variance), call.outputs, strict=False)]


define("InstanceNorm", "norm", "x gamma? beta?", _infer_instance, _instance)


def _infer_group(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = _check_channels(inputs, attrs, ("gamma", "beta"), "NCHW")
    groups = int(attrs.get("num_groups", 0))
    c = x.logical_shape[1]
    if groups < 1 or c % groups:
        raise ShapeError(f"attribute num_groups is {groups}; expected a divisor of the {c} channels of x {text(x)}")
    stat = TensorSpec((x.logical_shape[0], groups), x.dtype)
    return [like(x), stat, stat]


def _group(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x, gamma, beta = [*arrays, None, None][:3]
    assert x is not None
    groups, epsilon = int(call.attr("num_groups")), float(call.attr("eps", call.attr("epsilon", 1e-5)))
    grouped = widen(x).reshape(x.shape[0], groups, -1)
    y, mean, variance = _normalise(grouped, (2,), epsilon)
    y = _affine(y.reshape(x.shape), *(None if v is None else _along(v, 1, x.ndim) for v in (gamma, beta)))
    results = (y, mean.reshape(-1, groups), (1 / np.sqrt(variance + epsilon)).reshape(-1, groups))
    return [narrow(r, o.dtype) for r, o in zip(results, call.outputs, strict=False)]


def _group_silu(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    y, mean, deviation = _group([None if a is None else widen(a) for a in arrays], _wide(call))
    if call.attr("activate_silu", True):
        y = y / (1 + np.exp(-y))
    results = (y, mean, deviation)
    return [narrow(r, o.dtype) for r, o in zip(results, call.outputs, strict=True)]


def _wide(call: OpCall) -> OpCall:
    """The call with float32 outputs."""
    return replace(call, outputs=tuple(replace(o, dtype="float32") for o in call.outputs))


define("GroupNorm", "norm", "x gamma? beta?", _infer_group, _group)
define("GroupNormSilu", "norm", "x gamma? beta?", _infer_group, _group_silu)


# ---- across channels


def _lrn(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """x / (bias + alpha * sum over 2 * depth_radius + 1 channels of x ** 2) ** beta."""
    x, spec = arrays[0], call.inputs[0]
    assert x is not None and spec is not None
    axis = _channel(x.shape, data_format(dict(call.attrs), spec, "NCHW"))
    radius = int(call.attr("depth_radius", 5))
    wide = np.moveaxis(widen(x), axis, 0)
    square = np.square(wide)
    total = square.copy()
    for d in range(1, min(radius, len(square) - 1) + 1):
        total[d:] += square[:-d]
        total[:-d] += square[d:]
    kind = wide.dtype.type
    base = kind(call.attr("bias", 1.0)) + kind(call.attr("alpha", 1.0)) * total
    y = np.moveaxis(wide / np.power(base, kind(call.attr("beta", 0.5))), 0, axis)
    return [narrow(np.ascontiguousarray(y), call.outputs[0].dtype)]


define("LRN", "norm", "x", infer_same, _lrn)


def _l2_normalize(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    axes = axes_of(ints(call.attr("axis", list(range(x.ndim))), "axis"), x.ndim)
    wide = widen(x)
    norm = np.sqrt(np.square(wide).sum(axis=axes, keepdims=True))
    return [narrow(wide / np.maximum(norm, wide.dtype.type(call.attr("eps", 1e-4))), call.outputs[0].dtype)]


define("L2Normalize", "norm", "x", infer_same, _l2_normalize)
