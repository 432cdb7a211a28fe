"""Order of a core's instructions as flags and barriers establish it: vector clocks over its pipes.

``known[p][q]`` counts the instructions of pipe q that are certainly complete when the next one of pipe p starts. A
pipe runs in order but overlaps the end of one instruction with the next, so its own entry only grows by barriers and by
flags that come back to it. Other cores of the launch that run at the same time count too (``remote``), through flags
between cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ascend_sim.isa.instr import PIPE_COUNT, Pipe

Remote = NDArray[np.int64]
Place = tuple[str, int]


class Instr(NamedTuple):
    """An executed instruction: ``number`` in the launch (from 1), its core, pipe and position ``seq`` on the pipe;
    ``argument`` of the kernel that a transfer reads or writes, or -1."""

    number: int
    core: int
    pipe: Pipe
    seq: int
    name: str
    place: Place | None
    argument: int = -1
    atomic: bool = False


class Post(NamedTuple):
    """What a posted flag tells the pipe that waits for it."""

    known: list[int]
    remote: Remote | None
    place: Place | None
    order: int


class Clocks:
    """The clocks of one core; ``index`` among the ``cores`` that run together."""

    def __init__(self, index: int, cores: int) -> None:
        self.index, self.cores = index, cores
        self.seq = [0] * PIPE_COUNT
        self.known = [[0] * PIPE_COUNT for _ in range(PIPE_COUNT)]
        self.remote: list[Remote | None] = [None] * PIPE_COUNT

    def issue(self, pipe: int) -> int:
        """A new instruction on a pipe: its position. The scalar unit executes as it issues, so whatever is issued
        later comes after its work."""
        self.seq[pipe] += 1
        if pipe == Pipe.S:
            for known in self.known:
                known[Pipe.S] = self.seq[pipe]
        return self.seq[pipe]

    def post(self, pipe: int, place: Place | None, order: int) -> Post:
        """What is complete when ``pipe`` has finished all it was given."""
        known = list(self.known[pipe])
        known[pipe] = self.seq[pipe]
        return Post(known, self.remote[pipe], place, order)

    def take(self, pipe: int, post: Post) -> None:
        """``pipe`` waits for a post. A wait of the scalar unit holds back everything issued after it."""
        for p in range(PIPE_COUNT) if pipe == Pipe.S else (pipe,):
            self._join(p, post.known)
            self._join_remote(p, post.remote)

    def barrier(self, pipe: int) -> None:
        """`pipe_barrier`: the pipe (or all) finishes what it was given before it goes on."""
        if pipe != Pipe.ALL:
            self.known[pipe][pipe] = self.seq[pipe]
            return
        remotes = [r for r in self.remote if r is not None]
        remote = np.maximum.reduce(remotes) if remotes else None
        for p in range(PIPE_COUNT):
            self.known[p] = list(self.seq)
            self.remote[p] = remote

    def export(self, post: Post) -> Remote:
        """A post as cores that run at the same time see it."""
        clock = np.zeros(self.cores * PIPE_COUNT, np.int64) if post.remote is None else post.remote.copy()
        mine = clock[self.index * PIPE_COUNT : (self.index + 1) * PIPE_COUNT]
        np.maximum(mine, post.known, out=mine)
        return clock

    def receive(self, pipe: int, clocks: Sequence[Remote]) -> None:
        """``pipe`` waits for flags of other cores."""
        joined: Any = np.maximum.reduce(list(clocks))
        mine = joined[self.index * PIPE_COUNT : (self.index + 1) * PIPE_COUNT].tolist()
        self.take(pipe, Post(mine, joined, None, 0))

    def ordered(self, other: Instr, pipe: int, core: int) -> bool:
        """Whether ``other`` (of core number ``core`` of this group) is complete before the next instruction of
        ``pipe`` starts."""
        if core == self.index:
            return self.known[pipe][other.pipe] >= other.seq
        remote = self.remote[pipe]
        return remote is not None and bool(remote[core * PIPE_COUNT + other.pipe] >= other.seq)

    def _join(self, pipe: int, other: Sequence[int]) -> None:
        mine = self.known[pipe]
        for q, value in enumerate(other):
            mine[q] = max(mine[q], value)

    def _join_remote(self, pipe: int, other: Remote | None) -> None:
        if other is None:
            return
        mine = self.remote[pipe]
        self.remote[pipe] = other if mine is None or mine is other else np.maximum(mine, other)
