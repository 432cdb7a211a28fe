"""Pow of two tensors, instruction by instruction, against NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

BASES = (-3.0, -2.0, -1.5, -1.0, -0.5, 0.0, 0.25, 0.5, 1.0, 2.0, 3.5)
POWERS = (-3.0, -2.0, -1.0, -0.5, 0.0, 0.01, 0.5, 1.0, 2.0, 2.5, 3.0)


@pytest.mark.parametrize("chip", ["Ascend310P3", "Ascend310B1", "Ascend910A", "Ascend910B2"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_powers(run_op: Any, chip: str, dtype: str) -> None:
    """Odd and even powers of negative numbers, broken ones (NaN), powers of zero; broadcast. Conversion to float16
    saturates on older chips, so magnitudes are compared up to its largest number."""
    rng = np.random.default_rng(0)
    x = rng.choice(BASES, (37, 65)).astype(dtype)
    y = rng.choice(POWERS, (37, 65)).astype(dtype)
    close = 2e-3 if dtype == "float16" else 1e-5
    for base, power in ((x, y), (x, y[:1])):
        with np.errstate(all="ignore"):
            (got,), _ = run_op("Pow", [base, power], chip)
            want = np.power(base.astype(np.float64), power.astype(np.float64)).astype(dtype)
        sizes = [np.clip(v.astype(np.float64), -65504, 65504) for v in (got, want)]
        np.testing.assert_allclose(*sizes, rtol=close, atol=1e-30, equal_nan=True)
