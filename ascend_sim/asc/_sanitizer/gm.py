"""Global memory: overlapping accesses of different cores and pipes, and which bytes of a result were written."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.asc._sanitizer.clocks import Instr
from ascend_sim.asc._sanitizer.flow import VIRGIN
from ascend_sim.asc._sanitizer.local import _runs
from ascend_sim.asc._sanitizer.spans import Span
from ascend_sim.isa.buffers import Bytes

Numbers = NDArray[np.int32]
MOST_PIECES = 4096  # rows of one transfer that are followed one by one
FEWEST_SEAMS = 2  # pieces that have to meet without a gap before a single gap is odd


class GlobalMemory:
    """Shadow of one kernel argument: number of the last write and of the last two reads (of different cores) per
    byte, and tags of undefined bytes. ``size`` are the argument's own bytes; the rest up to a block is readable.
    ``before``: the tags that earlier launches left in this memory."""

    def __init__(self, name: str, role: str, data: Bytes, size: int, before: Bytes | None = None) -> None:
        self.name, self.role, self.data, self.size = name, role, data, size
        self.writes = np.zeros(len(data), np.int32)
        self.reads = np.zeros(len(data), np.int32)
        self.other_reads = np.zeros(len(data), np.int32)
        self.tags = np.zeros(len(data), np.uint8)
        if before is not None:
            self.tags[:] = before
        elif role in ("out", "workspace"):
            self.tags[:] = VIRGIN
        else:
            self.tags[size:] = VIRGIN
        self.written = self.read = False
        self.starts: dict[int, int] = {}  # first byte of a piece read at once -> number of the reader
        self.ends: dict[int, int] = {}
        self.bounds: dict[tuple[int, int], tuple[int, int]] = {}  # (number, first byte) -> bounds of the piece

    def earlier(self, spans: list[Span], write: bool) -> list[tuple[str, int]]:
        """(kind, number) of earlier accesses of the same bytes that an access may conflict with."""
        found: dict[tuple[str, int], None] = {}
        sides: list[tuple[str, Numbers]] = [("write", self.writes)] if self.written else []
        if write and self.read:
            sides += [("read", self.reads), ("read", self.other_reads)]
        for kind, numbers in sides:
            for s in spans:
                seen = np.ascontiguousarray(s.of(numbers)).reshape(-1)
                if seen.size and seen.max():
                    found.update(dict.fromkeys((kind, n) for n in _runs(seen) if n))
        return list(found)

    def record(self, spans: list[Span], me: Instr, instrs: list[Instr], write: bool) -> None:
        if write:
            self.written = True
            for s in spans:
                s.fill(self.writes, me.number)
            return
        self.read = True
        if len(spans) == 1 and spans[0].at is None:
            self._note_pieces(me.number, spans[0])
        for s in spans:
            seen = s.of(self.reads)
            flat = np.ascontiguousarray(seen).reshape(-1)
            top = int(flat.max()) if flat.size else 0
            if top and any(n and instrs[n - 1].core != me.core for n in _runs(flat)):
                s.fill(self.other_reads, seen)
            s.fill(self.reads, me.number)

    def undefined(self) -> dict[int, Any]:
        """Tag -> addresses of the argument's bytes that are not defined."""
        tags = self.tags[: self.size]
        if not tags.any():
            return {}
        return {int(t): np.flatnonzero(tags == t) for t in np.unique(tags) if t}

    def _note_pieces(self, number: int, s: Span) -> None:
        outer = np.zeros(1, np.int64)
        for n, step in zip(s.shape[:-1], s.strides[:-1], strict=True):
            outer = (outer[:, None] + np.arange(n) * step).reshape(-1)
        if len(outer) > MOST_PIECES:
            return
        for low in (s.start + outer).tolist():
            high = low + s.shape[-1]
            self.starts[low] = self.ends[high] = number
            self.bounds[number, low] = self.bounds[number, -high] = low, high

    def misplaced_read(self) -> tuple[int, int, bool] | None:
        """(number, bytes, displaced) of the one transfer that leaves holes in an argument which is otherwise read
        without gaps: displaced when it overlaps its neighbour on the other side by as much, else too short."""
        unread = self.reads[: self.size] == 0
        if self.written or not self.starts or not unread.any() or unread.all():
            return None
        edges = np.flatnonzero(np.diff(np.concatenate(([False], unread, [False])).astype(np.int8)))
        holes = list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))
        found = [self._displaced(hole, after) for hole, after in holes if after < self.size or hole in self.ends]
        known = [f for f in found if f is not None]
        if known:
            odd = len(known) < len(found) or len(set(known)) > 1 or self._overlaps() > len(known) + 1
            return None if odd else (*known[0], True)
        hole, after = holes[0]
        left = self.ends.get(hole)
        seams = len(self.starts.keys() & self.ends.keys())
        if len(holes) > 1 or left is None or after not in self.starts or seams < FEWEST_SEAMS or self._overlaps():
            return None
        low, high = self.bounds[left, -hole]
        return (left, after - hole, False) if hole > 0 and after - hole < high - low else None

    def _displaced(self, hole: int, after: int) -> tuple[int, int] | None:
        """(number, distance) of a read next to a hole that overlaps its other neighbour by the size of the hole."""
        off = after - hole
        right, left = self.starts.get(after), self.ends.get(hole)
        if right is not None:
            low, high = self.bounds[right, after]
            if off < high - low and high - off in self.starts:
                return right, off
        if left is not None:
            low, high = self.bounds[left, -hole]
            if off < high - low and low + off in self.ends:
                return left, -off
        return None

    def _overlaps(self) -> int:
        """Pieces that end inside the next one (equal pieces count once)."""
        pieces = sorted(set(self.bounds.values()))
        return sum(high > low for (_, high), (low, _) in pairwise(pieces))

    def writer_near(self, address: int, instrs: list[Instr]) -> Instr | None:
        """The instruction that wrote the closest byte before an address, else the closest behind it."""
        before = np.flatnonzero(self.writes[:address])
        if len(before):
            return instrs[int(self.writes[before[-1]]) - 1]
        after = np.flatnonzero(self.writes[address:])
        return instrs[int(self.writes[address + after[0]]) - 1] if len(after) else None
