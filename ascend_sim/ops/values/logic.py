"""Comparisons, logic, selection and tests of values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ascend_sim.ops.registry import Array, Infer, Values
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, broadcast, like, need, same_dtype, text
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._numeric import widen


def _infer_binary(only_bool: bool) -> Infer:
    def infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
        a, b = need(inputs, 0, "x1"), need(inputs, 1, "x2")
        dtype = same_dtype((a, b), ("x1", "x2"))
        if only_bool and dtype != "bool":
            raise ShapeError(f"x1 is {text(a)}; expected bool")
        longer = a if len(a.logical_shape) >= len(b.logical_shape) else b
        return [like(longer, broadcast(a.logical_shape, b.logical_shape), "bool")]

    return infer


def _binary(function: Callable[[Array, Array], Any]) -> Values:
    def values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
        a, b = arrays[0], arrays[1]
        assert a is not None and b is not None
        return [np.asarray(function(widen(a), widen(b)))]

    return values


_Compare = dict[str, tuple[Callable[[Array, Array], Any], bool]]
_COMPARISONS: _Compare = {
    "Equal": (np.equal, False),
    "NotEqual": (np.not_equal, False),
    "Less": (np.less, False),
    "LessEqual": (np.less_equal, False),
    "Greater": (np.greater, False),
    "GreaterEqual": (np.greater_equal, False),
    "LogicalAnd": (np.logical_and, True),
    "LogicalOr": (np.logical_or, True),
    "LogicalXor": (np.logical_xor, True),
}
for _name, (_function, _bool) in _COMPARISONS.items():
    define(_name, "logic", "x1 x2", _infer_binary(_bool), _binary(_function))


def _infer_unary(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    return [like(need(inputs, 0, "x"), dtype="bool")]


def _unary(function: Callable[[Array], Any]) -> Values:
    def values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
        x = arrays[0]
        assert x is not None
        return [np.asarray(function(widen(x)))]

    return values


def _is_inf(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    wide = widen(x)
    positive = np.isposinf(wide) & bool(call.attr("detect_positive", True))
    negative = np.isneginf(wide) & bool(call.attr("detect_negative", True))
    return [np.asarray(positive | negative)]


define("LogicalNot", "logic", "x", _infer_unary, _unary(np.logical_not))
define("IsNan", "logic", "x", _infer_unary, _unary(np.isnan))
define("IsFinite", "logic", "x", _infer_unary, _unary(np.isfinite))
define("IsInf", "logic", "x", _infer_unary, _is_inf)


def _infer_invert(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    if x.dtype.startswith(("float", "bfloat")):
        raise ShapeError(f"x is {text(x)}; expected an integer type")
    return [like(x)]


define("Invert", "logic", "x", _infer_invert, _unary(np.invert))


def _infer_select(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    condition, a, b = (need(inputs, i, n) for i, n in enumerate(("condition", "x1", "x2")))
    dtype = same_dtype((a, b), ("x1", "x2"))
    if condition.dtype != "bool":
        raise ShapeError(f"condition is {text(condition)}; expected bool")
    shape = broadcast(condition.logical_shape, a.logical_shape, b.logical_shape, names=("condition", "x1", "x2"))
    longest = max((a, b, condition), key=lambda s: len(s.logical_shape))
    return [like(longest, shape, dtype)]


def _select(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    condition, a, b = arrays[:3]
    assert condition is not None and a is not None and b is not None
    return [np.where(condition, a, b)]


define("Select", "logic", "condition x1 x2", _infer_select, _select)
define("SelectV2", "logic", "condition x1 x2", _infer_select, _select)


def _infer_masked_fill(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x, mask, value = (need(inputs, i, n) for i, n in enumerate(("x", "mask", "value")))
    if mask.dtype != "bool":
        raise ShapeError(f"mask is {text(mask)}; expected bool")
    same_dtype((x, value), ("x", "value"))
    return [like(x, broadcast(x.logical_shape, mask.logical_shape, names=("x", "mask")))]


def _masked_fill(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x, mask, value = arrays[:3]
    assert x is not None and mask is not None and value is not None
    return [np.where(mask, value, x)]


define("MaskedFill", "logic", "x mask value", _infer_masked_fill, _masked_fill)
