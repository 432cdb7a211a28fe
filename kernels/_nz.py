"""ND <-> FRACTAL_NZ for 16-bit types: rows move by DMA, their 32-byte blocks are sorted into columns inside UB.

A tile is some rows of one matrix. The copies inside UB take one instruction per column block; the side towards
FRACTAL_NZ is one strided move of whole panels. The rows that fill up the last 16 and the columns that fill up the
last block are zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from ascend_sim import asc
from ascend_sim.ops.registry import NoKernel
from ascend_sim.ops.schema import TensorSpec

from ._flat import global_tensor
from ._rows import Rows, rows_of
from ._sync import Pipeline
from ._vector import BLOCK, align, ceil_div, deal, item_bytes, padded_dma, vector_cores

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

C0 = 16


@dataclass(frozen=True)
class NzPlan:
    """``batch`` matrices of ``m`` x ``k``; tiles of ``rows`` rows (a multiple of 16)."""

    batch: int
    m: int
    k: int
    rows: int
    io: Rows
    units: int
    buffers: int
    dtype: str

    @property
    def k1(self) -> int:
        return ceil_div(self.k, C0)

    @property
    def padded_m(self) -> int:
        return align(self.m, 16)

    @property
    def tiles(self) -> int:
        return ceil_div(self.padded_m, self.rows)

    def count(self, block: int) -> int:
        return min(self.units, self.batch * self.tiles - block * self.units)

    def signature(self, block: int) -> object:
        return self.count(block), block * self.units % self.tiles


def _buffers(plan: NzPlan) -> list[list[asc.LocalTensor]]:
    size = plan.rows * plan.k1 * C0
    return [
        [asc.LocalTensor(plan.dtype, asc.TPosition.VECCALC, (2 * s + side) * size * 2, size) for side in range(2)]
        for s in range(plan.buffers)
    ]


@asc.jit
def nd_to_nz(src: asc.GlobalAddress, dst: asc.GlobalAddress, plan: NzPlan) -> None:
    """(m, k) -> (k1, m, 16) of every matrix."""
    source, target = global_tensor(src), global_tensor(dst)
    sets, pipe = _buffers(plan), Pipeline(plan.buffers)
    pitch, rest = plan.k1 * C0, plan.k % C0
    first = asc.get_block_idx() * plan.units
    for u in asc.steady(plan.count(asc.get_block_idx())):
        matrix, tile = divmod(first + u, plan.tiles)
        slot = u % plan.buffers
        nd, nz = sets[slot]
        row0 = tile * plan.rows
        rows, stored = min(plan.rows, plan.m - row0), min(plan.rows, plan.padded_m - row0)
        pipe.load(slot)
        plan.io.load(nd, source[(matrix * plan.m + row0) * plan.k :], rows)
        pipe.compute(slot)
        if rows < stored:
            asc.duplicate(nd[rows * pitch :], 0, count=(stored - rows) * pitch)
        if rest:
            lanes = ((1 << C0) - 1) & ~((1 << rest) - 1)
            for r in range(0, rows, 255):
                n = min(255, rows - r)
                asc.duplicate(nd[r * pitch + pitch - C0 :], 0, [lanes, 0], n, 1, plan.k1)
        for c in asc.steady(plan.k1):
            asc.data_copy(nz[c * stored * C0 :], nd[c * C0 :], asc.DataCopyParams(stored, 1, plan.k1 - 1, 0))
        pipe.store(slot)
        at = (matrix * plan.k1 * plan.padded_m + row0) * C0
        asc.data_copy(target[at:], nz, asc.DataCopyParams(plan.k1, stored, 0, plan.padded_m - stored))
        pipe.done(slot)
    pipe.drain()


@asc.jit
def nz_to_nd(src: asc.GlobalAddress, dst: asc.GlobalAddress, plan: NzPlan) -> None:
    """(k1, m, 16) -> (m, k) of every matrix."""
    source, target = global_tensor(src), global_tensor(dst)
    sets, pipe = _buffers(plan), Pipeline(plan.buffers)
    first = asc.get_block_idx() * plan.units
    for u in asc.steady(plan.count(asc.get_block_idx())):
        matrix, tile = divmod(first + u, plan.tiles)
        slot = u % plan.buffers
        nd, nz = sets[slot]
        row0 = tile * plan.rows
        rows = min(plan.rows, plan.m - row0)
        pipe.load(slot)
        at = (matrix * plan.k1 * plan.padded_m + row0) * C0
        asc.data_copy(nz, source[at:], asc.DataCopyParams(plan.k1, rows, plan.padded_m - rows, 0))
        pipe.compute(slot)
        for c in asc.steady(plan.k1):
            asc.data_copy(nd[c * C0 :], nz[c * rows * C0 :], asc.DataCopyParams(rows, 1, 0, plan.k1 - 1))
        pipe.store(slot)
        plan.io.store(target[(matrix * plan.m + row0) * plan.k :], nd, rows)
        pipe.done(slot)
    pipe.drain()


def nz_launch(x: TensorSpec, y: TensorSpec, soc: Soc) -> asc.Launch:
    """Launch of the conversion ``x`` -> ``y``, one of them FRACTAL_NZ. Raises `NoKernel` for other widths than 16
    bits, rows too long for UB, and column counts chips without byte-exact DMA cannot place."""
    to_nz = y.format == "FRACTAL_NZ"
    plain, blocked = (x, y) if to_nz else (y, x)
    if item_bytes(x.dtype) != 2 or blocked.shape[-1] != C0:
        raise NoKernel(f"FRACTAL_NZ of {x.dtype}")
    if len(plain.shape) < 2:
        raise NoKernel("FRACTAL_NZ of a vector")
    *lead, m, k = plain.shape
    if k % C0 and not padded_dma(soc):
        raise NoKernel(f"{k} columns are no multiple of {C0} and this chip moves whole blocks")
    kind, cores = vector_cores(soc)
    k1, batch = ceil_div(k, C0), prod(lead)
    most = soc.buffers.ub_bytes // (4 * k1 * BLOCK) // 16 * 16
    if most < 16 or k1 > 4095:
        raise NoKernel(f"16 rows of {k} columns do not fit the unified buffer")
    tiles = max(ceil_div(align(m, 16), min(most, 4080)), min(ceil_div(cores, batch), align(m, 16) // 16))
    rows = align(ceil_div(align(m, 16), tiles), 16)
    plan = NzPlan(batch, m, k, rows, rows_of(soc, k, [2]), 1, 1, x.dtype)
    units, blocks = deal(batch * plan.tiles, cores)
    plan = NzPlan(batch, m, k, rows, plan.io, units, 2 if units > 1 else 1, x.dtype)
    return asc.Launch(
        nd_to_nz if to_nz else nz_to_nd,
        block_dim=blocks,
        kind=kind,
        args=(("in", 0), ("out", 0)),
        gm=[("x", x.dtype, x.nbytes, "in"), ("y", y.dtype, y.nbytes, "out")],
        consts={"plan": plan},
        soc=soc,
        signature=plan.signature,
    )
