"""The Python surface, and the error bands that predictions carry."""

from __future__ import annotations

import csv
import doctest
import json
import subprocess
import sys
from pathlib import Path

import pytest

import ascend_sim
from ascend_sim import api
from ascend_sim.cli.main import main
from ascend_sim.graph.single_op import build_call
from ascend_sim.profiling.accuracy import Outcome
from ascend_sim.profiling.bands import FAMILIES, NO_BAND, Band, band_text, bands, family_of, measure, write_bands
from ascend_sim.profiling.calibration import OpRow, read_rows
from ascend_sim.profiling.row_calls import call_of
from ascend_sim.profiling.row_shapes import NotPredicted

ROWS = Path(__file__).parents[2] / "benchmarks" / "data" / "ops_calibration.csv"


@pytest.mark.parametrize("module", [api, ascend_sim])
def test_examples_of_the_documentation(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]


def test_the_package_imports_nothing_before_it_is_asked() -> None:
    code = "import ascend_sim, sys; print([m for m in sys.modules if m.startswith('ascend_sim.') or m == 'numpy'])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"
    with pytest.raises(AttributeError, match="simulate_ops"):
        ascend_sim.simulate_ops  # noqa: B018


def test_the_report_and_the_command_say_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    report = api.simulate_op("Add", ["2048x1024:float16"] * 2, soc="Ascend910B4", l2="cold")
    words = ["op", "Add", "--soc", "910b4", "--l2", "cold", *["--input", "2048x1024:float16"] * 2, "--json"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(report.as_dict()))


def test_a_simulator_keeps_its_l2() -> None:
    npu = api.Simulator("Ascend910B2")
    call = build_call("Add", ["4096x1024:float16"] * 2, {})
    cold, warm = npu.op(call, l2="cold").us, npu.op(call, l2="kept").us
    assert warm < cold
    assert npu.op(call).us == warm == api.simulate_op(call, soc="Ascend910B2").us
    with pytest.raises(ValueError, match="'hot'"):
        npu.op(call, l2="hot")


def test_a_network_is_its_operators_and_the_gaps(tmp_path: Path) -> None:
    from onnx import TensorProto, helper, save

    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Softmax", ["a"], ["y"], axis=1)]
    shape = ["n", 1000]
    graph = helper.make_graph(
        nodes, "two", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )  # fmt: skip
    path = tmp_path / "two.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    report = api.simulate_model(path, soc="Ascend310P3", batch=64)
    launch = api.load_soc("Ascend310P3").launch
    kernels = sum(op.us > 0 for op in report.ops)
    expected = sum(op.us for op in report.ops) + launch.model_execute_us + launch.model_gap_us * (kernels - 1)
    assert report.us == pytest.approx(expected, abs=1e-5)
    assert report.batch == 64 and report.fps == pytest.approx(64e6 / report.us)
    assert report.rests_on["launch.model_execute_us"] == pytest.approx(launch.model_execute_us / report.us)


def test_families_of_operators_are_those_of_the_measured_rows() -> None:
    for row in read_rows(ROWS):
        assert isinstance(row, OpRow)
        try:
            call = call_of(row)
        except NotPredicted:
            continue
        assert family_of(call.type) == row.family, row.id


def test_every_measured_family_and_chip_has_a_band() -> None:
    with ROWS.open(newline="") as handle:
        counts: dict[tuple[str, str], int] = {}
        for row in csv.DictReader(handle):
            key = row["soc"], row["family"]
            counts[key] = counts.get(key, 0) + 1
    assert set(FAMILIES.values()) == {family for _, family in counts}
    for key, count in counts.items():
        assert bands()[key].rows + bands()[key].short_rows == count


def test_what_a_band_says() -> None:
    band = Band("Ascend910B2", "gemm", 31, 0.04, 0.12, 3, 0.14, 0.5)
    assert band.text(50.0) == "+-12 % (910B2, 31 gemm rows; median 4 %)"
    assert band.text(5.0) == "+-0.5 us (910B2, 3 gemm rows under 10 us; median 0.1 us)"
    assert NO_BAND in Band("Ascend910A", "gemm", 1, 0.1, 0.1).text(5.0)
    assert band_text("Ascend310", "gemm", 50.0) == band_text("Ascend910B2", None, 50.0) == NO_BAND


def test_bands_survive_the_file(tmp_path: Path) -> None:
    outcomes = [
        Outcome(str(i), "Ascend910B2", "gemm", "MatMulV2", us_measured=m, us_predicted=p)
        for i, (m, p) in enumerate([(100.0, 110.0), (100.0, 80.0), (200.0, 200.0), (5.0, 5.5)])
    ]
    path = tmp_path / "bands.toml"
    write_bands(outcomes, path)
    (band,) = measure(outcomes)
    assert bands(path) == {("Ascend910B2", "gemm"): band}
    assert (band.rows, band.median, band.short_rows, band.short_median_us) == (3, 0.1, 1, 0.5)


def test_a_band_covers_what_an_unknown_l2_leaves_open() -> None:
    def median_error(us: float) -> tuple[float | None, float | None]:
        row = Outcome("1", "A", "norm", "SoftmaxV2", us_measured=us, us_predicted=50.0, us_predicted_cold=200.0)
        return row.error, measure([row])[0].median

    assert median_error(100.0) == (0.0, 0.0)  # the geometric middle of 50 and 200
    assert median_error(80.0) == (0.0, 0.25)
