"""Zero padding in front of a convolution (perhaps in front of its transpose) becomes the convolution's own padding."""

from __future__ import annotations

from ascend_sim.graph.edit import Editor
from ascend_sim.graph.ir import Graph
from ascend_sim.graph.options import PassOptions
from ascend_sim.ops.schema import TensorSpec


def run(graph: Graph, options: PassOptions) -> bool:
    editor = Editor(graph)
    for node in editor.nodes("PadV3"):
        pads = graph.constants.get(node.inputs[1])
        fill = editor.scalar(node.inputs[2]) if len(node.inputs) > 2 else 0.0
        user, source = editor.only_user(node.outputs[0]), node.outputs[0]
        if pads is None or fill != 0.0 or node.attrs.get("mode", "constant") != "constant" or user is None:
            continue
        pairs = pads.reshape(-1, 2).tolist()
        turn = user if user.type == "TransposeD" and len(user.attrs["perm"]) == len(pairs) else None
        if turn is not None:
            pairs = [pairs[axis] for axis in turn.attrs["perm"]]
            user, source = editor.only_user(turn.outputs[0]), turn.outputs[0]
        if user is None or user.type not in ("Conv2D", "DepthwiseConv2D") or user.inputs[0] != source or pads.size != 8:
            continue
        (_, _), (_, _), (top, bottom), (left, right) = pairs
        if any(pairs[0]) or any(pairs[1]):
            continue
        user.attrs["pads"] = [a + b for a, b in zip(user.attrs["pads"], (top, bottom, left, right), strict=True)]
        user.origin = tuple(dict.fromkeys((*node.origin, *user.origin)))
        if turn is not None:
            before, spec = graph.specs[node.inputs[0]].shape, graph.specs[turn.outputs[0]]
            shape = tuple(before[axis] for axis in turn.attrs["perm"])
            graph.specs[turn.outputs[0]] = TensorSpec(shape, spec.dtype, spec.format)
        editor.bypass(node, node.inputs[0])
    return editor.finish()
