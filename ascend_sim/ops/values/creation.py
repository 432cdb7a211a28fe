"""Operators that make tensors: ranges, fills, identity matrices."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

import numpy as np

from ascend_sim.ops.dtypes import dtype_name, numpy_dtype
from ascend_sim.ops.registry import Array, Values
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, const_array, ints, like, need, optional
from ascend_sim.ops.values._define import Specs, define, infer_same
from ascend_sim.ops.values.layout import pick


def _range_of(inputs: Specs) -> tuple[float, float, float]:
    start, limit, delta = (
        const_array(optional(inputs, i), n).item() for i, n in enumerate(("start", "limit", "delta"))
    )
    return start, limit, delta


def _infer_range(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    start, limit, delta = _range_of(inputs)
    if delta == 0:
        raise ShapeError("delta is 0")
    return [TensorSpec((max(0, ceil((limit - start) / delta)),), need(inputs, 0, "start").dtype)]


def _range(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    start, _, delta = _range_of(call.inputs)
    count = call.outputs[0].shape[0]
    steps: Array = np.arange(count, dtype=np.int64 if isinstance(start, int) else np.float64)
    return [(start + steps * delta).astype(numpy_dtype(call.outputs[0].dtype))]


define("Range", "creation", "start limit delta", _infer_range, _range)


def _infer_fill(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    value = need(inputs, 1, "value")
    return [TensorSpec(tuple(pick(inputs, 0, attrs, "dims")), value.dtype)]


def _fill(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    value = arrays[1]
    assert value is not None
    return [np.full(call.outputs[0].logical_shape, value.reshape(-1)[0], value.dtype)]


define("Fill", "creation", "dims? value", _infer_fill, _fill)


def _constant(number: float | None) -> Values:
    def values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
        value = call.attr("value", 0.0) if number is None else number
        return [np.full(call.outputs[0].logical_shape, value, numpy_dtype(call.outputs[0].dtype))]

    return values


define("ZerosLike", "creation", "x", infer_same, _constant(0))
define("OnesLike", "creation", "x", infer_same, _constant(1))
define("Fills", "creation", "x", infer_same, _constant(None))


def _copy(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    return [x.copy()]


define("TensorMove", "movement", "x", infer_same, _copy)


def _infer_eye(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    rows = int(attrs.get("num_rows", 0))
    columns = int(attrs.get("num_columns", 0)) or rows
    batch = tuple(ints(attrs.get("batch_shape", ()), "batch_shape"))
    if rows < 1:
        raise ShapeError(f"attribute num_rows is {rows}; expected at least 1")
    return [TensorSpec((*batch, rows, columns), dtype_name(attrs.get("dtype", "float32")))]


def _eye(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    shape = call.outputs[0].shape
    square = np.eye(shape[-2], shape[-1], dtype=numpy_dtype(call.outputs[0].dtype))
    return [np.ascontiguousarray(np.broadcast_to(square, shape))]


define("Eye", "creation", "", _infer_eye, _eye)


def _infer_reverse(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    return [like(need(inputs, 0, "x"))]


def _reverse(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    return [np.ascontiguousarray(np.flip(x, tuple(pick(call.inputs, 1, dict(call.attrs), "axis"))))]


define("ReverseV2", "movement", "x axis?", _infer_reverse, _reverse)
define("ReverseV2D", "movement", "x", _infer_reverse, _reverse)


def _roll(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    shifts, dims = ints(call.attr("shifts"), "shifts"), ints(call.attr("dims", ()), "dims")
    return [np.roll(x, tuple(shifts) if dims else shifts[0], tuple(dims) if dims else None)]


define("Roll", "movement", "x", infer_same, _roll)
