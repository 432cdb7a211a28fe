"""What must hold for the tables and timelines of any run: sums, shares, waits, slices.

Columns and formulas are those of the msprof documentation and of Ascend/msprof's sources; every check computes its
expectation from the events or from another table, by formulas of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean, pvariance
from typing import Any

import pytest

from ascend_sim.profiling import ascend_pt_tables, communication, msprof_tables, msprof_timeline, op_summary
from ascend_sim.profiling.store import EventStore
from ascend_sim.runtime.observe import Event
from ascend_sim.soc import Soc

Table = list[dict[str, str]]
HALF = 0.0005 + 1e-9  # of the last digit
PIPES = {"AIC": "mac scalar mte1 mte2 fixpipe", "AIV": "vec scalar mte2 mte3", "": "vec mac scalar mte1 mte2 mte3"}


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    """Rows by column, as a reader of the file has them."""
    return [dict(zip(header, map(str, row), strict=True)) for row in rows]


def near(found: str, wanted: float, digits: int = 1) -> None:
    """A number with three decimals, made of ``digits`` numbers rounded likewise."""
    assert float(found) == pytest.approx(wanted, abs=HALF * (digits + 1), rel=1e-9)


def grouped(rows: Iterable[Any], key: Callable[[Any], Any]) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return found


def summary(store: EventStore, soc: Soc) -> Table:
    return table(*op_summary.table(store, soc))


def check_op_summary(store: EventStore, soc: Soc) -> None:
    """One row a kernel in order of device and start; waits from the end of the row before, on the same device."""
    rows = summary(store, soc)
    kernels = [e for e in store.events if e.kind in ("kernel", "aicpu")]
    assert len(rows) == len(kernels)
    wanted = sorted((e.device, e.start, e.end) for e in kernels)
    before: dict[str, tuple[float, float]] = {}
    for row, (device, start, end) in zip(rows, wanted, strict=True):
        assert row["Device_id"] == str(device)
        near(row["Task Start Time(us)"], start / 1e6)
        assert row["Task Start Time(us)"].endswith("\t")
        begin, last = float(row["Task Start Time(us)"]), before.get(row["Device_id"])
        wait = 0.0 if last is None else max(0.0, begin - last[0] - last[1])
        near(row["Task Wait Time(us)"], wait, 3)
        before[row["Device_id"]] = begin, float(row["Task Duration(us)"])
        assert end >= start


def check_counters(store: EventStore, soc: Soc) -> None:
    """Ratios are shares of the core's time, the core's time fits into the task, Huawei's formulas between columns."""
    split = soc.chip.split_cores
    cube_cores = soc.cores.ai_core_count
    for row, kernel in zip(summary(store, soc), store.kernels(), strict=True):
        duration = float(row["Task Duration(us)"])
        halves = (("AIC", "aicore_time(us)", "aic_"), ("AIV", "aiv_time(us)", "aiv_")) if split else (
            ("", "aicore_time(us)", ""),)  # fmt: skip
        times = []
        for half, column, prefix in halves:
            core = float(row[column])
            times.append(core)
            assert 0 <= core <= duration + 2 * HALF
            for pipe in PIPES[half].split():
                ratio, us = float(row[f"{prefix}{pipe}_ratio"]), float(row[f"{prefix}{pipe}_time(us)"])
                assert 0 <= ratio <= 1 and 0 <= us <= core + 2 * HALF
                assert us == pytest.approx(core * ratio, abs=HALF * (core + 3))
        timing = kernel.args.get("timing")
        if timing is None:
            assert not any(times)
            continue
        assert any(times)
        cycles = int(row["aic_total_cycles" if split else "total_cycles"])
        if split:
            share = 100 * cycles / (timing.mhz * cube_cores * timing.task_ps / 1e6)
            assert float(row["cube_utilization(%)"]) == pytest.approx(share, abs=0.001)
            assert 0 <= share <= 100.1
            assert [us > 0 for us in times] == [timing.kind in kinds for kinds in (("AIC", "MIX"), ("AIV", "MIX"))]
        else:
            busiest = max(float(row["mac_ratio"]), float(row["vec_ratio"]))
            if busiest > 0.05:  # the columns have three digits
                bound = float(row["mte2_ratio"]) / busiest
                assert float(row["memory_bound"]) == pytest.approx(bound, rel=0.03, abs=0.01)


def check_op_statistic(store: EventStore, soc: Soc) -> None:
    """Every figure of op_statistic is that of the rows of op_summary, the longest type first."""
    groups = grouped(summary(store, soc), lambda r: (r["Device_id"], r["OP Type"], r["Task Type"]))
    found = table(msprof_tables.OP_STATISTIC, msprof_tables.op_statistic(store))
    assert {(r["Device_id"], r["OP Type"], r["Core Type"]) for r in found} == set(groups)
    _shares(found, {k: [float(r["Task Duration(us)"]) for r in rows] for k, rows in groups.items()},
            lambda r: (r["Device_id"], r["OP Type"], r["Core Type"]))  # fmt: skip


