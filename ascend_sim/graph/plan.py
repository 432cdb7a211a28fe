"""Memory plan of a compiled graph: where every tensor lives. (`ascend_sim.graph.weights` lays out the constants.)

Intermediate tensors share one work area by liveness (first fit, lowest address); operators that only rename a tensor
(Reshape and the like) alias their input, and the parts of a concat without a task lie in its output. Everything else is
aligned to 512 bytes, as in models made by ATC.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ascend_sim import ops
from ascend_sim.graph.ir import Graph, Node

ALIGN = 512
NO_TASK = "_no_task"  # attribute of operators whose inputs are written where their output lies


def aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGN) * ALIGN


@dataclass(frozen=True)
class Place:
    """``region`` is ``work`` or ``weight`` (``value`` = byte offset), ``input`` or ``output`` (``value`` = index)."""

    region: str
    value: int
    nbytes: int


@dataclass
class MemoryPlan:
    """``places`` has every tensor that a device operator touches; sizes in bytes."""

    places: dict[str, Place] = field(default_factory=dict)
    work_size: int = 0
    weight_size: int = 0


def is_free(node: Node) -> bool:
    """Whether an operator costs no device time: its output is its input, or its inputs were made in place."""
    op = ops.registry.find(node.type)
    return (op is not None and op.host) or bool(node.attrs.get(NO_TASK))


class _Aliases:
    """Tensors that lie in the buffer of another one: renamed ones, and the parts of a concat without a task."""

    def __init__(self, graph: Graph) -> None:
        self.inside: dict[str, tuple[str, int]] = {}  # tensor -> (tensor it lies in, byte offset)
        for node in graph.nodes:
            if not is_free(node) or not node.inputs:
                continue
            if not node.attrs.get(NO_TASK):
                self.inside[node.outputs[0]] = (node.inputs[0], 0)
                continue
            offset = 0
            for name in node.inputs:
                root, at = self(name)
                if root != node.outputs[0]:  # the parts of a longer concat may be joined already
                    self.inside[root] = (node.outputs[0], offset - at)
                offset += graph.specs[name].nbytes

    def __call__(self, name: str) -> tuple[str, int]:
        """(tensor that owns the buffer, byte offset in it)."""
        offset = 0
        while name in self.inside:
            name, at = self.inside[name]
            offset += at
        return name, offset


def plan_memory(graph: Graph, reuse: bool = True) -> MemoryPlan:
    """Place every tensor of a sorted graph. Without ``reuse`` no two intermediate tensors share memory."""
    ops.load(kernels=False)
    plan = MemoryPlan()
    aliases = _Aliases(graph)

    def root(name: str) -> str:
        return aliases(name)[0]

    places: dict[str, Place] = {}
    for index, name in enumerate(graph.inputs):
        places[name] = Place("input", index, graph.specs[name].nbytes)
    for name in constants_in_order(graph):  # offsets follow when the weights are laid out
        places[name] = Place("weight", 0, graph.specs[name].nbytes)
    for index, name in enumerate(graph.outputs):  # an output's buffer is the user's
        if root(name) not in places:
            places[root(name)] = Place("output", index, graph.specs[name].nbytes)
    last = {root(name): position for position, node in enumerate(graph.nodes) for name in node.inputs if name}
    live: list[tuple[int, int, str]] = []  # (offset, size, name), by offset
    for position, node in enumerate(graph.nodes):
        if is_free(node):
            continue
        for name in map(root, node.outputs):
            if name in places:
                continue
            size = aligned(max(graph.specs[name].nbytes, 1))
            offset = _first_fit(live, size)
            live.append((offset, size, name))
            live.sort()
            places[name] = Place("work", offset, graph.specs[name].nbytes)
            plan.work_size = max(plan.work_size, offset + size)
        if reuse:
            live = [item for item in live if last.get(item[2], -1) > position]
    for node in graph.nodes:
        for name in (*node.inputs, *node.outputs):
            owner, offset = aliases(name)
            if not name or owner not in places:
                continue
            place = places[owner]
            if owner != name:
                place = Place(place.region, place.value + offset, graph.specs[name].nbytes)
            plan.places[name] = place
    for name in (*graph.inputs, *graph.outputs):
        plan.places[name] = places[root(name)]
    return plan


def lifetimes(graph: Graph, plan: MemoryPlan) -> list[tuple[str, int, int, int]]:
    """(operator, first, last, bytes) of every buffer in the work area, in order of execution.

    ``operator`` writes the buffer as number ``first`` of the graph's operators with a task; number ``last`` is the last
    that reads it, also under another name.
    """
    ops.load(kernels=False)
    aliases = _Aliases(graph)
    made: dict[str, tuple[str, int]] = {}
    last: dict[str, int] = {}
    number = -1
    for node in graph.nodes:
        if is_free(node):
            continue
        number += 1
        for name in filter(None, node.inputs):
            last[aliases(name)[0]] = number
        for name in filter(None, node.outputs):
            made.setdefault(aliases(name)[0], (node.name, number))
    found = []
    for name, (operator, first) in made.items():
        place = plan.places.get(name)
        if place is not None and place.region == "work":
            found.append((operator, first, max(first, last.get(name, first)), aligned(max(place.nbytes, 1))))
    return found


def constants_in_order(graph: Graph) -> list[str]:
    names = [name for node in graph.nodes for name in node.inputs if name in graph.constants]
    names += [name for name in graph.outputs if name in graph.constants]
    return list(dict.fromkeys(names))


def _first_fit(live: list[tuple[int, int, str]], size: int) -> int:
    cursor = 0
    for offset, length, _ in live:
        if offset - cursor >= size:
            break
        cursor = max(cursor, offset + length)
    return cursor
