"""Gather of rows shorter than a block on chips that move whole blocks only: each source slice is brought to UB, the
scalar unit picks element by element, results leave in whole blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ascend_sim import asc

from ._flat import global_tensor
from ._rows import Rows, rows_of
from ._vector import BLOCK, align, ceil_div, deal, vector_cores

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

UNIT = 32  # indices of a tile: rows of any length then fill whole blocks


@dataclass(frozen=True)
class ShortGatherPlan:
    """``outer`` slices of ``rows`` rows of ``length`` elements, moved by ``io``; tiles of ``tile`` of the ``indices``
    (the last one steps back to end with them); ``units`` tiles on each core."""

    outer: int
    rows: int
    length: int
    indices: int
    tile: int
    units: int
    io: Rows
    dtype: str
    index_dtype: str

    @property
    def groups(self) -> int:
        return ceil_div(self.indices, self.tile)

    def count(self, block: int) -> int:
        return min(self.units, self.outer * self.groups - block * self.units)

    def place(self, element: int) -> int:
        """Where an element of a slice lies in UB."""
        head = self.io.pitch - self.io.unit if self.io.repeated else self.io.length
        return element if element < head else element + self.io.repeated


@asc.jit
def short_gather(x: asc.GlobalAddress, index: asc.GlobalAddress, y: asc.GlobalAddress, plan: ShortGatherPlan) -> None:
    """Pick this core's tiles."""
    source, which, target = global_tensor(x), global_tensor(index), global_tensor(y)
    item, wide = source.dtype.size, which.dtype.size
    held = asc.LocalTensor(plan.dtype, asc.TPosition.VECCALC, 0, plan.io.pitch)
    at = align(plan.io.pitch * item, BLOCK)
    numbers = asc.LocalTensor(plan.index_dtype, asc.TPosition.VECCALC, at, plan.tile)
    picked = asc.LocalTensor(plan.dtype, asc.TPosition.VECCALC, at + plan.tile * wide, plan.tile * plan.length)
    first = asc.get_block_idx() * plan.units
    for u in asc.steady(plan.count(asc.get_block_idx())):
        outer, group = divmod(first + u, plan.groups)
        begin = min(group * plan.tile, plan.indices - plan.tile)
        plan.io.load(held, source[outer * plan.rows * plan.length :], 1)
        words = which[begin:].reinterpret_cast("uint32")
        asc.data_copy(numbers.reinterpret_cast("uint32"), words, plan.tile * wide // 4)
        asc.pipe_barrier(asc.PipeID.ALL)
        for i in asc.steady(plan.tile):
            row = int(numbers.get_value(i))
            row = min(max(row + (plan.rows if row < 0 else 0), 0), plan.rows - 1)
            for c in range(plan.length):
                picked.set_value(i * plan.length + c, held.get_value(plan.place(row * plan.length + c)))
        asc.pipe_barrier(asc.PipeID.ALL)
        asc.data_copy(target[(outer * plan.indices + begin) * plan.length :], picked, plan.tile * plan.length)
        asc.pipe_barrier(asc.PipeID.ALL)


def short_gather_plan(
    sizes: tuple[int, int, int, int], item: int, dtypes: tuple[str, str], soc: Soc
) -> tuple[ShortGatherPlan, int] | None:
    """Plan and number of cores for (outer, rows, length, indices), ``item`` bytes an element of ``dtypes`` (data,
    indices); None where a slice does not fit UB or there is less than a tile of indices."""
    outer, rows, length, indices = sizes
    io = rows_of(soc, rows * length, [item])
    if io.mode == "scalar" or indices < UNIT:
        return None
    _, cores = vector_cores(soc)
    wide = 8 if dtypes[1].endswith("64") else 4
    room = (soc.buffers.ub_bytes - align(io.pitch * item, BLOCK)) // (length * item + wide)
    if room < UNIT:
        return None
    tile = min(max(ceil_div(indices * outer, cores), UNIT), indices, room)
    tile = max(tile // UNIT, 1) * UNIT
    units, blocks = deal(outer * ceil_div(indices, tile), cores)
    return ShortGatherPlan(outer, rows, length, indices, tile, units, io, *dtypes), blocks
