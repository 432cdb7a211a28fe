"""Memory in PROF_*: blocks of models with their lives, the work area buffer by buffer, what a released block had."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import acl
import ascend_sim
from acl import _sim
from ascend_sim.graph.compile import compile_model
from ascend_sim.profiling import ascend_pt_memory, msprof
from ascend_sim.profiling import msprof_memory as memory
from ascend_sim.profiling.store import EventStore
from ascend_sim.runtime import system as machine
from ascend_sim.runtime.observe import Event
from ascend_sim.soc import load_soc

NOON = datetime(2026, 1, 2, 12)
HEADERS = {  # Ascend/msprof, analysis/msconfig/msprof_export_data_config.py; Device_id stands before all of them
    "npu_mem": "event,ddr(KB),hbm(KB),memory(KB),timestamp(us)",
    "memory_record": "Component,Timestamp(us),Total Allocated(KB),Total Reserved(KB),Device",
    "operator_memory": "Name,Size(KB),Allocation Time(us),Duration(us),Allocation Total Allocated(KB),"
    "Allocation Total Reserved(KB),Release Total Allocated(KB),Release Total Reserved(KB),Device",
    "static_op_mem": "Op Name,Model Name,Graph ID,Node Index Start,Node Index End,Size(KB)",
}


def model() -> bytes:
    """x [8, 32] -> matmul -> relu -> matmul -> y [8, 16] in fp16."""
    weights = [numpy_helper.from_array(np.zeros(s, np.float16), n) for n, s in (("a", (32, 64)), ("b", (64, 16)))]
    chain = [("MatMul", ["x", "a"], "h"), ("Exp", ["h"], "e"), ("MatMul", ["e", "b"], "y")]
    steps = [helper.make_node(kind, given, [made], name=f"make_{made}") for kind, given, made in chain]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT16, s) for n, s in (("x", (8, 32)), ("y", (8, 16)))]
    made: Any = helper.make_model(helper.make_graph(steps, "m", ends[:1], ends[1:], weights),
                                  opset_imports=[helper.make_opsetid("", 13)])  # fmt: skip
    made.ir_version = 8
    return compile_model(made.SerializeToString(), "Ascend910B2")


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two executions of a model that is unloaded at the end."""
    _sim.reset()
    machine.configure(soc="Ascend910B2", devices=1)
    assert acl.init() == 0 and acl.rt.set_device(0) == 0
    with ascend_sim.profile() as prof:
        data = model()
        number, ret = acl.mdl.load_from_mem(acl.util.bytes_to_ptr(data), len(data))
        assert ret == 0
        sets = []
        for size in (8 * 32 * 2, 8 * 16 * 2):
            sets.append(acl.mdl.create_dataset())
            acl.mdl.add_dataset_buffer(sets[-1], acl.create_data_buffer(acl.rt.malloc(size, 0)[0], size))
        for _ in range(2):
            assert acl.mdl.execute(number, *sets) == 0
        assert acl.mdl.unload(number) == 0
    parent = tmp_path_factory.mktemp("memory")
    yield msprof.write(prof.store, load_soc("Ascend910B2"), parent, NOON) / msprof.OUTPUT
    _sim.reset()


def table(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / f"{name}_20260102120000.csv").open(newline="") as lines:
        return list(csv.DictReader(lines))


def test_headers_are_those_of_msprof(output: Path) -> None:
    for name, header in HEADERS.items():
        assert list(table(output, name)[0]) == ["Device_id", *header.split(",")]


def test_the_work_area_by_operators(output: Path) -> None:
    *rows, total = table(output, "static_op_mem")
    names = [r["Op Name"] for r in table(output, "op_summary")]
    assert [r["Op Name"] for r in rows] == names[: len(rows)] and len(names) == 2 * (len(rows) + 1)
    assert [(int(r["Node Index Start"]), int(r["Node Index End"])) for r in rows] == [
        (i, i + 1) for i in range(len(rows))
    ]
    assert {r["Graph ID"] for r in rows} == {r["Model ID"] for r in table(output, "op_summary")}
    assert (total["Op Name"], total["Model Name"], total["Node Index End"]) == ("TOTAL", "0", "4294967295")
    work = next(r for r in table(output, "operator_memory") if r["Size(KB)"] == total["Size(KB)"])
    assert work["Name"]  # of the model


