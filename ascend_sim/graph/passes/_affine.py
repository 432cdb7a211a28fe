"""Scaling and shifting what a matrix operator produces, by changing its constants."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.graph.edit import Editor
from ascend_sim.graph.ir import Graph, Node
from ascend_sim.graph.virtual import is_virtual

CONVOLUTIONS = ("Conv2D", "DepthwiseConv2D", "Conv2DTransposeD")
MATMULS = ("MatMulV2", "BatchMatMulV2")
CUBE = (*CONVOLUTIONS, *MATMULS)

Array = NDArray[Any]


def channel_axis(graph: Graph, node: Node) -> int:
    """Axis of the output that the bias runs along."""
    return 1 if node.type in CONVOLUTIONS else len(graph.specs[node.outputs[0]].shape) - 1


def per_channel(graph: Graph, node: Node, constant: Array) -> Array | None:
    """``constant``, broadcast against the output of ``node``, as one value per channel; None if it varies elsewhere."""
    shape = graph.specs[node.outputs[0]].shape
    axis = channel_axis(graph, node)
    if constant.ndim > len(shape):
        return None
    padded = (1,) * (len(shape) - constant.ndim) + constant.shape
    if any(n != 1 for i, n in enumerate(padded) if i != axis) or padded[axis] not in (1, shape[axis]):
        return None
    return np.broadcast_to(constant.reshape(-1), (shape[axis],)).astype(np.float64)


def can_change(graph: Graph, node: Node) -> bool:
    """Whether weights and bias are constants and nothing is fused behind the operator yet."""
    if node.type not in CUBE or node.attrs.get("epilogue"):
        return False
    bias = node.inputs[2] if len(node.inputs) > 2 else ""
    if node.inputs[1] not in graph.constants or (bias and bias not in graph.constants):
        return False
    return node.type != "BatchMatMulV2" or graph.constants[node.inputs[1]].ndim == 2


def _scaled_weights(node: Node, weights: Array, scale: Array) -> Array:
    if is_virtual(weights):
        return weights
    wide = weights.astype(np.float64)
    if node.type in ("Conv2D", "DepthwiseConv2D"):
        return wide * scale.reshape(-1, *(1,) * (wide.ndim - 1))
    if node.type == "Conv2DTransposeD":
        groups = int(node.attrs.get("groups", 1))
        c, per, *kernel = wide.shape
        grouped = wide.reshape(groups, c // groups, per, *kernel) * scale.reshape(groups, 1, per, *(1,) * len(kernel))
        return grouped.reshape(wide.shape)
    transposed = node.attrs.get("transpose_x2") or node.attrs.get("adj_x2")
    return wide * (scale[:, None] if transposed else scale[None, :])


def scale_output(editor: Editor, node: Node, scale: Array | None, shift: Array | None) -> None:
    """Make ``node`` produce ``y * scale + shift`` (per channel, float64) instead of ``y``."""
    graph = editor.graph
    weights = graph.constants[node.inputs[1]]
    inputs = [*node.inputs, ""][:3]
    bias = graph.constants[inputs[2]].reshape(-1).astype(np.float64) if inputs[2] else None
    if scale is not None:
        inputs[1] = editor.add_constant(
            f"{node.name}/weights", _scaled_weights(node, weights, scale).astype(weights.dtype, copy=False)
        )
        bias = None if bias is None else bias * scale
    if shift is not None:
        bias = shift if bias is None else bias + shift
    if bias is not None:
        inputs[2] = editor.add_constant(f"{node.name}/bias", bias.astype(weights.dtype))
    if not inputs[2]:
        inputs.pop()
    editor.set_inputs(node, inputs)
