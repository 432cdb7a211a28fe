"""Concats along the channels of NC1HWC0 that need no kernel: their inputs are written where the joined tensor lies.

Public rules of GE, restated: whole channel blocks in every input, inputs from different operators, none a model input
or constant, none tied to another buffer, result no model output. One image is contiguous in the joined buffer whoever
makes it (concat_c_optimize); a batch needs producers that write with a stride between images, which are convolutions
(conv_concat). Of one image, a concat whose inputs begin with all those of an earlier one shares its buffer.
"""

from __future__ import annotations

from ascend_sim.graph.edit import Editor
from ascend_sim.graph.ir import Graph, Node
from ascend_sim.graph.options import PassOptions
from ascend_sim.graph.plan import NO_TASK, is_free


def _plain(editor: Editor, node: Node) -> bool:
    """What holds for single inputs and the result."""
    graph = editor.graph
    if node.type != "ConcatD" or int(node.attrs["concat_dim"]) != 1 or len(set(node.inputs)) != len(node.inputs):
        return False
    out = graph.specs[node.outputs[0]]
    if out.format != "NC1HWC0" or node.outputs[0] in graph.outputs:
        return False
    batch = out.logical_shape[0]
    for name in node.inputs:
        spec, maker = graph.specs[name], editor.maker(name)
        if maker is None or is_free(maker) or name in graph.outputs or len(maker.outputs) != 1:
            return False
        if spec.format != out.format or spec.logical_shape[1] % spec.shape[-1]:
            return False
        if batch > 1 and (maker.type != "Conv2D" or editor.only_user(name) is not node):
            return False
    return True


def run(graph: Graph, options: PassOptions) -> bool:
    editor = Editor(graph)
    tied: dict[str, Node] = {}  # tensor -> the last concat without a task that it is part of
    for node in editor.nodes("ConcatD"):
        if not _plain(editor, node):
            continue
        before = {id(tied[name]): tied[name] for name in node.inputs if name in tied}
        if len(before) > 1:
            continue
        if before:
            (earlier,) = before.values()
            if node.inputs[: len(earlier.inputs)] != earlier.inputs:
                continue
            tied[earlier.outputs[0]] = node
        node.attrs[NO_TASK] = True
        editor.changed = True
        tied.update(dict.fromkeys(node.inputs, node))
    return editor.finish()
