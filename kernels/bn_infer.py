"""Batch normalisation with known statistics on half NC1HWC0 tensors, a ReLU behind it included: a multiplication and an
addition with the 16 values of a channel block, which every 32-byte block of a plane meets.

The factors of all channels are made once per core in float32. A tile is some whole planes, or a piece of one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ascend_sim import asc
from ascend_sim.ops.registry import NoKernel
from ascend_sim.ops.schema import OpCall

from ._flat import global_tensor
from ._sync import STEADY, Pipeline
from ._vector import BLOCK, MAX_REPEATS, align, ceil_div, deal, legal, vector_cores

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

C0 = 16
PARAMETERS = 4
TILE_BYTES = 32768


@dataclass(frozen=True)
class ChannelPlan:
    """``planes`` of ``pixels`` blocks, channel block = plane modulo ``c1``; each cut into ``pieces`` of ``piece``
    pixels, or ``group`` of them taken together; ``units`` tiles per core. ``order``: kernel arguments of scale, offset,
    mean and variance, of type ``kind``."""

    planes: int
    c1: int
    pixels: int
    piece: int
    group: int
    units: int
    order: tuple[int, int, int, int]
    kind: str
    epsilon: float
    relu: bool
    has_sqrt: bool
    has_div: bool

    @property
    def pieces(self) -> int:
        return ceil_div(self.pixels, self.piece)

    @property
    def tiles(self) -> int:
        return ceil_div(self.planes, self.group) * self.pieces

    def count(self, block: int) -> int:
        return max(min(self.units, self.tiles - block * self.units), 0)

    def signature(self, block: int) -> object:
        first = block * self.units
        return self.count(block), first % self.pieces, first + self.units >= self.tiles


@asc.jit
def channel_kernel(*gm: asc.GlobalAddress, plan: ChannelPlan) -> None:
    """Normalise this core's tiles."""
    tensors = [global_tensor(g) for g in gm]
    source, target = tensors[0], tensors[-1]
    channels, size = plan.c1 * C0, plan.group * plan.piece * C0
    at = 0

    def room(dtype: str, elements: int) -> asc.LocalTensor:
        nonlocal at
        tensor = asc.LocalTensor(dtype, asc.TPosition.VECCALC, at, elements)
        at += align(elements * (4 if dtype == "float32" else 2), BLOCK)
        return tensor

    ins, outs = [room("float16", size) for _ in range(2)], [room("float16", size) for _ in range(2)]
    factor, shift = room("float16", channels), room("float16", channels)
    _factors(plan, tensors, factor, shift, [room("float32", channels) for _ in range(PARAMETERS)],
             [room("float16", channels) for _ in range(PARAMETERS)])  # fmt: skip
    pipe = Pipeline(2)
    first = asc.get_block_idx() * plan.units
    for u in asc.steady(plan.count(asc.get_block_idx())):
        slot = u % 2
        group, piece = divmod(first + u, plan.pieces)
        plane = group * plan.group
        planes = min(plan.group, plan.planes - plane)
        begin = piece * plan.piece
        pixels = min(plan.piece, plan.pixels - begin)
        offset, blocks = (plane * plan.pixels + begin) * C0, planes * pixels
        pipe.load(slot)
        asc.data_copy(ins[slot], source[offset:], asc.DataCopyParams(1, blocks, 0, 0))
        pipe.compute(slot)
        for g in asc.steady(planes):
            c = (plane + g) % plan.c1 * C0
            _block(plan, outs[slot][g * pixels * C0 :], ins[slot][g * pixels * C0 :], factor[c:], shift[c:], pixels)
        if plan.relu:
            asc.relu(outs[slot], outs[slot], count=blocks * C0)
        pipe.store(slot)
        asc.data_copy(target[offset:], outs[slot], asc.DataCopyParams(1, blocks, 0, 0))
        pipe.done(slot)
    pipe.drain()


