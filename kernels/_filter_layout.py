"""NCHW <-> FRACTAL_Z of 32-bit filters with C0 8 by the vector unit.

A unit of work is 16 filters x 8 channels, fewer filters where that leaves cores idle: two vnchwconv turn [16][8 Kh Kw]
into [Kh Kw][16][8] or back. The stock kernel handles every channel of a filter by itself, its taps a block at a time,
and is bound by the scalar unit, which issues these instructions: 910B2 profiles show some 11 cycles of the scalar
and 4 of the vector unit per block for filters of 9, 25 and 121 taps. They are issued here as additions of zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ascend_sim import asc
from ascend_sim.ops.registry import NoKernel
from ascend_sim.ops.schema import TensorSpec

from ._flat import global_tensor
from ._lines import Heap
from ._rows import rows_of
from ._sync import Pipeline, walk
from ._transpose import turn
from ._vector import MAX_REPEATS, align, ceil_div, deal, legal, padded_dma, phased, vector_cores

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

FILTERS, C0 = 16, 8


@dataclass(frozen=True)
class FilterPlan:
    """``n`` filters of ``c`` channels and ``taps`` taps; ``high`` filters a unit."""

    n: int
    c: int
    taps: int
    high: int
    units: int

    @property
    def n1(self) -> int:
        return ceil_div(self.n, FILTERS)

    @property
    def parts(self) -> int:
        """Units along the filters; those of padding alone too, which are written to FRACTAL_Z."""
        return self.n1 * FILTERS // self.high

    @property
    def total(self) -> int:
        return self.parts * ceil_div(self.c, C0)

    @property
    def wide(self) -> int:
        """Elements of 8 channels of a filter."""
        return C0 * self.taps

    def count(self, block: int) -> int:
        return min(self.units, self.total - block * self.units)

    def where(self, unit: int) -> tuple[int, int, int, int]:
        """(first element in NCHW, in FRACTAL_Z, filters, channels) of a unit."""
        c1, part = divmod(unit, self.parts)
        filters = part * self.high
        plain = (filters * self.c + c1 * C0) * self.taps
        packed = (c1 * self.taps * self.n1 * FILTERS + filters) * C0
        return plain, packed, max(min(self.high, self.n - filters), 0), min(C0, self.c - c1 * C0)

    def shape(self, unit: int) -> tuple[int, int]:
        return self.where(unit)[2:]

    def signature(self, block: int) -> object:
        return tuple(self.shape(block * self.units + u) for u in range(self.count(block)))


@asc.jit
def filter_layout(src: asc.GlobalAddress, dst: asc.GlobalAddress, plan: FilterPlan, pack: bool) -> None:
    """Convert this core's units."""
    source, target = global_tensor(src), global_tensor(dst)
    wide, taps, soc = plan.wide, plan.taps, asc.current_soc()
    high, heap = align(wide, FILTERS), Heap()
    rows, middle, packed = (heap.take("uint32", FILTERS * high) for _ in range(3))
    inside, outside = FILTERS - plan.high, plan.n1 * FILTERS - plan.high  # blocks between two taps
    first = asc.get_block_idx() * plan.units
    if plan.high < FILTERS:  # what the turns read beside the filters
        asc.duplicate(rows if pack else packed, 0, count=FILTERS * wide)
    pipe = Pipeline(1)
    for u in walk(plan.count(asc.get_block_idx()), lambda u: plan.shape(first + u)):
        plain, blocked, filters, channels = plan.where(first + u)
        ragged = filters < plan.high or channels < C0
        io = rows_of(soc, channels * taps, [4])
        pitch, far = wide if pack else high, plan.c * taps
        pipe.load(0)
        if pack and ragged:
            asc.set_flag(asc.HardEvent.MTE2_V, 2)
            asc.wait_flag(asc.HardEvent.MTE2_V, 2)
            asc.duplicate(rows, 0, count=FILTERS * wide)
            asc.set_flag(asc.HardEvent.V_MTE2, 2)
            asc.wait_flag(asc.HardEvent.V_MTE2, 2)
        if pack:
            length = channels * taps
            fill = asc.DataCopyPadParams(True, 0, align(length, C0) - length, 0)
            for f in range(filters):
                if length % C0:
                    line = asc.DataCopyParams(1, 4 * length, 0, 0)
                    asc.data_copy_pad(rows[f * pitch :], source[plain + f * far :], line, fill)
                else:
                    asc.data_copy(rows[f * pitch :], source[plain + f * far :], length)
        else:
            asc.data_copy(packed, source[blocked:], asc.DataCopyParams(taps, plan.high, outside, inside))
        pipe.compute(0)
        _handle(rows if pack else packed, filters * channels, taps)
        if pack:
            turn(rows, middle, FILTERS, wide)
            _regroup(middle, packed, taps)
        else:
            _ungroup(middle, packed, taps)
            turn(middle, rows, high, FILTERS)
        pipe.store(0)
        if pack:
            asc.data_copy(target[blocked:], packed, asc.DataCopyParams(taps, plan.high, inside, outside))
        else:
            for f in range(filters):
                io.store(target[plain + f * far :], rows[f * pitch :], 1)
        pipe.done(0)
    pipe.drain()


