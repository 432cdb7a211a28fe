"""Transpose: DMA alone when the last axis stays, else 16 x 16 tiles through vnchwconv (16-bit types, and 32-bit ones
where the instruction takes them).

With the last axis moved, a tile is ``m`` rows along the input axis that becomes last and ``n`` columns along the
input's last axis; all other axes are loops. Tile sides that do not fill blocks use the row methods of `_rows` on
both sides.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from ascend_sim import asc
from ascend_sim.ops.registry import NoKernel, kernel
from ascend_sim.ops.schema import OpCall
from ascend_sim.ops.values.layout import pick

from ._copy import Box, copy_launch
from ._flat import global_tensor
from ._rows import Rows, rows_of
from ._sync import Pipeline
from ._vector import BLOCK, MAX_REPEATS, align, ceil_div, deal, item_bytes, legal, padded_dma, phased, vector_cores

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

_SCALAR_LIMIT = 4096


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
        _turn(a, b, m_io.pitch, n_io.pitch)
        pipe.store(slot)
        for inside, at, rows in _pieces(n_io):
            begin = at_dst + (n0 + at) * plan.n.stride + m0
            m_io.store(target[begin:], b[inside * m_io.pitch :], rows, plan.n.stride)
        pipe.done(slot)
    pipe.drain()


def _turn(a: asc.LocalTensor, b: asc.LocalTensor, high: int, wide: int) -> None:
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


def fuse_permutation(shape: tuple[int, ...], perm: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Drop axes of size 1 and merge axes that stay neighbours; same data movement, fewer axes."""
    order = [p for p in perm if shape[p] != 1]
    groups: list[list[int]] = []
    kept = [i for i, s in enumerate(shape) if s != 1]
    place = {axis: i for i, axis in enumerate(kept)}
    for p in order:
        if groups and place[groups[-1][-1]] + 1 == place[p]:
            groups[-1].append(p)
        else:
            groups.append([p])
    ranked = sorted(groups, key=lambda g: place[g[0]])
    sizes = tuple(prod(shape[i] for i in g) for g in ranked)
    return sizes, tuple(ranked.index(g) for g in groups)


def _side(size: int, step: int, stride: int, soc: Soc) -> Side:
    step = min(step, size)
    if step < size:
        step = align(ceil_div(size, ceil_div(size, step)), 16)
    return Side(size, step, stride, rows_of(soc, step, [2]))


@kernel("Transpose", "TransposeD")
def plan_transpose(call: OpCall, soc: Soc) -> list[asc.Launch]:
    x, y = call.inputs[0], call.outputs[0]
    if x is None or x.format not in ("ND", "NCHW", "NHWC"):
        raise NoKernel("Transpose of a blocked format")
    rank = len(x.shape)
    perm = tuple(p % max(rank, 1) for p in pick(call.inputs, 1, dict(call.attrs), "perm"))
    shape, order = fuse_permutation(x.shape, perm)
    strides_in = [prod(shape[i + 1 :]) for i in range(len(shape))]
    out_shape = [shape[p] for p in order]
    strides_out = {p: prod(out_shape[i + 1 :]) for i, p in enumerate(order)}
    if not shape or order[-1] == len(shape) - 1:
        axes = tuple((shape[p], strides_in[p], strides_out[p]) for p in order) or ((1, 1, 1),)
        return [copy_launch([Box(0, 1, 0, 0, axes)], [(("in", 0), x)], [(("out", 0), y)], soc)]
    item = item_bytes(x.dtype)
    dtype = {2: "uint16", 4: "uint32"}.get(item, "uint8")
    if item not in (2, 4) or not legal(soc, "vnchwconv", dtype):
        raise NoKernel(f"Transpose of {x.dtype} with the last axis moved")
    last, moved = len(shape) - 1, order[-1]
    n, m = shape[last], shape[moved]
    if min(n, m) < 16 and not padded_dma(soc) and prod(shape) > _SCALAR_LIMIT:
        raise NoKernel(f"sides of {m} x {n} are shorter than a block")
    kind, cores = vector_cores(soc)
    area = soc.buffers.ub_bytes // (4 * item)
    wide = min(align(n, 16), 256)
    high = max(min(align(m, 16), area // wide // 16 * 16, max(128, area // wide // 16 * 16 if n <= 64 else 128)), 16)
    wide = max(min(align(n, 16), area // high // 16 * 16, 4080), 16) if m <= 64 else wide
    loops = tuple((shape[p], strides_in[p], strides_out[p]) for p in order if p not in (last, moved))
    plan = TransposePlan(
        _side(m, high, strides_in[moved], soc), _side(n, wide, strides_out[last], soc), loops, 1, 1, dtype
    )
    units, blocks = deal(plan.total, cores)
    plan = TransposePlan(plan.m, plan.n, loops, units, 2 if units > 1 else 1, dtype)
    return [
        asc.Launch(
            transpose_kernel,
            block_dim=blocks,
            kind=kind,
            args=(("in", 0), ("out", 0)),
            gm=[("x", dtype, x.nbytes, "in"), ("y", dtype, y.nbytes, "out")],
            consts={"plan": plan},
            soc=soc,
            signature=phased(plan.signature, *(lambda b, s=s: plan.start(b)[s] * item for s in (0, 1))),
            code="transpose",
        )
    ]
