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


def lay_out_sizes(graph: Graph, plan: MemoryPlan) -> None:
    """Places of all constants by their sizes alone; the plan learns the total."""
    offsets: dict[str, int] = {}
    end = 0
    for name in constants_in_order(graph):
        offsets[name] = end
        end += aligned(max(graph.specs[name].nbytes, 1))
    for name, place in plan.places.items():
        if place.region == "weight":
            plan.places[name] = Place("weight", offsets[_constant(graph, name, offsets)], place.nbytes)
    plan.weight_size = end


def places_by_content(graph: Graph, plan: MemoryPlan, weights: memoryview) -> dict[tuple[str, bytes], int]:
    """(format, digest of the storage bytes) -> offset in the weights, of the constants of a loaded graph."""
    known = {}
    for name in constants_in_order(graph):
        place = plan.places[name]
        if place.region == "weight":
            data = weights[place.value : place.value + place.nbytes]
            known[graph.specs[name].format, hashlib.blake2b(data, digest_size=16).digest()] = place.value
    return known


def lay_out_again(graph: Graph, plan: MemoryPlan, known: dict[tuple[str, bytes], int]) -> None:
    """Places of the constants of a graph whose model is in device memory already: those it has (``known``) stay where
    they are, the others (shapes, indices) lie behind the work area, which grows by them."""
    kinds = filter_kinds(graph)
    found: dict[str, Place] = {}
    for name in constants_in_order(graph):
        spec = graph.specs[name]
        data = to_storage(graph.constants[name], spec, kinds.get(name, 1)).tobytes()
        offset = known.get((spec.format, hashlib.blake2b(data, digest_size=16).digest()))
        if offset is not None:
            found[name] = Place("weight", offset, len(data))
        else:
            found[name] = Place("work", plan.work_size, len(data))
            plan.work_size += aligned(max(len(data), 1))
    offsets = dict.fromkeys(found, 0)
    for name, place in plan.places.items():
        if place.region == "weight":
            owner = found[_constant(graph, name, offsets)]
            plan.places[name] = Place(owner.region, owner.value, place.nbytes)


def _constant(graph: Graph, name: str, offsets: dict[str, int]) -> str:
    """The constant behind a tensor that renames one (a Reshape of a weight)."""
    makers = {output: node.inputs[0] for node in graph.nodes for output in node.outputs if node.inputs}
    while name not in offsets:
        name = makers[name]
    return name
