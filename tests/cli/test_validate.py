"""`ascend-sim validate`: statistics, row reading, rows as operator calls, the command itself."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.cli.errors import CommandError
from ascend_sim.cli.main import main
from ascend_sim.profiling.accuracy import (
    Outcome,
    miss,
    quantile,
    ranks,
    score,
    score_bounds,
    score_networks,
    score_pipes,
    score_states,
    spearman,
)
from ascend_sim.profiling.calibration import OpRow, RowError, Tensor, half_of, read_rows
from ascend_sim.profiling.row_calls import call_of
from ascend_sim.profiling.row_shapes import (
    NotPredicted,
    concat_axis,
    gather_axis,
    matmul_transposes,
    permutation,
    reduced_axes,
    stacked_axis,
    window,
)

DATA = Path(__file__).parents[2] / "benchmarks" / "data"
COLUMNS = (
    "id",
    "soc",
    "family",
    "op",
    "inputs",
    "outputs",
    "attrs",
    "us",
    "mac_us",
    "mte2_us",
    "vec_us",
    "l2",
    "source",
)


def tensors(*shapes: tuple[int, ...], dtype: str = "float16", fmt: str = "ND") -> str:
    return json.dumps([{"shape": list(s), "dtype": dtype, "format": fmt} for s in shapes])


def record(**changes: str) -> dict[str, str]:
    base = {"id": "X-1", "soc": "Ascend910B2", "family": "elementwise", "op": "Add",
            "inputs": tensors((1024, 1024), (1024, 1024)), "outputs": tensors((1024, 1024)), "attrs": "{}",
            "us": "12.5", "mac_us": "", "mte2_us": "4.5", "l2": "unknown", "source": "test"}  # fmt: skip
    return {**base, **changes}


def write_csv(path: Path, *records: dict[str, str], columns: tuple[str, ...] = COLUMNS) -> Path:
    with path.open("w", newline="") as handle:
        writer = csv.DictWriter(handle, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(records)
    return path


def row(op: str, inputs: list[Tensor], outputs: list[Tensor], **attrs: object) -> OpRow:
    return OpRow("r", "Ascend910B2", "f", op, tuple(inputs), tuple(outputs), attrs, 1.0, {}, "warm", "")


# ---- statistics


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40), st.floats(0, 1))
def test_quantile_is_numpys(values: list[float], share: float) -> None:
    assert quantile(values, share) == pytest.approx(float(np.quantile(values, share)), rel=1e-9, abs=1e-9)


def test_quantile_of_nothing_is_none() -> None:
    assert quantile([], 0.5) is None


def test_spearman_of_the_textbook_example() -> None:
    # Wikipedia, "Spearman's rank correlation coefficient": IQ against hours of television, rho = -29/165.
    iq = [106, 100, 86, 101, 99, 103, 97, 113, 112, 110]
    hours = [7, 27, 2, 50, 28, 29, 20, 12, 6, 17]
    assert spearman(iq, hours) == pytest.approx(-29 / 165)


def test_ties_share_their_mean_rank() -> None:
    assert ranks([10.0, 20.0, 20.0, 30.0]) == [1.0, 2.5, 2.5, 4.0]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=3, max_size=30))
def test_spearman_is_the_correlation_of_ranks(pairs: list[tuple[int, int]]) -> None:
    xs, ys = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    found = spearman(xs, ys)
    if len(set(xs)) == 1 or len(set(ys)) == 1:
        assert found is None
    else:
        assert found == pytest.approx(float(np.corrcoef(ranks(xs), ranks(ys))[0, 1]), abs=1e-9)


def test_distance_to_an_interval() -> None:
    assert miss(10, 12, 20) == 2
    assert miss(15, 12, 20) == 0
    assert miss(25, 12, 20) == -5


def outcome(us: float, predicted: float | None, cold: float | None = None, **more: object) -> Outcome:
    return Outcome(f"r{us}", "chip", "gemm", "MatMulV2", us, us_predicted=predicted, us_predicted_cold=cold, **more)  # type: ignore[arg-type]


def test_score_counts_and_separates_short_rows() -> None:
    rows = [outcome(100, 110), outcome(200, 100, 150), outcome(50, 40, 60), outcome(4, 5.5), outcome(30, None)]
    s = score(rows, "chip", "gemm")
    assert (s.rows, s.predicted, s.long, s.short) == (5, 4, 3, 1)
    assert s.median == pytest.approx(0.1)  # errors 10 %, -25 % and 0
    assert s.bias == pytest.approx(0.0)
    assert s.short_median_us == pytest.approx(1.5)


def test_pipes_are_compared_above_one_microsecond_and_bounds_by_more_than_half() -> None:
    rows = [
        outcome(100, 100, pipes={"mte2": 90.0, "cube": 20.0}, pipe_us_measured={"mte2": 80.0, "cube": 0.5}),
        outcome(100, 100, pipes={"mte2": 90.0, "cube": 20.0}, pipe_us_measured={"cube": 60.0}),
        outcome(100, 100, pipes={"mte2": 90.0}, pipe_us_measured={"mte2": 40.0}),
    ]
    by_pipe = {p.pipe: p for p in score_pipes(rows)}
    assert by_pipe["mte2"].compared == 2
    assert by_pipe["cube"].compared == 1
    bounds = score_bounds(rows)
    assert (bounds.rows, bounds.agreed, bounds.longest) == (2, 1, 1)
    assert bounds.missed[0][1:] == ("cube", "mte2")
    tied = outcome(100, 100, pipes={"mte2": 90.0, "cube": 20.0}, pipe_us_measured={"cube": 60.0, "mte2": 58.0})
    tie = score_bounds([tied])  # 58 us lie within 5 % of 60
    assert (tie.rows, tie.agreed, tie.longest) == (1, 1, 0)


def test_networks_are_compared_at_their_best_batch() -> None:
    def net(batch: int, us: float, predicted: float) -> Outcome:
        return Outcome(f"n{batch}", "chip", "model", "net", us, batch=batch, us_predicted=predicted)

    found = score_networks([net(1, 10, 10), net(4, 20, 30), net(8, 50, 50)])[0]
    assert (found.best_measured, found.best_predicted, found.steps_apart) == (4, 8, 1)


# ---- rows


def test_committed_rows_can_be_read() -> None:
    operators, networks = read_rows(DATA / "ops_calibration.csv"), read_rows(DATA / "models_calibration.csv")
    assert (len(operators), len(networks)) == (232, 123)
    sigmoid = next(r for r in operators if r.id == "CB2-sigmoid-03")
    assert isinstance(sigmoid, OpRow)
    assert sigmoid.inputs == (Tensor((4096, 4096), "bfloat16"),)
    assert (sigmoid.us, sigmoid.l2) == (35.86, "cold")
    dense = networks[0]
    assert dense.us == pytest.approx(1e6 / 1087.52)


def test_every_committed_row_maps_unless_its_operator_is_missing() -> None:
    for r in read_rows(DATA / "ops_calibration.csv"):
        assert isinstance(r, OpRow)
        try:
            call = call_of(r)
        except NotPredicted as error:
            assert "not in the registry" in str(error), r.id
        else:
            if r.outputs:
                assert call.outputs[0].size == int(np.prod(r.outputs[0].shape)), r.id


def test_halves_follow_sha256() -> None:
    assert half_of("abc") == "a"  # FIPS 180-2: ba7816bf...
    assert half_of("") == "b"  # e3b0c442...


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"us": "fast"}, ["us", "'fast'"]),
        ({"us": "-1"}, ["us", "above 0"]),
        ({"l2": "hot"}, ["l2", "'hot'", "warm"]),
        ({"inputs": "[1"}, ["inputs", "JSON"]),
        ({"inputs": '[{"shape": [1], "dtype": "f16"}]'}, ["'f16'", "float16"]),
        ({"attrs": "[]"}, ["attrs", "object"]),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, changes: dict[str, str], words: list[str]) -> None:
    path = write_csv(tmp_path / "rows.csv", record(), record(id="X-2", **changes))
    with pytest.raises(RowError) as caught:
        read_rows(path)
    assert "row 3 (X-2)" in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_a_file_of_another_schema_is_refused(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "rows.csv", record(), columns=("id", "soc", "op"))
    with pytest.raises(RowError, match="lacks the column family"):
        read_rows(path)
    with pytest.raises(RowError, match="cannot read"):
        read_rows(tmp_path / "none.csv")


# ---- what shapes tell


@given(st.permutations(range(4)))
def test_permutation_is_found_when_sizes_differ(perm: list[int]) -> None:
    shape = (2, 3, 5, 7)
    assert list(permutation(shape, np.empty(shape).transpose(perm).shape)) == perm


def test_permutation_keeps_neighbours_together() -> None:
    assert permutation((32, 256, 1, 6, 6), (32, 1, 6, 6, 256)) == (0, 2, 3, 4, 1)


@given(st.sets(st.integers(0, 3)), st.booleans())
def test_reduction_is_found_when_sizes_differ(axes: set[int], keep: bool) -> None:
    shape = (2, 3, 5, 7)
    target = np.zeros(shape).sum(tuple(axes), keepdims=keep).shape if axes else shape
    found, _ = reduced_axes(shape, target)
    assert set(found) == axes


@pytest.mark.parametrize(("ta", "tb"), [(False, False), (False, True), (True, False), (True, True)])
def test_transposed_operands_follow_from_shapes(ta: bool, tb: bool) -> None:
    a, b = ((96, 32) if ta else (32, 96)), ((64, 96) if tb else (96, 64))
    assert matmul_transposes(a, b, (32, 64)) == (ta, tb)


def test_windows_of_alexnet() -> None:
    # torchvision's AlexNet: convolutions 11/4 pad 2, 5/1 pad 2, 3/1 pad 1; pools 3/2.
    assert window(224, 55, 11) == (11, 4, 2)
    assert window(27, 27, 5) == (5, 1, 2)
    assert window(13, 13, 3) == (3, 1, 1)
    assert [window(a, b) for a, b in ((55, 27), (27, 13), (13, 6))] == [(3, 2, 0)] * 3


def test_axes_of_movement() -> None:
    assert concat_axis([(2, 3, 4), (2, 5, 4)], (2, 8, 4)) == 1
    assert stacked_axis((3, 4), 2, (3, 2, 4)) == 1
    assert gather_axis((10, 4), (7, 2), (7, 2, 4)) == 0
    with pytest.raises(NotPredicted):
        concat_axis([(2, 3)], (4, 5))


def test_quantised_matmul_tells_its_optional_inputs_apart() -> None:
    rows = {r.id: r for r in read_rows(DATA / "ops_calibration.csv") if isinstance(r, OpRow)}
    from ascend_sim.profiling.row_calls import ADAPTERS

    adapted = ADAPTERS["QuantBatchMatmulV3"](rows["CB2-quant_matmul-06"])  # per-token scale and bias, no offset
    shapes = [None if s is None else s.shape for s in adapted.inputs]
    assert shapes == [(1024, 4096), (4096, 14336), (14336,), None, (14336,), (1024,)]


def test_filter_gradients_of_both_frameworks() -> None:
    rows = {r.id: r for r in read_rows(DATA / "ops_calibration.csv") if isinstance(r, OpRow)}
    from ascend_sim.profiling.row_calls import ADAPTERS

    # 384 -> 256 channels, 3x3: PyTorch lists x first, MindSpore the gradient.
    for name in ("MSI2-088", "MIA-061"):
        adapted = ADAPTERS["Conv2DBackpropFilter"](rows[name])
        assert adapted.inputs[0] is not None
        assert adapted.inputs[0].logical_shape[1] == 384, name
        assert adapted.attrs["filter_size"][2:] == (3, 3), name


def test_exp_with_base_and_scale_is_one_fused_operator() -> None:
    x = Tensor((64, 64), "float32")
    call = call_of(row("Exp", [x], [], base=2.0, scale=1.5, shift=0.0))
    assert call.type == "FusedElementwise"
    assert [step[0] for step in call.attr("steps")] == ["muls", "muls", "exp"]
    assert call_of(row("Exp", [x], [x])).type == "Exp"


# ---- the command


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(["validate", *argv]) == 0
    return capsys.readouterr().out


def test_json_has_the_contract_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_csv(
        tmp_path / "rows.csv",
        record(),
        record(id="X-2", l2="cold"),
        record(id="X-3", op="NoSuchOperator"),
        record(id="X-4", soc="Ascend1"),
    )
    found = json.loads(run(capsys, str(path), "--json"))
    assert set(found) == {"families", "rows"}
    keys = {"id", "soc", "family", "op", "us_measured", "us_predicted", "us_predicted_cold", "pipes", "bound",
            "estimated", "reason"}  # fmt: skip
    assert all(set(r) == keys for r in found["rows"])
    unknown, cold, absent, chip = found["rows"]
    assert unknown["us_predicted_cold"] >= unknown["us_predicted"] > 0
    # a flushed L2 holds clean lines, one in a network lines to write back
    assert 0 < cold["us_predicted"] <= unknown["us_predicted_cold"]
    assert cold["us_predicted_cold"] is None
    assert absent["us_predicted"] is None
    assert "NoSuchOperator" in absent["reason"]
    assert "Ascend1" in chip["reason"]


def test_text_lists_what_was_not_predicted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_csv(tmp_path / "rows.csv", record(), record(id="X-3", op="NoSuchOperator"))
    text = run(capsys, str(path))
    assert "spearman" in text
    assert "not predicted" in text
    assert "X-3" in text


def test_halves_partition_the_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_csv(tmp_path / "rows.csv", *(record(id=f"X-{i}") for i in range(12)))
    ids = [{r["id"] for r in json.loads(run(capsys, str(path), "--json", "--half", h))["rows"]} for h in "ab"]
    assert ids[0] and ids[1]
    assert not ids[0] & ids[1]
    assert len(ids[0] | ids[1]) == 12


def test_workers_change_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_csv(tmp_path / "rows.csv", *(record(id=f"X-{i}", us=str(10 + i)) for i in range(4)))
    one, two = (run(capsys, str(path), "--json", "--workers", n) for n in ("1", "2"))
    assert one == two
    assert main(["validate", str(path), "--workers", "0"]) == 2


def test_report_and_plots_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_csv(tmp_path / "rows.csv", record(), record(id="X-2", us="30"), record(id="X-3", op="NoSuchOperator"))
    page = tmp_path / "docs" / "accuracy.md"
    (tmp_path / "known_misses.csv").write_text('id,cause\nX-2,"a cause, with a comma"\nX-9,of no row\n')
    run(capsys, str(path), "--report", str(page))
    text = page.read_text()
    assert "## By chip and family" in text
    assert "NoSuchOperator" in text
    assert "a cause, with a comma" in text and "of no row" not in text
    svg = ElementTree.parse(page.parent / "img" / "accuracy-Ascend910B2-operators.svg").getroot()
    assert len(list(svg.iter("{http://www.w3.org/2000/svg}title"))) == 2


def test_unknown_states_are_scored_by_either_end_too() -> None:
    """Two rows of 100 us: one inside its interval of 50 to 200 us, one 20 % below its interval of 120 to 150 us."""
    inside = Outcome("1", "A", "norm", "X", us_measured=100.0, us_predicted=50.0, us_predicted_cold=200.0)
    below = Outcome("2", "A", "norm", "X", us_measured=100.0, us_predicted=120.0, us_predicted_cold=150.0)
    known = Outcome("3", "A", "norm", "X", us_measured=100.0, us_predicted=900.0)
    (s,) = score_states([inside, below, known])
    assert (s.rows, s.inside) == (2, 1)
    assert s.interval[0] == pytest.approx(0.1) and s.warm[0] == pytest.approx(0.35) and s.cold[0] == pytest.approx(0.75)
    assert s.middle[0] == pytest.approx((180**0.5 * 10 - 100) / 200)  # 0 and (sqrt(120 x 150) - 100) / 100
    assert s.width == pytest.approx((4 + 1.25) / 2)


def test_networks_need_their_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "models.csv"
    path.write_text("id,soc,model,input,batch,fps_one_chip,dtype,source\nM-1,Ascend310P3,Net,x,4,1000,FP16,s\n")
    assert main(["validate", str(path)]) == 2
    assert "--models" in capsys.readouterr().err
    found = json.loads(run(capsys, str(path), "--models", str(tmp_path), "--json"))["rows"][0]
    assert found["us_predicted"] is None
    assert "Net.onnx" in found["reason"]
    assert found["us_measured"] == pytest.approx(4000.0)


def test_a_missing_models_directory_is_named(tmp_path: Path) -> None:
    from ascend_sim.cli.validate_models import Models

    with pytest.raises(CommandError, match="no such directory"):
        Models(str(tmp_path / "none"))
