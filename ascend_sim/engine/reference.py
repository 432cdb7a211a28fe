"""The machine of `machine.py` as SimPy processes: the executable specification of the replay engines.

One process per scalar unit and per pipe, one container of free slots per queue, one event per posted flag. Nothing is
skipped or computed ahead, so it is slow (some 50,000 instructions per second) and obviously right.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any

import simpy

from ascend_sim.engine.machine import Core, Stuck, SyncTimes, busy_times, check, cross_sources, deadlock
from ascend_sim.engine.result import BlockTiming, Slice
from ascend_sim.engine.trace import Program
from ascend_sim.isa.instr import PIPE_COUNT, Op, Pipe

Instruction = tuple[int, int, int, int]  # position, op, arg, number
Process = Generator[simpy.Event, Any, None]
QUEUED_PIPES: tuple[Pipe, ...] = tuple(p for p in Pipe if p not in (Pipe.S, Pipe.ALL))


def replay(cores: Sequence[Core], sync: SyncTimes, *, timeline: bool = False) -> BlockTiming:
    """Run the programs of ``cores`` together; same result and errors as `ascend_sim.engine.replay.replay`."""
    check(cores, sync)
    env = simpy.Environment()
    sources = cross_sources(cores)
    posts = _CrossPosts(env)
    machines = [_Core(env, core, k, sync, posts=posts, sources=sources[k]) for k, core in enumerate(cores)]
    env.run()
    stuck = [s for m in machines for s in m.stuck()]
    if stuck:
        raise deadlock(cores, stuck)
    slices = [s for m in machines for s in m.slices] if timeline else []
    return BlockTiming(
        end=max(m.end for m in machines),
        busy=tuple(busy_times(c) for c in cores),
        instructions=sum(c.program.executed for c in cores),
        slices=tuple(sorted(slices, key=lambda s: (s.start, s.core, s.pipe, s.end))),
    )


def in_order(program: Program) -> Iterator[tuple[int, int, int, int]]:
    """(position, op, pipe, arg) of every executed instruction, loops unrolled."""
    op, pipe, arg = program.op.tolist(), program.pipe.tolist(), program.arg.tolist()
    position = 0
    left: list[int] = []
    while position < len(op):
        if op[position] == Op.LOOP:
            left.append(arg[position])
        elif op[position] == Op.END:
            left[-1] -= 1
            if left[-1]:
                position = arg[position]  # the LOOP itself: the next one is the body's first
            else:
                left.pop()
        else:
            yield position, op[position], pipe[position], arg[position]
        position += 1


class _CrossPosts:
    """The n-th set of each cross-core flag by each core, as an event that fires when others see it."""

    def __init__(self, env: simpy.Environment) -> None:
        self.env = env
        self.events: dict[tuple[int, int, int], simpy.Event] = {}

    def event(self, core: int, flag: int, number: int) -> simpy.Event:
        key = (core, flag, number)
        if key not in self.events:
            self.events[key] = self.env.event()
        return self.events[key]


class _Core:
    """A scalar unit, its pipes and their flags."""

    def __init__(
        self,
        env: simpy.Environment,
        core: Core,
        index: int,
        sync: SyncTimes,
        *,
        posts: _CrossPosts,
        sources: dict[int, tuple[int, ...]],
    ) -> None:
        self.env, self.core, self.index, self.sync = env, core, index, sync
        self.posts, self.sources = posts, sources
        self.flags: dict[int, simpy.Store] = {}
        self.sets: dict[int, int] = {}  # cross-core flag -> sets dispatched
        self.waits: dict[int, int] = {}  # cross-core flag -> waits dispatched
        self.done = [0] * PIPE_COUNT
        self.end = 0
        self.slices: list[Slice] = []
        self.at: int | None = 0  # instruction the scalar unit stands at, None when it has finished
        self.waiting: dict[Pipe, tuple[int, list[tuple[int, simpy.Event]]]] = {}  # pipe -> wait at its head, sets owed
        self.pipes: dict[Pipe, _Pipe] = {p: _Pipe(self, p) for p in QUEUED_PIPES}
        env.process(self._scalar())

    @property
    def now(self) -> int:
        return int(self.env.now)

    # -- the scalar unit

    def _scalar(self) -> Process:
        env, sync = self.env, self.sync
        for position, op, pipe, arg in in_order(self.core.program):
            self.at = position
            yield env.timeout(sync.issue)
            number = self._number(op, arg)
            if op == Op.BARRIER and pipe == Pipe.ALL:
                for queue in self.pipes.values():
                    yield from queue.drained()
                yield env.timeout(max(0, max(self.done) - env.now))
                yield env.timeout(sync.barrier)
                self.reached(self.now)
            elif pipe == Pipe.S:
                yield from self.perform(Pipe.S, (position, op, arg, number))
            else:
                yield from self.pipes[Pipe(pipe)].accept((position, op, arg, number))
            self.reached(self.now)
        self.at = None

    def _number(self, op: int, arg: int) -> int:
        """Which set or wait of its cross-core flag this is."""
        if op == Op.CROSS_SET:
            count, flag = self.sets, arg // 4
        elif op == Op.CROSS_WAIT:
            count, flag = self.waits, arg
        else:
            return 0
        count[flag] = count.get(flag, 0) + 1
        return count[flag] - 1

    # -- one instruction on its unit: ``slots`` gets its queue slot back

    def perform(self, pipe: Pipe, instruction: Instruction, slots: simpy.Container | None = None) -> Process:
        env, sync = self.env, self.sync
        position, op, arg, number = instruction
        if op in (Op.WAIT, Op.CROSS_WAIT):
            owed: list[tuple[int, simpy.Event]] = []
            if op == Op.CROSS_WAIT:
                owed = [(q, self.posts.event(q, arg, number)) for q in self.sources[arg]]
            self.waiting[pipe] = (position, owed)
            if op == Op.WAIT:
                yield self.flag(arg).get()
            else:
                yield env.all_of([event for _, event in owed]) if owed else env.event()
            del self.waiting[pipe]
        elif op == Op.BARRIER:
            yield env.timeout(max(0, self.done[pipe] - env.now))
        if slots is not None:
            yield slots.put(1)
        if op == Op.EXEC:
            occupancy, latency = int(self.core.occupancy[arg]), int(self.core.latency[arg])
            self._record(pipe, position, arg, occupancy)
            yield env.timeout(occupancy)
            self.done[pipe] = max(self.done[pipe], self.now + latency)
        elif op == Op.SET:
            env.process(self._post(max(self.now, self.done[pipe]) + sync.set, arg))
        elif op == Op.CROSS_SET:
            seen = max(self.now, self.done[pipe]) + sync.set + sync.cross
            env.process(self._cross_post(seen, arg // 4, number))
        elif op == Op.BARRIER:
            yield env.timeout(sync.barrier)
        else:
            yield env.timeout(sync.wait)
        self.reached(max(self.now, self.done[pipe]))

    def flag(self, number: int) -> simpy.Store:
        if number not in self.flags:
            self.flags[number] = simpy.Store(self.env)
        return self.flags[number]

    def _post(self, at: int, number: int) -> Process:
        yield self.env.timeout(at - self.now)
        yield self.flag(number).put(at)

    def _cross_post(self, at: int, flag: int, number: int) -> Process:
        yield self.env.timeout(at - self.now)
        self.posts.event(self.index, flag, number).succeed()

    def reached(self, time: int) -> None:
        self.end = max(self.end, time)

    # -- reporting

    def _record(self, pipe: Pipe, position: int, work: int, occupancy: int) -> None:
        program, start = self.core.program, self.now
        place = None
        if program.line is not None and program.line[position] >= 0:
            place = program.places[int(program.line[position])]
        self.slices.append(Slice(self.index, self.core.kind, pipe, start, start + occupancy, work, place))

    def stuck(self) -> list[Stuck]:
        return [
            Stuck(self.index, pipe, position, self.at, tuple(q for q, event in owed if not event.triggered))
            for pipe, (position, owed) in sorted(self.waiting.items())
        ]


class _Pipe:
    """An in-order queue and the unit behind it."""

    def __init__(self, core: _Core, pipe: Pipe) -> None:
        env, depth = core.env, core.sync.queue_depth
        self.core, self.pipe = core, pipe
        self.slots = simpy.Container(env, depth, depth)
        self.queue = simpy.Store(env)
        self.outstanding = 0
        self.idle = env.event()
        env.process(self._run())

    def accept(self, instruction: Instruction) -> Process:
        """Called by the scalar unit: waits for a slot, then queues the instruction."""
        yield self.slots.get(1)
        self.outstanding += 1
        yield self.queue.put(instruction)

    def drained(self) -> Process:
        """Wait until everything queued so far has left the unit."""
        while self.outstanding:
            self.idle = self.core.env.event()
            yield self.idle

    def _run(self) -> Process:
        while True:
            instruction = yield self.queue.get()
            yield from self.core.perform(self.pipe, instruction, self.slots)
            self.outstanding -= 1
            if not self.outstanding and not self.idle.triggered:
                self.idle.succeed()
