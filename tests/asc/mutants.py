"""Mutants of kernels: a flag deleted, moved or renumbered, a barrier deleted, a transfer shrunk or shifted."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from interception import FLAGS, FUNCTIONS, MOVES, Call, Mutation, Stream

from ascend_sim import asc

REACH = 6  # calls that a flag is moved over, at most


@contextmanager
def intercepted(stream: Stream) -> Iterator[Stream]:
    """Kernels that say ``asc.name(...)`` go through the stream."""
    for name, function in FUNCTIONS.items():
        setattr(asc, name, stream.wrap(name, function))
    try:
        yield stream
    finally:
        for name, function in FUNCTIONS.items():
            setattr(asc, name, function)


def choose(calls: Sequence[Call], count: int, flag_ids: int, seed: int) -> list[Mutation]:
    """``count`` mutations of a run, spread evenly over kinds of change and source lines."""
    rng = random.Random(seed)
    by_kind: dict[str, dict[Any, list[Mutation]]] = {}

    def offer(kind: str, call: Call, amount: int = 0) -> None:
        by_kind.setdefault(kind, {}).setdefault((call.name, call.place), []).append(Mutation(kind, call.number, amount))

    last = {call.core: call.number for call in calls}
    for call in calls:
        if call.name in FLAGS:
            offer("drop", call)
            if call.name.startswith("cross_core"):
                offer("renumber", call, rng.randrange(2, 10))
                continue
            assert call.flag is not None
            offer("renumber", call, (call.flag[2] + rng.randrange(1, flag_ids)) % flag_ids)
            n = rng.randrange(1, REACH)
            if call.number + n < last[call.core]:
                offer("later", call, n)
            n = rng.randrange(1, REACH)
            if call.number >= n and calls[call.number - n].core == call.core:
                offer("earlier", call, n)
        elif call.name == "pipe_barrier":
            offer("drop", call)
        elif call.name in MOVES:
            offer("shrink", call)
            offer("shift_dst", call, 1)
            offer("shift_src", call, 1)
    out: list[Mutation] = []
    kinds = sorted(by_kind)
    while len(out) < count and kinds:
        for kind in list(kinds):
            lines = by_kind[kind]
            line = rng.choice(sorted(lines, key=str))
            pool = lines[line]
            out.append(pool.pop(rng.randrange(len(pool))))
            if not pool:
                del lines[line]
            if not lines:
                kinds.remove(kind)
            if len(out) == count:
                break
    return out
