"""The check of scaled gradients as instructions against NumPy: one launch for all tensors, whatever their sizes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

TYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
SIZES = [(7,), (64, 65), (1, 3, 1), (5000, 90), (1 << 15,)]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("bad", [None, np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("place", [(0, 6), (2, 1), (3, 449_999), (4, 0)])
def test_check_and_unscale(run_op: Any, dtype: str, bad: float | None, place: tuple[int, int]) -> None:
    rng = np.random.default_rng(place)
    grads = [rng.standard_normal(s).astype(TYPES[dtype]) for s in SIZES]
    if bad is not None:
        grads[place[0]].reshape(-1)[place[1]] = bad
    inputs = [*grads, np.zeros(1, np.float32), np.asarray(1 / 128, np.float32)]
    got, _ = run_op("ForeachNonFiniteCheckAndUnscale", inputs, "Ascend910B2")
    for mine, grad in zip(got, grads, strict=False):
        expected = (grad.astype(np.float32) * np.float32(1 / 128)).astype(TYPES[dtype])
        finite = np.isfinite(expected.astype(np.float32))  # conversion to float16 saturates
        np.testing.assert_array_equal(mine[finite].astype(np.float32), expected[finite].astype(np.float32))
        assert finite.sum() >= finite.size - 1
    assert got[-1].item() == (0.0 if bad is None else 1.0)


def test_an_earlier_finding_stays(run_op: Any) -> None:
    inputs = [np.ones(3, np.float32), np.ones(1, np.float32), np.ones((), np.float32)]
    got, _ = run_op("ForeachNonFiniteCheckAndUnscale", inputs, "Ascend910B2")
    assert got[-1].item() == 1.0


@pytest.mark.parametrize("chip", ["Ascend310P3", "Ascend910A", "Ascend910B2"])
@pytest.mark.parametrize(
    ("scale", "tracker", "found", "expected"),
    [
        (65536.0, 3, 0.0, (65536.0, 4)),
        (65536.0, 4, 0.0, (131072.0, 0)),
        (65536.0, 4, 1.0, (32768.0, 0)),
        (65536.0, 0, 2.0, (32768.0, 0)),
        (2.0**127, 4, 0.0, (2.0**127, 0)),  # twice that is not finite
    ],
)
def test_update_of_the_scale(
    run_op: Any, chip: str, scale: float, tracker: int, found: float, expected: tuple[float, int]
) -> None:
    inputs = [np.asarray([scale], np.float32), np.asarray([tracker], np.int32), np.asarray([found], np.float32)]
    got, want = run_op("AmpUpdateScale", inputs, chip, growth_factor=2.0, backoff_factor=0.5, growth_interval=5)
    for results in (got, want):
        assert (results[0].item(), results[1].item()) == expected
