"""Editing a graph: who makes and who reads a tensor, kept up to date while passes rewrite nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.graph.evaluate import constant_spec
from ascend_sim.graph.ir import Graph, Node
from ascend_sim.ops.schema import TensorSpec


class Editor:
    """An index over ``graph``. All changes of nodes go through it; node order is restored by `finish`."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.producer: dict[str, Node] = {}
        self.users: dict[str, list[Node]] = {}
        self.changed = False
        self._names = {n.name for n in graph.nodes}
        self._serial = 0
        for node in graph.nodes:
            self._index(node)

    def _index(self, node: Node) -> None:
        for name in node.outputs:
            self.producer[name] = node
        for name in node.inputs:
            if name:
                self.users.setdefault(name, []).append(node)

    def nodes(self, *types: str) -> list[Node]:
        """The nodes (of these types) as of now: safe against edits while iterating."""
        return [n for n in self.graph.nodes if not types or n.type in types]

    def alive(self, node: Node) -> bool:
        return any(self.producer.get(name) is node for name in node.outputs)

    def maker(self, name: str) -> Node | None:
        return self.producer.get(name)

    def only_user(self, name: str) -> Node | None:
        """The one node that reads ``name``, if it is read once and is no graph output."""
        users = self.users.get(name, [])
        return users[0] if len(users) == 1 and name not in self.graph.outputs else None

    def constant(self, name: str) -> NDArray[Any] | None:
        return self.graph.constants.get(name)

    def scalar(self, name: str) -> float | None:
        """The value of a constant with one element."""
        value = self.graph.constants.get(name)
        return float(value.reshape(-1)[0]) if value is not None and value.size == 1 else None

    def new_name(self, base: str) -> str:
        """A tensor name that is free."""
        name = base
        while name in self.graph.specs:
            self._serial += 1
            name = f"{base}_{self._serial}"
        return name

    def new_node_name(self, base: str) -> str:
        name = base
        while name in self._names:
            self._serial += 1
            name = f"{base}_{self._serial}"
        self._names.add(name)
        return name

    def add_constant(self, base: str, value: NDArray[Any], fmt: str = "ND") -> str:
        name = self.new_name(base)
        self.graph.constants[name] = value
        self.graph.specs[name] = constant_spec(value, fmt)
        self.changed = True
        return name

    def add(self, node: Node, specs: Iterable[TensorSpec], *, before: Node | None = None) -> Node:
        """Insert a node (order is restored later) whose outputs have ``specs``."""
        for name, spec in zip(node.outputs, specs, strict=True):
            self.graph.specs[name] = spec
        position = self.graph.nodes.index(before) if before is not None else len(self.graph.nodes)
        self.graph.nodes.insert(position, node)
        self._index(node)
        self.changed = True
        return node

    def set_inputs(self, node: Node, inputs: list[str]) -> None:
        for name in node.inputs:
            if name:
                self.users[name].remove(node)
        node.inputs = inputs
        for name in inputs:
            if name:
                self.users.setdefault(name, []).append(node)
        self.changed = True

    def set_output(self, node: Node, index: int, name: str) -> None:
        """Make ``node`` the producer of ``name`` instead of its present output (which must have no users left)."""
        self.producer.pop(node.outputs[index], None)
        node.outputs[index] = name
        self.producer[name] = node
        self.changed = True

    def replace(self, old: str, new: str) -> None:
        """Every reader of ``old`` reads ``new``, graph outputs included."""
        for node in list(self.users.get(old, [])):
            self.set_inputs(node, [new if name == old else name for name in node.inputs])
        self.graph.outputs = [new if name == old else name for name in self.graph.outputs]
        self.changed = True

    def remove(self, node: Node) -> None:
        for name in node.inputs:
            if name:
                self.users[name].remove(node)
        for name in node.outputs:
            if self.producer.get(name) is node:
                del self.producer[name]
        self.graph.nodes.remove(node)
        self.changed = True

    def bypass(self, node: Node, source: str) -> None:
        """Remove a node of one output; its readers read ``source``."""
        target = node.outputs[0]
        self.remove(node)
        self.replace(target, source)

    def absorb(self, keep: Node, drop: Node) -> None:
        """``drop``, the only reader of ``keep``'s output, is merged: ``keep`` produces its output."""
        target = drop.outputs[0]
        self.remove(drop)
        self.set_output(keep, 0, target)
        keep.origin = tuple(dict.fromkeys((*keep.origin, *drop.origin)))

    def finish(self) -> bool:
        """Restore execution order, drop specs and constants nobody uses. Returns whether anything changed."""
        if self.changed:
            sort_nodes(self.graph)
            drop_unused(self.graph)
        return self.changed


def sort_nodes(graph: Graph) -> None:
    """Stable topological order. Raises ValueError on a cycle."""
    known = {*graph.inputs, *graph.constants, ""}
    maker = {name: node for node in graph.nodes for name in node.outputs}
    done: list[Node] = []
    state: dict[int, int] = {}
    for root in graph.nodes:
        stack: list[tuple[Node, int]] = [(root, 0)]
        while stack:
            node, position = stack.pop()
            if state.get(id(node)) == 2:
                continue
            state[id(node)] = 1
            pending = None
            for index in range(position, len(node.inputs)):
                name = node.inputs[index]
                if name in known:
                    continue
                source = maker.get(name)
                if source is None:
                    raise ValueError(f"node {node.name!r} reads tensor {name!r}, which nobody makes")
                if state.get(id(source)) == 1:
                    raise ValueError(f"node {node.name!r} is part of a cycle through tensor {name!r}")
                if state.get(id(source)) != 2:
                    pending = (index, source)
                    break
            if pending is None:
                state[id(node)] = 2
                done.append(node)
            else:
                stack += [(node, pending[0]), (pending[1], 0)]
    graph.nodes = done


def drop_unused(graph: Graph) -> None:
    """Forget specs and constants that no node, input or output names."""
    used = {*graph.inputs, *graph.outputs}
    for node in graph.nodes:
        used.update(node.inputs)
        used.update(node.outputs)
    graph.specs = {name: spec for name, spec in graph.specs.items() if name in used}
    graph.constants = {name: value for name, value in graph.constants.items() if name in used}


def fp32(value: NDArray[Any]) -> NDArray[np.float32]:
    return value.astype(np.float32)
