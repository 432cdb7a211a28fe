"""operator_memory.csv and memory_record.csv from ``memory`` events: who held device memory, when, and the totals.

Columns are those of Ascend/pytorch (torch_npu/profiler/analysis/prof_view/memory). Blocks that live when the profile
ends have no release.
"""

from __future__ import annotations

from typing import Any

from ascend_sim.profiling.digits import when
from ascend_sim.profiling.msprof_tables import Rows
from ascend_sim.profiling.scopes import Scopes
from ascend_sim.profiling.store import EventStore
from ascend_sim.runtime.observe import Event

OPERATOR_MEMORY = (
    "Name", "Size(KB)", "Allocation Time(us)", "Release Time(us)", "Active Release Time(us)", "Duration(us)",
    "Active Duration(us)", "Allocation Total Allocated(MB)", "Allocation Total Reserved(MB)",
    "Allocation Total Active(MB)", "Release Total Allocated(MB)", "Release Total Reserved(MB)",
    "Release Total Active(MB)", "Stream Ptr", "Device Type",
)  # fmt: skip
MEMORY_RECORD = ("Component", "Timestamp(us)", "Total Allocated(MB)", "Total Reserved(MB)", "Total Active(MB)",
                 "Stream Ptr", "Device Type")  # fmt: skip


def changes(store: EventStore) -> list[Event]:
    """Allocations and releases in order of time."""
    return sorted(store.of_kind("memory"), key=lambda e: e.start)


def operator_memory(store: EventStore) -> Rows:
    """One row per allocation of the framework (without one, of the program), named after the operator that asked.

    As in torch_npu, a block that the framework took outside of all operators has no name."""
    framework = any(e.args.get("component", "PTA") == "PTA" for e in store.of_kind("memory"))
    scopes = Scopes(store)
    living: dict[tuple[int, int], tuple[Event, int]] = {}
    rows: Rows = []
    for event in changes(store):
        if framework and event.args.get("component", "PTA") != "PTA":
            continue
        place = event.device, event.args.get("address", 0)
        if event.args["nbytes"] >= 0:
            op = scopes.op_of(event)
            name = scopes.ops[op].name if op >= 0 else "" if framework else event.name
            living[place] = event, len(rows)
            rows.append([name, f"{event.args['nbytes'] / 1024:.3f}", when(event.start), "", "", "", "", *_totals(event),
                         "", "", "", _stream(event), _device(event)])  # fmt: skip
        elif place in living:
            begun, index = living.pop(place)
            held = when(event.start - begun.start)
            rows[index][3:7] = [when(event.start), when(event.start), held, held]
            rows[index][10:13] = _totals(event)
    return rows


def memory_record(store: EventStore) -> Rows:
    """Totals after every change, by component; ``APP`` is all that the process holds on the device."""
    return [
        [e.args.get("component", "PTA"), when(e.start), *_totals(e), _stream(e), _device(e)] for e in changes(store)
    ]


def _totals(event: Event) -> list[Any]:
    allocated = event.args.get("allocated", 0)
    reserved = event.args.get("reserved", allocated)
    return [f"{n / 2**20:.3f}" for n in (allocated, reserved, event.args.get("active", allocated))]


def _stream(event: Event) -> int:
    """The stream that the block belongs to; what no stream asked for belongs to the default one, 0."""
    return int(event.args.get("stream", 0))


def _device(event: Event) -> str:
    return f"NPU:{max(event.device, 0)}"
