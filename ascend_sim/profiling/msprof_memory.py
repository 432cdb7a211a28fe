"""Tables of memory in msprof's tree: npu_mem, memory_record, operator_memory, static_op_mem.

Headers are those of Ascend/msprof (analysis/msconfig/msprof_export_data_config.py, each with Device_id before it),
facts and special values those of its "profile data file references". The graph engine's blocks are those that models
took; what the program asked for itself is in npu_mem only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from ascend_sim.profiling.digits import us, when
from ascend_sim.profiling.store import EventStore
from ascend_sim.runtime.observe import Event

NPU_MEM = ("Device_id", "event", "ddr(KB)", "hbm(KB)", "memory(KB)", "timestamp(us)")
MEMORY_RECORD = ("Device_id", "Component", "Timestamp(us)", "Total Allocated(KB)", "Total Reserved(KB)", "Device")
OPERATOR_MEMORY = (
    "Device_id", "Name", "Size(KB)", "Allocation Time(us)", "Duration(us)", "Allocation Total Allocated(KB)",
    "Allocation Total Reserved(KB)", "Release Total Allocated(KB)", "Release Total Reserved(KB)", "Device",
)  # fmt: skip
STATIC_OP_MEM = ("Device_id", "Op Name", "Model Name", "Graph ID", "Node Index Start", "Node Index End", "Size(KB)")

ENGINE = "model "  # begins the name of who holds a block of the graph engine
NO_SUBGRAPH = 0  # "Model Name" of what lies in no static subgraph
LIFE_END = 4294967295  # "Node Index End" of what is held to the end of the graph

Rows = list[list[Any]]


def npu_mem(store: EventStore, kind: str) -> Rows:
    """What the program holds on each device after every change; ``kind`` is that of the memory (``HBM``, ...)."""
    return [
        [e.device, "APP", *map(_kb, by_kind(e, kind)), _kb(e.args["allocated"]), when(e.start)]
        for e in process_changes(store)
    ]


def memory_record(store: EventStore) -> Rows:
    """What the graph engine holds on each device after every change. It reserves nothing ahead."""
    return [[e.device, "GE", when(e.start), _kb(held), _kb(held), _npu(e)] for e, held in engine_changes(store)]


def operator_memory(store: EventStore) -> Rows:
    """Every block of the graph engine, from its allocation to its release.

    What was not released has empty cells for it; what was allocated before the profile began has no name and a negative
    size, as in msprof.
    """
    rows: Rows = []
    living: dict[tuple[int, int], tuple[Event, int]] = {}
    for event, held in engine_changes(store):
        place, nbytes, total = (event.device, event.args["address"]), event.args["nbytes"], [_kb(held)] * 2
        if nbytes >= 0:
            living[place] = event, len(rows)
            name = event.name.removeprefix(ENGINE)
            rows.append([event.device, name, _kb(nbytes), when(event.start), "", *total, "", "", _npu(event)])
        elif place in living:
            begun, index = living.pop(place)
            rows[index][4] = us(event.start - begun.start)
            rows[index][7:9] = total
        else:
            rows.append([event.device, "", _kb(nbytes), "", "", "", "", *total, _npu(event)])
    return rows


def static_op_mem(store: EventStore) -> Rows:
    """What the operators of every executed model hold of its work area, in order of execution; then the area as
    ``TOTAL``."""
    rows: Rows = []
    seen: set[tuple[int, int]] = set()
    for event in sorted(store.of_kind("model"), key=lambda e: (e.device, e.start, e.stream)):
        key = event.device, event.args.get("model_id", 0)
        if key in seen or "memory" not in event.args:
            continue
        seen.add(key)
        size, buffers = event.args["memory"]()
        rows += [[event.device, name, NO_SUBGRAPH, key[1], *when, _kb(nbytes)] for name, *when, nbytes in buffers]
        if buffers:
            rows.append([event.device, "TOTAL", NO_SUBGRAPH, key[1], 0, LIFE_END, _kb(size)])
    return rows


def process_changes(store: EventStore) -> list[Event]:
    """Changes of what the program holds, by device and time."""
    held = [e for e in store.of_kind("memory") if e.args.get("component", "APP") == "APP"]
    return sorted(held, key=lambda e: (e.device, e.start))


def by_kind(event: Event, kind: str) -> tuple[int, int]:
    """What is held after a change (B) as (ddr, hbm); ``kind`` is that of the device's memory."""
    held = int(event.args["allocated"])
    return (0, held) if kind == "HBM" else (held, 0)


def engine_changes(store: EventStore) -> Iterator[tuple[Event, int]]:
    """Changes of the graph engine's blocks in order of time, each with what the engine holds after it (B) of what was
    allocated since the profile began."""
    held: dict[int, int] = defaultdict(int)
    known: set[tuple[int, int]] = set()
    for event in sorted(store.of_kind("memory"), key=lambda e: e.start):
        if not event.name.startswith(ENGINE) or event.args.get("component", "APP") != "APP":
            continue
        place = event.device, event.args["address"]
        if event.args["nbytes"] >= 0:
            known.add(place)
        if place in known:
            held[event.device] += event.args["nbytes"]
        if event.args["nbytes"] < 0:
            known.discard(place)
        yield event, held[event.device]


def _npu(event: Event) -> str:
    return f"NPU:{max(event.device, 0)}"


def _kb(nbytes: int) -> str:
    return f"{nbytes / 1024:.3f}"
