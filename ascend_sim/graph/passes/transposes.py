"""Transposes of networks that came from another layout (tf2onnx writes NHWC graphs that way): pushed down through the
operators behind them until they meet their inverse.

``op(transpose(x))`` is ``transpose(op'(x))`` for elementwise operators, concats, pads and reductions, where ``op'`` has
its constants and axes permuted. The result is kept when transposes move fewer bytes than before. Public fusion list of
the ATC manual: TransposedUpdateFusionPass, TransposeOptimizePass and the like, by effect.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ascend_sim.graph.edit import Editor
from ascend_sim.graph.ir import Graph, Node
from ascend_sim.graph.options import PassOptions
from ascend_sim.graph.passes import cleanup
from ascend_sim.graph.passes._steps import ELEMENTWISE
from ascend_sim.graph.virtual import is_virtual
from ascend_sim.ops.schema import TensorSpec

TURN = "TransposeD"
UNARY = (*ELEMENTWISE, "Cast", "Elu", "Softsign", "Floor", "Ceil", "Round", "Sign", "LogicalNot")
REDUCTIONS = ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd")
_CHANNEL = ("PRelu",)  # its slope runs along axis 1 of any layout: left where it is
MAX_ROUNDS = 64
BLOCK = 16  # 16-bit elements of 32 bytes


def run(graph: Graph, options: PassOptions) -> bool:
    if not any(node.type == TURN for node in graph.nodes):
        return False
    chip = options.soc.chip
    if not chip.split_cores and not chip.has_fixpipe:  # DMA moves whole blocks: a pixel of few classes is less
        _softmax_on_planes(graph)
    trial = _copy(graph)
    for _ in range(MAX_ROUNDS):
        editor = Editor(trial)
        moved = [_sink(editor, node) for node in editor.nodes(TURN) if editor.alive(node)]
        editor.finish()
        cleanup.run(trial, options)
        merged = _merge(trial)
        if not any(moved) and not merged:
            break
    if _bytes(trial) >= _bytes(graph):
        return False
    for name in ("nodes", "inputs", "outputs", "specs", "constants"):
        setattr(graph, name, getattr(trial, name))
    return True


def _softmax_on_planes(graph: Graph) -> None:
    """Softmax over fewer classes than a block holds runs in front of the transpose that brings them together."""
    editor = Editor(graph)
    for node in editor.nodes("SoftmaxV2"):
        turn = editor.maker(node.inputs[0])
        shape = graph.specs[node.outputs[0]].shape
        if turn is None or turn.type != TURN or editor.only_user(node.inputs[0]) is not node or shape[-1] >= BLOCK:
            continue
        perm = list(turn.attrs["perm"])
        axes = [int(a) % len(perm) for a in node.attrs.get("axes", [-1])]
        if len(perm) == 4 and axes == [3] and perm == [0, 2, 3, 1]:
            _replace(editor, node, [turn.inputs[0]], perm, {"axes": [1]})
            editor.remove(turn)
    editor.finish()


def _copy(graph: Graph) -> Graph:
    nodes = [Node(n.name, n.type, list(n.inputs), list(n.outputs), dict(n.attrs), n.origin) for n in graph.nodes]
    return Graph(graph.name, nodes, list(graph.inputs), list(graph.outputs), dict(graph.specs), dict(graph.constants),
                 graph.attrs)  # fmt: skip


def _bytes(graph: Graph) -> int:
    return sum(graph.specs[node.outputs[0]].nbytes for node in graph.nodes if node.type == TURN)


def _merge(graph: Graph) -> bool:
    """Equal transposes of one tensor become one."""
    editor = Editor(graph)
    known: dict[tuple[str, tuple[int, ...]], str] = {}
    found = False
    for node in editor.nodes(TURN):
        key = (node.inputs[0], tuple(node.attrs["perm"]))
        first = known.setdefault(key, node.outputs[0])
        if first != node.outputs[0] and node.outputs[0] not in graph.outputs:
            editor.bypass(node, first)
            found = True
    editor.finish()
    return found


def _sink(editor: Editor, turn: Node) -> bool:
    """Move a transpose behind the operators that read it. Each gets a transpose of its own; equal ones merge later."""
    result, moved = turn.outputs[0], False
    if result in editor.graph.outputs:
        return False
    for user in list(dict.fromkeys(map(id, editor.users.get(result, [])))):
        node = next((n for n in editor.users.get(result, []) if id(n) == user), None)
        if node is not None and len(node.outputs) == 1 and _through(editor, node, result, list(turn.attrs["perm"])):
            moved = True
    if not editor.users.get(result):
        editor.remove(turn)
    return moved


def _through(editor: Editor, node: Node, name: str, perm: Sequence[int]) -> bool:
    graph = editor.graph
    shape = graph.specs[node.outputs[0]].shape
    if node.type in UNARY and node.type not in _CHANNEL and len(shape) == len(perm):
        inputs = _operands(editor, node, perm)
        return inputs is not None and _replace(editor, node, inputs, perm)
    if node.type == "ConcatD" and len(shape) == len(perm):
        inputs = _operands(editor, node, perm)
        if inputs is None or any(n in graph.constants for n in node.inputs):
            return False
        axis = int(node.attrs["concat_dim"]) % len(perm)
        return _replace(editor, node, inputs, perm, {"concat_dim": perm[axis]})
    if node.type == "PadV3" and node.inputs[0] == name and node.inputs[1] in graph.constants:
        pads = graph.constants[node.inputs[1]]
        if pads.size != 2 * len(perm):
            return False
        source = [editor.maker(name).inputs[0]]  # type: ignore[union-attr]
        turned = np.empty_like(pads.reshape(-1, 2))
        turned[list(perm)] = pads.reshape(-1, 2)
        new = editor.add_constant(f"{node.name}/paddings", turned.reshape(pads.shape))
        return _replace(editor, node, [*source, new, *node.inputs[2:]], perm)
    if node.type in REDUCTIONS and node.inputs[0] == name and len(node.inputs) > 1:
        return _reduce(editor, node, name, perm)
    return False


def _operands(editor: Editor, node: Node, perm: Sequence[int]) -> list[str] | None:
    """The inputs of ``node`` in front of the transpose: sources of equal transposes, constants turned back."""
    graph, found = editor.graph, []
    for name in node.inputs:
        maker = editor.maker(name)
        if not name:
            found.append("")
        elif maker is not None and maker.type == TURN and list(maker.attrs["perm"]) == list(perm):
            found.append(maker.inputs[0])
        elif graph.specs[name].size == 1:
            found.append(name)
        elif name in graph.constants:
            value = graph.constants[name]
            if value.ndim > len(perm):
                return None
            full = value.reshape((1,) * (len(perm) - value.ndim) + value.shape)
            back = np.argsort(perm)
            turned = full.transpose(back)
            turned = turned if is_virtual(value) else np.ascontiguousarray(turned)
            found.append(editor.add_constant(f"{name}/turned", turned))
        else:
            return None
    return found


def _replace(
    editor: Editor, node: Node, inputs: list[str], perm: Sequence[int], attrs: dict[str, object] | None = None
) -> bool:
    """``node`` runs on ``inputs``; a transpose makes its old result."""
    graph, target = editor.graph, node.outputs[0]
    spec = graph.specs[target]
    shape = [0] * len(perm)
    for axis, source in enumerate(perm):
        shape[source] = spec.shape[axis]
    _behind(editor, node, inputs, tuple(shape), list(perm))
    node.attrs.update(attrs or {})
    return True


def _behind(editor: Editor, node: Node, inputs: list[str], shape: tuple[int, ...], perm: list[int]) -> None:
    graph, target = editor.graph, node.outputs[0]
    spec = graph.specs[target]
    inner = editor.new_name(f"{target}/turned")
    editor.set_inputs(node, inputs)
    editor.set_output(node, 0, inner)
    graph.specs[inner] = TensorSpec(shape, spec.dtype)
    turn = Node(editor.new_node_name(f"{node.name}/Transpose"), TURN, [inner], [target], {"perm": perm})
    editor.add(turn, [TensorSpec(spec.shape, spec.dtype, spec.format)])


def _reduce(editor: Editor, node: Node, name: str, perm: Sequence[int]) -> bool:
    graph = editor.graph
    axes = editor.constant(node.inputs[1])
    maker = editor.maker(name)
    if axes is None or maker is None:
        return False
    rank = len(perm)
    turned = [perm[int(a) % rank] for a in axes.reshape(-1)]
    new = editor.add_constant(f"{node.name}/axes", np.asarray(sorted(turned), np.int64))
    inputs = [maker.inputs[0], new, *node.inputs[2:]]
    if node.attrs.get("keep_dims"):
        return _replace(editor, node, inputs, perm)
    left = [p for p in perm if p not in turned]  # axes of the source in the order of the old result
    order = sorted(left)
    source = graph.specs[maker.inputs[0]].shape
    if left == order:
        editor.set_inputs(node, inputs)
        return True
    _behind(editor, node, inputs, tuple(source[a] for a in order), [order.index(a) for a in left])
    return True
