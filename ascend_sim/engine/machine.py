"""What all replay engines share: the machine they imitate, its inputs, and its failure.

The machine, per core (this text is the specification; `reference.py` states it as processes, `replay.py` and
the native engine as a recurrence; all times are integer picoseconds):

* One scalar unit walks the program in order with a clock ``t``. Every instruction first costs it ``issue``.
  It then hands the instruction to the in-order queue of its pipe, which has ``queue_depth`` slots; without a free
  slot the scalar unit stalls. A slot is freed when its instruction starts.
* A pipe starts the head of its queue at ``s = max(dispatch, free)``, where ``free`` is the end of what it did before.

  - EXEC: ``free = s + occupancy``; its results are visible at ``free + latency``; ``done`` is the latest such time.
  - SET posts its flag at ``max(s, done) + set`` and does not hold the pipe.
  - WAIT starts only when its flag is posted, consumes it (posts and waits of one flag pair in order), and holds the
    pipe for ``wait``.
  - BARRIER starts only at ``max(s, done)`` and holds the pipe for ``barrier``.
  - CROSS_SET posts at ``max(s, done) + set`` and is seen by other cores ``cross`` later; CROSS_WAIT is a WAIT on all
    cores that owe the flag. The n-th set of a core, in its program order, pairs with the n-th wait of a waiter.

* Pipe S is the scalar unit itself: its instructions run at dispatch and advance ``t``; a WAIT on S stalls dispatch.
* BARRIER(ALL) stalls dispatch until every pipe has drained; ``t`` and every ``free`` become that time + ``barrier``.

Which cores owe a cross-core flag follows from the mode of its sets: mode 2 joins the AIC and the AIVs of one block,
mode 1 the AIVs of one block, mode 0 all cores of one kind that run together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from ascend_sim.engine.trace import Program
from ascend_sim.isa.instr import CROSS_FLAG_IDS, FLAG_IDS, PIPE_COUNT, Op, Pipe, channel_parts


@dataclass(frozen=True)
class SyncTimes:
    """Costs of issuing and synchronising, in ps, and the depth of the instruction queues."""

    issue: int
    set: int
    wait: int
    barrier: int
    cross: int
    queue_depth: int


@dataclass(frozen=True, eq=False)
class Core:
    """One program with the prices of its works on the core that runs it: ``occupancy[i]`` and ``latency[i]`` in ps
    of ``program.works[i]``. Cores with equal ``block`` run the programs of one block."""

    program: Program
    kind: str
    occupancy: NDArray[np.int64]
    latency: NDArray[np.int64]
    block: int = 0


class DeadlockError(RuntimeError):
    """A trace in which some pipe waits for a flag that is never set."""


class TraceError(ValueError):
    """A trace that breaks a rule of the machine."""


def check(cores: Sequence[Core], sync: SyncTimes) -> None:
    """Raise TraceError unless every program is well formed and priced; each program is looked at once."""
    if not cores:
        raise TraceError("cores: expected at least one program")
    if sync.queue_depth < 1 or min(sync.issue, sync.set, sync.wait, sync.barrier, sync.cross) < 0:
        raise TraceError(f"synchronisation costs {sync}: expected times >= 0 and a queue depth >= 1")
    for k, core in enumerate(cores):
        program, works = core.program, len(core.program.works)
        for name, prices in (("occupancy", core.occupancy), ("latency", core.latency)):
            if prices.shape != (works,) or (works and int(prices.min()) < 0):
                raise TraceError(f"core {k}: {name} must be {works} times >= 0, one for each work")
        if program not in _checked:
            _check_program(program, k)
            _checked.add(program)


_checked: WeakSet[Program] = WeakSet()


def _check_program(program: Program, index: int) -> None:
    op, pipe, arg = program.op, program.pipe, program.arg
    works, pairs = len(program.works), PIPE_COUNT * PIPE_COUNT * FLAG_IDS
    source, destination = arg // FLAG_IDS // PIPE_COUNT, arg // FLAG_IDS % PIPE_COUNT
    flag_ok = (arg >= 0) & (arg < pairs)
    legal = np.select(
        [op == code for code in Op],
        [
            (pipe < PIPE_COUNT) & (arg >= 0) & (arg < works),
            flag_ok & (pipe == source),
            flag_ok & (pipe == destination),
            pipe <= Pipe.ALL,
            (pipe < PIPE_COUNT) & (arg >= 0) & (arg < 4 * CROSS_FLAG_IDS) & (arg % 4 < 3),
            (pipe < PIPE_COUNT) & (arg >= 0) & (arg < CROSS_FLAG_IDS),
            arg >= 1,
            arg >= 0,
        ],
        default=False,
    )
    if not legal.all():
        at = int(np.flatnonzero(~legal)[0])
        what = f"op {int(op[at])}, pipe {int(pipe[at])}, argument {int(arg[at])}"
        raise TraceError(f"core {index}, instruction {at}: {what} is not a legal instruction")
    stack: list[int] = []
    for at in np.flatnonzero(op >= Op.LOOP).tolist():
        if op[at] == Op.LOOP:
            stack.append(at)
        elif not stack or stack.pop() != arg[at]:
            raise TraceError(f"core {index}, instruction {at}: END does not close the innermost LOOP")
    if stack:
        raise TraceError(f"core {index}, instruction {stack[-1]}: LOOP is never closed")


def busy_times(core: Core) -> tuple[int, ...]:
    """Busy ps per pipe: the sum of the occupancies of what it executes."""
    total: list[int] = (core.occupancy @ core.program.pipe_counts).tolist()
    return tuple(total)


def uses_cross_flags(program: Program) -> bool:
    return program.crosses


def cross_sources(cores: Sequence[Core]) -> list[dict[int, tuple[int, ...]]]:
    """For every core, the cores that must set each cross-core flag before a wait on it passes.

    Raises TraceError when one flag id is set in two modes by cores that reach the same waiter.
    """
    modes: list[dict[int, set[int]]] = []  # per core: flag -> modes it is set in
    for core in cores:
        args = core.program.arg[core.program.op == Op.CROSS_SET]
        used: dict[int, set[int]] = {}
        for value in np.unique(args).tolist():
            used.setdefault(value // 4, set()).add(value % 4)
        modes.append(used)
    result: list[dict[int, tuple[int, ...]]] = []
    for k, core in enumerate(cores):
        sources: dict[int, tuple[int, ...]] = {}
        for flag in np.unique(core.program.arg[core.program.op == Op.CROSS_WAIT]).tolist():
            found = {mode for q, used in enumerate(modes) for mode in used.get(flag, ()) if k in _reach(cores, q, mode)}
            if len(found) > 1:
                raise TraceError(
                    f"cross-core flag {flag}: set in modes {sorted(found)} for one waiter, expected one mode"
                )
            mode = found.pop() if found else 2
            sources[flag] = tuple(q for q in range(len(cores)) if k in _reach(cores, q, mode))
        result.append(sources)
    return result


def _reach(cores: Sequence[Core], source: int, mode: int) -> list[int]:
    """Cores whose waits a set by ``source`` counts for."""
    me = cores[source]
    if mode == 0:
        return [i for i, c in enumerate(cores) if c.kind == me.kind]
    if mode == 1:
        return [i for i, c in enumerate(cores) if c.block == me.block and c.kind == me.kind]
    if mode == 2:
        return [i for i, c in enumerate(cores) if c.block == me.block and c.kind != me.kind]
    raise TraceError(f"cross-core flag mode {mode} of core {source}: expected 0, 1 or 2")


@dataclass(frozen=True)
class Stuck:
    """One wait that never passes. ``position`` is the index of the waiting instruction in its program;
    ``stalled`` the position at which the scalar unit stopped, None when it reached the end."""

    core: int
    pipe: Pipe
    position: int
    stalled: int | None
    missing: tuple[int, ...] = ()  # cores whose set is missing (cross-core flags only)


def deadlock(cores: Sequence[Core], stuck: Sequence[Stuck]) -> DeadlockError:
    """Say in words who waits for what, and where the missing set should have come from."""
    lines = [_describe(cores, item) for item in stuck]
    return DeadlockError("deadlock: " + "; ".join(lines))


def core_name(cores: Sequence[Core], index: int) -> str:
    """``AIC``, ``AIV1`` ...: the kind, numbered when a block has several of it."""
    core = cores[index]
    same = [i for i, c in enumerate(cores) if c.kind == core.kind and c.block == core.block]
    name = core.kind if len(same) == 1 else f"{core.kind}{same.index(index)}"
    blocks = {c.block for c in cores}
    return name if len(blocks) == 1 else f"{name} of block {core.block}"


def _describe(cores: Sequence[Core], item: Stuck) -> str:
    program = cores[item.core].program
    op, arg = int(program.op[item.position]), int(program.arg[item.position])
    who = f"{core_name(cores, item.core)} pipe {item.pipe.name}{_place(program, item.position)}"
    if op == Op.CROSS_WAIT:
        owed = ", ".join(core_name(cores, q) for q in item.missing) or "any core"
        return f"{who} waits for cross-core flag {arg}, missing its set by {owed}"
    if op != Op.WAIT:
        return f"{who} cannot go on"
    src, dst, flag = channel_parts(arg)
    ahead = range(len(program)) if item.stalled is None else range(item.stalled, len(program))
    text = f"{who} waits for flag {src.name}->{dst.name} id {flag}"
    sets = [i for i in ahead if program.op[i] == Op.SET and program.arg[i] == arg]
    if item.stalled is not None and sets:
        return (
            f"{text}, missing set: set_flag({src.name}, {dst.name}, {flag}){_place(program, sets[0])} is not reached"
            f" because dispatch stalls at instruction {item.stalled}{_place(program, item.stalled)}"
        )
    return f"{text}, missing set: no further set_flag({src.name}, {dst.name}, {flag}) gets through"


def _place(program: Program, position: int) -> str:
    if program.line is None or program.line[position] < 0:
        return ""
    name, line = program.places[int(program.line[position])]
    return f" ({name}:{line})"
