"""fp16 to float32 and back, block by block.

NumPy's own casts take up to 90 ns for an element that becomes a subnormal fp16 (each one raises a floating-point
flag); these take the same few nanoseconds for every value and give the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_BLOCK = 1 << 14  # elements; three 64 KiB buffers stay in the second-level cache
_SMALL = 1 << 8  # below this NumPy's own cast costs less than the calls
_MAGNITUDE = np.int32(0x7FFFFFFF)
_EXPONENT = np.int32(0x7F800000)
_OVERFLOW = 0x477FF000  # bits of 65520.0, the least float32 that rounds to infinity
_LEAST_EXPONENT = np.int32(113 << 23)  # 2**-14, the least normal fp16
_STEP = np.int32(13 << 23)  # adding 2**13 times the value's own power of two leaves ten fraction bits
_REBIAS = np.int32(126 << 10)
_SIGN = np.int32(0x8000)

_table: list[NDArray[np.float32]] = []


def to_float32(x: NDArray[np.float16]) -> NDArray[np.float32]:
    """Exact widening."""
    if x.size < _SMALL:
        return x.astype(np.float32)
    if not _table:
        with np.errstate(all="ignore"):
            _table.append(np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32))
    bits = np.ascontiguousarray(x).view(np.uint16)
    return np.take(_table[0], bits)


def to_half(x: NDArray[np.float32], out: NDArray[np.float16] | None = None) -> NDArray[np.float16]:
    """Round to nearest even; overflow gives infinity, NaN stays NaN. ``out`` must be C-contiguous."""
    if out is None:
        out = np.empty(x.shape, np.float16)
    if x.size < _SMALL or not x.flags.c_contiguous:
        _plain(x, out)
        return out
    flat, target = x.reshape(-1), out.reshape(-1)
    size = min(_BLOCK, x.size)
    bits, power = np.empty(size, np.int32), np.empty(size, np.int32)
    for start in range(0, x.size, size):
        part = flat[start : start + size]
        _round_block(part, target[start : start + size], bits[: part.size], power[: part.size])
    return out


def _plain(x: Array, out: Array) -> None:
    with np.errstate(all="ignore"):
        np.copyto(out, x, casting="unsafe")


def _round_block(x: Array, out: Array, bits: NDArray[np.int32], power: NDArray[np.int32]) -> None:
    """With e the exponent of |x| (at least -14): |x| + 2**(e + 13) has round(|x| / 2**(e - 10)) in its low bits,
    the significand of the nearest fp16."""
    word = x.view(np.int32)
    np.bitwise_and(word, _MAGNITUDE, out=bits)
    if bits.max() >= _OVERFLOW:
        _plain(x, out)
        return
    np.bitwise_and(bits, _EXPONENT, out=power)
    np.maximum(power, _LEAST_EXPONENT, out=power)
    np.add(power, _STEP, out=power)
    number = bits.view(np.float32)
    np.add(number, power.view(np.float32), out=number)
    np.subtract(bits, power, out=bits)  # significand, hidden bit included
    np.right_shift(power, 13, out=power)
    np.add(bits, power, out=bits)
    np.right_shift(word, 16, out=power)
    np.bitwise_and(power, _SIGN, out=power)
    np.subtract(power, _REBIAS, out=power)
    np.add(bits, power, out=bits)
    np.copyto(out.view(np.uint16), bits, casting="unsafe")
