"""Comparisons, logic, Where and Cast."""

from __future__ import annotations

from functools import partial

from ascend_sim.graph.onnx_import.context import Importer, OnnxNode, Table
from ascend_sim.graph.onnx_import.elementwise import binary

# onnx.TensorProto.DataType numbers
ONNX_DTYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    8: "string", 11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16",
}  # fmt: skip
OTHER_DTYPES = {
    17: "float8e4m3fn", 18: "float8e4m3fnuz", 19: "float8e5m2", 20: "float8e5m2fnuz", 21: "uint4",
    22: "int4", 23: "float4e2m1", 24: "float8e8m0", 25: "uint2", 26: "int2",
}  # fmt: skip


def onnx_dtype(imp: Importer, number: int) -> str:
    """Our name of an ONNX data type."""
    if number not in ONNX_DTYPES:
        name = OTHER_DTYPES.get(number, f"data type {number}")
        raise imp.error(f"tensors of ONNX type {name} are not supported", code="E16002")
    return ONNX_DTYPES[number]


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


def is_inf(imp: Importer, node: OnnxNode) -> None:
    attrs = {name: bool(node.attr(name, 1)) for name in ("detect_positive", "detect_negative")}
    imp.emit("IsInf", node.inputs[:1], attrs, node.outputs)


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
    "IsInf": is_inf,
}
