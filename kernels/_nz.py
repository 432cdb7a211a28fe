"""ND <-> FRACTAL_NZ for 16-bit types: rows move by DMA, their 32-byte blocks are sorted into columns inside UB.

A tile is some rows of one matrix, and some column blocks where a row is long. The copies inside UB take one
instruction per column block; the side towards FRACTAL_NZ is one strided move of whole panels. The rows that fill up
the last 16 and the columns that fill up the last block are zero.

Chips without byte-exact DMA read the last block of a row beyond its end (and clear what is not the row's), and write
rows in order, each one's surplus overwritten by the next; the scalar unit finishes the last rows of a tile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from ascend_sim import asc
from ascend_sim.ops.registry import NoKernel
from ascend_sim.ops.schema import TensorSpec

from ._flat import global_tensor
from ._rows import Rows, rows_of
from ._sync import Pipeline, walk
from ._vector import BLOCK, MAX_REPEATS, align, ceil_div, deal, item_bytes, phased, vector_cores

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

C0 = 16
_MOST_GAP = 65535


@dataclass(frozen=True)
class NzPlan:
    """``batch`` matrices of ``m`` x ``k``; tiles of ``rows`` rows (a multiple of 16) and ``panels`` column blocks;
    ``io`` moves row pieces of a tile, ``last_io`` those that end a row."""

    batch: int
    m: int
    k: int
    rows: int
    panels: int
    io: Rows
    last_io: Rows
    units: int
    buffers: int
    dtype: str
    row_unit: int = 16  # rows are filled up to a multiple of this: 16 in FRACTAL_NZ, 1 in NC1HWC0

    @property
    def k1(self) -> int:
        return ceil_div(self.k, C0)

    @property
    def padded_m(self) -> int:
        return align(self.m, self.row_unit)

    @property
    def tiles(self) -> int:
        return ceil_div(self.padded_m, self.rows)

    @property
    def pieces(self) -> int:
        return ceil_div(self.k1, self.panels)

    @property
    def total(self) -> int:
        return self.batch * self.tiles * self.pieces

    def count(self, block: int) -> int:
        return min(self.units, self.total - block * self.units)

    def signature(self, block: int) -> object:
        return self.count(block), block * self.units % (self.tiles * self.pieces)

    def start(self, block: int) -> int:
        """First element of a block in the row-major tensor."""
        matrix, row, panel, _, _ = self.where(block * self.units)
        return (matrix * self.m + row) * self.k + panel * C0

    def shape(self, unit: int) -> tuple[object, ...]:
        """What decides the instructions of a tile: rows, panels, and whether it ends the tensor."""
        matrix, row, _, panels, io = self.where(unit)
        return min(self.rows, self.m - row), panels, io, matrix + 1 == self.batch and row + self.rows >= self.m

    def where(self, unit: int) -> tuple[int, int, int, int, Rows]:
        """(matrix, first row, first panel, panels, row method) of a tile."""
        rest, piece = divmod(unit, self.pieces)
        matrix, tile = divmod(rest, self.tiles)
        panel = piece * self.panels
        io = self.io if piece + 1 < self.pieces else self.last_io
        return matrix, tile * self.rows, panel, min(self.panels, self.k1 - panel), io


def _buffers(plan: NzPlan) -> list[list[asc.LocalTensor]]:
    size = plan.rows * plan.panels * C0
    return [
        [asc.LocalTensor(plan.dtype, asc.TPosition.VECCALC, (2 * s + side) * size * 2, size) for side in range(2)]
        for s in range(plan.buffers)
    ]


@asc.jit
def nd_to_nz(src: asc.GlobalAddress, dst: asc.GlobalAddress, plan: NzPlan) -> None:
    """(m, k) -> (k1, m, 16) of every matrix."""
    source, target = global_tensor(src), global_tensor(dst)
    sets, pipe = _buffers(plan), Pipeline(plan.buffers)
    first = asc.get_block_idx() * plan.units
    for u in walk(plan.count(asc.get_block_idx()), lambda u: plan.shape(first + u)):
        matrix, row0, panel, panels, io = plan.where(first + u)
        slot = u % plan.buffers
        nd, nz = sets[slot]
        pitch = panels * C0
        rows, stored = min(plan.rows, plan.m - row0), min(plan.rows, plan.padded_m - row0)
        pipe.load(slot)
        begin = (matrix * plan.m + row0) * plan.k + panel * C0
        left = _load(plan, io, nd, source[begin:], rows, plan.batch * plan.m * plan.k - begin)
        pipe.compute(slot)
        if rows < stored:
            asc.duplicate(nd[rows * pitch :], 0, count=(stored - rows) * pitch)
        rest = io.length % C0
        if rest:
            lanes = ((1 << C0) - 1) & ~((1 << rest) - 1)
            for r in range(0, rows, MAX_REPEATS):
                n = min(MAX_REPEATS, rows - r)
                asc.duplicate(nd[r * pitch + pitch - C0 :], 0, [lanes, 0], n, 1, panels)
        if left:  # what no whole block could bring
            asc.set_flag(asc.HardEvent.V_S, 2)
            asc.wait_flag(asc.HardEvent.V_S, 2)
            for r, c in left:
                nd.set_value(r * pitch + c, source[begin:].get_value(r * plan.k + c))
            asc.set_flag(asc.HardEvent.S_V, 2)
            asc.wait_flag(asc.HardEvent.S_V, 2)
        for c in asc.steady(panels):
            asc.data_copy(nz[c * stored * C0 :], nd[c * C0 :], asc.DataCopyParams(stored, 1, panels - 1, 0))
        pipe.store(slot)
        at = ((matrix * plan.k1 + panel) * plan.padded_m + row0) * C0
        gap = plan.padded_m - stored if panels > 1 else 0
        asc.data_copy(target[at:], nz, asc.DataCopyParams(panels, stored, 0, gap))
        pipe.done(slot)
    pipe.drain()


def _load(
    plan: NzPlan, io: Rows, nd: asc.LocalTensor, source: asc.GlobalTensor, rows: int, room: int
) -> list[tuple[int, int]]:
    """Bring row pieces to UB; returns the (row, column) of elements that were not moved. ``room`` is how many
    elements the tensor still has from the first one (reads may go on to the end of its last block)."""
    if io.mode in ("aligned", "pad"):
        io.load(nd, source, rows, plan.k)
        return []
    pitch, main = io.pitch, io.length // C0 * C0
    end = room + -(plan.batch * plan.m * plan.k) % C0
    left = []
    for r in asc.steady(rows, tail=2 + C0):  # up to 16 rows at the end differ
        whole = r * plan.k + pitch <= end
        if r and pitch > io.length:  # over the surplus of the row before: transfers of MTE3 may finish in any order
            asc.pipe_barrier(asc.PipeID.MTE3)
        if whole or main:
            asc.data_copy(nd[r * pitch :], source[r * plan.k :], pitch if whole else main)
        if not whole:
            left += [(r, c) for c in range(main, io.length)]
    return left


@asc.jit
def nz_to_nd(src: asc.GlobalAddress, dst: asc.GlobalAddress, plan: NzPlan) -> None:
    """(k1, m, 16) -> (m, k) of every matrix."""
    source, target = global_tensor(src), global_tensor(dst)
    sets, pipe = _buffers(plan), Pipeline(plan.buffers)
    first = asc.get_block_idx() * plan.units
    for u in walk(plan.count(asc.get_block_idx()), lambda u: plan.shape(first + u)):
        matrix, row0, panel, panels, io = plan.where(first + u)
        slot = u % plan.buffers
        nd, nz = sets[slot]
        rows = min(plan.rows, plan.m - row0)
        pipe.load(slot)
        at = ((matrix * plan.k1 + panel) * plan.padded_m + row0) * C0
        gap = plan.padded_m - rows if panels > 1 else 0
        asc.data_copy(nz, source[at:], asc.DataCopyParams(panels, rows, gap, 0))
        pipe.compute(slot)
        for c in asc.steady(panels):
            asc.data_copy(nd[c * C0 :], nz[c * rows * C0 :], asc.DataCopyParams(rows, 1, 0, panels - 1))
        pipe.store(slot)
        _store(plan, io, target[(matrix * plan.m + row0) * plan.k + panel * C0 :], nd, rows)
        pipe.done(slot)
    pipe.drain()


def _store(plan: NzPlan, io: Rows, target: asc.GlobalTensor, nd: asc.LocalTensor, rows: int) -> None:
    """Row pieces to global memory."""
    if io.mode in ("aligned", "pad"):
        io.store(target, nd, rows, plan.k)
        return
    pitch, main = io.pitch, io.length // C0 * C0
    # a row's surplus falls into the rows behind it; with cut rows nothing may reach the next piece
    end = (rows - 1) * plan.k + io.length if plan.pieces == 1 else 0
    left = []
    for r in asc.steady(rows, tail=2 + C0):  # up to 16 rows at the end differ
        whole = r * plan.k + pitch <= end
        if r and pitch > io.length:  # over the surplus of the row before: transfers of MTE3 may finish in any order
            asc.pipe_barrier(asc.PipeID.MTE3)
        if whole or main:
            asc.data_copy(target[r * plan.k :], nd[r * pitch :], pitch if whole else main)
        if not whole:
            left += [(r, c) for c in range(main, io.length)]
    if not left:
        return
    asc.set_flag(asc.HardEvent.V_S, 2)
    asc.wait_flag(asc.HardEvent.V_S, 2)
    asc.set_flag(asc.HardEvent.MTE3_S, 2)
    asc.wait_flag(asc.HardEvent.MTE3_S, 2)
    for r, c in left:
        target.set_value(r * plan.k + c, nd.get_value(r * pitch + c))


def nz_launch(x: TensorSpec, y: TensorSpec, soc: Soc) -> asc.Launch:
    """Launch of the conversion ``x`` -> ``y``, one of them FRACTAL_NZ. Raises `NoKernel` for other widths than 16
    bits."""
    to_nz = y.format == "FRACTAL_NZ"
    plain, blocked = (x, y) if to_nz else (y, x)
    if item_bytes(x.dtype) != 2 or blocked.shape[-1] != C0:
        raise NoKernel(f"FRACTAL_NZ of {x.dtype}")
    if len(plain.shape) < 2 or x.size == 0:
        raise NoKernel("FRACTAL_NZ of a vector")
    *lead, m, k = plain.shape
    return panels_launch(x, y, (prod(lead), m, k), to_nz, 16, soc)


def panels_launch(
    x: TensorSpec, y: TensorSpec, sizes: tuple[int, int, int], to_panels: bool, row_unit: int, soc: Soc
) -> asc.Launch:
    """Launch between ``batch`` row-major matrices (m, k) and panels (k1, m filled up to ``row_unit``, 16)."""
    batch, m, k = sizes
    kind, cores = vector_cores(soc)
    k1, padded = ceil_div(k, C0), align(m, row_unit)
    if padded > _MOST_GAP:
        raise NoKernel(f"{m} rows exceed the gap of a strided move")
    room = soc.buffers.ub_bytes // (4 * BLOCK)  # blocks of one side of one set
    panels = min(k1, room // 16, 255)
    pieces = ceil_div(k1, panels)
    wanted = ceil_div(cores, batch * ceil_div(padded, 16))
    if wanted > pieces and k1 >= 64:
        pieces = min(wanted, k1 // 32)
    panels = ceil_div(k1, pieces)
    most = min(room // panels // 16 * 16, 4080)
    tiles = max(ceil_div(padded, most), min(ceil_div(cores, batch * ceil_div(k1, panels)), max(padded // 16, 1)))
    rows = align(ceil_div(padded, tiles), 16)
    length = min(panels * C0, k)
    last = k - (ceil_div(k1, panels) - 1) * panels * C0
    ios = rows_of(soc, length, [2]), rows_of(soc, last, [2])
    plan = NzPlan(batch, m, k, rows, panels, *ios, 1, 1, x.dtype, row_unit)
    units, blocks = deal(plan.total, cores)
    plan = replace(plan, units=units, buffers=2 if units > 1 else 1)
    return asc.Launch(
        nd_to_nz if to_panels else nz_to_nd,
        block_dim=blocks,
        kind=kind,
        args=(("in", 0), ("out", 0)),
        gm=[("x", x.dtype, x.nbytes, "in"), ("y", y.dtype, y.nbytes, "out")],
        consts={"plan": plan},
        soc=soc,
        signature=phased(plan.signature, lambda block: 2 * plan.start(block)),
    )
