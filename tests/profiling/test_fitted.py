"""Fitted figures: recognised by their source, and never fitted on fewer than three measurements."""

from __future__ import annotations

from pathlib import Path

import pytest

from ascend_sim.cli.validate import predict_op
from ascend_sim.profiling.accuracy import Outcome
from ascend_sim.profiling.calibration import OpRow, read_rows
from ascend_sim.profiling.fitted import LEAST_ROWS, fitted_figures, fitted_on
from ascend_sim.soc import load_soc, soc_names

ROWS = Path(__file__).parents[2] / "benchmarks" / "data" / "ops_calibration.csv"


@pytest.mark.parametrize(
    ("source", "rows"),
    [
        ("fit over 26 public GEMM times (910B1, 910B2): 72 to 83", 26),
        ("fits over public 910B2 (43 kernels: 1220) and 910B1 (9 kernels: 1240) times", 43),
        ("fitted over 16 rows of models_calibration (first layer)", 16),
        ("fit over task minus core time of 1937 kernels", 1937),
        ("fitted to 310P3 networks", 0),
        ("fit over networks: 4.5 times slower", 0),
        ("Ascend/mskpp, measured on board, linear fit", None),
        ("assumed: inside the fitted kernel cost", None),
    ],
)
def test_a_source_says_how_many_measurements(source: str, rows: int | None) -> None:
    assert fitted_on(source) == rows


@pytest.mark.parametrize("name", soc_names())
def test_no_figure_is_fitted_on_fewer_than_three(name: str) -> None:
    few = {key: f.source for key, f in load_soc(name).figures.items()
           if (rows := fitted_on(f.source)) is not None and rows < LEAST_ROWS}  # fmt: skip
    assert not few


@pytest.mark.slow
def test_every_fitted_figure_of_910b_decides_three_rows() -> None:
    """Of 910B1 to 910B4 together: what was fitted decides more than the rows that one kernel gives."""
    rows = [row for row in read_rows(ROWS) if isinstance(row, OpRow) and row.soc.startswith("Ascend910B")]
    found = [f for f in fitted_figures([predict_op(row) for row in rows]) if f.users is not None]
    assert {f.keys: f.users for f in found if len(f.users or ()) < LEAST_ROWS} == {}
    keys = {key for f in found for key in f.keys}
    assert {"memory.core_l1_bytes_per_cycle", "launch.head_us"} <= keys


def test_figures_of_one_fit_are_one_parameter() -> None:
    """Im2col of 310P3 has one fitted rate for both buffers and all strides; its rows count together."""
    outcomes = [
        Outcome("1", "Ascend310P3", "model", "net", 1.0, figures=("mte.paths.L1_L0A:3d",)),
        Outcome("2", "Ascend310P3", "model", "net", 1.0, figures=("mte.paths.L1_L0B:3d", "mte.paths.L1_L0A:3d")),
        Outcome("3", "Ascend999", "model", "net", 1.0),
    ]
    (im2col,) = [f for f in fitted_figures(outcomes) if "mte.paths.L1_L0A:3d" in f.keys]
    assert "mte.paths.L1_L0B:3d" in im2col.keys
    assert im2col.users == ("1", "2") and im2col.chips == ("Ascend310P3",)
