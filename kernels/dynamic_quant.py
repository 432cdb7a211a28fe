"""DynamicQuant on chips with separate vector cores, as the stock AscendC kernel runs it (hicann/ops-nn, restated): rows
in equal shares, tiles of up to 255 rows, queues two deep; each row's largest magnitude goes to the scalar unit, which
returns the factor the row is multiplied with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ascend_sim import asc
from ascend_sim.ops.registry import NoKernel, kernel
from ascend_sim.ops.schema import OpCall, TensorSpec

from ._flat import global_tensor
from ._lines import Heap, Lines, lines_of, vector_to_scalar
from ._rows import rows_of
from ._sync import STEADY, Pipeline
from ._vector import BLOCK, REPEAT, align, ceil_div, deal, item_bytes, phased, vector_cores

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

MOST_ROWS = 255
LARGEST = 127.0


@dataclass(frozen=True)
class QuantPlan:
    """``rows`` rows, ``units`` per core, tiles of ``tile``; ``smooth``: whether a factor per column comes first."""

    rows: int
    units: int
    tile: int
    lines: Lines
    dtype: str
    smooth: str

    def count(self, block: int) -> int:
        return min(self.units, self.rows - block * self.units)


@asc.jit
def dynamic_quant_kernel(*gm: asc.GlobalAddress, plan: QuantPlan) -> None:
    """Quantise this core's rows."""
    tensors = [global_tensor(a) for a in gm]
    source, target, scales = tensors[0], tensors[-2], tensors[-1]
    lines, io = plan.lines, plan.lines.io
    area, room, heap = plan.tile * io.pitch, align(plan.tile, 64), Heap()
    sets = [(heap.take(plan.dtype, area), heap.take("int8", area), heap.take("float32", room)) for _ in range(2)]
    wide, spare = heap.take("float32", area), heap.take("float32", area)
    scratch, values = heap.take("float32", plan.tile * lines.width), heap.take("float32", room)
    smooth = heap.take("float32", io.pitch) if plan.smooth else None
    if smooth is not None:
        raw = smooth if plan.smooth == "float32" else spare.reinterpret_cast(plan.smooth)
        io.load(raw, tensors[1], 1)
        asc.set_flag(asc.HardEvent.MTE2_V, STEADY)
        asc.wait_flag(asc.HardEvent.MTE2_V, STEADY)
        if raw is not smooth:
            asc.cast(smooth, raw, asc.RoundMode.CAST_NONE, count=io.pitch)
            asc.pipe_barrier(asc.PipeID.V)
    half = spare.reinterpret_cast("float16")
    first, count = asc.get_block_idx() * plan.units, plan.count(asc.get_block_idx())
    pipe = Pipeline(2)
    for t in asc.steady(ceil_div(count, plan.tile)):
        row, n = first + t * plan.tile, min(plan.tile, count - t * plan.tile)
        taken, result, kept = sets[t % 2]
        size = n * io.pitch
        pipe.load(t % 2)
        io.load(taken, source[row * io.length :], n)
        pipe.compute(t % 2)
        data = taken
        if plan.dtype != "float32":
            asc.cast(wide, taken, asc.RoundMode.CAST_NONE, count=size)
            data = wide
        if smooth is not None:
            lines.across("mul", wide, data, smooth, n)
            data = wide
        asc.abs(spare, data, count=size)
        lines.reduce("max", spare, n, scratch, values)
        asc.muls(kept, values, 1.0 / LARGEST, count=n)
        vector_to_scalar()
        for r in asc.steady(n):
            largest = float(values.get_value(r))
            factor = LARGEST / largest if largest else 1.0
            line = wide[r * io.pitch :]
            asc.muls(line, data[r * io.pitch :], factor, count=io.pitch)
        asc.cast(wide, wide, asc.RoundMode.CAST_RINT, count=size)
        asc.cast(half, wide, asc.RoundMode.CAST_NONE, count=size)
        asc.cast(result, half, asc.RoundMode.CAST_NONE, count=size)
        pipe.store(t % 2)
        io.store(target[row * io.length :], result, n)
        asc.data_copy_pad(scales[row:], kept, asc.DataCopyParams(1, 4 * n, 0, 0))
        pipe.done(t % 2)
    pipe.drain()


@kernel("DynamicQuant")
def plan_dynamic_quant(call: OpCall, soc: Soc) -> list[asc.Launch]:
    """Raises `NoKernel` on coupled chips and for rows that do not fit the unified buffer."""
    x, y, scale = call.inputs[0], call.outputs[0], call.outputs[1]
    smooth = call.inputs[1] if len(call.inputs) > 1 else None
    floats = ("float16", "bfloat16", "float32")
    if x is None or x.dtype not in floats or x.format != "ND" or not x.size or not soc.chip.split_cores:
        raise NoKernel("dynamic quantisation of this type, format or chip")
    if smooth is not None and smooth.dtype not in floats:
        raise NoKernel(f"smooth scales of {smooth.dtype}")
    length = x.shape[-1]
    rows, item = x.size // length, item_bytes(x.dtype)
    io = rows_of(soc, length, [item, 1])
    lines = lines_of(soc, io, "float32")
    kind, cores = vector_cores(soc)
    units, blocks = deal(rows, cores)
    per_row = io.pitch * (2 * item + 2 + 8) + REPEAT + 12
    room = soc.buffers.ub_bytes - (4 * io.pitch if smooth is not None else 0) - 3 * 4 * 64 - 16 * BLOCK
    if per_row > room:
        raise NoKernel(f"a row of {length} elements does not fit the unified buffer")
    tile = min(room // per_row, units, MOST_ROWS)
    plan = QuantPlan(rows, units, tile, lines, x.dtype, smooth.dtype if smooth is not None else "")
    specs: list[TensorSpec] = [s for s in (x, smooth) if s is not None]
    return [
        asc.Launch(
            dynamic_quant_kernel,
            block_dim=blocks,
            kind=kind,
            args=[*(("in", i) for i in range(len(specs))), ("out", 0), ("out", 1)],
            gm=[
                *((f"x{i}", s.dtype, s.nbytes, "in") for i, s in enumerate(specs)),
                ("y", y.dtype, y.nbytes, "out"),
                ("scale", "float32", scale.nbytes, "out"),
            ],
            consts={"plan": plan},
            soc=soc,
            signature=phased(plan.count, *(lambda b, s=s: b * units * length * s for s in (1, item))),
            code="ascendc",
        )
    ]
