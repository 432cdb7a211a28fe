"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ascend_sim.ops.registry import Array, Values
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, axes_of, const_ints, ints, like, need, optional, reduced, text
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._numeric import narrow, widen


def reduce_axes(inputs: Specs, attrs: dict[str, Any], ndim: int) -> tuple[int, ...]:
    """Axes to reduce: attribute or constant input; none or empty means all unless ``noop_with_empty_axes``."""
    given = attrs.get("axes", attrs.get("axis"))
    if given is None and optional(inputs, 1) is not None:
        given = const_ints(inputs[1], "axes")
    listed = [] if given is None else ints(given, "axes")
    if not listed:
        return () if attrs.get("noop_with_empty_axes", False) else tuple(range(ndim))
    return axes_of(listed, ndim)


def _infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    shape = x.logical_shape
    axes = reduce_axes(inputs, attrs, len(shape))
    return [like(x, reduced(shape, axes, bool(attrs.get("keep_dims", False))))]


def _infer_bool(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    if x.dtype != "bool":
        raise ShapeError(f"x is {text(x)}; expected bool")
    return _infer(inputs, attrs)


Reduce = Callable[[Array, tuple[int, ...]], Array]


def _sum(x: Array, axes: tuple[int, ...]) -> Array:
    result: Array = np.sum(x, axis=axes, keepdims=True, dtype=x.dtype)
    return result


def _mean(x: Array, axes: tuple[int, ...]) -> Array:
    count = 1
    for a in axes:
        count *= x.shape[a]
    if x.dtype.kind in "iu":
        total = np.sum(x, axis=axes, keepdims=True, dtype=np.int64)
        return np.trunc(total / max(count, 1)).astype(x.dtype)
    result: Array = np.sum(x, axis=axes, keepdims=True, dtype=x.dtype) / x.dtype.type(count)
    return result


def _limit(dtype: np.dtype[Any], largest: bool) -> Any:
    """The extreme value of a type: what an extremum over no elements gives."""
    if dtype.kind == "b":
        return largest
    if dtype.kind in "iu":
        return np.iinfo(dtype).max if largest else np.iinfo(dtype).min
    return np.inf if largest else -np.inf


def _log_sum_exp(x: Array, axes: tuple[int, ...]) -> Array:
    top = np.max(x, axis=axes, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    result: Array = np.log(np.sum(np.exp(x - top), axis=axes, keepdims=True)) + top
    return result


_REDUCTIONS: dict[str, tuple[Reduce, Any]] = {
    "Sum": (_sum, _infer),
    "Mean": (_mean, _infer),
    "Max": (lambda x, axes: np.max(x, axis=axes, keepdims=True, initial=_limit(x.dtype, False)), _infer),
    "Min": (lambda x, axes: np.min(x, axis=axes, keepdims=True, initial=_limit(x.dtype, True)), _infer),
    "Prod": (lambda x, axes: np.prod(x, axis=axes, keepdims=True, dtype=x.dtype), _infer),
    "All": (lambda x, axes: np.all(x, axis=axes, keepdims=True), _infer_bool),
    "Any": (lambda x, axes: np.any(x, axis=axes, keepdims=True), _infer_bool),
    "LogSumExp": (_log_sum_exp, _infer),
    "LogSum": (lambda x, axes: np.log(_sum(x, axes)), _infer),
    "SumSquare": (lambda x, axes: _sum(x * x, axes), _infer),
    "L1": (lambda x, axes: _sum(np.abs(x), axes), _infer),
    "L2": (lambda x, axes: np.sqrt(_sum(x * x, axes)), _infer),
}


def _values(function: Reduce) -> Values:
    def values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
        x = arrays[0]
        assert x is not None
        axes = reduce_axes(call.inputs, dict(call.attrs), x.ndim)
        with np.errstate(all="ignore"):
            y = function(widen(x), axes)
        return [narrow(np.asarray(y).reshape(call.outputs[0].logical_shape), call.outputs[0].dtype)]

    return values


for _name, (_function, _infer_one) in _REDUCTIONS.items():
    define(f"Reduce{_name}", "reduce", "x axes?", _infer_one, _values(_function))
    define(f"Reduce{_name}D", "reduce", "x", _infer_one, _values(_function))
