"""The fit of operator figures: what it varies exists, what it finds is a minimum."""

from __future__ import annotations

import pytest

from ascend_sim.profiling.calibration import OpRow, half_of, read_rows
from ascend_sim.profiling.fitted import fitted_on
from ascend_sim.soc import load_soc
from benchmarks.fit import DATA, FITS, Fit, Fitting


def rows() -> list[OpRow]:
    return [row for row in read_rows(DATA) if isinstance(row, OpRow)]


@pytest.mark.parametrize("item", FITS, ids=lambda item: item.name)
def test_every_figure_can_be_changed(item: Fit) -> None:
    for name in item.chips:
        soc = load_soc(name)
        changed = soc.override(item.change(soc, 3.0))
        assert item.value(changed) == 3.0
        assert changed.digest != soc.digest


def test_every_fitted_figure_of_910b2_is_refitted_or_of_other_data() -> None:
    """Figures whose source says "fit" are in `FITS`, but launch figures, fitted on 1937 kernels of profiles."""
    soc, known = load_soc("Ascend910B2"), {key for item in FITS for key in item.keys}
    left = {k for k, f in soc.figures.items() if fitted_on(f.source) is not None and k not in known}
    assert left <= {"launch.head_us", "launch.per_block_us", "memory.short_burst_bytes"}


def test_a_wrong_start_is_found_again() -> None:
    """GEMM and quantised products: with a third more start the rows of one half lead back to about the value."""
    chosen = [row for row in rows() if row.id.startswith("CB2-grouped_matmul")]
    fitting = Fitting(chosen, "a")
    item = Fit(("scalar.start.object",))
    right = item.value(fitting.chips["Ascend910B2"])
    fitting.chips = {n: c.override(item.change(c, right * 1.6)) for n, c in fitting.chips.items()}
    found = fitting.fit(item)
    assert found.new < 0.8 * found.old
    assert found.loss[1] < found.loss[0]
    assert all(half_of(row) == "a" for row in found.rows)
