"""An oracle for order, independent of the sanitizer: run a recorded kernel in other orders its flags allow.

The instruction stream of a launch is recorded while it runs in program order. Then its pipes are executed as queues, in
orders chosen at random or against each other (one pipe as late, or as early, as it can be); flags, barriers and flags
between cores are all that holds them back. A kernel whose order is right gives the same bytes every time.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ascend_sim.asc.launch import Launch
from ascend_sim.asc.machine import Core
from ascend_sim.engine.trace import TraceBuilder
from ascend_sim.isa.instr import Pipe
from ascend_sim.isa.rows import observer

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
SWAPPABLE = (Pipe.MTE2, Pipe.MTE3)  # transfers of these may overtake each other without a barrier


class Stuck(Exception):
    """Nothing can go on: a deadlock."""


class Tape(TraceBuilder):
    """What one core issues, with the executions that belong to each instruction."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[tuple[Any, ...]] = []

    def execute(self, pipe: int, work: Any, *rest: Any) -> None:
        self.events.append(("exec", Pipe(pipe), []))

    def set_flag(self, src: Pipe, dst: Pipe, flag_id: int, *rest: Any) -> None:
        self.events.append(("set", src, (src, dst, flag_id)))

    def wait_flag(self, src: Pipe, dst: Pipe, flag_id: int, *rest: Any) -> None:
        self.events.append(("wait", dst, (src, dst, flag_id)))

    def barrier(self, pipe: Pipe, *rest: Any) -> None:
        self.events.append(("barrier", pipe, None))

    def cross_set(self, flag_id: int, mode: int, pipe: Pipe, *rest: Any) -> None:
        self.events.append(("cross_set", pipe, (flag_id, mode)))

    def cross_wait(self, flag_id: int, pipe: Pipe, *rest: Any) -> None:
        self.events.append(("cross_wait", pipe, flag_id))