def test_blocks_of_a_model_live_from_load_to_unload(output: Path) -> None:
    work, weight = table(output, "operator_memory")
    assert float(weight["Size(KB)"]) * 1024 >= (32 * 64 + 64 * 16) * 2
    starts = [float(r["Task Start Time(us)"]) for r in table(output, "op_summary")]
    for row in (work, weight):
        begin = float(row["Allocation Time(us)"])
        assert begin < min(starts) and begin + float(row["Duration(us)"]) > max(starts)
    assert weight["Release Total Allocated(KB)"] == "0.000" and weight["Device"] == "NPU:0"
    held = [float(r["Total Allocated(KB)"]) for r in table(output, "memory_record")]
    sizes = [float(r["Size(KB)"]) for r in (work, weight)]
    assert held == [sizes[0], sum(sizes), sizes[1], 0]
    assert {r["Component"] for r in table(output, "memory_record")} == {"GE"}
    assert float(table(output, "npu_mem")[-1]["memory(KB)"]) > 0  # the program's own buffers are still there


def change(name: str, when: int, address: int, nbytes: int, **more: Any) -> Event:
    facts = {"address": address, "nbytes": nbytes, "allocated": 0, **more}
    return Event("memory", name, 0, -1, 0, when, when, 0, facts)


def test_what_the_profile_did_not_see_is_empty() -> None:
    """As Ascend/msprof describes negative and empty values of operator_memory."""
    store = EventStore()
    store.events = [change("model m", 10**6, 7, -2048), change("model m", 2 * 10**6, 9, 1024)]
    assert memory.operator_memory(store) == [
        [0, "", "-2.000", "", "", "", "", "0.000", "0.000", "NPU:0"],
        [0, "m", "1.000", "2.000\t", "", "1.000", "1.000", "", "", "NPU:0"],
    ]


def test_a_block_outside_of_all_operators_has_no_name() -> None:
    store = EventStore()
    block = {"component": "PTA", "allocated": 512, "reserved": 2 << 20, "active": 512, "stream": 3}
    store.events = [
        change("PTA", 5, 0, 512, **block), change("PTA", 25, 512, 512, **block),
        Event("op", "aten::mm", -1, -1, 0, 20, 30),
    ]  # fmt: skip
    outside, inside = (dict(zip(ascend_pt_memory.OPERATOR_MEMORY, r, strict=True))
                       for r in ascend_pt_memory.operator_memory(store))  # fmt: skip
    assert (outside["Name"], inside["Name"]) == ("", "aten::mm")
    assert outside["Stream Ptr"] == inside["Stream Ptr"] == 3


changes_ = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 1 << 20)), max_size=30)


@given(changes_)
def test_totals_are_what_lives(steps: list[tuple[int, int]]) -> None:
    """Every step takes a block at a place, or gives back the one that is there."""
    store, living, held = EventStore(), dict[int, int](), []
    lives: dict[int, int] = defaultdict(int)
    for when, (place, nbytes) in enumerate(steps):
        size = -living.pop(place) if place in living else nbytes
        if size > 0:
            living[place] = size
            lives[place] += 1
        store(change("model m", when * 10**6, place, size))
        held.append(sum(living.values()))
    records = memory.memory_record(store)
    assert [r[3] for r in records] == [f"{n / 1024:.3f}" for n in held]
    rows = memory.operator_memory(store)
    assert len(rows) == sum(lives.values())
    assert sum(r[4] == "" for r in rows) == len(living)
    for row in rows:
        if row[4]:
            assert float(row[4]) > 0 and row[7] in {r[3] for r in records}
