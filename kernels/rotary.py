"""RotaryPositionEmbedding with halves swapped, on chips with separate vector cores (hicann/ops-transformer, restated).

x is seen as ``outer`` x ``positions`` x ``share`` rows; a row of cos and sin serves the ``share`` rows of a position.
x, cos, sin and y have queues two deep; halves are swapped by strided instructions inside UB.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from ascend_sim import asc
from ascend_sim.ops.registry import NoKernel, kernel
from ascend_sim.ops.schema import OpCall

from ._flat import global_tensor
from ._lines import Heap
from ._sync import Pipeline, walk
from ._vector import BLOCK, MAX_REPEATS, REPEAT, ceil_div, deal, item_bytes, phased, vector_cores

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

WIDTH = REPEAT // 4  # float32 elements of a repeat


@dataclass(frozen=True)
class RotaryPlan:
    """``tile`` positions at a time; ``units`` groups of positions per core."""

    outer: int
    positions: int
    share: int
    size: int
    tile: int
    units: int
    dtype: str

    @property
    def groups(self) -> int:
        return ceil_div(self.positions, self.tile)

    def count(self, block: int) -> int:
        return min(self.units, self.outer * self.groups - block * self.units)

    def where(self, unit: int) -> tuple[int, int, int]:
        """(outer index, first position, positions) of a group."""
        outer, group = divmod(unit, self.groups)
        first = group * self.tile
        return outer, first, min(self.tile, self.positions - first)

    def signature(self, block: int) -> object:
        return self.count(block), block * self.units % self.groups if self.positions % self.tile else 0


@asc.jit
def rotary_kernel(
    x: asc.GlobalAddress, cos: asc.GlobalAddress, sin: asc.GlobalAddress, y: asc.GlobalAddress, plan: RotaryPlan
) -> None:
    """Rotate this core's positions."""
    source, target = global_tensor(x), global_tensor(y)
    tables = [global_tensor(cos), global_tensor(sin)]
    area, angles, heap = plan.tile * plan.share * plan.size, plan.tile * plan.size, Heap()
    sets = [
        (heap.take(plan.dtype, area), [heap.take(plan.dtype, angles) for _ in range(2)], heap.take(plan.dtype, area))
        for _ in range(2)
    ]
    half = plan.dtype != "float32"
    wide, turned = (heap.take("float32", area) for _ in range(2))
    factors = [heap.take("float32", angles) for _ in range(2)] if half else []
    first = asc.get_block_idx() * plan.units
    pipe = Pipeline(2)
    for u in walk(plan.count(asc.get_block_idx()), lambda u: plan.where(first + u)[2]):
        outer, position, n = plan.where(first + u)
        taken, raw, result = sets[u % 2]
        at = (outer * plan.positions + position) * plan.share * plan.size
        angle = position * plan.size
        rows = n * plan.share
        pipe.load(u % 2)
        asc.data_copy(taken, source[at:], rows * plan.size)
        for local, table in zip(raw, tables, strict=True):
            asc.data_copy(local, table[angle:], n * plan.size)
        pipe.compute(u % 2)
        data, (c, s) = taken, raw
        if half:
            asc.cast(wide, taken, asc.RoundMode.CAST_NONE, count=rows * plan.size)
            for full, local in zip(factors, raw, strict=True):
                asc.cast(full, local, asc.RoundMode.CAST_NONE, count=n * plan.size)
            data, (c, s) = wide, factors
        _swap(turned, data, rows, plan.size)
        _times(wide, data, c, n, plan)
        _times(turned, turned, s, n, plan)
        asc.add(wide if half else result, wide, turned, count=rows * plan.size)
        if half:
            mode = asc.RoundMode.CAST_RINT if plan.dtype == "bfloat16" else asc.RoundMode.CAST_NONE
            asc.cast(result, wide, mode, count=rows * plan.size)
        pipe.store(u % 2)
        asc.data_copy(target[at:], result, rows * plan.size)
        pipe.done(u % 2)
    pipe.drain()


