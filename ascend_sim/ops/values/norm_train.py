"""Normalisations for training and their gradients, with the statistics that frameworks keep (mean, 1 / deviation)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ascend_sim.ops.registry import Array
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, like, need, optional, rank, text
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._numeric import float32, narrow, widen


def _per_channel(v: Array, ndim: int) -> Array:
    return v.reshape(1, -1, *(1,) * (ndim - 2))


def _others(x: Array) -> tuple[int, ...]:
    return (0, *range(2, x.ndim))


# ---- batch normalisation over NC...


def _infer_batch_norm(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    c = rank(x, "x", 2)[1]
    for index, name in enumerate(("weight", "bias", "running_mean", "running_var"), 1):
        spec = optional(inputs, index)
        if spec is not None and spec.size != c:
            raise ShapeError(f"{name} is {text(spec)}; expected [{c}] for x {text(x)}")
    running = [optional(inputs, 3), optional(inputs, 4)]
    if not attrs.get("is_training", True) and None in running:
        raise ShapeError("running_mean and running_var are needed when is_training is False")
    kind = str(attrs.get("stat_type", "float32"))
    kept = [TensorSpec((c,), s.dtype) if s is not None else TensorSpec((0,), "float32") for s in running]
    saved = TensorSpec((c,) if attrs.get("is_training", True) else (0,), kind)
    return [like(x), *kept, saved, saved]


def _batch_norm(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """y, updated running mean and variance (unbiased), batch mean and 1 / deviation."""
    x, weight, bias, mean, variance = [*arrays, None, None, None, None][:5]
    assert x is not None
    wide = widen(x)
    training, epsilon = bool(call.attr("is_training", True)), float(call.attr("epsilon", 1e-5))
    momentum = float(call.attr("momentum", 0.1))
    kept: list[Array] = [np.zeros((0,), np.float32) if s is None else s for s in (mean, variance)]
    if training:
        batch_mean = wide.mean(axis=_others(x), dtype=np.float64)
        batch_var = np.square(wide - _per_channel(batch_mean, x.ndim)).mean(axis=_others(x), dtype=np.float64)
        count = prod(x.shape) // max(x.shape[1], 1)
        if mean is not None:
            kept[0] = (1 - momentum) * widen(mean) + momentum * batch_mean
        if variance is not None:
            kept[1] = (1 - momentum) * widen(variance) + momentum * batch_var * (count / max(count - 1, 1))
    else:
        assert mean is not None and variance is not None
        batch_mean, batch_var = widen(mean).astype(np.float64), widen(variance).astype(np.float64)
    reciprocal = 1 / np.sqrt(batch_var + epsilon)
    factor = reciprocal if weight is None else reciprocal * widen(weight)
    shift = -batch_mean * factor if bias is None else widen(bias) - batch_mean * factor
    y = wide * _per_channel(factor.astype(wide.dtype), x.ndim) + _per_channel(shift.astype(wide.dtype), x.ndim)
    saved = [batch_mean, reciprocal] if training else [np.zeros(0), np.zeros(0)]
    return [narrow(np.asarray(r), o.dtype) for r, o in zip([y, *kept, *saved], call.outputs, strict=True)]


define("BatchNormV3", "norm", "x weight? bias? running_mean? running_var?", _infer_batch_norm, _batch_norm)


def _infer_batch_norm_grad(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 1, "x")
    c = rank(x, "x", 2)[1]
    weight = optional(inputs, 2)
    kind = x.dtype if weight is None else weight.dtype
    return [like(x), TensorSpec((c,), kind), TensorSpec((c,), kind)]


def _batch_norm_grad(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    dy, x, weight, running_mean, running_var, saved_mean, saved_reciprocal = [*arrays, *[None] * 7][:7]
    assert dy is not None and x is not None
    g, wide = widen(dy), widen(x)
    training = bool(call.attr("is_training", True))
    if training:
        assert saved_mean is not None and saved_reciprocal is not None
        mean, reciprocal = widen(saved_mean), widen(saved_reciprocal)
    else:
        assert running_mean is not None and running_var is not None
        mean = widen(running_mean)
        reciprocal = 1 / np.sqrt(widen(running_var) + np.float32(call.attr("epsilon", 1e-5)))
    n = x.ndim
    normal = (wide - _per_channel(mean, n)) * _per_channel(reciprocal, n)
    total = g.sum(axis=_others(x), dtype=np.float64)
    projected = (g * normal).sum(axis=_others(x), dtype=np.float64)
    factor = reciprocal if weight is None else reciprocal * widen(weight)
    dx = g
    if training:
        count = prod(x.shape) // max(x.shape[1], 1)
        dx = g - _per_channel((total / count).astype(g.dtype), n)
        dx = dx - normal * _per_channel((projected / count).astype(g.dtype), n)
    dx = dx * _per_channel(factor.astype(g.dtype), n)
    return [narrow(np.asarray(r), o.dtype) for r, o in zip((dx, projected, total), call.outputs, strict=True)]


define(
    "BatchNormGradV3", "norm", "dy x weight? running_mean? running_var? save_mean? save_rstd?", _infer_batch_norm_grad,
    _batch_norm_grad,
)  # fmt: skip


# ---- layer normalisation


def _infer_layer_norm_grad(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    dy, x, rstd = need(inputs, 0, "dy"), need(inputs, 1, "x"), need(inputs, 2, "rstd")
    if dy.logical_shape != x.logical_shape:
        raise ShapeError(f"dy is {text(dy)}; expected the shape of x {text(x)}")
    inner = tuple(n for n, r in zip(x.logical_shape, rstd.logical_shape, strict=True) if r == 1) or x.logical_shape[-1:]
    inner = tuple(attrs.get("normalized_shape", inner))
    gamma = optional(inputs, 4)
    kind = x.dtype if gamma is None else gamma.dtype
    return [like(x), TensorSpec(inner, kind), TensorSpec(inner, kind)]


def _layer_norm_grad(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """dx, dgamma, dbeta."""
    dy, x, rstd, mean, gamma = [*arrays, None][:5]
    assert dy is not None and x is not None and rstd is not None and mean is not None
    inner = call.outputs[1].logical_shape
    axes = tuple(range(x.ndim - len(inner), x.ndim))
    lead = tuple(range(x.ndim - len(inner)))
    g, normal = widen(dy), (widen(x) - widen(mean)) * widen(rstd)
    scaled = g if gamma is None else g * widen(gamma)
    a = scaled.mean(axis=axes, keepdims=True)
    b = (scaled * normal).mean(axis=axes, keepdims=True)
    dx = (scaled - a - normal * b) * widen(rstd)
    results = (dx, (g * normal).sum(axis=lead), g.sum(axis=lead))
    return [narrow(np.asarray(r).reshape(o.logical_shape), o.dtype) for r, o in zip(results, call.outputs, strict=True)]


define("LayerNormGradV3", "norm", "dy x rstd mean gamma?", _infer_layer_norm_grad, _layer_norm_grad)


# ---- group normalisation


def _infer_group_norm_grad(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 1, "x")
    c = rank(x, "x", 2)[1]
    gamma = optional(inputs, 4)
    kind = x.dtype if gamma is None else gamma.dtype
    return [like(x), TensorSpec((c,), kind), TensorSpec((c,), kind)]


def _group_norm_grad(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    dy, x, mean, rstd, gamma = [*arrays, None][:5]
    assert dy is not None and x is not None and mean is not None and rstd is not None
    groups = int(call.attr("num_groups"))
    n, c = x.shape[:2]
    g = widen(dy).reshape(n, groups, c // groups, -1)
    wide = widen(x).reshape(g.shape)
    normal = (wide - float32(mean).reshape(n, groups, 1, 1)) * float32(rstd).reshape(n, groups, 1, 1)
    scaled = g if gamma is None else g * widen(gamma).reshape(1, groups, c // groups, 1)
    a = scaled.mean(axis=(2, 3), keepdims=True)
    b = (scaled * normal).mean(axis=(2, 3), keepdims=True)
    dx = (scaled - a - normal * b) * float32(rstd).reshape(n, groups, 1, 1)
    results = (dx.reshape(x.shape), (g * normal).sum(axis=(0, 3)).reshape(-1), g.sum(axis=(0, 3)).reshape(-1))
    return [narrow(r, o.dtype) for r, o in zip(results, call.outputs, strict=True)]


define("GroupNormGrad", "norm", "dy x mean rstd gamma?", _infer_group_norm_grad, _group_norm_grad)
