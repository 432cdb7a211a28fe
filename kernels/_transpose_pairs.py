"""Transpose of 64-bit types with the last axis moved: tiles of 32-bit words through vnchwconv, then the two words of
each element are brought together by a gather."""

from __future__ import annotations

from ascend_sim import asc

from ._flat import global_tensor
from ._lines import Heap
from ._sync import Pipeline
from ._transpose import TransposePlan, turn
from ._vector import align

GATHERED = 256  # words that one gather brings at least, if the columns are short
SIDE = (128, 64)  # most rows and columns of a tile


@asc.jit
def transpose_pairs(src: asc.GlobalAddress, dst: asc.GlobalAddress, plan: TransposePlan) -> None:
    """Turn this core's tiles. Sizes and strides of ``plan`` count elements, its row moves count words."""
    source, target = global_tensor(src), global_tensor(dst)
    rows, columns = plan.m.step, plan.n.step
    high, wide = align(rows, 16), plan.n.io.pitch
    heap = Heap()
    a = heap.take("uint32", max(high * wide, columns * plan.m.io.pitch))
    b = heap.take("uint32", high * wide)
    line = plan.m.io.pitch
    together = max(GATHERED // line, 1)  # columns of one gather
    offsets = heap.take("uint32", together * line)
    for c in range(together):
        for i in range(line):
            where = (2 * c + i % 2) * high + i // 2 if i < 2 * rows else 0
            offsets.set_value(c * line + i, 4 * where)
    asc.set_flag(asc.HardEvent.S_V, 2)
    asc.wait_flag(asc.HardEvent.S_V, 2)
    first = asc.get_block_idx() * plan.units
    pipe = Pipeline(1)
    for u in asc.steady(plan.count(asc.get_block_idx())):
        rest, column = divmod(first + u, plan.n.tiles)
        outer, row = divmod(rest, plan.m.tiles)
        at_src, at_dst = plan.where(outer)
        m0, n0 = plan.m.first(row), plan.n.first(column)
        pipe.load(0)
        if plan.group:
            for r, at in enumerate(plan.row_starts()):
                plan.n.io.load(a[r * wide :], source[2 * (at_src + at + n0) :], 1)
        else:
            plan.n.io.load(a, source[2 * (at_src + m0 * plan.m.stride + n0) :], rows, 2 * plan.m.stride)
        pipe.compute(0)
        turn(a, b, high, wide)
        for c in asc.steady(0, columns, together):
            n = min(together, columns - c)
            asc.gather(a[c * line :], b, offsets, 2 * c * high * 4, count=n * line)
        pipe.store(0)
        plan.m.io.store(target[2 * (at_dst + n0 * plan.n.stride + m0) :], a, columns, 2 * plan.n.stride)
        pipe.done(0)
        asc.set_flag(asc.HardEvent.MTE3_MTE2, 2)
        asc.wait_flag(asc.HardEvent.MTE3_MTE2, 2)
    pipe.drain()