def _shares(found: Table, times: dict[Any, list[float]], key: Callable[[dict[str, str]], Any]) -> None:
    assert len(found) == len(times)
    whole: dict[str, float] = defaultdict(float)
    for row in found:
        whole[row["Device_id"]] += sum(times[key(row)])
    for rows in grouped(found, lambda r: r["Device_id"]).values():
        totals = [float(r["Total Time(us)"]) for r in rows]
        assert totals == sorted(totals, reverse=True)
        if sum(totals):
            assert sum(float(r["Ratio(%)"]) for r in rows) == pytest.approx(100, abs=HALF * (len(rows) + 1))
    for row in found:
        mine = times[key(row)]
        assert int(row["Count"]) == len(mine)
        near(row["Total Time(us)"], sum(mine), len(mine))
        near(row["Min Time(us)"], min(mine), 2)
        near(row["Avg Time(us)"], fmean(mine), 2)
        near(row["Max Time(us)"], max(mine), 2)
        if whole[row["Device_id"]]:
            share = 100 * sum(mine) / whole[row["Device_id"]]
            slack = 100 * HALF * (len(mine) + 2) * 2 / whole[row["Device_id"]]
            assert float(row["Ratio(%)"]) == pytest.approx(share, abs=HALF * 2 + slack)


def check_api_statistic(store: EventStore) -> None:
    groups = grouped(store.of_kind("api"), lambda e: e.name)
    found = table(msprof_tables.API_STATISTIC, msprof_tables.api_statistic(store))
    assert {r["API Name"] for r in found} == set(groups)
    for row in found:
        times = [e.duration / 1e6 for e in groups[row["API Name"]]]
        assert int(row["Count"]) == len(times) and row["Device_id"] == "host"
        near(row["Time(us)"], sum(times))
        near(row["Min(us)"], min(times))
        near(row["Avg(us)"], fmean(times))
        near(row["Max(us)"], max(times))
        near(row["Variance"], pvariance(times))


def check_tasks_and_timeline(store: EventStore, soc: Soc) -> None:
    """Slices of the streams are the rows of task_time, its kernels those of op_summary."""
    rows = table(msprof_tables.TASK_TIME, msprof_tables.task_time(store))
    slices = [e for e in msprof_timeline.trace_events(store) if e["ph"] == "X"]
    streams = grouped(slices, lambda e: (e["pid"] >> 5 & 31, e["pid"] & 31, e["tid"]))
    mine = grouped(rows, lambda r: (msprof_timeline.HARDWARE[0], int(r["Device_id"]), int(r["stream_id"])))
    assert {k for k in streams if k[0] == msprof_timeline.HARDWARE[0]} == set(mine)
    for key, wanted in mine.items():
        got = sorted((e["ts"], e["name"], e["dur"]) for e in streams[key])
        assert sorted((r["task_start(us)"].strip(), r["kernel_name"]) for r in wanted) == [g[:2] for g in got]
        assert sum(g[2] for g in got) == pytest.approx(sum(float(r["task_time(us)"]) for r in wanted),
                                                       abs=0.001 * len(got) + 1e-6)  # fmt: skip
        for row in wanted:
            near(row["task_stop(us)"], float(row["task_start(us)"]) + float(row["task_time(us)"]), 3)
    kernels = [(r["Task Start Time(us)"], r["Op Name"], r["Task Duration(us)"]) for r in summary(store, soc)]
    types = {"AI_CORE", "AI_VECTOR_CORE", "MIX_AIC", "AI_CPU"}
    assert sorted(kernels) == sorted(
        (r["task_start(us)"], r["kernel_name"], r["task_time(us)"]) for r in rows if r["kernel_type"] in types
    )


def check_overlap(store: EventStore) -> None:
    """Computing, communication and what of it is exposed, free time: together the span of the device's work."""
    layer = msprof_timeline.OVERLAP[0]
    slices = [e for e in msprof_timeline.trace_events(store) if e["ph"] == "X" and e["pid"] >> 5 & 31 == layer]
    by_device = grouped(slices, lambda e: e["pid"] & 31)
    for device, mine in by_device.items():
        sums = [sum(e["dur"] for e in mine if e["tid"] == row) for row in range(4)]
        kinds = ("kernel", "aicpu", "collective")
        work = [e for e in store.events if e.device == device and e.kind in kinds and e.duration]
        span = (max(e.end for e in work) - min(e.start for e in work)) / 1e6 if work else 0.0
        count = 2 * len(mine) + 2
        assert sums[0] + sums[2] + sums[3] == pytest.approx(span, abs=0.001 * count)
        assert sums[2] <= sums[1] + 0.001 * count
        for row, parts in ((0, ("kernel", "aicpu")), (1, ("collective",))):
            assert sums[row] == pytest.approx(covered(e for e in work if e.kind in parts) / 1e6, abs=0.001 * count)


def covered(events: Iterable[Event]) -> int:
    """Length of the union, by a sweep over all ends."""
    marks = sorted(m for e in events if e.end > e.start for m in ((e.start, 1), (e.end, -1)))
    total, depth, since = 0, 0, 0
    for when, change in sorted(marks, key=lambda m: (m[0], -m[1])):
        if depth == 0:
            since = when
        depth += change
        if depth == 0:
            total += when - since
    return total


