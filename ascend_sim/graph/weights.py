"""The weights of compiled graphs as one block of memory, 512-byte aligned; equal constants are stored once."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from ascend_sim.graph.ir import Graph
from ascend_sim.graph.plan import MemoryPlan, Place, aligned, constants_in_order
from ascend_sim.graph.storage import filter_kinds, to_storage


def lay_out(variants: Sequence[tuple[Graph, MemoryPlan]]) -> bytes:
    """Storage bytes of all constants; the plans learn the offsets and the total size."""
    parts: list[bytes] = []
    known: dict[tuple[str, bytes], int] = {}
    end = 0
    for graph, plan in variants:
        kinds = filter_kinds(graph)
        offsets: dict[str, int] = {}
        for name in constants_in_order(graph):
            spec = graph.specs[name]
            data = to_storage(graph.constants[name], spec, kinds.get(name, 1)).tobytes()
            key = (spec.format, hashlib.blake2b(data, digest_size=16).digest())
            if key not in known:
                known[key] = end
                padded = aligned(max(len(data), 1))
                parts += [data, bytes(padded - len(data))]
                end += padded
            offsets[name] = known[key]
        for name, place in plan.places.items():
            if place.region == "weight":
                plan.places[name] = Place("weight", offsets[_constant(graph, name, offsets)], place.nbytes)
    for _, plan in variants:
        plan.weight_size = end
    return b"".join(parts)


def _constant(graph: Graph, name: str, offsets: dict[str, int]) -> str:
    """The constant behind a tensor that renames one (a Reshape of a weight)."""
    makers = {output: node.inputs[0] for node in graph.nodes for output in node.outputs if node.inputs}
    while name not in offsets:
        name = makers[name]
    return name
