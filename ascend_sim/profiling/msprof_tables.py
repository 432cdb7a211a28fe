"""The smaller tables of msprof: op_statistic, task_time, api_statistic, step_trace, communication_statistic.

Headers and order of columns are those of Ascend/msprof's assemblers (analysis/csrc/application/summary).
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, pvariance
from typing import Any

from ascend_sim.profiling.digits import us, when
from ascend_sim.profiling.op_summary import NOT_A_MODEL, core_type
from ascend_sim.profiling.store import EventStore
from ascend_sim.runtime.observe import Event

OP_STATISTIC = ("Device_id", "OP Type", "Core Type", "Count", "Total Time(us)", "Min Time(us)", "Avg Time(us)",
                "Max Time(us)", "Ratio(%)")  # fmt: skip
TASK_TIME = ("Device_id", "kernel_name", "kernel_type", "stream_id", "task_id", "task_time(us)", "task_start(us)",
             "task_stop(us)")  # fmt: skip
API_STATISTIC = ("Device_id", "Level", "API Name", "Time(us)", "Count", "Avg(us)", "Min(us)", "Max(us)", "Variance")
STEP_TRACE = ("Device_id", "Iteration ID", "FP Start(us)", "BP End(us)", "Iteration End(us)", "Iteration Time(us)",
              "FP to BP Time(us)", "Iteration Refresh(us)", "Data Aug Bound(us)", "Model ID")  # fmt: skip
COMMUNICATION = ("Device_id", "OP Type", "Count", "Total Time(us)", "Min Time(us)", "Avg Time(us)", "Max Time(us)",
                 "Ratio(%)")  # fmt: skip

TASK_KINDS = {"memcpy": "MEMCPY_ASYNC", "memset": "MEMSET_ASYNC", "event": "EVENT_RECORD", "callback": "CALLBACK",
              "collective": "COMMUNICATION", "dvpp": "DVPP"}  # fmt: skip

Rows = list[list[Any]]


def op_statistic(store: EventStore) -> Rows:
    """Time by operator type and kind of core, the largest first within a device."""
    groups: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for event in store.kernels():
        groups[event.device, event.args["op_type"], core_type(event)].append(event.duration)
    return _shares(groups)


def tasks(store: EventStore) -> list[Event]:
    """What the streams executed, by device and start."""
    kinds = {"kernel", "aicpu", *TASK_KINDS}
    picked = [e for e in store.events if e.kind in kinds and e.stream >= 0]
    return sorted(picked, key=lambda e: (e.device, e.start, e.stream, e.task))


def task_type(event: Event) -> str:
    """The kind of a stream's task as msprof spells it."""
    return TASK_KINDS.get(event.kind) or core_type(event)


def shown_name(event: Event) -> str:
    """What a task is called in tables and timelines."""
    return event.name if event.kind in ("kernel", "aicpu", "dvpp") else task_type(event)


def task_time(store: EventStore) -> Rows:
    return [
        [e.device, shown_name(e), task_type(e), e.stream, e.task, us(e.duration), when(e.start),
         when(e.end)]
        for e in tasks(store)
    ]  # fmt: skip


def api_statistic(store: EventStore) -> Rows:
    """Calls of the host by name, the most costly first; the variance is that of the population, in us^2."""
    calls: dict[str, list[int]] = defaultdict(list)
    for event in store.of_kind("api"):
        calls[event.name].append(event.duration)
    rows: Rows = []
    for name, times in sorted(calls.items(), key=lambda item: (-sum(item[1]), item[0])):
        total, least, mean, most = _spread(times)
        variance = pvariance([t / 1e6 for t in times])
        rows.append(["host", "acl", name, total, len(times), mean, least, most, f"{variance:.3f}"])
    return rows


def step_trace(store: EventStore) -> Rows:
    """One iteration per execution of a model. An inference has no forward and backward marks: N/A."""
    rows: Rows = []
    seen: dict[tuple[int, int], int] = defaultdict(int)
    for event in sorted(store.of_kind("model"), key=lambda e: (e.device, e.start, e.stream)):
        model = event.args.get("model_id", NOT_A_MODEL)
        seen[event.device, model] += 1
        rows.append([event.device, seen[event.device, model], "N/A", "N/A", when(event.end), us(event.duration),
                     "N/A", "N/A", "N/A", model])  # fmt: skip
    return rows


def communication_statistic(store: EventStore) -> Rows:
    """Time by collective, the largest first within a device."""
    groups: dict[tuple[int, str], list[int]] = defaultdict(list)
    for event in store.of_kind("collective"):
        groups[event.device, event.name].append(event.duration)
    return _shares(groups)


def _shares(groups: Mapping[tuple[Any, ...], Sequence[int]]) -> Rows:
    """Statistics of groups of times (ps); keys start with the device, the share is that of the device's total."""
    totals: dict[int, int] = defaultdict(int)
    for (device, *_), times in groups.items():
        totals[device] += sum(times)
    ordered = sorted(groups.items(), key=lambda item: (item[0][0], -sum(item[1]), item[0]))
    return [
        [*key, len(times), *_spread(times), f"{100 * sum(times) / (totals[key[0]] or 1):.3f}"] for key, times in ordered
    ]


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with path.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(header)
        writer.writerows(rows)


def _spread(times: Sequence[int]) -> list[str]:
    """Total, least, mean, most."""
    return [us(sum(times)), us(min(times)), us(fmean(times)), us(max(times))]
