"""Gradients of pooling: MaxPoolGrad, MaxPoolV3Grad, AvgPoolGrad and AvgPoolV2Grad."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ascend_sim.ops.dtypes import numpy_dtype
from ascend_sim.ops.registry import Array, Infer, Values
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, data_format, like, need, rank, text
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._numeric import narrow, widen
from ascend_sim.ops.values._window import Window, channels_last, spatial, to_channels_first
from ascend_sim.ops.values.pooling import pool_window


def _scatter(window: Window, size: Sequence[int], parts: Any, shape: Sequence[int], kind: Any) -> Array:
    """Add ``parts`` [(tap, gradient [N, C, out...])] to the input positions they came from."""
    n, c, *out = shape
    before = window.pads[0::2]
    full = [
        max(b + s, (o - 1) * t + d * (k - 1) + 1)
        for b, s, o, t, d, k in zip(before, size, out, window.strides, window.dilations, window.kernel, strict=True)
    ]
    canvas, every = np.zeros((n, c, *full), kind), slice(None)
    for tap, gradient in parts:
        places = zip(tap, window.dilations, out, window.strides, strict=True)
        target = tuple(slice(t * d, t * d + (o - 1) * s + 1, s) for t, d, o, s in places)
        canvas[(every, every, *target)] += gradient
    crop = tuple(slice(b, b + s) for b, s in zip(before, size, strict=True))
    result: Array = canvas[(every, every, *crop)]
    return result


def max_pool_gradient(x: Array, dy: Array, window: Window) -> Array:
    """Gradient of [N, C, spatial...]: all of a window's goes to the first of its largest elements."""
    wide, gradient = widen(x), widen(dy)
    out = dy.shape[2:]
    view = window.view(window.pad(wide, wide.dtype, -np.inf, out), out)
    flat = np.ascontiguousarray(view).reshape(*x.shape[:2], prod(window.kernel), *out)
    first = flat.argmax(axis=2)
    taps = list(np.ndindex(*window.kernel))
    parts = ((tap, np.where(first == i, gradient, 0)) for i, tap in enumerate(taps))
    return _scatter(window, x.shape[2:], parts, dy.shape, wide.dtype)


def avg_pool_gradient(size: Sequence[int], dy: Array, window: Window, exclusive: bool, divisor: int) -> Array:
    """Gradient with spatial ``size``: a window's is spread evenly over it."""
    gradient = widen(dy)
    kind, out = gradient.dtype, dy.shape[2:]
    if divisor:
        count = np.full((1, 1, *out), divisor, kind)
    else:
        ones, bare = np.ones((1, 1, *size), kind), window
        if not exclusive:
            spans = zip(size, window.pads[0::2], window.pads[1::2], strict=True)
            ones = np.ones((1, 1, *(b + s + a for s, b, a in spans)), kind)
            bare = Window(window.kernel, window.strides, window.dilations, (0,) * len(window.pads))
        taps = tuple(range(2, 2 + len(window.kernel)))
        count = bare.view(bare.pad(ones, kind, 0, out), out).sum(axis=taps)
    share = gradient / np.maximum(count, 1)
    return _scatter(window, size, ((tap, share) for tap in np.ndindex(*window.kernel)), dy.shape, kind)


def _infer_max(default: str) -> Infer:
    def infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
        x, y, dy = need(inputs, 0, "orig_input"), need(inputs, 1, "orig_output"), need(inputs, 2, "grad")
        shape = rank(x, "orig_input", 4, 4)
        fmt = data_format(attrs, x, default)
        window, ceil = pool_window(attrs.get, spatial(shape, fmt), fmt)
        out = window.out(spatial(shape, fmt), ceil=ceil)
        for spec, name in ((y, "orig_output"), (dy, "grad")):
            if spatial(rank(spec, name, 4, 4), fmt) != out or spec.dtype != x.dtype:
                raise ShapeError(f"{name} is {text(spec)}; expected {x.dtype} of spatial size {list(out)}")
        return [like(x)]

    return infer


def _max_values(default: str) -> Values:
    def values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
        x, dy, spec = arrays[0], arrays[2], call.inputs[0]
        assert x is not None and dy is not None and spec is not None
        fmt = data_format(dict(call.attrs), spec, default)
        x, dy = to_channels_first(x, fmt), to_channels_first(dy, fmt)
        window, _ = pool_window(call.attr, x.shape[2:], fmt)
        return [_delivered(max_pool_gradient(x, dy, window), call, fmt)]

    return values


def _delivered(dx: Array, call: OpCall, fmt: str) -> Array:
    if channels_last(fmt):
        dx = np.moveaxis(dx, 1, -1)
    return narrow(np.ascontiguousarray(dx), call.outputs[0].dtype)


def _infer_avg(default: str) -> Infer:
    def infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
        size, dy = need(inputs, 0, "orig_input_shape"), need(inputs, 1, "input_grad")
        rank(dy, "input_grad", 4, 4)
        if size.const is None:
            raise ShapeError("orig_input_shape is not known; expected a constant of 4 sizes")
        shape = tuple(int(v) for v in np.frombuffer(size.const, numpy_dtype(size.dtype)))
        if len(shape) != 4:
            raise ShapeError(f"orig_input_shape holds {list(shape)}; expected 4 sizes")
        fmt = data_format(attrs, dy, default)
        window, ceil = pool_window(attrs.get, spatial(shape, fmt), fmt)
        out = window.out(spatial(shape, fmt), ceil=ceil)
        if spatial(dy.logical_shape, fmt) != out:
            raise ShapeError(f"input_grad is {text(dy)}; expected spatial size {list(out)} for {list(shape)}")
        return [TensorSpec(shape, dy.dtype, fmt)]

    return infer


def _avg_values(default: str) -> Values:
    def values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
        dy, spec = arrays[1], call.inputs[1]
        assert dy is not None and spec is not None
        fmt = data_format(dict(call.attrs), spec, default)
        size = spatial(call.outputs[0].logical_shape, fmt)
        window, _ = pool_window(call.attr, size, fmt)
        exclusive = bool(call.attr("exclusive", True))
        divisor = int(call.attr("divisor_override", 0))
        dx = avg_pool_gradient(size, to_channels_first(dy, fmt), window, exclusive, divisor)
        return [_delivered(dx, call, fmt)]

    return values


for _name, _default in (("MaxPoolGrad", "NHWC"), ("MaxPoolV3Grad", "NCHW")):
    define(_name, "pooling", "orig_input orig_output grad", _infer_max(_default), _max_values(_default))
for _name, _default in (("AvgPoolGrad", "NHWC"), ("AvgPoolV2Grad", "NCHW")):
    define(_name, "pooling", "orig_input_shape input_grad", _infer_avg(_default), _avg_values(_default))