def check_step_trace(store: EventStore) -> None:
    """Iterations of a model are counted from 1 in order of time; their times are those of the executions."""
    rows = table(msprof_tables.STEP_TRACE, msprof_tables.step_trace(store))
    models = list(store.of_kind("model"))
    assert len(rows) == len(models)
    total = sum(float(r["Iteration Time(us)"]) for r in rows)
    assert total == pytest.approx(sum(e.duration for e in models) / 1e6, abs=HALF * (len(rows) + 1))
    for (device, model), mine in grouped(rows, lambda r: (r["Device_id"], r["Model ID"])).items():
        assert [int(r["Iteration ID"]) for r in mine] == list(range(1, len(mine) + 1))
        runs = sorted(e.end for e in models if str(e.device) == device and str(e.args["model_id"]) == model)
        for row, end in zip(sorted(mine, key=lambda r: float(r["Iteration End(us)"])), runs, strict=True):
            near(row["Iteration End(us)"], end / 1e6)


def check_framework_tables(store: EventStore, soc: Soc) -> None:
    """kernel_details is op_summary; the parts of a step are the step; device time of operators is that of kernels."""
    header, rows = ascend_pt_tables.kernel_details(store, soc)
    details = table(header, rows)
    for detail, row in zip(details, summary(store, soc), strict=True):
        renamed = {ascend_pt_tables.RENAMED.get(name, name): cell for name, cell in row.items()}
        assert {k: v for k, v in detail.items() if k != "Step Id"} == renamed
    kernels = list(store.kernels())
    for row in table(*ascend_pt_tables.step_trace_time(store)):
        part = {k: float(v) for k, v in row.items() if k not in ("Device_id", "Step")}
        slack = 4 * HALF
        covered_us = part["Computing"] + part["Communication(Not Overlapped)"] + part["Free"]
        assert covered_us == pytest.approx(part["Stage"] + part["Bubble"], abs=2 * slack)
        both = part["Overlapped"] + part["Communication(Not Overlapped)"]
        assert both == pytest.approx(part["Communication"], abs=slack)
        assert part["Communication(Not Overlapped and Exclude Receive)"] <= part["Communication"] + slack
        assert all(v >= 0 for v in part.values())
    if any(store.of_kind("op", "api")):
        ops = table(*ascend_pt_tables.operator_details(store))
        own = sum(float(r["Device Self Duration(us)"]) for r in ops)
        assert own <= sum(k.duration for k in kernels) / 1e6 + HALF * (len(ops) + 1)
        for row in ops:
            assert float(row["Device Self Duration(us)"]) <= float(row["Device Total Duration(us)"]) + HALF
            assert float(row["Device Self Duration With AICore(us)"]) <= float(row["Device Self Duration(us)"]) + HALF
            assert -HALF <= float(row["Host Self Duration(us)"]) <= float(row["Host Total Duration(us)"]) + HALF


def check_communication(store: EventStore) -> None:
    """The statistic, the totals by step and the flat total of analyze/ count the same times and bytes."""
    events = list(store.of_kind("collective"))
    groups = grouped(events, lambda e: (str(e.device), e.name))
    found = table(msprof_tables.COMMUNICATION, msprof_tables.communication_statistic(store))
    _shares(found, {k: [e.duration / 1e6 for e in mine] for k, mine in groups.items()},
            lambda r: (r["Device_id"], r["OP Type"]))  # fmt: skip
    steps = communication.communication(store)
    kinds = [kind for step in steps.values() for kind in step.values()]
    totals = [kind["Total Op Info"] for kind in kinds if "Total Op Info" in kind]
    plain = communication.plain(store)["Total HCCL Operators"]
    for name, wanted in (("Elapse", sum(e.duration for e in events)), ("Wait", sum(e.args["wait"] for e in events))):
        key = f"{name} Time(ms)"
        by_step = sum(t["Communication Time Info"][key] for t in totals)
        assert by_step == pytest.approx(wanted / 1e9) == plain["Communication Time Info"][key]
    for info in (*totals, plain):
        time = info["Communication Time Info"]
        assert time["Elapse Time(ms)"] == pytest.approx(time["Transit Time(ms)"] + time["Wait Time(ms)"])
        assert 0 <= time["Wait Time Ratio"] <= 1
    size = sum(plain["Communication Bandwidth Info"][link]["Transit Size(MB)"] for link in ("RDMA", "HCCS", "PCIE"))
    assert size == pytest.approx(sum(e.args["nbytes"] for e in events) / 1e6)


def check_everything(store: EventStore, soc: Soc) -> None:
    check_op_summary(store, soc)
    check_counters(store, soc)
    check_op_statistic(store, soc)
    check_api_statistic(store)
    check_tasks_and_timeline(store, soc)
    check_overlap(store)
    check_step_trace(store)
    check_framework_tables(store, soc)
    check_communication(store)
