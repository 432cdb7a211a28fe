"""Gradients of convolutions: Conv2DBackpropInput, Conv2DBackpropFilter, their depthwise and "D" forms.

The forms differ in where the size of the result comes from: a constant input (``input_size``, ``filter_size``), or an
attribute of that name in the "D" forms. The gradient of the input is a transposed convolution of ``out_backprop`` with
the filter of the forward operator; the gradient of the filter multiplies, per tap, ``out_backprop`` with the input
under it and sums over images and positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ascend_sim.ops.dtypes import numpy_dtype
from ascend_sim.ops.registry import Array, Infer, Values
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, data_format, format_of, ints, need, rank, text
from ascend_sim.ops.values._cube import finish, output_dtype
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._window import Window, channels_last, spatial, to_channels_first
from ascend_sim.ops.values.conv import filter_first, filter_shape
from ascend_sim.ops.values.conv_transpose import spread


@dataclass(frozen=True)
class Form:
    """Where the operands of an operator are: input numbers of the tensor, of ``out_backprop`` and of the size of the
    result (None: attribute ``size_name``)."""

    operand: int
    out_backprop: int
    size: int | None
    size_name: str
    depthwise: bool

    def wanted(self, inputs: Specs, get: Any) -> list[int]:
        """The size of the result. Raises ShapeError when it is known at run time only."""
        if self.size is not None:
            spec = need(inputs, self.size, self.size_name)
            if spec.const is not None:
                return [int(v) for v in np.frombuffer(spec.const, numpy_dtype(spec.dtype))]
        given = get(self.size_name, None)
        if given is None:
            raise ShapeError(f"{self.size_name} is not known; expected a constant input or attribute of 4 sizes")
        return list(ints(given, self.size_name, 4))


def _groups(get: Any, depthwise: bool, channels: int) -> int:
    return channels if depthwise else int(get("groups", 1))


def _check(x: Sequence[int], w: Sequence[int], dy: TensorSpec, groups: int, get: Any, fmt: str) -> None:
    """The three tensors of one convolution must fit each other. ``w`` is [out, in / groups, Kh, Kw]."""
    c, size = x[fmt.index("C")], spatial(x, fmt)
    out = Window.of_conv(w[2:], get, fmt).out(size)
    shape = rank(dy, "out_backprop", 4, 4)
    fits = shape[0] == x[0] and shape[fmt.index("C")] == w[0] and spatial(shape, fmt) == tuple(out)
    if groups < 1 or w[0] % groups or c != w[1] * groups or not fits:
        raise ShapeError(
            f"out_backprop is {text(dy)}; a convolution of {list(x)} with {list(w)} in {groups} groups "
            f"gives {x[0]} images of {w[0]} channels of size {list(out)}"
        )


def _tap_channels(w: TensorSpec, depthwise: bool) -> tuple[int, ...]:
    """[out, in / groups, Kh, Kw]; a depthwise filter in HWCN order has its channels in C."""
    shape = filter_shape(w)
    if depthwise and format_of(w).endswith("CN"):
        return (shape[0] * shape[1], 1, *shape[2:])
    return shape


def _infer_input(form: Form) -> Infer:
    def infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
        w, dy = need(inputs, form.operand, "filter"), need(inputs, form.out_backprop, "out_backprop")
        rank(w, "filter", 4, 4)
        fmt = data_format(attrs, dy, "NHWC")
        size = form.wanted(inputs, attrs.get)
        groups = _groups(attrs.get, form.depthwise, size[fmt.index("C")])
        _check(size, _tap_channels(w, form.depthwise), dy, groups, attrs.get, fmt)
        return [TensorSpec(tuple(size), output_dtype(dy, w, ("out_backprop", "filter")), fmt)]

    return infer


def _infer_filter(form: Form) -> Infer:
    def infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
        x, dy = need(inputs, form.operand, "x"), need(inputs, form.out_backprop, "out_backprop")
        shape = rank(x, "x", 4, 4)
        fmt = data_format(attrs, x, "NHWC")
        size = tuple(form.wanted(inputs, attrs.get))
        groups = _groups(attrs.get, form.depthwise, shape[fmt.index("C")])
        _check(shape, size, dy, groups, attrs.get, fmt)
        return [TensorSpec(size, output_dtype(x, dy, ("x", "out_backprop")), "NCHW")]

    return infer


# ---- values


def _input_values(form: Form) -> Values:
    def values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
        w, dy, w_spec, dy_spec = (
            arrays[form.operand], arrays[form.out_backprop], call.inputs[form.operand], call.inputs[form.out_backprop]
        )  # fmt: skip
        assert w is not None and dy is not None and w_spec is not None and dy_spec is not None
        fmt = data_format(dict(call.attrs), dy_spec, "NHWC")
        w = filter_first(w, w_spec)
        if form.depthwise and format_of(w_spec).endswith("CN"):
            w = np.ascontiguousarray(w.swapaxes(0, 1)).reshape(-1, 1, *w.shape[2:])
        dy = to_channels_first(dy, fmt)
        size = call.outputs[0].logical_shape
        groups = _groups(call.attr, form.depthwise, size[fmt.index("C")])
        window = Window.of_conv(w.shape[2:], call.attr, fmt)
        o = w.shape[0]
        flat = np.ascontiguousarray(dy, np.float32).reshape(dy.shape[0], groups, o // groups, -1)
        weights = np.ascontiguousarray(w.reshape(groups, o // groups, -1).swapaxes(1, 2), np.float32)
        with np.errstate(all="ignore"):
            acc = spread(flat, weights, window, dy.shape[2:], spatial(size, fmt))
        return [_deliver(acc, call, fmt)]

    return values


def _deliver(acc: Array, call: OpCall, fmt: str) -> Array:
    if channels_last(fmt):
        acc = np.ascontiguousarray(np.moveaxis(acc, 1, -1))
    return finish(acc, call, None, (), 1)


def filter_gradient(x: Array, dy: Array, window: Window, groups: int) -> Array:
    """[out, in / groups, Kh, Kw] in float32, of ``x`` [N, C, H, W] and ``dy`` [N, O, Ho, Wo]."""
    n, o, *out = dy.shape
    c = x.shape[1]
    view = window.view(window.pad(x, np.dtype(np.float32)), out)
    rows = np.ascontiguousarray(dy, np.float32).reshape(n, groups, o // groups, prod(out))
    acc = np.zeros((groups, o // groups, c // groups, *window.kernel), np.float32)
    for tap in np.ndindex(*window.kernel):
        part = np.ascontiguousarray(view[(slice(None), slice(None), *tap)]).reshape(n, groups, c // groups, -1)
        acc[(..., *tap)] = np.matmul(rows, part.swapaxes(-1, -2)).sum(axis=0)
    return acc.reshape(o, c // groups, *window.kernel)


def _filter_values(form: Form) -> Values:
    def values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
        x, dy, x_spec = arrays[form.operand], arrays[form.out_backprop], call.inputs[form.operand]
        assert x is not None and dy is not None and x_spec is not None
        fmt = data_format(dict(call.attrs), x_spec, "NHWC")
        x, dy = to_channels_first(x, fmt), to_channels_first(dy, fmt)
        kernel = call.outputs[0].logical_shape[2:]
        groups = _groups(call.attr, form.depthwise, x.shape[1])
        with np.errstate(all="ignore"):
            acc = filter_gradient(x, dy, Window.of_conv(kernel, call.attr, fmt), groups)
        return [finish(acc, call, None, (), 1)]

    return values


for _prefix, _depthwise in (("Conv2D", False), ("DepthwiseConv2D", True)):
    _dx = Form(1, 2, 0, "input_size", _depthwise)
    define(f"{_prefix}BackpropInput", "conv", "input_size filter out_backprop", _infer_input(_dx), _input_values(_dx))
    _dx = Form(0, 1, None, "input_size", _depthwise)
    define(f"{_prefix}BackpropInputD", "conv", "filter out_backprop", _infer_input(_dx), _input_values(_dx))
    _dw = Form(0, 2, 1, "filter_size", _depthwise)
    define(f"{_prefix}BackpropFilter", "conv", "x filter_size out_backprop", _infer_filter(_dw), _filter_values(_dw))
    _dw = Form(0, 1, None, "filter_size", _depthwise)
    define(f"{_prefix}BackpropFilterD", "conv", "x out_backprop", _infer_filter(_dw), _filter_values(_dw))
