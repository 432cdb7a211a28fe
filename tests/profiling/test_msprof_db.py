"""``msprof_*.db`` read back with SQL: the figures of the tables, in whole nanoseconds, by the documented joins."""

from __future__ import annotations

import csv
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from ascend_sim.profiling import msprof, msprof_db
from ascend_sim.profiling.store import EventStore
from ascend_sim.runtime.observe import Event
from ascend_sim.soc import Soc

Recorded = Callable[[str], tuple[EventStore, Soc]]
NOON = datetime(2026, 1, 2, 12)
US = 10**6


def more(store: EventStore) -> EventStore:
    """The run with a collective, a mark and blocks of a model and of the program."""
    found = EventStore()
    found.events = list(store.events)
    end = max(e.end for e in store.events)
    ring = {"nbytes": 3 * US, "wait": US, "link": "PCIE", "ranks": (0, 1), "rank": 1, "queued": end, "group": "ring"}
    found(Event("collective", "hcom_allReduce_", 1, 5, 77, end, end + 4 * US, 0, ring))
    found(Event("host", "phase", -1, -1, 0, US, 3 * US, 2, {"mark": True, "event": "push/pop"}))
    for name, nbytes, held in (("model m", 4096, 4096), ("acl.rt.malloc", 1024, 5120), ("model m", -4096, 1024)):
        facts = {"component": "APP", "address": 512 * (name[0] == "a"), "nbytes": nbytes, "allocated": held}
        found(Event("memory", name, 0, -1, 0, 2 * US, 2 * US, 0, facts))
    return found


