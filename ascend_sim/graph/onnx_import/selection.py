"""Operators whose results are as large as their values make them: NonZero, NonMaxSuppression, Unique, Compress.

They run on the AI CPU. The compiled model has room for the most there can be, and tells the size after execution.
"""

from __future__ import annotations

import numpy as np

from ascend_sim.graph.onnx_import.context import Importer, OnnxNode, Table


def non_zero(imp: Importer, node: OnnxNode) -> None:
    x = node.inputs[0]
    if not imp.rank(x):
        x = imp.emit("Reshape", [x, imp.const([1], "int64")])[0]
    imp.emit("NonZero", [x], {"transpose": True, "dtype": "int64"}, node.outputs)


def non_max_suppression(imp: Importer, node: OnnxNode) -> None:
    """NonMaxSuppression -> NonMaxSuppressionV7, whose indices are int32."""
    boxes, scores = node.inputs[:2]
    limit = imp.ints(node.input(2), "max_output_boxes_per_class")[0] if node.input(2) else 0
    limits = [imp.const(limit, "int32")]
    for index, what, default in ((3, "iou_threshold", 0.0), (4, "score_threshold", -np.inf)):
        given = imp.value(node.input(index), what).reshape(-1)[0] if node.input(index) else default
        limits.append(imp.const(given, "float32"))
    attrs = {"center_point_box": int(node.attr("center_point_box", 0))}
    rows = imp.emit("NonMaxSuppressionV7", [boxes, scores, *limits], attrs)[0]
    imp.emit("Cast", [rows], {"dst_type": "int64"}, node.outputs)


def unique(imp: Importer, node: OnnxNode) -> None:
    attrs = {"axis": node.attr("axis"), "sorted": bool(node.attr("sorted", 1))}
    x = node.inputs[0]
    imp.emit("UniqueWithCountsExt2", [x], attrs, [*node.outputs, *[""] * (4 - len(node.outputs))])


def compress(imp: Importer, node: OnnxNode) -> None:
    """Compress -> positions of the true entries (NonZero) and GatherV2."""
    x, condition = node.inputs[:2]
    axis = node.attr("axis")
    if axis is None:
        x = imp.emit("Reshape", [x, imp.const([-1], "int64")])[0]
        axis = 0
    axis = imp.axis(int(axis), imp.rank(x))
    places = imp.emit("NonZero", [condition], {"transpose": False, "dtype": "int64"})[0]
    places = imp.emit("Squeeze", [places], {"axis": [1]})[0]
    imp.emit("GatherV2", [x, places, imp.const(axis, "int64")], {"batch_dims": 0}, node.outputs)


TABLE: Table = {
    "NonZero": non_zero,
    "NonMaxSuppression": non_max_suppression,
    "Unique": unique,
    "Compress": compress,
}
