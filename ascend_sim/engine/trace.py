"""Traces: what every core of one kernel launch issues, in program order, with loops kept as loops.

A `Program` is one core's instruction stream in columns (so that the native engine can read it in place), a
`Block` the programs that run together under one block index (one on coupled cores and on pure AIC or AIV
kernels; AIC, AIV0, AIV1 on MIX), a `KernelTrace` a launch. Nothing here depends on clocks, rates or
latencies: a trace is valid for every chip with the same instruction set and tiling inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from ascend_sim.isa.instr import PIPE_COUNT, MoveWork, Op, Pipe, Work, channel

MAX_PERIOD = 4  # iterations a software pipeline may need before its code repeats (ping-pong buffers: 2)


@dataclass(frozen=True, eq=False)
class Program:
    """Instruction stream of one core: parallel columns ``op``, ``pipe``, ``arg`` and the table ``works``.

    ``line`` holds, per instruction, an index into ``places`` (source file, line) or -1. ``rereads`` are the transfers
    that begin where an earlier one of this program began, as (position, distance): the bytes this core moved through
    global memory in between.
    """

    op: NDArray[np.uint8]
    pipe: NDArray[np.uint8]
    arg: NDArray[np.int32]
    works: tuple[Work, ...]
    line: NDArray[np.int32] | None = None
    places: tuple[tuple[str, int], ...] = ()
    rereads: tuple[tuple[int, int], ...] = ()

    def __len__(self) -> int:
        return len(self.op)

    @cached_property
    def weights(self) -> NDArray[np.int64]:
        """How often each instruction is executed, loops multiplied out (0 for LOOP and END themselves)."""
        result = np.ones(len(self.op), np.int64)
        weight, begin, stack = 1, 0, []
        for position in np.flatnonzero(self.op >= Op.LOOP).tolist():
            result[begin:position] = weight
            if self.op[position] == Op.LOOP:
                stack.append(int(self.arg[position]))
                weight *= stack[-1]
            else:
                weight //= stack.pop()
            result[position] = 0
            begin = position + 1
        return result

    @cached_property
    def crosses(self) -> bool:
        """Whether it sets or waits for flags of other cores."""
        return bool(((self.op == Op.CROSS_SET) | (self.op == Op.CROSS_WAIT)).any())

    @cached_property
    def pipe_counts(self) -> NDArray[np.int64]:
        """Executions of each work on each pipe: array [works, PIPE_COUNT]."""
        times = np.zeros((len(self.works), PIPE_COUNT), np.int64)
        execs = self.op == Op.EXEC
        np.add.at(times, (self.arg[execs], self.pipe[execs]), self.weights[execs])
        return times

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """How often each entry of ``works`` is executed."""
        total: NDArray[np.int64] = self.pipe_counts.sum(axis=1)
        return total

    @cached_property
    def gm_bytes(self) -> dict[tuple[int, bool], int]:
        """Bytes moved per (kernel argument, is_write)."""
        total: dict[tuple[int, bool], int] = {}
        for work, n in zip(self.works, self.counts.tolist(), strict=True):
            if isinstance(work, MoveWork) and work.gm >= 0:
                key = (work.gm, work.path.endswith("_GM"))
                total[key] = total.get(key, 0) + work.bursts * work.burst_bytes * n
        return total

    @cached_property
    def touches(self) -> tuple[tuple[int, bool], ...]:
        """(kernel argument, is_write) in the order the program first issues a transfer of them."""
        first = dict.fromkeys(self.arg[self.op == Op.EXEC].tolist())
        moves = (work for work in map(self.works.__getitem__, first) if isinstance(work, MoveWork) and work.gm >= 0)
        return tuple(dict.fromkeys((work.gm, work.path.endswith("_GM")) for work in moves))

    @cached_property
    def bypassed(self) -> frozenset[tuple[int, bool]]:
        """(kernel argument, is_write) whose transfers are not to be kept in L2."""
        moves = (w for w in self.works if isinstance(w, MoveWork) and w.gm >= 0 and w.bypass)
        return frozenset((w.gm, w.path.endswith("_GM")) for w in moves)

    def reread_bytes(self, distance: int = -1) -> dict[int, int]:
        """Bytes per kernel argument read again after more than ``distance`` bytes of other traffic of this core."""
        total: dict[int, int] = {}
        for position, between in self.rereads:
            work = self.works[self.arg[position]]
            if between > distance and isinstance(work, MoveWork) and not work.path.endswith("_GM"):
                nbytes = work.bursts * work.burst_bytes * int(self.weights[position])
                total[work.gm] = total.get(work.gm, 0) + nbytes
        return total

    @cached_property
    def executed(self) -> int:
        """Instructions executed, loops multiplied out (sync instructions included)."""
        return int(self.weights.sum())


@dataclass(frozen=True, eq=False)
class Block:
    """Programs that run side by side for one block index. ``kinds`` is parallel to ``programs``:
    ``"AICORE"`` (coupled), ``"AIC"`` or ``"AIV"``."""

    programs: tuple[Program, ...]
    kinds: tuple[str, ...]


@dataclass(frozen=True)
class GmArg:
    """A kernel argument in global memory: name, size and role (``in``, ``out``, ``inout``, ``workspace``)."""

    name: str
    nbytes: int
    role: str


@dataclass(frozen=True, eq=False)
class KernelTrace:
    """One launch. ``kind`` is ``AICORE``, ``AIC``, ``AIV`` or ``MIX``; ``block_of[i]`` is the index into
    ``blocks`` of what block i runs (blocks that issue the same instructions share an entry)."""

    name: str
    kind: str
    blocks: tuple[Block, ...]
    block_of: tuple[int, ...]
    args: tuple[GmArg, ...]
    value_dependent: bool = False
    notes: tuple[str, ...] = field(default=())
    code: str = ""  # class of the code, a row of the chip's ``launch.code``
    serial: bool = False  # cores compute between their transfers, so few of them use the memory at any time

    @property
    def block_dim(self) -> int:
        return len(self.block_of)

    @cached_property
    def gm_bytes(self) -> dict[tuple[int, bool], int]:
        """Bytes moved by the whole launch per (argument, is_write)."""
        times = np.bincount(np.asarray(self.block_of), minlength=len(self.blocks)).tolist()
        total: dict[tuple[int, bool], int] = {}
        for block, n in zip(self.blocks, times, strict=True):
            for program in block.programs:
                for key, nbytes in program.gm_bytes.items():
                    total[key] = total.get(key, 0) + nbytes * n
        return total

    @cached_property
    def touches(self) -> tuple[tuple[int, bool], ...]:
        """(argument, is_write) in the order block 0, then the others, first touch them."""
        found = (key for block in self.blocks for program in block.programs for key in program.touches)
        return tuple(dict.fromkeys(found))

    @cached_property
    def _rereads(self) -> dict[int, dict[int, int]]:
        """Answers of `reread_bytes` given so far."""
        return {}

    def reread_bytes(self, distance: int = -1) -> dict[int, int]:
        """`Program.reread_bytes`, summed over the launch."""
        if distance in self._rereads:
            return self._rereads[distance]
        times = np.bincount(np.asarray(self.block_of), minlength=len(self.blocks)).tolist()
        total: dict[int, int] = {}
        for block, n in zip(self.blocks, times, strict=True):
            for program in block.programs:
                for arg, nbytes in program.reread_bytes(distance).items():
                    total[arg] = total.get(arg, 0) + nbytes * n
        self._rereads[distance] = total
        return total

    @cached_property
    def bypassed(self) -> frozenset[tuple[int, bool]]:
        """(argument, is_write) whose transfers are not to be kept in L2."""
        return frozenset(key for block in self.blocks for program in block.programs for key in program.bypassed)

    @cached_property
    def executed(self) -> int:
        """Instructions executed by all blocks of the launch."""
        per_block = [sum(p.executed for p in block.programs) for block in self.blocks]
        return sum(per_block[i] for i in self.block_of)


class TraceBuilder:
    """Collects one core's instructions; equal iterations of a loop are folded while they are issued."""

    def __init__(self) -> None:
        self.code: list[tuple[int, int, int, int]] = []  # op, pipe, arg, place
        self._works: dict[Work, int] = {}
        self._places: dict[tuple[str, int], int] = {}
        self._moved = 0  # bytes through global memory so far, folded iterations included
        self._touched: dict[tuple[int, int], int] = {}  # (argument, offset) -> bytes moved when last touched
        self._last: dict[int, tuple[int, int, int]] = {}  # pipe -> argument, offset, bytes of its last transfer
        self._rereads: list[tuple[int, int, tuple[int, int]]] = []  # position, distance, what
        self._stretches: dict[Hashable, tuple[list[tuple[int, int, int, int]], int]] = {}

    def execute(self, pipe: int, work: Work, place: tuple[str, int] | None = None, offset: int = -1) -> None:
        """Record an instruction. ``offset``: where in its kernel argument a transfer begins, in bytes."""
        if offset >= 0 and isinstance(work, MoveWork):
            work = self._touch(pipe, work, offset)
        index = self._works.setdefault(work, len(self._works))
        self.code.append((0, pipe, index, self._place(place)))

    def _touch(self, pipe: int, work: MoveWork, offset: int) -> MoveWork:
        nbytes = work.bursts * work.burst_bytes
        transfer = (work.gm, offset, nbytes)
        if self._last.get(pipe) == transfer:
            work = work._replace(again=True)
        self._last[pipe] = transfer
        before = self._touched.get(transfer[:2])
        if before is not None:
            self._rereads.append((len(self.code), self._moved - before, transfer[:2]))
        self._moved += nbytes
        self._touched[transfer[:2]] = self._moved
        return work

    def set_flag(self, src: Pipe, dst: Pipe, flag_id: int, place: tuple[str, int] | None = None) -> None:
        self.code.append((Op.SET, src, channel(src, dst, flag_id), self._place(place)))

    def wait_flag(self, src: Pipe, dst: Pipe, flag_id: int, place: tuple[str, int] | None = None) -> None:
        self.code.append((Op.WAIT, dst, channel(src, dst, flag_id), self._place(place)))

    def barrier(self, pipe: Pipe, place: tuple[str, int] | None = None) -> None:
        self.code.append((Op.BARRIER, pipe, 0, self._place(place)))

    def cross_set(self, flag_id: int, mode: int, pipe: Pipe, place: tuple[str, int] | None = None) -> None:
        self.code.append((Op.CROSS_SET, pipe, flag_id * 4 + mode, self._place(place)))

    def cross_wait(self, flag_id: int, pipe: Pipe, place: tuple[str, int] | None = None) -> None:
        self.code.append((Op.CROSS_WAIT, pipe, flag_id, self._place(place)))

    def steady(self, indices: Sequence[int], tail: int = 2) -> Iterator[int]:
        """Yield the indices of a loop whose middle iterations repeat with a period of at most ``MAX_PERIOD``,
        and skip whole periods once two in a row issued the same code.

        The last ``tail`` iterations are always really run, so look-ahead conditions (``if i + 1 < n``) near the
        end are honoured. The caller promises that iterations between a repeating pair and the tail are alike;
        Python state carried from one iteration to the next must be a function of the index modulo the period.
        """
        n, i = len(indices), 0
        marks, moved = [len(self.code)], [self._moved]
        while i < n:
            yield indices[i]
            marks.append(len(self.code))
            moved.append(self._moved)
            i += 1
            period = self._period(marks)
            if not period:
                continue
            skip = (n - i - tail) // period
            if skip > 0:
                self._fold(marks[-1 - period], skip + 1, moved[-1] - moved[-1 - period])
                i += skip * period
                marks, moved = [len(self.code)], [self._moved]

    def repeat(self, key: Hashable, body: Callable[[], None]) -> None:
        """Record what ``body`` issues, by running it the first time and by copying that for every equal ``key`` later.
        Transfers of a copy count as traffic, not as reads of data that was read before."""
        found = self._stretches.get(key)
        if found is None:
            begin, moved = len(self.code), self._moved
            body()
            self._stretches[key] = self.code[begin:], self._moved - moved
            return
        code, moved = found
        self.code.extend(code)
        if moved:
            self._moved += moved
            self._last.clear()

    def _period(self, marks: list[int]) -> int:
        code = self.code
        for p in range(1, min(MAX_PERIOD, (len(marks) - 1) // 2) + 1):
            end, middle, begin = marks[-1], marks[-1 - p], marks[-1 - 2 * p]
            if end - middle == middle - begin and end > middle and _same(code, begin, middle, end):
                return p
        return 0

    def _fold(self, begin: int, times: int, moved: int) -> None:
        """Make the code from ``begin`` on, which moves ``moved`` bytes, a loop of ``times`` iterations."""
        self.code.insert(begin, (Op.LOOP, 0, times, -1))
        self.code.append((Op.END, 0, times, -1))
        skipped = (times - 1) * moved
        self._moved += skipped
        rereads = self._rereads
        at = len(rereads)
        while at and rereads[at - 1][0] >= begin:
            at -= 1
            position, distance, place = rereads[at]
            rereads[at] = (position + 1, distance, place)
            if distance < moved:  # the same place in every iteration
                self._touched[place] += skipped

    def _place(self, place: tuple[str, int] | None) -> int:
        return -1 if place is None else self._places.setdefault(place, len(self._places))

    def build(self) -> Program:
        columns = np.fromiter(chain.from_iterable(self.code), np.int32, 4 * len(self.code)).reshape(-1, 4)
        return Program(
            op=columns[:, 0].astype(np.uint8),
            pipe=columns[:, 1].astype(np.uint8),
            arg=_link_loops(columns[:, 0], np.ascontiguousarray(columns[:, 2])),
            works=tuple(self._works),
            line=np.ascontiguousarray(columns[:, 3]) if self._places else None,
            places=tuple(self._places),
            rereads=tuple((position, distance) for position, distance, _ in self._rereads),
        )


def _same(code: list[tuple[int, int, int, int]], begin: int, middle: int, end: int) -> bool:
    return code[begin:middle] == code[middle:end]


def _link_loops(op: NDArray[np.int32], arg: NDArray[np.int32]) -> NDArray[np.int32]:
    """Point each END at its LOOP (positions are only known once nothing is inserted any more)."""
    stack: list[int] = []
    for position in np.flatnonzero(op >= Op.LOOP).tolist():
        if op[position] == Op.LOOP:
            stack.append(position)
        else:
            arg[position] = stack.pop()
    return arg
