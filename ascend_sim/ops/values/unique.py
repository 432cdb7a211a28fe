"""UniqueWithCountsExt2: the different values of a tensor, or its different slices along an axis.

Outputs: y, the place of each one's first occurrence, for every entry the number of its value in y, and counts. GE's own
has no first occurrences. How many values differ is known when it has run; the specs have room for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascend_sim.ops.registry import Array
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import axis_of, need
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._numeric import narrow, widen


def _infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    shape = x.logical_shape
    out: tuple[int, ...]
    if attrs.get("axis") is None:
        entries, out = x.size, (x.size,)
    else:
        axis = axis_of(int(attrs["axis"]), len(shape))
        entries, out = shape[axis], shape
    return [TensorSpec(out, x.dtype), *[TensorSpec((entries,), "int64")] * 3]


def _unique(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    given = call.attr("axis")
    axis = None if given is None else axis_of(int(given), x.ndim)
    y, first, inverse, counts = np.unique(
        widen(x), return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    inverse = inverse.reshape(-1)
    if not call.attr("sorted", True):  # in the order of their first occurrence
        order = np.argsort(first)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        y = np.take(y, order, axis=0 if axis is None else axis)
        first, counts, inverse = first[order], counts[order], rank[inverse]
    return [
        narrow(np.ascontiguousarray(y), call.outputs[0].dtype),
        *(v.astype(np.int64) for v in (first, inverse, counts)),
    ]


define("UniqueWithCountsExt2", "aicpu", "x", _infer, _unique)
