"""What the vector kernels share: which cores run them, what a chip's vector unit can do, and how work is dealt
to cores and to tiles of the unified buffer (UB).

Tiling rules are those of the stock elementwise schedule (stored copies of the TBE repository, Apache-2.0,
restated): blocks are rounded up to 128 elements, a block that fits UB runs as one tile, a longer one is double
buffered in even tiles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from ascend_sim.isa.dtypes import DataType, as_dtype
from ascend_sim.isa.legality import rules_for
from ascend_sim.ops.schema import ITEM_BITS

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

BLOCK = 32  # bytes of a data block: the unit of DMA lengths and of UB addresses
REPEAT = 256  # bytes of one vector repeat
MAX_REPEATS = 255
MIN_SPLIT_BYTES = 32  # elements below this many bytes per core and half are not worth a second core
_TILE_LIMIT = {1: 32767, 2: 32767, 4: 16383, 8: 8191}  # elements, by bytes of the widest type


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def align(value: int, unit: int) -> int:
    return ceil_div(value, unit) * unit


def item_bytes(dtype: str) -> int:
    """Bytes of one element in memory (at least 1)."""
    return max(ITEM_BITS[dtype] // 8, 1)


def memory_dtype(dtype: str) -> str:
    """Name of the element type as the kernel language knows it (bool is stored as bytes of 0 and 1)."""
    return "uint8" if dtype in ("bool", "uint1") else dtype


def vector_cores(soc: Soc) -> tuple[str, int]:
    """Kind of launch and number of cores of a pure vector kernel: AIV on split chips, AI cores on coupled ones."""
    if soc.chip.split_cores:
        return "AIV", soc.cores.vector_core_count
    return "AICORE", soc.cores.ai_core_count


# Ascend310 has no table of its own in the platform ini files; its published intrinsic list lacks these.
_ABSENT_M100 = {("vdiv", "float16"), ("vdiv", "float32"), ("vsqrt", "float16"), ("vsqrt", "float32")} | {
    ("vexp", "float32"),
    ("vln", "float32"),
}


@cache
def _legal(soc: Soc, instruction: str, dtype: DataType) -> bool:
    if soc.chip.arch == "m100" and (instruction, dtype.name) in _ABSENT_M100:
        return False
    return rules_for(soc).legal(instruction, dtype)


def legal(soc: Soc, instruction: str, dtype: str) -> bool:
    """Whether the chip's vector unit has ``instruction`` (machine name, ``vdiv``) for operands of ``dtype``."""
    return _legal(soc, instruction, as_dtype(dtype))


def converts(soc: Soc, src: str, dst: str, mode: int = 0) -> bool:
    """Whether vconv converts ``src`` to ``dst`` in rounding mode ``mode`` (a `RoundMode` number)."""
    modes = rules_for(soc).conversions.get(f"{as_dtype(src).short}2{as_dtype(dst).short}")
    return modes is not None and mode in modes


def padded_dma(soc: Soc) -> bool:
    """Whether DMA moves byte lengths (data_copy_pad); without it the smallest move is a 32-byte block."""
    return rules_for(soc).exists("data_move_pad")


@dataclass(frozen=True)
class FlatTiling:
    """``total`` elements in a row: ``block`` per core (the last one shorter), ``tile`` per pass through UB with
    ``buffers`` (1 or 2) sets of buffers of ``tile`` elements."""

    total: int
    block: int
    blocks: int
    tile: int
    buffers: int

    def block_size(self, index: int) -> int:
        return min(self.block, self.total - index * self.block)


def flat_tiling(total: int, live_bytes: float, widest: int, out_item: int, soc: Soc, unit: int = 128) -> FlatTiling:
    """Cut ``total`` elements. ``live_bytes`` is what one element occupies in UB (all live registers), ``widest``
    the bytes of the widest type, ``out_item`` those of the output; tiles are multiples of ``unit`` elements."""
    _, cores = vector_cores(soc)
    threshold = 2 * cores * (MIN_SPLIT_BYTES // min(out_item, MIN_SPLIT_BYTES))
    block = total if total <= threshold else ceil_div(total, cores)
    block = align(max(block, 1), unit)
    blocks = ceil_div(total, block)
    limit = _limit(soc.buffers.ub_bytes, live_bytes, widest, unit)
    if block <= limit:
        return FlatTiling(total, block, blocks, block, 1)
    limit = _limit(soc.buffers.ub_bytes // 2, live_bytes, widest, unit)
    tile = align(ceil_div(block, ceil_div(block, limit)), unit)
    return FlatTiling(total, block, blocks, tile, 2)


def _limit(ub_bytes: int, live_bytes: float, widest: int, unit: int) -> int:
    most = min(int(ub_bytes // live_bytes), _TILE_LIMIT.get(widest, 8191))
    return max(most // unit * unit, unit)


def phased(signature: Callable[[int], object], *starts: Callable[[int], int]) -> Callable[[int], object]:
    """A block signature that also tells blocks apart by where in a 32-byte block their global data start.

    ``starts`` give the first byte a block touches in each tensor: DMA from an odd address is slower, so blocks that
    start differently do not share a trace."""
    return lambda block: (signature(block), *(start(block) % BLOCK for start in starts))


def deal(total: int, cores: int, unit: int = 1) -> tuple[int, int]:
    """Deal ``total`` items to at most ``cores`` cores in multiples of ``unit``: (items per core, cores used)."""
    per_core = align(ceil_div(total, cores), unit)
    return per_core, ceil_div(total, per_core)
