"""Root-mean-square normalisation written out in elementary operators becomes RmsNorm.

``y = x / sqrt(mean(x^2) + eps) * gamma`` over the last axis; the division may be a Reciprocal or Rsqrt and a Mul. On
chips with separate cube and vector cores (910B) a sum in front of it (the residual stream of a transformer, which is
read again later) becomes part of it: AddRmsNorm. Runs after `scalars`.
"""

from __future__ import annotations

from ascend_sim.graph.edit import Editor
from ascend_sim.graph.ir import Graph, Node
from ascend_sim.graph.options import PassOptions
from ascend_sim.graph.passes.layer_norm import mean_over_last
from ascend_sim.ops.schema import TensorSpec

_KEPT = ("float32", "float16", "bfloat16")


def _power(editor: Editor, name: str) -> tuple[str, float, list[Node]] | None:
    """(x, epsilon, nodes) if ``name`` is mean(x^2) + epsilon over the last axis."""
    add = editor.maker(name)
    if add is None or add.type != "Adds":
        return None
    mean = editor.maker(add.inputs[0])
    if not mean_over_last(editor, mean) or mean is None:
        return None
    square = editor.maker(mean.inputs[0])
    if square is None:
        return None
    x = square.inputs[0]
    if square.type == "Square" or (square.type == "Mul" and square.inputs == [x, x]):
        return x, float(add.attrs["value"]), [add, mean, square]
    return None


def _normalised(editor: Editor, node: Node) -> tuple[str, float, list[Node]] | None:
    """(x, epsilon, nodes in front of ``node``) if ``node`` makes x / sqrt(mean(x^2) + epsilon)."""
    if node.type == "RealDiv":
        root = editor.maker(node.inputs[1])
        found = _power(editor, root.inputs[0]) if root is not None and root.type == "Sqrt" else None
        return (found[0], found[1], [root, *found[2]]) if root and found and found[0] == node.inputs[0] else None
    for x, other in (node.inputs, node.inputs[::-1]):
        inverse = editor.maker(other)
        parts: list[Node] = []
        if inverse is not None and inverse.type == "Reciprocal":
            parts, inverse = [inverse], editor.maker(inverse.inputs[0])
            if inverse is None or inverse.type != "Sqrt":
                continue
        elif inverse is None or inverse.type != "Rsqrt":
            continue
        found = _power(editor, inverse.inputs[0])
        if found is not None and found[0] == x:
            return x, found[1], [*parts, inverse, *found[2]]
    return None


def _match(editor: Editor, node: Node) -> bool:
    found = _normalised(editor, node)
    scale = editor.only_user(node.outputs[0])
    if found is None or scale is None or scale.type != "Mul":
        return False
    x, epsilon, parts = found
    gamma = scale.inputs[1 - scale.inputs.index(node.outputs[0])]
    value = editor.constant(gamma)
    width = editor.graph.specs[x].shape[-1]
    if value is None or value.size != width or value.shape[-1:] != (width,):
        return False
    if editor.graph.specs[x].dtype not in _KEPT:
        return False
    row = editor.add_constant(f"{node.name}/gamma", value.reshape(-1))
    origin = tuple(dict.fromkeys(name for part in (*reversed(parts), node, scale) for name in part.origin))
    target, spec = scale.outputs[0], editor.graph.specs[scale.outputs[0]]
    editor.remove(scale)
    editor.remove(node)
    for part in parts:
        if not any(editor.users.get(n) for n in part.outputs):
            editor.remove(part)
    name = editor.new_node_name(f"{node.name}/RmsNorm")
    editor.add(Node(name, "RmsNorm", [x, row], [target], {"epsilon": epsilon}, origin), [spec])
    return True


def _with_sum(editor: Editor, node: Node) -> None:
    """RmsNorm of a sum becomes AddRmsNorm, which also gives the sum."""
    graph = editor.graph
    total = node.inputs[0]
    add = editor.maker(total)
    if add is None or add.type != "Add" or add.attrs:
        return
    shape = graph.specs[total].shape
    if any(graph.specs[n].shape != shape or n in graph.constants for n in add.inputs):
        return
    result, spec = node.outputs[0], graph.specs[node.outputs[0]]
    deviation = editor.new_name(f"{node.name}/rstd")
    origin = tuple(dict.fromkeys((*add.origin, *node.origin)))
    summed = graph.specs[total]
    editor.remove(node)
    editor.remove(add)
    made = Node(editor.new_node_name(f"{node.name}/Add"), "AddRmsNorm", [*add.inputs, node.inputs[1]],
                [result, deviation, total], dict(node.attrs), origin)  # fmt: skip
    rows = TensorSpec((*shape[:-1], 1), "float32")
    editor.add(made, [spec, rows, summed])


def run(graph: Graph, options: PassOptions) -> bool:
    editor = Editor(graph)
    for node in editor.nodes("RealDiv", "Mul"):
        if editor.alive(node) and len(node.inputs) == 2:
            _match(editor, node)
    if options.soc.chip.split_cores:
        for node in editor.nodes("RmsNorm"):
            _with_sum(editor, node)
    return editor.finish()
