"""Compiled graphs as the bytes of an .om."""

from __future__ import annotations

from collections.abc import Sequence

from ascend_sim import __version__
from ascend_sim.graph.ir import Graph
from ascend_sim.graph.om import container, encode, executable
from ascend_sim.graph.om.inout import write_inout
from ascend_sim.graph.plan import MemoryPlan
from ascend_sim.graph.storage import filter_kinds
from ascend_sim.graph.weights import lay_out
from ascend_sim.soc import Soc


def write_om(
    variants: Sequence[tuple[Graph, MemoryPlan]],
    soc: Soc,
    name: str,
    command: str = "",
    batches: tuple[int, ...] = (),
) -> bytes:
    """Genuine container: I/O description, model, weights, tasks, and the private executable partition last.

    ``variants`` holds one compiled graph, or one per batch size of ``batches`` in ascending order.
    """
    weights = lay_out(variants)
    body = {
        "soc": soc.name,
        "name": name,
        "weight_size": len(weights),
        "graphs": [executable.dump_graph(graph, plan, filter_kinds(graph)) for graph, plan in variants],
    }
    private = executable.pack(body)
    partitions = [
        (container.MODEL_INOUT_INFO, write_inout(encode.in_out([graph for graph, _ in variants], batches))),
        (container.MODEL_DEF, encode.model_def(variants, soc, name, command, __version__)),
        (container.WEIGHTS_DATA, weights),
        (container.TASK_INFO, encode.task_info(*variants[-1])),
    ]
    sizes = [(kind, len(data)) for kind, data in partitions] + [(container.SIM_EXECUTABLE, len(private))]
    header = container.Header(name, om_ir_version=2, platform_version="sim", platform_type=1)
    table = container.pack_table(sizes)
    payload = len(table) + sum(size for _, size in sizes)
    head = b"".join([container.pack_header(header, payload), table, *(data for _, data in partitions)])
    return head + executable.seal(head, private)
