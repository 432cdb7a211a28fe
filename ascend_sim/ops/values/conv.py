"""Convolutions: Conv2D, Conv3D and DepthwiseConv2D.

Values: a 1x1 convolution is one matrix product per image; larger windows are gathered into columns (im2col) in
pieces of bounded size and multiplied; depthwise ones accumulate tap by tap over blocks that stay in cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ascend_sim.ops.registry import Array
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, data_format, format_of, need, optional, rank, text
from ascend_sim.ops.values._cache import prepared
from ascend_sim.ops.values._cube import blas_type, check_extras, finish, output_dtype
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._window import Window, channels_last, full_shape, spatial, to_channels_first

DECLARED = 3  # x, filter, bias: what an epilogue adds comes after these
_COLUMN_BYTES = 48 << 20  # bound of one piece of gathered columns
_BLOCK_ELEMENTS = 1 << 15  # depthwise: elements of one output block


def default_format(ndim: int) -> str:
    """The IR's default ``data_format`` of a convolution."""
    return "NHWC" if ndim == 4 else "NDHWC"


def filter_shape(w: TensorSpec) -> tuple[int, ...]:
    """[out, in, kernel...] of a filter described as NCHW/NCDHW or HWCN/DHWCN."""
    shape = w.logical_shape
    return (shape[-1], shape[-2], *shape[:-2]) if format_of(w).endswith("CN") else shape


def filter_first(w: Array, spec: TensorSpec) -> Array:
    """The filter array as [out, in, kernel...]."""
    if not format_of(spec).endswith("CN"):
        return w
    return prepared(w, ("channels first",), lambda a: np.ascontiguousarray(np.moveaxis(a, (-1, -2), (0, 1))))


def check_bias(inputs: Specs, channels: int) -> None:
    bias = optional(inputs, 2)
    if bias is not None and bias.size != channels:
        raise ShapeError(f"bias is {text(bias)}; expected [{channels}]")


def _infer_conv(ndim: int) -> Any:
    def infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
        x, w = need(inputs, 0, "x"), need(inputs, 1, "filter")
        shape = rank(x, "x", ndim, ndim)
        rank(w, "filter", ndim, ndim)
        fmt = data_format(attrs, x, default_format(ndim))
        c = shape[fmt.index("C")]
        out_c, in_c, *kernel = filter_shape(w)
        groups = int(attrs.get("groups", 1))
        if groups < 1 or c != in_c * groups or out_c % groups:
            raise ShapeError(
                f"filter is {text(w)} ({out_c} x {in_c} channels) but x is {text(x)} with {c} channels; "
                f"expected {c} / groups = {in_c} with groups={groups} and {out_c} divisible by it"
            )
        check_bias(inputs, out_c)
        check_extras(inputs, attrs, DECLARED)
        out = Window.of_conv(kernel, attrs.get, fmt).out(spatial(shape, fmt))
        return [TensorSpec(full_shape(shape[0], out_c, out, fmt), output_dtype(x, w, ("x", "filter")), fmt)]

    return infer


# ---- values


