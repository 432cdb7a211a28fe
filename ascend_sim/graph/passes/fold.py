"""Constant folding: operators whose inputs are all known become constants."""

from __future__ import annotations

import numpy as np

from ascend_sim.graph.edit import Editor
from ascend_sim.graph.evaluate import call_of, constant_spec, evaluate
from ascend_sim.graph.ir import Graph
from ascend_sim.graph.options import PassOptions


def run(graph: Graph, options: PassOptions) -> bool:
    editor = Editor(graph)
    for node in editor.nodes():
        if not node.inputs or any(name and name not in graph.constants for name in node.inputs):
            continue
        call = call_of(graph, node, storage=False)
        try:
            values = evaluate(call, [graph.constants[name] if name else None for name in node.inputs])
        except (NotImplementedError, KeyError):
            continue
        editor.remove(node)
        for name, value in zip(node.outputs, values, strict=True):
            graph.constants[name] = np.asarray(value)
            graph.specs[name] = constant_spec(graph.constants[name])
    return editor.finish()
