"""NCHW <-> NC1HWC0 of 32-bit types with C0 8 or 16, by vnchwconv on pairs of half blocks.

A unit of work is 16 channels (one block of C0 16, two of C0 8) of a piece of a plane. Units overlap on the way to
blocks; on the way back a unit waits for the one before, as profiles of 910B2 show (the pipes' times add up).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ascend_sim import asc
from ascend_sim.ops.registry import NoKernel
from ascend_sim.ops.schema import TensorSpec

from ._flat import global_tensor
from ._lines import Heap
from ._rows import Rows, rows_of
from ._sync import Pipeline, walk
from ._vector import MAX_REPEATS, align, ceil_div, deal, legal, phased, vector_cores

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

GROUP = 16  # channels of a unit
LANES = 8  # elements of a block


@dataclass(frozen=True)
class WidePlan:
    """``n`` images of ``c`` channels and ``pixels``, pieces of ``piece``; blocks of ``c0`` channels."""

    n: int
    c: int
    c0: int
    pixels: int
    piece: int
    io: Rows
    units: int
    to_blocks: bool

    @property
    def groups(self) -> int:
        return ceil_div(self.c, GROUP)

    @property
    def pieces(self) -> int:
        return ceil_div(self.pixels, self.piece)

    def count(self, block: int) -> int:
        return min(self.units, self.n * self.groups * self.pieces - block * self.units)

    def where(self, unit: int) -> tuple[int, int, int, int]:
        """(first element in NCHW, in NC1HWC0, channels, blocks) of a unit; pieces step back to end with the plane."""
        rest, piece = divmod(unit, self.pieces)
        image, group = divmod(rest, self.groups)
        pixel = min(piece * self.piece, self.pixels - self.piece)
        c1 = ceil_div(self.c, self.c0)
        first = group * GROUP // self.c0
        plain = (image * self.c + group * GROUP) * self.pixels + pixel
        blocked = ((image * c1 + first) * self.pixels + pixel) * self.c0
        return plain, blocked, min(GROUP, self.c - group * GROUP), min(GROUP // self.c0, c1 - first)

    def shape(self, unit: int) -> tuple[int, int]:
        return self.where(unit)[2:]

    def signature(self, block: int) -> object:
        first, count = block * self.units, self.count(block)
        period = self.groups * self.pieces
        return count, first % period if self.c % GROUP and self.groups > 1 else 0


@asc.jit
def five_hd_wide(src: asc.GlobalAddress, dst: asc.GlobalAddress, plan: WidePlan) -> None:
    """Convert this core's units."""
    source, target = global_tensor(src), global_tensor(dst)
    pitch, heap = plan.io.pitch, Heap()
    buffers = 2 if plan.to_blocks else 1
    sets = [[heap.take("uint32", GROUP * pitch) for _ in range(2)] for _ in range(buffers)]
    if plan.to_blocks and plan.c < GROUP:  # the same rows are empty in every unit
        for rows, _ in sets:
            asc.duplicate(rows[plan.c * pitch :], 0, count=(GROUP - plan.c) * pitch)
    first = asc.get_block_idx() * plan.units
    pipe = Pipeline(buffers)
    for u in walk(plan.count(asc.get_block_idx()), lambda u: plan.shape(first + u)):
        plain, blocked, channels, blocks = plan.where(first + u)
        rows, packed = sets[u % buffers]
        run, step = plan.piece * plan.c0, plan.pixels * plan.c0
        pipe.load(u % buffers)
        if plan.to_blocks:
            plan.io.load(rows, source[plain:], channels, plan.pixels)
        else:
            for k in range(blocks):
                asc.data_copy(packed[k * pitch * plan.c0 :], source[blocked + k * step :], run)
        pipe.compute(u % buffers)
        if plan.to_blocks and channels < GROUP and plan.c >= GROUP:
            asc.duplicate(rows[channels * pitch :], 0, count=(GROUP - channels) * pitch)
        (_pack if plan.to_blocks else _unpack)(rows, packed, pitch, plan.c0)
        pipe.store(u % buffers)
        if plan.to_blocks:
            for k in range(blocks):
                asc.data_copy(target[blocked + k * step :], packed[k * pitch * plan.c0 :], run)
        else:
            _store_lines(plan, target[plain:], rows, channels)
        pipe.done(u % buffers)
    pipe.drain()


