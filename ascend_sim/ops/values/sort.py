"""Orderings: ArgMax, ArgMin, TopK, Sort, and running sums. Among equal values the lowest index comes first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascend_sim.ops.dtypes import dtype_name
from ascend_sim.ops.registry import Array, Infer, Values
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, axis_of, const_ints, like, need, optional, text
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._numeric import narrow, widen


def _dimension(inputs: Specs, attrs: dict[str, Any], ndim: int) -> int:
    given = attrs.get("dimension")
    value = const_ints(optional(inputs, 1), "dimension")[0] if given is None else int(given)
    return axis_of(value, ndim, "dimension")


def _infer_arg(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    shape = x.logical_shape
    axis = _dimension(inputs, attrs, len(shape))
    if shape and shape[axis] == 0:
        raise ShapeError(f"x is {text(x)}; axis {axis} is empty")
    out = tuple(v for i, v in enumerate(shape) if i != axis)
    return [TensorSpec(out, dtype_name(attrs.get("dtype", "int32")))]


def _arg(largest: bool) -> Values:
    def values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
        x = arrays[0]
        assert x is not None
        axis = _dimension(call.inputs, dict(call.attrs), x.ndim)
        found = (np.argmax if largest else np.argmin)(widen(np.atleast_1d(x)), axis=axis)
        return [np.asarray(found).reshape(call.outputs[0].logical_shape).astype(call.outputs[0].dtype)]

    return values


for _name, _inputs, _largest in (
    ("ArgMaxV2", "x dimension?", True), ("ArgMaxD", "x", True), ("ArgMinV2", "x dimension?", False),
    ("ArgMin", "x dimension?", False), ("ArgMinD", "x", False),
):  # fmt: skip
    define(_name, "reduce", _inputs, _infer_arg, _arg(_largest))


def _infer_arg_with_value(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    shape = x.logical_shape
    axis = axis_of(int(attrs.get("dimension", 0)), len(shape), "dimension")
    kept = (1,) if attrs.get("keep_dims", False) else ()
    out = (*shape[:axis], *kept, *shape[axis + 1 :])
    return [TensorSpec(out, "int32"), like(x, out)]


def _arg_with_value(largest: bool) -> Values:
    def values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
        x = arrays[0]
        assert x is not None
        axis = axis_of(int(call.attr("dimension", 0)), x.ndim)
        index = np.expand_dims((np.argmax if largest else np.argmin)(widen(x), axis=axis), axis)
        best = np.take_along_axis(x, index, axis)
        shape = call.outputs[0].logical_shape
        return [index.astype(np.int32).reshape(shape), best.reshape(shape)]

    return values


define("ArgMaxWithValue", "reduce", "x", _infer_arg_with_value, _arg_with_value(True))
define("ArgMinWithValue", "reduce", "x", _infer_arg_with_value, _arg_with_value(False))


def order(x: Array, axis: int, descending: bool) -> Array:
    """Stable sorting indices along ``axis``; NaN counts as the largest value."""
    wide = widen(x)
    if not descending:
        return np.argsort(wide, axis=axis, kind="stable")
    # stable descending: sort the reversed axis ascending, then reverse
    n = x.shape[axis]
    back = np.argsort(np.flip(wide, axis), axis=axis, kind="stable")
    result: Array = n - 1 - np.flip(back, axis)
    return result


def _top_k_plan(inputs: Specs, attrs: dict[str, Any]) -> tuple[TensorSpec, int, int]:
    x = need(inputs, 0, "x")
    axis = axis_of(int(attrs.get("dim", -1)), len(x.logical_shape), "dim")
    given = attrs.get("k")
    k = const_ints(optional(inputs, 1), "k")[0] if given is None else int(given)
    size = x.logical_shape[axis] if x.logical_shape else 1
    if not 0 <= k <= size:
        raise ShapeError(f"k is {k}; expected 0..{size} for axis {axis} of x {text(x)}")
    return x, axis, k


def _infer_top_k(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x, axis, k = _top_k_plan(inputs, attrs)
    shape = x.logical_shape
    out = (*shape[:axis], k, *shape[axis + 1 :])
    return [like(x, out), TensorSpec(out, dtype_name(attrs.get("indices_dtype", "int32")))]


def _top_k(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    _, axis, k = _top_k_plan(call.inputs, dict(call.attrs))
    index = order(x, axis, bool(call.attr("largest", True))).take(range(k), axis=axis)
    return [np.take_along_axis(x, index, axis), index.astype(call.outputs[1].dtype)]


define("TopKV2", "sort", "x k?", _infer_top_k, _top_k)
define("TopK", "sort", "x k?", _infer_top_k, _top_k)
define("TopKD", "sort", "x", _infer_top_k, _top_k)


def _infer_sort(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    axis_of(int(attrs.get("axis", -1)), len(x.logical_shape))
    return [like(x), like(x, dtype="int32")]


def _sort(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    axis = axis_of(int(call.attr("axis", -1)), x.ndim)
    index = order(np.atleast_1d(x), axis, bool(call.attr("descending", False)))
    best = np.take_along_axis(np.atleast_1d(x), index, axis)
    return [best.reshape(x.shape), index.astype(np.int32).reshape(x.shape)]


define("Sort", "sort", "x", _infer_sort, _sort)


# ---- running sums


def _cum_axis(inputs: Specs, attrs: dict[str, Any], ndim: int) -> int:
    given = attrs.get("axis")
    return axis_of(const_ints(optional(inputs, 1), "axis")[0] if given is None else int(given), ndim)


def _infer_cumulative(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    _cum_axis(inputs, attrs, len(x.logical_shape))
    return [like(x)]


def _cumulative(function: Any, start: int) -> tuple[Infer, Values]:
    def values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
        x = arrays[0]
        assert x is not None
        if x.ndim == 0:
            return [x]
        axis = _cum_axis(call.inputs, dict(call.attrs), x.ndim)
        wide = widen(x)
        wide = np.flip(wide, axis) if call.attr("reverse", False) else wide
        if call.attr("exclusive", False):
            first = np.full_like(wide.take([0], axis=axis), start)
            wide = np.concatenate([first, wide.take(range(x.shape[axis] - 1), axis=axis)], axis)
        y = function(wide, axis=axis, dtype=wide.dtype)
        y = np.flip(y, axis) if call.attr("reverse", False) else y
        return [narrow(np.ascontiguousarray(y), call.outputs[0].dtype)]

    return _infer_cumulative, values


for _suffix, _inputs in (("", "x axis?"), ("D", "x")):
    define(f"Cumsum{_suffix}", "sort", _inputs, *_cumulative(np.cumsum, 0))
    define(f"Cumprod{_suffix}", "sort", _inputs, *_cumulative(np.cumprod, 1))
