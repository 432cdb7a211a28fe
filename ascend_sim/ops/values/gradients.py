"""Gradients of activations and of softmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascend_sim.ops.registry import Array
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, axes_of, ints, like, need, text
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._numeric import narrow, widen


def _pair(names: tuple[str, str]) -> Any:
    def infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
        a, b = need(inputs, 0, names[0]), need(inputs, 1, names[1])
        if a.logical_shape != b.logical_shape or a.dtype != b.dtype:
            raise ShapeError(f"{names[1]} is {text(b)}; expected the same as {names[0]} {text(a)}")
        return [like(a)]

    return infer


def _relu_grad(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """Gradients where the features are positive, else 0."""
    gradients, features = arrays[0], arrays[1]
    assert gradients is not None and features is not None
    return [np.where(features > 0, gradients, gradients.dtype.type(0))]


define("ReluGrad", "elementwise", "gradients features", _pair(("gradients", "features")), _relu_grad)


def grad_axes(call: OpCall, ndim: int) -> tuple[int, ...]:
    """Axes of a softmax gradient (attribute ``axes`` or ``axis``, the last one by default)."""
    return axes_of(ints(call.attr("axes", call.attr("axis", (-1,))), "axis"), ndim)


def _softmax_grad(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """(grad - sum(grad softmax)) softmax."""
    y, grad = arrays[0], arrays[1]
    assert y is not None and grad is not None
    y, grad = widen(y), widen(grad)
    total = (y * grad).sum(axis=grad_axes(call, y.ndim), keepdims=True)
    return [narrow((grad - total) * y, call.outputs[0].dtype)]


def _log_softmax_grad(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """grad - exp(log softmax) sum(grad)."""
    grad, y = arrays[0], arrays[1]
    assert y is not None and grad is not None
    y, grad = widen(y), widen(grad)
    total = grad.sum(axis=grad_axes(call, y.ndim), keepdims=True)
    return [narrow(grad - np.exp(y) * total, call.outputs[0].dtype)]


define("SoftmaxGrad", "softmax", "softmax grad_softmax", _pair(("softmax", "grad_softmax")), _softmax_grad)
define("LogSoftmaxGrad", "softmax", "grad x", _pair(("grad", "x")), _log_softmax_grad)
