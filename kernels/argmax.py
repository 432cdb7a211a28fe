"""ArgMax and ArgMin over one axis.

Along the last axis each row is reduced to one (value, index) pair per repeat and the scalar unit picks the best of
them; over an inner axis a running extreme and its index are kept per column, by comparison and selection or, where
vsel takes no bits from UB, by arithmetic on 0/1 steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from ascend_sim import asc
from ascend_sim.ops.registry import NoKernel, kernel
from ascend_sim.ops.schema import OpCall
from ascend_sim.ops.values.sort import _dimension

from ._flat import global_tensor, vector_copy
from ._lines import Heap, store_results
from ._rows import Rows, rows_of
from ._sync import Pipeline, walk
from ._vector import (
    BLOCK,
    MAX_REPEATS,
    REPEAT,
    align,
    ceil_div,
    deal,
    item_bytes,
    legal,
    padded_dma,
    phased,
    vector_cores,
)

if TYPE_CHECKING:
    from ascend_sim.soc import Soc


@dataclass(frozen=True)
class RowsPlan:
    """``rows`` rows; ``tile`` a tile; ``words`` 32-bit words of an index."""

    rows: int
    tile: int
    units: int
    io: Rows
    largest: bool
    dtype: str
    words: int
    padded: bool

    def count(self, block: int) -> int:
        return min(self.units, self.rows - block * self.units)


@asc.jit
def arg_rows(src: asc.GlobalAddress, dst: asc.GlobalAddress, plan: RowsPlan) -> None:
    """Index of the extreme of each row."""
    source, target = global_tensor(src), global_tensor(dst)
    io = plan.io
    width = REPEAT // item_bytes(plan.dtype)
    chunks = ceil_div(io.pitch, width)
    heap = Heap()
    taken = heap.take(plan.dtype, plan.tile * io.pitch)
    pairs = heap.take(plan.dtype, chunks * 2)
    results = heap.take("int32", align(plan.tile * plan.words, 8))
    places = pairs.reinterpret_cast("uint16" if item_bytes(plan.dtype) == 2 else "uint32")
    extreme = asc.whole_reduce_max if plan.largest else asc.whole_reduce_min
    first, count = asc.get_block_idx() * plan.units, plan.count(asc.get_block_idx())
    whole, rest = divmod(io.length if not io.repeated else io.pitch, width)
    pipe = Pipeline(1)
    for t in asc.steady(ceil_div(count, plan.tile)):
        row = first + t * plan.tile
        n = min(plan.tile, count - t * plan.tile)
        pipe.load(0)
        io.load(taken, source[row * io.length :], n)
        pipe.compute(0)
        for r in asc.steady(n):
            line = taken[r * io.pitch :]
            asc.set_flag(asc.HardEvent.S_V, 1)  # the pairs of the row before are read
            asc.wait_flag(asc.HardEvent.S_V, 1)
            for c in range(0, whole, MAX_REPEATS):
                m = min(MAX_REPEATS, whole - c)
                extreme(pairs[c * 2 :], line[c * width :], width, m, 1, 1, 8)
            if rest:
                extreme(pairs[whole * 2 :], line[whole * width :], rest, 1, 1, 1, 8)
            asc.set_flag(asc.HardEvent.V_S, 1)
            asc.wait_flag(asc.HardEvent.V_S, 1)
            best, where = pairs.get_value(0), places.get_value(1)
            for c in asc.steady(chunks - 1):
                value, place = pairs.get_value(2 * c + 2), places.get_value(2 * c + 3)
                if (value > best) if plan.largest else (value < best):
                    best, where = value, (c + 1) * width + place
            if where >= io.pitch - io.unit:
                where -= io.repeated
            results.set_value(r * plan.words, where)
            if plan.words == 2:
                results.set_value(r * plan.words + 1, 0)
        pipe.store(0)
        asc.set_flag(asc.HardEvent.S_MTE3, 1)
        asc.wait_flag(asc.HardEvent.S_MTE3, 1)
        store_results(target[row * plan.words :], results, n * plan.words, plan.padded)
        pipe.done(0)
        asc.set_flag(asc.HardEvent.MTE3_S, 1)  # the next tile writes new indices
        asc.wait_flag(asc.HardEvent.MTE3_S, 1)
    pipe.drain()


@dataclass(frozen=True)
class ColumnsPlan:
    """``outer`` slices of ``depth`` rows x ``inner``; pieces of ``piece`` columns."""

    outer: int
    depth: int
    inner: int
    piece: int
    io: Rows
    last_io: Rows
    units: int
    largest: bool
    dtype: str
    selects: bool

    @property
    def pieces(self) -> int:
        return ceil_div(self.inner, self.piece)

    def count(self, block: int) -> int:
        return min(self.units, self.outer * self.pieces - block * self.units)

    def signature(self, block: int) -> object:
        return self.count(block), block * self.units % self.pieces if self.io != self.last_io else 0

    def start(self, block: int, pitch: int) -> int:
        """First element of a block in a tensor whose slices are ``pitch`` elements apart."""
        outer, piece = divmod(block * self.units, self.pieces)
        return outer * pitch + piece * self.piece


@asc.jit
def arg_columns(src: asc.GlobalAddress, dst: asc.GlobalAddress, plan: ColumnsPlan) -> None:
    """Index of the extreme of each column."""
    source, target = global_tensor(src), global_tensor(dst)
    room = align(plan.io.pitch, 128)
    heap = Heap()
    taken = heap.take(plan.dtype, plan.io.pitch)
    line, best, place, step, zero = (heap.take("float32", room) for _ in range(5))
    bits, result = heap.take("uint8", room // 8), heap.take("int32", room)
    first = asc.get_block_idx() * plan.units
    pipe = Pipeline(1)
    for u in walk(plan.count(asc.get_block_idx()), lambda u: (first + u + 1) % plan.pieces == 0):
        outer, piece = divmod(first + u, plan.pieces)
        io = plan.io if piece + 1 < plan.pieces else plan.last_io
        width = io.pitch
        for r in asc.steady(plan.depth):
            pipe.load(0)
            io.load(taken, source[(outer * plan.depth + r) * plan.inner + piece * plan.piece :], 1)
            pipe.compute(0)
            if plan.dtype == "float32":
                vector_copy(line, taken, width)
            else:
                asc.cast(line, taken, asc.RoundMode.CAST_NONE, count=width)
            if not plan.largest:
                asc.muls(line, line, -1.0, count=width)
            if r == 0:
                vector_copy(best, line, width)
                asc.duplicate(place, 0.0, count=width)
            else:
                _better(plan, (line, best, place, step, zero, bits), r, width)
                asc.max(best, best, line, count=width)
            if r + 1 == plan.depth:
                asc.cast(result, place, asc.RoundMode.CAST_RINT, count=width)
            pipe.store(0)
            if r + 1 == plan.depth:
                io.store(target[outer * plan.inner + piece * plan.piece :], result, 1)
            pipe.done(0)
    pipe.drain()


def _better(plan: ColumnsPlan, areas: tuple[asc.LocalTensor, ...], row: int, width: int) -> None:
    """place = row where line > best."""
    line, best, place, step, zero, bits = areas
    if plan.selects:
        asc.compare(bits, line, best, asc.CMPMODE.LE, count=align(width, 64))
        asc.select(place, bits, place, float(row), asc.SelMode.VSEL_TENSOR_SCALAR_MODE, count=width)
        return
    asc.duplicate(zero, 0.0, count=width)
    asc.sub(step, line, best, count=width)
    asc.max(step, step, zero, count=width)
    asc.duplicate(zero, 2.0**-126, count=width)
    asc.min(step, step, zero, count=width)
    for factor in (2.0**62, 2.0**62, 4.0):  # 1 where line > best, else 0
        asc.muls(step, step, factor, count=width)
    asc.muls(zero, place, -1.0, count=width)
    asc.adds(zero, zero, float(row), count=width)
    asc.mul(zero, zero, step, count=width)
    asc.add(place, place, zero, count=width)


@kernel("ArgMaxV2", "ArgMaxD", "ArgMinV2", "ArgMin", "ArgMinD")
def plan_arg(call: OpCall, soc: Soc) -> list[asc.Launch]:
    """Raises `NoKernel` for blocked formats, integers, and types the chip's whole-repeat maximum does not take."""
    x, y = call.inputs[0], call.outputs[0]
    if x is None or x.format not in ("ND", "NCHW", "NHWC") or x.dtype not in ("float16", "float32") or not x.shape:
        raise NoKernel("ArgMax of this type or format")
    if y.dtype not in ("int32", "int64"):
        raise NoKernel(f"ArgMax to {y.dtype}")
    axis = _dimension(call.inputs, dict(call.attrs), len(x.shape))
    outer, depth, inner = prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :])
    largest = "Max" in call.type
    kind, cores = vector_cores(soc)
    item = item_bytes(x.dtype)
    args = (("in", 0), ("out", 0))
    gm = [("x", x.dtype, x.nbytes, "in"), ("y", "int32", y.nbytes, "out")]
    if inner == 1:
        if not legal(soc, "vcmax" if largest else "vcmin", x.dtype):
            raise NoKernel(f"no whole-repeat maximum of {x.dtype} on this chip")
        io = rows_of(soc, depth, [item])
        if io.mode == "scalar" and outer * depth > 4096:
            raise NoKernel(f"rows of {depth} elements are shorter than a block")
        units, blocks = deal(outer, cores)
        chunks = ceil_div(io.pitch, REPEAT // item)
        most = (soc.buffers.ub_bytes - chunks * 2 * item - 4 * BLOCK) // (io.pitch * item + 8)
        if most < 1:
            raise NoKernel(f"a row of {depth} elements does not fit the unified buffer")
        words = item_bytes(y.dtype) // 4
        rows = RowsPlan(outer, min(most, units), units, io, largest, x.dtype, words, padded_dma(soc))
        near = phased(rows.count, lambda b: b * units * depth * item, lambda b: b * units * 4 * words)
        return [asc.Launch(arg_rows, blocks, kind, args, gm, {"plan": rows}, soc=soc, signature=near)]
    if y.dtype == "int64":
        raise NoKernel("ArgMax over an inner axis to int64")
    selects = legal(soc, "vcmpvs_gt", "float32")
    unit = BLOCK // item
    most = (soc.buffers.ub_bytes - 16 * BLOCK) // (item + 25) // 128 * 128 - 128
    pieces = max(ceil_div(inner, most), min(ceil_div(cores, outer), ceil_div(inner, 128)))
    piece = min(align(ceil_div(inner, pieces), unit), inner)
    ends = [piece, inner - (ceil_div(inner, piece) - 1) * piece]
    io, last = (rows_of(soc, n, [item, 4]) for n in ends)
    if "scalar" in (io.mode, last.mode) and outer * depth * min(ends) > 4096:
        raise NoKernel("rows shorter than a block")
    units, blocks = deal(outer * ceil_div(inner, piece), cores)
    plan = ColumnsPlan(outer, depth, inner, piece, io, last, units, largest, x.dtype, selects)
    alike = phased(
        plan.signature, lambda b: plan.start(b, depth * inner) * item, lambda b: plan.start(b, inner) * 4
    )
    return [asc.Launch(arg_columns, blocks, kind, args, gm, {"plan": plan}, soc=soc, signature=alike)]
