"""Layer normalisation written out in elementary operators becomes LayerNormV4.

``d = x - mean(x); y = d / sqrt(mean(d^2) + eps) [* gamma] [+ beta]`` over the last axis. Runs after `scalars`.
"""

from __future__ import annotations

import numpy as np

from ascend_sim.graph.edit import Editor
from ascend_sim.graph.ir import Graph, Node
from ascend_sim.graph.options import PassOptions


def mean_over_last(editor: Editor, node: Node | None, source: str | None = None) -> bool:
    if node is None or node.type != "ReduceMean" or (source is not None and node.inputs[0] != source):
        return False
    axes = editor.constant(node.inputs[1]) if len(node.inputs) > 1 else None
    rank = len(editor.graph.specs[node.inputs[0]].shape)
    return (
        axes is not None
        and [int(a) % rank for a in axes.reshape(-1)] == [rank - 1]
        and bool(node.attrs.get("keep_dims"))
    )


def _maker(editor: Editor, name: str, op_type: str) -> Node | None:
    node = editor.maker(name)
    return node if node is not None and node.type == op_type else None


def _variance_of(editor: Editor, name: str, centred: str) -> tuple[float, list[Node]] | None:
    """(epsilon, nodes) if ``name`` is sqrt(mean(centred^2) + epsilon)."""
    root = _maker(editor, name, "Sqrt")
    add = _maker(editor, root.inputs[0], "Adds") if root is not None else None
    mean = editor.maker(add.inputs[0]) if add is not None else None
    if root is None or add is None or mean is None or not mean_over_last(editor, mean):
        return None
    square = editor.maker(mean.inputs[0])
    if square is None or square.inputs[0] != centred:
        return None
    if square.type == "Square" or (square.type == "Mul" and square.inputs == [centred, centred]):
        return float(add.attrs["value"]), [root, add, mean, square]
    return None


def _row(editor: Editor, node: Node | None, op_type: str, x: str, width: int) -> str:
    """The constant row that ``node`` combines with ``x``, or ""."""
    if node is None or node.type != op_type or x not in node.inputs or len(node.inputs) != 2:
        return ""
    other = node.inputs[1 - node.inputs.index(x)]
    value = editor.constant(other)
    fits = value is not None and value.size == width and value.shape[-1:] == (width,)
    return other if fits else ""


def _match(editor: Editor, node: Node) -> bool:
    centred = node.inputs[0]
    sub = _maker(editor, centred, "Sub")
    if sub is None or not mean_over_last(editor, editor.maker(sub.inputs[1]), sub.inputs[0]):
        return False
    found = _variance_of(editor, node.inputs[1], centred)
    if found is None or set(map(id, editor.users[centred])) != {id(node), id(found[1][-1])}:
        return False
    graph = editor.graph
    x, mean = sub.inputs[0], editor.maker(sub.inputs[1])
    assert mean is not None
    epsilon, parts = found
    dtype, width = graph.specs[x].dtype, graph.specs[x].shape[-1]
    chain, gamma, beta = [node], "", ""
    for op_type in ("Mul", "Add"):
        result = chain[-1].outputs[0]
        user = editor.only_user(result)
        row = _row(editor, user, op_type, result, width)
        if row and user is not None:
            gamma, beta = (row, beta) if op_type == "Mul" else (gamma, row)
            chain.append(user)
    origin = [name for part in (mean, sub, *reversed(parts), *chain) for name in part.origin]
    rows = []
    for name, fill, given in (("gamma", 1.0, gamma), ("beta", 0.0, beta)):
        value = graph.constants[given].reshape(-1) if given else np.full(width, fill, dtype)
        rows.append(editor.add_constant(f"{node.name}/{name}", value))
    dims = editor.add_constant(f"{node.name}/shape", np.asarray([width], np.int64))
    target = chain[-1].outputs[0]
    for part in reversed(chain):
        editor.remove(part)
    for part in [*parts, sub, mean]:
        if not any(editor.users.get(n) for n in part.outputs):
            editor.remove(part)
    name = editor.new_node_name(f"{node.name}/LayerNorm")
    spec = graph.specs[target]
    new = Node(name, "LayerNormV4", [x, dims, *rows], [target], {"epsilon": epsilon}, tuple(dict.fromkeys(origin)))
    editor.add(new, [spec])
    return True


def run(graph: Graph, options: PassOptions) -> bool:
    editor = Editor(graph)
    for node in editor.nodes("RealDiv"):
        if editor.alive(node):
            _match(editor, node)
    return editor.finish()
