"""ascend-sim sweep: the same times as one by one, whatever runs them and however often it was interrupted."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ascend_sim import load_soc, simulate_model, simulate_op
from ascend_sim.cli import sweep as command
from ascend_sim.cli import sweep_page, sweep_pool
from ascend_sim.cli.main import main
from ascend_sim.cli.progress import clock
from ascend_sim.cli.sweep_plan import parse_grid
from ascend_sim.cli.sweep_time import Point, run

GRID = ["--grid", "cores.clock_mhz=1000:1800:3", "--grid", "memory.hbm_gbps=400,1600"]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A convolution, a sum and a matrix product with a free batch."""
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.standard_normal((32, 16, 3, 3)).astype(np.float32),
        "m": rng.standard_normal((32 * 14 * 14, 64)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Flatten", ["r"], ["f"]),
        helper.make_node("MatMul", ["f", "m"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 16, 14, 14])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 64])],
        [onnx.numpy_helper.from_array(a, k) for k, a in weights.items()],
    )  # fmt: skip
    path = tmp_path_factory.mktemp("net") / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), path)
    return path


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))


@pytest.mark.parametrize("l2", ["warm", "cold"])
def test_points_take_what_they_take_alone(network: Path, l2: str) -> None:
    for changes in ({}, {"cores.clock_mhz": 1000.0}, {"memory.hbm_gbps": 400.0}, {"ai_core_count": 4}):
        chip = load_soc("Ascend910B2").override(changes) if changes else load_soc("Ascend910B2")
        alone = simulate_model(network, soc=chip, batch=2, l2=l2)
        found = run(Point(str(network), "Ascend910B2", 2, l2=l2, changes=tuple(changes.items())))
        assert (found["us"], found["cycles"], found["fps"]) == (alone.us, alone.cycles, pytest.approx(alone.fps))
    inputs = ["256x512:float16", "512x128:float16"]
    alone = simulate_op("MatMulV2", inputs, soc="Ascend310P3", l2=l2)
    assert run(Point("MatMulV2", "Ascend310P3", 1, " ".join(inputs), l2))["us"] == alone.us


