"""LRN across channels: x / (bias + alpha * sum of squares over 2 r + 1 channels) ** beta, on NCHW planes.

A tile is a strip of pixels of one picture with all its channels as rows. Squares lie between rows of zeros, so every
channel's sum is 2 r additions of shifted rows over the whole tile; the power is exp(-beta ln).
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
from ._rows import Rows, rows_of
from ._sync import Pipeline, walk
from ._vector import BLOCK, align, ceil_div, item_bytes, legal, phased, vector_cores

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

RESERVED_BYTES = 2048


@dataclass(frozen=True)
class LrnPlan:
    """Strips of ``columns`` pixels of ``images`` pictures, dealt to ``blocks`` cores in turn."""

    images: int
    channels: int
    pixels: int
    columns: int
    io: Rows
    last: Rows
    radius: int
    alpha: float
    beta: float
    bias: float
    dtype: str
    work: str
    blocks: int
    buffers: int

    @property
    def strips(self) -> int:
        return ceil_div(self.pixels, self.columns)

    def own(self, block: int) -> range:
        return range(block, self.images * self.strips, self.blocks)

    def where(self, tile: int) -> tuple[int, Rows]:
        """(first element, moves) of a tile."""
        image, strip = divmod(tile, self.strips)
        io = self.io if strip + 1 < self.strips else self.last
        return image * self.channels * self.pixels + strip * self.columns, io

    def signature(self, block: int) -> tuple[int, ...]:
        return tuple(self.where(tile)[1].length for tile in self.own(block))


@asc.jit
def lrn_kernel(x: asc.GlobalAddress, y: asc.GlobalAddress, plan: LrnPlan) -> None:
    """This core's tiles."""
    source, target = global_tensor(x), global_tensor(y)
    rows, border, pitch = plan.channels, plan.radius, plan.io.pitch
    heap = Heap()
    sets = [[heap.take(plan.dtype, rows * pitch) for _ in range(2)] for _ in range(plan.buffers)]
    squares = heap.take(plan.work, (rows + 2 * border) * pitch)
    total = heap.take(plan.work, rows * pitch)
    wide = None if plan.work == plan.dtype else heap.take(plan.work, rows * pitch)
    zero_at = -1  # pitch that the rows of zeros were laid out for
    own = plan.own(asc.get_block_idx())
    pipe = Pipeline(plan.buffers)
    for i in walk(len(own), lambda i: plan.where(own[i])[1].length):
        at, io = plan.where(own[i])
        slot = i % plan.buffers
        value, result = sets[slot]
        size = rows * io.pitch
        pipe.load(slot)
        io.load(value, source[at:], rows, plan.pixels)
        pipe.compute(slot)
        if border and zero_at != io.pitch:
            zero_at = io.pitch
            asc.duplicate(squares, 0.0, count=border * io.pitch)
            asc.duplicate(squares[(border + rows) * io.pitch :], 0.0, count=border * io.pitch)
        a = value
        if wide is not None:
            asc.cast(wide, value, asc.RoundMode.CAST_NONE, count=size)
            asc.pipe_barrier(asc.PipeID.V)
            a = wide
        asc.mul(squares[border * io.pitch :], a, a, count=size)
        asc.pipe_barrier(asc.PipeID.V)
        asc.muls(total, squares, plan.alpha, count=size)
        asc.pipe_barrier(asc.PipeID.V)
        for d in range(1, 2 * border + 1):
            asc.axpy(total, squares[d * io.pitch :], plan.alpha, count=size)
            asc.pipe_barrier(asc.PipeID.V)
        asc.adds(total, total, plan.bias, count=size)
        asc.pipe_barrier(asc.PipeID.V)
        asc.ln(total, total, count=size)
        asc.pipe_barrier(asc.PipeID.V)
        asc.muls(total, total, -plan.beta, count=size)
        asc.pipe_barrier(asc.PipeID.V)
        asc.exp(total, total, count=size)
        asc.pipe_barrier(asc.PipeID.V)
        if wide is None:
            asc.mul(result, a, total, count=size)
        else:
            asc.mul(total, a, total, count=size)
            asc.pipe_barrier(asc.PipeID.V)
            mode = asc.RoundMode.CAST_RINT if plan.dtype == "bfloat16" else asc.RoundMode.CAST_NONE
            asc.cast(result, total, mode, count=size)
        pipe.store(slot)
        io.store(target[at:], result, rows, plan.pixels)
        pipe.done(slot)
    pipe.drain()


