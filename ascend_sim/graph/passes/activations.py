"""Activations written out in elementary operators, recognised: hard-swish, hard-sigmoid, swish, Mish, GELU.

Runs after `scalars`, so constants are Adds and Muls.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ascend_sim.graph.edit import Editor
from ascend_sim.graph.ir import Graph, Node
from ascend_sim.graph.options import PassOptions
from ascend_sim.graph.passes._steps import IMPL_MODE


def _close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-3)


def _only(editor: Editor, name: str, *types: str) -> Node | None:
    """The maker of ``name`` if it has one of the types and nobody else reads it."""
    node = editor.maker(name)
    if node is not None and node.type in types and editor.only_user(name) is not None:
        return node
    return None


def _is_clip(editor: Editor, node: Node, low: float, high: float) -> bool:
    if node.type == "Relu6":
        return (low, high) == (0.0, 6.0)
    if node.type != "ClipByValue" or len(node.inputs) < 3:
        return False
    return editor.scalar(node.inputs[1]) == low and editor.scalar(node.inputs[2]) == high


def _become(editor: Editor, node: Node, op_type: str, source: str, attrs: dict[str, object], parts: list[Node]) -> None:
    """``node`` takes over its operand tree ``parts`` as one operator on ``source``."""
    origin = [name for part in [*parts, node] for name in part.origin]
    node.type, node.attrs = op_type, attrs
    editor.set_inputs(node, [source])
    for part in parts:
        if not any(editor.users.get(n) for n in part.outputs):
            editor.remove(part)
    node.origin = tuple(dict.fromkeys(origin))


def hard_sigmoid(editor: Editor, node: Node) -> bool:
    """clip(x + 3, 0, 6) * (1/6), and clip(x * a + b, 0, 1)."""
    if node.type == "Muls" and _close(node.attrs["value"], 1 / 6):
        clip = _only(editor, node.inputs[0], "Relu6", "ClipByValue")
        add = _only(editor, clip.inputs[0], "Adds") if clip is not None else None
        if clip is None or add is None or not _is_clip(editor, clip, 0.0, 6.0) or add.attrs["value"] != 3.0:
            return False
        _become(editor, node, "HardSigmoid", add.inputs[0], {"alpha": 1 / 6, "beta": 0.5}, [clip, add])
        return True
    if node.type == "ClipByValue" and _is_clip(editor, node, 0.0, 1.0):
        add = _only(editor, node.inputs[0], "Adds")
        mul = _only(editor, add.inputs[0], "Muls") if add is not None else None
        if add is None or mul is None:
            return False
        attrs = {"alpha": mul.attrs["value"], "beta": add.attrs["value"]}
        _become(editor, node, "HardSigmoid", mul.inputs[0], attrs, [add, mul])
        return True
    return False


def hard_swish(editor: Editor, node: Node) -> bool:
    """x * clip(x + 3, 0, 6) / 6 in either order of the division, and x * HardSigmoid(x; 1/6, 1/2)."""
    if node.type == "Muls" and _close(node.attrs["value"], 1 / 6):
        mul = _only(editor, node.inputs[0], "Mul")
        if mul is None:
            return False
        for x, other in (mul.inputs, mul.inputs[::-1]):
            clip = _only(editor, other, "Relu6", "ClipByValue")
            add = _only(editor, clip.inputs[0], "Adds") if clip is not None else None
            if clip is None or add is None or add.inputs[0] != x:
                continue
            if _is_clip(editor, clip, 0.0, 6.0) and add.attrs["value"] == 3.0:
                _become(editor, node, "HardSwish", x, {}, [mul, clip, add])
                return True
        return False
    if node.type == "Mul":
        for x, other in (node.inputs, node.inputs[::-1]):
            gate = _only(editor, other, "HardSigmoid")
            if gate is not None and gate.inputs[0] == x and _close(gate.attrs["alpha"], 1 / 6):
                if gate.attrs["beta"] != 0.5:
                    continue
                _become(editor, node, "HardSwish", x, {}, [gate])
                return True
    return False


def swish(editor: Editor, node: Node) -> bool:
    """x * sigmoid(x)."""
    if node.type != "Mul":
        return False
    for x, other in (node.inputs, node.inputs[::-1]):
        gate = _only(editor, other, "Sigmoid")
        if gate is not None and gate.inputs[0] == x:
            attrs: dict[str, object] = {"scale": 1.0}
            if IMPL_MODE in gate.attrs:
                attrs[IMPL_MODE] = gate.attrs[IMPL_MODE]
            _become(editor, node, "Swish", x, attrs, [gate])
            return True
    return False


def mish(editor: Editor, node: Node) -> bool:
    """x * tanh(softplus(x))."""
    if node.type != "Mul":
        return False
    for x, other in (node.inputs, node.inputs[::-1]):
        tanh = _only(editor, other, "Tanh")
        soft = _only(editor, tanh.inputs[0], "Softplus") if tanh is not None else None
        if tanh is not None and soft is not None and soft.inputs[0] == x:
            _become(editor, node, "Mish", x, {}, [tanh, soft])
            return True
    return False


def gelu(editor: Editor, node: Node) -> bool:
    """0.5 * x * (1 + erf(x / sqrt 2)) in the orders exporters write."""
    if node.type == "Muls" and node.attrs["value"] == 0.5:
        mul = _only(editor, node.inputs[0], "Mul")
        found = _gelu_core(editor, mul.inputs) if mul is not None else None
        if mul is None or found is None:
            return False
        x, parts, scaled = found
        if scaled:
            return False
        _become(editor, node, "GeluV2", x, {"approximate": "none"}, [mul, *parts])
        return True
    if node.type == "Mul":
        found = _gelu_core(editor, node.inputs)
        if found is None or not found[2]:
            return False
        x, parts, _ = found
        _become(editor, node, "GeluV2", x, {"approximate": "none"}, parts)
        return True
    return False


def gelu_tanh(editor: Editor, node: Node) -> bool:
    """0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) in the orders exporters write."""
    if node.type not in ("Mul", "Muls"):
        return False
    half, outer = 1.0, node
    parts: list[Node] = []
    if node.type == "Muls":
        half = float(node.attrs["value"])
        inner = _only(editor, node.inputs[0], "Mul")
        if inner is None:
            return False
        outer = inner
        parts.append(inner)
    for left, right in (outer.inputs, outer.inputs[::-1]):
        add = _only(editor, right, "Adds")
        tanh = _only(editor, add.inputs[0], "Tanh") if add is not None else None
        found = _cubic(editor, tanh.inputs[0]) if tanh is not None else None
        if add is None or tanh is None or found is None or add.attrs["value"] != 1.0:
            continue
        x, cubic = found
        scaled = _only(editor, left, "Muls") if left != x else None
        factor = half * (float(scaled.attrs["value"]) if scaled is not None else 1.0)
        if factor != 0.5 or (scaled.inputs[0] if scaled is not None else left) != x:
            continue
        _become(editor, node, "Gelu", x, {}, [*parts, *([scaled] if scaled is not None else []), add, tanh, *cubic])
        return True
    return False


def _cubic(editor: Editor, name: str) -> tuple[str, list[Node]] | None:
    """(x, nodes) if ``name`` is sqrt(2 / pi) (x + 0.044715 x^3)."""
    scale = _only(editor, name, "Muls")
    add = _only(editor, scale.inputs[0], "Add") if scale is not None else None
    if scale is None or add is None or not _close(scale.attrs["value"], math.sqrt(2 / math.pi)):
        return None
    for x, other in (add.inputs, add.inputs[::-1]):
        small = _only(editor, other, "Muls")
        cube = _only(editor, small.inputs[0], "Pow", "Mul") if small is not None else None
        if small is None or cube is None or not _close(small.attrs["value"], 0.044715):
            continue
        if cube.type == "Pow" and cube.inputs[0] == x and editor.scalar(cube.inputs[1]) == 3.0:
            return x, [scale, add, small, cube]
        for one, two in (cube.inputs, cube.inputs[::-1]) if cube.type == "Mul" else ():
            square = _only(editor, two, "Square", "Mul")
            if one == x and square is not None and set(square.inputs) == {x}:
                return x, [scale, add, small, cube, square]
    return None


def _gelu_core(editor: Editor, inputs: list[str]) -> tuple[str, list[Node], bool] | None:
    """(x, nodes, whether the factor 0.5 is among them) of ``[0.5 *] x * (1 + erf(x / sqrt 2))``."""
    for left, right in (inputs, inputs[::-1]):
        add = _only(editor, right, "Adds")
        if add is None or add.attrs["value"] != 1.0:
            continue
        erf = _only(editor, add.inputs[0], "Erf")
        inner = _only(editor, erf.inputs[0], "Muls") if erf is not None else None
        if erf is None or inner is None or not _close(inner.attrs["value"], math.sqrt(0.5)):
            continue
        x = inner.inputs[0]
        if left == x:
            return x, [add, erf, inner], False
        half = _only(editor, left, "Muls")
        if half is not None and half.attrs["value"] == 0.5 and half.inputs[0] == x:
            return x, [half, add, erf, inner], True
    return None


PATTERNS: tuple[Callable[[Editor, Node], bool], ...] = (
    hard_swish, hard_sigmoid, swish, mish, gelu, gelu_tanh,
)  # fmt: skip


def run(graph: Graph, options: PassOptions) -> bool:
    editor = Editor(graph)
    for node in editor.nodes("Mul", "Muls", "ClipByValue"):
        if editor.alive(node):
            any(pattern(editor, node) for pattern in PATTERNS)
    for node in editor.nodes("Mul"):  # hard-swish written with a hard-sigmoid that was recognised just now
        if editor.alive(node):
            hard_swish(editor, node)
    return editor.finish()