def _columns_product(xp: Array, w: Array, window: Window, out: Sequence[int]) -> Array:
    """im2col and matrix product: ``w`` is [groups, out channels / groups, K]; gives [N, O, out...]."""
    groups, per, depth = w.shape
    n = xp.shape[0]
    result = np.empty((n, groups, per, prod(out)), w.dtype)
    view = window.view(xp, out)
    row = prod(out[1:])
    rows = max(1, min(out[0], _COLUMN_BYTES // max(1, groups * depth * row * w.itemsize)))
    spare = np.empty(groups * depth * rows * row, w.dtype)
    before = (slice(None),) * (1 + len(window.kernel))  # axes between the image and the outermost output one
    for image in range(n):
        for start in range(0, out[0], rows):
            stop = min(start + rows, out[0])
            piece = view[image][(*before, slice(start, stop))]
            columns = spare[: groups * depth * (stop - start) * row]
            columns.reshape(piece.shape)[...] = piece
            part = columns.reshape(groups, depth, -1)
            if rows == out[0]:
                np.matmul(w, part, out=result[image])
            else:
                result[image, :, :, start * row : stop * row] = np.matmul(w, part)
    return result.reshape(n, groups * per, *out)


def _pointwise_product(x: Array, w: Array, window: Window, out: Sequence[int]) -> Array:
    if any(s != 1 for s in window.strides):
        x = x[(slice(None), slice(None), *(slice(None, None, s) for s in window.strides))]
    groups, per, depth = w.shape
    n = x.shape[0]
    result: Array = np.matmul(w, np.ascontiguousarray(x).reshape(n, groups, depth, -1))
    return result.reshape(n, groups * per, *out)


def _depthwise_product(xp: Array, w: Array, window: Window, out: Sequence[int]) -> Array:
    """Tap accumulation: ``w`` is [channels, multiplier, taps]; gives [N, channels * multiplier, out...]."""
    channels, multiplier, _ = w.shape
    n = xp.shape[0]
    result = np.empty((n, channels, multiplier, *out), xp.dtype)
    view = window.view(xp, out)
    block = max(1, _BLOCK_ELEMENTS // max(1, prod(out)))
    spare = np.empty((min(block, channels), *out), xp.dtype)
    ones = (1,) * len(out)
    for image in range(n):
        for start in range(0, channels, block):
            stop = min(start + block, channels)
            scratch = spare[: stop - start]
            for m in range(multiplier):
                target = result[image, start:stop, m]
                for t, tap in enumerate(np.ndindex(*window.kernel)):
                    factor = w[start:stop, m, t].reshape(-1, *ones)
                    piece = view[(image, slice(start, stop), *tap)]
                    if t == 0:
                        np.multiply(piece, factor, out=target)
                    else:
                        np.multiply(piece, factor, out=scratch)
                        target += scratch
    return result.reshape(n, channels * multiplier, *out)


def convolve(x: Array, w: Array, groups: int, window: Window) -> Array:
    """Convolution of ``x`` [N, C, spatial...] with ``w`` [O, C / groups, kernel...] in the BLAS type, unrounded."""
    depth = prod(w.shape[1:])
    kind = blas_type(x.dtype.name, w.dtype.name, depth)
    out = window.out(x.shape[2:])
    weights = prepared(
        w,
        ("conv", groups, np.dtype(kind).name),
        lambda a: np.ascontiguousarray(a.reshape(groups, -1, depth), kind),
    )
    padded = window.pad(x, kind)
    with np.errstate(all="ignore"):
        if w.shape[1] == 1 and groups == x.shape[1] and groups > 1:
            return _depthwise_product(padded, weights, window, out)
        if window.pointwise:
            return _pointwise_product(padded, weights, window, out)
        return _columns_product(padded, weights, window, out)


def deliver(acc: Array, call: OpCall, arrays: Sequence[Array | None], fmt: str) -> list[Array]:
    """Bias, epilogue and rounding of a [N, C, spatial...] result, in the axis order of ``fmt``."""
    channel = 1
    if channels_last(fmt):
        acc = np.ascontiguousarray(np.moveaxis(acc, 1, -1))
        channel = acc.ndim - 1
    bias = arrays[2] if len(arrays) > 2 else None
    return [finish(acc, call, None if bias is None else bias.reshape(-1), arrays[DECLARED:], channel)]


def operands(arrays: Sequence[Array | None], call: OpCall) -> tuple[Array, Array, TensorSpec, str]:
    """Input as [N, C, spatial...], filter as given, its spec, and the data format."""
    x, w, x_spec, w_spec = arrays[0], arrays[1], call.inputs[0], call.inputs[1]
    assert x is not None and w is not None and x_spec is not None and w_spec is not None
    fmt = data_format(dict(call.attrs), x_spec, default_format(x.ndim))
    return to_channels_first(x, fmt), w, w_spec, fmt


def _conv(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x, w, w_spec, fmt = operands(arrays, call)
    w = filter_first(w, w_spec)
    window = Window.of_conv(w.shape[2:], call.attr, fmt)
    return deliver(convolve(_centred(x, call), w, int(call.attr("groups", 1)), window), call, arrays, fmt)


def _centred(x: Array, call: OpCall) -> Array:
    """A quantised input less its zero point ``offset_x`` (padding is the zero point, too)."""
    offset = int(call.attr("offset_x", 0))
    return x.astype(np.int32) - offset if offset else x


define("Conv2D", "conv", "x filter bias?", _infer_conv(4), _conv)
define("Conv3D", "conv", "x filter bias?", _infer_conv(5), _conv)


# ---- depthwise: filter [C * multiplier, 1, Kh, Kw] or [multiplier, C, Kh, Kw] (NCHW), [Kh, Kw, C, multiplier] (HWCN)


def _depthwise_shape(w: TensorSpec, channels: int) -> tuple[int, int, tuple[int, ...]]:
    """Channels, multiplier and kernel of a depthwise filter."""
    shape = w.logical_shape
    if format_of(w).endswith("CN"):
        return shape[-2], shape[-1], shape[:-2]
    if shape[1] == 1 and shape[0] % channels == 0:
        return channels, shape[0] // channels, shape[2:]
    return shape[1], shape[0], shape[2:]


def _infer_depthwise(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x, w = need(inputs, 0, "x"), need(inputs, 1, "filter")
    shape = rank(x, "x", 4, 4)
    rank(w, "filter", 4, 4)
    fmt = data_format(attrs, x, "NHWC")
    c = shape[fmt.index("C")]
    own, multiplier, kernel = _depthwise_shape(w, c)
    if own != c:
        raise ShapeError(f"filter is {text(w)} ({own} channels); expected one filter per channel of x {text(x)} ({c})")
    check_bias(inputs, c * multiplier)
    check_extras(inputs, attrs, DECLARED)
    out = Window.of_conv(kernel, attrs.get, fmt).out(spatial(shape, fmt))
    return [TensorSpec(full_shape(shape[0], c * multiplier, out, fmt), output_dtype(x, w, ("x", "filter")), fmt)]


def _depthwise_filter(w: Array, spec: TensorSpec, channels: int) -> Array:
    """Filter as [C * multiplier, 1, Kh, Kw], output channel = c * multiplier + m."""
    _, multiplier, kernel = _depthwise_shape(spec, channels)
    if format_of(spec).endswith("CN"):
        w = np.moveaxis(w, (-2, -1), (0, 1))
    elif w.shape[1] != 1 or w.shape[0] % channels:
        w = np.moveaxis(w, 1, 0)
    return np.ascontiguousarray(w).reshape(channels * multiplier, 1, *kernel)


def _depthwise(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x, w, w_spec, fmt = operands(arrays, call)
    channels = x.shape[1]
    w = prepared(w, ("depthwise", channels), lambda a: _depthwise_filter(a, w_spec, channels))
    w.setflags(write=False)
    window = Window.of_conv(w.shape[2:], call.attr, fmt)
    return deliver(convolve(_centred(x, call), w, channels, window), call, arrays, fmt)


define("DepthwiseConv2D", "conv", "x filter bias?", _infer_depthwise, _depthwise)
