"""Semantics of the vector instructions that move, select and transpose lanes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.isa.buffers import BLOCK, View
from ascend_sim.isa.dtypes import uint8
from ascend_sim.isa.enums import CMPMODE, SelMode
from ascend_sim.isa.instr import Pipe
from ascend_sim.isa.lanes import Lanes, active, read_lanes, used_lanes, write_lanes
from ascend_sim.isa.rows import instruction, observed

Array = NDArray[Any]
V = Pipe.V

_COMPARE = {
    CMPMODE.LT: np.less, CMPMODE.GT: np.greater, CMPMODE.EQ: np.equal, CMPMODE.LE: np.less_equal,
    CMPMODE.GE: np.greater_equal, CMPMODE.NE: np.not_equal,
}  # fmt: skip


def pack_bits(bits: Array) -> Array:
    return np.packbits(bits.astype(bool), axis=-1, bitorder="little")


def unpack_bits(data: Array, n: int) -> Array:
    return np.unpackbits(data, bitorder="little")[:n].astype(bool)


@instruction("vbrcb", "brcb", V, "each of 8 source elements fills one 32-byte block", "src0 is aligned to 32 bytes")
def run_brcb(dst: View, src: View, repeats: int, dst_blk: int, dst_rep: int) -> None:
    size, per = dst.dtype.size, dst.dtype.block
    values = src.flat(repeats * 8).copy().reshape(repeats, 8, 1)
    dst.strided((repeats, 8, per), (dst_rep * BLOCK, dst_blk * BLOCK, size))[...] = values


@instruction(
    "vcmp", "compare", V, "bits of src0 <mode> src1, packed, lowest lane in the lowest bit",
    "first-n form: the compared bytes are a multiple of 256",
)  # fmt: skip
def run_compare(dst: View, a: View, b: View, mode: int, lanes: Lanes) -> None:
    bits = _COMPARE[CMPMODE(mode)](read_lanes(a, lanes, 1), read_lanes(b, lanes, 2))
    _store_bits(dst, bits, lanes)


@instruction("vcmps", "compare_scalar", V, "bits of src0 <mode> scalar, packed", "first-n form: multiple of 256 bytes")
def run_compare_scalar(dst: View, a: View, scalar: Any, mode: int, lanes: Lanes) -> None:
    values = read_lanes(a, lanes, 1)
    bits = _COMPARE[CMPMODE(mode)](values, values.dtype.type(scalar))
    _store_bits(dst, bits, lanes)


def _store_bits(dst: View, bits: Array, lanes: Lanes) -> None:
    """Masked-out lanes keep their old bit; results of a repeat follow each other."""
    if lanes.n >= 0:
        packed = pack_bits(bits)
        dst.data[dst.start : dst.start + len(packed)] = packed
        return
    nbytes = lanes.width // 8
    target = dst.data[dst.start : dst.start + lanes.repeats * nbytes].reshape(lanes.repeats, nbytes)
    old = np.unpackbits(target, axis=-1, bitorder="little").astype(bool)
    used = bits.shape[1]
    on = active(lanes)
    old[:, :used] = bits if on is None else np.where(on, bits, old[:, :used])
    target[...] = pack_bits(old)


@instruction(
    "vsel", "select", V, "dst = src0 where the mask bit is 1, else src1 (tensor or scalar)",
    "mode 0 re-uses one repeat of mask bits; modes 1 and 2 consume bits repeat after repeat",
)  # fmt: skip
def run_select(
    dst: View, bits: Array, a: View, b: View | None, scalar: Any, mode: int, lanes: Lanes, width: int
) -> None:
    """``bits``: one repeat of booleans in mode 0, else all of them."""
    values = read_lanes(a, lanes, 1)
    other: Array = read_lanes(b, lanes, 2) if b is not None else np.full_like(values, scalar)
    if lanes.n >= 0:
        chosen = np.resize(bits[:width], lanes.n) if mode == SelMode.VSEL_CMPMASK_SPR else bits[: lanes.n]
    else:
        rows = bits[None, :width] if mode == SelMode.VSEL_CMPMASK_SPR else bits.reshape(-1, width)[: lanes.repeats]
        chosen = np.broadcast_to(rows, (lanes.repeats, width))[:, : values.shape[1]]
    write_lanes(dst, lanes, np.where(chosen, values, other))


@observed
def run_select_masked(
    dst: View, mask: View, count: int, a: View, b: View | None, scalar: Any, mode: int, lanes: Lanes, width: int
) -> None:
    """`run_select` with its ``count`` mask bits in memory (or in the comparison register)."""
    run_select(dst, unpack_bits(mask.data[mask.start : mask.start + -(-count // 8)], count), a, b, scalar, mode, lanes,
               width)  # fmt: skip


@observed
def run_move_register(dst: View, src: View, nbytes: int) -> None:
    """Bytes of the comparison register to or from the unified buffer."""
    dst.data[dst.start : dst.start + nbytes] = src.data[src.start : src.start + nbytes]


@instruction(
    "vgather", "gather", V, "dst lane = the element at src + src_base + offset lane (bytes)",
    "offsets are uint32 multiples of the element size, inside the source",
)  # fmt: skip
def run_gather(dst: View, src: View, offsets: Array, base: int, lanes: Lanes, limit: int) -> None:
    """``offsets``: byte offsets shaped like the lanes; ``limit`` bytes of the source tensor."""
    size = src.dtype.size
    where = offsets.astype(np.int64) + base
    bad = (where < 0) | (where + size > limit) | (where % size != 0)
    if bad.any():
        worst = int(where[bad][0])
        raise IndexError(f"offset {worst} is outside the source of {limit} bytes or not a multiple of {size}")
    table = src.data[src.start : src.start + limit // size * size].view(src.dtype.np)
    write_lanes(dst, lanes, table[where // size])


def gather_offsets(dst: View, offsets: View, lanes: Lanes) -> Array:
    """Byte offsets of the lanes of a gather, one uint32 per lane; 0 in inactive lanes."""
    if lanes.n >= 0:
        return offsets.flat(lanes.n)
    shape = read_lanes(dst, lanes, 0).shape
    values = offsets.flat(lanes.repeats * lanes.width).reshape(lanes.repeats, lanes.width)[:, : shape[1]]
    on = active(lanes)
    return values if on is None else np.where(on, values, 0)


@observed
def run_gather_table(dst: View, src: View, offsets: View, base: int, lanes: Lanes, limit: int) -> None:
    """`run_gather` with its offsets in memory."""
    run_gather(dst, src, gather_offsets(dst, offsets, lanes), base, lanes, limit)


@observed
def run_gatherb_table(
    dst: View, src: View, offsets: View, repeats: int, dst_blk: int, dst_rep: int, limit: int
) -> None:
    """`run_gatherb` with its offsets in memory."""
    run_gatherb(dst, src, offsets.flat(repeats * 8), repeats, dst_blk, dst_rep, limit)


@instruction("vgatherb", "gatherb", V, "dst block = the 32-byte block at src + offset", "offsets are multiples of 32")
def run_gatherb(dst: View, src: View, offsets: Array, repeats: int, dst_blk: int, dst_rep: int, limit: int) -> None:
    where = offsets.astype(np.int64)
    bad = (where < 0) | (where + BLOCK > limit) | (where % BLOCK != 0)
    if bad.any():
        raise IndexError(f"offset {int(where[bad][0])} is outside the source of {limit} bytes or not a multiple of 32")
    blocks = src.data[src.start + where[:, None] + np.arange(BLOCK)[None, :]]
    raw = View(dst.data, dst.start, uint8)
    raw.strided((repeats, 8, BLOCK), (dst_rep * BLOCK, dst_blk * BLOCK, 1))[...] = blocks.reshape(repeats, 8, BLOCK)


def pattern_bits(pattern: int, width: int) -> Array:
    """Lanes kept by a fixed pattern of gather_mask: 1 even, 2 odd, 3-6 first to fourth of four, 7 all."""
    lane = np.arange(width)
    if pattern in (1, 2):
        return np.equal(lane % 2, pattern - 1)
    if pattern in (3, 4, 5, 6):
        return np.equal(lane % 4, pattern - 3)
    return np.ones(width, bool)


@instruction(
    "vreducev2", "gather_mask", V, "the lanes whose pattern bit is 1, packed together; the register counts them",
    "fixed patterns 1 to 7, or the bits of a tensor",
)  # fmt: skip
def run_gather_mask(dst: View, rows: Array, bits: Array) -> int:
    """``rows``: (repeats, lanes) source values, ``bits`` booleans that broadcast. Returns the count kept."""
    kept = rows[np.broadcast_to(bits, rows.shape)]
    dst.flat(len(kept))[...] = kept
    return len(kept)


@observed
def run_gather_mask_rows(
    dst: View, src: View, pattern: View | int, repeats: int, elements: int, src_strides: tuple[int, int],
    pattern_stride: int,
) -> int:  # fmt: skip
    """`run_gather_mask` on ``elements`` lanes of each repeat; ``src_strides`` (repeat, block) and ``pattern_stride`` in
    32-byte blocks; ``pattern`` the bits in memory or the number of a fixed one. Returns the count kept."""
    dtype = src.dtype
    blocks = -(-elements // dtype.block)
    strides = (src_strides[0] * BLOCK, src_strides[1] * BLOCK, dtype.size)
    rows = src.strided((repeats, blocks, dtype.block), strides).reshape(repeats, -1)[:, :elements].copy()
    if isinstance(pattern, int):
        return run_gather_mask(dst, rows, pattern_bits(pattern, elements))
    starts = (pattern.start + r * pattern_stride * BLOCK for r in range(repeats))
    bits = np.stack([unpack_bits(pattern.data[at : at + -(-elements // 8)], elements) for at in starts])
    return run_gather_mask(dst, rows, bits)


@instruction(
    "vnchwconv", "trans_data_to_5hd", V, "16 rows of 32 bytes become columns; each repeat one 16 x 16 transpose (b16),"
    " 16 x 8 to 8 x 16 (b32) or half a 16 x 32 (b8)", "16 source and 16 destination rows, each aligned to 32 bytes",
    "repeat_times 0..255; strides count 32-byte blocks and are ignored for one repeat",
)  # fmt: skip
def run_nchwconv(
    dst: Sequence[View], src: Sequence[View], repeats: int, dst_rep: int, src_rep: int, dst_high: bool, src_high: bool
) -> None:
    dtype = src[0].dtype
    size, per = dtype.size, dtype.block
    step = 0 if repeats == 1 else src_rep
    rows = np.stack([v.strided((repeats, per), (step * BLOCK, size)) for v in src], 1)  # (repeats, 16, per)
    step = 0 if repeats == 1 else dst_rep
    if size == 1:
        half = rows[:, :, 16:] if src_high else rows[:, :, :16]
        out, offset, width = half.transpose(0, 2, 1), 16 if dst_high else 0, 16
    elif size == 2:
        out, offset, width = rows.transpose(0, 2, 1), 0, 16
    else:  # 16 rows of 8: destination rows 2j and 2j+1 hold column j of rows 0-7 and 8-15
        out, offset, width = rows.reshape(repeats, 2, 8, 8).transpose(0, 3, 1, 2).reshape(repeats, 16, 8), 0, 8
    out = np.ascontiguousarray(out)
    for j, v in enumerate(dst):
        v.strided((repeats, width), (step * BLOCK, size), offset * size)[...] = out[:, j]


@instruction(
    "vscatter", "scatter", V, "the element at dst + dst_base + offset lane (bytes) = src lane",
    "offsets are uint32 multiples of the element size, inside the destination; equal offsets: the last lane wins here",
)  # fmt: skip
def run_scatter(dst: View, src: View, offsets: View, base: int, lanes: Lanes, limit: int) -> None:
    """``limit`` bytes of the destination tensor; ``lanes`` count source (index 1) and offsets, which are contiguous."""
    size = dst.dtype.size
    values = read_lanes(src, lanes, 1)
    if lanes.n >= 0:
        where, on = offsets.flat(lanes.n), None
    else:
        used = values.shape[1]
        where = offsets.flat(lanes.repeats * lanes.width).reshape(lanes.repeats, lanes.width)[:, :used]
        on = active(lanes)
    where = where.astype(np.int64) + base
    if on is not None:
        where, values = where[on], values[on]
    bad = (where < 0) | (where + size > limit) | (where % size != 0)
    if bad.any():
        worst = int(where[bad].reshape(-1)[0])
        raise IndexError(f"offset {worst} is outside the destination of {limit} bytes or not a multiple of {size}")
    table = dst.data[dst.start : dst.start + limit // size * size].view(dst.dtype.np)
    table[(where // size).reshape(-1)] = values.reshape(-1)


@instruction(
    "vci", "create_vec_index arange", V, "dst lanes = first_value + lane number, counting on through the repeats",
    "int16, half, int32 or float32",
)  # fmt: skip
def run_arange(dst: View, first: Any, lanes: Lanes) -> None:
    """Without the instruction the language counts one block by scalar writes and adds the rest."""
    start = dst.dtype.np.type(first)
    total = lanes.n if lanes.n >= 0 else lanes.repeats * lanes.width
    if dst.dtype.is_float():
        values = (np.arange(total, dtype=np.float64) + float(start)).astype(dst.dtype.np)
    else:
        values = (np.arange(total) + int(start)).astype(dst.dtype.np)
    if lanes.n >= 0:
        dst.flat(total)[...] = values
    else:
        write_lanes(dst, lanes, values.reshape(lanes.repeats, lanes.width)[:, : used_lanes(lanes)])


@instruction("vtranspose", "transpose", V, "one 16 x 16 block of 16-bit elements transposed", "512 contiguous bytes")
def run_transpose(dst: View, src: View) -> None:
    dst.flat(256).reshape(16, 16)[...] = src.flat(256).reshape(16, 16).T.copy()


@observed
def run_transpose_nchw(dst: View, src: View, n: int, c: int, hw: int, to_nhwc: bool) -> None:
    """(n, c, hw) to (n, hw, c) or back: a sequence of 16-row transpositions."""
    shape = (n, c, hw) if to_nhwc else (n, hw, c)
    total = n * c * hw
    dst.flat(total)[...] = src.flat(total).reshape(shape).transpose(0, 2, 1).reshape(-1)

