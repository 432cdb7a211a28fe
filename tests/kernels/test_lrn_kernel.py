"""LRN, instruction by instruction, against its formula in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

ATTRS = {"depth_radius": 2, "alpha": 0.02, "beta": 0.75, "bias": 1.0}


def lrn(x: np.ndarray, radius: int, alpha: float, beta: float, bias: float) -> np.ndarray:
    wide = x.astype(np.float64)
    padded = np.pad(np.square(wide), ((0, 0), (radius, radius), (0, 0), (0, 0)))
    total = sum(padded[:, d : d + x.shape[1]] for d in range(2 * radius + 1))
    return np.asarray(wide / (bias + alpha * total) ** beta)


@pytest.mark.parametrize("chip", ["Ascend310", "Ascend310P3", "Ascend910A", "Ascend910B4", "Ascend310B1"])
@pytest.mark.parametrize("shape", [(2, 7, 5, 5), (1, 40, 13, 17), (1, 256, 7, 10), (3, 1, 8, 8)])
def test_planes_of_any_size(run_op: Any, chip: str, shape: tuple[int, ...]) -> None:
    x = (np.random.default_rng(0).standard_normal(shape) * 3).astype(np.float16)
    (got,), _ = run_op("LRN", [x], chip, **ATTRS)
    expected = lrn(x, min(2, shape[1] - 1), 0.02, 0.75, 1.0)
    exact = chip != "Ascend310"  # which has no float32 exp
    np.testing.assert_allclose(got, expected, rtol=2e-3 if exact else 1e-2, atol=1e-3 if exact else 4e-3)
