"""Arithmetic with a one-element constant becomes the scalar form of the operator (Adds, Muls)."""

from __future__ import annotations

from ascend_sim.graph.edit import Editor
from ascend_sim.graph.ir import Graph
from ascend_sim.graph.options import PassOptions

FLOATS = ("float32", "float16", "bfloat16")


def run(graph: Graph, options: PassOptions) -> bool:
    editor = Editor(graph)
    for node in editor.nodes("Add", "Sub", "Mul", "RealDiv"):
        a, b = node.inputs
        if graph.specs[a].dtype not in FLOATS:
            continue
        commutes = node.type in ("Add", "Mul")
        for data, constant in ((a, b), (b, a)) if commutes else ((a, b),):
            value = editor.scalar(constant)
            if value is None or data in graph.constants:
                continue
            if graph.specs[data].shape != graph.specs[node.outputs[0]].shape:
                continue  # the constant adds leading axes
            if node.type == "RealDiv" and value == 0.0:
                continue
            node.type, node.attrs = {
                "Add": ("Adds", {"value": value}),
                "Sub": ("Adds", {"value": -value}),
                "Mul": ("Muls", {"value": value}),
                "RealDiv": ("Muls", {"value": 1.0 / value if value else 0.0}),
            }[node.type]
            editor.set_inputs(node, [data])
            break
    return editor.finish()
