"""Tables that msprof writes where a switch asks for them: aicpu, l2_cache, msprof_tx; and fusion_op of models.

Headers are those of Ascend/msprof (analysis/msconfig/msprof_export_data_config.py, each with Device_id before it), the
meaning of columns that of its "profile data file references".
"""

from __future__ import annotations

from typing import Any

from ascend_sim.profiling.digits import us, when
from ascend_sim.profiling.store import EventStore, timings

AICPU = ("Device_id", "Timestamp(us)", "Node", "Compute_time(us)", "Memcpy_time(us)", "Task_time(us)",
         "Dispatch_time(us)", "Total_time(us)", "Stream ID", "Task ID")  # fmt: skip
L2_CACHE = ("Device_id", "Stream Id", "Task Id", "Hit Rate", "Victim Rate", "Op Name")
MSPROF_TX = ("Device_id", "pid", "tid", "category", "event_type", "payload_type", "payload_value", "Start_time(us)",
             "End_time(us)", "message_type", "message", "domain", "mark_id")  # fmt: skip
FUSION_OP = ("Device_id", "Model Name", "Model ID", "Fusion Op", "Original Ops", "Memory Input(KB)",
             "Memory Output(KB)", "Memory Weight(KB)", "Memory Workspace(KB)", "Memory Total(KB)")  # fmt: skip

HOST, PID = "host", 1  # as in the timeline: the process's own id would differ from run to run
DOMAIN = "default"

Rows = list[list[Any]]


def aicpu(store: EventStore) -> Rows:
    """Operators on the device's CPUs. The model has their whole time only: nothing is copied or dispatched apart."""
    return [
        [e.device, when(e.start), e.name, us(e.duration), "0.000", us(e.duration), "0.000", us(e.duration),
         e.stream, e.task]
        for e in store.kernels() if e.kind == "aicpu"
    ]  # fmt: skip


def l2_cache(store: EventStore) -> Rows:
    """Shares of a kernel's traffic with global memory: what of it L2 had or took, and what it wrote back for that."""
    rows: Rows = []
    for event in store.kernels():
        for timing in timings(event):
            traffic = timing.gm_read + timing.gm_write
            missed = timing.gm_read - timing.l2_hit
            hit = 1 - missed / traffic if traffic else 0.0
            victims = max(timing.hbm_bytes - missed, 0) / traffic if traffic else 0.0
            rows.append([event.device, event.stream, event.task, f"{hit:.4f}", f"{victims:.4f}", event.name])
    return rows


def msprof_tx(store: EventStore) -> Rows:
    """Marks and ranges that the program set itself (`acl.prof`), in order of their start."""
    marks = [e for e in store.of_kind("host") if e.args.get("mark")]
    return [
        [HOST, PID, e.thread, 0, e.args.get("event", "marker"), 0, 0, when(e.start), when(e.end), 0, e.name, DOMAIN,
         i]
        for i, e in enumerate(sorted(marks, key=lambda e: (e.start, e.thread)))
    ]  # fmt: skip


def fusion_op(store: EventStore) -> Rows:
    """Operators of executed models that stand for several of the source, with what they read, write and keep."""
    rows: Rows = []
    seen: set[int] = set()
    for event in sorted(store.of_kind("model"), key=lambda e: (e.device, e.start, e.stream)):
        model = event.args.get("model_id", 0)
        if model in seen or "fused" not in event.args:
            continue
        seen.add(model)
        for name, originals, *parts in event.args["fused"]():
            sizes = [*parts, 0]  # workspaces belong to launches
            cells = [f"{n / 1024:.3f}" for n in (*sizes, sum(sizes))]
            rows.append([HOST, event.name, model, name, ";".join(originals), *cells])
    return rows
