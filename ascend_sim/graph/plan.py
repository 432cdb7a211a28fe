"""Memory plan of a compiled graph: where every tensor lives. (`ascend_sim.graph.weights` lays out the constants.)

Intermediate tensors share one work area by liveness (first fit, lowest address); operators that only rename a tensor
(Reshape and the like) alias their input. Everything is aligned to 512 bytes, as in models made by ATC.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ascend_sim import ops
from ascend_sim.graph.ir import Graph

ALIGN = 512


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


def is_free(op_type: str) -> bool:
    """Whether an operator costs no device time and its output is its input."""
    op = ops.registry.find(op_type)
    return op is not None and op.host


def _roots(graph: Graph) -> dict[str, str]:
    """Tensor -> tensor whose buffer it shares."""
    roots: dict[str, str] = {}
    for node in graph.nodes:
        if is_free(node.type) and node.inputs:
            source = node.inputs[0]
            roots[node.outputs[0]] = roots.get(source, source)
    return roots


def plan_memory(graph: Graph) -> MemoryPlan:
    """Place every tensor of a sorted graph."""
    ops.load(kernels=False)
    plan = MemoryPlan()
    roots = _roots(graph)

    def root(name: str) -> str:
        return roots.get(name, name)

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
        if is_free(node.type):
            continue
        for name in node.outputs:
            if root(name) in places:
                continue
            size = aligned(max(graph.specs[name].nbytes, 1))
            offset = _first_fit(live, size)
            live.append((offset, size, name))
            live.sort()
            places[name] = Place("work", offset, graph.specs[name].nbytes)
            plan.work_size = max(plan.work_size, offset + size)
        live = [item for item in live if last.get(item[2], -1) > position]
    for node in graph.nodes:
        for name in (*node.inputs, *node.outputs):
            if name and root(name) in places:
                plan.places[name] = places[root(name)]
    for name in (*graph.inputs, *graph.outputs):
        plan.places[name] = places[root(name)]
    return plan


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
