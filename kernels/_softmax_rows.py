"""Softmax, log-softmax and their gradients along rows on chips with vbrcb, as the TBE schedule runs them.

A tile is some whole rows; load, computation and store take turns. A row is reduced repeat by repeat with the
whole-repeat instructions and its partial results once more; the row's value is then spread to a full row, so that the
operation that uses it runs over the whole tile (published 910B2 times: 22 cycles per 64 elements and 98 per row).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ascend_sim import asc
from ascend_sim.ops.registry import NoKernel
from ascend_sim.ops.schema import TensorSpec

from ._flat import global_tensor
from ._lines import Heap
from ._repeat import issue
from ._rows import Rows, rows_of
from ._sync import Pipeline
from ._vector import BLOCK, MAX_REPEATS, REPEAT, align, ceil_div, deal, item_bytes, phased, vector_cores

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

WIDTH = REPEAT // 4  # float32 elements of a repeat
LANES = BLOCK // 4
KINDS = ("softmax", "log", "softmax_grad", "log_grad")


@dataclass(frozen=True)
class RowsPlan:
    """``rows`` rows of ``io``, ``units`` per core, tiles of ``tile``. ``kind`` is one of `KINDS`."""

    kind: str
    rows: int
    tile: int
    units: int
    io: Rows
    dtypes: tuple[str, ...]

    @property
    def partials(self) -> int:
        """Partial results of a row, in whole blocks."""
        return align(ceil_div(self.io.length, WIDTH), LANES)

    def count(self, block: int) -> int:
        return min(self.units, self.rows - block * self.units)


@dataclass(frozen=True)
class Work:
    """Float32 areas of a tile: data, a second operand, values spread to rows; partial and final values of rows."""

    a: asc.LocalTensor
    b: asc.LocalTensor
    spread: asc.LocalTensor
    partial: asc.LocalTensor
    values: asc.LocalTensor
    blocks: asc.LocalTensor


@asc.jit
def softmax_rows_kernel(*gm: asc.GlobalAddress, plan: RowsPlan) -> None:
    """This core's rows; the last kernel argument is the result."""
    *sources, target = [global_tensor(a) for a in gm]
    io, area, room = plan.io, plan.tile * plan.io.pitch, align(plan.tile, 16)
    heap = Heap()
    taken = [heap.take(t, area) for t in plan.dtypes[:-1]]
    wide = [t if t.dtype.name == "float32" else heap.take("float32", area) for t in taken]
    second = wide[1] if len(wide) > 1 else heap.take("float32", area if plan.kind == "log" else 1)
    spread = heap.take("float32", area)
    result = wide[0] if plan.dtypes[-1] == "float32" else heap.take(plan.dtypes[-1], area)
    partial, values = heap.take("float32", room * plan.partials), heap.take("float32", room)
    work = Work(wide[0], second, spread, partial, values, heap.take("float32", room * LANES))
    first, count = asc.get_block_idx() * plan.units, plan.count(asc.get_block_idx())
    pipe = Pipeline(1)
    for t in asc.steady(ceil_div(count, plan.tile)):
        row = first + t * plan.tile
        n = min(plan.tile, count - t * plan.tile)
        pipe.load(0)
        for local, source in zip(taken, sources, strict=True):
            io.load(local, source[row * io.length :], n)
        pipe.compute(0)
        for local, full in zip(taken, wide, strict=True):
            if local is not full:
                issue(asc.cast, (full, local), n * io.pitch, asc.RoundMode.CAST_NONE)
        _STEPS[plan.kind](plan, work, n)
        if result is not work.a:
            mode = asc.RoundMode.CAST_RINT if plan.dtypes[-1] == "bfloat16" else asc.RoundMode.CAST_NONE
            issue(asc.cast, (result, work.a), n * io.pitch, mode)
        pipe.store(0)
        io.store(target[row * io.length :], result, n)
        pipe.done(0)
    pipe.drain()


