"""The Gradient operator of ai.onnx.preview.training: derivatives by the chain rule through elementary operators."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ascend_sim.graph.ir import Node
from ascend_sim.graph.onnx_import.context import Importer, OnnxNode, Table

Rule = Callable[[Importer, Node, str], list[str]]  # (importer, node, derivative of its output) -> those of its inputs


def _one(imp: Importer, op: str, *inputs: str) -> str:
    return imp.emit(op, inputs)[0]


RULES: dict[str, Rule] = {
    "Add": lambda imp, node, dy: [dy, dy],
    "Sub": lambda imp, node, dy: [dy, _one(imp, "Neg", dy)],
    "Mul": lambda imp, node, dy: [_one(imp, "Mul", dy, node.inputs[1]), _one(imp, "Mul", dy, node.inputs[0])],
    "Neg": lambda imp, node, dy: [_one(imp, "Neg", dy)],
    "Exp": lambda imp, node, dy: [_one(imp, "Mul", dy, node.outputs[0])],
    "Log": lambda imp, node, dy: [_one(imp, "RealDiv", dy, node.inputs[0])],
    "Sin": lambda imp, node, dy: [_one(imp, "Mul", dy, _one(imp, "Cos", node.inputs[0]))],
    "Cos": lambda imp, node, dy: [_one(imp, "Neg", _one(imp, "Mul", dy, _one(imp, "Sin", node.inputs[0])))],
}


def _summed(imp: Importer, value: str, shape: tuple[int, ...]) -> str:
    """A derivative in the shape of its tensor: summed over the axes that were broadcast."""
    own = imp.shape(value)
    lead = len(own) - len(shape)
    axes = [i for i, n in enumerate(own) if i < lead or (n != 1 and shape[i - lead] == 1)]
    if not axes:
        return value
    total = imp.emit("ReduceSum", [value, imp.const(axes, "int64")], {"keep_dims": True})[0]
    return imp.emit("Reshape", [total, imp.const(list(shape), "int64")])[0]


def gradient(imp: Importer, node: OnnxNode) -> None:
    """d y / d x for every name in ``xs``; the inputs are the places where they are taken."""
    target, sources = imp.resolve(node.attr("y")), [imp.resolve(n) for n in node.attr("xs")]
    made = list(imp.graph.nodes)
    ones = np.ones(imp.shape(target), np.dtype(imp.dtype(target)))
    known = {target: imp.const(ones, base="seed")}
    for one in reversed(made):
        if one.outputs[0] not in known:
            continue
        if one.type not in RULES:
            raise imp.error(f"{one.type} (node {one.name!r}) has no derivative rule", code="E16002")
        parts = RULES[one.type](imp, one, known[one.outputs[0]])
        for name, raw in zip(one.inputs, parts, strict=True):
            part = _summed(imp, raw, imp.shape(name))
            known[name] = _one(imp, "Add", known[name], part) if name in known else part
    for out, source in zip(node.outputs, sources, strict=True):
        if source not in known:
            raise imp.error(f"{node.attr('y')!r} does not depend on {source!r}")
        imp.alias(out, known[source])


TABLE: Table = {"ai.onnx.preview.training::Gradient": gradient}
