"""Operators on the bits of integers."""

from __future__ import annotations

from functools import partial

from ascend_sim.graph.onnx_import.context import Importer, OnnxNode, Table
from ascend_sim.graph.onnx_import.elementwise import binary, unary
from ascend_sim.graph.onnx_import.logic import onnx_dtype


def shift(imp: Importer, node: OnnxNode) -> None:
    direction = node.attr("direction")
    if direction not in ("LEFT", "RIGHT"):
        raise imp.error(f"direction is {direction!r}; expected LEFT or RIGHT")
    imp.emit("LeftShift" if direction == "LEFT" else "RightShift", node.inputs[:2], {}, node.outputs)


def bit_cast(imp: Importer, node: OnnxNode) -> None:
    imp.emit("Bitcast", node.inputs[:1], {"type": onnx_dtype(imp, int(node.attr("to")))}, node.outputs)


TABLE: Table = {
    "BitwiseAnd": partial(binary, "BitwiseAnd"),
    "BitwiseOr": partial(binary, "BitwiseOr"),
    "BitwiseXor": partial(binary, "BitwiseXor"),
    "BitwiseNot": partial(unary, "Invert"),
    "BitShift": shift,
    "BitCast": bit_cast,
}
