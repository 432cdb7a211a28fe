"""The OPPROF_* tree, read back by a reader of its own: slices add up, lanes are disjoint, the binary file is whole."""

from __future__ import annotations

import csv
import json
import struct
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_sim.cli.op_simulator import matches, traced
from ascend_sim.engine.simulate import simulate_kernel
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.profiling import op_simulator
from ascend_sim.profiling.op_simulator import Kernel
from ascend_sim.soc import load_soc

NOON = datetime(2026, 1, 2, 12, 0, 0, 345000)


def spec(*shape: int) -> TensorSpec:
    return TensorSpec(shape, "float16")


CALLS = {
    "AIC": OpCall("MatMulV2", (spec(256, 128), spec(128, 512), None), (spec(256, 512),)),
    "AIV": OpCall("Add", (spec(256, 512), spec(256, 512)), (spec(256, 512),)),
}


@pytest.fixture(params=[("Ascend910B4", "AIC"), ("Ascend910B4", "AIV"), ("Ascend310P3", "AIC")], ids="-".join)
def kernel(request: pytest.FixtureRequest) -> Kernel:
    chip, kind = request.param
    soc, call = load_soc(chip), CALLS[kind]
    return Kernel("k", call.type, traced(call, soc)[0], soc)


@pytest.fixture
def folder(kernel: Kernel, tmp_path: Path) -> Path:
    return op_simulator.write([kernel], tmp_path, NOON) / "simulator"


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))


def test_names_of_cores(kernel: Kernel, folder: Path) -> None:
    assert folder.parent.name.startswith("OPPROF_20260102120000_")
    names = {p.name for p in folder.iterdir() if p.is_dir()}
    used = simulate_kernel(kernel.trace, kernel.soc).cores_used
    assert len(names) == used
    suffix = {"AIC": ".cubecore0", "AIV": ".veccore0", "AICORE": ""}[kernel.trace.kind]
    assert f"core0{suffix}" in names
    for name in names:
        assert {p.name for p in (folder / name).iterdir()} == {
            f"{name}_code_exe.csv", f"{name}_instr_exe.csv", "trace.json"}  # fmt: skip


def test_slices_of_a_pipe_sum_to_its_busy_time(kernel: Kernel, folder: Path) -> None:
    timing = simulate_kernel(kernel.trace, kernel.soc)
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    busy: dict[str, float] = defaultdict(float)
    ends: dict[str, float] = defaultdict(float)
    for e in events:
        if e["ph"] == "X":
            busy[e["tid"]] += e["dur"]
            ends[e["pid"]] = max(ends[e["pid"]], e["ts"] + e["dur"])
    names = {"CUBE": "cube", "MTE1": "mte1", "MTE2": "mte2", "MTE3": "mte3", "VECTOR": "vector", "FIXP": "fixpipe"}
    checked = 0
    for lane, pipe in names.items():
        if lane in busy and timing.blocks <= timing.cores_used:
            mean = busy[lane] / timing.cores_used  # the other one is floored to ps
            assert mean == pytest.approx(timing.busy_ps[pipe] / 1e6, abs=1e-6)
            checked += 1
    assert checked or timing.blocks > timing.cores_used
    assert max(ends.values()) <= timing.core_ps / 1e6 + 1e-6


PIPES = {"V": "vector", "MTE1": "mte1", "MTE2": "mte2", "MTE3": "mte3", "M": "cube", "FIX": "fixpipe"}
sizes = st.integers(1, 20).map(lambda n: 16 * n)


@pytest.mark.parametrize("chip", ["Ascend910B2", "Ascend310P3"])
@settings(max_examples=10)
@given(kind=st.sampled_from(("MatMulV2", "Add", "SoftmaxV2", "Exp")), m=sizes, k=sizes, n=sizes)
def test_busy_cycles_of_any_kernel_are_those_of_its_slices(chip: str, kind: str, m: int, k: int, n: int) -> None:
    """Slices of a pipe are disjoint and within the core's time; all of them are its busy time (mean over the cores)."""
    soc, out = load_soc(chip), spec(m, n)
    inputs = {"MatMulV2": (spec(m, k), spec(k, n), None), "Add": (out, out)}.get(kind, (out,))
    call = OpCall(kind, inputs, (out,), (("axes", (-1,)),) if kind == "SoftmaxV2" else ())
    for trace in traced(call, soc):
        cores, timing = op_simulator.cores_of(Kernel("k", kind, trace, soc))
        busy: dict[str, int] = defaultdict(int)
        ends: dict[tuple[str, Any], int] = defaultdict(int)
        for core in cores:
            for s in core.slices:
                assert ends[core.name, s.pipe] <= s.start <= s.end <= timing.core_ps
                ends[core.name, s.pipe] = s.end
                busy[PIPES.get(s.pipe.name, "scalar")] += s.end - s.start
        if timing.blocks <= timing.cores_used and trace.kind != "MIX":  # one wave is shown whole
            for pipe in PIPES.values():
                assert busy[pipe] / timing.cores_used == pytest.approx(timing.busy_ps.get(pipe, 0), abs=1)


