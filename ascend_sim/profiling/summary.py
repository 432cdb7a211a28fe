"""Everything a profiled run leaves behind: ``report.html`` with its data ``events.json``, ``op_table.txt``,
``op_summary.csv``, ``trace.json``, ``summary.json`` and the trees that Huawei's tools read."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from ascend_sim.profiling import ascend_pt, msprof, op_summary, optable, perfetto, report
from ascend_sim.profiling.report_data import report_data
from ascend_sim.profiling.store import EventStore
from ascend_sim.runtime.observe import Event
from ascend_sim.soc import Soc

LAYOUTS = ("msprof", "ascend_pt")


def write_all(store: EventStore, soc: Soc, folder: Path, layouts: Sequence[str] = LAYOUTS[:1]) -> None:
    """Write all files into ``folder`` (made when missing), and the tree of every one of `LAYOUTS` that is asked for:
    one ``PROF_*`` of the whole run, or an ``*_ascend_pt`` per device."""
    write_plain(store, soc, folder)
    if "msprof" in layouts:
        msprof.write(store, soc, folder)
    if "ascend_pt" in layouts:
        now, devices = datetime.now(), store.devices()
        for device in devices:
            rank = device if len(devices) > 1 else -1
            ascend_pt.write(store.of_device(device), soc, folder, worker=f"device_{device}", now=now, rank=rank)


def write_plain(store: EventStore, soc: Soc, folder: Path) -> None:
    """Write the files with fixed names into ``folder`` (made when missing)."""
    folder.mkdir(parents=True, exist_ok=True)
    op_summary.write(store, soc, folder / "op_summary.csv")
    perfetto.write(store.events, folder / "trace.json")
    (folder / "op_table.txt").write_text(optable.render_table(store, soc) + "\n")
    (folder / "summary.json").write_text(json.dumps(summary(store, soc), indent=1) + "\n")
    data = report_data(store, soc)
    (folder / report.EVENTS).write_text(json.dumps(data) + "\n")
    report.write(data, folder / report.REPORT)


def summary(store: EventStore, soc: Soc) -> dict[str, Any]:
    """Chip, device time, and per execution of a model: latency, cycles, bounding pipe and busiest operator types."""
    kernels = store.kernels()
    by_task: dict[tuple[int, int, int], list[Event]] = defaultdict(list)
    for kernel in kernels:
        by_task[kernel.device, kernel.stream, kernel.task].append(kernel)
    models = store.of_kind("model")
    return {
        "soc": soc.name,
        "kernels": len(kernels),
        "device_us": sum(e.duration for e in kernels) / 1e6,
        "estimated": sorted({e.args["op_type"] for e in kernels if e.args.get("estimated")}),
        "models": [_model(run, by_task[run.device, run.stream, run.task]) for run in models],
    }


def _model(run: Event, kernels: list[Event]) -> dict[str, Any]:
    inside = [k for k in kernels if run.start <= k.start <= run.end]
    by_type: dict[str, int] = {}
    busy: dict[str, int] = {}
    cycles = 0
    for kernel in inside:
        by_type[kernel.args["op_type"]] = by_type.get(kernel.args["op_type"], 0) + kernel.duration
        timing = kernel.args.get("timing")
        if timing is not None:
            cycles += timing.cycles
            for pipe, ps in timing.busy_ps.items():
                busy[pipe] = busy.get(pipe, 0) + ps
    total = sum(by_type.values()) or 1
    top = sorted(by_type.items(), key=lambda item: (-item[1], item[0]))
    return {
        "name": run.name,
        "start_us": run.start / 1e6,
        "us": run.duration / 1e6,
        "cycles": cycles,
        "operators": len(inside),
        "bound": max(busy, key=lambda p: (busy[p], p)) if busy else "-",
        "top": [{"type": t, "us": ps / 1e6, "share": ps / total} for t, ps in top],
    }
