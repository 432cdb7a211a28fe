"""NCHW <-> FRACTAL_Z of 32-bit filters with C0 8 by the vector unit.

A unit of work is 16 filters x 8 channels: two vnchwconv turn [16][8 Kh Kw] into [Kh Kw][16][8] or back. The stock
kernel is bound by its scalar unit, which handles every element; that is charged as scalar instructions.
"""

from __future__ import annotations

from dataclasses import dataclass
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
ELEMENT = "filter_element"  # scalar routine: address of an element of a filter


@dataclass(frozen=True)
class FilterPlan:
    """``n`` filters of ``c`` channels and ``taps`` taps."""

    n: int
    c: int
    taps: int
    units: int

    @property
    def n1(self) -> int:
        return ceil_div(self.n, FILTERS)

    @property
    def total(self) -> int:
        return self.n1 * ceil_div(self.c, C0)

    @property
    def wide(self) -> int:
        """Elements of 8 channels of a filter."""
        return C0 * self.taps

    def count(self, block: int) -> int:
        return min(self.units, self.total - block * self.units)

    def where(self, unit: int) -> tuple[int, int, int, int]:
        """(first element in NCHW, in FRACTAL_Z, filters, channels) of a unit."""
        c1, n1 = divmod(unit, self.n1)
        plain = (n1 * FILTERS * self.c + c1 * C0) * self.taps
        packed = (c1 * self.taps * self.n1 + n1) * FILTERS * C0
        return plain, packed, min(FILTERS, self.n - n1 * FILTERS), min(C0, self.c - c1 * C0)

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
    first = asc.get_block_idx() * plan.units
    pipe = Pipeline(1)
    for u in walk(plan.count(asc.get_block_idx()), lambda u: plan.shape(first + u)):
        plain, blocked, filters, channels = plan.where(first + u)
        ragged = filters < FILTERS or channels < C0
        io = rows_of(soc, channels * taps, [4])
        pitch, far = wide if pack else high, plan.c * taps
        params = asc.DataCopyParams(taps, FILTERS * C0 // 8, 0, (plan.n1 - 1) * FILTERS * C0 // 8)
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
            gap = asc.DataCopyParams(taps, FILTERS * C0 // 8, (plan.n1 - 1) * FILTERS * C0 // 8, 0)
            asc.data_copy(packed, source[blocked:], gap)
        asc.scalar_instructions(filters * channels * taps, ELEMENT)
        pipe.compute(0)
        if pack:
            turn(rows, middle, FILTERS, wide)
            _regroup(middle, packed, taps)
        else:
            _ungroup(middle, packed, taps)
            turn(middle, rows, high, FILTERS)
        pipe.store(0)
        if pack:
            asc.data_copy(target[blocked:], packed, params)
        else:
            for f in range(filters):
                io.store(target[plain + f * far :], rows[f * pitch :], 1)
        pipe.done(0)
    pipe.drain()


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
    plan = FilterPlan(n, c, h * w, 1)
    if 12 * FILTERS * align(plan.wide, FILTERS) > soc.buffers.ub_bytes:
        raise NoKernel(f"filters of {h} x {w} do not fit the unified buffer")
    kind, cores = vector_cores(soc)
    units, blocks = deal(plan.total, cores)
    plan = FilterPlan(n, c, h * w, units)
    return asc.Launch(
        filter_layout,
        block_dim=blocks,
        kind=kind,
        args=(("in", 0), ("out", 0)),
        gm=[("x", "uint32", x.nbytes, "in"), ("y", "uint32", y.nbytes, "out")],
        consts={"plan": plan, "pack": pack},
        soc=soc,
        signature=phased(plan.signature, lambda block: 4 * plan.where(block * units)[0]),
        code="transpose",
    )
