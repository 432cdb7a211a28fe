"""Attention written out in matrix products and softmax becomes one operator on chips with separate cube and vector
cores (910B), where it runs without storing the scores.

``softmax(q k^T * scale + mask) v`` with heads as an axis of their own (or folded into the batch). Scales may stand at
q, k or the scores. The mask must only hide keys (0 or very negative, or a selection); else the operators stay.
Transposes that bring heads forward and back again are part of the operator (layout BSND). Runs after `scalars`.
Source: operator page of PromptFlashAttention, restated.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ascend_sim.graph.edit import Editor
from ascend_sim.graph.ir import Graph, Node
from ascend_sim.graph.options import PassOptions
from ascend_sim.ops.schema import TensorSpec

ENDLESS = 2147483647  # tokens before and behind that a query sees
BLOCK = 16  # elements that heads are made of: 32 bytes of 16-bit floats
FLOATS = ("float32", "float16", "bfloat16")
HIDDEN = -1e4  # a constant mask value at or below this hides a key
HEADS_FIRST = [0, 2, 1, 3]  # [B, S, N, D] to [B, N, S, D]
_MODES = ("force_fp16", "allow_mix_precision", "allow_mix_precision_fp16", "allow_mix_precision_bf16")


ADDED, SEEN, UNSEEN = range(3)  # a mask is added to the scores; names the keys that are seen; that are not


@dataclass(frozen=True)
class _Mask:
    name: str
    kind: int


@dataclass
class _Found:
    """``softmax(q k^T scale + mask) v``: tensors, whether k is stored transposed, and the nodes that go."""

    q: str
    k: str
    k_turned: bool
    v: str
    scale: float
    masks: list[_Mask]
    parts: list[Node] = field(default_factory=list)


def _sole(editor: Editor, name: str, *types: str) -> Node | None:
    """The maker of ``name`` if it has one of the types and one reader."""
    node = editor.maker(name)
    return node if node is not None and node.type in types and editor.only_user(name) is not None else None


def _scaled(editor: Editor, name: str, parts: list[Node]) -> tuple[str, float]:
    """(tensor, factor) in front of a multiplication by a number."""
    node = _sole(editor, name, "Muls")
    if node is None:
        return name, 1.0
    parts.append(node)
    return node.inputs[0], float(node.attrs["value"])


def _plain(node: Node | None) -> bool:
    return node is not None and node.type == "BatchMatMulV2" and len(node.inputs) == 2 and not node.attrs.get("adj_x1")


def _match(editor: Editor, softmax: Node) -> _Found | None:
    specs = editor.graph.specs
    rank = len(specs[softmax.inputs[0]].shape)
    axes = [int(a) % rank for a in softmax.attrs.get("axes", [-1])]
    product = editor.only_user(softmax.outputs[0])
    if rank not in (3, 4) or axes != [rank - 1] or product is None or not _plain(product):
        return None
    if product.attrs.get("adj_x2") or product.inputs[0] != softmax.outputs[0]:
        return None
    parts = [product, softmax]
    scores, scale, masks = softmax.inputs[0], 1.0, []
    while (masked := _masked(editor, scores)) is not None:
        node, scores, mask = masked
        parts.append(node)
        masks.append(mask)
    if len(masks) > 1:
        return None
    scores, factor = _scaled(editor, scores, parts)
    scale *= factor
    first = _sole(editor, scores, "BatchMatMulV2")
    if first is None or not _plain(first):
        return None
    parts.append(first)
    q, factor = _scaled(editor, first.inputs[0], parts)
    scale *= factor
    k, factor = _scaled(editor, first.inputs[1], parts)
    scale *= factor
    v = product.inputs[1]
    if any(len(specs[n].shape) != rank or n in editor.graph.constants for n in (q, k, v)):
        return None
    if len({specs[n].shape[:-2] for n in (q, k, v)}) > 1:  # keys that heads or pictures share
        return None
    if specs[q].shape[-1] % BLOCK or specs[v].shape[-1] % BLOCK or specs[q].dtype not in FLOATS:
        return None
    return _Found(q, k, not first.attrs.get("adj_x2"), v, scale, masks, parts)


def _masked(editor: Editor, name: str) -> tuple[Node, str, _Mask] | None:
    """(node, scores, mask) if ``name`` is scores with keys hidden: by a sum, or by a selection."""
    node = _sole(editor, name, "Add", "Select", "SelectV2")
    if node is None:
        return None
    if node.type == "Add":
        for scores, other in (node.inputs, node.inputs[::-1]):
            if other != scores and _hides(editor, other):
                return node, scores, _of_sum(editor, other)
        return None
    seen, yes, no = node.inputs
    for scores, other, kind in ((yes, no, SEEN), (no, yes, UNSEEN)):
        value = editor.scalar(other)
        if value is not None and value <= HIDDEN and _fits(editor, seen) and editor.maker(scores) is not None:
            return node, scores, _Mask(seen, kind)
    return None


def _fits(editor: Editor, name: str) -> bool:
    """Whether a mask is one for all heads."""
    shape = editor.graph.specs[name].shape
    return len(shape) < 3 or (len(shape) == 4 and shape[1] == 1) or (len(shape) == 3 and shape[0] == 1)


def _hides(editor: Editor, name: str) -> bool:
    """Whether a sum with ``name`` only hides keys: it is 0 or very negative."""
    if not _fits(editor, name):
        return False
    value = editor.constant(name)
    if value is not None:
        return bool(np.all(np.less_equal(value, HIDDEN) | (value == 0)))
    node = editor.maker(name)
    if node is not None and node.type == "Muls":  # (1 - mask) * -10000 and the like
        return float(node.attrs["value"]) <= HIDDEN
    return _selected(editor, name) is not None


def _selected(editor: Editor, name: str) -> _Mask | None:
    """The condition of where(seen, 0, very negative) or of its inverse."""
    node = editor.maker(name)
    if node is None or node.type not in ("Select", "SelectV2") or len(node.inputs) != 3:
        return None
    yes, no = editor.scalar(node.inputs[1]), editor.scalar(node.inputs[2])
    if yes is None or no is None:
        return None
    if yes == 0.0 and no <= HIDDEN:
        return _Mask(node.inputs[0], SEEN)
    return _Mask(node.inputs[0], UNSEEN) if no == 0.0 and yes <= HIDDEN else None


def _of_sum(editor: Editor, name: str) -> _Mask:
    return _selected(editor, name) or _Mask(name, ADDED)


class _Builder:
    def __init__(self, editor: Editor) -> None:
        self.editor = editor
        self.graph = editor.graph
        self.masks: dict[tuple[str, tuple[int, ...]], str] = {}

    def turned(self, name: str, perm: list[int]) -> str:
        """``name`` transposed; a transpose in front of it is taken into the new one."""
        maker = self.editor.maker(name)
        if maker is not None and maker.type == "TransposeD":
            perm = [int(maker.attrs["perm"][p]) for p in perm]
            name = maker.inputs[0]
        if perm == list(range(len(perm))):
            return name
        shape = self.graph.specs[name].shape
        new = self.editor.new_name(f"{name}/turned")
        node = Node(self.editor.new_node_name(f"{name}/Transpose"), "TransposeD", [name], [new], {"perm": perm})
        self.editor.add(node, [TensorSpec(tuple(shape[p] for p in perm), self.graph.specs[name].dtype)])
        return new

    def reshaped(self, name: str, shape: tuple[int, ...]) -> str:
        if self.graph.specs[name].shape == shape:
            return name
        new = self.editor.new_name(f"{name}/heads")
        target = self.editor.add_constant(f"{new}/shape", np.asarray(shape, np.int64))
        node = Node(self.editor.new_node_name(f"{name}/Reshape"), "Reshape", [name, target], [new])
        self.editor.add(node, [TensorSpec(shape, self.graph.specs[name].dtype)])
        return new

    def hidden(self, mask: _Mask, queries: int, keys: int) -> str:
        """The boolean mask [B or 1, 1, S, T] of the keys that queries do not see."""
        graph, name = self.graph, mask.name
        value = graph.constants.get(name)
        if value is not None:
            hides = np.less_equal(value, HIDDEN) if mask.kind == ADDED else value.astype(np.bool_) ^ (mask.kind == SEEN)
            shape = (1,) * (4 - value.ndim) + value.shape
            wide = np.broadcast_to(hides.reshape(shape), (shape[0], 1, queries, keys))
            return self.editor.add_constant(f"{name}/hidden", np.ascontiguousarray(wide))
        shape = graph.specs[name].shape
        shape = (1,) * (4 - len(shape)) + shape
        if (name, shape) not in self.masks:
            source = self.reshaped(name, shape)
            if mask.kind == ADDED:
                limit = self.editor.add_constant(f"{name}/limit", np.asarray(HIDDEN / 2, graph.specs[name].dtype))
                source = self._bool(name, "Less", [source, limit], shape)
            elif mask.kind == SEEN:
                source = self._bool(name, "LogicalNot", [source], shape)
            self.masks[name, shape] = source
        return self._broadcast(self.masks[name, shape], (shape[0], 1, queries, keys))

    def _bool(self, name: str, kind: str, inputs: list[str], shape: tuple[int, ...]) -> str:
        new = self.editor.new_name(f"{name}/hidden")
        node = Node(self.editor.new_node_name(f"{name}/{kind}"), kind, inputs, [new])
        self.editor.add(node, [TensorSpec(shape, "bool")])
        return new

    def _broadcast(self, name: str, shape: tuple[int, ...]) -> str:
        key = (name, shape)
        if key not in self.masks:
            spec = self.graph.specs[name]
            source = self.reshaped(name, (1,) * (4 - len(spec.shape)) + spec.shape)
            self.masks[key] = source
            if self.graph.specs[source].shape != shape:
                new = self.editor.new_name(f"{name}/all")
                target = self.editor.add_constant(f"{new}/shape", np.asarray(shape, np.int64))
                node = Node(self.editor.new_node_name(f"{name}/BroadcastTo"), "BroadcastTo", [source, target], [new])
                self.editor.add(node, [TensorSpec(shape, spec.dtype)])
                self.masks[key] = new
        return self.masks[key]

    def build(self, found: _Found) -> None:
        editor, specs = self.editor, self.graph.specs
        product = found.parts[0]
        target = product.outputs[0]
        out = specs[target]
        rank = len(out.shape)
        swap = [*range(rank - 2), rank - 1, rank - 2]
        origin = tuple(dict.fromkeys(name for part in reversed(found.parts) for name in part.origin))
        k = self.turned(found.k, swap) if found.k_turned else found.k
        names = [found.q, k, found.v]
        if rank == 3:  # heads lie in the batch
            names = [self.reshaped(n, (specs[n].shape[0], 1, *specs[n].shape[1:])) for n in names]
        b, n, s, _ = specs[names[0]].shape
        t = specs[names[1]].shape[2]
        hidden = self.hidden(found.masks[0], s, t) if found.masks else ""
        layout, result, last = self._layout(names, product)
        attrs = {
            "num_heads": n, "scale_value": found.scale, "input_layout": layout, "num_key_value_heads": n,
            "pre_tokens": ENDLESS, "next_tokens": ENDLESS, "sparse_mode": 0,
        }  # fmt: skip
        for part in found.parts:
            editor.remove(part)
        if last is not None:
            editor.remove(last)
        shape = (b, s, n, out.shape[-1]) if layout.endswith("BSND") else (b, n, s, out.shape[-1])
        inner = result if rank == 4 else editor.new_name(f"{target}/heads")
        node = Node(editor.new_node_name(f"{product.name}/Attention"), "PromptFlashAttention",
                    [*result_inputs(names, layout, self), "", hidden], [inner], attrs, origin)  # fmt: skip
        while node.inputs and not node.inputs[-1]:
            node.inputs.pop()
        editor.add(node, [TensorSpec(shape, out.dtype)])
        if rank == 3:
            flat = editor.add_constant(f"{inner}/shape", np.asarray(out.shape, np.int64))
            back = Node(editor.new_node_name(f"{product.name}/Reshape"), "Reshape", [inner, flat], [target])
            editor.add(back, [out])

    def _layout(self, names: list[str], product: Node) -> tuple[str, str, Node | None]:
        """(layout, tensor that the operator makes, transpose behind it that goes)."""
        target = product.outputs[0]
        last = self.editor.only_user(target)
        if last is None or last.type != "TransposeD" or list(last.attrs["perm"]) != HEADS_FIRST:
            return "BNSD", target, None
        heads = [_sole_turn(self.editor, name) for name in names]
        layout = "BSND" if all(heads) else "BNSD_BSND"
        return layout, last.outputs[0], last


def _sole_turn(editor: Editor, name: str) -> str:
    """The tensor in front of a transpose that brings heads forward, "" without one."""
    node = editor.maker(name)
    turned = node is not None and node.type == "TransposeD" and list(node.attrs["perm"]) == HEADS_FIRST
    return node.inputs[0] if node is not None and turned else ""


def result_inputs(names: list[str], layout: str, builder: _Builder) -> list[str]:
    """Query, key and value in the layout of the operator."""
    return [_sole_turn(builder.editor, name) for name in names] if layout == "BSND" else names


def run(graph: Graph, options: PassOptions) -> bool:
    if not options.soc.chip.split_cores or options.options.precision_mode not in _MODES:
        return False
    editor = Editor(graph)
    builder = _Builder(editor)
    for softmax in editor.nodes("SoftmaxV2"):
        found = _match(editor, softmax) if editor.alive(softmax) else None
        if found is not None:
            builder.build(found)
    return editor.finish()