def _swap(dst: asc.LocalTensor, src: asc.LocalTensor, rows: int, size: int) -> None:
    """dst = rows with halves swapped, the first one negated."""
    middle, step = size // 2, size // 8
    params = asc.UnaryRepeatParams(1, 1, step, step)
    for r in range(0, rows, MAX_REPEATS):
        n = min(MAX_REPEATS, rows - r)
        for c in range(0, middle, WIDTH):
            mask, low, high = min(WIDTH, middle - c), r * size + c, r * size + middle + c
            asc.muls(dst[low:], src[high:], -1.0, mask, n, params)
            asc.muls(dst[high:], src[low:], 1.0, mask, n, params)


def _times(dst: asc.LocalTensor, src: asc.LocalTensor, factor: asc.LocalTensor, n: int, plan: RotaryPlan) -> None:
    """dst = src times the row of ``factor`` of each position."""
    if plan.share == 1:
        asc.mul(dst, src, factor, count=n * plan.size)
        return
    step = plan.size // 8
    params = asc.BinaryRepeatParams(1, 1, 1, step, step, 0)
    for p in asc.steady(n):
        for r in range(0, plan.share, MAX_REPEATS):
            m = min(MAX_REPEATS, plan.share - r)
            for c in range(0, plan.size, WIDTH):
                at = (p * plan.share + r) * plan.size + c
                mask = min(WIDTH, plan.size - c)
                asc.mul(dst[at:], src[at:], factor[p * plan.size + c :], mask, m, params)


@kernel("RotaryPositionEmbedding")
def plan_rotary(call: OpCall, soc: Soc) -> list[asc.Launch]:
    """Raises `NoKernel` for neighbouring pairs (mode 1), coupled chips, halves that do not fill blocks, and cos or sin
    that do not follow one run of axes of x."""
    specs = [s for s in call.inputs[:3] if s is not None]
    if len(specs) != 3 or int(call.attr("mode", 0)) or not soc.chip.split_cores:
        raise NoKernel("rotary embedding of this mode or chip")
    x, cos, sin = specs
    size, item = x.shape[-1], item_bytes(x.dtype)
    if x.dtype not in ("float16", "bfloat16", "float32") or {cos.dtype, sin.dtype} != {x.dtype} or x.size == 0:
        raise NoKernel("rotary embedding of this type")
    if size // 2 * item % BLOCK or size // 2 % 8 or size // 8 > MAX_REPEATS or cos.shape != sin.shape:
        raise NoKernel(f"halves of {size} elements do not fill blocks")
    table = (1,) * (len(x.shape) - len(cos.shape)) + cos.shape
    axes = [i for i in range(len(x.shape) - 1) if table[i] != 1]
    if any(table[i] != x.shape[i] for i in (*axes, len(x.shape) - 1)):
        raise NoKernel("tables that do not match x")
    if axes and axes != list(range(axes[0], axes[-1] + 1)):
        raise NoKernel("tables over scattered axes")
    begin, end = (axes[0], axes[-1] + 1) if axes else (0, 0)
    outer, positions, share = prod(x.shape[:begin]), prod(x.shape[begin:end]), prod(x.shape[end:-1])
    kind, cores = vector_cores(soc)
    wide = 8 if item == 2 else 0
    per_position = size * (share * (4 * item + 8) + 4 * item + wide)
    room = soc.buffers.ub_bytes - 16 * BLOCK
    if per_position > room:
        raise NoKernel(f"{share} rows of {size} elements do not fit the unified buffer")
    tile = max(min(room // per_position, ceil_div(outer * positions, cores), positions), 1)
    plan = RotaryPlan(outer, positions, share, size, tile, 1, x.dtype)
    units, blocks = deal(outer * plan.groups, cores)
    plan = RotaryPlan(outer, positions, share, size, tile, units, x.dtype)
    y = call.outputs[0]
    return [
        asc.Launch(
            rotary_kernel,
            block_dim=blocks,
            kind=kind,
            args=(("in", 0), ("in", 1), ("in", 2), ("out", 0)),
            gm=[
                *((f"x{i}", s.dtype, s.nbytes, "in") for i, s in enumerate(specs)),
                ("y", y.dtype, y.nbytes, "out"),
            ],
            consts={"plan": plan},
            soc=soc,
            signature=phased(plan.signature),
            code="ascendc",
        )
    ]
