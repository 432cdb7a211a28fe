"""RmsNorm and AddRmsNorm on chips with separate vector cores, as the stock AscendC kernels run them (hicann/ops-nn,
restated): rows in equal shares, queues one deep, counter-mode instructions with a barrier after each.

Three variants by row length: short rows are normalised several at a time with all statistics on the vector unit
(*merged*); longer ones one at a time, the deviation computed by the scalar unit (*single*); rows beyond the unified
buffer are read twice in pieces (*split*). Deviations are written in batches of 64 rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any

from ascend_sim import asc
from ascend_sim.ops.schema import TensorSpec

from ._flat import global_tensor
from ._lines import Heap, Lines, lines_of, vector_to_scalar
from ._rows import Rows, rows_of
from ._sync import Pipeline
from ._vector import REPEAT, align, ceil_div, deal, item_bytes, phased, vector_cores

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

MERGED_COLUMNS = 2000  # longest row of the merged variant
SPLIT_COLUMNS = {2: 12288, 4: 10240}  # longest row of the single variant, by bytes of an element
PIECE_COLUMNS = {2: 12096, 4: 9696}  # of the split variant
BATCH = 64  # deviations stored at a time
ROOT = "root"  # scalar routine: 1 / sqrt(mean + epsilon)


@dataclass(frozen=True)
class RmsPlan:
    """``rows`` rows of ``length``, ``units`` per core. ``io`` moves a row or, of split ones, a piece (``last`` the last
    one). ``add``: a second addend whose sum is stored too. ``args``: kernel arguments of gamma, y, deviation and sum
    (-1: absent)."""

    rows: int
    length: int
    units: int
    tile: int
    io: Rows
    last: Rows
    lines: Lines
    add: bool
    dtype: str
    gamma_dtype: str
    epsilon: float
    args: tuple[int, int, int, int]

    def count(self, block: int) -> int:
        return min(self.units, self.rows - block * self.units)

    @property
    def pieces(self) -> int:
        return ceil_div(self.length, self.io.length)


def _do(instruction: Callable[..., None], *args: Any, **kwargs: Any) -> None:
    instruction(*args, **kwargs)
    asc.pipe_barrier(asc.PipeID.V)


def _widen(dst: asc.LocalTensor, src: asc.LocalTensor, count: int) -> asc.LocalTensor:
    """``src`` in float32: itself, or ``dst`` filled."""
    if src.dtype is dst.dtype:
        return src
    _do(asc.cast, dst, src, asc.RoundMode.CAST_NONE, count=count)
    return dst


def _narrow(dst: asc.LocalTensor, src: asc.LocalTensor, count: int) -> None:
    mode = asc.RoundMode.CAST_RINT if dst.dtype.name == "bfloat16" else asc.RoundMode.CAST_NONE
    _do(asc.cast, dst, src, mode, count=count)


@dataclass(frozen=True)
class Buffers:
    """x (and the second addend), gamma, y in their types, float32 areas, and deviations waiting to be stored."""

    x: asc.LocalTensor
    other: asc.LocalTensor | None
    gamma: asc.LocalTensor
    y: asc.LocalTensor
    wide: asc.LocalTensor
    square: asc.LocalTensor
    deviations: asc.LocalTensor
    small: asc.LocalTensor


def _buffers(plan: RmsPlan, heap: Heap, area: int) -> Buffers:
    half = plan.dtype != "float32"
    x = heap.take(plan.dtype, area)
    other = heap.take(plan.dtype, area) if plan.add else None
    gamma = heap.take(plan.gamma_dtype, plan.io.pitch)
    y = heap.take(plan.dtype, area)
    wide = heap.take("float32", area) if half else x
    square = heap.take("float32", area) if half or plan.add else y
    return Buffers(x, other, gamma, y, wide, square, heap.take("float32", BATCH), heap.take("float32", REPEAT // 4))


def _added(plan: RmsPlan, b: Buffers, size: int) -> asc.LocalTensor:
    """The values to normalise in float32; the sum of both addends is left in ``b.x`` as it is stored."""
    data = _widen(b.wide, b.x, size)
    if b.other is not None:
        second = _widen(b.square, b.other, size)
        _do(asc.add, data, data, second, count=size)
        if data is not b.x:
            _narrow(b.x, data, size)
    return data


def _store_sum(plan: RmsPlan, tensors: Sequence[asc.GlobalTensor], at: int, b: Buffers, io: Rows, rows: int) -> None:
    if plan.args[3] >= 0:
        asc.set_flag(asc.HardEvent.V_MTE3, 4)
        asc.wait_flag(asc.HardEvent.V_MTE3, 4)
        io.store(tensors[plan.args[3]][at:], b.x, rows)
        asc.set_flag(asc.HardEvent.MTE3_V, 4)
        asc.wait_flag(asc.HardEvent.MTE3_V, 4)
        asc.set_flag(asc.HardEvent.MTE3_MTE2, 4)
        asc.wait_flag(asc.HardEvent.MTE3_MTE2, 4)


def _load_gamma(plan: RmsPlan, tensors: Sequence[asc.GlobalTensor], b: Buffers) -> None:
    plan.io.load(b.gamma, tensors[plan.args[0]], 1)
    asc.set_flag(asc.HardEvent.MTE2_V, 4)
    asc.wait_flag(asc.HardEvent.MTE2_V, 4)


class Deviations:
    """Collects one deviation per row and stores them in batches."""

    def __init__(self, plan: RmsPlan, tensors: Sequence[asc.GlobalTensor], local: asc.LocalTensor, count: int) -> None:
        self.target = tensors[plan.args[2]] if plan.args[2] >= 0 else None
        self.local, self.count = local, count
        self.base = asc.get_block_idx() * plan.units

    def put(self, row: int, value: float) -> None:
        if self.target is None:
            return
        self.local.set_value(row % BATCH, value)
        if row % BATCH + 1 < BATCH and row + 1 < self.count:
            return
        n, first = row % BATCH + 1, row - row % BATCH
        asc.set_flag(asc.HardEvent.S_MTE3, 4)
        asc.wait_flag(asc.HardEvent.S_MTE3, 4)
        asc.data_copy_pad(self.target[self.base + first :], self.local, asc.DataCopyParams(1, 4 * n, 0, 0))
        asc.set_flag(asc.HardEvent.MTE3_S, 4)
        asc.wait_flag(asc.HardEvent.MTE3_S, 4)


def _row_sum(b: Buffers, size: int) -> None:
    """b.small[0] = sum of ``b.square``: halves are added down to one repeat."""
    while size > 64:
        low = align(ceil_div(size, 2), 64)
        _do(asc.add, b.square, b.square, b.square[low:], count=size - low)
        size = low
    _do(asc.whole_reduce_sum, b.small, b.square, size, 1, 1, 1, 8)


def _deviation(plan: RmsPlan, total: float) -> float:
    asc.scalar_instructions(1, ROOT)
    value = 1.0 / sqrt(max(total, 0.0) / plan.length + plan.epsilon)
    asc.set_flag(asc.HardEvent.S_V, 3)
    asc.wait_flag(asc.HardEvent.S_V, 3)
    return value


def _scale(plan: RmsPlan, b: Buffers, data: asc.LocalTensor, factor: float, size: int) -> None:
    """b.y = data factor gamma."""
    out = b.y if plan.dtype == "float32" else b.wide
    _do(asc.muls, out, data, factor, count=size)
    gamma = b.gamma if plan.gamma_dtype == "float32" else _widen(b.square, b.gamma, size)
    _do(asc.mul, out, out, gamma, count=size)
    if out is not b.y:
        _narrow(b.y, out, size)


@asc.jit
def rms_norm_single(*gm: asc.GlobalAddress, plan: RmsPlan) -> None:
    """One row at a time."""
    tensors = [global_tensor(a) for a in gm]
    b = _buffers(plan, Heap(), plan.io.pitch)
    _load_gamma(plan, tensors, b)
    first, count = asc.get_block_idx() * plan.units, plan.count(asc.get_block_idx())
    deviations, size = Deviations(plan, tensors, b.deviations, count), plan.length
    early = plan.dtype != "float32" and not plan.add
    pipe = Pipeline(1)
    for i in asc.steady(count):
        at = (first + i) * plan.length
        pipe.load(0)
        plan.io.load(b.x, tensors[0][at:], 1)
        if b.other is not None:
            plan.io.load(b.other, tensors[1][at:], 1)
        pipe.compute(0)
        data = _added(plan, b, size)
        if early:  # the cast has freed x
            asc.set_flag(asc.HardEvent.V_MTE2, 0)
        _store_sum(plan, tensors, at, b, plan.io, 1)
        _do(asc.mul, b.square, data, data, count=size)
        _row_sum(b, size)
        vector_to_scalar()
        factor = _deviation(plan, float(b.small.get_value(0)))
        deviations.put(i, factor)
        _scale(plan, b, data, factor, size)
        if not early:
            asc.set_flag(asc.HardEvent.V_MTE2, 0)
        asc.set_flag(asc.HardEvent.V_MTE3, 0)
        asc.wait_flag(asc.HardEvent.V_MTE3, 0)
        plan.io.store(tensors[plan.args[1]][at:], b.y, 1)
        pipe.done(0)
    pipe.drain()


@asc.jit
def rms_norm_split(*gm: asc.GlobalAddress, plan: RmsPlan) -> None:
    """Pieces of a row, read twice: for the sum of squares, then to be scaled."""
    tensors = [global_tensor(a) for a in gm]
    b = _buffers(plan, Heap(), plan.io.pitch)
    first, count = asc.get_block_idx() * plan.units, plan.count(asc.get_block_idx())
    deviations = Deviations(plan, tensors, b.deviations, count)
    pipe = Pipeline(1)
    for i in asc.steady(count):
        at, total = (first + i) * plan.length, 0.0
        for p in asc.steady(plan.pieces):
            io = plan.io if p + 1 < plan.pieces else plan.last
            begin, size = at + p * plan.io.length, io.length
            pipe.load(0)
            io.load(b.x, tensors[0][begin:], 1)
            if b.other is not None:
                io.load(b.other, tensors[1][begin:], 1)
            pipe.compute(0)
            data = _added(plan, b, size)
            _store_sum(plan, tensors, begin, b, io, 1)
            _do(asc.mul, b.square, data, data, count=size)
            _row_sum(b, size)
            vector_to_scalar()
            total += float(b.small.get_value(0))
            asc.set_flag(asc.HardEvent.S_V, 3)
            asc.wait_flag(asc.HardEvent.S_V, 3)
            pipe.store(0)
            pipe.done(0)
        factor = _deviation(plan, total)
        deviations.put(i, factor)
        for p in asc.steady(plan.pieces):
            io = plan.io if p + 1 < plan.pieces else plan.last
            begin, size = at + p * plan.io.length, io.length
            pipe.load(0)
            io.load(b.x, tensors[0][begin:], 1)
            if b.other is not None:
                io.load(b.other, tensors[1][begin:], 1)
            io.load(b.gamma, tensors[plan.args[0]][p * plan.io.length :], 1)
            pipe.compute(0)
            _scale(plan, b, _added(plan, b, size), factor, size)
            pipe.store(0)
            io.store(tensors[plan.args[1]][begin:], b.y, 1)
            pipe.done(0)
    pipe.drain()


@asc.jit
def rms_norm_merged(*gm: asc.GlobalAddress, plan: RmsPlan) -> None:
    """Several short rows at a time, all on the vector unit."""
    tensors = [global_tensor(a) for a in gm]
    io, lines = plan.io, plan.lines
    heap = Heap()
    b = _buffers(plan, heap, plan.tile * io.pitch)
    scratch, values = heap.take("float32", plan.tile * lines.width), heap.take("float32", align(plan.tile, 64))
    blocks, ones = heap.take("float32", align(plan.tile, 8) * 8), heap.take("float32", align(plan.tile, 64))
    gamma = heap.take("float32", io.pitch)
    _load_gamma(plan, tensors, b)
    gamma = _widen(gamma, b.gamma, io.pitch)
    first, count = asc.get_block_idx() * plan.units, plan.count(asc.get_block_idx())
    pipe = Pipeline(1)
    for t in asc.steady(ceil_div(count, plan.tile)):
        row, n = first + t * plan.tile, min(plan.tile, count - t * plan.tile)
        at, size = row * io.length, n * io.pitch
        pipe.load(0)
        io.load(b.x, tensors[0][at:], n)
        if b.other is not None:
            io.load(b.other, tensors[1][at:], n)
        pipe.compute(0)
        data = _added(plan, b, size)
        _store_sum(plan, tensors, at, b, io, n)
        _do(asc.mul, b.square, data, data, count=size)
        lines.reduce("sum", b.square, n, scratch, values)
        _do(asc.muls, values, values, 1.0 / plan.length, count=n)
        _do(asc.adds, values, values, plan.epsilon, count=n)
        _do(asc.sqrt, values, values, count=n)
        _do(asc.duplicate, ones, 1.0, count=n)
        _do(asc.div, values, ones, values, count=n)
        out = b.y if plan.dtype == "float32" else b.wide
        lines.spread("mul", out, data, values, n, blocks)
        asc.pipe_barrier(asc.PipeID.V)
        lines.across("mul", out, out, gamma, n)
        asc.pipe_barrier(asc.PipeID.V)
        if out is not b.y:
            _narrow(b.y, out, size)
        pipe.store(0)
        io.store(tensors[plan.args[1]][at:], b.y, n)
        if plan.args[2] >= 0:
            asc.data_copy_pad(tensors[plan.args[2]][row:], values, asc.DataCopyParams(1, 4 * n, 0, 0))
        pipe.done(0)
    pipe.drain()


def rms_norm_launch(
    specs: Sequence[TensorSpec], results: Sequence[tuple[int, TensorSpec]], add: bool, epsilon: float, soc: Soc
) -> asc.Launch:
    """``specs`` are x (the two addends) and gamma; ``results`` the outputs in use with their numbers (0: y, 1:
    deviation, 2: sum)."""
    x, gamma = specs[0], specs[-1]
    length = gamma.size
    rows = x.size // length
    item = item_bytes(x.dtype)
    items = [item, item_bytes(gamma.dtype)]
    kind, cores = vector_cores(soc)
    units, blocks = deal(rows, cores)
    io = last = rows_of(soc, length, items)
    tile, function = 1, rms_norm_single
    if length <= MERGED_COLUMNS:
        function = rms_norm_merged
        live = item * (2 + add) + (8 if item == 2 else 4 * add)
        per_row = io.pitch * live + REPEAT + 32 + 8
        room = soc.buffers.ub_bytes - 1024 - 3 * 4 * io.pitch - 64 * 48
        tile = max(min(room // per_row, units), 1)
    elif length > SPLIT_COLUMNS[item] - (2048 if add else 0):
        function = rms_norm_split
        piece = PIECE_COLUMNS[item] - (2048 if add else 0)
        io = rows_of(soc, piece, items)
        last = rows_of(soc, length - (ceil_div(length, piece) - 1) * piece, items)
    numbers = {o: len(specs) + i for i, (o, _) in enumerate(results)}
    args = (len(specs) - 1, numbers[0], numbers.get(1, -1), numbers.get(2, -1))
    plan = RmsPlan(
        rows, length, units, tile, io, last, lines_of(soc, io, "float32"), add, x.dtype, gamma.dtype, epsilon, args
    )
    return asc.Launch(
        function,
        block_dim=blocks,
        kind=kind,
        args=[*(("in", i) for i in range(len(specs))), *(("out", o) for o, _ in results)],
        gm=[
            *((f"x{i}", s.dtype, s.nbytes, "in") for i, s in enumerate(specs)),
            *((f"y{o}", s.dtype, s.nbytes, "out") for o, s in results),
        ],
        consts={"plan": plan},
        soc=soc,
        signature=phased(plan.count, lambda b: b * units * length * item, lambda b: b * units * 4),
        code="ascendc",
        serial=True,
    )
