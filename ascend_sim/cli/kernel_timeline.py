"""Instruction timelines of kernels: a chart in text and trace events that Perfetto loads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ascend_sim.engine.result import KernelTiming, Slice
from ascend_sim.engine.simulate import pipe_name
from ascend_sim.engine.trace import KernelTrace
from ascend_sim.isa.instr import Work

WIDTH = 64  # columns of the chart


def chart(timing: KernelTiming) -> str:
    """Block 0, one line per pipe: ``#`` where it is busy all of a column's time, ``-`` partly."""
    slices = timing.slices
    if not slices:
        return ""
    end = max(s.end for s in slices) or 1
    lanes: dict[str, list[Slice]] = {}
    mix = timing.kind == "MIX"
    for s in slices:
        core = f" {s.core}" if mix and s.kind == "AIV" else ""
        lanes.setdefault(pipe_name(s.kind, s.pipe, mix) + core, []).append(s)
    width = max(map(len, lanes))
    cycles = round(end * timing.mhz / 1e6)
    lines = [f"timeline of block 0, {cycles} cycles from left to right"]
    for name, mine in lanes.items():
        lines.append(f"{name.ljust(width)} |{_bar(mine, end)}|")
    return "\n".join(lines)


def _bar(slices: Sequence[Slice], end: int) -> str:
    busy = [0.0] * WIDTH
    step = end / WIDTH
    for s in slices:
        first, last = int(s.start / step), min(int(s.end / step), WIDTH - 1)
        for column in range(first, last + 1):
            busy[column] += max(min(s.end, (column + 1) * step) - max(s.start, column * step), 0) / step
    return "".join("#" if b > 0.9 else "-" if b > 0.02 else " " for b in busy)


def write_perfetto(path: Path, launches: Sequence[tuple[KernelTrace | None, KernelTiming]]) -> None:
    """Trace events of block 0 of every launch: a process per launch and core, a thread per pipe, a slice per
    instruction with its source line. Times in microseconds."""
    rows: list[dict[str, Any]] = []
    offset = 0.0
    for number, (trace, timing) in enumerate(launches):
        if trace is None:
            continue
        threads: set[tuple[int, int]] = set()
        programs = trace.blocks[trace.block_of[0]].programs
        for s in timing.slices:
            pid = number * 100 + s.core
            if (pid, int(s.pipe)) not in threads:
                threads.add((pid, int(s.pipe)))
                rows += _names(pid, f"{trace.name} #{number} {s.kind} core {s.core}", int(s.pipe), s.pipe.name)
            works = programs[s.core % len(programs)].works
            work = works[s.work] if 0 <= s.work < len(works) else None
            rows.append({
                "ph": "X", "pid": pid, "tid": int(s.pipe), "name": _title(work), "ts": offset + s.start / 1e6,
                "dur": (s.end - s.start) / 1e6, "args": _arguments(work, s),
            })  # fmt: skip
        offset += timing.us
    path.write_text(json.dumps({"displayTimeUnit": "ns", "traceEvents": rows}))


def _names(pid: int, process: str, tid: int, thread: str) -> list[dict[str, Any]]:
    return [
        {"ph": "M", "pid": pid, "tid": tid, "name": "process_name", "args": {"name": process}},
        {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": thread}},
    ]


def _title(work: Work | None) -> str:
    from ascend_sim.asc._sanitizer.watch import work_name

    return work_name(work) if work is not None else "wait"


def _arguments(work: Work | None, s: Slice) -> dict[str, Any]:
    fields = dict(work._asdict()) if work is not None else {}
    if s.place is not None:
        fields["source"] = f"{s.place[0]}:{s.place[1]}"
    return fields
