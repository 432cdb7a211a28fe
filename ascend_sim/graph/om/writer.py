"""A compiled graph as the bytes of an .om."""

from __future__ import annotations

from ascend_sim import __version__
from ascend_sim.graph.ir import Graph
from ascend_sim.graph.om import container, encode, executable
from ascend_sim.graph.om.inout import write_inout
from ascend_sim.graph.plan import MemoryPlan, aligned, constants_in_order
from ascend_sim.graph.storage import filter_kinds, to_storage
from ascend_sim.soc import Soc


def weights_data(graph: Graph, plan: MemoryPlan, kinds: dict[str, int]) -> bytes:
    """All constants in their storage formats, each blob 512-byte aligned."""
    parts: list[bytes] = []
    for name in constants_in_order(graph):
        spec = graph.specs[name]
        data = to_storage(graph.constants[name], spec, kinds.get(name, 1)).tobytes()
        parts += [data, bytes(aligned(max(len(data), 1)) - len(data))]
    return b"".join(parts)


def write_om(graph: Graph, plan: MemoryPlan, soc: Soc, name: str, command: str = "") -> bytes:
    """Genuine container: I/O description, model, weights, tasks, and the private executable partition last."""
    kinds = filter_kinds(graph)
    body = {
        "soc": soc.name,
        "name": name,
        "weight_size": plan.weight_size,
        "graphs": [executable.dump_graph(graph, plan, kinds)],
    }
    private = executable.pack(body)
    partitions = [
        (container.MODEL_INOUT_INFO, write_inout(encode.in_out(graph))),
        (container.MODEL_DEF, encode.model_def(graph, plan, soc, name, command, __version__)),
        (container.WEIGHTS_DATA, weights_data(graph, plan, kinds)),
        (container.TASK_INFO, encode.task_info(graph, plan)),
    ]
    sizes = [(kind, len(data)) for kind, data in partitions] + [(container.SIM_EXECUTABLE, len(private))]
    header = container.Header(name, om_ir_version=2, platform_version="sim", platform_type=1)
    table = container.pack_table(sizes)
    payload = len(table) + sum(size for _, size in sizes)
    head = b"".join([container.pack_header(header, payload), table, *(data for _, data in partitions)])
    return head + executable.seal(head, private)
