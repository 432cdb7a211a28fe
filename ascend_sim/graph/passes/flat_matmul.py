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
        if len(x2.shape) != 2 or len(x1.shape) < 3 or node.attrs.get("adj_x1"):
            continue
        rows, depth, width = prod(x1.shape[:-1]), x1.shape[-1], out.shape[-1]
        inputs = [_reshaped(editor, node, node.inputs[0], (rows, depth)), *node.inputs[1:3]]
        inputs += [_reshaped(editor, node, name, (rows, width)) for name in node.inputs[3:]]
        up = editor.add_constant(f"{node.name}/from_rows", np.asarray(out.shape, np.int64))
        flat, target = editor.new_name(f"{node.name}/flat"), node.outputs[0]
        epilogue = node.attrs.get("epilogue")
        node.type = "MatMulV2"
        node.attrs = {"transpose_x1": False, "transpose_x2": bool(node.attrs.get("adj_x2", False))}
        if epilogue:
            node.attrs["epilogue"] = epilogue
        editor.set_inputs(node, inputs)
        editor.set_output(node, 0, flat)
        graph.specs[flat] = TensorSpec((rows, width), out.dtype)
        after = Node(editor.new_node_name(f"{node.name}/Reshape"), "Reshape", [flat, up], [target])
        editor.add(after, [out])
    return editor.finish()


def _reshaped(editor: Editor, node: Node, name: str, shape: tuple[int, int]) -> str:
    """``name`` as a matrix, by a Reshape in front of ``node``."""
    new = editor.new_name(f"{name}/rows")
    target = editor.add_constant(f"{new}/shape", np.asarray(shape, np.int64))
    before = Node(editor.new_node_name(f"{node.name}/Reshape"), "Reshape", [name, target], [new])
    editor.add(before, [TensorSpec(shape, editor.graph.specs[name].dtype)], before=node)
    return new
