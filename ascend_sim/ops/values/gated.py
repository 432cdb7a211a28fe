"""Gated activations and rotary position embedding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascend_sim.ops.dtypes import FLOATING
from ascend_sim.ops.registry import Array
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, axis_of, broadcast, like, need, rank, text
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._numeric import narrow, widen


def _infer_halved(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    if x.dtype not in FLOATING:
        raise ShapeError(f"x is {text(x)}; expected a floating-point type")
    shape = rank(x, "x", 1)
    axis = axis_of(int(attrs.get("dim", -1)), len(shape), "dim")
    if shape[axis] % 2:
        raise ShapeError(f"x is {text(x)}; expected an even size along dim {axis}")
    return [like(x, (*shape[:axis], shape[axis] // 2, *shape[axis + 1 :]))]


def _swiglu(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """a / (1 + exp(-a)) * b of the halves a and b of x along ``dim``."""
    x = arrays[0]
    assert x is not None
    a, b = np.split(widen(x), 2, axis=axis_of(int(call.attr("dim", -1)), x.ndim))
    with np.errstate(all="ignore"):
        return [narrow(a / (1 + np.exp(-a)) * b, call.outputs[0].dtype)]


define("SwiGlu", "elementwise", "x", _infer_halved, _swiglu)


def _infer_rotary(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x, cos, sin = (need(inputs, i, n) for i, n in enumerate(("x", "cos", "sin")))
    for name, spec in (("cos", cos), ("sin", sin)):
        if broadcast(x.logical_shape, spec.logical_shape, names=("x", name)) != x.logical_shape:
            raise ShapeError(f"{name} is {text(spec)}, which does not broadcast to x {text(x)}")
    if x.logical_shape[-1] % 2:
        raise ShapeError(f"x is {text(x)}; expected an even last size")
    return [like(x)]


def _rotary(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """x cos + rotated(x) sin: halves swapped and the first negated (mode 0), or neighbours (mode 1)."""
    x, cos, sin = (widen(a) for a in arrays[:3] if a is not None)
    if int(call.attr("mode", 0)) == 1:
        turned = np.stack((-x[..., 1::2], x[..., ::2]), axis=-1).reshape(x.shape)
    else:
        low, high = np.split(x, 2, axis=-1)
        turned = np.concatenate((-high, low), axis=-1)
    return [narrow(x * cos + turned * sin, call.outputs[0].dtype)]


define("RotaryPositionEmbedding", "elementwise", "x cos sin", _infer_rotary, _rotary)
