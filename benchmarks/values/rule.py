"""How close instruction values and operator values must be.

* Integers, booleans, and operators that only move, compare or select: equal bit for bit. Quantised integers: within
  one step, since a value halfway between two may go either way.
* Otherwise each element may differ by `ULPS` units in the last place of its type, or by `SHARE` of the largest
  magnitude in the result (sums of many terms lose digits where they cancel). The instruction way rounds 16-bit
  intermediates that the stock kernels keep in 16 bits, and sums in the order of the cores.
* Ascend310 has exp and ln for float16 only, and neither division nor root: what needs one is held to `COARSE` instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]

ULPS = {"float16": 4, "bfloat16": 4, "float32": 512}
SHARE = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 5e-5}
COARSE = {"float16": (16, 4e-3), "float32": (2**15, 4e-3)}
COARSE_CHIPS = ("Ascend310",)


@dataclass(frozen=True)
class Verdict:
    """``error`` of the worst element as a share of what the rule allows (at most 1 passes); ``what`` it was."""

    error: float
    what: str = ""


def compare(got: Array, want: Array, chip: str, steps: int = 0) -> Verdict:
    """Judge one output. ``steps``: how far quantised integers may be apart."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return Verdict(float("inf"), f"{got.shape} {got.dtype}, expected {want.shape} {want.dtype}")
    if not want.size:
        return Verdict(0.0)
    name = "bfloat16" if want.dtype == ml_dtypes.bfloat16 else want.dtype.name
    if name not in ULPS:
        apart = np.abs(got.astype(np.float64) - want.astype(np.float64))
        worst = float(apart.max())
        return Verdict(worst / steps if steps else (float("inf") if worst else 0.0), f"off by {worst:g}")
    a, b = got.astype(np.float64), want.astype(np.float64)
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return Verdict(float("inf"), "infinite or undefined on one side only")
    finite = np.isfinite(b)
    if not finite.any():
        return Verdict(0.0)
    a, b = a[finite], b[finite]
    ulps, share = COARSE.get(name, (ULPS[name], SHARE[name])) if chip in COARSE_CHIPS else (ULPS[name], SHARE[name])
    eps = float(ml_dtypes.finfo(want.dtype).eps)
    allowed = np.maximum(ulps * eps * np.abs(b), share * max(float(np.abs(b).max()), 2.0**-14))
    ratio = np.abs(a - b) / allowed
    at = int(ratio.argmax())
    return Verdict(float(ratio[at]), f"{a[at]:.6g}, expected {b[at]:.6g}")
