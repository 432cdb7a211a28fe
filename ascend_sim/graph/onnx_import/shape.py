"""Operators that only rename or measure a tensor: Reshape and its kin, Shape, Size, Identity, Dropout."""

from __future__ import annotations

import numpy as np

from ascend_sim.graph.onnx_import.context import Importer, OnnxNode, Table


def reshape(imp: Importer, node: OnnxNode) -> None:
    imp.ints(node.inputs[1], "shape")
    attrs = {"allowzero": 1} if node.attr("allowzero", 0) else {}
    imp.emit("Reshape", node.inputs[:2], attrs, node.outputs)


def _axes_from_13(imp: Importer, node: OnnxNode) -> list[int] | None:
    if imp.opset >= 13:
        return imp.ints(node.input(1), "axes") if node.input(1) else None
    given = node.attr("axes")
    return None if given is None else [int(v) for v in given]


def squeeze(imp: Importer, node: OnnxNode) -> None:
    axes = _axes_from_13(imp, node)
    if axes is None:
        axes = [i for i, size in enumerate(imp.shape(node.inputs[0])) if size == 1]
    if not axes:
        imp.alias(node.outputs[0], node.inputs[0])
        return
    imp.emit("Squeeze", node.inputs[:1], {"axis": axes}, node.outputs)


def unsqueeze(imp: Importer, node: OnnxNode) -> None:
    axes = _axes_from_13(imp, node)
    if axes is None:
        raise imp.error("it has no axes")
    imp.emit("Unsqueeze", node.inputs[:1], {"axes": axes}, node.outputs)


def flatten(imp: Importer, node: OnnxNode) -> None:
    x = node.inputs[0]
    shape = imp.shape(x)
    axis = int(node.attr("axis", 1))
    if not -len(shape) <= axis <= len(shape):
        raise imp.error(f"axis {axis} is out of range for rank {len(shape)}; expected {-len(shape)}..{len(shape)}")
    axis = axis + len(shape) if axis < 0 else axis
    target = [int(np.prod(shape[:axis], dtype=np.int64)), int(np.prod(shape[axis:], dtype=np.int64))]
    imp.emit("Reshape", [x, imp.const(target, "int64")], {}, node.outputs)


def shape(imp: Importer, node: OnnxNode) -> None:
    dims = imp.shape(node.inputs[0])
    start, end = node.attr("start", 0), node.attr("end", None)
    imp.define(node.outputs[0], np.asarray(dims[start:end], np.int64))


def size(imp: Importer, node: OnnxNode) -> None:
    imp.define(node.outputs[0], np.asarray(np.prod(imp.shape(node.inputs[0]), dtype=np.int64)))


def identity(imp: Importer, node: OnnxNode) -> None:
    imp.alias(node.outputs[0], node.inputs[0])


def dropout(imp: Importer, node: OnnxNode) -> None:
    """Inference Dropout does nothing; its mask, if read, is all true. Nor does a training one that drops nothing."""
    training = bool(imp.value(node.input(2), "training_mode").reshape(-1)[0]) if node.input(2) else False
    if training and (not node.input(1) or float(imp.value(node.input(1), "ratio").reshape(-1)[0]) != 0.0):
        raise imp.error("it drops at random (training_mode is true)", "Export the model in evaluation mode.", "E16002")
    imp.alias(node.outputs[0], node.inputs[0])
    if len(node.outputs) > 1 and node.outputs[1]:
        imp.define(node.outputs[1], np.ones(imp.shape(node.inputs[0]), bool))


TABLE: Table = {
    "Reshape": reshape,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Flatten": flatten,
    "Shape": shape,
    "Size": size,
    "Identity": identity,
    "Dropout": dropout,
}
