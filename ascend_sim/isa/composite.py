"""Semantics of the vector instructions that compute and convert at once, and of the dequantising conversions.

Products and sums are formed in float32 (integers in int64) and narrowed once, half to even, saturating. Source:
asc-devkit, pages MulCast, AddReluCast, SubReluCast, AddDeqRelu, CastDequant, SetDeqScale, BilinearInterpolation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.isa.buffers import BLOCK, View
from ascend_sim.isa.dtypes import cast_values
from ascend_sim.isa.enums import RoundMode
from ascend_sim.isa.fixpipe import multiplier
from ascend_sim.isa.instr import Pipe
from ascend_sim.isa.lanes import Lanes, active, read_lanes, used_lanes, write_lanes
from ascend_sim.isa.rows import instruction

Array = NDArray[Any]
V = Pipe.V


def _wide(values: Array) -> Array:
    return values.astype(np.int64) if values.dtype.kind in "iu" else values.astype(np.float32)


@instruction(
    "vmulconv", "mul_cast", V, "dst = src0 x src1 narrowed to 8 bits, half to even, saturating",
    "half sources, int8 or uint8 destination", "masks and repeats count the sources",
)  # fmt: skip
def run_mul_cast(dst: View, a: View, b: View, lanes: Lanes) -> None:
    with np.errstate(all="ignore"):
        values = _wide(read_lanes(a, lanes, 1)) * _wide(read_lanes(b, lanes, 2))
        write_lanes(dst, lanes, cast_values(values, dst.dtype, RoundMode.CAST_RINT))


@instruction(
    "vaddreluconv", "add_relu_cast", V, "dst = max(src0 + src1, 0) narrowed, half to even, saturating",
    "half to int8, int16 to int8, float32 to half", "masks and repeats count the sources",
)  # fmt: skip
def run_add_relu_cast(dst: View, a: View, b: View, lanes: Lanes) -> None:
    with np.errstate(all="ignore"):
        values = _wide(read_lanes(a, lanes, 1)) + _wide(read_lanes(b, lanes, 2))
        write_lanes(dst, lanes, cast_values(np.maximum(values, 0), dst.dtype, RoundMode.CAST_RINT))


@instruction(
    "vsubreluconv", "sub_relu_cast", V, "dst = max(src0 - src1, 0) narrowed, half to even, saturating",
    "half to int8, int16 to int8, float32 to half", "masks and repeats count the sources",
)  # fmt: skip
def run_sub_relu_cast(dst: View, a: View, b: View, lanes: Lanes) -> None:
    with np.errstate(all="ignore"):
        values = _wide(read_lanes(a, lanes, 1)) - _wide(read_lanes(b, lanes, 2))
        write_lanes(dst, lanes, cast_values(np.maximum(values, 0), dst.dtype, RoundMode.CAST_RINT))


@instruction(
    "vadddeqrelu", "add_deq_relu", V, "dst = max(half((src0 + src1) x scale), 0) with the scale of set_deq_scale",
    "int32 sources, half destination", "masks and repeats count the sources",
)  # fmt: skip
def run_add_deq_relu(dst: View, a: View, b: View, lanes: Lanes, scale: float) -> None:
    """The sum wraps in 32 bits; the product is rounded once."""
    with np.errstate(all="ignore"):
        total = read_lanes(a, lanes, 1) + read_lanes(b, lanes, 2)
        values = cast_values(total.astype(np.float64) * np.float16(scale).astype(np.float64), dst.dtype)
        write_lanes(dst, lanes, np.maximum(values, dst.dtype.np.type(0)))


@instruction(
    "vconv_deq", "cast_deq", V, "dst = src x scale + offset narrowed, half to even, saturating, with the parameters of"
    " set_deq_scale: int16 to 8 bits, or int32 to half without offset",
    "8-bit results fill one half of their 32-byte block", "int8 with sign_mode, uint8 without",
)  # fmt: skip
def run_cast_deq(dst: View, src: View, lanes: Lanes, words: Array, upper: bool) -> None:
    """int16 to 8 bits: ``words`` is one parameter word, or sixteen that each belong to a lane of a block. Block b of
    the source goes to block b of the destination, to its upper half when ``upper``."""
    x = read_lanes(src, lanes, 1)
    lane = np.arange(x.shape[-1]) % len(words)
    scale = multiplier(words)[lane].astype(np.float64)
    offset = (words >> np.uint64(37) & np.uint64(511)).astype(np.int64)
    offset = np.where(offset > 255, offset - 512, offset)[lane]
    signed = (words >> np.uint64(46) & np.uint64(1)).astype(bool)[lane]
    whole = np.rint(x.astype(np.float64) * scale + offset)
    whole = np.where(signed, np.clip(whole, -128, 127), np.clip(whole, 0, 255)).astype(np.int64)
    out = (whole & 0xFF).astype(np.uint8)
    half = 16 if upper else 0
    if lanes.n >= 0:
        blocks = -(-lanes.n // 16)
        target = dst.strided((blocks, 16), (BLOCK, 1), half).view(np.uint8)
        padded = np.zeros(blocks * 16, np.uint8)
        padded[: lanes.n] = out
        keep = np.arange(blocks * 16) < lanes.n
        np.copyto(target, padded.reshape(blocks, 16), where=keep.reshape(blocks, 16))
        return
    used = used_lanes(lanes, 16)
    strides = (lanes.rep[0] * BLOCK, lanes.blk[0] * BLOCK, 1)
    target = dst.strided((lanes.repeats, used // 16, 16), strides, half).view(np.uint8)
    on = active(lanes)
    values = out[:, :used].reshape(target.shape)
    if on is None:
        target[...] = values
    else:
        np.copyto(target, values, where=on[:, :used].reshape(target.shape))


@instruction(
    "vbi", "bilinear_interpolation", V, "dst = sum over h_repeat of gathered 32-byte blocks x weights, v_repeat times",
    "half only; offsets are multiples of 32", "repeat_mode false: one weight per repeat, true: one per block",
    "h_repeat and v_repeat 1..255, v_r_offset 128..65534 elements",
)  # fmt: skip
def run_bilinear(
    dst: View, src: View, offsets: View, weights: View, lanes: Lanes, h_repeat: int, per_block: bool, v_offset: int,
    v_repeat: int, limit: int,
) -> None:  # fmt: skip
    """``lanes`` describe one repeat of the destination. Products and partial sums are rounded to half."""
    repeats = h_repeat * v_repeat
    where = offsets.flat(repeats * 8).astype(np.int64)
    bad = (where < 0) | (where + BLOCK > limit) | (where % BLOCK != 0)
    if bad.any():
        raise IndexError(f"offset {int(where[bad][0])} is outside the source of {limit} bytes or not a multiple of 32")
    table = src.flat(limit // BLOCK * 16).reshape(-1, 16)
    blocks = table[where // BLOCK].reshape(repeats, 8, 16)
    w = weights.flat(repeats * (8 if per_block else 1)).reshape(repeats, -1, 1)
    with np.errstate(all="ignore"):
        products = (blocks.astype(np.float32) * w.astype(np.float32)).astype(np.float16)
        products = products.reshape(v_repeat, h_repeat, 128)
        for v in range(v_repeat):
            total = products[v, 0]
            for h in range(1, h_repeat):
                total = (total.astype(np.float32) + products[v, h].astype(np.float32)).astype(np.float16)
            used = used_lanes(lanes)
            on = active(lanes)
            target = dst.strided((1, -(-used // 16), 16), (0, lanes.blk[0] * BLOCK, 2), v * v_offset * 2)
            values = total[:used].reshape(target.shape)
            np.copyto(target, values, where=True if on is None else on.reshape(target.shape))
