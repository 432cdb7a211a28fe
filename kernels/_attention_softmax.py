"""The online softmax of a strip of scores on the vector unit: SoftmaxFlashV2 of the Ascend C library, restated.

A strip is some rows of float32 scores, ``pitch`` (a multiple of 64) apart. Row values live eight times, one 32-byte
block a row, so that they broadcast with block stride 0. A barrier stands between instructions that depend on each
other, as the library has them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ascend_sim import asc
from ascend_sim.isa.layout import ceil_div

LANES = 64
BLOCK = 8  # float32 of a data block
MAX_STRIDE = 255  # blocks between repeats
HIDDEN = -3.0e38  # score of a key that is not seen
ROW = asc.BinaryRepeatParams()


class Scratch(NamedTuple):
    """UB the softmax needs: half a strip, one value per row, and two tensors of a block per row."""

    half: Any
    values: Any
    spread: Any
    before: Any


class Rows(NamedTuple):
    """Running values of a strip's rows, a block each: maximum, sum, and by what the earlier sum shrinks."""

    top: Any
    total: Any
    change: Any


def barrier() -> None:
    asc.pipe_barrier(asc.PipeID.PIPE_V)


def _pairs(
    op: Any, out: Any, a: Any, b: Any, rows: int, blocks: int, lanes: int, pitches: tuple[int, int, int]
) -> None:
    """out = op(a, b) over ``blocks`` blocks of 64 lanes of every row: a column of blocks an instruction where repeat
    strides reach, else a row."""
    to, pa, pb = pitches
    if max(pitches) <= MAX_STRIDE * BLOCK:
        params = asc.BinaryRepeatParams(1, 1, 1, to // BLOCK, pa // BLOCK, pb // BLOCK)
        for j in range(0, blocks * LANES, LANES):
            op(out[j:], a[j:], b[j:], lanes, rows, params)
        return
    for r in range(rows):
        op(out[r * to :], a[r * pa :], b[r * pb :], lanes, blocks, ROW)


def _fold(op: Any, dst: Any, src: Any, rows: int, width: int, pitch: int) -> int:
    """Reduce rows of more than 64 to 64 lanes each by halving, into ``dst``; returns the pitch of its rows."""
    blocks, rest = divmod(width, LANES)
    whole, to = blocks, max(blocks // 2, 1) * LANES
    now, now_pitch = src, pitch
    if blocks == 1:
        asc.copy(dst, src, LANES, rows, asc.CopyRepeatParams(1, 1, to // BLOCK, pitch // BLOCK))
        barrier()
    while blocks > 1:
        half = blocks // 2
        _pairs(op, dst, now, now[half * LANES :], rows, half, LANES, (to, now_pitch, now_pitch))
        barrier()
        if blocks % 2:
            _pairs(op, dst, dst, now[(blocks - 1) * LANES :], rows, 1, LANES, (to, to, now_pitch))
            barrier()
        now, now_pitch, blocks = dst, to, half
    if rest:
        _pairs(op, dst, dst, src[whole * LANES :], rows, 1, rest, (to, to, pitch))
        barrier()
    return to


def reduce_rows(largest: bool, s: Scratch, x: Any, rows: int, width: int, pitch: int) -> None:
    """Maximum or sum of each row into ``s.spread``, a block each."""
    if width <= LANES:
        if largest:
            order = asc.ReduceOrder.ORDER_ONLY_VALUE
            asc.whole_reduce_max(s.values, x, width, rows, 1, 1, pitch // BLOCK, order)
        else:
            asc.whole_reduce_sum(s.values, x, width, rows, 1, 1, pitch // BLOCK)
    else:
        to = _fold(asc.max if largest else asc.add, s.half, x, rows, width, pitch)
        reduce = asc.block_reduce_max if largest else asc.block_reduce_sum
        reduce(s.half, s.half, rows, LANES, 1, 1, to // BLOCK)
        barrier()
        reduce(s.values, s.half, ceil_div(rows, 8), LANES, 1, 1, 8)
    barrier()
    asc.brcb(s.spread, s.values, ceil_div(rows, 8), asc.BrcbRepeatParams(1, 8))
    barrier()


def by_row(op: Any, x: Any, spread: Any, rows: int, width: int, pitch: int) -> None:
    """x = op(x, the row's value) over ``rows`` rows of ``width``."""
    if pitch <= MAX_STRIDE * BLOCK:
        step = pitch // BLOCK
        for j in range(0, width, LANES):
            lanes = min(LANES, width - j)
            op(x[j:], x[j:], spread, lanes, rows, asc.BinaryRepeatParams(1, 1, 0, step, step, 1))
        return
    for r in range(rows):
        op(x[r * pitch :], x[r * pitch :], spread[r * BLOCK :], LANES, ceil_div(width, LANES),
           asc.BinaryRepeatParams(1, 1, 0, 8, 8, 0))  # fmt: skip


def hide(x: Any, mask: Any, wide: Any, bits: Any, count: int) -> None:
    """Scores where the byte mask is not 0 become `HIDDEN`."""
    asc.cast(wide, mask, asc.RoundMode.CAST_NONE, count=count)
    barrier()
    asc.compare_scalar(bits, wide, 0, asc.CMPMODE.EQ, count=ceil_div(count, 128) * 128)
    barrier()
    asc.select(x, bits, x, HIDDEN, asc.SelMode.VSEL_TENSOR_SCALAR_MODE, count=count)
    barrier()


def softmax(x: Any, p: Any, s: Scratch, state: Rows, rows: int, width: int, pitch: int, first: bool) -> None:
    """Exponentials of a strip of scaled scores, narrowed into ``p``, and the running values of its rows."""
    n = rows * BLOCK
    reduce_rows(True, s, x, rows, width, pitch)
    if first:
        asc.adds(state.top, s.spread, 0.0, count=n)
        barrier()
    else:
        asc.adds(s.before, state.top, 0.0, count=n)
        barrier()
        asc.max(state.top, s.spread, s.before, count=n)
        barrier()
        asc.sub(state.change, s.before, state.top, count=n)
        barrier()
        asc.exp(state.change, state.change, count=n)
    by_row(asc.sub, x, state.top, rows, width, pitch)
    barrier()
    asc.exp(x, x, count=rows * pitch)
    barrier()
    mode = asc.RoundMode.CAST_RINT if p.dtype.name == "bfloat16" else asc.RoundMode.CAST_NONE
    reduce_rows(False, s, x, rows, width, pitch)
    if first:
        asc.adds(state.total, s.spread, 0.0, count=n)
    else:
        asc.mul(state.total, state.total, state.change, count=n)
        barrier()
        asc.add(state.total, state.total, s.spread, count=n)
    barrier()
    asc.cast(p, x, mode, count=rows * pitch)
