"""Comparisons, logic, Where and Cast."""

from __future__ import annotations

from functools import partial

from ascend_sim.graph.onnx_import.context import Importer, OnnxNode, Table

# onnx.TensorProto.DataType numbers
ONNX_DTYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16",
}  # fmt: skip


def onnx_dtype(imp: Importer, number: int) -> str:
    """Our name of an ONNX data type."""
    if number not in ONNX_DTYPES:
        raise imp.error(f"ONNX data type {number} is not supported", code="E16002")
    return ONNX_DTYPES[number]


def binary(ir: str, imp: Importer, node: OnnxNode) -> None:
    imp.emit(ir, node.inputs[:2], {}, node.outputs)


def not_(imp: Importer, node: OnnxNode) -> None:
    imp.emit("LogicalNot", node.inputs[:1], {}, node.outputs)


def where(imp: Importer, node: OnnxNode) -> None:
    imp.emit("SelectV2", node.inputs[:3], {}, node.outputs)


def cast(imp: Importer, node: OnnxNode) -> None:
    target = onnx_dtype(imp, int(node.attr("to")))
    if target == imp.dtype(node.inputs[0]):
        imp.alias(node.outputs[0], node.inputs[0])
        return
    imp.emit("Cast", node.inputs[:1], {"dst_type": target}, node.outputs)


def cast_like(imp: Importer, node: OnnxNode) -> None:
    imp.emit("Cast", node.inputs[:1], {"dst_type": imp.dtype(node.inputs[1])}, node.outputs)


def is_nan(imp: Importer, node: OnnxNode) -> None:
    imp.emit("NotEqual", [node.inputs[0], node.inputs[0]], {}, node.outputs)


TABLE: Table = {
    "Equal": partial(binary, "Equal"),
    "Less": partial(binary, "Less"),
    "Greater": partial(binary, "Greater"),
    "LessOrEqual": partial(binary, "LessEqual"),
    "GreaterOrEqual": partial(binary, "GreaterEqual"),
    "And": partial(binary, "LogicalAnd"),
    "Or": partial(binary, "LogicalOr"),
    "Xor": partial(binary, "LogicalXor"),
    "Not": not_,
    "Where": where,
    "Cast": cast,
    "CastLike": cast_like,
    "IsNaN": is_nan,
}