def _columns(pixels: int, most: int, unit: int) -> int:
    """The widest strip up to ``most``, of whole units if possible, whose remainder is no shorter than a unit."""
    for step in (unit, 1):
        for columns in range(most, unit - 1, -step):
            if pixels - (ceil_div(pixels, columns) - 1) * columns >= min(unit, pixels):
                return columns
    return most


@kernel("LRN")
def plan_lrn(call: OpCall, soc: Soc) -> list[asc.Launch]:
    """Raises `NoKernel` for other layouts than NCHW and more channels than the unified buffer holds."""
    x, y = call.inputs[0], call.outputs[0]
    if x is None or x.dtype not in ("float16", "bfloat16", "float32") or x.size == 0 or len(x.shape) < 3:
        raise NoKernel("LRN of this type or rank")
    if x.format not in ("ND", "NCHW") or call.attr("data_format", "NCHW") != "NCHW":
        raise NoKernel(f"LRN of {x.format}")
    wide = all(legal(soc, instruction, "float32") for instruction in ("vexp", "vln"))
    if not wide and x.dtype != "float16":
        raise NoKernel(f"LRN of {x.dtype} without its exp and ln")
    work = "float32" if wide else "float16"
    images, channels, pixels = x.shape[0], x.shape[1], prod(x.shape[2:])
    radius, item = min(int(call.attr("depth_radius", 5)), channels - 1), item_bytes(x.dtype)
    units = BLOCK // item
    copies = item_bytes(work) * (2 if work == x.dtype else 3)
    for buffers in (2, 1):
        each = channels * (2 * item * buffers + copies) + 2 * radius * item_bytes(work)
        widest = (soc.buffers.ub_bytes - RESERVED_BYTES) // each // units * units
        if widest:
            break
    else:
        raise NoKernel(f"LRN over {channels} channels does not fit the unified buffer")
    kind, cores = vector_cores(soc)
    wanted = min(widest, max(align(ceil_div(images * pixels, cores), units), 8 * units))
    strips = ceil_div(pixels, min(wanted, align(pixels, units)))
    columns = _columns(pixels, min(align(ceil_div(pixels, strips), units), widest), units)
    strips = ceil_div(pixels, columns)
    io, last = rows_of(soc, min(columns, pixels), [item]), rows_of(soc, pixels - (strips - 1) * columns, [item])
    if "scalar" in (io.mode, last.mode):
        raise NoKernel(f"pictures of {pixels} pixels leave rows shorter than a block")
    alpha, beta, bias = (float(call.attr(k, v)) for k, v in (("alpha", 1.0), ("beta", 0.5), ("bias", 1.0)))
    blocks = min(images * strips, cores)
    plan = LrnPlan(
        images, channels, pixels, columns, io, last, radius, alpha, beta, bias, x.dtype, work, blocks, buffers
    )  # fmt: skip
    return [
        asc.Launch(
            lrn_kernel,
            block_dim=plan.blocks,
            kind=kind,
            args=(("in", 0), ("out", 0)),
            gm=[("x", x.dtype, x.nbytes, "in"), ("y", y.dtype, y.nbytes, "out")],
            consts={"plan": plan},
            soc=soc,
            signature=phased(plan.signature, lambda block: plan.where(block)[0] * item),
        )
    ]
