"""Random legal programs for the replay engines: several cores, nested loops, flags within and across cores, barriers.

Programs are made as one interleaved sequence in which every set comes before its wait, so running it in that order
always makes progress, and each core gets its part. Loop bodies leave the number of posted flags as they found it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st

from ascend_sim.engine.machine import Core, SyncTimes
from ascend_sim.engine.trace import TraceBuilder
from ascend_sim.isa.instr import Op, Pipe, ScalarWork, channel_parts

QUEUED = (Pipe.V, Pipe.MTE1, Pipe.MTE2, Pipe.MTE3, Pipe.M, Pipe.FIX)
LAYOUTS = (("AICORE",), ("AIC", "AIV", "AIV"), ("AIC", "AIV"), ("AIV",), ("AIV", "AIV"))


@dataclass(frozen=True)
class Shape:
    """How large and how wild the programs are."""

    layout: tuple[str, ...] = ("AICORE",)
    blocks: int = 1  # copies of the layout; several make mode-0 flags possible
    length: int = 12  # nodes of a body
    depth: int = 2  # nesting of loops
    max_count: int = 24
    budget: int = 2500  # executed instructions of all cores, about
    queue_depth: int = 4
    pipes: int = 4
    reorder: float = 0.0  # chance that a wait moves before what precedes it in its core (may deadlock)
    cross: bool = True


class _Writer:
    def __init__(self, rng: random.Random, shape: Shape) -> None:
        self.rng, self.shape = rng, shape
        self.kinds = shape.layout * shape.blocks
        self.block_of = [b for b in range(shape.blocks) for _ in shape.layout]
        self.builders = [TraceBuilder() for _ in self.kinds]
        self.pipes = [rng.sample(QUEUED, min(shape.pipes, len(QUEUED))) for _ in self.kinds]
        self.tokens: list[dict[int, int]] = [{} for _ in self.kinds]
        self.executed = 0
        self.works = [ScalarWork(f"w{i}") for i in range(rng.choice((1, 3, 8)))]

    def body(self, depth: int, times: int) -> None:
        rng, shape = self.rng, self.shape
        for _ in range(rng.randint(1, shape.length)):
            if self.executed > shape.budget:
                return
            pick = rng.random()
            if pick < 0.12 and depth < shape.depth:
                self.loop(depth + 1, times)
            elif pick < 0.22 and shape.cross and len(self.kinds) > 1:
                self.message(times)
            else:
                self.local(rng.randrange(len(self.kinds)), times)

    def loop(self, depth: int, times: int) -> None:
        room = max(1, (self.shape.budget - self.executed) // (times * 8))
        count = self.rng.randint(1, min(self.shape.max_count, room))
        before = [dict(t) for t in self.tokens]
        for builder in self.builders:
            builder.code.append((Op.LOOP, 0, count, -1))
        self.body(depth, times * count)
        for core, tokens in enumerate(before):
            for number in sorted(set(self.tokens[core]) | set(tokens)):
                src, dst, flag = channel_parts(number)
                change = self.tokens[core].get(number, 0) - tokens.get(number, 0)
                for _ in range(abs(change)):
                    (self.wait if change > 0 else self.set)(core, src, dst, flag, times * count)
        for builder in self.builders:
            if builder.code[-1][0] == Op.LOOP:
                builder.code.pop()
            else:
                builder.code.append((Op.END, 0, count, -1))

    def local(self, core: int, times: int) -> None:
        rng, builder = self.rng, self.builders[core]
        pick, pipe = rng.random(), rng.choice(self.pipes[core])
        self.executed += times
        if pick < 0.5:
            builder.execute(Pipe.S if rng.random() < 0.1 else pipe, rng.choice(self.works))
        elif pick < 0.72:
            src, dst = (rng.choice([*self.pipes[core], Pipe.S]) for _ in range(2))
            self.set(core, src, dst, rng.randrange(2), times)
            if rng.random() < 0.7:
                self.wait(core, src, dst, rng.randrange(2), times)
        elif pick < 0.92:
            ready = [n for n, count in self.tokens[core].items() if count]
            if ready:
                self.wait(core, *channel_parts(rng.choice(ready)), times)
        else:
            builder.barrier(Pipe.ALL if rng.random() < 0.25 else Pipe.S if rng.random() < 0.1 else pipe)

    def set(self, core: int, src: Pipe, dst: Pipe, flag: int, times: int) -> None:
        self.executed += times
        self.builders[core].set_flag(src, dst, flag)
        number = self.builders[core].code[-1][2]
        self.tokens[core][number] = self.tokens[core].get(number, 0) + 1

    def wait(self, core: int, src: Pipe, dst: Pipe, flag: int, times: int) -> None:
        builder = self.builders[core]
        builder.wait_flag(src, dst, flag)
        number = builder.code[-1][2]
        if not self.tokens[core].get(number):
            builder.code.pop()
            return
        self.executed += times
        self.tokens[core][number] -= 1
        if self.rng.random() < self.shape.reorder:
            entry = builder.code.pop()
            at = len(builder.code)
            for _ in range(self.rng.randint(1, 6)):
                if at and builder.code[at - 1][0] < Op.LOOP and builder.code[at - 1][1] not in (entry[1], Pipe.ALL):
                    at -= 1
            builder.code.insert(at, entry)

    def message(self, times: int) -> None:
        """Cross-core sets and the waits they release, with one of the three modes."""
        rng = self.rng
        mode = rng.choice((0, 1, 2)) if self.shape.blocks > 1 else rng.choice((1, 2, 2))
        block = rng.randrange(self.shape.blocks)
        if mode == 2:
            setter = rng.choice(("AIC", "AIV"))
            sets = [i for i, k in enumerate(self.kinds) if k == setter and self.block_of[i] == block]
            waits = [i for i, k in enumerate(self.kinds) if k != setter and self.block_of[i] == block]
            flag = 0 if setter == "AIC" else 1
        else:
            kind = rng.choice(self.kinds)
            sets = [i for i, k in enumerate(self.kinds) if k == kind and (mode == 0 or self.block_of[i] == block)]
            waits, flag = sets, 2 + mode
        if not sets or not waits:
            return
        for core in sets:
            self.builders[core].cross_set(flag, mode, rng.choice([*self.pipes[core], Pipe.S]))
        for core in waits:
            self.builders[core].cross_wait(flag, rng.choice([*self.pipes[core], Pipe.S]))
        self.executed += times * (len(sets) + len(waits))


def random_cores(seed: int, shape: Shape) -> tuple[list[Core], SyncTimes]:
    """The cores of a launch with random durations, and random costs of synchronising."""
    rng = random.Random(seed)
    writer = _Writer(rng, shape)
    writer.body(0, 1)
    top = rng.choice((3, 20, 1000))
    cores = []
    for builder, kind, block in zip(writer.builders, writer.kinds, writer.block_of, strict=True):
        program = builder.build()
        n = len(program.works)
        occupancy = np.array([rng.randint(0, top) for _ in range(n)], np.int64)
        latency = np.array([rng.choice((0, 0, rng.randint(0, top))) for _ in range(n)], np.int64)
        cores.append(Core(program, kind, occupancy, latency, block))
    small = rng.choice((1, 5))
    sync = SyncTimes(
        issue=rng.randint(0, small),
        set=rng.randint(0, small),
        wait=rng.randint(0, small),
        barrier=rng.randint(0, small),
        cross=rng.randint(0, 30),
        queue_depth=shape.queue_depth,
    )
    return cores, sync


@st.composite
def launches(draw: st.DrawFn, legal: bool = True, max_count: int = 24) -> tuple[list[Core], SyncTimes]:
    """Hypothesis strategy over `random_cores`. ``legal=False`` also moves waits before their sets."""
    layout = draw(st.sampled_from(LAYOUTS))
    shape = Shape(
        layout=layout,
        blocks=draw(st.sampled_from((1, 1, 1, 2))),
        length=draw(st.integers(1, 16)),
        depth=draw(st.integers(0, 3)),
        max_count=max_count,
        queue_depth=draw(st.sampled_from((1, 2, 3, 8, 32))),
        pipes=draw(st.integers(1, 6)),
        reorder=0.0 if legal else draw(st.sampled_from((0.0, 0.3, 0.9))),
        cross=draw(st.booleans()),
    )
    return random_cores(draw(st.integers(0, 2**48)), shape)


def slower(cores: list[Core], core: int, work: int, extra: int, latency: bool) -> list[Core]:
    """The same cores with one duration longer."""
    changed = list(cores)
    target = cores[core]
    values = (target.latency if latency else target.occupancy).copy()
    values[work] += extra
    changed[core] = replace(target, latency=values) if latency else replace(target, occupancy=values)
    return changed
