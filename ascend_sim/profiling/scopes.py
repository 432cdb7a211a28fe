"""Which operator of a framework, and which step, a task of a device belongs to.

A task belongs to the innermost operator that ran on its host thread when it was enqueued; without a framework the calls
of acl take the place of operators. A step is a span of the host;
what it enqueued belongs to it, also where the device is late.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence

from ascend_sim.profiling.store import EventStore
from ascend_sim.runtime.observe import Event


class Scopes:
    """The framework operators of a run as a tree: ``ops`` in order of thread and start, ``parent`` and ``children`` by
    index in it."""

    def __init__(self, store: EventStore) -> None:
        ops = list(store.of_kind("op")) or list(store.of_kind("api"))
        self.ops = sorted(ops, key=lambda e: (e.thread, e.start, -e.end))
        self.parent: list[int] = []
        self.children: dict[int, list[int]] = defaultdict(list)
        self._of_thread: dict[int, list[int]] = defaultdict(list)
        self._starts: dict[int, list[int]] = defaultdict(list)
        open_: list[int] = []
        for i, op in enumerate(self.ops):
            while open_ and (self.ops[open_[-1]].thread != op.thread or self.ops[open_[-1]].end < op.end):
                open_.pop()
            self.parent.append(open_[-1] if open_ else -1)
            self.children[self.parent[-1]].append(i)
            open_.append(i)
            self._of_thread[op.thread].append(i)
            self._starts[op.thread].append(op.start)
        self.steps = sorted(store.of_kind("step"), key=lambda e: e.start)
        self._step_starts = [s.start for s in self.steps]

    def op_of(self, task: Event) -> int:
        """Index of the innermost operator that enqueued a task (or made a call), -1 if none did."""
        when = task.args.get("queued", task.start)
        i = bisect_right(self._starts[task.thread], when) - 1
        found = self._of_thread[task.thread][i] if i >= 0 else -1
        while found >= 0 and self.ops[found].end < when:
            found = self.parent[found]
        return found

    def step_of(self, task: Event) -> int | None:
        """Number of the step that enqueued a task; None outside of all steps."""
        when = task.args.get("queued", task.start)
        i = bisect_right(self._step_starts, when) - 1
        if i < 0 or when > self.steps[i].end:
            return None
        return step_number(self.steps[i])


def step_number(step: Event) -> int:
    return int(step.args["step"])


def innermost(scopes: Scopes, tasks: Sequence[Event]) -> dict[int, list[Event]]:
    """Tasks by the index of the operator that enqueued them (-1: none)."""
    found: dict[int, list[Event]] = defaultdict(list)
    for task in tasks:
        found[scopes.op_of(task)].append(task)
    return found
