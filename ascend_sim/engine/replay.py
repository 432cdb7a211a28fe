"""Replay as a recurrence: the machine of `machine.py`, one pass over the program, no event queue.

Because every pipe is in order, the start of an instruction is a maximum over a few known times, so programs are
replayed instruction by instruction in program order. Only where a WAIT is dispatched before its flag's set has been
replayed (a set further down the program, or on another core) is its pipe *blocked*: what follows in that pipe's queue
is kept, with its dispatch times, until the flag arrives.

Loops are compressed exactly. Times only ever enter maxima with times not before the scalar clock ``t``, so the future
of a core depends on ``max(x - t, 0)`` of every time x it keeps, for the queues, pipes and flags the loop touches. When
two iterations begin with the same such state, everything in between repeats, and is multiplied.
"""

# ruff: noqa: PLR1730  (max() costs three times what the comparison does, in the innermost loop)
from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any

from ascend_sim.engine.machine import (
    Core,
    Stuck,
    SyncTimes,
    busy_times,
    check,
    cross_sources,
    deadlock,
    uses_cross_flags,
)
from ascend_sim.engine.result import BlockTiming, Slice
from ascend_sim.engine.trace import Program
from ascend_sim.isa.instr import PIPE_COUNT, Pipe

# Codes of decoded instructions. Up to CROSS_WAIT they go through a queue and mean what `Op` says.
EXEC, SET, WAIT, BARRIER, CROSS_SET, CROSS_WAIT, LOOP, END = range(8)
S_EXEC, S_SET, S_WAIT, S_BARRIER, S_CROSS_SET, S_CROSS_WAIT, ALL_BARRIER, HALT = range(8, 16)

_BLOCKED = 1 << 62  # stands for "not known yet" at the front of a blocked pipe's ring
_BLOCKED_RING: deque[int] = deque([_BLOCKED])
_MAX_TRACKED = 4096  # iterations remembered while looking for a repetition

Instruction = tuple[int, int, int]  # code, pipe, argument as in `Op`
_Queued = tuple[int, int, int, int, int]  # code, argument, number of a cross-core flag, dispatch time, position


def decode(program: Program) -> list[Instruction]:
    """A program with the codes of this module: those of pipe S and BARRIER(ALL) become codes of their own."""
    op = program.op.copy()
    work = op <= CROSS_WAIT
    op[work & (program.pipe == Pipe.S)] += S_EXEC
    op[work & (program.pipe == Pipe.ALL)] = ALL_BARRIER
    return [*zip(op.tolist(), program.pipe.tolist(), program.arg.tolist(), strict=True), (HALT, 0, 0)]


def replay(cores: Sequence[Core], sync: SyncTimes, *, compress: bool = True, timeline: bool = False) -> BlockTiming:
    """Run the programs of ``cores`` together (one block, or blocks that synchronise with each other).

    Raises DeadlockError naming core, pipe, flag and missing set; TraceError for illegal cross-core flags. A timeline
    lists every executed instruction and therefore is never compressed.
    """
    check(cores, sync)
    linked = any(uses_cross_flags(c.program) for c in cores)
    sources = cross_sources(cores) if linked else [{} for _ in cores]
    machines = [_Machine(c, k, sync, compress and not timeline, timeline) for k, c in enumerate(cores)]
    for machine, owed in zip(machines, sources, strict=True):
        machine.sources = {flag: [machines[q] for q in found] for flag, found in owed.items()}
    running = list(machines)
    while running:
        progress = False
        for machine in running:
            progress |= machine.run()
        running = [m for m in running if not m.finished]
        if running and not progress:
            raise deadlock(cores, [s for m in running for s in m.stuck()])
    slices = [s for m in machines for s in m.slices]
    return BlockTiming(
        end=max(m.end() for m in machines),
        busy=tuple(busy_times(c) for c in cores),
        instructions=sum(c.program.executed for c in cores),
        slices=tuple(sorted(slices, key=lambda s: (s.start, s.core, s.pipe, s.end))),
    )