class Recording(Launch):
    """A launch that records. `execute` it, then `replay` it in any legal order."""

    def __init__(self, launch: Launch) -> None:
        self.__dict__.update(launch.__dict__)
        self.cores: list[tuple[Core, Tape]] = []
        self.memory: list[tuple[Bytes, Bytes]] = []  # global memory and what it held at first

    def _core(self, block: int, kind: str, sub: int, trace: Any, gm: Sequence[Bytes] | None) -> Core:
        if gm is not None and not self.memory:
            self.memory = [(data, data.copy()) for data in gm]
        tape = Tape()
        core = super()._core(block, kind, sub, tape, gm)
        core.flags = _AlwaysSet()  # a missing set is the replay's business
        self.cores.append((core, tape))
        return core

    def _run(self, core: Core) -> None:
        tape = next(t for c, t in self.cores if c is core)

        def note(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            tape.events[-1][2].append((function, args, kwargs))
            observer.call = None
            try:
                return function(*args, **kwargs)
            finally:
                observer.call = note

        observer.call = note
        try:
            super()._run(core)
        finally:
            observer.call = None

    def replay(self, rank: Callable[[int, Pipe], float], rng: random.Random, swap: bool = False) -> None:
        """Execute the recording anew: among all that can go on, the lowest ``rank(core, pipe)`` does. Raises Stuck."""
        for data, first in self.memory:
            data[:] = first
        for core, _ in self.cores:
            core.cmp_mask[:] = 0
            assert core.memory is not None
            for _, array in core.memory.arrays():
                array[:] = 0xFF
        _Replay(self, rng, swap).run(rank)


class _AlwaysSet(dict[Any, int]):
    def get(self, key: Any, default: Any = None) -> Any:
        return 1


class _Machine:
    """One core of a replay: what it has still to dispatch, its queues, its flags."""

    def __init__(self, core: Core, tape: Tape) -> None:
        self.core = core
        self.todo = deque(tape.events)
        self.queues: dict[Pipe, deque[tuple[Any, ...]]] = {p: deque() for p in Pipe if p not in (Pipe.S, Pipe.ALL)}
        self.flags: Counter[Any] = Counter()


class _Replay:
    def __init__(self, recording: Recording, rng: random.Random, swap: bool) -> None:
        self.machines = [_Machine(core, tape) for core, tape in recording.cores]
        self.rng, self.swap = rng, swap
        self.crossed: Counter[tuple[int, int]] = Counter()
        self.pending: dict[tuple[int, int], Counter[int]] = {}

    def run(self, rank: Callable[[int, Pipe], float]) -> None:
        while True:
            ready = [(rank(i, p), i, p) for i, m in enumerate(self.machines) for p in self._ready(i, m)]
            if not ready:
                break
            _, index, pipe = min(ready, key=lambda r: r[0])
            # go on with this pipe as long as it can and is still the best known choice
            self._step(index, self.machines[index], pipe)
        if any(m.todo or any(m.queues.values()) for m in self.machines):
            raise Stuck

    def _ready(self, i: int, m: _Machine) -> list[Pipe]:
        out = [p for p, q in m.queues.items() if q and self._can(i, m, q[0])]
        if m.todo:
            kind, pipe, _ = m.todo[0]
            if kind == "barrier" and pipe == Pipe.ALL:
                if not any(m.queues.values()):
                    out.append(Pipe.S)
            elif pipe != Pipe.S or self._can(i, m, m.todo[0]):
                out.append(Pipe.S)
        return out

    def _can(self, i: int, m: _Machine, event: tuple[Any, ...]) -> bool:
        kind, _, detail = event
        if kind == "wait":
            return m.flags[detail] > 0
        if kind == "cross_wait":
            return self.crossed[i, detail] > 0
        return True

    def _step(self, i: int, m: _Machine, pipe: Pipe) -> None:
        if pipe == Pipe.S:
            event = m.todo.popleft()
            if event[1] in (Pipe.S, Pipe.ALL):
                self._do(i, m, event)
            else:
                m.queues[event[1]].append(event)
            return
        queue = m.queues[pipe]
        swaps = self.swap and pipe in SWAPPABLE and len(queue) > 1 and queue[0][0] == queue[1][0] == "exec"
        if swaps and self.rng.random() < 0.5:
            first = queue.popleft()
            self._do(i, m, queue.popleft())
            queue.appendleft(first)
            return
        self._do(i, m, queue.popleft())

    def _do(self, i: int, m: _Machine, event: tuple[Any, ...]) -> None:
        kind, _, detail = event
        if kind == "exec":
            for function, args, kwargs in detail:
                function(*args, **kwargs)
        elif kind == "set":
            m.flags[detail] += 1
        elif kind == "wait":
            m.flags[detail] -= 1
        elif kind == "cross_set":
            self._cross(i, m.core, *detail)
        elif kind == "cross_wait":
            self.crossed[i, detail] -= 1

    def _cross(self, i: int, core: Core, flag_id: int, mode: int) -> None:
        mates = [
            (j, m.core) for j, m in enumerate(self.machines) if mode == 0 or m.core.block_idx == core.block_idx
        ]
        if mode == 2:
            receivers = [j for j, c in mates if c.kind != core.kind]
            senders = [j for j, c in mates if c.kind == core.kind]
        else:
            receivers = senders = [j for j, c in mates if c.kind == core.kind]
        for j in receivers:
            came = self.pending.setdefault((j, flag_id), Counter())
            came[i] += 1
            if all(came[s] for s in senders):
                for s in senders:
                    came[s] -= 1
                self.crossed[j, flag_id] += 1


def orders(pipes: Sequence[Pipe], rng: random.Random, extra: int = 3) -> list[tuple[str, Any, bool]]:
    """(name, rank, swap) of orders to try: every pipe as late and as early as can be, forwards and backwards over the
    cores, and some at random."""
    out: list[tuple[str, Any, bool]] = []

    def against(pipe: Pipe, sign: int, back: int) -> Callable[[int, Pipe], float]:
        noise = {p: rng.random() for p in Pipe}
        return lambda core, p: sign * (p == pipe) * 1e6 + noise[p] + back * core

    for k, pipe in enumerate(pipes):
        out.append((f"{pipe.name} late", against(pipe, 1, 1 if k % 2 else -1), bool(k % 2)))
        out.append((f"{pipe.name} early", against(pipe, -1, -1 if k % 2 else 1), not k % 2))
    for n in range(extra):
        out.append((f"random {n}", lambda core, p: rng.random(), n % 2 == 1))
    return out


def differing_order(launch: Launch, buffers: list[Bytes], outputs: Sequence[int], seed: int = 0) -> str | None:
    """Run a launch on ``buffers`` in program order, then in other legal orders; the name of an order in which the
    arguments ``outputs`` come out differently (or the kernel gets stuck), or None. ``buffers`` end as in program
    order."""
    recording = Recording(launch)
    recording.execute(buffers)
    kept = [data.copy() for data, _ in recording.memory]
    rng = random.Random(seed)
    used = {event[1] for _, tape in recording.cores for event in tape.events if event[1] not in (Pipe.S, Pipe.ALL)}
    found = None
    for name, rank, swap in orders(sorted(used), rng):
        try:
            recording.replay(rank, rng, swap)
        except Stuck:
            found = f"{name}: deadlock"
            break
        if any((recording.memory[k][0] != kept[k]).any() for k in outputs):
            found = name
            break
    for (data, _), values in zip(recording.memory, kept, strict=True):
        data[:] = values
    return found
