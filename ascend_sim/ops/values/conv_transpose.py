"""Transposed convolution: every input pixel spreads a filter over the output (matrix product, then add by tap)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ascend_sim.ops.registry import Array
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, data_format, ints, need, rank, text
from ascend_sim.ops.values._cache import prepared
from ascend_sim.ops.values._cube import blas_type, check_extras, output_dtype
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._window import Window, full_shape, spatial
from ascend_sim.ops.values.conv import (
    DECLARED,
    check_bias,
    default_format,
    deliver,
    filter_first,
    filter_shape,
    operands,
)


def _size(size: Sequence[int], window: Window, extra: Sequence[int]) -> list[int]:
    out = [
        (s - 1) * window.strides[i] + window.dilations[i] * (k - 1) + 1 + extra[i] - sum(window.pads[2 * i : 2 * i + 2])
        for i, (s, k) in enumerate(zip(size, window.kernel, strict=True))
    ]
    if min(out) < 1:
        raise ShapeError(f"pads {list(window.pads)} leave no output ({out}) for input {list(size)}")
    return out


def _infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    """Filter [C, O / groups, Kh, Kw]; ``input_size`` (the output's shape, an IR name) settles an ambiguous size."""
    x, w = need(inputs, 0, "x"), need(inputs, 1, "filter")
    shape = rank(x, "x", 4, 5)
    rank(w, "filter", len(shape), len(shape))
    fmt = data_format(attrs, x, default_format(len(shape)))
    c = shape[fmt.index("C")]
    in_c, per, *kernel = filter_shape(w)
    groups = int(attrs.get("groups", 1))
    if in_c != c or groups < 1 or c % groups:
        raise ShapeError(
            f"filter is {text(w)}; expected {c} input channels for x {text(x)}, divisible by groups={groups}"
        )
    check_bias(inputs, per * groups)
    check_extras(inputs, attrs, DECLARED)
    window = Window.of_conv(kernel, attrs.get, fmt)
    extra = spatial(ints(attrs.get("output_padding", [0] * len(shape)), "output_padding", len(shape)), fmt)
    out = _size(spatial(shape, fmt), window, extra)
    result = full_shape(shape[0], per * groups, out, fmt)
    given = attrs.get("input_size")
    if given is not None and any(given):
        wanted = tuple(ints(given, "input_size", len(shape)))
        least = _size(spatial(shape, fmt), window, (0,) * (len(shape) - 2))
        sizes = zip(spatial(wanted, fmt), least, window.strides, window.dilations, strict=True)
        fits = all(low <= s < low + max(t, d) for s, low, t, d in sizes)
        if not fits or wanted != full_shape(shape[0], per * groups, spatial(wanted, fmt), fmt):
            raise ShapeError(f"attribute input_size is {list(wanted)}; expected {list(result)}, up to stride - 1 more")
        result = wanted
    return [TensorSpec(result, output_dtype(x, w, ("x", "filter")), fmt)]


def _transposed(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x, w, w_spec, fmt = operands(arrays, call)
    w = filter_first(w, w_spec)
    window = Window.of_conv(w.shape[2:], call.attr, fmt)
    groups = int(call.attr("groups", 1))
    n, c, *size = x.shape
    kind = blas_type(x.dtype.name, w.dtype.name, c // groups * prod(window.kernel))
    weights = prepared(
        w,
        ("transposed", groups, np.dtype(kind).name),
        lambda a: np.ascontiguousarray(a.reshape(groups, c // groups, -1).swapaxes(1, 2), kind),
    )
    flat = np.ascontiguousarray(x, kind).reshape(n, groups, c // groups, -1)
    out = spatial(call.outputs[0].logical_shape, fmt)
    with np.errstate(all="ignore"):
        acc = spread(flat, weights, window, size, out)
    return deliver(acc, call, arrays, fmt)


def spread(x: Array, weights: Array, window: Window, size: Sequence[int], out: Sequence[int]) -> Array:
    """``x`` [N, groups, C / groups, pixels], ``weights`` [groups, O / groups * taps, C / groups] -> [N, O, out...]."""
    channels = weights.shape[0] * weights.shape[1] // prod(window.kernel)
    # the extent before cropping, at least what the output needs
    full = [
        max((s - 1) * window.strides[i] + window.dilations[i] * (k - 1) + 1, window.pads[2 * i] + out[i])
        for i, (s, k) in enumerate(zip(size, window.kernel, strict=True))
    ]
    canvas = np.zeros((x.shape[0], channels, *full), x.dtype)
    every = slice(None)
    for image, pixels in enumerate(x):
        taps = np.matmul(weights, pixels).reshape(channels, *window.kernel, *size)
        for tap in np.ndindex(*window.kernel):
            places = zip(tap, window.dilations, size, window.strides, strict=True)
            target = tuple(slice(t * d, t * d + (s - 1) * step + 1, step) for t, d, s, step in places)
            part = canvas[image][(every, *target)]
            part += taps[(every, *tap)]
    crop = tuple(slice(window.pads[2 * i], window.pads[2 * i] + o) for i, o in enumerate(out))
    return np.ascontiguousarray(canvas[(every, every, *crop)])


define("Conv2DTransposeD", "conv", "x filter bias?", _infer, _transposed)
define("Conv3DTransposeD", "conv", "x filter bias?", _infer, _transposed)