def _factors(
    plan: ChannelPlan, tensors: list[asc.GlobalTensor], factor: asc.LocalTensor, shift: asc.LocalTensor,
    wide: list[asc.LocalTensor], raw: list[asc.LocalTensor],
) -> None:  # fmt: skip
    """factor = scale / sqrt(variance + epsilon), shift = offset - mean * factor, of every channel."""
    n = plan.c1 * C0
    for index, w, r in zip(plan.order, wide, raw, strict=True):
        asc.data_copy(w if plan.kind == "float32" else r, tensors[index], n)
    asc.set_flag(asc.HardEvent.MTE2_V, STEADY)
    asc.wait_flag(asc.HardEvent.MTE2_V, STEADY)
    if plan.kind != "float32":
        for w, r in zip(wide, raw, strict=True):
            asc.cast(w, r, asc.RoundMode.CAST_NONE, count=n)
    scale, offset, mean, variance = wide
    asc.adds(variance, variance, plan.epsilon, count=n)
    if plan.has_sqrt and plan.has_div:
        asc.sqrt(variance, variance, count=n)
        asc.div(scale, scale, variance, count=n)
    else:
        asc.rsqrt(variance, variance, count=n)
        asc.mul(scale, scale, variance, count=n)
    asc.mul(mean, mean, scale, count=n)
    asc.sub(offset, offset, mean, count=n)
    asc.cast(factor, scale, asc.RoundMode.CAST_NONE, count=n)
    asc.cast(shift, offset, asc.RoundMode.CAST_NONE, count=n)


def _block(
    plan: ChannelPlan, out: asc.LocalTensor, x: asc.LocalTensor, factor: asc.LocalTensor, shift: asc.LocalTensor,
    pixels: int,
) -> None:  # fmt: skip
    """One plane (or piece): x * factor + shift with one block of channels."""
    params = asc.BinaryRepeatParams(1, 1, 0, 8, 8, 0)
    whole, rest = divmod(pixels, 8)
    for combine, near, far in ((asc.mul, x, factor), (asc.add, out, shift)):
        for at in range(0, whole, MAX_REPEATS):
            n = min(MAX_REPEATS, whole - at)
            combine(out[at * 128 :], near[at * 128 :], far, 128, n, params)
        if rest:
            combine(out[whole * 128 :], near[whole * 128 :], far, rest * C0, 1, params)


def channel_launch(call: OpCall, soc: Soc, order: tuple[int, int, int, int]) -> asc.Launch:
    """Launch for a half NC1HWC0 input. Raises `NoKernel` for anything else."""
    x, y = call.inputs[0], call.outputs[0]
    assert x is not None
    steps = tuple(call.attr("epilogue", ()))
    parameters = [call.inputs[i] if i < len(call.inputs) else None for i in order]
    kinds = {p.dtype for p in parameters if p is not None}
    if x.format != "NC1HWC0" or x.dtype != "float16" or y.dtype != "float16" or x.shape[-1] != C0:
        raise NoKernel("not a half tensor in blocks of channels")
    if any(p is None for p in parameters) or len(kinds) != 1 or not kinds <= {"float16", "float32"}:
        raise NoKernel("statistics or factors are missing or of different types")
    if steps not in ((), (("relu",),)):
        raise NoKernel(f"steps {steps} behind a batch normalisation")
    n, c1, h, w, _ = x.shape
    if any(p is not None and p.size != c1 * C0 for p in parameters):
        raise NoKernel(f"{call.type} of channels that do not fill blocks of {C0}")
    room = min(TILE_BYTES, (soc.buffers.ub_bytes - c1 * C0 * 32) // 4 // BLOCK * BLOCK) // BLOCK
    if room < 64:
        raise NoKernel(f"factors of {c1 * C0} channels fill the unified buffer")
    kind, cores = vector_cores(soc)
    planes, pixels = n * c1, h * w
    pieces = max(ceil_div(pixels, room), ceil_div(cores, planes) if planes < cores else 1)
    piece = align(ceil_div(pixels, pieces), 8) if pieces > 1 else pixels
    group = max(min(room // pixels, ceil_div(planes, 2 * cores)), 1) if pieces == 1 else 1
    tiles = ceil_div(planes, group) * ceil_div(pixels, piece)
    units, blocks = deal(tiles, cores)
    plan = ChannelPlan(
        planes, c1, pixels, piece, group, units, order, kinds.pop(), float(call.attr("epsilon", 1e-5)), bool(steps),
        legal(soc, "vsqrt", "float32"), legal(soc, "vdiv", "float32"),
    )  # fmt: skip
    gm = [(f"x{i}", s.dtype, s.nbytes, "in") for i, s in enumerate(call.inputs) if s is not None]
    return asc.Launch(
        channel_kernel, block_dim=blocks, kind=kind,
        args=(*(("in", i) for i in range(len(gm))), ("out", 0)), gm=[*gm, ("y", y.dtype, y.nbytes, "out")],
        consts={"plan": plan}, soc=soc, signature=plan.signature,
    )  # fmt: skip
