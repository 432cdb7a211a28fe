"""Softmax and log-softmax over any set of axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascend_sim.ops.dtypes import FLOATING
from ascend_sim.ops.registry import Array
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, axes_of, ints, like, need, text
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._numeric import narrow, widen


def _axes(attrs: dict[str, Any], ndim: int) -> tuple[int, ...]:
    return axes_of(ints(attrs.get("axes", attrs.get("axis", [-1])), "axes"), ndim)


def _infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    if x.dtype not in FLOATING:
        raise ShapeError(f"x is {text(x)}; expected a floating-point type")
    _axes(attrs, len(x.logical_shape))
    return [like(x, dtype="float32" if attrs.get("half_to_float", False) else None)]


def softmax(x: Array, axes: tuple[int, ...]) -> Array:
    """exp(x - max) / sum over ``axes``, in the type of ``x``."""
    y: Array = x - x.max(axis=axes, keepdims=True, initial=-np.inf)
    np.exp(y, out=y)
    y /= y.sum(axis=axes, keepdims=True)
    return y


def _softmax(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    with np.errstate(all="ignore"):
        return [narrow(softmax(widen(x), _axes(dict(call.attrs), x.ndim)), call.outputs[0].dtype)]


def _log_softmax(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    axes = _axes(dict(call.attrs), x.ndim)
    wide = widen(x)
    with np.errstate(all="ignore"):
        y = wide - wide.max(axis=axes, keepdims=True, initial=-np.inf)
        y -= np.log(np.exp(y).sum(axis=axes, keepdims=True))
        return [narrow(y, call.outputs[0].dtype)]


define("SoftmaxV2", "softmax", "x", _infer, _softmax)
define("Softmax", "softmax", "x", _infer, _softmax)
define("LogSoftmaxV2", "softmax", "logits", _infer, _log_softmax)
