"""Widening to the compute type and the single rounding at the end of an operator."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.ops.dtypes import HALF, INTEGER, numpy_dtype
from ascend_sim.ops.values._half import to_float32, to_half

Array = NDArray[Any]

_NARROW_FLOATS = frozenset(("float16", "bfloat16"))


def widen(array: Array) -> Array:
    """fp16 and bf16 as float32 (exact); every other type unchanged. The result may be the argument itself."""
    if array.dtype == np.float16:
        return to_float32(array)
    return array.astype(np.float32) if array.dtype.name in _NARROW_FLOATS else array


def float32(array: Array) -> Array:
    """Any real array as float32 (the argument itself when it is)."""
    if array.dtype == np.float16:
        return to_float32(array)
    return array if array.dtype == np.float32 else array.astype(np.float32)


def narrow(array: Array, dtype: str) -> Array:
    """Round once to ``dtype`` (nearest even; overflow of a half type gives infinity)."""
    target = numpy_dtype(dtype)
    array = np.asarray(array)
    if array.dtype == target:
        return array
    if array.dtype == np.float32 and target == np.float16:
        return to_half(array)
    with np.errstate(all="ignore"):
        return array.astype(target)


def round_into(array: Array, out: Array) -> None:
    """`narrow` into an array of the target type (broadcasting if need be)."""
    same = array.shape == out.shape
    if same and array.dtype == np.float32 and out.dtype == np.float16 and out.flags.c_contiguous:
        to_half(array, out)
        return
    with np.errstate(all="ignore"):
        np.copyto(out, array, casting="unsafe")


def convert(array: Array, dtype: str) -> Array:
    """Cast as the Cast operator does: float to integer truncates and saturates, NaN gives 0; integer to
    integer wraps; everything to float rounds to nearest even; to bool tests against zero."""
    target = numpy_dtype(dtype)
    source = array.dtype.name
    if array.dtype == target:
        return array
    if dtype in HALF and source in ("float16", "bfloat16", "float32"):
        return narrow(widen(array), dtype)
    if dtype == "float32" and source == "float16":
        return to_float32(array)
    if dtype in ("bool", "uint1"):
        nonzero: Array = widen(array) != 0
        return nonzero
    if dtype in INTEGER and (source in HALF or array.dtype.kind == "f"):
        if dtype == "int4":
            low, high = -8.0, 7.0
        else:
            info = np.iinfo(target)
            low, high = float(info.min), float(info.max)
        wide = np.trunc(array.astype(np.float64))
        wide = np.nan_to_num(wide, nan=0.0, posinf=high, neginf=low)
        out = np.clip(wide, low, high)
        if high >= 2.0**63:  # the float nearest to the largest integer lies above it
            return _saturate64(out, target)
        return out.astype(target)
    with np.errstate(all="ignore"):
        if source in HALF or source == "int4":
            array = array.astype(np.float32)
        return array.astype(target)


def _saturate64(values: Array, target: np.dtype[Any]) -> Array:
    info = np.iinfo(target)
    over = values >= float(info.max)
    out = np.where(over, 0.0, values).astype(target)
    return np.where(over, np.asarray(info.max, target), out)
