"""The PROF_* tree: file names that msprof-analyze looks for, headers of Ascend/msprof, sums that must agree."""

from __future__ import annotations

import csv
import json
import re
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.profiling import msprof
from ascend_sim.profiling.spans import merged, without
from ascend_sim.profiling.store import EventStore
from ascend_sim.runtime.observe import Event
from ascend_sim.soc import Soc

Recorded = Callable[[str], tuple[EventStore, Soc]]
NOON = datetime(2026, 1, 2, 12, 0, 0, 345000)
CHIPS = ("Ascend910B4", "Ascend310P3")


def table(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / f"{name}_20260102120000.csv").open(newline="") as lines:
        return list(csv.DictReader(lines))


@pytest.fixture(params=CHIPS)
def output(request: pytest.FixtureRequest, recorded: Recorded, tmp_path: Path) -> Path:
    store, soc = recorded(request.param)
    return msprof.write(store, soc, tmp_path, NOON) / "mindstudio_profiler_output"


def test_names_are_those_that_msprof_analyze_looks_for(output: Path) -> None:
    assert re.fullmatch(r"PROF_000001_20260102120000345_[A-Z]{16}", output.parent.name)
    names = {p.name for p in output.iterdir()}
    for pattern in (r"op_summary_\d{14}\.csv", r"msprof_\d{14}\.json", r"op_statistic_\d{14}\.csv",
                    r"task_time_\d{14}\.csv", r"api_statistic_\d{14}\.csv", r"step_trace_\d{14}\.csv"):  # fmt: skip
        assert any(re.fullmatch(pattern, name) for name in names), pattern
    info = json.loads((output.parent / "device_1" / "info.json.1").read_text())
    assert info["DeviceInfo"][0]["ai_core_num"] in (20, 8)


def test_headers_of_the_two_core_families(recorded: Recorded, tmp_path: Path) -> None:
    """From real files: msprof-analyze's kernel_details.csv (910B) and Ascend/mskpp's op_summary (910A)."""
    heads = {}
    for chip in CHIPS:
        store, soc = recorded(chip)
        folder = msprof.write(store, soc, tmp_path / chip, NOON) / "mindstudio_profiler_output"
        heads[chip] = list(table(folder, "op_summary")[0])[21:-2]
    assert heads["Ascend910B4"] == [
        "aicore_time(us)", "aic_total_cycles", "aic_mac_time(us)", "aic_mac_ratio", "aic_scalar_time(us)",
        "aic_scalar_ratio", "aic_mte1_time(us)", "aic_mte1_ratio", "aic_mte2_time(us)", "aic_mte2_ratio",
        "aic_fixpipe_time(us)", "aic_fixpipe_ratio", "aic_icache_miss_rate", "aiv_time(us)", "aiv_total_cycles",
        "aiv_vec_time(us)", "aiv_vec_ratio", "aiv_scalar_time(us)", "aiv_scalar_ratio", "aiv_mte2_time(us)",
        "aiv_mte2_ratio", "aiv_mte3_time(us)", "aiv_mte3_ratio", "aiv_icache_miss_rate", "cube_utilization(%)",
    ]  # fmt: skip
    assert heads["Ascend310P3"] == [
        "aicore_time(us)", "total_cycles", "vec_time(us)", "vec_ratio", "mac_time(us)", "mac_ratio", "scalar_time(us)",
        "scalar_ratio", "mte1_time(us)", "mte1_ratio", "mte2_time(us)", "mte2_ratio", "mte3_time(us)", "mte3_ratio",
        "icache_miss_rate", "memory_bound",
    ]  # fmt: skip


def test_sums_agree_between_tables(output: Path) -> None:
    rows = table(output, "op_summary")
    by_type: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for row in rows:
        by_type[row["Device_id"], row["OP Type"], row["Task Type"]].append(float(row["Task Duration(us)"]))
        assert float(row["aicore_time(us)"]) <= float(row["Task Duration(us)"])
    statistic = {(r["Device_id"], r["OP Type"], r["Core Type"]): r for r in table(output, "op_statistic")}
    assert set(statistic) == set(by_type)
    for key, times in by_type.items():
        assert int(statistic[key]["Count"]) == len(times)
        assert float(statistic[key]["Total Time(us)"]) == pytest.approx(sum(times), abs=0.001 * len(times))
    for device in ("0", "1"):
        assert sum(float(r["Ratio(%)"]) for k, r in statistic.items() if k[0] == device) == pytest.approx(100, abs=0.01)
    assert len(table(output, "task_time")) == len(rows) + 2  # and a copy on each device


