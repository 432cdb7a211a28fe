"""Semantics of the cube's exits: fixpipe (910B, 310B) and the L0C to unified buffer copy of coupled chips.

Quantisation (asc-devkit golden scripts, own words): value to float32, times the multiplier (its low 13 mantissa bits
are dropped), rounded half to even, clamped to 9 bits, plus a 9-bit offset, clamped to int8 or uint8. Plain casts use
half to even. Parameter word: bits 0-31 multiplier, 32-35 shift, 36 shift enable, 37-45 offset, 46 signed result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.isa.buffers import View
from ascend_sim.isa.dtypes import DataType, cast_values, float16, int8, int32, uint8
from ascend_sim.isa.enums import QuantModes, RoundMode
from ascend_sim.isa.instr import Pipe
from ascend_sim.isa.layout import CUBE, ceil_div
from ascend_sim.isa.mte import ATOMIC
from ascend_sim.isa.rows import instruction

Array = NDArray[Any]

VECTOR_QUANT = (QuantModes.VDEQF16, QuantModes.VQF322B8_PRE, QuantModes.VREQ8)
TO_BYTE = (QuantModes.QF322B8_PRE, QuantModes.VQF322B8_PRE, QuantModes.REQ8, QuantModes.VREQ8)
TO_HALF = (QuantModes.DEQF16, QuantModes.VDEQF16)


def multiplier(words: Array) -> Array:
    """float32 multipliers of 64-bit parameter words (low 13 mantissa bits dropped)."""
    return (words.astype(np.uint64) & np.uint64(0xFFFFE000)).astype(np.uint32).view(np.float32)


def convert(values: Array, dst: DataType, mode: int, words: Array | None, relu: bool, saturate: bool = True) -> Array:
    """(rows, columns) accumulator values to the output type; ``words`` broadcasts over rows (one per column)."""
    with np.errstate(all="ignore"):
        if mode in TO_HALF or mode in TO_BYTE:
            assert words is not None
            scale = multiplier(words)
            x = values.astype(np.float32)
            if mode in (QuantModes.REQ8, QuantModes.VREQ8):
                shift = (words.astype(np.uint64) >> np.uint64(32) & np.uint64(15)).astype(np.int64)
                on = (words.astype(np.uint64) >> np.uint64(36) & np.uint64(1)).astype(bool)
                shifted = np.clip(values.astype(np.int64) >> shift, -32768, 32767)
                x = np.where(on, shifted, values).astype(np.float32)
            x = np.where(x >= 0, x * scale, np.float32(0) if relu else x * scale)
            if mode in TO_HALF:
                return cast_values(x.astype(np.float32), dst, RoundMode.CAST_RINT, saturate)
            offset = (words.astype(np.uint64) >> np.uint64(37) & np.uint64(511)).astype(np.int64)
            offset = np.where(offset > 255, offset - 512, offset)
            whole = np.clip(np.rint(np.nan_to_num(x.astype(np.float64))), -256, 255).astype(np.int64) + offset
            signed = (words.astype(np.uint64) >> np.uint64(46) & np.uint64(1)).astype(bool)
            whole = np.where(signed, np.clip(whole, -128, 127), np.clip(whole, 0, 255))
            bytes_out: Array = (whole & 0xFF).astype(np.uint8).view(dst.np if dst in (int8, uint8) else np.uint8)
            return bytes_out
        x = np.maximum(values, values.dtype.type(0)) if relu else values
        if x.dtype == dst.np:
            return x
        return cast_values(x, dst, RoundMode.CAST_RINT, saturate)


@instruction(
    "fixpipe", "fixpipe data_copy", Pipe.FIX, "L0C (Nz) to global memory or L1 as Nz or ND, with conversion and relu",
    "n_size 1..4095, a multiple of 16 for Nz (8 with channel split); m_size 1..8192 for ND, 1..65535 for Nz",
    "the source starts on 64 bytes",
)  # fmt: skip
def run_fixpipe(
    dst: View, src: View, n: int, m: int, src_stride: int, dst_stride: int, mode: int, words: Array | None,
    relu: bool, row_major: bool, nd: int = 1, src_nd: int = 0, dst_nd: int = 0, split: bool = False,
    atomic: str | None = None,
) -> None:  # fmt: skip
    """``src_stride`` rows of an L0C column panel; ``dst_stride`` in elements (ND) or 32-byte blocks (Nz); ``src_nd`` in
    1024-byte fractals, ``dst_nd`` in elements. ``words``: one parameter word or one per column."""
    in_size, out_size = src.dtype.size, dst.dtype.size
    n1 = ceil_div(n, CUBE)
    for matrix in range(nd):
        panel = src.strided(
            (n1, m, CUBE), (src_stride * CUBE * in_size, CUBE * in_size, in_size), matrix * src_nd * 1024
        )
        values = np.ascontiguousarray(panel.transpose(1, 0, 2)).reshape(m, n1 * CUBE)[:, :n]
        out = convert(values, dst.dtype, mode, words, relu)
        if row_major:
            target = dst.strided((m, n), (dst_stride * out_size, out_size), matrix * dst_nd * out_size)
        else:
            # int8 results pair two column panels into C0 = 32; channel split halves float32 panels to C0 = 8
            c0 = 32 if out_size == 1 else 8 if split else CUBE
            c1 = ceil_div(n, c0)
            if c1 * c0 != n:
                out = np.concatenate([out, np.zeros((m, c1 * c0 - n), out.dtype)], 1)
            out = out.reshape(m, c1, c0).transpose(1, 0, 2)
            target = dst.strided((c1, m, c0), (dst_stride * 32, c0 * out_size, out_size))
        if atomic is None:
            target[...] = out
        else:
            target[...] = ATOMIC[atomic](target, out)


@instruction(
    "data_move_l0c2ub", "data_copy", Pipe.V, "16 x 16 fractals (matrix mode) or vectors from L0C to the unified buffer,"
    " with conversion, scale and relu", "only on chips whose cube and vector units share a core",
    "block_count 0..4095; block_len counts fractals of the source",
)  # fmt: skip
def run_l0c_to_ub(
    dst: View, src: View, count: int, length: int, src_gap: int, dst_gap: int, scale: Array | None, relu: bool,
    saturate: bool = True,
) -> None:  # fmt: skip
    """``length`` and ``src_gap`` in fractals of 256 elements, ``dst_gap`` in 32-byte blocks; ``scale`` broadcasts
    over the 16 columns of a fractal (float) or is None."""
    if not count or not length:
        return
    size, out_size = src.dtype.size, dst.dtype.size
    per = CUBE * CUBE
    source = src.strided((count, length, CUBE, CUBE), ((length + src_gap) * per * size, per * size, CUBE * size, size))
    values: Array = source
    with np.errstate(all="ignore"):
        if scale is not None:
            values = values.astype(np.float32) * scale.astype(np.float32)
        if relu:
            values = np.maximum(values, values.dtype.type(0))
        if values.dtype != dst.dtype.np:
            if src.dtype is int32 and dst.dtype is float16 and scale is None:
                values = values.astype(np.float32)
            values = cast_values(values, dst.dtype, RoundMode.CAST_RINT, saturate)
    row = length * per * out_size
    target = dst.strided(
        (count, length, CUBE, CUBE), (row + dst_gap * 32, per * out_size, CUBE * out_size, out_size)
    )
    target[...] = values


@instruction(
    "data_move_ub2l0c", "data_copy", Pipe.V, "fractals from the unified buffer to L0C (bias rows broadcast by the"
    " kernel) on coupled chips", "only on chips whose cube and vector units share a core",
)  # fmt: skip
def run_ub_to_l0c(dst: View, src: View, count: int, length: int, src_gap: int, dst_gap: int) -> None:
    """``length`` and ``dst_gap`` in fractals of 256 elements, ``src_gap`` in 32-byte blocks."""
    if not count or not length:
        return
    size, out_size, per = src.dtype.size, dst.dtype.size, CUBE * CUBE
    row = length * per * size
    source = src.strided((count, length * per), (row + src_gap * 32, size))
    target = dst.strided((count, length * per), ((length + dst_gap) * per * out_size, out_size))
    target[...] = source.astype(dst.dtype.np)


@instruction(
    "broadcast_ub_to_cc", "data_copy", Pipe.V, "each 16 values of the unified buffer become the 16 equal rows of an L0C"
    " fractal (bias)", "only on chips whose cube and vector units share a core",
)  # fmt: skip
def run_broadcast_to_l0c(dst: View, src: View, count: int, length: int, src_gap: int, dst_gap: int) -> None:
    """``length`` counts 16-element groups and fractals, ``src_gap`` 32-byte blocks, ``dst_gap`` fractals."""
    if not count or not length:
        return
    size, out_size, per = src.dtype.size, dst.dtype.size, CUBE * CUBE
    source = src.strided((count, length, CUBE), (length * CUBE * size + src_gap * 32, CUBE * size, size))
    target = dst.strided(
        (count, length, CUBE, CUBE),
        ((length + dst_gap) * per * out_size, per * out_size, CUBE * out_size, out_size),
    )
    target[...] = source[:, :, None, :].astype(dst.dtype.np)
