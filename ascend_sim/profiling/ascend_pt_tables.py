"""Tables of ``ASCEND_PROFILER_OUTPUT``: kernel_details, operator_details, step_trace_time.

Headers and their order are those of Ascend/pytorch (torch_npu/profiler/analysis/prof_view).
"""

from __future__ import annotations

from collections import defaultdict
from itertools import zip_longest
from typing import Any

from ascend_sim.profiling import op_summary
from ascend_sim.profiling.digits import us
from ascend_sim.profiling.msprof_tables import Rows, tasks
from ascend_sim.profiling.scopes import Scopes, innermost, step_number
from ascend_sim.profiling.spans import length, merged, without
from ascend_sim.profiling.store import EventStore
from ascend_sim.runtime.observe import Event
from ascend_sim.soc import Soc

# columns of op_summary -> those of kernel_details; what is not named here keeps its name
RENAMED = {"Op Name": "Name", "OP Type": "Type", "Task Type": "Accelerator Core",
           "Task Start Time(us)": "Start Time(us)", "Task Duration(us)": "Duration(us)",
           "Task Wait Time(us)": "Wait Time(us)"}  # fmt: skip
OPERATOR_DETAILS = ("Name", "Input Shapes", "Call Stack", "Host Self Duration(us)", "Host Total Duration(us)",
                    "Device Self Duration(us)", "Device Total Duration(us)", "Device Self Duration With AICore(us)",
                    "Device Total Duration With AICore(us)")  # fmt: skip
STEP_TRACE_TIME = ("Device_id", "Step", "Computing", "Communication(Not Overlapped)", "Overlapped", "Communication",
                   "Free", "Stage", "Bubble", "Communication(Not Overlapped and Exclude Receive)",
                   "Preparing")  # fmt: skip
AVERAGED = ("self_us", "total_us", "device_self_us", "device_total_us")
RECEIVES = ("receive", "recv")

Table = tuple[tuple[str, ...], Rows]


def kernel_details(store: EventStore, soc: Soc, metrics: str = op_summary.DEFAULT_METRICS) -> Table:
    """One row per kernel; with the column ``Step Id`` when the framework marked steps."""
    header, rows = op_summary.table(store, soc, metrics)
    names = tuple(RENAMED.get(name, name) for name in header)
    scopes = Scopes(store)
    if not scopes.steps:
        return names, rows
    steps = [scopes.step_of(kernel) for kernel in store.kernels()]
    return ("Step Id", *names), [["" if s is None else s, *row] for s, row in zip(steps, rows, strict=True)]


def operator_details(store: EventStore) -> Table:
    """One row per call of a framework operator; ``Self`` excludes the operators that it called."""
    scopes = Scopes(store)
    own: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for i, kernels in innermost(scopes, store.kernels()).items():
        own[i] = [sum(k.duration for k in kernels), sum(k.duration for k in kernels if k.kind == "kernel")]
    total = {i: list(own[i]) for i in range(len(scopes.ops))}
    for i in reversed(range(len(scopes.ops))):  # children come after their parents
        if (parent := scopes.parent[i]) >= 0:
            total[parent] = [a + b for a, b in zip(total[parent], total[i], strict=True)]
    rows: Rows = []
    for i, op in enumerate(scopes.ops):
        inside = sum(scopes.ops[c].duration for c in scopes.children.get(i, ()))
        rows.append([
            op.name, shapes(op), op.args.get("stack", ""), us(op.duration - inside), us(op.duration),
            us(own[i][0]), us(total[i][0]), us(own[i][1]), us(total[i][1]),
        ])  # fmt: skip
    return OPERATOR_DETAILS, rows


def key_averages(store: EventStore) -> list[dict[str, Any]]:
    """Framework operators by name, times in us, the longest on the device first."""
    found: dict[str, dict[str, Any]] = {}
    for row in operator_details(store)[1]:
        entry = found.setdefault(row[0], {"name": row[0], "count": 0, **dict.fromkeys(AVERAGED, 0.0)})
        entry["count"] += 1
        for key, cell in zip(AVERAGED, row[3:7], strict=True):
            entry[key] += float(cell)
    return sorted(found.values(), key=lambda e: (-e["device_self_us"], -e["total_us"], e["name"]))


def shapes(op: Event) -> str:
    """``2,3;3,4``: shapes of the inputs, nothing for what is not a tensor."""
    return ";".join(",".join(map(str, s)) if s else "" for s in op.args.get("shapes", ()))


def step_trace_time(store: EventStore) -> Table:
    """How the time of each device divides, step by step (one step without a number when none was marked).

    A step lasts from its start on the host, or, where the device is late, from the end of the step before, to the start
    of the next one or the end of its last task. ``Free`` is the part of it with the device idle, ``Preparing`` what
    passes from its start on the host (without steps: from the framework's first operator) to its first task.
    """
    scopes = Scopes(store)
    by_step: dict[tuple[int, int | None], list[Event]] = defaultdict(list)
    for task in tasks(store):
        if task.kind in ("kernel", "aicpu", "collective"):
            by_step[task.device, scopes.step_of(task)].append(task)
    rows: Rows = []
    for device in sorted({d for d, _ in by_step}):
        if not scopes.steps:
            rows.append([device, "", *_whole(scopes, by_step[device, None])])
        end = 0
        for step, following in zip_longest(scopes.steps, scopes.steps[1:]):
            number = step_number(step)
            mine = by_step[device, number]
            begin = min([max(step.start, end), *(t.start for t in mine)])
            end = max([begin, step.end if following is None else following.start, *(t.end for t in mine)])
            rows.append([device, number, *_split(mine, begin, end, step.start)])
    return STEP_TRACE_TIME, rows


def _whole(scopes: Scopes, mine: list[Event]) -> list[Any]:
    begin = min((t.start for t in mine), default=0)
    called = min((op.start for op in scopes.ops), default=begin)
    return _split(mine, begin, max((t.end for t in mine), default=0), min(called, begin))


def _split(mine: list[Event], begin: int, end: int, called: int) -> list[Any]:
    computing = merged((e.start, e.end) for e in mine if e.kind != "collective")
    talking = merged((e.start, e.end) for e in mine if e.kind == "collective")
    sending = merged((e.start, e.end) for e in mine if e.kind == "collective" and not _receives(e))
    bubble = length(merged((e.start, e.end) for e in mine if e.kind == "collective" and _receives(e)))
    exposed = without(talking, computing)
    first = min((t.start for t in mine), default=called)
    free = end - begin - length(merged([*computing, *talking]))
    return [
        us(length(computing)), us(length(exposed)), us(length(talking) - length(exposed)), us(length(talking)),
        us(free), us(end - begin - bubble), us(bubble), us(length(without(sending, computing))),
        us(first - called),
    ]  # fmt: skip


def _receives(event: Event) -> bool:
    return any(word in event.name.lower() for word in RECEIVES)