def test_processes_and_an_interruption_change_nothing(
    network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = ["sweep", str(network), "--batch", "1,2", "--soc", "Ascend910B4", "--soc", "310P3", *GRID]
    assert main([*base, "--workers", "1", "-o", str(tmp_path / "one.csv")]) == 0
    monkeypatch.setattr(sweep_pool, "PIECE", 3)
    assert main([*base, "--workers", "2", "-o", str(tmp_path / "two.csv")]) == 0
    whole = (tmp_path / "one.csv").read_bytes()
    assert whole == (tmp_path / "two.csv").read_bytes()

    calls = []

    def dies(jobs: list[sweep_pool.Job], *rest: object) -> object:
        for index, point in jobs:
            if len(calls) == 10:
                raise KeyboardInterrupt
            calls.append(index)
            yield index, run(point)

    with monkeypatch.context() as patch:
        patch.setattr(sweep_pool, "run_all", dies)
        assert main([*base, "-o", str(tmp_path / "three.csv")]) == 130
    journal = tmp_path / "three.csv.part"
    assert len(journal.read_text().splitlines()) == 11
    journal.write_text(journal.read_text()[:-9])  # killed in the middle of a line
    monkeypatch.setattr(sweep_pool, "run_all", lambda jobs, *rest: calls.extend(i for i, _ in jobs) or (
        (i, run(p)) for i, p in jobs))  # fmt: skip
    calls.clear()
    assert main([*base, "-o", str(tmp_path / "three.csv")]) == 0
    assert len(calls) == 24 - 9 and not journal.exists()
    assert whole == (tmp_path / "three.csv").read_bytes()


def test_a_changed_sweep_starts_over(network: Path, tmp_path: Path) -> None:
    points = [Point(str(network), "Ascend910B4", 1)]
    identity = command._identity(points)
    assert identity != command._identity([Point(str(network), "Ascend910B4", 2)])
    journal = tmp_path / "x.part"
    journal.write_text(json.dumps(identity) + '\n[0, {"us": 1.0}]\n[7, {}]\n[1, {"u')
    assert command._read_journal(journal, identity, 1) == {0: {"us": 1.0}}
    assert command._read_journal(journal, "other", 1) == {}


@pytest.mark.slow
def test_a_dask_cluster_gives_the_same_table(network: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    base = ["sweep", str(network), "--batch", "1,2", *GRID]
    assert main([*base, "-o", str(tmp_path / "a.csv")]) == 0
    assert main([*base, "--scheduler", "local:2", "-o", str(tmp_path / "b.csv")]) == 0
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_operators_lists_and_failures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "points.csv"
    rows.write_text("soc,shape,cores.clock_mhz\nAscend310P3,64x64:float16,\n910B4,64x64:float16,900\n,1x2x3:what,\n")
    assert main(["sweep", "Relu", "--list", str(rows), "-o", str(tmp_path / "t.csv"), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [r["soc"] for r in shown] == ["Ascend310P3", "910B4", "Ascend910B2"]
    assert shown[0]["us"] == simulate_op("Relu", ["64x64:float16"], soc="Ascend310P3").us
    assert "what" in shown[2]["error"] and shown[2]["us"] is None
    assert [r["us"] for r in table(tmp_path / "t.csv")] == [str(shown[0]["us"]), str(shown[1]["us"]), ""]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["Relu"], "--shapes"),
        (["none.onnx"], "no such file"),
        (["Relu", "--shapes", "4:float16", "--grid", "cores.clock=1"], "cores.clock"),
        (["Relu", "--shapes", "4:float16", "--grid", "cores.clock_mhz"], "KEY=VALUE"),
        (["Relu", "--shapes", "4:float16", "--grid", "cores.clock_mhz=1:2:1"], "at least 2"),
        (["Relu", "--shapes", "4:float16", "--batch", "0"], "--batch 0"),
        (["Relu", "--shapes", "4:float16", "-o", "x.txt"], ".parquet"),
        (["Relu", "--shapes", "4:float16", "--workers", "0"], "--workers 0"),
        (["Relu", "--shapes", "4:float16", "--soc", "Ascend999"], "Ascend999"),
    ],
)
def test_mistakes_are_named(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_values_of_a_grid() -> None:
    assert parse_grid(["a=1,2.5,x", "b=1000:1800:5", "c=0.5:1:2"]) == {
        "a": [1, 2.5, "x"], "b": [1000, 1200, 1400, 1600, 1800], "c": [0.5, 1.0]}  # fmt: skip


def test_parquet_holds_the_same(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    import pyarrow.parquet

    base = ["sweep", "Relu", "--shapes", "64x64:float16", *GRID]
    assert main([*base, "-o", str(tmp_path / "t.csv")]) == main([*base, "-o", str(tmp_path / "t.parquet")]) == 0
    read = pyarrow.parquet.read_table(tmp_path / "t.parquet").to_pylist()
    assert [str(r["us"]) for r in read] == [r["us"] for r in table(tmp_path / "t.csv")]


def test_the_page_marks_what_nothing_beats(tmp_path: Path) -> None:
    rows = [{"us": us, "fps": fps} for us, fps in ((1.0, 5.0), (2.0, 4.0), (2.0, 9.0), (3.0, 9.0), (4.0, 10.0))]
    assert [(r["us"], r["fps"]) for r in sweep_page.front(rows)] == [(1.0, 5.0), (2.0, 9.0), (4.0, 10.0)]
    page = tmp_path / "p.html"
    base = ["sweep", "Relu", "--shapes", "64x64:float16", *GRID]
    assert main([*base, "-o", str(tmp_path / "t.csv"), "--report", str(page)]) == 0
    text = page.read_text()
    assert text.count("<rect") == 6 and "polyline" in text and "http" not in text


def test_time_left_reads_as_a_clock() -> None:
    assert [clock(s) for s in (0, 65, 3723)] == ["0:00", "1:05", "1:02:03"]
