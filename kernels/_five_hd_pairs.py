"""NCHW <-> NC1HWC0 of 32-bit types where vnchwconv takes 16-bit types only.

Sixteen lines of the pixels of one channel block are worked on together. A first vnchwconv turns them so that every
32-byte block holds one half of an element of all lines; two blocks are an element, and copies inside UB bring them from
channel order to pixel order or back; a second vnchwconv turns the lines again (the way of the stock kernels, stored
copies of the TBE repository, Apache-2.0, restated).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ascend_sim import asc
from ascend_sim.ops.registry import NoKernel
from ascend_sim.ops.schema import TensorSpec

from ._flat import global_tensor
from ._lines import Heap
from ._sync import Pipeline, walk
from ._vector import BLOCK, MAX_REPEATS, align, ceil_div, deal, vector_cores

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

LINES = 16  # that one vnchwconv turns
STEP = 8  # elements of a block


@dataclass(frozen=True)
class PairsPlan:
    """``n`` images of ``c`` channels and ``pixels``; lines of ``length`` pixels, the last one steps back to end with
    the plane; ``units`` groups of `LINES` lines per core."""

    n: int
    c: int
    c0: int
    pixels: int
    length: int
    units: int
    to_blocks: bool

    @property
    def c1(self) -> int:
        return ceil_div(self.c, self.c0)

    @property
    def lines(self) -> int:
        return ceil_div(self.pixels, self.length)

    @property
    def groups(self) -> int:
        return ceil_div(self.lines, LINES)

    @property
    def total(self) -> int:
        return self.n * self.c1 * self.groups

    def count(self, block: int) -> int:
        return min(self.units, self.total - block * self.units)

    def shape(self, unit: int) -> tuple[int, int, int]:
        """(channels, lines, whether the last of them steps back) of a unit."""
        plane, group = divmod(unit, self.groups)
        channels = min(self.c0, self.c - plane % self.c1 * self.c0)
        lines = min(LINES, self.lines - group * LINES)
        last = group + 1 == self.groups and self.pixels % self.length != 0
        return channels, lines, int(last)

    def signature(self, block: int) -> object:
        first = block * self.units
        return tuple(self.shape(first + u) for u in range(self.count(block)))

    def runs(self, unit: int) -> list[tuple[int, int, int]]:
        """(first line of the unit, lines, first pixel) of what is contiguous in memory."""
        group, (_, lines, back) = unit % self.groups, self.shape(unit)
        start = group * LINES * self.length
        out = [(0, lines - back, start)] if lines > back else []
        return [*out, (lines - 1, 1, self.pixels - self.length)] if back else out


@asc.jit
def five_hd_pairs(src: asc.GlobalAddress, dst: asc.GlobalAddress, plan: PairsPlan) -> None:
    """Convert this core's units."""
    source, target = global_tensor(src), global_tensor(dst)
    wide = plan.c0 * plan.length  # elements of a line
    heap = Heap()
    loaded, turned, moved = (heap.take("uint16", 2 * LINES * wide) for _ in range(3))
    rows = loaded.reinterpret_cast("uint32"), turned.reinterpret_cast("uint32")
    first = asc.get_block_idx() * plan.units
    fixed_fill = plan.to_blocks and plan.c < plan.c0  # the same channels are empty in every unit
    if fixed_fill:
        asc.duplicate(moved, 0, count=2 * LINES * wide)
    pipe = Pipeline(1)
    for u in walk(plan.count(asc.get_block_idx()), lambda u: plan.shape(first + u)):
        unit = first + u
        channels = plan.shape(unit)[0]
        pipe.load(0)
        _move(plan, unit, rows[0], source, plan.to_blocks, False)
        pipe.compute(0)
        if plan.to_blocks and channels < plan.c0 and not fixed_fill:
            asc.duplicate(moved, 0, count=2 * LINES * wide)
        used = 2 * plan.length * (channels if plan.to_blocks else plan.c0)
        _turn(loaded, turned, used, 2 * wide, True)
        _reorder(plan, turned, moved, channels)
        used = 2 * plan.length * (plan.c0 if plan.to_blocks else channels)
        _turn(turned, moved, used, 2 * wide, False)
        pipe.store(0)
        _move(plan, unit, rows[1], target, not plan.to_blocks, True)
        pipe.done(0)
    pipe.drain()


