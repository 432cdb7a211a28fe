"""Linear algebra on the AI CPU, and bits read as another type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascend_sim.ops.dtypes import dtype_name, numpy_dtype
from ascend_sim.ops.registry import Array
from ascend_sim.ops.schema import ITEM_BITS, OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, need, rank, text
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._numeric import narrow, widen


def _infer_det(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    shape = rank(x, "x", 2)
    if shape[-1] != shape[-2]:
        raise ShapeError(f"x is {text(x)}; expected square matrices")
    return [TensorSpec(shape[:-2], x.dtype)]


def _det(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    return [narrow(np.asarray(np.linalg.det(widen(x))), call.outputs[0].dtype)]


define("MatrixDeterminant", "aicpu", "x", _infer_det, _det)


def _infer_bitcast(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    try:
        target = dtype_name(attrs.get("type"))
    except ValueError as error:
        raise ShapeError(f"attribute type: {error}") from error
    if ITEM_BITS[target] != ITEM_BITS[x.dtype]:
        raise ShapeError(f"x is {text(x)}; {target} has another width")
    return [TensorSpec(x.logical_shape, target)]


def _bitcast(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    return [np.ascontiguousarray(x).view(numpy_dtype(call.outputs[0].dtype)).reshape(x.shape)]


define("Bitcast", "movement", "x", _infer_bitcast, _bitcast)
