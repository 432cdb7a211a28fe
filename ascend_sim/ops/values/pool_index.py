"""Pooling that says where its maxima were, pooling to a given size, and their gradients; any number of axes.

Tensors are [N, C, spatial...]; an index counts the elements of one image's plane.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ascend_sim.ops.registry import Array
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, ints, like, need, rank, text
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._numeric import narrow, widen
from ascend_sim.ops.values._window import Window
from ascend_sim.ops.values.pooling import avg_pool


def _window(get: Any, axes: int) -> Window:
    kernel = tuple(ints(get("ksize", None), "ksize", axes))
    strides = tuple(ints(get("strides", None), "strides", axes))
    dilations = tuple(ints(get("dilations", [1] * axes), "dilations", axes))
    pads = ints(get("pads", [0] * axes), "pads", axes)
    return Window(kernel, strides, dilations, tuple(p for v in pads for p in (v, v)))


def _infer_max(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    shape = rank(x, "x", 3)
    out = _window(attrs.get, len(shape) - 2).out(shape[2:], ceil=bool(attrs.get("ceil_mode", False)))
    return [TensorSpec((*shape[:2], *out), x.dtype), TensorSpec((*shape[:2], *out), "int64")]


def _max(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """Maxima and where they are (the first of equals; NaN counts as the largest)."""
    x = arrays[0]
    assert x is not None
    window, out = _window(call.attr, x.ndim - 2), call.outputs[0].logical_shape[2:]
    wide = widen(x)
    if wide.dtype.kind == "f":
        low: Any = -np.inf
        wide = np.where(np.isnan(wide), np.inf, wide)
    else:
        low = np.iinfo(wide.dtype).min
    taps = prod(window.kernel)
    view = np.ascontiguousarray(window.view(window.pad(wide, wide.dtype, low, out), out))
    plane = np.arange(prod(x.shape[2:]), dtype=np.int64).reshape(1, 1, *x.shape[2:])
    where = np.ascontiguousarray(window.view(window.pad(plane, plane.dtype, -1, out), out))
    flat = view.reshape(*x.shape[:2], taps, *out)
    places = where.reshape(1, 1, taps, *out)
    flat = np.where(places < 0, low, flat)
    first = np.where(places < 0, -1.0, 0.0) + (flat == flat.max(axis=2, keepdims=True))
    best = first.argmax(axis=2)
    index = np.take_along_axis(np.broadcast_to(places, flat.shape), best[:, :, None], 2)[:, :, 0]
    found = np.take_along_axis(x.reshape(*x.shape[:2], -1), index.reshape(*x.shape[:2], -1), 2)
    return [found.reshape(call.outputs[0].logical_shape), index]


define("MaxPoolWithArgmaxV3", "pooling", "x", _infer_max, _max)


def _infer_max_grad(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x, grad, index = need(inputs, 0, "x"), need(inputs, 1, "grad"), need(inputs, 2, "argmax")
    if grad.logical_shape != index.logical_shape:
        raise ShapeError(f"argmax is {text(index)}; expected the shape of grad {text(grad)}")
    return [like(x)]


def _max_grad(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x, grad, index = (a for a in arrays if a is not None)
    lead = prod(x.shape[:2])
    g = widen(grad).reshape(lead, -1)
    out = np.zeros((lead, prod(x.shape[2:])), g.dtype)
    np.add.at(out, (np.arange(lead)[:, None], index.reshape(lead, -1)), g)
    return [narrow(out.reshape(x.shape), call.outputs[0].dtype)]


define("MaxPoolGradWithArgmaxV3", "pooling", "x grad argmax", _infer_max_grad, _max_grad)


def _infer_average(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    shape = rank(x, "x", 3)
    out = _window(attrs.get, len(shape) - 2).out(shape[2:], ceil=bool(attrs.get("ceil_mode", False)))
    return [TensorSpec((*shape[:2], *out), x.dtype)]


def _average(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    window, out = _window(call.attr, x.ndim - 2), call.outputs[0].logical_shape[2:]
    exclusive, divisor = bool(call.attr("exclusive", True)), int(call.attr("divisor_override", 0))
    return [narrow(avg_pool(x, window, out, exclusive=exclusive, divisor=divisor), call.outputs[0].dtype)]


define("AvgPoolNd", "pooling", "x", _infer_average, _average)


# ---- to a given size: window i covers floor(i n / m) up to ceil((i + 1) n / m)


def _matrix(size: int, out: int) -> Array:
    weights = np.zeros((out, size), np.float32)
    for i in range(out):
        a, b = i * size // out, -(-(i + 1) * size // out)
        weights[i, a:b] = 1 / (b - a)
    return weights


def _infer_adaptive(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    out = ints(attrs.get("output_size"), "output_size")
    shape = rank(x, "x", len(out) + 1)
    return [TensorSpec((*shape[: len(shape) - len(out)], *out), x.dtype)]


def _along_axes(x: Array, matrices: Sequence[Array]) -> Array:
    """Multiply each of the last axes by its matrix."""
    for axis, matrix in zip(range(x.ndim - len(matrices), x.ndim), matrices, strict=True):
        x = np.moveaxis(np.tensordot(x, matrix.astype(x.dtype), axes=([axis], [1])), -1, axis)
    return np.ascontiguousarray(x)


def _adaptive(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    out = ints(call.attr("output_size"), "output_size")
    sizes = x.shape[x.ndim - len(out) :]
    y = _along_axes(widen(x), [_matrix(n, m) for n, m in zip(sizes, out, strict=True)])
    return [narrow(y, call.outputs[0].dtype)]


define("AdaptiveAvgPoolNd", "pooling", "x", _infer_adaptive, _adaptive)


def _infer_adaptive_grad(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    dy = need(inputs, 0, "input_grad")
    return [TensorSpec(tuple(ints(attrs.get("orig_input_shape"), "orig_input_shape")), dy.dtype)]


def _adaptive_grad(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    dy = arrays[0]
    assert dy is not None
    shape, axes = call.outputs[0].logical_shape, int(call.attr("axes", 2))
    pairs = zip(shape[-axes:], dy.shape[-axes:], strict=True)
    return [narrow(_along_axes(widen(dy), [_matrix(n, m).T for n, m in pairs]), call.outputs[0].dtype)]


define("AdaptiveAvgPoolNdGrad", "pooling", "input_grad", _infer_adaptive_grad, _adaptive_grad)
