"""Per-channel scales and shifts (Mul, Add, Sub, RealDiv, Muls, Adds with constants) folded into the convolution or
matrix product in front of them."""

from __future__ import annotations

import numpy as np

from ascend_sim.graph.edit import Editor
from ascend_sim.graph.ir import Graph, Node
from ascend_sim.graph.options import PassOptions
from ascend_sim.graph.passes._affine import Array, can_change, per_channel, scale_output

TYPES = ("Mul", "Add", "Sub", "RealDiv", "Muls", "Adds", "BiasAdd")


def _affine(graph: Graph, node: Node, source: Node, x: str) -> tuple[Array | None, Array | None] | None:
    """(scale, shift) of ``node`` as a function of ``x``, or None."""
    channels = np.ones(1)
    if node.type in ("Muls", "Adds"):
        value = per_channel(graph, source, channels * float(node.attrs["value"]))
        return (value, None) if node.type == "Muls" else (None, value)
    index = node.inputs.index(x)
    constant = graph.constants.get(node.inputs[1 - index])
    if constant is None or graph.specs[node.outputs[0]].shape != graph.specs[x].shape:
        return None
    value = per_channel(graph, source, constant)
    if value is None:
        return None
    match node.type:
        case "Mul":
            return value, None
        case "Add":
            return None, value
        case "Sub":
            return (None, -value) if index == 0 else (-np.ones_like(value), value)
        case "RealDiv" if index == 0 and bool(np.all(value != 0)):
            return 1.0 / value, None
    return None


def run(graph: Graph, options: PassOptions) -> bool:
    editor = Editor(graph)
    for node in editor.nodes(*TYPES):
        for x in node.inputs:
            source = editor.maker(x)
            if source is None or editor.only_user(x) is not node or not can_change(graph, source):
                continue
            found = _affine(graph, node, source, x)
            if found is not None:
                scale_output(editor, source, *found)
                editor.absorb(source, node)
                break
    return editor.finish()
