"""Chrome trace events that Perfetto loads: host threads, streams, copies and kernels with their counters.

Perfetto counts in whole nanoseconds and drops slices of a thread that overlap without one being inside the other: both
ends are rounded, and what overlaps goes to rows of its own (`lanes`).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ascend_sim.profiling.digits import ns
from ascend_sim.profiling.spans import Span
from ascend_sim.profiling.store import timings
from ascend_sim.runtime.observe import Event

HOST_PID, DEVICE_PID = 1, 100
LANE = 1 << 20  # rows of one thread are numbered this far apart


def write(events: Iterable[Event], path: Path) -> int:
    """Write the timeline; returns the number of slices. Times are microseconds, in whole nanoseconds."""
    rows = list(_trace_events(list(events)))
    path.write_text(json.dumps({"displayTimeUnit": "ns", "traceEvents": rows}))  # dumps: dump is ten times slower
    return sum(r["ph"] == "X" for r in rows)


def _trace_events(events: list[Event]) -> Iterable[dict[str, Any]]:
    rows: dict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in sorted(events, key=lambda e: (e.start, -e.end)):
        if event.kind == "memory":
            yield _memory(event)
        else:
            rows[(HOST_PID, event.thread) if event.stream < 0 else (DEVICE_PID + event.device, event.stream)].append(
                event
            )
    named: set[int] = set()
    for (pid, tid), mine in sorted(rows.items()):
        if pid not in named:
            named.add(pid)
            name = "Host" if pid == HOST_PID else f"NPU {pid - DEVICE_PID}"
            yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
        what = f"Thread {tid}" if pid == HOST_PID else f"Stream {tid}"
        for depth, lane in enumerate(lanes([(ns(e.start), ns(e.end)) for e in mine])):
            row = tid + depth * LANE
            name = f"{what} ({depth + 1})" if depth else what
            yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": row, "args": {"name": name}}
            for index in lane:
                event = mine[index]
                start, end = ns(event.start), ns(event.end)
                yield {
                    "ph": "X", "name": event.name, "cat": event.kind, "pid": pid, "tid": row, "ts": start / 1000,
                    "dur": (end - start) / 1000, "args": _args(event),
                }  # fmt: skip


def lanes(spans: Sequence[Span]) -> list[list[int]]:
    """Indices of ``spans`` (in order of start, the longer first) dealt to as few rows as it takes for those of a row
    to be disjoint or inside each other."""
    rows: list[list[int]] = []
    open_: list[list[int]] = []  # ends of the spans that are open in each row, the outermost first
    for index, (start, end) in enumerate(spans):
        row = 0
        while row < len(rows):
            ends = open_[row]
            while ends and ends[-1] <= start:
                ends.pop()
            if not ends or end <= ends[-1]:
                break
            row += 1
        else:
            rows.append([])
            open_.append([])
        rows[row].append(index)
        open_[row].append(end)
    return rows


def _memory(event: Event) -> dict[str, Any]:
    name = f"memory {event.args.get('component', '')}".strip()
    return {"ph": "C", "name": name, "pid": DEVICE_PID + event.device, "ts": ns(event.start) / 1000,
            "args": {"KiB": event.args.get("allocated", 0) / 1024}}  # fmt: skip


def _args(event: Event) -> dict[str, Any]:
    shown: dict[str, Any] = {"task": event.task} if event.task >= 0 else {}
    for key in ("op_type", "nbytes", "direction", "estimated", "model_id", "ret"):
        if key in event.args:
            shown[key] = event.args[key]
    for i, timing in enumerate(timings(event)):
        prefix = f"kernel {i} " if i else ""
        shown |= {f"{prefix}cycles": timing.cycles, f"{prefix}blocks": timing.blocks, f"{prefix}bound": timing.bound}
        for pipe, busy in timing.busy_ps.items():
            shown[f"{prefix}{pipe} us"] = busy / 1e6
    return shown
