"""Number formats of the AI Core: element types, rounding modes, saturation, conversion.

Rounding modes and saturation follow asc-devkit, page precision_conversion (see `cast_values`).
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ascend_sim.isa.enums import RoundMode

Array = NDArray[Any]


class DataType:
    """An element type. One object per type, so identity comparison is enough.

    ``name`` is the long name (``float16``), ``short`` the name used in the chip tables (``f16``), ``bits`` the
    width, ``size`` the bytes (1 for int4, which is stored two to a byte), ``np`` the NumPy type of its values.
    """

    __slots__ = ("bits", "block", "kind", "name", "np", "short", "size")

    def __init__(
        self, name: str, short: str | None = None, bits: int = 0, numpy_type: Any = None, kind: str = ""
    ) -> None:
        if short is None:  # looked up, complete already
            return
        self.name, self.short, self.bits, self.kind = name, short, bits, kind
        self.np: np.dtype[Any] = np.dtype(numpy_type)
        self.size = max(bits // 8, 1)
        self.block = 256 // bits  # elements in a 32-byte block; also C0 of cube fractals

    def __new__(cls, name: str, *rest: Any) -> DataType:
        """``DataType("float16")`` is the type of that name."""
        if rest:
            return super().__new__(cls)
        return as_dtype(name)

    def sizeof(self) -> int:
        """Bytes of one element."""
        return self.size

    def is_float(self) -> bool:
        return self.kind == "f"

    def is_int(self) -> bool:
        return self.kind in "iu"

    def is_signed(self) -> bool:
        return self.kind == "i"

    def is_unsigned(self) -> bool:
        return self.kind == "u"

    def is_numeric(self) -> bool:
        return True

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return (as_dtype, (self.name,))


float16 = DataType("float16", "f16", 16, np.float16, "f")
bfloat16 = DataType("bfloat16", "bf16", 16, ml_dtypes.bfloat16, "f")
float32 = DataType("float32", "f32", 32, np.float32, "f")
float64 = DataType("float64", "f64", 64, np.float64, "f")
int4 = DataType("int4", "s4", 4, ml_dtypes.int4, "i")
int8 = DataType("int8", "s8", 8, np.int8, "i")
uint8 = DataType("uint8", "u8", 8, np.uint8, "u")
int16 = DataType("int16", "s16", 16, np.int16, "i")
uint16 = DataType("uint16", "u16", 16, np.uint16, "u")
int32 = DataType("int32", "s32", 32, np.int32, "i")
uint32 = DataType("uint32", "u32", 32, np.uint32, "u")
int64 = DataType("int64", "s64", 64, np.int64, "i")
uint64 = DataType("uint64", "u64", 64, np.uint64, "u")

DTYPES: dict[str, DataType] = {
    t.name: t
    for t in (float16, bfloat16, float32, float64, int4, int8, uint8, int16, uint16, int32, uint32, int64, uint64)
}
_ALIASES = {"half": float16, "float": float32, "double": float64, "bool": uint8, "bf16": bfloat16}
_ALIASES.update({t.short: t for t in DTYPES.values()})


def as_dtype(value: Any) -> DataType:
    """The `DataType` of a name, a NumPy type or a `DataType`. Raises TypeError for anything else."""
    if isinstance(value, DataType):
        return value
    name = value if isinstance(value, str) else np.dtype(value).name
    found = DTYPES.get(name) or _ALIASES.get(name)
    if found is None:
        raise TypeError(f"data type {value!r} is not known; expected one of {', '.join(DTYPES)}")
    return found


def _bits_of(x: Array) -> Array:
    return x.view({2: np.uint16, 4: np.uint32}[x.dtype.itemsize])


def _narrow_float(x: Array, dst: DataType, mode: int) -> Array:
    """Round float64/float32 values to a narrower float format (or the same one: identity)."""
    with np.errstate(over="ignore", invalid="ignore"):
        near = x.astype(dst.np)
        if mode in (RoundMode.CAST_NONE, RoundMode.CAST_RINT):
            return near
        exact, back = x.astype(np.float64), near.astype(np.float64)
    bits = _bits_of(near)
    finite = np.isfinite(exact)
    # magnitudes are ordered like their bit patterns, so -1 and +1 step towards and away from zero
    toward = np.where((np.abs(back) > np.abs(exact)) & finite, bits - bits.dtype.type(1), bits)
    low = toward.view(dst.np).astype(np.float64)
    inexact = finite & (low != exact)
    away = toward + bits.dtype.type(1)
    if mode == RoundMode.CAST_TRUNC:
        step = np.zeros(x.shape, bool)
    elif mode == RoundMode.CAST_FLOOR:
        step = inexact & (exact < 0)
    elif mode == RoundMode.CAST_CEIL:
        step = inexact & (exact > 0)
    elif mode == RoundMode.CAST_ODD:
        step = inexact & (toward & 1 == 0)
    else:  # half away from zero: the first dropped bit decides
        gap = np.abs(away.view(dst.np).astype(np.float64) - low)
        top = np.isinf(gap)
        gap[top] = np.abs(low - (toward - bits.dtype.type(1)).view(dst.np).astype(np.float64))[top]
        step = inexact & (np.abs(exact - low) * 2 >= gap)
    return np.where(step, away, toward).astype(bits.dtype).view(dst.np)


def round_to_integer(x: Array, mode: int) -> Array:
    """Values rounded to integers (same floating type). ``CAST_NONE`` rounds half to even, like ``CAST_RINT``."""
    if mode in (RoundMode.CAST_NONE, RoundMode.CAST_RINT):
        return np.rint(x)
    if mode == RoundMode.CAST_FLOOR:
        return np.floor(x)
    if mode == RoundMode.CAST_CEIL:
        return np.ceil(x)
    whole = np.trunc(x)
    if mode == RoundMode.CAST_TRUNC:
        return whole
    if mode == RoundMode.CAST_ROUND:
        return np.where(np.abs(x - whole) >= 0.5, whole + np.sign(x), whole)
    return np.where((x != whole) & (np.mod(whole, 2) == 0), whole + np.sign(x), whole)  # odd


def float_max(dtype: DataType) -> float:
    """Largest finite value of a float type (65504 for float16)."""
    return float(ml_dtypes.finfo(dtype.np).max)  # type: ignore[no-untyped-call]


def integer_range(dtype: DataType) -> tuple[int, int]:
    """(min, max) of an integer type."""
    top = 1 << (dtype.bits - (dtype.kind == "i"))
    return (-top if dtype.kind == "i" else 0), top - 1


def cast_values(x: Array, dst: DataType, mode: int = RoundMode.CAST_NONE, saturate: bool = True) -> Array:
    """Convert values to ``dst`` as the vector unit does.

    RINT half to even, FLOOR, CEIL, ROUND half away from zero, TRUNC, ODD (von Neumann: an inexact result gets an
    odd last bit), NONE exact or RINT. Integers always saturate; NaN becomes 0. A float result beyond the range
    becomes the largest finite value when ``saturate`` (infinities too, NaN becomes 0), else infinity.
    Source: asc-devkit, pages precision_conversion and Cast.
    """
    if dst.kind == "f":
        if x.dtype.kind in "iu":
            x = x.astype(np.float64)
        if (x.dtype == np.float32 and dst is float32) or x.dtype == np.float16:
            wide: Array = x
        else:
            wide = x if x.dtype == np.float64 else x.astype(np.float32)
        if dst.np == wide.dtype:  # a float type to itself: rounding modes give integer values
            same = x.dtype == dst.np and mode != RoundMode.CAST_NONE
            return round_to_integer(wide, mode) if same else wide.copy()
        y = wide.astype(dst.np) if dst.size > wide.dtype.itemsize else _narrow_float(wide, dst, mode)
        if saturate and dst.size < 4 and dst is not bfloat16:
            top = float_max(dst)
            y = np.where(np.isnan(y), y, np.clip(y, -top, top)).astype(dst.np)
        return y
    low, high = integer_range(dst)
    if x.dtype.kind not in "iu":
        values = round_to_integer(x.astype(np.float64), mode)
        values = np.where(np.isnan(values), 0.0, values)
        if dst.bits == 64:  # 2**63 - 1 has no float64: clip below, then fix the top
            big = values >= 2.0**63
            out = np.where(big, 0.0, np.maximum(values, float(low))).astype(dst.np)
            out[big] = high
            return out
        return np.clip(values, low, high).astype(dst.np)
    whole: Array = np.clip(x.astype(np.int64) if x.dtype != np.uint64 else x, low, high).astype(dst.np)
    return whole


def pack_int4(values: Array) -> Array:
    """Two 4-bit integers to a byte, the first in the low half. Length must be even."""
    nibbles = values.astype(np.int8).view(np.uint8) & 0xF
    return nibbles[..., 0::2] | (nibbles[..., 1::2] << 4)


def unpack_int4(data: Array) -> Array:
    """Inverse of `pack_int4`: signed values, low half first."""
    nibbles = np.stack([data & 0xF, data >> 4], -1).reshape(*data.shape[:-1], -1).astype(np.int8)
    signed: Array = np.where(nibbles > 7, nibbles - 16, nibbles).astype(np.int8)
    return signed