def _handle(data: asc.LocalTensor, lines: int, taps: int) -> None:
    """The blocks of ``lines`` channels of filters, one instruction each."""
    values = data.reinterpret_cast("int32")
    once = asc.UnaryRepeatParams(1, 1, 8, 8)
    for _ in asc.steady(lines):
        for _ in asc.steady(ceil_div(taps, C0)):
            asc.adds(values, values, 0, C0, 1, once)


def _regroup(middle: asc.LocalTensor, packed: asc.LocalTensor, taps: int) -> None:
    """[8][taps][16] -> [taps][16][8]."""
    for start in range(0, taps, MAX_REPEATS):
        n = min(MAX_REPEATS, taps - start)
        lines = [middle[(c * taps + start) * FILTERS + C0 * g :] for g in (0, 1) for c in range(C0)]
        places = [packed[(start * FILTERS + C0 * g + k) * C0 :] for k in range(C0) for g in (0, 1)]
        steps = (FILTERS * C0 // 8, 2) if n > 1 else (0, 0)
        asc.trans_data_to_5hd(places, lines, asc.TransDataTo5HDParams(False, False, n, *steps))


def _ungroup(middle: asc.LocalTensor, packed: asc.LocalTensor, taps: int) -> None:
    """[taps][16][8] -> [8][taps][16]."""
    for start in range(0, taps, MAX_REPEATS):
        n = min(MAX_REPEATS, taps - start)
        lines = [packed[(start * FILTERS + f) * C0 :] for f in range(FILTERS)]
        places = [middle[(c * taps + start) * FILTERS + C0 * g :] for c in range(C0) for g in (0, 1)]
        steps = (2, FILTERS * C0 // 8) if n > 1 else (0, 0)
        asc.trans_data_to_5hd(places, lines, asc.TransDataTo5HDParams(False, False, n, *steps))


def filter_layout_launch(x: TensorSpec, y: TensorSpec, soc: Soc) -> asc.Launch:
    """Launch of the conversion ``x`` -> ``y``, one of them FRACTAL_Z, the other NCHW. Raises `NoKernel`."""
    pack = y.format == "FRACTAL_Z"
    blocked, plain = (y, x) if pack else (x, y)
    if not (padded_dma(soc) and legal(soc, "vnchwconv", "uint32")):
        raise NoKernel(f"FRACTAL_Z of {x.dtype} on this chip")
    n, c, h, w = plain.shape
    if blocked.shape != (ceil_div(c, C0) * h * w, ceil_div(n, FILTERS), FILTERS, C0):
        raise NoKernel(f"FRACTAL_Z of {x.dtype} and shape {blocked.shape} of a filter {plain.shape}")
    kind, cores = vector_cores(soc)
    plan = FilterPlan(n, c, h * w, FILTERS, 1)
    while plan.high > 1 and plan.total < cores:
        plan = replace(plan, high=plan.high // 2)
    if 12 * FILTERS * align(plan.wide, FILTERS) > soc.buffers.ub_bytes:
        raise NoKernel(f"filters of {h} x {w} do not fit the unified buffer")
    units, blocks = deal(plan.total, cores)
    plan = replace(plan, units=units)
    return asc.Launch(
        filter_layout,
        block_dim=blocks,
        kind=kind,
        args=(("in", 0), ("out", 0)),
        gm=[("x", "uint32", x.nbytes, "in"), ("y", "uint32", y.nbytes, "out")],
        consts={"plan": plan, "pack": pack},
        soc=soc,
        signature=phased(plan.signature, lambda block: 4 * plan.where(block * units)[0]),
        code="layout",
    )