def _reduce(plan: RowsPlan, how: str, data: asc.LocalTensor, rows: int, work: Work) -> None:
    """work.spread = every row of ``data`` reduced, spread to full rows."""
    io, parts = plan.io, plan.partials
    whole, rest = divmod(io.length, WIDTH)
    for r in asc.steady(rows):
        line, out = data[r * io.pitch :], work.partial[r * parts :]
        for first in range(0, whole, MAX_REPEATS):
            _whole(how, out[first:], line[first * WIDTH :], WIDTH, min(MAX_REPEATS, whole - first), 8)
        if rest:
            _whole(how, out[whole:], line[whole * WIDTH :], rest, 1, 8)
    found = whole + (rest > 0)
    if found <= WIDTH:
        for r in range(0, rows, MAX_REPEATS):
            n = min(MAX_REPEATS, rows - r)
            _whole(how, work.values[r:], work.partial[r * parts :], found, n, parts // LANES)
    else:
        for r in asc.steady(rows):
            _fold(how, work.partial[r * parts :], found)
            _whole(how, work.values[r:], work.partial[r * parts :], WIDTH, 1, 8)


def _fold(how: str, line: asc.LocalTensor, found: int) -> None:
    """The first repeat of ``line`` = all its repeats combined."""
    combine = asc.max if how == "max" else asc.add
    whole, rest = divmod(found - WIDTH, WIDTH)
    if whole:
        combine(line, line[WIDTH:], line, WIDTH, whole, asc.BinaryRepeatParams(1, 1, 1, 0, 8, 0))
    if rest:
        combine(line, line[(whole + 1) * WIDTH :], line, rest, 1, asc.BinaryRepeatParams())


def _whole(how: str, out: asc.LocalTensor, data: asc.LocalTensor, mask: int, repeats: int, step: int) -> None:
    if how == "max":
        asc.whole_reduce_max(out, data, mask, repeats, 1, 1, step, asc.ReduceOrder.ORDER_ONLY_VALUE)
    else:
        asc.whole_reduce_sum(out, data, mask, repeats, 1, 1, step)


def _spread(plan: RowsPlan, rows: int, work: Work) -> None:
    """work.spread[r, :] = work.values[r]."""
    pitch = plan.io.pitch
    for first in range(0, ceil_div(rows, 8), MAX_REPEATS):
        n = min(MAX_REPEATS, ceil_div(rows, 8) - first)
        asc.brcb(work.blocks[first * 8 * LANES :], work.values[first * 8 :], n, asc.BrcbRepeatParams(1, 8))
    whole, rest = divmod(pitch, WIDTH)
    for r in asc.steady(rows):
        line, block = work.spread[r * pitch :], work.blocks[r * LANES :]
        for first in range(0, whole, MAX_REPEATS):
            n = min(MAX_REPEATS, whole - first)
            asc.copy(line[first * WIDTH :], block, WIDTH, n, asc.CopyRepeatParams(1, 0, 8, 0))
        if rest:
            asc.copy(line[whole * WIDTH :], block, rest, 1, asc.CopyRepeatParams(1, 0, 8, 0))


def _softmax(plan: RowsPlan, w: Work, n: int) -> None:
    size = n * plan.io.pitch
    _reduce(plan, "max", w.a, n, w)
    _spread(plan, n, w)
    issue(asc.sub, (w.a, w.a, w.spread), size)
    issue(asc.exp, (w.a, w.a), size)
    _reduce(plan, "sum", w.a, n, w)
    _spread(plan, n, w)
    issue(asc.div, (w.a, w.a, w.spread), size)


def _log_softmax(plan: RowsPlan, w: Work, n: int) -> None:
    size = n * plan.io.pitch
    _reduce(plan, "max", w.a, n, w)
    _spread(plan, n, w)
    issue(asc.sub, (w.a, w.a, w.spread), size)
    issue(asc.exp, (w.b, w.a), size)
    _reduce(plan, "sum", w.b, n, w)
    issue(asc.ln, (w.values, w.values), n)
    _spread(plan, n, w)
    issue(asc.sub, (w.a, w.a, w.spread), size)


def _softmax_grad(plan: RowsPlan, w: Work, n: int) -> None:
    """a = softmax, b = its gradient: (b - sum(a b)) a."""
    size = n * plan.io.pitch
    issue(asc.mul, (w.spread, w.a, w.b), size)
    _reduce(plan, "sum", w.spread, n, w)
    _spread(plan, n, w)
    issue(asc.sub, (w.b, w.b, w.spread), size)
    issue(asc.mul, (w.a, w.a, w.b), size)


def _log_grad(plan: RowsPlan, w: Work, n: int) -> None:
    """a = gradient, b = log-softmax: a - exp(b) sum(a)."""
    size = n * plan.io.pitch
    _reduce(plan, "sum", w.a, n, w)
    _spread(plan, n, w)
    issue(asc.exp, (w.b, w.b), size)
    issue(asc.mul, (w.b, w.b, w.spread), size)
    issue(asc.sub, (w.a, w.a, w.b), size)


_STEPS: dict[str, Any] = {
    "softmax": _softmax, "log": _log_softmax, "softmax_grad": _softmax_grad, "log_grad": _log_grad,
}  # fmt: skip


def softmax_rows_launch(
    kind: str, inputs: Sequence[TensorSpec], y: TensorSpec, rows: int, length: int, soc: Soc
) -> asc.Launch:
    """Raises `NoKernel` for rows that do not fit UB."""
    dtypes = (*(s.dtype for s in inputs), y.dtype)
    sizes = [item_bytes(t) for t in dtypes]
    io = rows_of(soc, length, sizes)
    live = sum(4 if n == 4 else n + 4 for n in sizes[:-1]) + 4 + (sizes[-1] if sizes[-1] == 2 else 0)
    live += 4 if kind == "log" else 0
    partials = align(ceil_div(length, WIDTH), LANES)
    per_row = io.pitch * live + 4 * (partials + 1 + LANES)
    room = soc.buffers.ub_bytes - 16 * BLOCK - 16 * 4 * (partials + 1 + LANES)
    if per_row > room:
        raise NoKernel(f"a row of {length} elements does not fit the unified buffer")
    kind_of_core, cores = vector_cores(soc)
    units, blocks = deal(rows, cores)
    tile = min(room // per_row, units)
    tile = ceil_div(units, ceil_div(units, tile))
    plan = RowsPlan(kind, rows, tile, units, io, dtypes)
    n = len(inputs)
    return asc.Launch(
        softmax_rows_kernel,
        block_dim=blocks,
        kind=kind_of_core,
        args=(*(("in", i) for i in range(n)), ("out", 0)),
        gm=[*((f"x{i}", s.dtype, s.nbytes, "in") for i, s in enumerate(inputs)), ("y", y.dtype, y.nbytes, "out")],
        consts={"plan": plan},
        soc=soc,
        signature=phased(plan.count, *(lambda b, s=s: b * units * length * s for s in sorted(set(sizes)))),
        code="norm",
        serial=True,
    )
