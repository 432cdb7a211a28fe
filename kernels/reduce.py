"""Reductions over axes: sum, mean, maximum, minimum, product.

The input is seen as ``outer x depth x inner``. With ``inner`` 1 each row is folded and reduced to one value; else rows
of one slice are combined element by element. Half and bf16 sums and products run in float32. Cores share the kept
axes only, as in the stock schedule. Axes reduced on both sides of the kept ones are rows that come several times. H
and W of NC1HWC0 go to `_spatial`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from ascend_sim import asc
from ascend_sim.ops.registry import NoKernel, kernel
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.values.reduce import reduce_axes

from ._flat import global_tensor, vector_copy
from ._lines import COMBINE, Heap, Lines, line_launch, lines_of, neutral, store_results
from ._rows import Rows, rows_of
from ._spatial import spatial_launch
from ._sync import Pipeline, walk
from ._vector import BLOCK, REPEAT, align, ceil_div, deal, item_bytes, legal, padded_dma, phased, vector_cores

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

_TYPES = ("float16", "bfloat16", "float32", "int32")


@dataclass(frozen=True)
class RowsPlan:
    """``rows`` rows of ``length``, ``outer`` times over; tiles of ``tile`` rows, or pieces of ``piece`` elements of one
    row (moved by ``lines.io``, the last by ``last.io``)."""

    rows: int
    length: int
    tile: int
    piece: int
    units: int
    lines: Lines
    last: Lines
    how: str
    factor: float
    dtype: str
    buffers: int
    padded: bool
    outer: int = 1

    @property
    def pieces(self) -> int:
        return ceil_div(self.length, self.piece)

    @property
    def steps(self) -> int:
        """Loads that make up one tile of results."""
        return self.outer * self.pieces

    def count(self, block: int) -> int:
        return min(self.units, self.rows - block * self.units)


@asc.jit
def reduce_rows(src: asc.GlobalAddress, dst: asc.GlobalAddress, plan: RowsPlan) -> None:
    """One result per row."""
    source, target = global_tensor(src), global_tensor(dst)
    lines, work = plan.lines, plan.lines.dtype
    area, room = plan.tile * lines.io.pitch, align(plan.tile, 16)
    heap = Heap()
    sets = [(heap.take(plan.dtype, area), heap.take(plan.dtype, room)) for _ in range(plan.buffers)]
    wide = None if work == plan.dtype else heap.take(work, area)
    scratch, values = heap.take(work, plan.tile * lines.width), heap.take(work, room)
    first, count = asc.get_block_idx() * plan.units, plan.count(asc.get_block_idx())
    pipe = Pipeline(plan.buffers)
    for t in asc.steady(ceil_div(count, plan.tile)):
        row = first + t * plan.tile
        n = min(plan.tile, count - t * plan.tile)
        for q in walk(plan.steps, lambda q: (q + 1) % plan.pieces == 0):
            o, p = divmod(q, plan.pieces)
            part = lines if p + 1 < plan.pieces else plan.last
            slot = (t * plan.steps + q) % plan.buffers
            taken, result = sets[slot]
            pipe.load(slot)
            begin = (o * plan.rows + row) * plan.length + p * plan.piece
            part.io.load(taken, source[begin:], n, plan.length)
            pipe.compute(slot)
            data = taken
            if wide is not None:
                asc.cast(wide, taken, asc.RoundMode.CAST_NONE, count=n * part.io.pitch)
                data = wide
            if q == 0:
                asc.duplicate(scratch, neutral(plan.how, work), count=n * lines.width)
            part.fold(plan.how, data, n, scratch)
            if q + 1 == plan.steps:
                lines.finish(plan.how, scratch, n, values)
                _result(plan, values, result, n)
            pipe.store(slot)
            if q + 1 == plan.steps:
                store_results(target[row:], result, n, plan.padded)
            pipe.done(slot)
    pipe.drain()


def _result(plan: RowsPlan, values: asc.LocalTensor, result: asc.LocalTensor, n: int) -> None:
    if plan.factor != 1.0:
        asc.muls(values, values, plan.factor, count=n)
    if values.dtype is result.dtype:
        vector_copy(result, values, n)
    else:
        mode = asc.RoundMode.CAST_RINT if plan.dtype == "bfloat16" else asc.RoundMode.CAST_NONE
        asc.cast(result, values, mode, count=n)


@dataclass(frozen=True)
class ColumnsPlan:
    """``outer`` slices of ``depth`` rows x ``inner``; pieces of ``piece`` columns, ``rows`` rows at a time."""

    outer: int
    depth: int
    inner: int
    piece: int
    rows: int
    io: Rows
    last_io: Rows
    units: int
    how: str
    factor: float
    dtype: str
    work: str
    buffers: int

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
def reduce_columns(src: asc.GlobalAddress, dst: asc.GlobalAddress, plan: ColumnsPlan) -> None:
    """One result per column of every slice."""
    source, target = global_tensor(src), global_tensor(dst)
    pitch = plan.io.pitch
    heap = Heap()
    sets = [(heap.take(plan.dtype, plan.rows * pitch), heap.take(plan.dtype, pitch)) for _ in range(plan.buffers)]
    wide = None if plan.work == plan.dtype else heap.take(plan.work, plan.rows * pitch)
    total = heap.take(plan.work, pitch)
    combine = COMBINE[plan.how]
    first = asc.get_block_idx() * plan.units
    steps = ceil_div(plan.depth, plan.rows)
    pipe = Pipeline(plan.buffers)
    for u in walk(plan.count(asc.get_block_idx()), lambda u: (first + u + 1) % plan.pieces == 0):
        outer, piece = divmod(first + u, plan.pieces)
        io = plan.io if piece + 1 < plan.pieces else plan.last_io
        width = io.pitch
        for s in asc.steady(steps):
            slot = (u * steps + s) % plan.buffers
            taken, result = sets[slot]
            n = min(plan.rows, plan.depth - s * plan.rows)
            at = (outer * plan.depth + s * plan.rows) * plan.inner + piece * plan.piece
            pipe.load(slot)
            io.load(taken, source[at:], n, plan.inner)
            pipe.compute(slot)
            data = taken
            if wide is not None:
                asc.cast(wide, taken, asc.RoundMode.CAST_NONE, count=n * width)
                data = wide
            _fold_rows(combine, data, n, width)
            if s == 0:
                vector_copy(total, data, width)
            else:
                combine(total, total, data, count=width)
            if s + 1 == steps:
                if plan.factor != 1.0:
                    asc.muls(total, total, plan.factor, count=width)
                if wide is None:
                    vector_copy(result, total, width)
                else:
                    mode = asc.RoundMode.CAST_RINT if plan.dtype == "bfloat16" else asc.RoundMode.CAST_NONE
                    asc.cast(result, total, mode, count=width)
            pipe.store(slot)
            if s + 1 == steps:
                io.store(target[outer * plan.inner + piece * plan.piece :], result, 1)
            pipe.done(slot)
    pipe.drain()


def _fold_rows(combine: Any, data: asc.LocalTensor, rows: int, width: int) -> None:
    """Combine rows into the first by halves."""
    while rows > 1:
        low = ceil_div(rows, 2)
        combine(data, data, data[low * width :], count=(rows - low) * width)
        rows = low


@kernel(
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumD", "ReduceMeanD", "ReduceMaxD",
    "ReduceMinD", "ReduceProdD",
)  # fmt: skip
def plan_reduce(call: OpCall, soc: Soc) -> list[asc.Launch]:
    """Raises `NoKernel` for scattered axes, blocked formats other than H and W of NC1HWC0, and other types."""
    x, y = call.inputs[0], call.outputs[0]
    if x is None or x.dtype not in _TYPES or x.size == 0:
        raise NoKernel("reduction of this type")
    name = call.type.removeprefix("Reduce").removesuffix("D").lower()
    how, mean = ("sum", True) if name == "mean" else (name, False)
    axes = sorted(reduce_axes(call.inputs, dict(call.attrs), len(x.logical_shape)))
    if x.format == "NC1HWC0":
        if axes != [2, 3] or y.format != "NC1HWC0" or how == "prod":
            raise NoKernel(f"reduction of NC1HWC0 over {axes}")
        return [spatial_launch(x, y, how, mean, soc)]
    if x.format not in ("ND", "NCHW", "NHWC"):
        raise NoKernel(f"reduction of {x.format}")
    axes = [a for a in axes if x.shape[a] != 1]
    shape = x.shape
    if not axes:
        outer, depth, inner = x.size, 1, 1
    else:
        between = [a for a in range(axes[0], axes[-1] + 1) if a not in axes and shape[a] != 1]
        if between:
            first, last = between[0], between[-1]
            ends = prod(shape[: axes[0]]) == 1 == prod(shape[axes[-1] + 1 :])
            if not ends or any(first <= a <= last for a in axes) or item_bytes(x.dtype) > 4:
                raise NoKernel(f"reduction over scattered axes {axes}")
            work = "float32" if x.dtype == "bfloat16" or (x.dtype == "float16" and how in ("sum", "prod")) else x.dtype
            if mean and work == "int32":
                raise NoKernel("mean of integers")
            repeats, rows, length = prod(shape[:first]), prod(shape[first : last + 1]), prod(shape[last + 1 :])
            factor = 1.0 / (repeats * length) if mean else 1.0
            return [_rows(x, y, (rows, length), (how, factor, work), soc, repeats)]
        outer, depth = prod(shape[: axes[0]]), prod(shape[axes[0] : axes[-1] + 1])
        inner = prod(shape[axes[-1] + 1 :])
    work = "float32" if x.dtype == "bfloat16" or (x.dtype == "float16" and how in ("sum", "prod")) else x.dtype
    if mean and work == "int32":
        raise NoKernel("mean of integers")
    factor = 1.0 / depth if mean else 1.0
    if inner > 1:
        return [_columns(x, y, (outer, depth, inner), (how, factor, work), soc)]
    return [_rows(x, y, (outer, depth), (how, factor, work), soc)]


def _rows(
    x: TensorSpec, y: TensorSpec, sizes: tuple[int, int], what: tuple[str, float, str], soc: Soc, outer: int = 1
) -> asc.Launch:
    rows, length = sizes
    how, factor, work = what
    if not legal(soc, {"sum": "vadd", "prod": "vmul"}.get(how, "v" + how), work):
        raise NoKernel(f"{how} of {work}")
    item = item_bytes(x.dtype)
    io = rows_of(soc, length, [item])
    if io.mode == "scalar" and rows * length > 4096:
        raise NoKernel(f"rows of {length} elements are shorter than a block")
    converted = item_bytes(work) if work != x.dtype else 0
    unit = BLOCK // item
    cores = vector_cores(soc)[1]
    units, blocks = deal(rows, cores, 1 if rows < cores or padded_dma(soc) else unit)
    room = soc.buffers.ub_bytes - 8 * REPEAT

    def fit(pitch: int, buffers: int) -> int:
        """Rows of ``pitch`` elements that fit."""
        return room // (pitch * (item * buffers + converted) + REPEAT + 16)

    buffers = 1 if fit(io.pitch, 1) >= units and outer == 1 else 2
    piece, last = length, io
    if fit(io.pitch, 1) < 1:
        most = (room - REPEAT - 64) // (2 * item + converted) // unit * unit
        piece = align(ceil_div(length, ceil_div(length, most)), unit)
        io = rows_of(soc, piece, [item])
        last = rows_of(soc, length - (ceil_div(length, piece) - 1) * piece, [item])
        tile, buffers = 1, 2
    else:
        if fit(io.pitch, buffers) < 1:
            buffers = 1
        tile = min(fit(io.pitch, buffers), units)
        if tile < units and tile > unit:
            tile = tile // unit * unit
    plan = RowsPlan(
        rows, length, tile, piece, units, lines_of(soc, io, work), lines_of(soc, last, work), how, factor, x.dtype,
        buffers, padded_dma(soc), outer,
    )  # fmt: skip
    signature = phased(plan.count, lambda b: b * units * length * item, lambda b: b * units * item)
    return line_launch(reduce_rows, x, y, plan, signature, blocks, soc)


def _columns(
    x: TensorSpec, y: TensorSpec, sizes: tuple[int, int, int], what: tuple[str, float, str], soc: Soc
) -> asc.Launch:
    outer, depth, inner = sizes
    how, factor, work = what
    if not legal(soc, {"sum": "vadd", "prod": "vmul"}.get(how, "v" + how), work):
        raise NoKernel(f"{how} of {work}")
    item = item_bytes(x.dtype)
    converted = item_bytes(work) if work != x.dtype else 0
    unit = BLOCK // item
    cores = vector_cores(soc)[1]
    room = soc.buffers.ub_bytes - 8 * BLOCK
    per_row, fixed = 2 * item + converted, 2 * item + item_bytes(work)
    most = room // (min(depth, 64) * per_row + fixed) // unit * unit
    most = max(most, unit)
    pieces = max(ceil_div(inner, most), min(ceil_div(cores, outer), ceil_div(inner, max(unit, 64))))
    piece = min(align(ceil_div(inner, pieces), unit), inner)
    io = rows_of(soc, piece, [item])
    last = rows_of(soc, inner - (ceil_div(inner, piece) - 1) * piece, [item])
    for part in (io, last):
        if part.mode == "scalar" and outer * depth * part.length > 4096:
            raise NoKernel(f"rows of {part.length} elements are shorter than a block")
    rows = (room // io.pitch - fixed) // per_row
    if rows < 1:
        raise NoKernel("a row does not fit the unified buffer")
    rows = min(rows, depth)
    rows = ceil_div(depth, ceil_div(depth, rows))
    units, blocks = deal(outer * ceil_div(inner, piece), cores)
    buffers = 2 if units * ceil_div(depth, rows) > 1 else 1
    plan = ColumnsPlan(outer, depth, inner, piece, rows, io, last, units, how, factor, x.dtype, work, buffers)
    signature = phased(
        plan.signature, lambda b: plan.start(b, depth * inner) * item, lambda b: plan.start(b, inner) * item
    )
    return line_launch(reduce_columns, x, y, plan, signature, blocks, soc)
