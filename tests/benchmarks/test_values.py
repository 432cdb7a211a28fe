"""Instruction values against operator values for every kernel, and operator values against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.values.__main__ import covered, run
from benchmarks.values.cases import CHIPS
from benchmarks.values.rule import compare


def test_kernels_have_cases() -> None:
    """A new kernel gets its cases in `benchmarks.values` at the latest when the long test runs."""
    with_cases, without = covered()
    assert len(with_cases) >= 178
    assert len(without) <= 0.03 * len(with_cases), without


@pytest.mark.slow
def test_every_kernel_has_cases() -> None:
    assert not covered()[1]


def test_one_case_of_every_kernel() -> None:
    tallies = list(run(covered()[0], 1, 11))
    assert not [text for t in tallies for text in t.failures]
    assert sum(t.ran for t in tallies) == len(tallies)
    assert set().union(*(t.chips for t in tallies)) == set(CHIPS)


@pytest.mark.slow
def test_a_thousand_cases() -> None:
    tallies = list(run(covered()[0], 8, 5))
    assert not [text for t in tallies for text in t.failures]
    assert sum(t.ran for t in tallies) >= 1000


@pytest.mark.slow
def test_operator_values_against_pytorch() -> None:
    pytest.importorskip("torch")
    from benchmarks.values.torch_judge import report

    assert not report(8, 3)


def test_rule() -> None:
    """Four units in the last place of a half, or two thousandths of the largest value; integers exactly."""
    want = np.asarray([1.0, 100.0, 0.0], np.float16)
    close = want + np.asarray([0.19, 0.3, 0.19], np.float16)
    assert compare(close, want, "Ascend910B2").error <= 1
    assert compare(want + np.float16(0.3), want, "Ascend910B2").error > 1
    whole = np.asarray([1, 2], np.int32)
    assert compare(whole, whole, "Ascend310").error == 0
    assert compare(whole + 1, whole, "Ascend310").error > 1
    assert compare(whole + 1, whole, "Ascend310", steps=1).error == 1
    assert compare(want.astype(np.float32), want, "Ascend310").error > 1
