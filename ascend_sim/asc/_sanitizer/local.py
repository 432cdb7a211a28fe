"""Memories of one core: order of accesses from different pipes, and left-over bytes.

Per byte and pipe the position of the last read and the last write is kept. An access conflicts with one of another pipe
unless the clocks say that one is complete; a maximum over the bytes of an operand finds the youngest at once. On one
pipe instructions run in order, but two transfers of MTE2 or MTE3 to the same bytes may finish in either order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ascend_sim.asc._sanitizer.clocks import Clocks, Instr
from ascend_sim.asc._sanitizer.flow import VIRGIN
from ascend_sim.asc._sanitizer.spans import Span
from ascend_sim.isa.buffers import Bytes
from ascend_sim.isa.instr import Pipe

Positions = NDArray[np.int32]
UNORDERED_PIPES = (Pipe.MTE2, Pipe.MTE3)


class Hazard(NamedTuple):
    """Two accesses without order: ``kind`` is read-after-write, write-after-read or write-after-write; ``low`` the
    first byte both touch."""

    kind: str
    first: Instr
    low: int
    same_pipe: bool = False


class LocalMemory:
    """Shadow of one memory of one core."""

    def __init__(self, name: str, data: Bytes) -> None:
        self.name, self.data = name, data
        self.writers: dict[int, Positions] = {}
        self.readers: dict[int, Positions] = {}
        self.tags = np.full(len(data), VIRGIN, np.uint8)
        self.last_write = np.zeros(len(data), np.int32)  # numbers of instructions
        self.last_read = np.zeros(len(data), np.int32)
        self.owner: NDArray[np.uint8] | None = None  # 1 allocated, 2 freed; 0 not managed by a queue
        self.extent: dict[int, tuple[int, int]] = {}  # number of a writer -> bounds of what it wrote

    def conflicts(self, spans: list[Span], pipe: Pipe, write: bool, clocks: Clocks,
                  table: list[list[Instr]]) -> list[Hazard]:  # fmt: skip
        """Earlier accesses that the next instruction of ``pipe`` is not ordered with. ``table`` lists the core's
        instructions by pipe."""
        found: list[Hazard] = []
        known = clocks.known[pipe]
        for kind, side in (("write", self.writers), ("read", self.readers)):
            if kind == "read" and not write:
                continue
            for q, positions in side.items():
                same = q == pipe
                if same and not (write and kind == "write" and pipe in UNORDERED_PIPES):
                    continue
                for s in spans:
                    seen = s.of(positions)
                    last = int(seen.max()) if seen.size else 0
                    if last > known[q]:
                        name = f"{'write' if write else 'read'} after {kind}"
                        found.append(Hazard(name, table[q][last - 1], self._first(s, positions, last), same))
                        break
        return found

    @staticmethod
    def _first(s: Span, positions: Positions, value: int) -> int:
        if s.at is not None:
            return int(s.at[positions[s.at] == value].min())
        where = np.flatnonzero(positions[s.low : s.high] == value)
        return s.low + int(where[0]) if len(where) else s.low

    def record(self, spans: list[Span], pipe: Pipe, seq: int, number: int, write: bool) -> None:
        side = self.writers if write else self.readers
        positions = side.get(pipe)
        if positions is None:
            positions = side[pipe] = np.zeros(len(self.data), np.int32)
        last = self.last_write if write else self.last_read
        for s in spans:
            s.fill(positions, seq)
            s.fill(last, number)
        if write and spans:
            self.extent[number] = min(s.low for s in spans), max(s.high for s in spans)

    def owned(self, start: int, nbytes: int, state: int) -> None:
        """A queue slot is allocated (1) or freed (2)."""
        if self.owner is None:
            self.owner = np.zeros(len(self.data), np.uint8)
        self.owner[start : start + nbytes] = state

    def freed(self, spans: list[Span]) -> bool:
        """Whether a span touches a slot that was given back to its queue."""
        owner = self.owner
        return owner is not None and any(bool((s.of(owner) == 2).any()) for s in spans)

    def left_over(self, spans: list[Span], instrs: list[Instr], number: int) -> dict[int, Any]:
        """Bytes of earlier executions of the same line (or of the same argument) that this transfer overlaps
        but does not replace, although they were read since: what a too short or shifted transfer leaves behind. Call
        before `record`.

        Returns writer number -> addresses.
        """
        me = instrs[number - 1]
        if me.place is None:
            return {}
        result: dict[int, Any] = {}
        low, high = min(s.low for s in spans), max(s.high for s in spans)
        solid = len(spans) == 1 and spans[0].contiguous
        for before in self._earlier(spans):
            old = instrs[before - 1]
            same_line = old.place == me.place and old.name == me.name
            if not same_line and (me.argument < 0 or old.argument != me.argument):
                continue
            begin, end = self.extent[before]
            if solid and low <= begin and end <= high:
                continue  # replaced as a whole
            covered = np.zeros(len(self.data), bool)
            for s in spans:
                s.fill(covered, True)
            window = slice(begin, end)
            rest = (self.last_write[window] == before) & ~covered[window] & (self.last_read[window] > before)
            if rest.any():
                result[before] = begin + np.flatnonzero(rest)
        return result

    def _earlier(self, spans: list[Span]) -> set[int]:
        old: set[int] = set()
        for s in spans:
            numbers = np.ascontiguousarray(s.of(self.last_write)).reshape(-1)
            if numbers.size:
                old.update(_runs(numbers))
        old.discard(0)
        return old


def _runs(numbers: NDArray[np.int32]) -> list[int]:
    """Distinct values of an array that consists of few runs."""
    if numbers[0] == numbers[-1] and (numbers == numbers[0]).all():
        return [int(numbers[0])]
    change = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
    return list(set(numbers[np.concatenate(([0], change))].tolist()))

