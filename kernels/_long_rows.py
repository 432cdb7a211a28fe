"""Softmax and layer normalisation of rows that do not fit the unified buffer: pieces of a row, read several times.

Softmax reads a row for its maximum, for the sum of its exponentials, and to write it; layer normalisation for its
statistics (Welford's way, piece by piece) and to write it. Values of a row live in the scalar unit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, log, sqrt
from typing import TYPE_CHECKING, Any

from ascend_sim import asc
from ascend_sim.ops.registry import NoKernel
from ascend_sim.ops.schema import TensorSpec

from ._flat import global_tensor, vector_copy
from ._lines import Heap, Lines, lines_of, store_results, vector_to_scalar
from ._rows import rows_of
from ._sync import STEADY, Pipeline
from ._vector import REPEAT, align, ceil_div, deal, item_bytes, legal, padded_dma, phased, vector_cores

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

GRAIN = 512  # elements; pieces are multiples of it
TINY = 1e-38  # of a sum, whose logarithm and reciprocal are taken


@dataclass(frozen=True)
class LongPlan:
    """``rows`` rows of ``length``, ``units`` per core, in ``pieces`` as ``io`` and a ``last`` one. ``kind``:
    ``softmax``, ``log`` or ``norm``. ``vectors`` are the kernel arguments of gamma and beta, ``outs`` those of y, mean
    and the last statistic (-1: absent); ``inverse``: that is the reciprocal deviation, else the variance."""

    kind: str
    rows: int
    length: int
    units: int
    io: Lines
    last: Lines
    dtypes: tuple[str, ...]
    exp_half: bool = False
    vectors: tuple[int, int] = (-1, -1)
    outs: tuple[int, int, int] = (1, -1, -1)
    epsilon: float = 0.0
    inverse: bool = True
    padded: bool = True

    @property
    def pieces(self) -> int:
        return ceil_div(self.length, self.io.io.length)

    def count(self, block: int) -> int:
        return min(self.units, self.rows - block * self.units)


class Buffers:
    """One piece: as it lies in memory, in float32, a second float32 one, the result; and a repeat for reductions."""

    def __init__(self, plan: LongPlan) -> None:
        heap, pitch = Heap(), plan.io.io.pitch
        x, y = plan.dtypes[0], plan.dtypes[plan.outs[0]]
        self.taken = heap.take(x, pitch)
        self.wide = self.taken if x == "float32" else heap.take("float32", pitch)
        self.square = heap.take("float32", pitch)
        self.result = self.wide if y == "float32" else heap.take(y, pitch)
        self.half = heap.take("float16", pitch) if plan.exp_half else None
        self.scratch, self.values = heap.take("float32", REPEAT // 4), heap.take("float32", 16)
        self.raw = {k: heap.take(plan.dtypes[k], pitch) for k in plan.vectors if k >= 0}
        self.stats = {k: heap.take(plan.dtypes[k], 16) for k in plan.outs[1:] if k >= 0}


def exp_into(dst: asc.LocalTensor, src: asc.LocalTensor, half: asc.LocalTensor | None, count: int) -> None:
    """exp in float32, or through half."""
    if half is None:
        asc.exp(dst, src, count=count)
        return
    asc.cast(half, src, asc.RoundMode.CAST_NONE, count=count)
    asc.exp(half, half, count=count)
    asc.cast(dst, half, asc.RoundMode.CAST_NONE, count=count)


def _pieces(plan: LongPlan, b: Buffers, pipe: Pipeline, source: Any, at: int) -> Iterator[tuple[int, Lines]]:
    """Bring the pieces of the row at ``at`` in turn, in float32 in ``b.wide``: (place in the row, its lines)."""
    for p in asc.steady(plan.pieces):
        lines = plan.io if p + 1 < plan.pieces else plan.last
        begin = p * plan.io.io.length
        pipe.load(0)
        lines.io.load(b.taken, source[at + begin :], 1)
        pipe.compute(0)
        if b.wide is not b.taken:
            asc.cast(b.wide, b.taken, asc.RoundMode.CAST_NONE, count=lines.io.pitch)
        yield begin, lines


def _value(b: Buffers, lines: Lines, how: str, data: asc.LocalTensor) -> float:
    """A piece reduced, in the scalar unit."""
    lines.reduce(how, data, 1, b.scratch, b.values)
    vector_to_scalar()
    value = float(b.values.get_value(0))
    asc.set_flag(asc.HardEvent.S_V, 3)
    asc.wait_flag(asc.HardEvent.S_V, 3)
    return value


def _only_read(pipe: Pipeline) -> None:
    pipe.store(0)
    pipe.done(0)


def _write(plan: LongPlan, b: Buffers, pipe: Pipeline, lines: Lines, target: Any) -> None:
    if b.result is not b.wide:
        mode = asc.RoundMode.CAST_RINT if b.result.dtype.name == "bfloat16" else asc.RoundMode.CAST_NONE
        asc.cast(b.result, b.wide, mode, count=lines.io.pitch)
    pipe.store(0)
    lines.io.store(target, b.result, 1)
    if b.result is b.taken:  # the next load overwrites it
        asc.set_flag(asc.HardEvent.MTE3_MTE2, STEADY)
        asc.wait_flag(asc.HardEvent.MTE3_MTE2, STEADY)
    pipe.done(0)


@asc.jit
def softmax_long(src: asc.GlobalAddress, dst: asc.GlobalAddress, plan: LongPlan) -> None:
    """This core's rows, one after the other."""
    source, target, b = global_tensor(src), global_tensor(dst), Buffers(plan)
    first, pipe = asc.get_block_idx() * plan.units, Pipeline(1)
    for i in asc.steady(plan.count(asc.get_block_idx())):
        at, top, total = (first + i) * plan.length, -inf, 0.0
        for _, lines in _pieces(plan, b, pipe, source, at):
            top = max(top, _value(b, lines, "max", b.wide))
            _only_read(pipe)
        for _, lines in _pieces(plan, b, pipe, source, at):
            asc.adds(b.wide, b.wide, -top, count=lines.io.pitch)
            exp_into(b.square, b.wide, b.half, lines.io.pitch)
            total += _value(b, lines, "sum", b.square)
            _only_read(pipe)
        shift = top + log(max(total, TINY)) if plan.kind == "log" else top
        for begin, lines in _pieces(plan, b, pipe, source, at):
            asc.adds(b.wide, b.wide, -shift, count=lines.io.pitch)
            if plan.kind != "log":
                exp_into(b.wide, b.wide, b.half, lines.io.pitch)
                asc.muls(b.wide, b.wide, 1.0 / max(total, TINY), count=lines.io.pitch)
            _write(plan, b, pipe, lines, target[at + begin :])
    pipe.drain()


