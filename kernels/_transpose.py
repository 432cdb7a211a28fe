"""Tiles of a transpose with the last axis moved, turned by vnchwconv 16 x 16 at a time."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ascend_sim import asc

from ._flat import global_tensor
from ._rows import Rows
from ._sync import Pipeline
from ._vector import BLOCK, MAX_REPEATS, ceil_div, item_bytes


@dataclass(frozen=True)
class Side:
    """One side of the tiles: ``size`` elements of the axis, ``step`` per tile, ``stride`` in the other tensor; ``io``
    moves the rows of a tile. The last tile steps back to end where the axis ends (it repeats some elements), so all
    tiles are alike."""

    size: int
    step: int
    stride: int
    io: Rows

    @property
    def tiles(self) -> int:
        return ceil_div(self.size, self.step)

    def first(self, index: int) -> int:
        """First element of a tile."""
        return min(index * self.step, self.size - self.step)


@dataclass(frozen=True)
class TransposePlan:
    """``m``: the axis that becomes last (stride in the input); ``n``: the input's last axis (stride in the output);
    ``loops``: (size, input stride, output stride) of the others."""

    m: Side
    n: Side
    loops: tuple[tuple[int, int, int], ...]
    units: int
    buffers: int
    dtype: str
    serial: bool = False  # a tile is stored before the next one is loaded
    group: tuple[tuple[int, int], ...] = ()  # axes (size, input stride) that all rows of a tile run over, if several

    @property
    def total(self) -> int:
        return prod(a[0] for a in self.loops) * self.m.tiles * self.n.tiles

    def count(self, block: int) -> int:
        return min(self.units, self.total - block * self.units)

    def signature(self, block: int) -> object:
        return self.count(block)

    def start(self, block: int) -> tuple[int, int]:
        """First element of a block in the input and in the output."""
        rest, column = divmod(block * self.units, self.n.tiles)
        outer, row = divmod(rest, self.m.tiles)
        src, dst = self.where(outer)
        m0, n0 = self.m.first(row), self.n.first(column)
        return src + m0 * self.m.stride + n0, dst + n0 * self.n.stride + m0

    def row_starts(self) -> list[int]:
        """Input element of every row of a tile of grouped axes, from the tile's first."""
        starts = [0]
        for size, stride in self.group:
            starts = [at + i * stride for at in starts for i in range(size)]
        return starts

    def where(self, outer: int) -> tuple[int, int]:
        """First input and output element of a flat index over the loops."""
        src = dst = 0
        for size, a, b in reversed(self.loops):
            outer, digit = divmod(outer, size)
            src += digit * a
            dst += digit * b
        return src, dst


def _pieces(io: Rows) -> list[tuple[int, int, int]]:
    """(position in UB, first element, elements) of the parts of a row's layout: one, or leading part and last block."""
    if io.mode != "overlap":
        return [(0, 0, io.length)]
    head = io.pitch - io.unit
    return ([(0, 0, head)] if head else []) + [(head, io.length - io.unit, io.unit)]


@asc.jit
def transpose_kernel(src: asc.GlobalAddress, dst: asc.GlobalAddress, plan: TransposePlan) -> None:
    """Turn this core's tiles."""
    source, target = global_tensor(src), global_tensor(dst)
    high, wide = plan.m.io.pitch, plan.n.io.pitch
    size, item = high * wide, item_bytes(plan.dtype)
    sets = [
        [asc.LocalTensor(plan.dtype, asc.TPosition.VECCALC, (2 * s + side) * size * item, size) for side in range(2)]
        for s in range(plan.buffers)
    ]
    pipe = Pipeline(plan.buffers)
    first = asc.get_block_idx() * plan.units
    for u in asc.steady(plan.count(asc.get_block_idx())):
        rest, column = divmod(first + u, plan.n.tiles)
        outer, row = divmod(rest, plan.m.tiles)
        at_src, at_dst = plan.where(outer)
        m0, m_io = plan.m.first(row), plan.m.io
        n0, n_io = plan.n.first(column), plan.n.io
        slot = u % plan.buffers
        a, b = sets[slot]
        pipe.load(slot)
        for inside, at, rows in _pieces(m_io):
            begin = at_src + (m0 + at) * plan.m.stride + n0
            n_io.load(a[inside * n_io.pitch :], source[begin:], rows, plan.m.stride)
        pipe.compute(slot)
        turn(a, b, m_io.pitch, n_io.pitch)
        pipe.store(slot)
        for inside, at, rows in _pieces(n_io):
            begin = at_dst + (n0 + at) * plan.n.stride + m0
            m_io.store(target[begin:], b[inside * m_io.pitch :], rows, plan.n.stride)
        pipe.done(slot)
        if plan.serial:
            asc.set_flag(asc.HardEvent.MTE3_MTE2, 2)
            asc.wait_flag(asc.HardEvent.MTE3_MTE2, 2)
    pipe.drain()


def turn(a: asc.LocalTensor, b: asc.LocalTensor, high: int, wide: int) -> None:
    """a [high, wide] -> b [wide, high], both multiples of 16, by the longer side per instruction.

    One repeat turns 16 rows of a 32-byte block: 16 columns of 16-bit elements, or 8 of 32-bit ones, whose 16 results
    then take two blocks."""
    per = BLOCK // a.dtype.size
    halves = range(0, 16, per)
    along = wide >= high
    outer, inner = (high // 16, wide // per) if along else (wide // per, high // 16)
    for i in asc.steady(outer):
        for first in range(0, inner, MAX_REPEATS):
            n = min(MAX_REPEATS, inner - first)
            row, column = (i * 16, first * per) if along else (first * 16, i * per)
            rows = [a[(row + k) * wide + column :] for k in range(16)]
            columns = [b[(column + k) * high + row + h :] for k in range(per) for h in halves]
            steps = (high, 1) if along else (16 // per, 16 * wide // per)
            params = asc.TransDataTo5HDParams(False, False, n, *(steps if n > 1 else (0, 0)))
            asc.trans_data_to_5hd(columns, rows, params)
