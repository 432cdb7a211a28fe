"""Micro-kernels against what was measured of single instructions and data paths on boards."""

from __future__ import annotations

import statistics
import sys
from functools import lru_cache
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.micro.reasons import reason
from benchmarks.micro.rows import Outcome, outcomes
from benchmarks.micro.tables import tables


@lru_cache(maxsize=1)
def rows() -> tuple[Outcome, ...]:
    return tuple(outcomes())


@pytest.mark.parametrize(("kind", "median", "high"), [("instruction", 0.03, 0.12), ("path", 0.04, 0.16)])
def test_rows_of_910b(kind: str, median: float, high: float) -> None:
    """Ascend/mskpp prof_data (910B1, 910B3) and the asc-devkit data_copy sample."""
    errors = sorted(abs(r.error) for r in rows() if r.kind == kind and r.error is not None)
    assert len(errors) > 160
    assert statistics.median(errors) <= median
    assert errors[int(0.9 * len(errors))] <= high


def test_rows_far_off_are_few_and_explained() -> None:
    far = [r for r in rows() if r.error is None or abs(r.error) > 0.20]
    assert len(far) <= 6
    assert all(reason(r) for r in far)


def test_most_instructions_are_issued_by_the_kernel_language() -> None:
    recorded = {r.what.split()[0] for r in rows() if r.kind == "instruction" and r.note}
    fused = {"VADDRELUCONV", "VSUBRELUCONV", "VMULCONV", "VSUBRELU", "VCONVDEQ", "VCONVVDEQ"}
    assert recorded <= fused | {"VCMP", "VCONV", "VMRGSORT", "VREDUCE"}


def test_tables_of_single_instructions() -> None:
    """hw-native-sys/pto-isa fits on 910B3, Ascend/mskpp mmad series, hicann/asc-devkit tests/perf."""
    lines = [line for _, found in tables() for line in found]
    assert len(lines) > 45
    assert statistics.median(abs(line.error) for line in lines) <= 0.02
    off = {line.what for line in lines if abs(line.error) > 0.08}
    assert off <= {"vmul float32, per repeat"}  # 2.3 alone, 2.0 in a stream
