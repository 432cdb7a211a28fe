"""Arithmetic element by element: unary, binary and variadic operators."""

from __future__ import annotations

from functools import partial

import numpy as np

from ascend_sim.graph.onnx_import.context import Importer, OnnxNode, Table

UNARY = {
    "Abs": "Abs", "Acos": "Acos", "Acosh": "Acosh", "Asin": "Asin", "Asinh": "Asinh", "Atan": "Atan", "Atanh": "Atanh",
    "Ceil": "Ceil", "Cos": "Cos", "Cosh": "Cosh", "Erf": "Erf", "Exp": "Exp", "Floor": "Floor", "Log": "Log",
    "Neg": "Neg", "Reciprocal": "Reciprocal", "Round": "Round", "Sign": "Sign", "Sin": "Sin", "Sinh": "Sinh",
    "Sqrt": "Sqrt", "Tan": "Tan",
}  # fmt: skip


def unary(ir: str, imp: Importer, node: OnnxNode) -> None:
    imp.emit(ir, node.inputs[:1], {}, node.outputs)


def operands(imp: Importer, node: OnnxNode) -> list[str]:
    """The two inputs; before opset 7 the second one may be aligned with an inner ``axis`` of the first."""
    a, b = node.inputs[:2]
    if imp.opset < 7 and node.attr("broadcast", 0) and node.attr("axis") is not None:
        axis = imp.axis(int(node.attr("axis")), imp.rank(a))
        tail = imp.rank(a) - axis - imp.rank(b)
        if tail > 0:
            b = imp.emit("Reshape", [b, imp.const([*imp.shape(b), *[1] * tail], "int64")])[0]
    return [a, b]


def binary(ir: str, imp: Importer, node: OnnxNode) -> None:
    imp.emit(ir, operands(imp, node), {}, node.outputs)


def variadic(ir: str, imp: Importer, node: OnnxNode) -> None:
    """Max, Min and Sum of any number of inputs as a chain of two-input operators."""
    if len(node.inputs) == 1:
        imp.alias(node.outputs[0], node.inputs[0])
        return
    total = node.inputs[0]
    for name in node.inputs[1:-1]:
        total = imp.emit(ir, [total, name])[0]
    imp.emit(ir, [total, node.inputs[-1]], {}, node.outputs)


def mean(imp: Importer, node: OnnxNode) -> None:
    total = node.inputs[0]
    for name in node.inputs[1:]:
        total = imp.emit("Add", [total, name])[0]
    imp.emit("Mul", [total, imp.const(1.0 / len(node.inputs), imp.dtype(total))], {}, node.outputs)


def div(imp: Importer, node: OnnxNode) -> None:
    """Div: RealDiv on floats; integers divide towards zero."""
    integer = np.dtype(imp.dtype(node.inputs[0])).kind in "iu" if imp.dtype(node.inputs[0]) != "bfloat16" else False
    imp.emit("Div" if integer else "RealDiv", operands(imp, node), {}, node.outputs)


def power(imp: Importer, node: OnnxNode) -> None:
    """Pow; exponents 1, 2, 3, 0.5, -0.5 and -1 have simpler operators, and the exponent's dtype follows the base."""
    base, exponent = operands(imp, node)
    value = imp.constant(exponent)
    if value is not None and value.size == 1 and value.ndim <= imp.rank(base):
        number = float(value.reshape(-1)[0])
        simpler = {2.0: "Square"}
        if imp.dtype(base).startswith(("float", "bfloat")):
            simpler |= {0.5: "Sqrt", -0.5: "Rsqrt", -1.0: "Reciprocal"}
        if number in simpler:
            imp.emit(simpler[number], [base], {}, node.outputs)
            return
        if number == 3.0:
            imp.emit("Mul", [base, imp.emit("Square", [base])[0]], {}, node.outputs)
            return
        if number == 1.0:
            imp.alias(node.outputs[0], base)
            return
    if imp.dtype(exponent) != imp.dtype(base):
        exponent = imp.emit("Cast", [exponent], {"dst_type": imp.dtype(base)})[0]
    imp.emit("Pow", [base, exponent], {}, node.outputs)


def mod(imp: Importer, node: OnnxNode) -> None:
    """Mod: fmod=1 keeps the dividend's sign, fmod=0 the divisor's."""
    imp.emit("Mod" if node.attr("fmod", 0) else "FloorMod", node.inputs[:2], {}, node.outputs)


TABLE: Table = {
    **{name: partial(unary, ir) for name, ir in UNARY.items()},
    "Add": partial(binary, "Add"),
    "Sub": partial(binary, "Sub"),
    "Mul": partial(binary, "Mul"),
    "Div": div,
    "Pow": power,
    "Mod": mod,
    "Max": partial(variadic, "Maximum"),
    "Min": partial(variadic, "Minimum"),
    "Sum": partial(variadic, "Add"),
    "Mean": mean,
}
