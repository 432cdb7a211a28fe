"""Removal of operators that do nothing: casts to the same type, reshapes to the same shape, inverse transposes,
chains of reshapes, and everything no output depends on."""

from __future__ import annotations

import numpy as np

from ascend_sim.graph.edit import Editor
from ascend_sim.graph.ir import Graph, Node
from ascend_sim.graph.options import PassOptions

RESHAPES = ("Reshape", "Squeeze", "Unsqueeze", "Flatten", "FlattenV2")


def _same_shape(editor: Editor, node: Node) -> bool:
    specs = editor.graph.specs
    return specs[node.inputs[0]].shape == specs[node.outputs[0]].shape  # storage shapes: formats differ too


def _transposes(editor: Editor) -> None:
    for node in editor.nodes("TransposeD"):
        if not editor.alive(node):
            continue
        perm = list(node.attrs["perm"])
        source = editor.maker(node.inputs[0])
        if source is not None and source.type == "TransposeD":
            perm = [source.attrs["perm"][i] for i in perm]
            node.attrs["perm"] = perm
            editor.set_inputs(node, [source.inputs[0]])
        if perm == list(range(len(perm))):
            editor.bypass(node, node.inputs[0])


def _reshapes(editor: Editor) -> None:
    for node in editor.nodes(*RESHAPES):
        if not editor.alive(node):
            continue
        source = editor.maker(node.inputs[0])
        if source is not None and source.type in RESHAPES:
            target = np.asarray(editor.graph.specs[node.outputs[0]].shape, np.int64)
            shape = editor.add_constant(f"{node.name}/shape", target)
            node.type, node.attrs = "Reshape", {}
            editor.set_inputs(node, [source.inputs[0], shape])
        if _same_shape(editor, node):
            editor.bypass(node, node.inputs[0])


def dead(editor: Editor) -> None:
    """Drop nodes whose outputs nobody reads, back to front."""
    for node in reversed(editor.nodes()):
        if not any(editor.users.get(n) or n in editor.graph.outputs for n in node.outputs):
            editor.remove(node)


def run(graph: Graph, options: PassOptions) -> bool:
    editor = Editor(graph)
    for node in editor.nodes("Cast", "Identity", "Dropout"):
        specs = graph.specs
        if node.type != "Cast" or specs[node.inputs[0]].dtype == specs[node.outputs[0]].dtype:
            editor.bypass(node, node.inputs[0])
    _transposes(editor)
    _reshapes(editor)
    dead(editor)
    return editor.finish()