def _move(plan: PairsPlan, unit: int, rows: asc.LocalTensor, far: asc.GlobalTensor, plain: bool, out: bool) -> None:
    """Lines of a unit between memory and UB: ``plain`` channel by channel, else whole pixels."""
    plane, wide = unit // plan.groups, plan.c0 * plan.length
    channels = plan.shape(unit)[0]
    image, block = divmod(plane, plan.c1)
    for line, lines, pixel in plan.runs(unit):
        if not plain:
            run, place = lines * wide, far[(plane * plan.pixels + pixel) * plan.c0 :]
            _copy(place, rows[line * wide :], out, asc.DataCopyParams(1, run // STEP, 0, 0))
            continue
        for c in range(channels):
            place = far[(image * plan.c + block * plan.c0 + c) * plan.pixels + pixel :]
            gap = (wide - plan.length) // STEP if lines > 1 else 0
            params = asc.DataCopyParams(lines, plan.length // STEP, *((gap, 0) if out else (0, gap)))
            _copy(place, rows[line * wide + c * plan.length :], out, params)


def _copy(far: asc.GlobalTensor, near: asc.LocalTensor, out: bool, params: asc.DataCopyParams) -> None:
    if out:
        asc.data_copy(far, near, params)
    else:
        asc.data_copy(near, far, params)


def _turn(rows: asc.LocalTensor, blocks: asc.LocalTensor, used: int, wide: int, to_blocks: bool) -> None:
    """`LINES` rows of ``used`` halves, ``wide`` apart, <-> ``used`` blocks."""
    for start in range(0, used, 16 * MAX_REPEATS):
        n = min(ceil_div(used - start, 16), MAX_REPEATS)
        lines = [rows[i * wide + start :] for i in range(LINES)]
        places = [blocks[(start + i) * 16 :] for i in range(16)]
        line_step, block_step = (1, 16) if n > 1 else (0, 0)
        if to_blocks:
            asc.trans_data_to_5hd(places, lines, asc.TransDataTo5HDParams(False, False, n, block_step, line_step))
        else:
            asc.trans_data_to_5hd(lines, places, asc.TransDataTo5HDParams(False, False, n, line_step, block_step))


def _reorder(plan: PairsPlan, src: asc.LocalTensor, dst: asc.LocalTensor, channels: int) -> None:
    """Elements (two blocks each) from channel order to pixel order, or back."""
    length, c0 = plan.length, plan.c0
    gap = 2 * (c0 - 1)
    for c in asc.steady(channels):
        plain, packed = c * length * BLOCK, c * BLOCK  # halves; an element is two blocks of 16
        if plan.to_blocks:
            asc.data_copy(dst[packed:], src[plain:], asc.DataCopyParams(length, 2, 0, gap))
        else:
            asc.data_copy(dst[plain:], src[packed:], asc.DataCopyParams(length, 2, gap, 0))


def five_hd_pairs_launch(x: TensorSpec, y: TensorSpec, soc: Soc) -> asc.Launch:
    """Launch of the conversion ``x`` -> ``y`` of a 32-bit type, one of them NC1HWC0, the other NCHW. Raises `NoKernel`
    for planes of fewer pixels than a block holds."""
    to_blocks = y.format == "NC1HWC0"
    blocked, plain = (y, x) if to_blocks else (x, y)
    n, c, h, w = plain.shape
    c0, pixels = blocked.shape[-1], h * w
    if c0 not in (8, 16) or pixels < STEP:
        raise NoKernel(f"NC1HWC0 of {x.dtype} with C0 = {c0} and planes of {pixels}")
    kind, cores = vector_cores(soc)
    planes = n * ceil_div(c, c0)
    most = soc.buffers.ub_bytes // (3 * LINES * c0 * 4) // STEP * STEP
    groups = max(ceil_div(cores, planes) if planes < cores else 1, ceil_div(pixels, LINES * most))
    length = min(align(ceil_div(pixels, LINES * groups), STEP), pixels // STEP * STEP, most)
    plan = PairsPlan(n, c, c0, pixels, length, 1, to_blocks)
    units, blocks = deal(plan.total, cores)
    return asc.Launch(
        five_hd_pairs,
        block_dim=blocks,
        kind=kind,
        args=(("in", 0), ("out", 0)),
        gm=[("x", "uint32", x.nbytes, "in"), ("y", "uint32", y.nbytes, "out")],
        consts={"plan": PairsPlan(n, c, c0, pixels, length, units, to_blocks)},
        soc=soc,
        signature=PairsPlan(n, c, c0, pixels, length, units, to_blocks).signature,
        code="layout",
    )
