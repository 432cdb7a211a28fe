"""Number formats against exact rational arithmetic and ml_dtypes."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_sim.isa.dtypes import (
    as_dtype,
    bfloat16,
    cast_values,
    float16,
    float32,
    int8,
    int16,
    int32,
    int64,
    pack_int4,
    uint8,
    unpack_int4,
)
from ascend_sim.isa.enums import RoundMode

MODES = [RoundMode.RINT, RoundMode.FLOOR, RoundMode.CEIL, RoundMode.ROUND, RoundMode.TRUNC, RoundMode.ODD]


def neighbours(x: float, dtype) -> tuple[Fraction, Fraction]:
    """Largest value <= x and smallest >= x of a 16-bit float format, found by search over all of them."""
    table = np.arange(65536, dtype=np.uint16).view(dtype).astype(np.float64)
    table = np.unique(table[np.isfinite(table)])
    at = np.searchsorted(table, x)
    if at < len(table) and table[at] == x:
        return Fraction(x), Fraction(x)
    return Fraction(float(table[at - 1])), Fraction(float(table[at]))


def expected(x: float, mode: int, low: Fraction, high: Fraction, odd) -> Fraction:
    exact = Fraction(x)
    if low == high:
        return low
    toward, away = (low, high) if x > 0 else (high, low)
    if mode == RoundMode.FLOOR:
        return low
    if mode == RoundMode.CEIL:
        return high
    if mode == RoundMode.TRUNC:
        return toward
    if mode == RoundMode.ODD:
        return toward if odd(toward) else away
    if exact - low != high - exact:
        return low if exact - low < high - exact else high
    if mode == RoundMode.ROUND:
        return away
    return high if odd(low) else low


@pytest.mark.parametrize("dtype", [float16, bfloat16])
@settings(max_examples=60, deadline=None)
@given(x=st.floats(-60000, 60000, width=32), mode=st.sampled_from(MODES))
def test_narrowing_floats(dtype, x: float, mode: int) -> None:
    low, high = neighbours(x, dtype.np)

    def odd(value: Fraction) -> bool:
        return bool(np.asarray(float(value)).astype(dtype.np).view(np.uint16) & 1)

    got = cast_values(np.array([x], np.float32), dtype, mode)
    assert Fraction(float(got[0])) == expected(x, mode, low, high, odd)


@pytest.mark.parametrize("dtype", [int8, uint8, int16, int32, int64])
@settings(max_examples=60, deadline=None)
@given(x=st.floats(width=32, allow_infinity=False, allow_nan=False), mode=st.sampled_from(MODES))
def test_float_to_integer(dtype, x: float, mode: int) -> None:
    whole = expected(x, mode, Fraction(math.floor(x)), Fraction(math.ceil(x)), lambda v: int(v) % 2 == 1)
    info = np.iinfo(dtype.np)
    got = cast_values(np.array([x], np.float32), dtype, mode)
    assert int(got[0]) == min(max(int(whole), info.min), info.max)


def test_saturation_and_special_values() -> None:
    big = np.array([1e6, -1e6, np.inf, -np.inf, np.nan], np.float32)
    assert cast_values(big, float16)[:4].tolist() == [65504, -65504, 65504, -65504]
    assert np.isinf(cast_values(big, float16, saturate=False)[:4]).all()
    assert cast_values(big, int8).tolist() == [127, -128, 127, -128, 0]
    assert cast_values(np.array([70000, -5], np.int32), int16).tolist() == [32767, -5]
    assert cast_values(np.array([2**62], np.int64), float32).tolist() == [2.0**62]


def test_widening_is_exact() -> None:
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    finite = halves[np.isfinite(halves)]
    np.testing.assert_array_equal(cast_values(finite, float32), finite.astype(np.float32))


def test_int4_packing() -> None:
    values = np.arange(-8, 8, dtype=np.int8)
    packed = pack_int4(values)
    assert packed[0] == 0x98  # -8 in the low half, -7 in the high half
    np.testing.assert_array_equal(unpack_int4(packed), values)


def test_names() -> None:
    assert as_dtype("half") is float16 and as_dtype(np.float32) is float32 and as_dtype("s8") is int8
    assert as_dtype(ml_dtypes.bfloat16) is bfloat16
    assert float16.sizeof() == 2 and float16.block == 16 and int8.block == 32
    with pytest.raises(TypeError, match="float19"):
        as_dtype("float19")
