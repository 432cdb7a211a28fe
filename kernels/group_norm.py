"""GroupNorm and GroupNormSilu as the stock AscendC kernel runs them (hicann/ops-nn, restated).

Groups of a batch are dealt to the cores. Pass 1 sums values and squares of a group element by element over tiles of
8192, one reduction at the end; pass 2 reads the group again, channel by channel (or 8192 elements of one), and applies
one factor and one offset that the scalar unit made from mean, deviation, gamma and beta. Queues are two deep.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod, sqrt
from typing import TYPE_CHECKING

from ascend_sim import asc
from ascend_sim.ops.registry import NoKernel, kernel
from ascend_sim.ops.schema import OpCall, TensorSpec

from ._flat import global_tensor, load, store
from ._lines import Heap, vector_to_scalar
from ._sync import Pipeline
from ._vector import BLOCK, align, ceil_div, deal, item_bytes, legal, padded_dma, phased, vector_cores

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

TILE = 8192  # elements
SMALL_PLANE = 4096  # elements up to which aligned planes are taken several at a time


@dataclass(frozen=True)
class GroupPlan:
    """``groups`` groups in all, ``per_batch`` of them per image; each ``channels`` channels of ``pixels``. ``gamma``,
    ``beta``, ``y`` and ``stats`` (mean, reciprocal deviation) number kernel arguments (-1: absent). Pass 2 takes
    ``together`` channels at a time."""

    groups: int
    per_batch: int
    channels: int
    pixels: int
    units: int
    epsilon: float
    dtype: str
    gamma: int
    beta: int
    y: int
    stats: tuple[int, int]
    silu: bool
    together: int

    @property
    def size(self) -> int:
        return self.channels * self.pixels

    def count(self, block: int) -> int:
        return min(self.units, self.groups - block * self.units)


@dataclass(frozen=True)
class Areas:
    """Buffers: two sets of x and y, float32 values, sums of values and of squares, and their two totals."""

    sets: tuple[tuple[asc.LocalTensor, asc.LocalTensor], ...]
    wide: asc.LocalTensor
    total: asc.LocalTensor
    square: asc.LocalTensor
    both: asc.LocalTensor


def _areas(dtype: str) -> Areas:
    """In float32 the sums live where pass 2 keeps its results."""
    heap = Heap()
    sets = tuple((heap.take(dtype, TILE), heap.take(dtype, TILE)) for _ in range(2))
    wide, both = heap.take("float32", TILE), heap.take("float32", 16)
    if dtype == "float32":
        return Areas(sets, wide, sets[0][1], sets[1][1], both)
    return Areas(sets, wide, heap.take("float32", TILE), heap.take("float32", TILE), both)


@asc.jit
def group_norm_kernel(*gm: asc.GlobalAddress, plan: GroupPlan) -> None:
    """Normalise this core's groups."""
    tensors = [global_tensor(a) for a in gm]
    areas = _areas(plan.dtype)
    first = asc.get_block_idx() * plan.units
    pipe = Pipeline(2)
    for g in asc.steady(plan.count(asc.get_block_idx())):
        group = first + g
        mean, deviation = _statistics(plan, tensors[0], group, areas, pipe)
        for target, value in zip(plan.stats, (mean, deviation), strict=True):
            if target >= 0:
                tensors[target].set_value(group, value)
        _apply(plan, tensors, group, areas, pipe, mean, deviation)
        asc.pipe_barrier(asc.PipeID.ALL)
    pipe.drain()


def _statistics(plan: GroupPlan, x: asc.GlobalTensor, group: int, areas: Areas, pipe: Pipeline) -> tuple[float, float]:
    """Mean and reciprocal deviation of a group."""
    size, start = plan.size, group * plan.size
    span = min(size, TILE)
    asc.duplicate(areas.square, 0.0, count=span)
    asc.duplicate(areas.total, 0.0, count=span)
    for i in asc.steady(ceil_div(size, TILE)):
        slot, n = i % 2, min(TILE, size - i * TILE)
        taken = areas.sets[slot][0]
        pipe.load(slot)
        load(taken, x[start + i * TILE :], n)
        pipe.compute(slot)
        data = taken
        if plan.dtype != "float32":
            asc.cast(areas.wide, taken, asc.RoundMode.CAST_NONE, count=n)
            data = areas.wide
        asc.add(areas.total, areas.total, data, count=n)
        asc.mul(areas.wide, data, data, count=n)
        asc.add(areas.square, areas.square, areas.wide, count=n)
        pipe.store(slot)
        pipe.done(slot)
    _sum(areas.total, span, areas.both)
    _sum(areas.square, span, areas.both[8:])
    vector_to_scalar()
    mean = float(areas.both.get_value(0)) / size
    variance = max(float(areas.both.get_value(8)) / size - mean * mean, 0.0)
    asc.set_flag(asc.HardEvent.S_V, 3)
    asc.wait_flag(asc.HardEvent.S_V, 3)
    return mean, 1.0 / sqrt(variance + plan.epsilon)


def _sum(data: asc.LocalTensor, size: int, out: asc.LocalTensor) -> None:
    """out[0] = sum of the first ``size`` elements: halves are added down to one repeat."""
    while size > 64:
        low = align(ceil_div(size, 2), 64)
        asc.add(data, data, data[low:], count=size - low)
        size = low
    asc.whole_reduce_sum(out, data, size, 1, 1, 1, 8)


