"""Operators whose results may be smaller than their specs: how many elements there are depends on values.

Their specs state the most there can be; memory and time follow those. An operator that reads a smaller array is
described anew, with outputs inferred from what is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from ascend_sim import ops
from ascend_sim.ops.schema import OpCall, TensorSpec

Array = NDArray[Any]


def _spec(spec: TensorSpec | None, array: Array | None) -> TensorSpec | None:
    if spec is None or array is None or spec.shape == array.shape:
        return spec
    return replace(spec, shape=tuple(array.shape), const=None)


def fitting(call: OpCall, arrays: Sequence[Array | None]) -> OpCall:
    """``call`` (on logical specs) for arrays that may be smaller than its specs say. Raises `ShapeError`."""
    specs = tuple(_spec(s, a) for s, a in zip(call.inputs, arrays, strict=True))
    if specs == call.inputs:
        return call
    if call.type == "Reshape" and specs[0] is not None and len(call.outputs[0].shape) == 1:
        return replace(call, inputs=specs, outputs=(replace(call.outputs[0], shape=(specs[0].size,)),))
    outputs = ops.infer(call.type, specs, dict(call.attrs))
    return replace(call, inputs=specs, outputs=tuple(outputs[: len(call.outputs)]))
