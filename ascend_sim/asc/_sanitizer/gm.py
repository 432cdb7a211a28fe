"""Global memory: overlapping accesses of different cores and pipes, and which bytes of a result were written."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.asc._sanitizer.clocks import Instr
from ascend_sim.asc._sanitizer.flow import VIRGIN
from ascend_sim.asc._sanitizer.local import _runs
from ascend_sim.asc._sanitizer.spans import Span
from ascend_sim.isa.buffers import Bytes

Numbers = NDArray[np.int32]


class GlobalMemory:
    """Shadow of one kernel argument: number of the last write and of the last two reads (of different cores) per
    byte, and tags of undefined bytes. ``size`` are the argument's own bytes; the rest up to a block is readable."""

    def __init__(self, name: str, role: str, data: Bytes, size: int) -> None:
        self.name, self.role, self.data, self.size = name, role, data, size
        self.writes = np.zeros(len(data), np.int32)
        self.reads = np.zeros(len(data), np.int32)
        self.other_reads = np.zeros(len(data), np.int32)
        self.tags = np.zeros(len(data), np.uint8)
        if role in ("out", "workspace"):
            self.tags[:] = VIRGIN
        else:
            self.tags[size:] = VIRGIN
        self.written = self.read = False
        self.pieces: dict[int, tuple[int, int]] = {}  # number of a reader of one piece -> its bounds

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
        if len(spans) == 1 and spans[0].contiguous:
            self.pieces[me.number] = spans[0].low, spans[0].high
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

    def misplaced_reads(self) -> list[tuple[int, int]]:
        """(number, distance) of reads that leave a hole on one side, which nobody reads, and overlap a neighbour by as
        much on the other: pieces of a seamless partition but for one."""
        unread = self.reads[: self.size] == 0
        if not self.pieces or not unread.any() or unread.all():
            return []
        starts = {low: n for n, (low, _) in self.pieces.items()}
        ends = {high: n for n, (_, high) in self.pieces.items()}
        edges = np.flatnonzero(np.diff(np.concatenate(([False], unread, [False])).astype(np.int8)))
        found = []
        for hole, after in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            off = after - hole
            right, left = starts.get(after), ends.get(hole)
            if right is not None and self.pieces[right][1] - off in starts:
                found.append((right, off))
            elif left is not None and self.pieces[left][0] + off in ends:
                found.append((left, -off))
        return found

    def writer_near(self, address: int, instrs: list[Instr]) -> Instr | None:
        """The instruction that wrote the closest byte before an address, else the closest behind it."""
        before = np.flatnonzero(self.writes[:address])
        if len(before):
            return instrs[int(self.writes[before[-1]]) - 1]
        after = np.flatnonzero(self.writes[address:])
        return instrs[int(self.writes[address + after[0]]) - 1] if len(after) else None
