"""Reduction of the pixels of NC1HWC0 planes: global pooling, and ReduceMean/Sum/Max over H and W.

Planes are dealt to the cores (the reduced axes are not cut, as in the stock reduce schedule). A plane is reduced
repeat by repeat into one 256-byte accumulator (destination repeat stride 0), whose pixels are folded by halves.
Means and sums run in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ascend_sim import asc
from ascend_sim.ops.registry import NoKernel
from ascend_sim.ops.schema import TensorSpec

from ._flat import global_tensor
from ._sync import Pipeline
from ._vector import BLOCK, MAX_REPEATS, REPEAT, align, ceil_div, deal, item_bytes, vector_cores

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

_LOWEST = -65504.0  # least finite half


@dataclass(frozen=True)
class SpatialPlan:
    """``planes`` planes of ``pixels`` pixels of ``lanes`` channels; per core ``per_core`` planes, ``group`` planes a
    tile, or pieces of ``piece`` pixels of one plane. ``how`` is sum, max or min; ``factor`` scales sums."""

    planes: int
    pixels: int
    lanes: int
    per_core: int
    group: int
    piece: int
    how: str
    factor: float
    dtype: str
    buffers: int

    @property
    def work(self) -> str:
        return "float32" if self.how == "sum" else self.dtype

    @property
    def pieces(self) -> int:
        return ceil_div(self.pixels, self.piece)

    def count(self, block: int) -> int:
        return min(self.per_core, self.planes - block * self.per_core)


_COMBINE: dict[str, Callable[..., Any]] = {"sum": asc.add, "max": asc.max, "min": asc.min}


@asc.jit
def spatial_kernel(src: asc.GlobalAddress, dst: asc.GlobalAddress, plan: SpatialPlan) -> None:
    """Reduce this core's planes."""
    source, target = global_tensor(src), global_tensor(dst)
    index = asc.get_block_idx()
    first, count = index * plan.per_core, plan.count(index)
    pixel_in = plan.lanes * item_bytes(plan.dtype)
    pixel_work = plan.lanes * item_bytes(plan.work)
    tile = plan.group * plan.piece
    in_bytes, work_bytes = align(tile * pixel_in, REPEAT), align(tile * pixel_work, REPEAT)
    out_bytes, sum_bytes = align(plan.group * pixel_in, BLOCK), align(plan.group * pixel_work, REPEAT)
    converted = plan.work != plan.dtype
    at = 0
    loads, outs = [], []
    for _ in range(plan.buffers):
        loads.append(asc.LocalTensor(plan.dtype, asc.TPosition.VECCALC, at, tile * plan.lanes))
        at += in_bytes
        outs.append(asc.LocalTensor(plan.dtype, asc.TPosition.VECCALC, at, plan.group * plan.lanes))
        at += out_bytes
    works = loads
    if converted:
        works = [asc.LocalTensor(plan.work, asc.TPosition.VECCALC, at, tile * plan.lanes)] * plan.buffers
        at += work_bytes
    accumulator = asc.LocalTensor(plan.work, asc.TPosition.VECCALC, at, REPEAT // item_bytes(plan.work))
    at += REPEAT
    sums = asc.LocalTensor(plan.work, asc.TPosition.VECCALC, at, plan.group * plan.lanes)
    del sum_bytes
    pipe = Pipeline(plan.buffers)
    groups = ceil_div(count, plan.group)
    for g in asc.steady(groups):
        planes = min(plan.group, count - g * plan.group)
        plane = first + g * plan.group
        for k in asc.steady(plan.pieces):
            slot = (g * plan.pieces + k) % plan.buffers
            pixels = min(plan.piece, plan.pixels - k * plan.piece)
            elements = planes * pixels * plan.lanes
            pipe.load(slot)
            asc.data_copy(loads[slot], source[(plane * plan.pixels + k * plan.piece) * plan.lanes :], elements)
            pipe.compute(slot)
            if converted:
                asc.cast(works[slot], loads[slot], asc.RoundMode.CAST_NONE, count=elements)
            for p in asc.steady(planes):
                part = works[slot][p * pixels * plan.lanes :]
                _accumulate(plan, accumulator, part, pixels, k == 0)
                if k + 1 == plan.pieces:
                    _finish(plan, accumulator, sums[p * plan.lanes :])
            if k + 1 == plan.pieces:
                _emit(plan, sums, outs[slot], planes * plan.lanes, converted)
            pipe.store(slot)
            if k + 1 == plan.pieces:
                asc.data_copy(target[plane * plan.lanes :], outs[slot], planes * plan.lanes)
            pipe.done(slot)
    pipe.drain()


def _accumulate(
    plan: SpatialPlan, accumulator: asc.LocalTensor, part: asc.LocalTensor, pixels: int, fresh: bool
) -> None:
    """Combine the pixels of a plane (or piece) into the accumulator."""
    width = REPEAT // item_bytes(plan.work)
    together = width // plan.lanes  # pixels of a repeat
    if fresh:
        start = {"sum": 0.0, "max": _LOWEST, "min": -_LOWEST}[plan.how]
        asc.duplicate(accumulator, start, count=width)
    combine = _COMBINE[plan.how]
    repeats, rest = divmod(pixels, together)
    for at in range(0, repeats, MAX_REPEATS):
        n = min(MAX_REPEATS, repeats - at)
        params = asc.BinaryRepeatParams(1, 1, 1, 0, 8, 0)
        combine(accumulator, part[at * width :], accumulator, width, n, params)
    if rest:
        combine(accumulator, accumulator, part[repeats * width :], count=rest * plan.lanes)


def _finish(plan: SpatialPlan, accumulator: asc.LocalTensor, result: asc.LocalTensor) -> None:
    """Fold the pixels of the accumulator into one."""
    combine = _COMBINE[plan.how]
    n = REPEAT // item_bytes(plan.work) // 2
    while n > plan.lanes:
        combine(accumulator, accumulator, accumulator[n:], count=n)
        n //= 2
    combine(result, accumulator, accumulator[n:], count=n)


def _emit(
    plan: SpatialPlan, sums: asc.LocalTensor, out: asc.LocalTensor, count: int, converted: bool
) -> None:
    """Scale the results and bring them to the output's type."""
    if plan.how == "sum" and plan.factor != 1.0:
        asc.muls(sums, sums, plan.factor, count=count)
    if converted:
        mode = asc.RoundMode.CAST_RINT if plan.dtype == "bfloat16" else asc.RoundMode.CAST_NONE
        asc.cast(out, sums, mode, count=count)
    else:
        asc.adds(out, sums, 0.0, count=count)


def spatial_launch(x: TensorSpec, y: TensorSpec, how: str, mean: bool, soc: Soc) -> asc.Launch:
    """Launch reducing the H and W axes of NC1HWC0 ``x``. Raises `NoKernel` for other types than 16- and 32-bit
    floats."""
    if x.format != "NC1HWC0" or x.dtype not in ("float16", "bfloat16", "float32"):
        raise NoKernel(f"spatial reduction of {x.dtype} in {x.format}")
    if x.dtype == "bfloat16" and how != "sum":
        raise NoKernel("spatial maximum of bfloat16")
    n, c1, h, w, lanes = x.shape
    planes, pixels = n * c1, h * w
    kind, cores = vector_cores(soc)
    per_core, blocks = deal(planes, cores)
    work = 4 if how == "sum" else item_bytes(x.dtype)
    item = item_bytes(x.dtype)
    converted = work != item
    room = soc.buffers.ub_bytes - 4 * REPEAT

    def fit(buffers: int) -> int:
        """Pixels of a tile (results of the planes of a tile counted as one more pixel each)."""
        return room // (lanes * (item * buffers + (work if converted else 0) + item * buffers + work))

    buffers = 1 if per_core * pixels <= fit(1) else 2
    most = min(fit(buffers), 65535)
    piece = pixels if pixels <= most else ceil_div(pixels, ceil_div(pixels, most))
    group = max(min(per_core, most // piece), 1) if piece == pixels else 1
    plan = SpatialPlan(
        planes, pixels, lanes, per_core, group, piece, how, 1.0 / pixels if mean else 1.0, x.dtype, buffers
    )
    return asc.Launch(
        spatial_kernel,
        block_dim=blocks,
        kind=kind,
        args=(("in", 0), ("out", 0)),
        gm=[("x", x.dtype, x.nbytes, "in"), ("y", y.dtype, y.nbytes, "out")],
        consts={"plan": plan},
        soc=soc,
        signature=plan.count,
    )
