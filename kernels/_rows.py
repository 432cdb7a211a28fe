"""Moving rows of any length between global memory and UB.

A row of ``length`` elements occupies ``pitch`` elements in UB, a multiple of ``unit`` (the elements that fill whole
32-byte blocks of every type involved). Four ways, by what the chip's DMA can do:

- ``aligned``: rows are whole blocks; many rows move at once.
- ``pad``: byte-exact DMA (data_copy_pad) puts each row at a block boundary; lanes behind the row are undefined.
- ``overlap``: DMA moves whole blocks only. Each row takes two moves, its leading blocks and its last ``unit``
  elements, so the last block repeats ``pitch - length`` elements (`Rows.repeated`) that it shares with its
  neighbour; elementwise work is unaffected, sums must leave them out.
- ``scalar``: rows shorter than a block on such chips go element by element through the scalar unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ascend_sim import asc

from ._vector import BLOCK, align, padded_dma

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

_MOST_BURSTS = 4095
_MOST_GAP = 65535  # blocks between two bursts


@dataclass(frozen=True)
class Rows:
    """Geometry and method of row moves; see the module text."""

    length: int
    unit: int
    pitch: int
    mode: str

    @property
    def repeated(self) -> int:
        """Elements at the start of a row's last block that repeat the end of the block before."""
        return self.pitch - self.length if self.mode == "overlap" else 0

    def _strided(self, rows: int, pitch: int, item: int) -> bool:
        """Whether one strided move can carry rows ``pitch`` elements apart in global memory."""
        gap = (pitch - self.length) * item
        return rows == 1 or gap == 0 or (gap > 0 and gap % BLOCK == 0 and gap // BLOCK <= _MOST_GAP)

    def load(self, dst: asc.LocalTensor, src: asc.GlobalTensor, rows: int, src_pitch: int | None = None) -> None:
        """``rows`` rows ``src_pitch`` elements apart (default: contiguous) into UB."""
        pitch = self.length if src_pitch is None else src_pitch
        item = dst.dtype.size
        if self.mode == "aligned" and self._strided(rows, pitch, item):
            for first in range(0, rows, _MOST_BURSTS):
                n = min(_MOST_BURSTS, rows - first)
                part, source = dst[first * self.pitch :], src[first * pitch :]
                if pitch == self.length or rows == 1:
                    asc.data_copy(part, source, n * self.length)
                else:
                    gap = (pitch - self.length) * item // BLOCK
                    asc.data_copy(part, source, asc.DataCopyParams(n, self.length * item // BLOCK, gap, 0))
        elif self.mode == "aligned":
            for r in asc.steady(rows):
                asc.data_copy(dst[r * self.pitch :], src[r * pitch :], self.length)
        elif self.mode == "pad":
            nbytes = self.length * item
            gap = (self.pitch * item - align(nbytes, BLOCK)) // BLOCK
            for first in range(0, rows, _MOST_BURSTS):
                n = min(_MOST_BURSTS, rows - first)
                shape = asc.DataCopyExtParams(n, nbytes, (pitch - self.length) * item, gap)
                asc.data_copy_pad(dst[first * self.pitch :], src[first * pitch :], shape, asc.DataCopyPadParams())
        elif self.mode == "overlap":
            head = self.pitch - self.unit
            for r in asc.steady(rows):
                if head:
                    asc.data_copy(dst[r * self.pitch :], src[r * pitch :], head)
                asc.data_copy(dst[r * self.pitch + head :], src[r * pitch + self.length - self.unit :], self.unit)
        else:
            asc.pipe_barrier(asc.PipeID.ALL)
            for r in asc.steady(rows):
                for c in range(self.length):
                    dst.set_value(r * self.pitch + c, src.get_value(r * pitch + c))
            asc.pipe_barrier(asc.PipeID.ALL)

    def store(self, dst: asc.GlobalTensor, src: asc.LocalTensor, rows: int, dst_pitch: int | None = None) -> None:
        """``rows`` rows from UB to rows ``dst_pitch`` elements apart (default: contiguous)."""
        pitch = self.length if dst_pitch is None else dst_pitch
        item = src.dtype.size
        if self.mode == "aligned" and self._strided(rows, pitch, item):
            for first in range(0, rows, _MOST_BURSTS):
                n = min(_MOST_BURSTS, rows - first)
                part, target = src[first * self.pitch :], dst[first * pitch :]
                if pitch == self.length or rows == 1:
                    asc.data_copy(target, part, n * self.length)
                else:
                    gap = (pitch - self.length) * item // BLOCK
                    asc.data_copy(target, part, asc.DataCopyParams(n, self.length * item // BLOCK, 0, gap))
        elif self.mode == "aligned":
            for r in asc.steady(rows):
                asc.data_copy(dst[r * pitch :], src[r * self.pitch :], self.length)
        elif self.mode == "pad":
            nbytes = self.length * item
            gap = (self.pitch * item - align(nbytes, BLOCK)) // BLOCK
            for first in range(0, rows, _MOST_BURSTS):
                n = min(_MOST_BURSTS, rows - first)
                shape = asc.DataCopyExtParams(n, nbytes, gap, (pitch - self.length) * item)
                asc.data_copy_pad(dst[first * pitch :], src[first * self.pitch :], shape)
        elif self.mode == "overlap":
            head = self.pitch - self.unit
            for r in asc.steady(rows):
                if head:
                    asc.data_copy(dst[r * pitch :], src[r * self.pitch :], head)
                asc.data_copy(dst[r * pitch + self.length - self.unit :], src[r * self.pitch + head :], self.unit)
        else:
            asc.pipe_barrier(asc.PipeID.ALL)
            for r in asc.steady(rows):
                for c in range(self.length):
                    dst.set_value(r * pitch + c, src.get_value(r * self.pitch + c))
            asc.pipe_barrier(asc.PipeID.ALL)


def rows_of(soc: Soc, length: int, items: Sequence[int]) -> Rows:
    """How rows of ``length`` elements of types with ``items`` bytes move on this chip."""
    unit = BLOCK // min(items)
    pitch = align(length, unit)
    if pitch == length:
        return Rows(length, unit, pitch, "aligned")
    if padded_dma(soc):
        return Rows(length, unit, pitch, "pad")
    return Rows(length, unit, pitch, "overlap" if length >= unit else "scalar")