def _store_lines(plan: WidePlan, target: asc.GlobalTensor, rows: asc.LocalTensor, channels: int) -> None:
    """Lines that do not fill blocks leave one by one."""
    if plan.io.mode == "aligned":
        plan.io.store(target, rows, channels, plan.pixels)
        return
    for c in asc.steady(channels):
        plan.io.store(target[c * plan.pixels :], rows[c * plan.io.pitch :], 1)


def _place(pixel: int, half: int, pitch: int, c0: int) -> int:
    """Element of UB where 8 channels of a pixel lie: half a block of 16, or a block of 8."""
    return pixel * c0 + half * (LANES if c0 == GROUP else pitch * c0)


def _pack(rows: asc.LocalTensor, packed: asc.LocalTensor, pitch: int, c0: int) -> None:
    total = pitch // LANES
    for start in range(0, total, MAX_REPEATS):
        n, pixel = min(MAX_REPEATS, total - start), start * LANES
        lines = [rows[i * pitch + pixel :] for i in range(GROUP)]
        places = [packed[_place(pixel + k, half, pitch, c0) :] for k in range(LANES) for half in (0, 1)]
        steps = (c0, 1) if n > 1 else (0, 0)
        asc.trans_data_to_5hd(places, lines, asc.TransDataTo5HDParams(False, False, n, *steps))


def _unpack(rows: asc.LocalTensor, packed: asc.LocalTensor, pitch: int, c0: int) -> None:
    total = pitch // GROUP
    for half in (0, 1):
        for start in range(0, total, MAX_REPEATS):
            n, pixel = min(MAX_REPEATS, total - start), start * GROUP
            places = [packed[_place(pixel + i, half, pitch, c0) :] for i in range(GROUP)]
            lines = [rows[(half * LANES + k) * pitch + pixel + LANES * g :] for k in range(LANES) for g in (0, 1)]
            steps = (2, 2 * c0) if n > 1 else (0, 0)
            asc.trans_data_to_5hd(lines, places, asc.TransDataTo5HDParams(False, False, n, *steps))


def five_hd_wide_launch(x: TensorSpec, y: TensorSpec, soc: Soc) -> asc.Launch:
    """Launch of the conversion ``x`` -> ``y``, one of them NC1HWC0, the other NCHW. Raises `NoKernel`."""
    to_blocks = y.format == "NC1HWC0"
    blocked, plain = (y, x) if to_blocks else (x, y)
    c0 = blocked.shape[-1]
    if c0 not in (8, 16) or not legal(soc, "vnchwconv", "uint32"):
        raise NoKernel(f"NC1HWC0 of {x.dtype} with C0 = {c0}")
    n, c, h, w = plain.shape
    pixels = h * w
    kind, cores = vector_cores(soc)
    most = soc.buffers.ub_bytes // (4 * GROUP * 4) // GROUP * GROUP
    groups = n * ceil_div(c, GROUP)
    wanted = align(ceil_div(pixels, ceil_div(cores, groups)), GROUP) if groups < cores else pixels
    piece = pixels if pixels <= min(most, wanted) else align(ceil_div(pixels, ceil_div(pixels, min(most, wanted))), 16)
    io = rows_of(soc, min(piece, pixels), [2])
    if io.mode not in ("aligned", "pad"):
        raise NoKernel(f"planes of {pixels} elements do not fill blocks")
    units, blocks = deal(groups * ceil_div(pixels, min(piece, pixels)), cores)
    plan = WidePlan(n, c, c0, pixels, min(piece, pixels), io, units, to_blocks)
    return asc.Launch(
        five_hd_wide,
        block_dim=blocks,
        kind=kind,
        args=(("in", 0), ("out", 0)),
        gm=[("x", "uint32", x.nbytes, "in"), ("y", "uint32", y.nbytes, "out")],
        consts={"plan": plan},
        soc=soc,
        signature=phased(plan.signature, lambda block: 4 * plan.where(block * units)[0]),
        code="layout",
    )
