"""Compiled graphs as the bytes of an .om."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ascend_sim import __version__
from ascend_sim.graph.ir import Graph
from ascend_sim.graph.om import container, encode, executable
from ascend_sim.graph.om.inout import InOut, write_inout
from ascend_sim.graph.plan import MemoryPlan
from ascend_sim.graph.storage import filter_kinds
from ascend_sim.graph.weights import lay_out
from ascend_sim.soc import Soc


@dataclass(frozen=True)
class Source:
    """What a model of open shapes is compiled from when a shape comes: ONNX bytes and the options of the conversion
    (JSON values), with its ports as they are described."""

    model: bytes
    options: dict[str, Any]
    in_out: InOut


def write_om(
    variants: Sequence[tuple[Graph, MemoryPlan]],
    soc: Soc,
    name: str,
    command: str = "",
    kind: str = "",
    gears: Sequence[tuple[int, ...]] = (),
    order: Sequence[str] = (),
    source: Source | None = None,
    short: bool = False,
) -> bytes:
    """Genuine container: I/O description, model, weights, tasks, and the private executable partition last.

    ``variants`` holds one compiled graph, or one per gear in their order; ``kind`` and ``gears`` are those of
    `ascend_sim.graph.dynamic`, ``order`` the inputs as --input_shape names them. A model of open shapes has one example
    graph and its ``source``. ``short`` writes short attribute names.
    """
    weights = lay_out(variants)
    graphs = [graph for graph, _ in variants]
    in_out = encode.in_out(graphs, kind, gears, order) if source is None else source.in_out
    body = {
        "soc": soc.name,
        "name": name,
        "kind": kind,
        "weight_size": len(weights),
        "graphs": [executable.dump_graph(graph, plan, filter_kinds(graph)) for graph, plan in variants],
    }
    partitions = [
        (container.MODEL_INOUT_INFO, write_inout(in_out)),
        (container.MODEL_DEF, encode.model_def(variants, soc, name, command, __version__, short)),
        (container.WEIGHTS_DATA, weights),
        (container.TASK_INFO, encode.task_info(*variants[encode.largest(graphs)])),
    ]
    if source is not None:
        body["options"] = source.options
        partitions.append((container.SIM_SOURCE, zlib.compress(source.model, 1)))
    private = executable.pack(body)
    sizes = [(part, len(data)) for part, data in partitions] + [(container.SIM_EXECUTABLE, len(private))]
    header = container.Header(
        name, platform_version=container.OURS, platform_type=1, is_unknown_model=int(source is not None)
    )
    table = container.pack_table(sizes)
    payload = len(table) + sum(size for _, size in sizes)
    head = b"".join([container.pack_header(header, payload), table, *(data for _, data in partitions)])
    return head + executable.seal(head, private)
