"""Short rows on chips that move whole blocks only: narrow transposes, gathers of single elements, Casts of int64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascend_sim.ops.registry import NoKernel

CHIPS = ("Ascend310P3", "Ascend910A")


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(
    ("shape", "perm"),
    [
        ((4, 5, 258), (0, 2, 1)),
        ((4, 258, 5), (0, 2, 1)),
        ((3, 2000), (1, 0)),
        ((1999, 3), (1, 0)),
        ((7, 3, 250), (2, 0, 1)),
        ((40, 9, 17), (0, 2, 1)),
    ],
    ids=str,
)
def test_narrow_transposes(run_op: Any, close: Any, chip: str, shape: tuple[int, ...], perm: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float16)
    close(*run_op("TransposeD", [x], chip, perm=perm))


def test_rows_that_are_not_together_are_left_to_the_estimate(run_op: Any) -> None:
    with pytest.raises(NoKernel, match="shorter than a block"):
        run_op("TransposeD", [np.zeros((2, 300, 3, 4), np.float16)], "Ascend310P3", perm=(0, 3, 2, 1))


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("length", [1, 3])
def test_gathers_of_short_rows(run_op: Any, close: Any, chip: str, index: Any, length: int) -> None:
    """Windows of a signal, as speech networks cut them."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 1, 835, length) if length > 1 else (4, 1, 835)).astype(np.float16)
    windows = (np.arange(5)[:, None] * 144 + np.arange(257) - 3).astype(index)
    close(*run_op("GatherV2", [x, windows, np.asarray([2])], chip, const=(2,), batch_dims=0))


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("target", ["bool", "int32", "float16", "float32"])
@pytest.mark.parametrize("count", [1, 5, 32, 128, 333])
def test_casts_of_int64(run_op: Any, close: Any, chip: str, target: str, count: int) -> None:
    x = np.random.default_rng(0).integers(-3, 3, count) * (1 if target == "float16" else 2**20)
    if target == "bool":
        x <<= 32  # no low word says so
    (got,), (want,) = run_op("Cast", [x], chip, dst_type=target)
    np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))
