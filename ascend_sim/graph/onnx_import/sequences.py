"""Sequences and optionals inside a graph. Their structure is known at conversion: a sequence is a list of tensors that
the converters pass on, and nothing of it reaches the device."""

from __future__ import annotations

import numpy as np

from ascend_sim.graph.onnx_import.context import Importer, OnnxNode, Table


def _items(imp: Importer, name: str) -> list[str]:
    found = imp.sequences.get(name)
    if found is None:
        raise imp.error(f"its input {name!r} is not a sequence made in this graph", code="E16002")
    return found


def _place(imp: Importer, name: str, room: int, what: str) -> int:
    """A position, counted from the front."""
    value = imp.ints(name, what)[0]
    if not -room <= value < room:
        raise imp.error(f"{what} {value} is out of range for {room} entries")
    return value % room


def empty(imp: Importer, node: OnnxNode) -> None:
    imp.sequences[node.outputs[0]] = []


def construct(imp: Importer, node: OnnxNode) -> None:
    imp.sequences[node.outputs[0]] = [n for n in node.inputs if n]


def insert(imp: Importer, node: OnnxNode) -> None:
    items = list(_items(imp, node.inputs[0]))
    at = imp.ints(node.input(2), "position")[0] if node.input(2) else len(items)
    if not -len(items) <= at <= len(items):
        raise imp.error(f"position {at} is out of range for a sequence of {len(items)}")
    items.insert(at, node.inputs[1])
    imp.sequences[node.outputs[0]] = items


def erase(imp: Importer, node: OnnxNode) -> None:
    items = list(_items(imp, node.inputs[0]))
    del items[_place(imp, node.input(1), len(items), "position") if node.input(1) else -1]
    imp.sequences[node.outputs[0]] = items


def at(imp: Importer, node: OnnxNode) -> None:
    items = _items(imp, node.inputs[0])
    imp.alias(node.outputs[0], items[_place(imp, node.inputs[1], len(items), "position")])


def length(imp: Importer, node: OnnxNode) -> None:
    imp.define(node.outputs[0], np.asarray(len(_items(imp, node.inputs[0])), np.int64))


def concat(imp: Importer, node: OnnxNode) -> None:
    items = _items(imp, node.inputs[0])
    if not items:
        raise imp.error("its sequence is empty")
    new = bool(node.attr("new_axis", 0))
    axis = imp.axis(int(node.attr("axis")), imp.rank(items[0]) + new)
    if new:
        items = [imp.emit("Unsqueeze", [n], {"axes": [axis]})[0] for n in items]
    if len(items) == 1:
        imp.alias(node.outputs[0], items[0])
    else:
        imp.emit("ConcatD", items, {"concat_dim": axis, "N": len(items)}, node.outputs)


def split(imp: Importer, node: OnnxNode) -> None:
    """SplitToSequence: parts of one size (the last may be shorter), of given sizes, or single entries."""
    x = node.inputs[0]
    axis = imp.axis(int(node.attr("axis", 0)), imp.rank(x))
    total = imp.shape(x)[axis]
    keep = bool(node.attr("keepdims", 1)) or bool(node.input(1))
    if node.input(1):
        value = imp.value(node.input(1), "split")
        part = int(value.reshape(-1)[0])
        sizes = [int(v) for v in value] if value.ndim else [min(part, total - s) for s in range(0, total, part)]
    else:
        sizes = [1] * total
    if sum(sizes) != total:
        raise imp.error(f"split {sizes} does not divide axis {axis} of length {total}")
    rank, start, items = imp.rank(x), 0, []
    for size in sizes:
        begin, end = [0] * rank, list(imp.shape(x))
        begin[axis], end[axis] = start, start + size
        start += size
        item = imp.emit("StridedSliceD", [x], {"begin": begin, "end": end, "strides": [1] * rank})[0]
        items.append(item if keep else imp.emit("Squeeze", [item], {"axis": [axis]})[0])
    imp.sequences[node.outputs[0]] = items


def sequence_map(imp: Importer, node: OnnxNode) -> None:
    """SequenceMap: the body once per entry of the first sequence."""
    from ascend_sim.graph.onnx_import import converters
    from ascend_sim.graph.onnx_import.nodes import inline

    body = node.attrs["body"]
    count = len(_items(imp, node.inputs[0]))
    results: list[list[str]] = [[] for _ in node.outputs]
    for step in range(count):
        given = {
            formal.name: imp.sequences[n][step] if n in imp.sequences else n
            for formal, n in zip(body.input, node.inputs, strict=True)
        }
        for result, value in zip(results, inline(imp, converters(), body, f"{node.name}/{step}", given), strict=True):
            result.append(value)
    for target, result in zip(node.outputs, results, strict=True):
        imp.sequences[target] = result


def optional(imp: Importer, node: OnnxNode) -> None:
    """Optional: its content, or an empty one."""
    if node.input(0):
        imp.alias(node.outputs[0], node.inputs[0])
    else:
        imp.empty.add(node.outputs[0])


def has_element(imp: Importer, node: OnnxNode) -> None:
    there = bool(node.input(0)) and node.inputs[0] not in imp.empty
    imp.define(node.outputs[0], np.asarray(there))


def get_element(imp: Importer, node: OnnxNode) -> None:
    if node.inputs[0] in imp.empty:
        raise imp.error("the optional is empty")
    imp.alias(node.outputs[0], node.inputs[0])


TABLE: Table = {
    "SequenceEmpty": empty,
    "SequenceConstruct": construct,
    "SequenceInsert": insert,
    "SequenceErase": erase,
    "SequenceAt": at,
    "SequenceLength": length,
    "ConcatFromSequence": concat,
    "SplitToSequence": split,
    "SequenceMap": sequence_map,
    "Optional": optional,
    "OptionalHasElement": has_element,
    "OptionalGetElement": get_element,
}
