"""The *_ascend_pt tree: headers of Ascend/pytorch, operators with the kernels they enqueued, memory, steps."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from ascend_sim.profiling import ascend_pt, communication
from ascend_sim.profiling.ascend_pt_tables import key_averages
from ascend_sim.profiling.store import EventStore
from ascend_sim.runtime.observe import Event
from ascend_sim.soc import Soc

Recorded = Callable[[str], tuple[EventStore, Soc]]
Trained = Callable[[EventStore], EventStore]
NOON = datetime(2026, 1, 2, 12, 0, 0, 345000)
OF_OP_SUMMARY = {"Model ID", "Task ID", "Stream ID", "OP State", "Mix Block Num", "HF32 Eligible", "Context ID",
                 "aicore_time(us)"}  # fmt: skip


@pytest.fixture(params=["Ascend910B4", "Ascend310P3"])
def folder(request: pytest.FixtureRequest, recorded: Recorded, trained: Trained, tmp_path: Path) -> Path:
    store, soc = recorded(request.param)
    return ascend_pt.write(trained(store), soc, tmp_path, worker="host_1", now=NOON, rank=0)


def table(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / "ASCEND_PROFILER_OUTPUT" / name).open(newline="") as lines:
        return list(csv.DictReader(lines))


def test_names_and_headers(folder: Path) -> None:
    assert folder.name == "host_1_20260102120000345_ascend_pt"
    assert {p.name for p in folder.iterdir() if not p.name.startswith("PROF")} == {
        "ASCEND_PROFILER_OUTPUT", "FRAMEWORK", "profiler_info_0.json", "profiler_metadata.json"}  # fmt: skip
    named = [name for name in list(table(folder, "kernel_details.csv")[0])[:23] if name not in OF_OP_SUMMARY]
    assert named == [
        "Step Id", "Device_id", "Name", "Type", "Accelerator Core", "Start Time(us)", "Duration(us)", "Wait Time(us)",
        "Block Num", "Input Shapes", "Input Data Types", "Input Formats", "Output Shapes", "Output Data Types",
        "Output Formats"]  # fmt: skip
    assert list(table(folder, "operator_details.csv")[0]) == [
        "Name", "Input Shapes", "Call Stack", "Host Self Duration(us)", "Host Total Duration(us)",
        "Device Self Duration(us)", "Device Total Duration(us)", "Device Self Duration With AICore(us)",
        "Device Total Duration With AICore(us)"]  # fmt: skip
    assert list(table(folder, "step_trace_time.csv")[0])[:7] == [
        "Device_id",
        "Step",
        "Computing",
        "Communication(Not Overlapped)",
        "Overlapped",
        "Communication",
        "Free",
    ]


def test_device_time_belongs_to_the_innermost_operator(folder: Path, recorded: Recorded) -> None:
    rows = table(folder, "operator_details.csv")
    kernels = table(folder, "kernel_details.csv")
    assert [r["Name"] for r in rows[:2]] == ["aten::linear", "aten::mm"]
    assert rows[0]["Input Shapes"] == "256,128;;128,512"
    for outer, inner in zip(rows[::2], rows[1::2], strict=True):
        assert outer["Device Self Duration(us)"] == "0.000"
        assert outer["Device Total Duration(us)"] == inner["Device Self Duration(us)"] != "0.000"
        assert float(outer["Host Self Duration(us)"]) == pytest.approx(0.0, abs=0.001)
    own = sum(float(r["Device Self Duration(us)"]) for r in rows)
    mine = [float(k["Duration(us)"]) for k in kernels if k["Step Id"]]
    assert own == pytest.approx(sum(mine), abs=0.002 * len(mine))
    assert {k["Step Id"] for k in kernels if k["Device_id"] == "0"} == {"3", "4", "5"}


def test_steps_divide_into_their_parts(folder: Path) -> None:
    rows = [r for r in table(folder, "step_trace_time.csv") if r["Device_id"] == "0"]
    assert [r["Step"] for r in rows] == ["3", "4", "5"]
    for r in rows:
        parts = float(r["Computing"]) + float(r["Communication(Not Overlapped)"]) + float(r["Free"])
        assert parts == pytest.approx(float(r["Stage"]), abs=0.004)
        total = float(r["Overlapped"]) + float(r["Communication(Not Overlapped)"])
        assert total == pytest.approx(float(r["Communication"]), abs=0.002)
    assert float(rows[0]["Communication"]) == 4.0


def test_memory_of_operators(folder: Path) -> None:
    first, second, *_ = table(folder, "operator_memory.csv")
    assert (first["Name"], first["Size(KB)"], first["Device Type"]) == ("aten::mm", "2.000", "NPU:0")
    held = float(first["Release Time(us)"]) - float(first["Allocation Time(us)"])
    assert float(first["Duration(us)"]) == pytest.approx(held, abs=0.002)
    assert first["Release Total Allocated(MB)"] == "0.000" and second["Release Time(us)"] == ""
    assert {r["Component"] for r in table(folder, "memory_record.csv")} == {"PTA"}


def test_communication_adds_up(folder: Path) -> None:
    output = folder / "ASCEND_PROFILER_OUTPUT"
    steps = json.loads((output / "communication.json").read_text())
    assert list(steps) == ["step3", "step"]
    total = steps["step3"]["collective"]["Total Op Info"]
    times, over = total["Communication Time Info"], total["Communication Bandwidth Info"]["HCCS"]
    assert (times["Elapse Time(ms)"], times["Wait Time(ms)"], times["Wait Time Ratio"]) == (0.004, 0.001, 0.25)
    assert over["Bandwidth(GB/s)"] == pytest.approx(10**6 / 3e-6 / 1e9, abs=1e-4)
    pairs = json.loads((output / "communication_matrix.json").read_text())["step3"]["collective"]
    assert [list(p) for p in pairs.values()] == [["0-0", "0-1"]]


def test_ranks_may_be_counted(recorded: Recorded, tmp_path: Path) -> None:
    store, soc = recorded("Ascend910B4")
    more = EventStore()
    more.events = list(store.events)
    facts = {"nbytes": 100, "ranks": 3, "rank": 1}
    more(Event("collective", "hcom_send_", 1, 4, 5, 10, 20, 0, facts))
    output = ascend_pt.write(more, soc, tmp_path, now=NOON) / "ASCEND_PROFILER_OUTPUT"
    pairs = json.loads((output / "communication_matrix.json").read_text())["step"]["p2p"]
    assert [list(p) for p in pairs.values()] == [["1-1", "1-0", "1-2"]]


def test_trace_view_has_operators_flows_and_steps(folder: Path) -> None:
    events = json.loads((folder / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text())
    names = {e["name"] for e in events if e.get("cat") == "cpu_op"}
    assert names == {"aten::linear", "aten::mm", "ProfilerStep#3", "ProfilerStep#4", "ProfilerStep#5"}
    assert all(re.fullmatch(r"\d+\.\d{3}", e["ts"]) for e in events if e["ph"] == "X")
    flows = [e for e in events if e.get("cat") == "async_npu"]
    assert len(flows) == 2 * 4 and {e["ph"] for e in flows} == {"s", "f"}


@pytest.mark.parametrize("options", [{"profiler_level": "Level0"}, {"aic_metrics": "AiCoreNone"}])
def test_levels_without_counters(options: dict[str, str], recorded: Recorded, tmp_path: Path) -> None:
    store, soc = recorded("Ascend910B4")
    folder = ascend_pt.write(store, soc, tmp_path, now=NOON, options=ascend_pt.Options(**options))
    first = table(folder, "kernel_details.csv")[0]
    assert list(first)[-3:] == ["Context ID", "Block Dim", "Mix Block Dim"] and "Step Id" not in first
    assert (folder / "profiler_info.json").is_file()


def test_averages_by_name(recorded: Recorded, trained: Trained) -> None:
    mm, linear = key_averages(trained(recorded("Ascend910B4")[0]))
    assert (mm["name"], linear["name"], mm["count"]) == ("aten::mm", "aten::linear", 3)
    assert mm["device_self_us"] == linear["device_total_us"] and linear["device_self_us"] == 0


def test_communicators_are_numbered_and_listed(folder: Path) -> None:
    """Names after the @ are two polynomial hashes (multipliers 29 and 131) of the communicator's name."""
    assert communication.group_number("ab") == (97 * 29 + 98) << 32 | (97 * 131 + 98)
    groups = json.loads((folder / "profiler_metadata.json").read_text())["parallel_group_info"]
    facts = {"group_name": "default_group", "group_rank": 0, "global_ranks": [0, 1]}
    assert groups == {"hccl_world_group": facts}
    names = json.loads((folder / "ASCEND_PROFILER_OUTPUT" / "communication.json").read_text())["step3"]["collective"]
    number = communication.group_number("hccl_world_group")
    assert next(iter(names)) == f"hcom_allReduce__{number % 1000:03d}_0_1@{number}"


def test_the_msprof_tree_has_the_same_collectives(folder: Path) -> None:
    (analyze,) = folder.glob("PROF_*/analyze")
    flat = json.loads((analyze / "communication.json").read_text())
    steps = json.loads((folder / "ASCEND_PROFILER_OUTPUT" / "communication.json").read_text())
    total = flat.pop("Total HCCL Operators")
    spans = [steps[s]["collective"]["Total Op Info"]["Communication Time Info"]["Elapse Time(ms)"] for s in steps]
    assert total["Communication Time Info"]["Elapse Time(ms)"] == pytest.approx(sum(spans)) and len(flat) == 2
    links = json.loads((analyze / "communication_matrix.json").read_text())
    assert links["Total HCCL Operators"]["0-1"]["Transit Size(MB)"] == 2 and set(links) - set(flat) == {
        "Total HCCL Operators"}  # fmt: skip
    rows = list(csv.DictReader(next(folder.glob("PROF_*/*/communication_statistic_*.csv")).open()))
    assert [(r["Device_id"], r["OP Type"], r["Count"], r["Total Time(us)"]) for r in rows] == [
        ("0", "hcom_allReduce_", "2", "8.000")]  # fmt: skip
