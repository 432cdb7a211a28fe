"""How a vector instruction walks memory: repeats, block strides and masks, and the arrays they select.

One repeat is 8 data blocks of 32 bytes (of the widest operand type). Strides are in 32-byte blocks; a repeat stride of
8 is contiguous, 0 re-uses the same data. Source: asc-devkit, general notes on vector instructions.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ascend_sim.isa.buffers import BLOCK, REPEAT, View
from ascend_sim.isa.dtypes import DataType, bfloat16, float16, float_max
from ascend_sim.isa.layout import ceil_div

Array = NDArray[Any]
Mask = int | tuple[int, ...]


class Lanes(NamedTuple):
    """Lane selection of one instruction.

    ``n`` >= 0: the first ``n`` elements, contiguous ("first n" form), the rest is unused. Otherwise
    ``repeats`` of ``width`` lanes; ``mask`` is the number of leading active lanes or a (low, high) pair of 64-bit
    words; ``total`` >= 0 is counter mode: the number of active elements over all repeats. ``blk`` and ``rep`` are
    block and repeat strides, destination first.
    """

    n: int = -1
    repeats: int = 0
    width: int = 0
    mask: Mask = 0
    total: int = -1
    blk: tuple[int, ...] = ()
    rep: tuple[int, ...] = ()


@lru_cache(maxsize=4096)
def mask_bits(mask: Mask, width: int) -> NDArray[np.bool_]:
    """Active lanes of one repeat as booleans."""
    if isinstance(mask, int):
        return np.arange(width) < mask
    value = sum(int(word) << (64 * i) for i, word in enumerate(mask))
    return np.array([value >> i & 1 for i in range(width)], bool)


def active(lanes: Lanes) -> NDArray[np.bool_] | None:
    """(repeats, used lanes) booleans, or None when every used lane is active."""
    used = used_lanes(lanes)
    if lanes.total >= 0:
        index = np.arange(lanes.repeats * lanes.width).reshape(lanes.repeats, lanes.width)
        return (index < lanes.total)[:, :used]
    bits = mask_bits(lanes.mask, lanes.width)[:used]
    return None if bits.all() else np.broadcast_to(bits, (lanes.repeats, used))


def used_lanes(lanes: Lanes, unit: int = 0) -> int:
    """Lanes up to the last active one, rounded up to whole blocks: of the widest operand, or ``unit`` lanes."""
    unit = unit or max(lanes.width // 8, 1)
    if lanes.total >= 0:
        top = min(lanes.total, lanes.width)
    elif isinstance(lanes.mask, int):
        top = min(lanes.mask, lanes.width)
    else:
        bits = np.flatnonzero(mask_bits(lanes.mask, lanes.width))
        top = int(bits[-1]) + 1 if len(bits) else 0
    return min(ceil_div(top, unit) * unit, lanes.width)


def lanes_view(view: View, lanes: Lanes, operand: int, used: int) -> Array:
    """Writable (repeats, blocks, elements of a block) array of an operand's lanes."""
    per_block = view.dtype.block
    blocks = ceil_div(used, per_block)
    shape = (lanes.repeats, blocks, per_block)
    return view.strided(shape, (lanes.rep[operand] * BLOCK, lanes.blk[operand] * BLOCK, view.dtype.size))


def read_lanes(view: View, lanes: Lanes, operand: int) -> Array:
    """(repeats, used lanes) values of a source operand, or its first ``n`` elements."""
    if lanes.n >= 0:
        return view.flat(lanes.n)
    used = used_lanes(lanes)
    blocks = lanes_view(view, lanes, operand, used)
    return blocks.reshape(lanes.repeats, blocks.shape[1] * blocks.shape[2])[:, :used]


def write_lanes(view: View, lanes: Lanes, values: Array) -> None:
    """Write the active lanes of the destination; the others keep their contents."""
    if lanes.n >= 0:
        view.flat(lanes.n)[...] = values
        return
    used = used_lanes(lanes)
    if used == 0 or lanes.repeats == 0:
        return
    target = lanes_view(view, lanes, 0, used)
    on = active(lanes)
    blocks = target.shape[1] * target.shape[2]
    if blocks != used:  # a narrow destination whose last block is only partly covered
        padded = np.zeros((lanes.repeats, blocks), values.dtype)
        padded[:, :used] = values
        keep = np.zeros((lanes.repeats, blocks), bool)
        keep[:, :used] = True if on is None else on
        np.copyto(target, padded.reshape(target.shape), where=keep.reshape(target.shape))
    elif on is None:
        target[...] = values.reshape(target.shape)
    else:
        np.copyto(target, values.reshape(target.shape), where=on.reshape(target.shape))


def one_by_one(lanes: Lanes) -> bool:
    """Whether repeats must run in order: the destination of one repeat is the source of the next."""
    return lanes.n < 0 and lanes.repeats > 1 and lanes.rep[0] == 0


def single_repeat(view: View, lanes: Lanes, operand: int, index: int) -> View:
    """The operand as repeat ``index`` of the instruction sees it."""
    return view._replace(start=view.start + index * lanes.rep[operand] * BLOCK)


def compute(values: Array, dtype: DataType) -> Array:
    """Operands as the vector unit computes with them: half and bf16 in float32, rounded once at the end."""
    return values.astype(np.float32) if dtype is float16 or dtype is bfloat16 else values


def finish(values: Array, dtype: DataType, saturate: bool) -> Array:
    """Round a result to its type; ``saturate`` limits half results to +-65504."""
    if dtype is float16 and saturate:
        top = float_max(float16)
        values = np.clip(values, -top, top)
    return values.astype(dtype.np, copy=False)


def lane_width(*dtypes: DataType) -> int:
    """Lanes of one repeat: 256 bytes of the widest type."""
    return REPEAT // max(t.size for t in dtypes)
