"""Walks of transfers over memory: one execution of a line that strays from the steps of all others.

A transfer in a loop starts at regular distances. When one start is off, and the next one is back where it had to be,
the two steps around it are unlike all others while their sum is the sum of two usual steps. That is a misplaced
transfer, though each of its bytes is legal to read.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise
from math import prod

from ascend_sim.asc._sanitizer.clocks import Instr, Place
from ascend_sim.asc._sanitizer.report import Report, Site
from ascend_sim.asc._sanitizer.spans import Span
from ascend_sim.isa.instr import Pipe

Shape = tuple[tuple[int, ...], tuple[int, ...]]
Walk = list[tuple[int, Shape]]
PIPES = (Pipe.MTE1, Pipe.MTE2)
FEWEST = 4  # executions from which a walk has usual steps
USUAL = 2  # times a step has to occur


class Walks:
    """Starts of the transfers of one core, per source line and memory read."""

    def __init__(self) -> None:
        self.starts: defaultdict[tuple[Place | None, str], Walk] = defaultdict(list)

    def step(self, me: Instr, memory: str, spans: Sequence[Span], write: bool) -> None:
        if me.pipe in PIPES and len(spans) == 1 and spans[0].at is None:
            self.starts[me.place, memory].append((spans[0].start, (spans[0].shape, spans[0].strides)))

    def tell(self, report: Report, core: str) -> None:
        for (place, memory), walk in self.starts.items():
            for start, off in strays(walk):
                report.add(
                    "Irregular", "suspicious", f"a transfer from {memory} starts at byte {start}, {off:+d} bytes from "
                    "where the executions before and after it lead", (Site("transfer", place),), core,
                )  # fmt: skip


def strays(walk: Walk) -> list[tuple[int, int]]:
    """(start, distance from where it should be) of single executions that stray."""
    if len(walk) < FEWEST:
        return []
    steps = [b[0] - a[0] for a, b in pairwise(walk)]
    counts = Counter(steps)
    usual = [step for step, n in counts.items() if n >= USUAL]
    if not usual:
        return []
    found = []
    for i in range(1, len(steps)):
        before, after = steps[i - 1], steps[i]
        start, shape = walk[i]
        if counts[before] >= USUAL or counts[after] >= USUAL or walk[i - 1][1] != shape:
            continue
        length = prod(shape[0])
        offs = [before - a for a in usual if before + after - a in counts and counts[before + after - a] >= USUAL]
        offs = [off for off in offs if 0 < abs(off) < length]
        if offs:
            found.append((start, min(offs, key=abs)))
    return found
