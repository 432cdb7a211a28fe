"""NCHW <-> NC1HWC0 of 32-bit types on cores whose vnchwconv takes 16-bit types only: the scalar unit moves every
element from its row to its pixel, eight at a time, as the stock kernel of that generation does (stored copies of the
TBE repository, Apache-2.0, restated)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ascend_sim import asc
from ascend_sim.ops.registry import NoKernel
from ascend_sim.ops.schema import TensorSpec

from ._five_hd_pieces import PiecesPlan
from ._flat import global_tensor
from ._lines import Heap
from ._rows import rows_of
from ._sync import walk
from ._vector import align, ceil_div, deal, phased, vector_cores

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

C0 = 16
BATCH = 8  # elements in registers
ADDRESSES = 2  # scalar instructions a batch: where it is, where it goes
_E = asc.HardEvent


def _runs(plan: PiecesPlan) -> list[tuple[int, int, int]]:
    """(place in a row in UB, first pixel, pixels): the blocks of a row, and the overlapping last one."""
    if plan.io.mode != "overlap":
        return [(0, 0, plan.piece)]
    head = plan.io.pitch - plan.io.unit
    return [(0, 0, head), (head, plan.piece - plan.io.unit, plan.io.unit)]


@asc.jit
def five_hd_scalar(src: asc.GlobalAddress, dst: asc.GlobalAddress, plan: PiecesPlan) -> None:
    """Convert this core's units."""
    source, target = global_tensor(src), global_tensor(dst)
    pitch, heap = plan.io.pitch, Heap()
    rows, blocks = (heap.take("uint32", C0 * pitch) for _ in range(2))
    first = asc.get_block_idx() * plan.units
    if plan.to_blocks and plan.c < C0:  # the same channels are empty in every unit
        _clear(blocks, plan.piece * C0)
    for u in walk(plan.count(asc.get_block_idx()), lambda u: plan.channels(first + u)):
        channels = plan.channels(first + u)
        plain, blocked = plan.where(first + u)
        if plan.to_blocks:
            plan.io.load(rows, source[plain:], channels, plan.pixels)
        else:
            asc.data_copy(blocks, source[blocked:], plan.piece * C0)
        if plan.to_blocks and channels < C0 < plan.c:
            _clear(blocks, plan.piece * C0)
        asc.set_flag(_E.MTE2_S, 0)
        asc.wait_flag(_E.MTE2_S, 0)
        for c in asc.steady(channels):
            for place, pixel, pixels in _runs(plan):
                for p in asc.steady(0, pixels, BATCH):
                    row, block = rows[c * pitch + place + p :], blocks[(pixel + p) * C0 + c :]
                    _elements(row, block, min(BATCH, pixels - p), plan.to_blocks)
        asc.set_flag(_E.S_MTE3, 0)
        asc.wait_flag(_E.S_MTE3, 0)
        if plan.to_blocks:
            asc.data_copy(target[blocked:], blocks, plan.piece * C0)
        else:
            plan.io.store(target[plain:], rows, channels, plan.pixels)
        asc.set_flag(_E.MTE3_S, 0)
        asc.wait_flag(_E.MTE3_S, 0)
        asc.set_flag(_E.MTE3_MTE2, 0)
        asc.wait_flag(_E.MTE3_MTE2, 0)


def _clear(blocks: asc.LocalTensor, count: int) -> None:
    asc.set_flag(_E.S_V, 0)
    asc.wait_flag(_E.S_V, 0)
    asc.duplicate(blocks, 0, count=count)
    asc.set_flag(_E.V_S, 0)
    asc.wait_flag(_E.V_S, 0)


def _elements(row: asc.LocalTensor, pixels: asc.LocalTensor, count: int, to_blocks: bool) -> None:
    """``count`` elements of a row <-> one channel of as many pixels."""
    asc.scalar_instructions(ADDRESSES)
    if to_blocks:
        held = [row.get_value(i) for i in range(count)]
        for i, value in enumerate(held):
            pixels.set_value(i * C0, value)
    else:
        held = [pixels.get_value(i * C0) for i in range(count)]
        for i, value in enumerate(held):
            row.set_value(i, value)


def five_hd_scalar_launch(x: TensorSpec, y: TensorSpec, soc: Soc) -> asc.Launch:
    """Launch of the conversion ``x`` -> ``y`` of a 32-bit type, one of them NC1HWC0, the other NCHW. Raises
    `NoKernel`."""
    to_blocks = y.format == "NC1HWC0"
    blocked, plain = (y, x) if to_blocks else (x, y)
    n, c, h, w = plain.shape
    if blocked.shape[-1] != C0:
        raise NoKernel(f"NC1HWC0 of {x.dtype} with C0 = {blocked.shape[-1]}")
    pixels, planes = h * w, n * ceil_div(c, C0)
    kind, cores = vector_cores(soc)
    most = soc.buffers.ub_bytes // (2 * C0 * 4) // C0 * C0
    pieces = max(ceil_div(pixels, most), ceil_div(cores, planes) if planes < cores and pixels >= C0 * cores else 1)
    piece = min(align(ceil_div(pixels, pieces), C0), pixels)
    plan = PiecesPlan(n, c, C0, pixels, piece, rows_of(soc, piece, [4]), 1, to_blocks)
    units, used = deal(plan.total, cores)
    plan = replace(plan, units=units)
    return asc.Launch(
        five_hd_scalar,
        block_dim=used,
        kind=kind,
        args=(("in", 0), ("out", 0)),
        gm=[("x", "uint32", x.nbytes, "in"), ("y", "uint32", y.nbytes, "out")],
        consts={"plan": plan},
        soc=soc,
        signature=phased(plan.signature, lambda block: 4 * plan.where(block * units)[0]),
    )
