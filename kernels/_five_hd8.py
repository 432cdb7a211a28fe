"""NCHW <-> NC1HWC0 of 8-bit types (blocks of 32 channels) with the byte form of vnchwconv: each instruction turns 16
channels by 16 pixels of every 32, so four of them turn a tile of 32 channels."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ascend_sim import asc
from ascend_sim.ops.registry import NoKernel
from ascend_sim.ops.schema import TensorSpec

from ._five_hd_pieces import PiecesPlan
from ._flat import global_tensor
from ._rows import rows_of
from ._sync import Pipeline, walk
from ._vector import align, ceil_div, deal, legal, phased, vector_cores

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

C0 = 32
MOST = 1024  # pixels of a tile
_SCALAR_LIMIT = 16384  # elements that may go through the scalar unit


@asc.jit
def byte_five_hd(src: asc.GlobalAddress, dst: asc.GlobalAddress, plan: PiecesPlan) -> None:
    """Turn this core's tiles."""
    source, target = global_tensor(src), global_tensor(dst)
    pitch, buffers = plan.io.pitch, 2 if plan.units > 1 else 1
    size = C0 * pitch
    sets = [
        [asc.LocalTensor("uint8", asc.TPosition.VECCALC, (2 * s + side) * size, size) for side in range(2)]
        for s in range(buffers)
    ]
    pipe = Pipeline(buffers)
    first = asc.get_block_idx() * plan.units
    for u in walk(plan.count(asc.get_block_idx()), lambda u: plan.channels(first + u)):
        slot = u % buffers
        rows, blocks = sets[slot]
        plain, blocked = plan.where(first + u)
        channels = plan.channels(first + u)
        pipe.load(slot)
        if plan.to_blocks:
            plan.io.load(rows, source[plain:], channels, plan.pixels)
        else:
            asc.data_copy(blocks, source[blocked:], plan.piece * C0)
        pipe.compute(slot)
        if plan.to_blocks and channels < C0:
            missing = rows[channels * pitch :].reinterpret_cast("uint16")
            asc.duplicate(missing, 0, count=(C0 - channels) * pitch // 2)
        _turn(rows, blocks, pitch, plan.to_blocks)
        pipe.store(slot)
        if plan.to_blocks:
            asc.data_copy(target[blocked:], blocks, plan.piece * C0)
        else:
            plan.io.store(target[plain:], rows, channels, plan.pixels)
        pipe.done(slot)
    pipe.drain()


def _turn(rows: asc.LocalTensor, blocks: asc.LocalTensor, pitch: int, to_blocks: bool) -> None:
    """[32 channels, pitch] <-> [pitch, 32 channels]."""
    repeats = pitch // 32
    for channels in (False, True):
        for pixels in (False, True):
            lines = [rows[(channels * 16 + k) * pitch :] for k in range(16)]
            points = [blocks[(pixels * 16 + k) * C0 :] for k in range(16)]
            steps = (32, 1) if repeats > 1 else (0, 0)
            if to_blocks:
                asc.trans_data_to_5hd(points, lines, asc.TransDataTo5HDParams(channels, pixels, repeats, *steps))
            else:
                asc.trans_data_to_5hd(lines, points, asc.TransDataTo5HDParams(pixels, channels, repeats, *steps[::-1]))


def five_hd_bytes_launch(x: TensorSpec, y: TensorSpec, soc: Soc) -> asc.Launch:
    """Launch of the conversion ``x`` -> ``y``, one of them NC1HWC0, the other NCHW. Raises `NoKernel` for large
    pictures of small planes on chips that move whole blocks only."""
    to_blocks = y.format == "NC1HWC0"
    blocked, plain = (y, x) if to_blocks else (x, y)
    if blocked.shape[-1] != C0 or not legal(soc, "vnchwconv", "uint8"):
        raise NoKernel(f"NC1HWC0 of {x.dtype} with C0 = {blocked.shape[-1]}")
    n, c = plain.shape[:2]
    pixels = prod(plain.shape[2:])
    kind, cores = vector_cores(soc)
    piece = pixels
    if pixels >= 32:
        wanted = align(ceil_div(pixels * n * ceil_div(c, C0), cores), 32)
        piece = min(wanted, MOST, pixels // 32 * 32)
    io = rows_of(soc, piece, [1])
    if io.mode == "scalar" and x.size > _SCALAR_LIMIT:
        raise NoKernel(f"planes of {pixels} bytes are shorter than a block")
    tiles = n * ceil_div(c, C0) * ceil_div(pixels, piece)
    units, used = deal(tiles, cores)
    plan = PiecesPlan(n, c, C0, pixels, piece, io, units, to_blocks)
    return asc.Launch(
        byte_five_hd, block_dim=used, kind=kind, args=(("in", 0), ("out", 0)),
        gm=[("x", "uint8", x.nbytes, "in"), ("y", "uint8", y.nbytes, "out")], consts={"plan": plan}, soc=soc,
        signature=phased(plan.signature, lambda block: plan.where(block * plan.units)[0]), code="layout",
    )  # fmt: skip