def test_waits_and_iterations(output: Path) -> None:
    previous: dict[str, float] = {}
    for row in table(output, "op_summary"):
        assert row["Task Start Time(us)"].endswith("\t")
        start, device = float(row["Task Start Time(us)"]), row["Device_id"]
        wait = max(0.0, start - previous.get(device, start))
        assert float(row["Task Wait Time(us)"]) == pytest.approx(wait, abs=0.0021)
        previous[device] = start + float(row["Task Duration(us)"])
    steps = [(r["Device_id"], r["Model ID"], r["Iteration ID"]) for r in table(output, "step_trace")]
    assert steps == [(d, *rest) for d in "01" for rest in (("1", "1"), ("1", "2"), ("2", "1"))]


@pytest.mark.parametrize(("chip", "column"), [("Ascend910B4", "hbm(KB)"), ("Ascend310P3", "ddr(KB)")])
def test_memory_of_the_process(chip: str, column: str, recorded: Recorded, tmp_path: Path) -> None:
    store, soc = recorded(chip)
    more = EventStore()
    facts = {"component": "APP", "address": 0, "nbytes": 3072, "allocated": 3072}
    more.events = [*store.events, Event("memory", "m", 1, -1, 0, 2_000_000, 2_000_000, 0, facts)]
    folder = msprof.write(more, soc, tmp_path, NOON) / "mindstudio_profiler_output"
    (row,) = table(folder, "npu_mem")
    shown = [row[name] for name in ("Device_id", column, "memory(KB)", "timestamp(us)")]
    assert shown == ["1", "3.000", "3.000", "2.000\t"]
    counters = [e for e in json.loads((folder / "msprof_20260102120000.json").read_text()) if e["ph"] == "C"]
    assert {e["ts"] for e in counters} == {"2.000"}
    shown = {e["name"]: e["args"]["KB"] for e in counters}
    kind = column.partition("(")[0].upper()
    assert shown == {"APP/DDR": 0.0, "APP/HBM": 0.0, "APP/Memory": 3.0} | {f"APP/{kind}": 3.0}


def test_estimates_are_named(output: Path) -> None:
    assert "NonZero" in (output / "README.txt").read_text()


def test_contents_do_not_depend_on_the_clock(recorded: Recorded, tmp_path: Path) -> None:
    store, soc = recorded(CHIPS[0])
    first = msprof.write(store, soc, tmp_path / "a", NOON)
    later = msprof.write(store, soc, tmp_path / "b", datetime(2027, 1, 1))

    def contents(root: Path) -> list[bytes]:
        return [p.read_bytes() for p in sorted(root.rglob("*.*")) if p.is_file()]

    assert contents(first) == contents(later)


# -- timeline ----------------------------------------------------------------------------------------------


def test_slices_nest_and_flows_lead_from_call_to_kernel(output: Path) -> None:
    events: list[dict[str, Any]] = json.loads((output / "msprof_20260102120000.json").read_text())
    lanes: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            assert isinstance(event["ts"], str) and re.fullmatch(r"\d+\.\d{3}", event["ts"])
            start = float(event["ts"])
            lanes[event["pid"], event["tid"]].append((start, start + event["dur"]))
    for spans in lanes.values():
        spans.sort()
        for (_, end), (start, _) in pairwise(spans):
            assert start >= end - 1e-6
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    assert len(starts) == 6 and set(starts) == set(ends)  # one per execution; the copies were enqueued by no call
    assert all(float(starts[i]["ts"]) < float(ends[i]["ts"]) for i in starts)
    processes = {e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert processes == {"CANN", "Ascend Hardware", "Overlap Analysis"}


spans = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 8)).map(lambda p: (p[0], p[0] + p[1])), max_size=12)


def points(parts: list[tuple[int, int]]) -> set[int]:
    return {t for start, end in parts for t in range(start, end)}


@given(spans, spans)
def test_spans_behave_as_sets(some: list[tuple[int, int]], others: list[tuple[int, int]]) -> None:
    union = merged(some)
    assert points(union) == points(some)
    assert all(a[1] < b[0] for a, b in pairwise(union))
    left = without(union, merged(others))
    assert points(left) == points(some) - points(others)
    assert sum(end - start for start, end in left) == len(points(left))
