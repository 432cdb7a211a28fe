"""Transpose of 16-bit matrices with a side shorter than a block, on chips that move whole blocks only.

Up to 16 pieces of matrices are turned together by vnchwconv as the rows of one tile: every element then has a block
of its own, with the same element of the other pieces. Blocks move freely inside UB; the same instruction turns them
back, into rows that leave as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ascend_sim import asc
from ascend_sim.ops.registry import NoKernel

from ._flat import global_tensor
from ._transpose import turn
from ._vector import BLOCK, align, ceil_div, deal, vector_cores

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

LANES = 16
_LEAST = 64  # columns of a piece


@dataclass(frozen=True)
class NarrowPlan:
    """Matrices of a narrow and a ``wide`` side: ``narrow`` rows x ``wide`` columns to its transpose if ``flat``, else
    the way back. Pieces are ``step`` (a multiple of 16) along the wide side, the last one steps back. ``pitch``: from
    row to row of the side that has narrow rows; ``loops`` as in `TransposePlan`."""

    narrow: int
    wide: int
    step: int
    pitch: int
    flat: bool
    loops: tuple[tuple[int, int, int], ...]
    items: int
    units: int

    @property
    def pieces(self) -> int:
        return ceil_div(self.wide, self.step)

    def count(self, block: int) -> int:
        return min(self.units, ceil_div(self.items, LANES) - block * self.units)

    def signature(self, block: int) -> object:
        return self.count(block), min(self.items - (block * self.units + self.count(block) - 1) * LANES, LANES)

    def where(self, item: int) -> tuple[int, int]:
        """First element of a piece in the input and in the output."""
        outer, piece = divmod(item, self.pieces)
        begin = min(piece * self.step, self.wide - self.step)
        src = begin if self.flat else begin * self.narrow
        dst = begin * self.narrow if self.flat else begin
        for size, a, b in reversed(self.loops):
            outer, digit = divmod(outer, size)
            src += digit * a
            dst += digit * b
        return src, dst


@asc.jit
def narrow_transpose(src: asc.GlobalAddress, dst: asc.GlobalAddress, plan: NarrowPlan) -> None:
    """Turn this core's pieces."""
    source, target = global_tensor(src), global_tensor(dst)
    elements = plan.narrow * plan.step
    a, b = (asc.LocalTensor("uint16", asc.TPosition.VECCALC, k * elements * BLOCK, elements * LANES) for k in range(2))
    first = asc.get_block_idx() * plan.units
    for u in range(plan.count(asc.get_block_idx())):
        items = range((first + u) * LANES, min((first + u + 1) * LANES, plan.items))
        for lane, item in enumerate(items):
            at = plan.where(item)[0]
            _move(plan, plan.flat, a[lane * elements :], source[at:], True)
        asc.pipe_barrier(asc.PipeID.ALL)
        turn(a, b, LANES, elements)
        asc.pipe_barrier(asc.PipeID.V)
        for r in asc.steady(plan.narrow):
            if plan.flat:
                asc.data_copy(a[r * LANES :], b[r * plan.step * LANES :],
                              asc.DataCopyParams(plan.step, 1, 0, plan.narrow - 1))  # fmt: skip
            else:
                asc.data_copy(a[r * plan.step * LANES :], b[r * LANES :],
                              asc.DataCopyParams(plan.step, 1, plan.narrow - 1, 0))  # fmt: skip
        asc.pipe_barrier(asc.PipeID.V)
        turn(a, b, elements, LANES)
        asc.pipe_barrier(asc.PipeID.ALL)
        for lane, item in enumerate(items):
            at = plan.where(item)[1]
            _move(plan, not plan.flat, b[lane * elements :], target[at:], False)
        asc.pipe_barrier(asc.PipeID.ALL)


def _move(plan: NarrowPlan, rows: bool, local: asc.LocalTensor, far: asc.GlobalTensor, load: bool) -> None:
    """A piece in or out: ``narrow`` rows of ``step`` elements, or all of it in a run."""
    runs = [(0, 0, plan.narrow * plan.step)]
    if rows:
        runs = [(r * plan.step, r * plan.pitch, plan.step) for r in range(plan.narrow)]
    for inside, outside, count in runs:
        if load:
            asc.data_copy(local[inside:], far[outside:], count)
        else:
            asc.data_copy(far[outside:], local[inside:], count)


def narrow_launch(
    sizes: tuple[int, int], pitches: tuple[int, int], loops: tuple[tuple[int, int, int], ...], nbytes: tuple[int, int],
    soc: Soc,
) -> asc.Launch:  # fmt: skip
    """Launch for matrices of ``sizes`` (rows, columns), rows ``pitches`` apart in the input, and its columns in the
    output. Raises `NoKernel` where the narrow side's elements are not next to each other, or both sides are short."""
    m, n = sizes
    flat = m < n
    narrow, wide = min(m, n), max(m, n)
    along = pitches[1] if flat else pitches[0]  # of the narrow rows: must be packed
    if wide < LANES or along != narrow:
        raise NoKernel(f"sides of {m} x {n} are shorter than a block")
    _, cores = vector_cores(soc)
    outer = 1
    for size, _, _ in loops:
        outer *= size
    most = soc.buffers.ub_bytes // (2 * BLOCK * narrow) // 16 * 16
    step = min(align(max(ceil_div(wide * outer, LANES * cores), _LEAST), 16), wide // 16 * 16, most)
    if step < 16:
        raise NoKernel(f"a side of {narrow} does not fit")
    items = outer * ceil_div(wide, step)
    units, blocks = deal(ceil_div(items, LANES), cores)
    plan = NarrowPlan(narrow, wide, step, pitches[0] if flat else pitches[1], flat, loops, items, units)
    kind, _ = vector_cores(soc)
    return asc.Launch(
        narrow_transpose, block_dim=blocks, kind=kind, args=(("in", 0), ("out", 0)),
        gm=[("x", "uint16", nbytes[0], "in"), ("y", "uint16", nbytes[1], "out")], consts={"plan": plan}, soc=soc,
        signature=plan.signature, code="transpose",
    )  # fmt: skip
