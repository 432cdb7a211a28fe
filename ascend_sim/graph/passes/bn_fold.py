"""Inference batch normalisation folded into the convolution or matrix product in front of it."""

from __future__ import annotations

import numpy as np

from ascend_sim.graph.edit import Editor
from ascend_sim.graph.ir import Graph
from ascend_sim.graph.options import PassOptions
from ascend_sim.graph.passes._affine import can_change, channel_axis, scale_output


def run(graph: Graph, options: PassOptions) -> bool:
    editor = Editor(graph)
    for node in editor.nodes("BNInfer"):
        x, *parameters = node.inputs
        values = [graph.constants.get(name) for name in parameters]
        source = editor.maker(x)
        if source is None or editor.only_user(x) is not node or not can_change(graph, source):
            continue
        if len(values) != 4 or any(v is None for v in values) or channel_axis(graph, source) != 1:
            continue
        gamma, beta, mean, variance = (np.asarray(v, np.float64).reshape(-1) for v in values)
        scale = gamma / np.sqrt(variance + float(node.attrs.get("epsilon", 1e-5)))
        scale_output(editor, source, scale, beta - mean * scale)
        editor.absorb(source, node)
    return editor.finish()
