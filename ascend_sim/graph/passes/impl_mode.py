"""--op_select_implmode: operators that use the faster, less exact sequence of instructions."""

from __future__ import annotations

from ascend_sim.graph.ir import Graph
from ascend_sim.graph.options import PassOptions
from ascend_sim.graph.passes._steps import HIGH_PERFORMANCE, IMPL_MODE

TYPES = ("Sigmoid",)  # operators that have both


def run(graph: Graph, options: PassOptions) -> bool:
    chosen = [
        node for node in graph.nodes
        if node.type in TYPES and not options.options.high_performance.isdisjoint((node.type, "ALL"))
    ]  # fmt: skip
    for node in chosen:
        node.attrs[IMPL_MODE] = HIGH_PERFORMANCE
    return bool(chosen)
