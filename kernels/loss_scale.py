"""ForeachNonFiniteCheckAndUnscale: all gradients in one launch. The tiles of all tensors are dealt to the vector cores
in order; each is scaled in float32, and ``x * 0`` tells what is not finite (it is a NaN there, 0 elsewhere)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ascend_sim import asc
from ascend_sim.ops.registry import NoKernel, kernel
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import need

from ._flat import global_tensor, load, store
from ._sync import Pipeline, walk
from ._vector import BLOCK, align, ceil_div, deal, item_bytes, legal, padded_dma, vector_cores

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

TILE = 4096  # elements of one pass
LANES = 64  # float32 elements of one repeat
MIN_PIECE = 512  # a tensor is not cut into smaller pieces to occupy more cores
_LARGEST = 3.4028234663852886e38


@dataclass(frozen=True)
class CheckPlan:
    """``tiles`` are (tensor, first element, elements); core i takes ``units`` of them from ``i * units``. ``grads``
    tensors of type ``dtype``; the arguments are gradients, found_inf, inv_scale, results, found_inf."""

    tiles: tuple[tuple[int, int, int], ...]
    units: int
    grads: int
    dtype: str

    def of(self, block: int) -> tuple[tuple[int, int, int], ...]:
        return self.tiles[block * self.units : (block + 1) * self.units]

    def signature(self, block: int) -> object:
        return block == 0, tuple(count for _, _, count in self.of(block))


@asc.jit
def check_kernel(*gm: asc.GlobalAddress, plan: CheckPlan) -> None:
    """Scale this core's tiles, remember whether one held a value that is not finite, say so at the end."""
    tensors = [global_tensor(address) for address in gm]
    found, inverse, result = tensors[plan.grads], tensors[plan.grads + 1], tensors[-1]
    at = 0

    def take(dtype: str, elements: int) -> asc.LocalTensor:
        nonlocal at
        made = asc.LocalTensor(dtype, asc.TPosition.VECCALC, at, elements)
        at += align(elements * made.dtype.size, BLOCK)
        return made

    wide = plan.dtype == "float32"
    loaded = [take(plan.dtype, TILE) for _ in range(2)]
    stored = [take(plan.dtype, TILE) for _ in range(2)]
    x, y = (loaded[0], stored[0]) if wide else (take("float32", TILE), take("float32", TILE))
    work, bits = take("float32", TILE), take("uint8", TILE // 8)
    seen, lanes = take("float32", LANES), take("float32", LANES)
    asc.duplicate(seen, 0.0, count=LANES)
    factor = inverse.get_value(0)
    if asc.get_block_idx() == 0:  # where it is not the same memory; only set by the others, long after
        result.set_value(0, found.get_value(0))
    asc.set_flag(asc.HardEvent.S_V, 0)
    asc.wait_flag(asc.HardEvent.S_V, 0)
    pipeline = Pipeline(2)
    tiles = plan.of(asc.get_block_idx())
    for t in walk(len(tiles), lambda i: tiles[i][2]):
        tensor, first, count = tiles[t]
        slot = t % 2
        pipeline.load(slot)
        load(loaded[slot], tensors[tensor][first:], count)
        pipeline.compute(slot)
        if wide:
            x, y = loaded[slot], stored[slot]
        else:
            asc.cast(x, loaded[slot], asc.RoundMode.CAST_NONE, count=count)
        asc.muls(y, x, factor, count=count)
        padded = align(count, LANES)
        if padded != count:
            asc.duplicate(work[padded - LANES :], 0.0, count=LANES)
        asc.muls(work, x, 0.0, count=count)
        asc.compare_scalar(bits, work, 0.0, asc.CMPMODE.EQ, count=padded)
        asc.select(work, bits, work, 1.0, asc.SelMode.VSEL_TENSOR_SCALAR_MODE, count=padded)
        asc.whole_reduce_max(lanes, work, LANES, padded // LANES, 1, 1, 8, asc.ReduceOrder.ORDER_ONLY_VALUE)
        asc.max(seen, seen, lanes, count=padded // LANES)
        if not wide:
            asc.cast(stored[slot], y, asc.RoundMode.CAST_RINT, count=count)
        pipeline.store(slot)
        store(tensors[plan.grads + 2 + tensor][first:], stored[slot], count)
        pipeline.done(slot)
    pipeline.drain()
    asc.whole_reduce_max(lanes, seen, LANES, 1, 1, 1, 8, asc.ReduceOrder.ORDER_ONLY_VALUE)
    asc.set_flag(asc.HardEvent.V_S, 0)
    asc.wait_flag(asc.HardEvent.V_S, 0)
    if lanes.get_value(0) > 0:
        result.set_value(0, 1.0)


def _tiles(specs: Sequence[TensorSpec], cores: int) -> list[tuple[int, int, int]]:
    total = sum(s.size for s in specs)
    piece = max(min(align(ceil_div(total, cores), LANES), TILE), MIN_PIECE)
    return [(i, at, min(piece, s.size - at)) for i, s in enumerate(specs) for at in range(0, s.size, piece)]


@kernel("ForeachNonFiniteCheckAndUnscale")
def plan_check(call: OpCall, soc: Soc) -> list[asc.Launch]:
    grads = [need(call.inputs, i, "scaled_grads") for i in range(len(call.inputs) - 2)]
    dtype = grads[0].dtype
    if not padded_dma(soc):
        raise NoKernel("ForeachNonFiniteCheckAndUnscale without byte-exact DMA")
    if not legal(soc, "vcmax", "float32"):
        raise NoKernel("no float32 vcmax")
    kind, cores = vector_cores(soc)
    tiles = _tiles(grads, cores)
    if not tiles:
        raise NoKernel("no elements")
    units, blocks = deal(len(tiles), cores)
    plan = CheckPlan(tuple(tiles), units, len(grads), dtype)
    item = item_bytes(dtype)
    n = len(grads)
    gm = [(f"x{i}", dtype, s.size * item, "in") for i, s in enumerate(grads)]
    gm += [("found_inf", "float32", 4, "in"), ("inv_scale", "float32", 4, "in")]
    gm += [(f"y{i}", dtype, s.size * item, "out") for i, s in enumerate(grads)] + [("found", "float32", 4, "out")]
    return [
        asc.Launch(
            check_kernel, blocks, kind, [("in", i) for i in range(n + 2)] + [("out", i) for i in range(n + 1)], gm,
            {"plan": plan}, soc=soc, signature=plan.signature, code="ascendc",
        )
    ]  # fmt: skip


@asc.jit
def update_kernel(*gm: asc.GlobalAddress, growth: float, backoff: float, interval: int) -> None:
    """One core, the scalar unit alone."""
    scale, tracker, found, new_scale, new_tracker = (global_tensor(address) for address in gm)
    value, steps = float(scale.get_value(0)), int(tracker.get_value(0)) + 1
    if found.get_value(0) > 0:
        value, steps = value * backoff, 0
    elif steps >= interval:
        grown = value * growth
        value, steps = (grown if grown <= _LARGEST else value), 0
    new_scale.set_value(0, value)
    new_tracker.set_value(0, steps)


@kernel("AmpUpdateScale")
def plan_update(call: OpCall, soc: Soc) -> list[asc.Launch]:
    if need(call.inputs, 0, "current_scale").dtype != "float32":
        raise NoKernel("AmpUpdateScale of this type")
    names = (("current_scale", "float32", ("in", 0)), ("growth_tracker", "int32", ("in", 1)),
             ("found_inf", "float32", ("in", 2)), ("scale", "float32", ("out", 0)),
             ("tracker", "int32", ("out", 1)))  # fmt: skip
    consts = {
        "growth": float(call.attr("growth_factor", 2.0)),
        "backoff": float(call.attr("backoff_factor", 0.5)),
        "interval": int(call.attr("growth_interval", 2000)),
    }
    gm = [(name, dtype, 4, role[0]) for name, dtype, role in names]
    args = [role for _, _, role in names]
    kind = vector_cores(soc)[0]
    return [asc.Launch(update_kernel, 1, kind, args, gm, consts, soc=soc, code="ascendc")]