@asc.jit
def norm_long(*gm: asc.GlobalAddress, plan: LongPlan) -> None:
    """This core's rows, one after the other; gamma and beta come with every piece."""
    tensors, b = [global_tensor(a) for a in gm], Buffers(plan)
    first, pipe = asc.get_block_idx() * plan.units, Pipeline(1)
    for i in asc.steady(plan.count(asc.get_block_idx())):
        at, seen, mean, spread = (first + i) * plan.length, 0, 0.0, 0.0
        for _, lines in _pieces(plan, b, pipe, tensors[0], at):
            n = lines.io.length
            part = _value(b, lines, "sum", b.wide) / n
            asc.adds(b.wide, b.wide, -part, count=lines.io.pitch)
            asc.mul(b.square, b.wide, b.wide, count=lines.io.pitch)
            away = part - mean
            spread += _value(b, lines, "sum", b.square) + away * away * seen * n / (seen + n)
            mean += away * n / (seen + n)
            seen += n
            _only_read(pipe)
        variance = spread / plan.length
        factor = 1.0 / sqrt(max(variance, 0.0) + plan.epsilon) if variance or plan.epsilon else 0.0
        for begin, lines in _pieces(plan, b, pipe, tensors[0], at):
            asc.adds(b.wide, b.wide, -mean, count=lines.io.pitch)
            asc.muls(b.wide, b.wide, factor, count=lines.io.pitch)
            for k, combine in zip(plan.vectors, (asc.mul, asc.add), strict=True):
                if k >= 0:
                    combine(b.wide, b.wide, _vector(plan, b, lines, tensors, k, begin), count=lines.io.pitch)
            _write(plan, b, pipe, lines, tensors[plan.outs[0]][at + begin :])
        for k, value in zip(plan.outs[1:], (mean, factor if plan.inverse else variance), strict=True):
            if k >= 0:
                _statistic(plan, b, tensors[k][first + i :], k, value)
    pipe.drain()


def _vector(plan: LongPlan, b: Buffers, lines: Lines, tensors: Sequence[Any], k: int, begin: int) -> asc.LocalTensor:
    """A piece of gamma or beta in float32."""
    raw = b.raw[k]
    asc.set_flag(asc.HardEvent.V_MTE2, STEADY)
    asc.wait_flag(asc.HardEvent.V_MTE2, STEADY)
    lines.io.load(raw, tensors[k][begin:], 1)
    asc.set_flag(asc.HardEvent.MTE2_V, STEADY)
    asc.wait_flag(asc.HardEvent.MTE2_V, STEADY)
    if plan.dtypes[k] == "float32":
        return raw
    asc.cast(b.square, raw, asc.RoundMode.CAST_NONE, count=lines.io.pitch)
    return b.square


