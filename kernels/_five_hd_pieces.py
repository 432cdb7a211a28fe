"""NCHW and NC1HWC0 cut into pieces of a plane of one block of channels."""

from __future__ import annotations

from dataclasses import dataclass

from ._rows import Rows
from ._vector import ceil_div


@dataclass(frozen=True)
class PiecesPlan:
    """``n`` images of ``c`` channels, ``c0`` a block, and ``pixels``; a unit is one block of channels of ``piece``
    pixels, the last one of a plane steps back to end with it; ``units`` of them on each core."""

    n: int
    c: int
    c0: int
    pixels: int
    piece: int
    io: Rows
    units: int
    to_blocks: bool

    @property
    def c1(self) -> int:
        return ceil_div(self.c, self.c0)

    @property
    def pieces(self) -> int:
        return ceil_div(self.pixels, self.piece)

    @property
    def total(self) -> int:
        return self.n * self.c1 * self.pieces

    def count(self, block: int) -> int:
        return min(self.units, self.total - block * self.units)

    def channels(self, unit: int) -> int:
        return min(self.c0, self.c - unit // self.pieces % self.c1 * self.c0)

    def signature(self, block: int) -> object:
        return tuple(self.channels(block * self.units + u) for u in range(self.count(block)))

    def where(self, unit: int) -> tuple[int, int]:
        """First element of a unit in NCHW and in NC1HWC0."""
        plane, piece = divmod(unit, self.pieces)
        image, block = divmod(plane, self.c1)
        pixel = min(piece * self.piece, self.pixels - self.piece)
        plain = (image * self.c + block * self.c0) * self.pixels + pixel
        return plain, (plane * self.pixels + pixel) * self.c0
