"""Buffers in L1 between MTE2 (fills) and MTE1 (empties), and the look-ahead that keeps MTE2 busy."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from ascend_sim import asc

from ._cube import E

Unit = TypeVar("Unit")
Held_ = TypeVar("Held_")
Mark = tuple[int, int]


class Held:
    """A filled buffer: its ``slot`` and the pieces no load to L0 has waited for yet, with the mark each begins at."""

    __slots__ = ("pending", "slot")

    def __init__(self, slot: int) -> None:
        self.slot = slot
        self.pending: list[tuple[Mark, int]] = []


class Slots:
    """Buffers filled in up to ``parts`` pieces: a free flag per buffer (from ``first`` on), a ready flag per piece
    (from ``ready`` on). A load to L0 waits, once each, for the pieces whose mark lies before the end of what it
    reads."""

    __slots__ = ("first", "parts", "ready", "slots", "turn")

    def __init__(self, first: int, slots: int, ready: int, parts: int = 1) -> None:
        self.first, self.slots, self.ready, self.parts = first, slots, ready, parts
        self.turn = 0

    def open(self) -> None:
        """All buffers start free."""
        for s in range(self.slots):
            asc.set_flag(E.MTE1_MTE2, self.first + s)

    def take(self) -> Held:
        """The next buffer, once it is free."""
        held = Held(self.turn)
        self.turn = (self.turn + 1) % self.slots
        asc.wait_flag(E.MTE1_MTE2, self.first + held.slot)
        return held

    def hand(self, held: Held, mark: Mark = (0, 0)) -> None:
        """The next piece of a buffer is on its way."""
        part = len(held.pending)
        asc.set_flag(E.MTE2_MTE1, self.ready + held.slot * self.parts + part)
        held.pending.append((mark, part))

    def split(self, held: Held, ends: Sequence[Mark]) -> list[tuple[int, ...]]:
        """For reads that end at ``ends``, in order: the pieces each has to wait for."""
        out, done, marks = [], 0, held.pending
        for end in ends:
            start = done
            while done < len(marks) and marks[done][0] < end:
                done += 1
            out.append(tuple(part for _, part in marks[start:done]))
        held.pending = marks[done:]
        return out

    def wait(self, held: Held, pieces: Sequence[int]) -> None:
        """MTE1 waits for pieces."""
        for part in pieces:
            asc.wait_flag(E.MTE2_MTE1, self.ready + held.slot * self.parts + part)

    def give(self, held: Held) -> None:
        """The buffer has been read."""
        asc.set_flag(E.MTE1_MTE2, self.first + held.slot)

    def close(self) -> None:
        """Take every free flag back, so none is left set at the end."""
        for i in range(self.slots):
            asc.wait_flag(E.MTE1_MTE2, self.first + (self.turn + i) % self.slots)


def look_ahead(
    units: Iterable[Unit],
    load: Callable[[Unit], Held_],
    work: Callable[[Unit, Held_], None],
    free: Callable[[Unit], bool],
    depth: int = 1,
) -> None:
    """Issue the loads of a unit before the work of the ``depth`` units before it: the scalar unit stalls while the
    queue of MTE1 or V is full, and a transfer not issued by then comes too late. A unit that is not ``free`` loads
    into a buffer still in use and waits for the work before it. Rings need ``depth`` + 1 buffers."""
    waiting: deque[tuple[Unit, Held_]] = deque()
    for unit in units:
        if not free(unit):
            while waiting:
                work(*waiting.popleft())
        waiting.append((unit, load(unit)))
        if len(waiting) > depth:
            work(*waiting.popleft())
    while waiting:
        work(*waiting.popleft())