def _statistic(plan: LongPlan, b: Buffers, target: Any, k: int, value: float) -> None:
    local = b.stats[k]
    asc.duplicate(b.values, value, count=8)
    if local.dtype is b.values.dtype:
        vector_copy(local, b.values, 8)
    else:
        mode = asc.RoundMode.CAST_RINT if local.dtype.name == "bfloat16" else asc.RoundMode.CAST_NONE
        asc.cast(local, b.values, mode, count=8)
    asc.set_flag(asc.HardEvent.V_MTE3, STEADY)
    asc.wait_flag(asc.HardEvent.V_MTE3, STEADY)
    store_results(target, local, 1, plan.padded)
    asc.set_flag(asc.HardEvent.MTE3_V, STEADY)
    asc.wait_flag(asc.HardEvent.MTE3_V, STEADY)


def _cut(soc: Soc, length: int, live: int, items: Sequence[int]) -> tuple[Lines, Lines]:
    """Lines of the pieces and of the last one; ``live`` bytes an element."""
    most = (soc.buffers.ub_bytes - 4096) // live // GRAIN * GRAIN
    piece = align(ceil_div(length, ceil_div(length, most)), GRAIN)
    io = rows_of(soc, piece, items)
    last = rows_of(soc, length - (ceil_div(length, piece) - 1) * piece, items)
    if last.mode == "scalar":
        raise NoKernel(f"a last piece of {last.length} elements is shorter than a block")
    return lines_of(soc, io, "float32"), lines_of(soc, last, "float32")


def softmax_long_launch(kind: str, x: TensorSpec, y: TensorSpec, rows: int, length: int, soc: Soc) -> asc.Launch:
    """``kind``: ``softmax`` or ``log``. Raises `NoKernel` for a last piece shorter than a block on chips that move
    whole blocks only."""
    item, out = item_bytes(x.dtype), item_bytes(y.dtype)
    exp_half = not legal(soc, "vexp", "float32")
    live = item + (4 if item != 4 else 0) + 4 + (out if out != 4 else 0) + (2 if exp_half else 0)
    core, cores = vector_cores(soc)
    units, blocks = deal(rows, cores)
    io, last = _cut(soc, length, live, (item, out))
    plan = LongPlan(kind, rows, length, units, io, last, (x.dtype, y.dtype), exp_half)
    starts = [lambda b, n=n: b * units * length * n for n in sorted({item, out})]
    return asc.Launch(
        softmax_long, blocks, core, (("in", 0), ("out", 0)),
        [("x", x.dtype, x.nbytes, "in"), ("y", y.dtype, y.nbytes, "out")], {"plan": plan}, soc=soc,
        signature=phased(plan.count, *starts), code="norm", serial=True,
    )  # fmt: skip


def norm_long_launch(
    inputs: Sequence[tuple[int, TensorSpec]], results: Sequence[tuple[int, TensorSpec]], vectors: tuple[int, int],
    outs: tuple[int, int, int], length: int, epsilon: float, inverse: bool, soc: Soc,
) -> asc.Launch:  # fmt: skip
    """``inputs`` and ``results``: numbers and specs of the operator's tensors in the order of kernel arguments, to
    which ``vectors`` (gamma, beta) and ``outs`` (y, mean, last statistic) point (-1: absent)."""
    specs = [spec for _, spec in (*inputs, *results)]
    x, y = specs[0], specs[outs[0]]
    sizes = [item_bytes(specs[k].dtype) for k in (0, *vectors, outs[0]) if k >= 0]
    live = sum(sizes) + 4 + (4 if x.dtype != "float32" else 0)
    core, cores = vector_cores(soc)
    rows = x.size // length
    units, blocks = deal(rows, cores)
    io, last = _cut(soc, length, live, sizes)
    plan = LongPlan(
        "norm", rows, length, units, io, last, tuple(s.dtype for s in specs), False, vectors, outs, epsilon, inverse,
        padded_dma(soc),
    )
    starts = [lambda b, n=n: b * units * length * n for n in sorted({item_bytes(s.dtype) for s in (x, y)})]
    return asc.Launch(
        norm_long, blocks, core, [*(("in", k) for k, _ in inputs), *(("out", k) for k, _ in results)],
        [*((f"x{k}", s.dtype, s.nbytes, "in") for k, s in inputs),
         *((f"y{k}", s.dtype, s.nbytes, "out") for k, s in results)],
        {"plan": plan}, soc=soc, signature=phased(plan.count, *starts, lambda b: b * units * 4), code="ascendc",
        serial=True,
    )  # fmt: skip
