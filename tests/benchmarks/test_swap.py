"""The same operators on several chips: ratios and their reasons."""

from __future__ import annotations

import sys
from math import prod
from pathlib import Path

import pytest

from ascend_sim.soc import load_soc

sys.path.append(str(Path(__file__).parents[2]))

from benchmarks.swap import CHIPS, OPERATORS, REFERENCE, compare


@pytest.mark.parametrize("what", list(OPERATORS))
def test_factors_make_up_the_ratio(what: str) -> None:
    reference = load_soc(REFERENCE)
    found = {name: compare(what, load_soc(name), reference) for name in CHIPS}
    for c in found.values():
        assert prod(c.factors.values()) * c.design == pytest.approx(c.ratio)
        assert c.reason and not c.report.estimated
    assert found[REFERENCE].ratio == 1
    # 910B4 has fewer cores, a slower clock, half the L2 and half the memory rate
    assert found["Ascend910B4"].ratio > 1 >= found["Ascend910B1"].ratio > 0.9


def test_reasons_name_what_differs() -> None:
    reference = load_soc(REFERENCE)
    add = compare("Add of 64 MB tensors", load_soc("Ascend910B4"), reference)  # 192 MB do not fit into 96 MiB
    assert add.factors["L2"] > 1.5 and add.factors["memory"] > 1.5 and "L2 of 96 MiB" in add.reason
    gemm = compare("GEMM 4096 x 4096 x 4096", load_soc("Ascend910B1"), reference)
    assert "1850 MHz" in gemm.reason and gemm.ratio == pytest.approx(1800 / 1850, rel=0.01)