def _apply(
    plan: GroupPlan, tensors: Sequence[asc.GlobalTensor], group: int, areas: Areas, pipe: Pipeline, mean: float,
    deviation: float,
) -> None:  # fmt: skip
    """y = x factor + offset per channel, then SiLU if asked for. Small planes come several channels at a time, large
    ones in pieces."""
    pieces = ceil_div(plan.pixels, TILE)
    first = group % plan.per_batch * plan.channels
    for c in asc.steady(ceil_div(plan.channels, plan.together)):
        channels = range(c * plan.together, min((c + 1) * plan.together, plan.channels))
        factors = []
        for k in channels:
            gamma = float(tensors[plan.gamma].get_value(first + k)) if plan.gamma >= 0 else 1.0
            beta = float(tensors[plan.beta].get_value(first + k)) if plan.beta >= 0 else 0.0
            factors.append((gamma * deviation, beta - mean * gamma * deviation))
        for p in asc.steady(pieces):
            slot = (c * pieces + p) % 2
            taken, result = areas.sets[slot]
            at = group * plan.size + channels[0] * plan.pixels + p * TILE
            n = min(TILE, plan.pixels - p * TILE)
            size = n * len(channels)
            pipe.load(slot)
            load(taken, tensors[0][at:], size)
            pipe.compute(slot)
            data, out = (taken, result) if plan.dtype == "float32" else (areas.wide, areas.wide)
            if plan.dtype != "float32":
                asc.cast(areas.wide, taken, asc.RoundMode.CAST_NONE, count=size)
            for k, (factor, offset) in enumerate(factors):
                part = out[k * n :]
                asc.muls(part, data[k * n :], factor, count=n)
                asc.adds(part, part, offset, count=n)
            if plan.silu:
                _gate(out, areas.wide if plan.dtype == "float32" else areas.total, size)
            if plan.dtype != "float32":
                mode = asc.RoundMode.CAST_RINT if plan.dtype == "bfloat16" else asc.RoundMode.CAST_NONE
                asc.cast(result, out, mode, count=size)
            pipe.store(slot)
            store(tensors[plan.y][at:], result, size)
            pipe.done(slot)


def _gate(out: asc.LocalTensor, spare: asc.LocalTensor, size: int) -> None:
    """out / (1 + exp(-out))."""
    asc.muls(spare, out, -1.0, count=size)
    asc.exp(spare, spare, count=size)
    asc.adds(spare, spare, 1.0, count=size)
    asc.div(out, out, spare, count=size)


@kernel("GroupNorm", "GroupNormSilu")
def plan_group_norm(call: OpCall, soc: Soc) -> list[asc.Launch]:
    """Raises `NoKernel` on chips without byte-exact DMA or float32 division, and for planes shorter than a block."""
    x = call.inputs[0]
    if x is None or x.dtype not in ("float16", "bfloat16", "float32") or x.format not in ("ND", "NCHW") or not x.size:
        raise NoKernel("group normalisation of this type or format")
    if not padded_dma(soc) or not legal(soc, "vdiv", "float32"):
        raise NoKernel("group normalisation on this chip")
    item = item_bytes(x.dtype)
    pixels, channels = prod(x.shape[2:]), x.shape[1]
    if pixels * item < BLOCK:
        raise NoKernel(f"planes of {pixels} elements are shorter than a block")
    small = pixels <= SMALL_PLANE and pixels * item % BLOCK == 0
    per_batch = int(call.attr("num_groups", 1))
    groups = x.shape[0] * per_batch
    kind, cores = vector_cores(soc)
    units, blocks = deal(groups, cores)
    used = [k for k in (1, 2) if len(call.inputs) > k and call.inputs[k] is not None]
    numbers = {k: i + 1 for i, k in enumerate(used)}
    outs = range(len(call.outputs))
    at = 1 + len(used)
    silu = call.type == "GroupNormSilu" and bool(call.attr("activate_silu", True))
    epsilon = float(call.attr("eps", call.attr("epsilon", 1e-5)))
    stats = (at + 1 if len(outs) > 1 else -1, at + 2 if len(outs) > 2 else -1)
    plan = GroupPlan(
        groups, per_batch, channels // per_batch, pixels, units, epsilon, x.dtype, numbers.get(1, -1),
        numbers.get(2, -1), at, stats, silu, TILE // pixels if small else 1,
    )  # fmt: skip
    specs: list[TensorSpec] = [s for s in (x, *(call.inputs[k] for k in used)) if s is not None]
    gm = [(f"x{i}", s.dtype, s.nbytes, "in") for i, s in enumerate(specs)]
    gm += [(f"y{i}", s.dtype, s.nbytes, "out") for i, s in enumerate(call.outputs)]
    args = [("in", 0), *(("in", k) for k in used), *(("out", i) for i in outs)]
    return [
        asc.Launch(
            group_norm_kernel, blocks, kind, args, gm, {"plan": plan}, soc=soc, code="ascendc",
            signature=phased(plan.count, lambda b: b * units * plan.size * item),
        )
    ]  # fmt: skip