class _Machine:
    """One core. Times in ps; ``ring[p]`` holds the starts of the last ``queue_depth`` instructions of pipe p."""

    def __init__(self, core: Core, index: int, sync: SyncTimes, compress: bool, timeline: bool) -> None:
        self.core, self.index, self.sync, self.compress = core, index, sync, compress
        self.sources: dict[int, list[_Machine]] = {}
        self.flags: dict[int, deque[int]] = defaultdict(deque)
        self.posts: dict[int, list[int]] = defaultdict(list)  # cross-core flag -> times others see it (-1: not known)
        self.waited: dict[int, int] = defaultdict(int)  # cross-core flag -> waits dispatched so far
        self.slices: list[Slice] = []
        self.timeline = timeline
        self.code = decode(core.program)
        self.occupancy: list[int] = core.occupancy.tolist()
        self.latency: list[int] = core.latency.tolist()
        self.loops: dict[int, _Body | None] = {}
        self.t = 0
        self.pc = 0
        self.stack: list[_Loop] = []
        self.finished = False
        self.free = [0] * PIPE_COUNT
        self.done = [0] * PIPE_COUNT
        self.ring: list[deque[int]] = [deque([0] * sync.queue_depth, sync.queue_depth) for _ in range(PIPE_COUNT)]
        self.queue = list(self.ring)  # the real rings, also of blocked pipes
        self.pending: list[deque[_Queued]] = [deque() for _ in range(PIPE_COUNT)]
        self.blocked = 0  # number of blocked pipes

    def run(self) -> bool:
        """Go on until finished or stalled; returns whether anything moved."""
        moved = bool(self.blocked) and self._drain()
        before = (self.pc, [loop.left for loop in self.stack])
        self._dispatch()
        return moved or self.finished or before != (self.pc, [loop.left for loop in self.stack])

    def _dispatch(self) -> None:
        code, ring, free, done = self.code, self.ring, self.free, self.done
        flags, occupancy, latency = self.flags, self.occupancy, self.latency
        issue, set_ps, wait_ps, barrier_ps = self.sync.issue, self.sync.set, self.sync.wait, self.sync.barrier
        slices = self.slices if self.timeline else None
        t, pc = self.t, self.pc
        while True:
            op, pipe, a = code[pc]
            if op <= CROSS_WAIT:
                before = t
                t += issue
                starts = ring[pipe]
                s = starts[0]
                if s > t:
                    if s == _BLOCKED:
                        pending = self.pending[pipe]
                        slot = len(pending)
                        if slot == self.sync.queue_depth:
                            t = before
                            break
                        s = self.queue[pipe][slot]
                        if s > t:
                            t = s
                        number = 0
                        if op == CROSS_WAIT:
                            number = self.waited[a]
                            self.waited[a] = number + 1
                        elif op == CROSS_SET:
                            number = len(self.posts[a >> 2])
                            self.posts[a >> 2].append(-1)
                        pending.append((op, a, number, t, pc))
                        pc += 1
                        continue
                    t = s
                s = free[pipe]
                if s < t:
                    s = t
                if op == EXEC:
                    starts.append(s)
                    x = s + occupancy[a]
                    if slices is not None:
                        self._slice(pipe, s, x, pc)
                    free[pipe] = x
                    s = x + latency[a]
                    if s > done[pipe]:
                        done[pipe] = s
                elif op == WAIT:
                    posted = flags[a]
                    if posted:
                        x = posted.popleft()
                        if x > s:
                            s = x
                        starts.append(s)
                        free[pipe] = s + wait_ps
                    else:
                        self._block(pipe, (WAIT, a, 0, t, pc))
                elif op == SET:
                    starts.append(s)
                    free[pipe] = s
                    x = done[pipe]
                    flags[a].append((x if x > s else s) + set_ps)
                    if self.blocked:
                        self._drain()
                elif op == BARRIER:
                    x = done[pipe]
                    if x > s:
                        s = x
                    starts.append(s)
                    free[pipe] = s + barrier_ps
                elif op == CROSS_SET:
                    starts.append(s)
                    free[pipe] = s
                    self.posts[a >> 2].append(max(s, done[pipe]) + set_ps + self.sync.cross)
                    if self.blocked:
                        self._drain()
                else:  # CROSS_WAIT
                    number = self.waited[a]
                    self.waited[a] = number + 1
                    x = self._seen(a, number)
                    if x >= 0:
                        if x > s:
                            s = x
                        starts.append(s)
                        free[pipe] = s + wait_ps
                    else:
                        self._block(pipe, (CROSS_WAIT, a, number, t, pc))
                pc += 1
            elif op == END:
                loop = self.stack[-1]
                loop.left -= 1
                if not loop.left:
                    self.stack.pop()
                    pc += 1
                    continue
                pc = a + 1
                if loop.seen is not None and loop.left > 1 and not self.blocked:
                    t = self._look_for_repetition(loop, t)
            elif op == LOOP:
                self.stack.append(_Loop(a, self._body(pc) if self.compress and a > 3 else None))
                pc += 1
            elif op == S_EXEC:
                t += issue
                x = t + occupancy[a]
                if slices is not None:
                    self._slice(pipe, t, x, pc)
                t = x
                x += latency[a]
                if x > done[0]:
                    done[0] = x
                pc += 1
            elif op == S_SET:
                t += issue
                flags[a].append(max(t, done[0]) + set_ps)
                if self.blocked:
                    self._drain()
                pc += 1
            elif op == S_WAIT:
                if not flags[a]:
                    break
                t = max(t + issue, flags[a].popleft()) + wait_ps
                pc += 1
            elif op == S_BARRIER:
                t = max(t + issue, done[0]) + barrier_ps
                pc += 1
            elif op == S_CROSS_SET:
                t += issue
                self.posts[a >> 2].append(max(t, done[0]) + set_ps + self.sync.cross)
                if self.blocked:
                    self._drain()
                pc += 1
            elif op == S_CROSS_WAIT:
                number = self.waited[a]
                x = self._seen(a, number)
                if x < 0:
                    break
                self.waited[a] = number + 1
                t = max(t + issue, x) + wait_ps
                pc += 1
            elif op == ALL_BARRIER:
                if self.blocked:
                    break
                t = max(t + issue, *free, *done) + barrier_ps
                free[:] = [t] * PIPE_COUNT
                pc += 1
            else:  # HALT
                self.finished = not self.blocked
                break
        self.t, self.pc = t, pc

    # -- pipes that wait for a flag not posted yet

    def _block(self, pipe: int, entry: _Queued) -> None:
        self.pending[pipe].append(entry)
        self.ring[pipe] = _BLOCKED_RING
        self.blocked += 1

    def _drain(self) -> bool:
        """Let blocked pipes go on as far as flags allow; returns whether any did."""
        moved, again = False, True
        while again and self.blocked:
            again = False
            for pipe in range(1, PIPE_COUNT):
                if self.pending[pipe] and self._advance(pipe):
                    moved = again = True
        return moved

    def _advance(self, pipe: int) -> bool:
        pending, starts = self.pending[pipe], self.queue[pipe]
        free, done, sync = self.free, self.done, self.sync
        moved = False
        while pending:
            op, a, number, t, pc = pending[0]
            s = max(t, free[pipe])
            if op == EXEC:
                free[pipe] = s + self.occupancy[a]
                if self.timeline:
                    self._slice(pipe, s, free[pipe], pc)
                done[pipe] = max(done[pipe], free[pipe] + self.latency[a])
            elif op == WAIT:
                if not self.flags[a]:
                    return moved
                s = max(s, self.flags[a].popleft())
                free[pipe] = s + sync.wait
            elif op == CROSS_WAIT:
                seen = self._seen(a, number)
                if seen < 0:
                    return moved
                s = max(s, seen)
                free[pipe] = s + sync.wait
            elif op == SET:
                free[pipe] = s
                self.flags[a].append(max(s, done[pipe]) + sync.set)
            elif op == CROSS_SET:
                free[pipe] = s
                self.posts[a >> 2][number] = max(s, done[pipe]) + sync.set + sync.cross
            else:  # BARRIER
                s = max(s, done[pipe])
                free[pipe] = s + sync.barrier
            starts.append(s)
            pending.popleft()
            moved = True
        self.ring[pipe] = starts
        self.blocked -= 1
        return moved

    def _seen(self, flag: int, number: int) -> int:
        """When the ``number``-th set of a cross-core flag by all who owe it is seen here; -1 if not known yet."""
        latest = -1
        sources = self.sources[flag]
        for source in sources:
            posts = source.posts.get(flag, ())
            if len(posts) <= number or posts[number] < 0:
                return -1
            latest = max(latest, posts[number])
        return latest

    def stuck(self) -> list[Stuck]:
        """The waits at the heads of blocked pipes, or the instruction the scalar unit stands at."""
        halted = self.code[self.pc][0] == HALT
        stalled = None if halted else self.pc
        found = [
            Stuck(self.index, Pipe(p), pending[0][4], stalled, self._missing(*pending[0][:3]))
            for p, pending in enumerate(self.pending)
            if pending
        ]
        op, _, a = self.code[self.pc]
        if op in (S_WAIT, S_CROSS_WAIT):
            number = self.waited[a] if op == S_CROSS_WAIT else 0
            missing = self._missing(CROSS_WAIT, a, number) if op == S_CROSS_WAIT else ()
            found.append(Stuck(self.index, Pipe.S, self.pc, stalled, missing))
        return found

    def _missing(self, op: int, flag: int, number: int) -> tuple[int, ...]:
        if op != CROSS_WAIT:
            return ()
        owed = [(q, q.posts.get(flag, [])) for q in self.sources[flag]]
        return tuple(q.index for q, posts in owed if len(posts) <= number or posts[number] < 0)

    def end(self) -> int:
        return max(self.t, *self.free, *self.done)

    def _slice(self, pipe: int, start: int, end: int, pc: int) -> None:
        program = self.core.program
        place = None
        if program.line is not None and program.line[pc] >= 0:
            place = program.places[int(program.line[pc])]
        kind = self.core.kind
        self.slices.append(Slice(self.index, kind, Pipe(pipe), start, end, int(program.arg[pc]), place))

    # -- loops

    def _body(self, pc: int) -> _Body | None:
        """What the loop at ``pc`` touches; None when it may not be compressed (cross-core flags inside)."""
        if pc not in self.loops:
            self.loops[pc] = self._scan(pc)
        return self.loops[pc]

    def _scan(self, pc: int) -> _Body | None:
        depth, pipes, channels, everything = 0, set(), set(), False
        for op, pipe, a in self.code[pc:]:
            if op in (CROSS_SET, CROSS_WAIT, S_CROSS_SET, S_CROSS_WAIT):
                return None
            if op == LOOP:
                depth += 1
            elif op == END:
                depth -= 1
                if not depth:
                    break
            elif op == ALL_BARRIER:
                everything = True
            else:
                pipes.add(pipe)
                if op in (SET, WAIT, S_SET, S_WAIT):
                    channels.add(a)
        queued = sorted(pipes - {Pipe.S})
        return _Body(
            list(range(PIPE_COUNT)) if everything else sorted(pipes),
            [self.queue[p] for p in queued],
            [self.flags[c] for c in sorted(channels)],
        )

    def _look_for_repetition(self, loop: _Loop, t: int) -> int:
        """At the start of an iteration: if an earlier one began alike, skip what repeats. Returns the new ``t``."""
        body, seen = loop.body, loop.seen
        assert body is not None and seen is not None
        rough = self._rough_state(body, t)
        known = seen.get(rough)
        if known is None:  # a rough match is cheap; the full state is taken only where one is found
            if len(seen) >= _MAX_TRACKED:
                loop.seen = None
            else:
                seen[rough] = _ONCE
            return t
        state = self._full_state(body, t)
        if known is _ONCE or known[2] != state:
            seen[rough] = (loop.left, t, state)
            return t
        period, shift = known[0] - loop.left, t - known[1]
        times = (loop.left - 1) // period  # the last iteration is always run
        if times:
            loop.left -= times * period
            self._shift(body, times * shift)
            t += times * shift
        loop.seen = None
        return t

    def _rough_state(self, body: _Body, t: int) -> tuple[int, ...]:
        free = self.free
        return tuple([free[p] - t if free[p] > t else 0 for p in body.pipes] + [len(f) for f in body.flags])

    def _full_state(self, body: _Body, t: int) -> tuple[Any, ...]:
        done = self.done
        times = [done[p] - t if done[p] > t else 0 for p in body.pipes]
        rings = []
        for ring in body.rings:
            queued = []
            for s in reversed(ring):
                if s <= t:
                    break
                queued.append(s - t)
            rings.append(tuple(queued))
        flags = [tuple([x - t if x > t else 0 for x in f]) for f in body.flags]
        return (tuple(times), tuple(rings), tuple(flags))

    def _shift(self, body: _Body, shift: int) -> None:
        for p in body.pipes:
            self.free[p] += shift
            self.done[p] += shift
        for times in (*body.rings, *body.flags):
            moved = [x + shift for x in times]
            times.clear()
            times.extend(moved)


class _Body:
    """The state a loop body reads or writes: pipes, their rings, flag queues."""

    __slots__ = ("flags", "pipes", "rings")

    def __init__(self, pipes: list[int], rings: list[deque[int]], flags: list[deque[int]]) -> None:
        self.pipes, self.rings, self.flags = pipes, rings, flags


class _Loop:
    """A loop being run: iterations left and, while a repetition is looked for, where states were seen."""

    __slots__ = ("body", "left", "seen")

    def __init__(self, count: int, body: _Body | None) -> None:
        self.left = count
        self.body = body
        self.seen: dict[tuple[int, ...], Any] | None = None if body is None else {}


_ONCE: tuple[int, int, Any] = (0, 0, None)
