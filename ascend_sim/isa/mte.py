"""Semantics of the memory transfer engines (MTE1, MTE2, MTE3): block copies, format conversion on the fly, fractal
loads and im2col loads. Strides are in the units of the instruction; every function works on whole operands at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from ascend_sim.isa.buffers import BLOCK, FRACTAL, POISON, Bytes, View
from ascend_sim.isa.dtypes import DataType
from ascend_sim.isa.instr import Pipe
from ascend_sim.isa.layout import CUBE, ceil_div
from ascend_sim.isa.rows import instruction

Array = NDArray[Any]

ATOMIC = {"add": np.add, "max": np.maximum, "min": np.minimum}


def rows_view(data: Bytes, start: int, count: int, length: int, pitch: int) -> Bytes:
    """(count, length) writable bytes, rows ``pitch`` bytes apart."""
    last = start + (count - 1) * pitch + length
    if count and length and (start < 0 or last > len(data)):
        raise IndexError(f"bytes {start}..{last} lie outside a memory of {len(data)} bytes")
    return as_strided(data[start:], (count, length), (pitch, 1))


def store(dst: Bytes, src: Bytes, dtype: DataType, atomic: str | None) -> None:
    """Write bytes to global memory, combining with what is there in atomic mode."""
    if atomic is None:
        dst[...] = src
        return
    old = np.ascontiguousarray(dst).view(dtype.np)
    new = np.ascontiguousarray(src).view(dtype.np)
    with np.errstate(all="ignore"):
        combined: Array = ATOMIC[atomic](old, new).astype(dtype.np, copy=False)
    dst[...] = combined.view(np.uint8)


@instruction(
    "data_move", "data_copy", Pipe.MTE2, "block_count bursts of block_len 32-byte blocks, gaps tail to head",
    "block_count 0..4095, block_len and gaps 0..65535", "local addresses are multiples of 32 bytes",
)  # fmt: skip
def run_copy(
    dst: View, src: View, count: int, length: int, src_gap: int, dst_gap: int, atomic: str | None = None
) -> None:
    """``length`` and gaps in bytes."""
    if not count or not length:
        return
    source = rows_view(src.data, src.start, count, length, length + src_gap)
    target = rows_view(dst.data, dst.start, count, length, length + dst_gap)
    store(target, source.copy() if dst.data is src.data else source, dst.dtype, atomic)


@instruction(
    "data_move_l12bt", "data_copy", Pipe.MTE1, "bias rows from L1 to the bias table, half and bf16 widened to float32",
    "lengths are multiples of 64 bytes of the table",
)  # fmt: skip
def run_widen(dst: View, src: View, count: int, length: int, src_gap: int, dst_gap: int) -> None:
    """``length`` in bytes of the destination, gaps in bytes."""
    if not count or not length:
        return
    n, size, out_size = length // dst.dtype.size, src.dtype.size, dst.dtype.size
    source = src.strided((count, n), (n * size + src_gap, size))
    dst.strided((count, n), (length + dst_gap, out_size))[...] = source.astype(dst.dtype.np)


@instruction(
    "data_move_nd2nz", "data_copy", Pipe.MTE2, "ND matrices in global memory to Nz in L1, the last column block filled"
    " with zeros", "nd_num 0..4095, n_value 0..16384, d_value 0..65535", "the C0 stride counts 32-byte blocks",
)  # fmt: skip
def run_nd2nz(
    dst: View, src: View, nd: int, n: int, d: int, src_matrix: int, src_pitch: int, c0_stride: int, n_stride: int,
    dst_matrix: int,
) -> None:  # fmt: skip
    """``src_matrix``, ``src_pitch`` and ``dst_matrix`` in elements, ``c0_stride`` and ``n_stride`` in blocks."""
    if not nd or not n or not d:
        return
    size, c0 = src.dtype.size, src.dtype.block
    source = src.strided((nd, n, d), (src_matrix * size, src_pitch * size, size))
    c1 = ceil_div(d, c0)
    padded = source
    if c1 * c0 != d:
        padded = np.zeros((nd, n, c1 * c0), source.dtype)
        padded[..., :d] = source
    target = dst.strided(
        (nd, c1, n, c0), (dst_matrix * size, c0_stride * BLOCK, n_stride * BLOCK, size)
    )
    target[...] = padded.reshape(nd, n, c1, c0).transpose(0, 2, 1, 3)


@instruction(
    "data_move_nz2nd", "data_copy", Pipe.MTE3, "Nz matrices in the unified buffer to ND in global memory",
    "n_value 0..65535, d_value 0..65535",
)  # fmt: skip
def run_nz2nd(
    dst: View, src: View, nd: int, n: int, d: int, src_matrix: int, src_n: int, dst_pitch: int, dst_matrix: int,
    atomic: str | None,
) -> None:  # fmt: skip
    """``src_matrix`` in 256-element fractals, ``src_n`` (rows of a column block) in 32-byte blocks, others elements."""
    size, c0 = src.dtype.size, src.dtype.block
    c1 = ceil_div(d, c0)
    source = src.strided((nd, c1, n, c0), (src_matrix * CUBE * CUBE * size, src_n * BLOCK, BLOCK, size))
    values = np.ascontiguousarray(source.transpose(0, 2, 1, 3)).reshape(nd, n, c1 * c0)[..., :d]
    target = dst.strided((nd, n, d), (dst_matrix * size, dst_pitch * size, size))
    if atomic is None:
        target[...] = values
    else:
        target[...] = ATOMIC[atomic](target, values)


@instruction(
    "data_move_pad_in", "data_copy_pad", Pipe.MTE2, "rows of any byte length to the unified buffer, padded left and"
    " right, each row rounded up to 32 bytes", "left and right padding do not exceed 32 bytes",
    "source gap in bytes, destination gap in 32-byte blocks",
)  # fmt: skip
def run_pad_in(
    dst: View, src: View, count: int, length: int, src_gap: int, dst_gap: int, left: int, right: int, value: Any
) -> None:
    """Lengths and gaps in bytes, ``left``/``right`` in elements; the block tail beyond ``right`` holds ``value`` too.
    Without a value the tail repeats the row's first element; padding that was asked for holds undefined bytes."""
    size = dst.dtype.size
    row = ceil_div(left * size + length + right * size, BLOCK) * BLOCK
    source = rows_view(src.data, src.start, count, length, length + src_gap)
    target = rows_view(dst.data, dst.start, count, row, row + dst_gap)
    if value is not None:
        line = np.full((count, row // size), value, dst.dtype.np).view(np.uint8)
    elif left or right or length < size:
        line = np.full((count, row), POISON, np.uint8)
    else:
        line = np.tile(np.ascontiguousarray(source[:, :size]), row // size)
    line[:, left * size : left * size + length] = source
    target[...] = line


@instruction(
    "data_move_pad_out", "data_copy_pad", Pipe.MTE3, "rows of any byte length from 32-byte aligned rows in the unified"
    " buffer", "source gap in 32-byte blocks, destination gap in bytes",
)  # fmt: skip
def run_pad_out(
    dst: View, src: View, count: int, length: int, src_gap: int, dst_gap: int, atomic: str | None
) -> None:
    """Lengths and gaps in bytes."""
    if not count or not length:
        return
    row = ceil_div(length, BLOCK) * BLOCK
    source = rows_view(src.data, src.start, count, length, row + src_gap)
    store(rows_view(dst.data, dst.start, count, length, length + dst_gap), source, dst.dtype, atomic)


@instruction(
    "load2d", "load_data", Pipe.MTE1, "512-byte fractals, start to start distance src_stride, dst_gap between",
    "start_index 0..65535, repeat_times 0..255, src_stride and dst_gap 0..65535",
    "if_transpose turns 16 x 16 fractals of 16-bit types only",
)  # fmt: skip
def run_load2d(
    dst: View, src: View, start: int, repeat: int, src_stride: int, dst_gap: int, transpose: bool, step: int = 1
) -> None:
    """``step`` -1 walks the source downwards (addr_mode 1)."""
    if not repeat:
        return
    source_index = start + np.arange(repeat) * src_stride * step
    size = src.dtype.size
    per = FRACTAL // size
    top = int(source_index.max()) + 1
    fractals = src.strided((top, per), (FRACTAL, size))[source_index]
    if transpose:
        fractals = fractals.reshape(repeat, CUBE, CUBE).transpose(0, 2, 1)
    target = dst.strided((repeat, per), (FRACTAL * (1 + dst_gap), size))
    target[...] = fractals.reshape(repeat, per)


@instruction(
    "load2dt", "load_data_with_transpose", Pipe.MTE1, "square blocks transposed on the way to L0: b16 16 x 16 (one"
    " fractal), b8 32 x 32 (two), b32 16 x 16 (two), b4 64 x 64 (four)", "repeat_times 0..255",
)  # fmt: skip
def run_load2d_transposed(
    dst: View, src: View, start: int, repeat: int, src_stride: int, dst_gap: int, dst_fractal_gap: int,
    src_fractal_gap: int = 0,
) -> None:  # fmt: skip
    """A square block of side 256/bits elements (16 for b16 and b32) made of ``side // 16`` fractals stacked by rows,
    or ``side // K0`` side by side for b32; ``src_stride`` and gaps count square blocks and fractals."""
    k0, size = src.dtype.block, src.dtype.size
    parts = max(k0 // CUBE, CUBE // k0)
    per = FRACTAL // size
    for i in range(repeat):
        block_start = (start + i * src_stride) * parts * FRACTAL
        fractals = src.strided((parts, per), ((1 + src_fractal_gap) * FRACTAL, size), block_start)
        tiles = fractals.reshape(parts, CUBE, k0)
        square = tiles.reshape(parts * CUBE, k0) if k0 >= CUBE else np.concatenate(list(tiles), 1)
        turned = square.T
        out = turned.reshape(parts, CUBE, k0) if k0 >= CUBE else np.stack(np.split(turned, parts, 1))
        offset = i * (1 + dst_gap) * FRACTAL
        target = dst.strided((parts, per), ((1 + dst_fractal_gap) * FRACTAL, size), offset)
        target[...] = out.reshape(parts, per)


@instruction(
    "load2d_sparse", "load_data_with_sparse", Pipe.MTE1, "512-byte fractals of kept weights to L0B, 128-byte index"
    " fractals beside them", "int8 weights, uint8 index (four 2-bit entries a byte, lowest bits first)",
    "repeat_times 0..255",
)  # fmt: skip
def run_load_sparse(dst: Sequence[View], src: Sequence[View], start: int, repeat: int) -> None:
    """``dst`` and ``src`` are (weights, index)."""
    for to, frm, unit in zip(dst, src, (FRACTAL, FRACTAL // 4), strict=True):
        to.flat(repeat * unit)[...] = frm.strided((repeat * unit,), (1,), start * unit).view(to.dtype.np)


@instruction(
    "set_l1", "init_const_value", Pipe.MTE2, "fill blocks of L1 (32 bytes) or fractals of L0A, L0B with a constant",
    "repeat_times 0..32767, block_num 0..32767, dst_gap 0..32767",
)  # fmt: skip
def run_fill(dst: View, repeat: int, blocks: int, gap: int, value: Any, unit: int) -> None:
    size = dst.dtype.size
    target = dst.strided((repeat, blocks * unit // size), ((blocks + gap) * unit, size))
    target[...] = np.asarray(value).astype(dst.dtype.np)
