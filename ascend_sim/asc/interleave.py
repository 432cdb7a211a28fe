"""Running several programs of one launch together: one at a time, switching where a program waits for another.

Order is fixed: programs run in the order given, each until it blocks or ends; then the next one that can go on runs.
So values are deterministic, and a wait that nobody will answer is reported as a deadlock instead of hanging.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence

from ascend_sim.asc.machine import Core


class CoreDeadlockError(RuntimeError):
    """Every program of the launch waits for a flag that nobody will set."""


class Baton:
    """Flags between the cores of one launch and the right to run, held by one program at a time."""

    def __init__(self, cores: Sequence[Core]) -> None:
        self.cores = list(cores)
        self.counts: dict[tuple[int, int], int] = {}  # (program, flag id) -> posted and not yet consumed
        self.pending: dict[tuple[int, int], list[int]] = {}  # (program, flag id) -> posts of each AIV
        self.blocked: dict[int, tuple[str, Callable[[], bool]]] = {}
        self.finished: set[int] = set()
        self.arrived: dict[str, list[int]] = {}
        self.signals: dict[Hashable, int] = {}
        self.known: set[Hashable] = set()
        self.failure: BaseException | None = None
        self.active = 0
        self.turn = threading.Condition()
        self.index = {id(core): i for i, core in enumerate(self.cores)}

    def post(self, core: Core, flag_id: int, mode: int) -> None:
        me = self.index[id(core)]
        for other in self._receivers(core, mode):
            key = (other, flag_id)
            if mode == 2 and core.kind == "AIV" and core.sub_block_num > 1:
                posts = self.pending.setdefault(key, [0] * core.sub_block_num)
                posts[core.sub_block_idx] += 1
                if all(posts):
                    posts[:] = [n - 1 for n in posts]
                    self.counts[key] = self.counts.get(key, 0) + 1
            elif mode in (0, 1):
                group = self._receivers(core, mode)
                posts = self.pending.setdefault(key, [0] * len(self.cores))
                posts[me] += 1
                if all(posts[i] for i in group):
                    for i in group:
                        posts[i] -= 1
                    self.counts[key] = self.counts.get(key, 0) + 1
            else:
                self.counts[key] = self.counts.get(key, 0) + 1

    def _receivers(self, core: Core, mode: int) -> list[int]:
        if mode == 0:
            return [i for i, c in enumerate(self.cores) if c.kind == core.kind]
        if mode == 1:
            return [i for i, c in enumerate(self.cores) if c.kind == core.kind and c.block_idx == core.block_idx]
        other = "AIC" if core.kind == "AIV" else "AIV"
        return [i for i, c in enumerate(self.cores) if c.kind == other and c.block_idx == core.block_idx]

    def wait(self, core: Core, flag_id: int) -> None:
        key = (self.index[id(core)], flag_id)
        self._until(core, f"flag {flag_id}", lambda: self.counts.get(key, 0) > 0)
        self.counts[key] -= 1

    def signal(self, key: Hashable) -> None:
        """Post a named event that one program may consume."""
        self.signals[key] = self.signals.get(key, 0) + 1

    def await_signal(self, core: Core, key: Hashable, what: str) -> None:
        """Wait for a named event and consume it."""
        self._until(core, what, lambda: self.signals.get(key, 0) > 0)
        self.signals[key] -= 1

    def first_time(self, key: Hashable) -> bool:
        """Whether this is the first call with ``key`` in this launch."""
        new = key not in self.known
        self.known.add(key)
        return new

    def barrier(self, core: Core) -> None:
        """All programs of the same kind meet."""
        me = self.index[id(core)]
        group = [i for i, c in enumerate(self.cores) if c.kind == core.kind]
        counts = self.arrived.setdefault(core.kind, [0] * len(self.cores))
        counts[me] += 1
        mine = counts[me]
        self._until(core, "sync_all", lambda: all(counts[i] >= mine for i in group))

    def _until(self, core: Core, what: str, ready: Callable[[], bool]) -> None:
        if ready():
            return
        me = self.index[id(core)]
        with self.turn:
            self.blocked[me] = (what, ready)
            self._pass_on()
            while self.active != me:
                self.turn.wait()
            if self.failure is not None:
                raise _Abandoned
            del self.blocked[me]

    def _pass_on(self) -> None:
        """Choose who runs next (the lock is held)."""
        n = len(self.cores)
        for i in range(n):
            if i in self.finished:
                continue
            if i not in self.blocked or self.failure is not None or self.blocked[i][1]():
                self.active = i
                self.turn.notify_all()
                return
        if len(self.finished) < n:
            waits = [
                f"block {self.cores[i].block_idx} {self.cores[i].kind}{self.cores[i].sub_block_idx} waits for {what}"
                for i, (what, _) in sorted(self.blocked.items())
            ]
            self.failure = CoreDeadlockError("deadlock between cores: " + "; ".join(waits))
            self.active = min(self.blocked)
        else:
            self.active = -1
        self.turn.notify_all()

    def run(self, programs: Sequence[Callable[[], None]]) -> None:
        """Run one program per core to the end. Raises the first error of any of them."""

        def body(i: int) -> None:
            with self.turn:
                while self.active != i:
                    self.turn.wait()
            try:
                if self.failure is None:
                    programs[i]()
            except _Abandoned:
                pass
            except BaseException as error:
                if self.failure is None:
                    self.failure = error
            with self.turn:
                self.finished.add(i)
                self.blocked.pop(i, None)
                self._pass_on()

        for core in self.cores:
            core.baton = self
        threads = [threading.Thread(target=body, args=(i,), daemon=True) for i in range(len(programs))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.failure is not None:
            raise self.failure


class _Abandoned(BaseException):
    """Ends a program whose launch has already failed."""
