"""NCHW <-> NC1HWC0 with the 16 x 16 transpose of the vector unit (vnchwconv), for 16-bit types.

A unit of work is a group of channel blocks (n, c1) of whole planes, or a piece of one long plane. In UB the NCHW side
is 16 channel rows of ``io.pitch`` pixels, the NC1HWC0 side ``io.pitch`` pixels of one 32-byte block each; one
vnchwconv turns a whole tile. Planes whose pixels do not fill blocks use the row methods of `_rows`: on chips without
byte-exact DMA the last 16 pixels form an overlapping block of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ascend_sim import asc
from ascend_sim.ops.registry import NoKernel
from ascend_sim.ops.schema import TensorSpec

from ._flat import global_tensor
from ._rows import Rows, rows_of
from ._sync import Pipeline, walk
from ._vector import BLOCK, MAX_REPEATS, align, ceil_div, deal, item_bytes, phased, vector_cores

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

C0 = 16
_MOST_BURSTS = 4095


@dataclass(frozen=True)
class FiveHdPlan:
    """``n`` images of ``c`` channels and ``pixels``; ``piece`` pixels per unit (``pixels`` when whole planes),
    ``planes`` channel blocks per unit; ``units`` per core."""

    n: int
    c: int
    pixels: int
    piece: int
    planes: int
    io: Rows
    buffers: int
    units: int
    dtype: str

    @property
    def c1(self) -> int:
        return ceil_div(self.c, C0)

    @property
    def pieces(self) -> int:
        return ceil_div(self.pixels, self.piece)

    @property
    def groups(self) -> int:
        """Groups of channel blocks."""
        return ceil_div(self.n * self.c1, self.planes)

    def shape(self, unit: int) -> tuple[int, ...]:
        """Channels of every block of a unit."""
        plane0 = unit // self.pieces * self.planes
        planes = range(plane0, min(plane0 + self.planes, self.n * self.c1))
        return tuple(min(C0, self.c - p % self.c1 * C0) for p in planes) if self.c % C0 else (len(planes),)

    def first_pixel(self, piece: int) -> int:
        """First pixel of a piece; the last one steps back to end where the plane ends."""
        return min(piece * self.piece, self.pixels - self.piece)

    def count(self, block: int) -> int:
        return min(self.units, self.groups * self.pieces - block * self.units)

    def signature(self, block: int) -> object:
        first, count = block * self.units, self.count(block)
        period = self.c1 * self.pieces if self.c % C0 and self.c1 > 1 else 1
        ends = first + count == self.groups * self.pieces and self.n * self.c1 % self.planes != 0
        return count, first * self.planes % period if period > 1 else 0, ends

    def start(self, block: int) -> int:
        """First element of a block in the NCHW tensor."""
        group, piece = divmod(block * self.units, self.pieces)
        image, channel = divmod(group * self.planes, self.c1)
        return (image * self.c + channel * C0) * self.pixels + self.first_pixel(piece)


def pipes(plan: FiveHdPlan, tile_bytes: int) -> tuple[list[list[asc.LocalTensor]], Pipeline]:
    """Two buffers (NCHW side, NC1HWC0 side) per set."""
    sets = [
        [
            asc.LocalTensor(plan.dtype, asc.TPosition.VECCALC, (2 * s + side) * tile_bytes, tile_bytes // 2)
            for side in range(2)
        ]
        for s in range(plan.buffers)
    ]
    return sets, Pipeline(plan.buffers)


def turn(rows: asc.LocalTensor, blocks: asc.LocalTensor, pixels: int, pitch: int, to_blocks: bool) -> None:
    """16 rows of ``pitch`` elements <-> ``pixels`` 32-byte blocks (a multiple of 16)."""
    for first in range(0, pixels, 16 * MAX_REPEATS):
        repeats = min(ceil_div(pixels - first, 16), MAX_REPEATS)
        row_list = [rows[first + i * pitch :] for i in range(16)]
        block_list = [blocks[(first + i) * C0 :] for i in range(16)]
        row_step, block_step = (1, 16) if repeats > 1 else (0, 0)
        if to_blocks:
            params = asc.TransDataTo5HDParams(False, False, repeats, block_step, row_step)
            asc.trans_data_to_5hd(block_list, row_list, params)
        else:
            params = asc.TransDataTo5HDParams(False, False, repeats, row_step, block_step)
            asc.trans_data_to_5hd(row_list, block_list, params)


@asc.jit
def to_five_hd(src: asc.GlobalAddress, dst: asc.GlobalAddress, plan: FiveHdPlan) -> None:
    """NCHW -> NC1HWC0; channels that fill up the last block are zero."""
    source, target = global_tensor(src), global_tensor(dst)
    pitch = plan.io.pitch
    sets, pipe = pipes(plan, plan.planes * C0 * pitch * 2)
    first = asc.get_block_idx() * plan.units
    fixed_fill = plan.c1 == 1 and plan.c < C0  # the same rows are empty in every tile
    if fixed_fill:
        for rows, _ in sets:
            for p in range(plan.planes):
                asc.duplicate(rows[(p * C0 + plan.c) * pitch :], 0, count=(C0 - plan.c) * pitch)
    for u in walk(plan.count(asc.get_block_idx()), lambda u: plan.shape(first + u)):
        group, piece = divmod(first + u, plan.pieces)
        io, pixel0 = plan.io, plan.first_pixel(piece)
        slot = u % plan.buffers
        rows, blocks = sets[slot]
        plane0 = group * plan.planes
        planes = range(min(plan.planes, plan.n * plan.c1 - plane0))
        pipe.load(slot)
        for p in planes:
            image, block = divmod(plane0 + p, plan.c1)
            channels = min(C0, plan.c - block * C0)
            at = (image * plan.c + block * C0) * plan.pixels + pixel0
            io.load(rows[p * C0 * pitch :], source[at:], channels, plan.pixels)
        pipe.compute(slot)
        for p in planes:
            channels = min(C0, plan.c - (plane0 + p) % plan.c1 * C0)
            if channels < C0 and not fixed_fill:
                asc.duplicate(rows[(p * C0 + channels) * pitch :], 0, count=(C0 - channels) * pitch)
            turn(rows[p * C0 * pitch :], blocks[p * pitch * C0 :], io.pitch, pitch, True)
        pipe.store(slot)
        at = plane0 * plan.pixels + pixel0
        move_pixels(io, len(planes), target[at * C0 :], blocks, pitch, plan.pixels, True)
        pipe.done(slot)
    pipe.drain()


@asc.jit
def from_five_hd(src: asc.GlobalAddress, dst: asc.GlobalAddress, plan: FiveHdPlan) -> None:
    """NC1HWC0 -> NCHW; channels beyond C are dropped."""
    source, target = global_tensor(src), global_tensor(dst)
    pitch = plan.io.pitch
    sets, pipe = pipes(plan, plan.planes * C0 * pitch * 2)
    first = asc.get_block_idx() * plan.units
    for u in walk(plan.count(asc.get_block_idx()), lambda u: plan.shape(first + u)):
        group, piece = divmod(first + u, plan.pieces)
        io, pixel0 = plan.io, plan.first_pixel(piece)
        slot = u % plan.buffers
        rows, blocks = sets[slot]
        plane0 = group * plan.planes
        planes = range(min(plan.planes, plan.n * plan.c1 - plane0))
        pipe.load(slot)
        at = plane0 * plan.pixels + pixel0
        move_pixels(io, len(planes), source[at * C0 :], blocks, pitch, plan.pixels, False)
        pipe.compute(slot)
        for p in planes:
            turn(rows[p * C0 * pitch :], blocks[p * pitch * C0 :], io.pitch, pitch, False)
        pipe.store(slot)
        for p in planes:
            image, block = divmod(plane0 + p, plan.c1)
            channels = min(C0, plan.c - block * C0)
            at = (image * plan.c + block * C0) * plan.pixels + pixel0
            io.store(target[at:], rows[p * C0 * pitch :], channels, plan.pixels)
        pipe.done(slot)
    pipe.drain()


def move_pixels(
    io: Rows, planes: int, outside: asc.GlobalTensor, blocks: asc.LocalTensor, pitch: int, plane: int, out: bool
) -> None:
    """Pixel blocks of ``planes`` planes between UB (``pitch`` blocks a plane) and NC1HWC0 memory (``plane`` blocks a
    plane), in the order the rows of ``io`` have: leading pixels, then the overlapping last 16."""
    head = io.pitch - io.unit if io.mode == "overlap" else io.length
    parts = [(0, 0, head)] if head else []
    if io.mode == "overlap":
        parts.append((head, io.length - io.unit, io.unit))
    for inside, at, n in parts:
        for p0 in range(0, planes, _MOST_BURSTS):
            bursts = min(_MOST_BURSTS, planes - p0)
            local = blocks[(p0 * pitch + inside) * C0 :]
            far = outside[(p0 * plane + at) * C0 :]
            near_gap, far_gap = (pitch - n, plane - n) if bursts > 1 else (0, 0)
            if out:
                asc.data_copy(far, local, asc.DataCopyParams(bursts, n, near_gap, far_gap))
            else:
                asc.data_copy(local, far, asc.DataCopyParams(bursts, n, far_gap, near_gap))


def _piece(pixels: int, most: int) -> int:
    """Pixels per unit of a long plane: an even multiple of 16 where there is one near ``most``."""
    if pixels <= most:
        return pixels
    for size in range(most, most // 2, -16):
        if pixels % size == 0:
            return size
    return align(ceil_div(pixels, ceil_div(pixels, most)), 16)


def five_hd_plan(n: int, c: int, pixels: int, dtype: str, soc: Soc) -> tuple[FiveHdPlan, int]:
    """(plan, number of blocks). Raises `NoKernel` for types that are not 16 bits wide."""
    if item_bytes(dtype) != 2:
        raise NoKernel(f"NC1HWC0 of {dtype}: only 16-bit types go through vnchwconv here")
    kind_cores = vector_cores(soc)[1]
    c1 = ceil_div(c, C0)
    room = soc.buffers.ub_bytes // (2 * 2 * C0 * 2)  # pixels of a tile, two sets of two sides
    most = max(room // 16 * 16, 16)
    pieces_wanted = ceil_div(kind_cores, n * c1)
    wanted = max(align(ceil_div(pixels, pieces_wanted), 16), 16) if pieces_wanted > 1 and pixels >= 256 else pixels
    piece = _piece(pixels, min(most, max(wanted, 16)) if wanted < pixels else most)
    planes = 1
    if piece == pixels:
        planes = max(min(most // align(pixels, 16), ceil_div(n * c1, kind_cores)), 1)
    io = rows_of(soc, piece, [2])
    plan = FiveHdPlan(n, c, pixels, piece, planes, io, 1, 1, dtype)
    total = plan.groups * plan.pieces
    units, blocks = deal(total, kind_cores)
    return FiveHdPlan(n, c, pixels, piece, planes, io, 2 if units > 1 else 1, units, dtype), blocks


def five_hd_launch(x: TensorSpec, y: TensorSpec, soc: Soc) -> asc.Launch:
    """Launch of the conversion ``x`` -> ``y``, one of them NC1HWC0, the other NCHW."""
    to_blocks = y.format == "NC1HWC0"
    blocked, plain = (y, x) if to_blocks else (x, y)
    if blocked.shape[-1] != C0:
        raise NoKernel(f"NC1HWC0 with C0 = {blocked.shape[-1]}")
    n, c, h, w = plain.shape
    plan, blocks = five_hd_plan(n, c, h * w, x.dtype, soc)
    return asc.Launch(
        to_five_hd if to_blocks else from_five_hd,
        block_dim=blocks,
        kind=vector_cores(soc)[0],
        args=(("in", 0), ("out", 0)),
        gm=[("x", x.dtype, x.nbytes, "in"), ("y", y.dtype, y.nbytes, "out")],
        consts={"plan": plan},
        soc=soc,
        signature=phased(plan.signature, lambda block: 2 * plan.start(block)),
        code="layout",
    )


__all__ = ["BLOCK", "C0", "five_hd_launch", "five_hd_plan", "from_five_hd", "move_pixels", "to_five_hd", "turn"]
