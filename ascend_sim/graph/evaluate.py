"""Operators on graph tensors: the call of a node, its inferred outputs and, for constants, its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim import ops
from ascend_sim.graph.ir import Graph, Node
from ascend_sim.graph.virtual import is_virtual, virtual
from ascend_sim.ops.dtypes import numpy_dtype
from ascend_sim.ops.schema import OpCall, TensorSpec, freeze_attrs

CONST_IN_SPEC_BYTES = 1024  # constants up to this size travel in the spec: axes, pads, sizes, scalars

Array = NDArray[Any]


def dtype_name(dtype: np.dtype[Any]) -> str:
    """`TensorSpec` dtype of a NumPy dtype (also bfloat16 and int4 of ml_dtypes)."""
    return "bool" if dtype == np.bool_ else "string" if dtype == np.object_ else dtype.name


def constant_spec(array: Array, fmt: str = "ND") -> TensorSpec:
    """Spec of a compile-time constant. Small integer ones and scalars carry their value; weights and biases do not, so
    layers of equal shape stay equal calls."""
    carries = array.size <= 1 or (array.dtype.kind in "iub" and array.nbytes <= CONST_IN_SPEC_BYTES)
    const = array.tobytes() if carries else None
    return TensorSpec(tuple(array.shape), dtype_name(array.dtype), fmt, const=const)


def input_specs(graph: Graph, node: Node) -> tuple[TensorSpec | None, ...]:
    return tuple(graph.specs[name] if name else None for name in node.inputs)


def logical(spec: TensorSpec) -> TensorSpec:
    """The spec as the user wrote it, without its storage format."""
    if spec.origin_shape is None:
        return spec
    return TensorSpec(spec.origin_shape, spec.dtype, spec.origin_format or "ND", const=spec.const)


def call_of(graph: Graph, node: Node, *, storage: bool = True) -> OpCall:
    """The node as an operator call: on storage specs (for timing) or on logical ones (for values)."""
    inputs = input_specs(graph, node)
    outputs = tuple(graph.specs[name] for name in node.outputs)
    if not storage:
        inputs = tuple(None if s is None else logical(s) for s in inputs)
        outputs = tuple(logical(s) for s in outputs)
    return OpCall(node.type, inputs, outputs, freeze_attrs(node.attrs))


def infer(op_type: str, inputs: Sequence[TensorSpec | None], attrs: Mapping[str, Any]) -> list[TensorSpec]:
    """Output specs. Raises ValueError naming what does not fit; KeyError for an operator nobody registered."""
    ops.load(kernels=False)
    return list(ops.infer(op_type, list(inputs), dict(attrs)))


def evaluate(call: OpCall, arrays: Sequence[Array | None]) -> list[Array]:
    """Outputs of a call whose inputs are all known; of virtual ones they are virtual."""
    if any(is_virtual(a) for a in arrays):
        return [virtual(spec.logical_shape, numpy_dtype(spec.dtype)) for spec in call.outputs]
    ops.load(kernels=False)
    with np.errstate(all="ignore"):
        return list(ops.values(call, list(arrays)))
