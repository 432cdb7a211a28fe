"""Pooling: MaxPoolV3, AvgPoolV2 and their relatives. Windows are taken axis by axis: k + k steps, not k x k."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascend_sim.ops.registry import Array, Infer, Values
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, data_format, ints, like, need, rank, same_padding
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._numeric import narrow, widen
from ascend_sim.ops.values._window import Window, channels_last, full_shape, spatial, to_channels_first


def pool_window(get: Any, size: Sequence[int], fmt: str) -> tuple[Window, bool]:
    """Window of a pooling over a spatial ``size``, and whether its output size is rounded up."""
    n, axes = len(fmt), len(fmt) - 2
    if get("global_pooling", False):
        return Window(tuple(size), (1,) * axes, (1,) * axes, (0,) * (2 * axes)), False
    kernel = spatial(ints(get("ksize", None), "ksize", n), fmt)
    strides = spatial(ints(get("strides", None), "strides", n), fmt)
    dilations = spatial(ints(get("dilations", [1] * n), "dilations", n), fmt)
    mode = str(get("padding_mode", None) or get("padding", None) or "CALCULATED").upper()
    if mode == "SAME":
        pads = [p for i, s in enumerate(size) for p in same_padding(s, kernel[i], strides[i], dilations[i])]
    elif mode == "VALID":
        pads = [0] * (2 * axes)
    elif mode == "CALCULATED":
        pads = ints(get("pads", [0] * (2 * axes)), "pads", 2 * axes)
    else:
        raise ShapeError(f"attribute padding_mode is {mode!r}; expected CALCULATED, SAME or VALID")
    return Window(kernel, strides, dilations, tuple(pads)), bool(get("ceil_mode", False))


def _infer(default: str, ndim: int) -> Infer:
    def infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
        x = need(inputs, 0, "x")
        shape = rank(x, "x", ndim, ndim)
        fmt = data_format(attrs, x, default)
        size = spatial(shape, fmt)
        window, ceil = pool_window(attrs.get, size, fmt)
        out = window.out(size, ceil=ceil)
        return [TensorSpec(full_shape(shape[0], shape[fmt.index("C")], out, fmt), x.dtype, fmt)]

    return infer


def _fold(padded: Array, window: Window, out: Sequence[int], combine: np.ufunc) -> Array:
    """Combine the taps of each window, one spatial axis after the other."""
    for i, (k, step, dilation, o) in enumerate(zip(window.kernel, window.strides, window.dilations, out, strict=True)):
        result: Array | None = None
        for t in range(k):
            start = t * dilation
            place = (slice(None),) * (2 + i) + (slice(start, start + (o - 1) * step + 1, step),)
            if result is None:
                result = padded[place].copy()
            else:
                combine(result, padded[place], out=result)
        assert result is not None
        padded = result
    return padded


def _sortable(x: Array) -> Array:
    """fp16 and bf16 bit patterns as int16 in the order of their values (its own inverse)."""
    bits = x.view(np.int16)
    result: Array = bits ^ ((bits >> 15) & np.int16(0x7FFF))
    return result


def max_pool(x: Array, window: Window, out: Sequence[int]) -> Array:
    """Maximum over windows of [N, C, spatial...]; padding never wins."""
    half = x.dtype.itemsize == 2 and x.dtype.kind not in "iu"
    keys = _sortable(np.ascontiguousarray(x)) if half else x
    low = np.iinfo(keys.dtype).min if keys.dtype.kind in "iu" else -np.inf
    padded = window.pad(keys, keys.dtype, low, out)
    best = _fold(padded, window, out, np.maximum)
    return _sortable(best).view(x.dtype) if half else best


def avg_pool(x: Array, window: Window, out: Sequence[int], *, exclusive: bool, divisor: int = 0) -> Array:
    """Mean over windows, in the compute type. ``exclusive`` counts input elements only, else leading and trailing
    padding too (never what ceil mode adds beyond it)."""
    wide = widen(x)
    total = _fold(window.pad(wide, wide.dtype, 0, out), window, out, np.add)
    if divisor:
        total /= total.dtype.type(divisor)
        return total
    size = x.shape[2:]
    if exclusive:
        count = window.pad(np.ones((1, 1, *size), wide.dtype), wide.dtype, 0, out)
    else:
        pads = zip(size, window.pads[0::2], window.pads[1::2], strict=True)
        count = np.ones((1, 1, *(b + s + a for s, b, a in pads)), wide.dtype)
        bare = Window(window.kernel, window.strides, window.dilations, (0,) * len(window.pads))
        count = bare.pad(count, wide.dtype, 0, out)
    total /= np.maximum(_fold(count, window, out, np.add), 1)
    return total


def _values(default: str, average: bool) -> Values:
    def values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
        x, spec = arrays[0], call.inputs[0]
        assert x is not None and spec is not None
        fmt = data_format(dict(call.attrs), spec, default)
        x = to_channels_first(x, fmt)
        window, ceil = pool_window(call.attr, x.shape[2:], fmt)
        out = window.out(x.shape[2:], ceil=ceil)
        if average:
            exclusive = bool(call.attr("exclusive", True))
            y = avg_pool(x, window, out, exclusive=exclusive, divisor=int(call.attr("divisor_override", 0)))
        else:
            y = max_pool(x, window, out)
        if channels_last(fmt):
            y = np.ascontiguousarray(np.moveaxis(y, 1, -1))
        return [narrow(y, call.outputs[0].dtype)]

    return values


define("MaxPoolV3", "pooling", "x", _infer("NCHW", 4), _values("NCHW", average=False))
define("MaxPool", "pooling", "x", _infer("NHWC", 4), _values("NHWC", average=False))
define("MaxPool3D", "pooling", "x", _infer("NDHWC", 5), _values("NDHWC", average=False))
define("AvgPoolV2", "pooling", "x", _infer("NCHW", 4), _values("NCHW", average=True))
define("AvgPool", "pooling", "x", _infer("NHWC", 4), _values("NHWC", average=True))
define("AvgPool3D", "pooling", "x", _infer("NDHWC", 5), _values("NDHWC", average=True))


def _infer_global(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    shape = rank(x, "x", 3)
    return [like(x, (*shape[:2], *(1,) * (len(shape) - 2)))]


def _global_average(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    y = widen(x).reshape(*x.shape[:2], -1).mean(axis=2)
    return [narrow(y.reshape(call.outputs[0].logical_shape), call.outputs[0].dtype)]


def _global_max(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    y = widen(x).reshape(*x.shape[:2], -1).max(axis=2)
    return [narrow(y.reshape(call.outputs[0].logical_shape), call.outputs[0].dtype)]


define("GlobalAveragePool", "pooling", "x", _infer_global, _global_average)
define("GlobalMaxPool", "pooling", "x", _infer_global, _global_max)


def _infer_adaptive(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    shape = rank(x, "x", 3, 4)
    out = ints(attrs.get("output_size"), "output_size")
    if len(out) == 1:
        out = out * 2
    if len(out) != 2 or min(out) < 1:
        raise ShapeError(f"attribute output_size is {out}; expected two positive sizes")
    return [like(x, (*shape[:-2], *out))]


def _adaptive(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """Window i covers floor(i * size / out) up to ceil((i + 1) * size / out)."""
    x = arrays[0]
    assert x is not None
    y = widen(x)
    for axis in (-2, -1):
        size, out = x.shape[axis], call.outputs[0].logical_shape[axis]
        parts = [
            y.take(range(i * size // out, -(-(i + 1) * size // out)), axis=axis).mean(axis=axis, keepdims=True)
            for i in range(out)
        ]
        y = np.concatenate(parts, axis=axis)
    return [narrow(y, call.outputs[0].dtype)]


define("AdaptiveAvgPool2d", "pooling", "x", _infer_adaptive, _adaptive)
