"""A batched product with one shared matrix is one large product between two free reshapes."""

from __future__ import annotations

from math import prod

import numpy as np

from ascend_sim.graph.edit import Editor
from ascend_sim.graph.ir import Graph, Node
from ascend_sim.graph.options import PassOptions
from ascend_sim.ops.schema import TensorSpec


def run(graph: Graph, options: PassOptions) -> bool:
    editor = Editor(graph)
    for node in editor.nodes("BatchMatMulV2"):
        x1, x2 = graph.specs[node.inputs[0]], graph.specs[node.inputs[1]]
        out = graph.specs[node.outputs[0]]
        if len(x2.shape) != 2 or len(x1.shape) < 3 or node.attrs.get("adj_x1") or node.attrs.get("epilogue"):
            continue
        rows, depth, width = prod(x1.shape[:-1]), x1.shape[-1], out.shape[-1]
        flat_in, flat_out = editor.new_name(f"{node.name}/rows"), editor.new_name(f"{node.name}/flat")
        down = editor.add_constant(f"{node.name}/to_rows", np.asarray([rows, depth], np.int64))
        up = editor.add_constant(f"{node.name}/from_rows", np.asarray(out.shape, np.int64))
        before = Node(editor.new_node_name(f"{node.name}/Reshape"), "Reshape", [node.inputs[0], down], [flat_in])
        editor.add(before, [TensorSpec((rows, depth), x1.dtype)], before=node)
        target = node.outputs[0]
        node.type = "MatMulV2"
        node.attrs = {"transpose_x1": False, "transpose_x2": bool(node.attrs.get("adj_x2", False))}
        editor.set_inputs(node, [flat_in, *node.inputs[1:]])
        editor.set_output(node, 0, flat_out)
        graph.specs[flat_out] = TensorSpec((rows, width), out.dtype)
        after = Node(editor.new_node_name(f"{node.name}/Reshape_1"), "Reshape", [flat_out, up], [target])
        editor.add(after, [out])
    return editor.finish()