def test_tables_of_a_core_agree_with_its_trace(folder: Path) -> None:
    core = min(p for p in folder.iterdir() if p.is_dir())
    trace = json.loads((core / "trace.json").read_text())
    assert list(trace)[:3] == ["displayTimeUnit", "profilingType", "schemaVersion"]  # before the first bracket
    slices = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    lanes: dict[tuple[Any, str], float] = defaultdict(float)
    for e in slices:
        assert e["ts"] >= lanes[e["pid"], e["tid"]] - 1e-9
        lanes[e["pid"], e["tid"]] = e["ts"] + e["dur"]
    instr = table(core / f"{core.name}_instr_exe.csv")
    assert sum(int(r["call_count"]) for r in instr) == len(slices)
    code = table(core / f"{core.name}_code_exe.csv")
    assert code and all(Path(r["code"].rpartition(":")[0]).is_file() for r in code)
    assert sum(int(r["call_count"]) for r in code) <= len(slices)
    cycles = [int(r["cycles"]) for r in code]
    assert cycles == sorted(cycles, reverse=True)


def blocks(content: bytes) -> Iterator[tuple[int, str, bytes]]:
    """Reader by the published layout: u64 size with padding, type, padding, version, 0x5A; type 1 has a path."""
    at = 0
    while at < len(content):
        size, kind, padding, version, magic = struct.unpack_from("<QBBBB", content, at)
        assert magic == 0x5A and size % 4 == 0 and padding < 4 and version == (0 if kind == 4 else 0x5A)
        at += 12
        path = ""
        if kind == 1:
            path = content[at : at + 4096].rstrip(b"\0").decode()
            at += 4096
        yield kind, path, content[at : at + size - padding]
        at += size
    assert at == len(content)


def test_the_binary_file_reads_back(folder: Path) -> None:
    found = list(blocks((folder / "visualize_data.bin").read_bytes()))
    kinds = [kind for kind, _, _ in found]
    assert kinds.count(2) == kinds.count(3) == kinds.count(4) == kinds.count(5) == 1 and 1 in kinds
    for kind, path, content in found:
        if kind == 1:
            assert content == Path(path).read_bytes()
    by_kind = {kind: json.loads(content) for kind, _, content in found if kind != 1}
    assert by_kind[2] == json.loads((folder / "trace.json").read_text())
    instructions = by_kind[4]
    cores = [p.name for p in folder.iterdir() if p.is_dir()]
    assert sorted(instructions["Cores"]) == sorted(cores)
    executed = 0
    for row in instructions["Instructions"]:
        assert len(row["Cycles"]) == len(row["Instructions Executed"]) == len(cores)
        executed += sum(row["Instructions Executed"])
    assert executed == sum(e["ph"] == "X" for e in by_kind[2]["traceEvents"])


def test_several_launches_and_chosen_cores(tmp_path: Path) -> None:
    soc = load_soc("Ascend910B4")
    kernels = [Kernel(n, "Add", traced(CALLS["AIV"], soc)[0], soc) for n in ("a", "b", "a")]
    root = op_simulator.write(kernels, tmp_path, NOON, cores=[0, 3])
    assert sorted(str(p.relative_to(root)) for p in root.glob("*/*")) == ["a/0", "a/1", "b/0"]
    place = root / "a" / "1" / "simulator"
    assert sorted(p.name for p in place.iterdir() if p.is_dir()) == ["core0.veccore0", "core1.veccore1"]
    assert list((place / "core0.veccore0").glob("*_code_exe_20260102120000345.csv"))


@pytest.mark.parametrize(
    ("pattern", "name", "found"),
    [("add", "add_custom", True), ("add|abs*", "abs_x", True), ("*sum", "reduce_sum_x", True), ("mul", "add", False)],
)
def test_names_match_by_prefix(pattern: str, name: str, found: bool) -> None:
    assert matches(pattern, name) == found
