"""Moving strided boxes of elements from tensor to tensor through UB by DMA alone.

A `Box` is what one input contributes: outer axes with source and destination strides, rows, and a contiguous run.
Concat, split, slice, pad, tile and transposes that keep the last axis are lists of boxes in one launch. Types are
moved as bits, so any element type goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ascend_sim import asc
from ascend_sim.ops.dtypes import numpy_dtype
from ascend_sim.ops.registry import NoKernel
from ascend_sim.ops.schema import TensorSpec

from ._flat import global_tensor
from ._rows import Rows, rows_of
from ._sync import Mover, walk
from ._vector import BLOCK, align, ceil_div, deal, item_bytes, phased, vector_cores

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

_BITS = {1: "uint8", 2: "uint16", 4: "uint32"}
_SCALAR_LIMIT = 4096  # elements that may go through the scalar unit before a plan gives up
MORE = 4  # buffers for small tiles
_SPLIT_BYTES = 4096  # a run is not cut into smaller pieces than this to occupy more cores


@dataclass(frozen=True)
class Box:
    """``axes`` are (size, source stride, destination stride) from outer to inner in elements; the last one may have
    stride 1 in both. ``src``/``dst`` number the kernel arguments, ``at_src``/``at_dst`` the first elements. ``src`` -1
    is a constant: the box is stored from a filled buffer."""

    src: int
    dst: int
    at_src: int
    at_dst: int
    axes: tuple[tuple[int, int, int], ...]


def fuse_axes(axes: Sequence[tuple[int, int, int]]) -> tuple[tuple[int, int, int], ...]:
    """Merge neighbouring axes that are contiguous in both tensors; drop axes of size 1."""
    out: list[tuple[int, int, int]] = []
    for size, src, dst in axes:
        if size == 1:
            continue
        if out and out[-1][1] == size * src and out[-1][2] == size * dst:
            out[-1] = (out[-1][0] * size, src, dst)
        else:
            out.append((size, src, dst))
    return tuple(out)


@dataclass(frozen=True)
class Part:
    """A box cut for UB: ``outer`` axes, ``rows`` rows of ``length`` elements; tiles are ``tile`` rows of ``piece``
    elements (the last piece moves by ``last_io``)."""

    src: int
    dst: int
    at_src: int
    at_dst: int
    outer: tuple[tuple[int, int, int], ...]
    rows: tuple[int, int, int]
    length: int
    piece: int
    tile: int
    io: Rows
    last_io: Rows

    @property
    def pieces(self) -> int:
        return ceil_div(self.length, self.piece)

    @property
    def row_groups(self) -> int:
        return ceil_div(self.rows[0], self.tile)

    @cached_property
    def tiles(self) -> int:
        return prod(a[0] for a in self.outer) * self.row_groups * self.pieces

    def shape(self, tile: int) -> tuple[int, bool]:
        """(rows, whether it is the last piece of its rows) of a tile."""
        group, piece = divmod(tile % (self.row_groups * self.pieces), self.pieces)
        return min(self.tile, self.rows[0] - group * self.tile), piece + 1 == self.pieces

    def where(self, tile: int) -> tuple[int, int, int, int]:
        """(first source element, first destination element, rows, piece index) of a tile."""
        rest, piece = divmod(tile, self.pieces)
        outer, group = divmod(rest, self.row_groups)
        row = group * self.tile
        src = self.at_src + row * self.rows[1] + piece * self.piece
        dst = self.at_dst + row * self.rows[2] + piece * self.piece
        for size, step_src, step_dst in reversed(self.outer):
            outer, digit = divmod(outer, size)
            src += digit * step_src
            dst += digit * step_dst
        return src, dst, min(self.tile, self.rows[0] - row), piece


@dataclass(frozen=True)
class CopyPlan:
    """Parts in order; tiles are numbered through; core i takes those from ``starts[i]`` to ``starts[i + 1]``."""

    parts: tuple[Part, ...]
    starts: tuple[int, ...]
    buffers: int
    slot_bytes: int
    dtype: str
    filled: int = 0  # elements of the constant buffer behind the slots
    word: int = 0  # its content, as bits of ``dtype`` (one byte values are doubled to 16 bits)

    @cached_property
    def total(self) -> int:
        return sum(p.tiles for p in self.parts)

    def count(self, block: int) -> int:
        return self.starts[block + 1] - self.starts[block]

    def signature(self, block: int) -> object:
        """The runs of equal tiles of a block."""
        first, end = self.starts[block], self.starts[block + 1]
        runs: list[object] = []
        base = 0
        for k, part in enumerate(self.parts):
            low, high = max(first, base), min(end, base + part.tiles)
            if low < high:
                inner = part.row_groups * part.pieces
                uneven = part.rows[0] % part.tile or part.length % part.piece
                runs.append((part.io, part.length, part.tile, high - low, (low - base) % inner if uneven else 0,
                             k if len(self.parts) > 1 else 0))  # fmt: skip
            base += part.tiles
        return tuple(runs)

    def start(self, block: int) -> tuple[int, int]:
        """First element of a block in its source and in its destination."""
        tile = self.starts[block]
        for part in self.parts:
            if tile < part.tiles:
                src, dst, _, _ = part.where(tile)
                return src, dst
            tile -= part.tiles
        return 0, 0


def _shape(part: Part, first: int, tile: int) -> tuple[int, bool]:
    return part.shape(first + tile)


@asc.jit
def copy_kernel(*gm: asc.GlobalAddress, plan: CopyPlan) -> None:
    """Move this core's tiles."""
    tensors = [global_tensor(a) for a in gm]
    elements = plan.slot_bytes // tensors[0].dtype.size
    slots = [
        asc.LocalTensor(plan.dtype, asc.TPosition.VECCALC, s * plan.slot_bytes, elements) for s in range(plan.buffers)
    ]
    constant = None
    if plan.filled:
        at = plan.buffers * plan.slot_bytes
        constant = asc.LocalTensor(plan.dtype, asc.TPosition.VECCALC, at, plan.filled)
        width = "uint16" if constant.dtype.size < 4 else "uint32"
        wide = constant.reinterpret_cast(width)
        asc.duplicate(wide, plan.word, count=plan.filled * constant.dtype.size // wide.dtype.size)
        asc.set_flag(asc.HardEvent.V_MTE3, 0)
        asc.wait_flag(asc.HardEvent.V_MTE3, 0)
    mover = Mover(plan.buffers)
    index = asc.get_block_idx()
    first, end = plan.starts[index], plan.starts[index + 1]
    base = 0
    for part in plan.parts:
        low, high = max(first, base), min(end, base + part.tiles)
        for t in walk(max(high - low, 0), partial(_shape, part, low - base)):
            number = low + t
            src, dst, rows, piece = part.where(number - base)
            io = part.io if piece + 1 < part.pieces else part.last_io
            if part.src < 0 and constant is not None:
                io.store(tensors[part.dst][dst:], constant, rows, part.rows[2])
                continue
            slot = (number - first) % plan.buffers
            mover.load(slot)
            io.load(slots[slot], tensors[part.src][src:], rows, part.rows[1])
            mover.store(slot)
            io.store(tensors[part.dst][dst:], slots[slot], rows, part.rows[2])
            mover.done(slot)
        base += part.tiles
    mover.drain()


def _part(box: Box, item: int, room: int, cores: int, soc: Soc) -> Part:
    axes = fuse_axes(box.axes)
    if axes and axes[-1][1:] == (1, 1):
        length, rest = axes[-1][0], axes[:-1]
    else:
        length, rest = 1, axes
    rows = rest[-1] if rest else (1, length, length)
    outer = rest[:-1]
    io = rows_of(soc, length, [item])
    if io.mode == "scalar" and prod(a[0] for a in axes) > _SCALAR_LIMIT:
        raise NoKernel(f"runs of {length} elements are shorter than a block")
    most = room // item
    number = prod(a[0] for a in rest)
    piece = length
    if number < cores and length * item >= 2 * _SPLIT_BYTES:
        piece = max(ceil_div(length, ceil_div(cores, number)), _SPLIT_BYTES // item)
    piece = min(piece, most)
    if piece < length:
        piece = align(ceil_div(length, ceil_div(length, piece)), BLOCK // item)
        while piece > most:
            piece -= BLOCK // item
        io = rows_of(soc, piece, [item])
        tile = 1
    else:
        tile = max(min(most // io.pitch, rows[0], max(ceil_div(number, cores), 1)), 1)
        tile = ceil_div(rows[0], ceil_div(rows[0], tile))
    last = rows_of(soc, length - (ceil_div(length, piece) - 1) * piece, [item])
    return Part(box.src, box.dst, box.at_src, box.at_dst, outer, rows, length, piece, tile, io, last)


def _deal_tiles(parts: Sequence[Part], cores: int) -> tuple[int, ...]:
    """First tile of every core, and the end. Runs of equally many tiles, unless these differ so much in size that
    runs of equal size are shorter by a quarter."""
    sizes = np.concatenate([np.full(p.tiles, p.tile * min(p.piece, p.length)) for p in parts])
    units, blocks = deal(len(sizes), cores)
    plain = np.minimum(np.arange(blocks + 1) * units, len(sizes))
    ends = np.concatenate([[0], np.cumsum(sizes)])
    even = np.unique(np.searchsorted(ends, np.arange(1, cores) * ends[-1] / cores))
    even = np.concatenate([[0], even[(even > 0) & (even < len(sizes))], [len(sizes)]])
    longest = [int(np.diff(ends[starts]).max()) for starts in (plain, even)]
    chosen = even if 4 * longest[1] < 3 * longest[0] else plain
    return tuple(int(i) for i in chosen)


def copy_launch(
    boxes: Sequence[Box],
    inputs: Sequence[tuple[tuple[str, int], TensorSpec]],
    outputs: Sequence[tuple[tuple[str, int], TensorSpec]],
    soc: Soc,
    fill: float | None = None,
    code: str = "elementwise",
    buffers: int = 2,
) -> asc.Launch:
    """Launch moving ``boxes``; kernel arguments are the inputs, then the outputs, each as (argument, spec).
    ``fill`` is the value of boxes with source -1; ``buffers`` 1 lets loads and stores take turns."""
    item = item_bytes(outputs[0][1].dtype)
    wide = item > 4
    while item > 4:  # 64-bit types, and complex numbers of two of them
        boxes = [_halves(b) for b in boxes]
        item //= 2
    kind, cores = vector_cores(soc)
    constants = any(b.src < 0 for b in boxes)
    if constants and wide:
        raise NoKernel("constants of 64-bit types")
    slot = soc.buffers.ub_bytes // (3 if constants else 2) // BLOCK * BLOCK
    parts = tuple(_part(b, item, slot, cores, soc) for b in boxes if all(a[0] for a in b.axes))
    if not parts:
        raise NoKernel("nothing to move")
    starts = _deal_tiles(parts, cores)
    blocks = len(starts) - 1
    units = max(b - a for a, b in pairwise(starts))
    buffers = buffers if units > 1 else 1
    largest = max(p.tile * p.io.pitch for p in parts) * item
    room = soc.buffers.ub_bytes // MORE // BLOCK * BLOCK
    if buffers > 1 and units > 2 and not (constants or soc.chip.split_cores) and largest <= room:
        buffers, slot = MORE, room  # short transfers hide each other's latency
    filled = slot // item if constants else 0
    word = fill_word(fill or 0.0, outputs[0][1].dtype) if constants else 0
    plan = CopyPlan(parts, starts, buffers, slot, _BITS[item], filled, word)
    described = [(f"x{i}", a, s, "in") for i, (a, s) in enumerate(inputs)]
    described += [(f"y{i}", a, s, "out") for i, (a, s) in enumerate(outputs)]
    return asc.Launch(
        copy_kernel,
        block_dim=blocks,
        kind=kind,
        args=tuple(a for _, a, _, _ in described),
        gm=[(name, plan.dtype, s.nbytes, role) for name, _, s, role in described],
        consts={"plan": plan},
        soc=soc,
        signature=phased(plan.signature, *(lambda b, s=s: plan.start(b)[s] * item for s in (0, 1))),
        code=code,
    )


def fill_word(value: float, dtype: str) -> int:
    """Bits of a constant as an unsigned word of its width (bytes doubled to 16 bits)."""
    item = item_bytes(dtype)
    raw = np.asarray([value]).astype(numpy_dtype(dtype)).tobytes()
    return int.from_bytes(raw * 2 if item == 1 else raw, "little")


def _halves(box: Box) -> Box:
    """A box of 64-bit elements as one of pairs of 32-bit words (128-bit elements: of 64-bit ones)."""
    axes = tuple((n, 2 * s, 2 * d) for n, s, d in box.axes)
    return Box(box.src, box.dst, 2 * box.at_src, 2 * box.at_dst, (*axes, (2, 1, 1)))