@pytest.fixture(params=["Ascend910B4", "Ascend310P3"])
def base(request: pytest.FixtureRequest, recorded: Recorded, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    store, soc = recorded(request.param)
    store = more(store)
    root = msprof.write(store, soc, tmp_path, NOON, msprof.Contents(database=True))
    assert {p.name for p in root.iterdir()} == {"msprof_20260102120000.db", "device_0", "device_1"}
    texts = msprof.write(store, soc, tmp_path / "texts", NOON)
    texts.rename(tmp_path / "PROF")
    with closing(sqlite3.connect(root / "msprof_20260102120000.db")) as opened:
        yield opened


def table(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / "PROF" / msprof.OUTPUT / f"{name}_20260102120000.csv").open(newline="") as lines:
        return list(csv.DictReader(lines))


def ask(base: sqlite3.Connection, query: str) -> list[tuple[Any, ...]]:
    return base.execute(query).fetchall()


def text(column: str) -> str:
    return f"(SELECT value FROM STRING_IDS WHERE id = {column})"


def test_tables_have_the_documented_columns(base: sqlite3.Connection) -> None:
    """Names of a few of them as the database reference of Ascend/msprof lists them; enumerations as it numbers them."""
    columns = {name: [row[1] for row in ask(base, f"PRAGMA table_info({name})")] for name in msprof_db.TABLES}
    assert columns["TASK"] == ["startNs", "endNs", "deviceId", "connectionId", "globalTaskId", "globalPid", "taskType",
                               "contextId", "streamId", "taskId", "modelId"]  # fmt: skip
    assert columns["CANN_API"] == ["startNs", "endNs", "type", "globalTid", "connectionId", "name"]
    assert columns["NPU_MEM"] == ["type", "ddr", "hbm", "timestampNs", "deviceId"]
    assert all(columns.values())
    assert ask(base, "SELECT id FROM ENUM_API_TYPE WHERE name = 'acl'") == [(20000,)]
    assert ask(base, "SELECT id FROM ENUM_MEMCPY_OPERATION WHERE name = 'device to host'") == [(2,)]
    assert len(set(ask(base, "SELECT value FROM STRING_IDS"))) == ask(base, "SELECT COUNT(*) FROM STRING_IDS")[0][0]
    assert dict(ask(base, "SELECT * FROM META_DATA"))["SCHEMA_VERSION_MAJOR"] == "1"


def test_kernels_are_those_of_op_summary(base: sqlite3.Connection, tmp_path: Path) -> None:
    parts = ", ".join(text(f"c.{name}") for name in ("name", "opType", "taskType", "inputShapes", "outputDataTypes"))
    joined = "COMPUTE_TASK_INFO c LEFT JOIN TASK t ON t.globalTaskId = c.globalTaskId"
    found = ask(base, f"""SELECT t.deviceId, t.streamId, t.taskId, t.modelId, c.blockNum, t.startNs, t.endNs, {parts}
        FROM {joined} ORDER BY t.deviceId, t.startNs""")  # fmt: skip
    rows = table(tmp_path, "op_summary")
    assert len(found) == len(rows)
    for got, row in zip(found, rows, strict=True):
        wanted = [row[name] for name in ("Device_id", "Stream ID", "Task ID", "Model ID", "Block Num")]
        assert list(got[:5]) == [int(cell) for cell in wanted]
        assert got[5] == round(float(row["Task Start Time(us)"]) * 1000)
        assert (got[6] - got[5]) / 1000 == pytest.approx(float(row["Task Duration(us)"]), abs=0.0011)
        assert list(got[7:]) == [row["Op Name"], row["OP Type"], row["Task Type"], row["Input Shapes"].strip('"'),
                                 row["Output Data Types"]]  # fmt: skip
    counters = ask(base, f"SELECT SUM(value) FROM TASK_PMU_INFO WHERE {text('name')} = 'aicore_time(us)'")
    assert counters[0][0] == pytest.approx(sum(float(r["aicore_time(us)"]) for r in rows))


def test_calls_lead_to_tasks(base: sqlite3.Connection, tmp_path: Path) -> None:
    calls = ask(base, f"SELECT SUM(endNs - startNs), COUNT(*), {text('name')} FROM CANN_API GROUP BY name")
    (row,) = table(tmp_path, "api_statistic")
    assert calls == [(round(float(row["Time(us)"]) * 1000), int(row["Count"]), row["API Name"])]
    linked = ask(base, """SELECT c.startNs, MIN(t.startNs) FROM CANN_API c JOIN TASK t
        ON t.connectionId = c.connectionId GROUP BY c.startNs""")  # fmt: skip
    assert len(linked) == calls[0][1] and all(call < task for call, task in linked)
    assert len(ask(base, "SELECT * FROM TASK")) == len(table(tmp_path, "task_time"))


def test_collectives_copies_marks_and_memory(base: sqlite3.Connection) -> None:
    names = ", ".join(map(text, ("opName", "opType", "groupName")))
    ((name, kind, group, lasts, nbytes),) = ask(base, f"SELECT {names}, endNs - startNs, count FROM COMMUNICATION_OP")
    assert name.startswith("hcom_allReduce__") and (kind, group, lasts, nbytes) == (
        "hcom_allReduce_",
        "ring",
        4000,
        3 * US,
    )
    ((source, target, link, rate),) = ask(base, """SELECT i.srcRank, i.dstRank, l.name, i.bandwidth
        FROM COMMUNICATION_TASK_INFO i JOIN ENUM_HCCL_LINK_TYPE l ON l.id = i.linkType""")  # fmt: skip
    assert (source, target, link) == (1, 0, "PCIE") and rate == pytest.approx(3e6 / 3e-6)
    copies = ask(
        base, "SELECT m.size, o.name FROM MEMCPY_INFO m JOIN ENUM_MEMCPY_OPERATION o ON o.id = m.memcpyOperation"
    )
    assert copies == [(4096, "device to host")] * 2
    marks = ask(base, f"SELECT {text('message')}, e.name, endNs - startNs, globalTid & 4294967295 FROM MSTX_EVENTS "
                      "JOIN ENUM_MSTX_EVENT_TYPE e ON e.id = eventType")  # fmt: skip
    assert marks == [("phase", "push/pop", 2000, 2)]
    assert [max(row) for row in ask(base, "SELECT ddr, hbm FROM NPU_MEM")] == [4096, 5120, 1024]
    blocks = ask(base, f"SELECT {text('operatorName')}, {text('type')}, size, totalAllocate FROM NPU_OP_MEM")
    assert blocks == [("model m", "allocate", 4096, 4096), ("model m", "release", 4096, 0)]


def test_an_empty_run_and_one_without_counters(recorded: Recorded, tmp_path: Path) -> None:
    store, soc = recorded("Ascend910B4")
    msprof_db.write(EventStore(), soc, tmp_path / "empty.db")
    msprof_db.write(store, soc, tmp_path / "plain.db", "")
    for name, tasks in (("empty", 0), ("plain", 1)):
        with closing(sqlite3.connect(tmp_path / f"{name}.db")) as opened:
            names = {row[0] for row in ask(opened, "SELECT name FROM sqlite_master WHERE type = 'table'")}
        assert "ENUM_API_TYPE" in names and ("TASK" in names) == bool(tasks) and "TASK_PMU_INFO" not in names
