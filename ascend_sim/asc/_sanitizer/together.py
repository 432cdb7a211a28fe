"""Flags and barriers between cores, with the order they establish."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from ascend_sim.asc._sanitizer.clocks import Remote
from ascend_sim.asc._sanitizer.report import Site
from ascend_sim.asc._sanitizer.watch import CoreWatch
from ascend_sim.asc.interleave import Baton, CoreDeadlockError
from ascend_sim.asc.machine import Core
from ascend_sim.isa.instr import Pipe


class WatchedBaton(Baton):
    """A baton that carries the clocks of senders to receivers."""

    def __init__(self, cores: Sequence[Core], watches: Sequence[CoreWatch]) -> None:
        super().__init__(cores)
        self.watches = list(watches)
        self.sent: dict[tuple[int, int], dict[int, deque[Remote]]] = {}  # (receiver, flag) -> sender -> clocks
        self.ready: dict[tuple[int, int], deque[list[Remote]]] = {}
        self.arrivals: list[list[Remote]] = [[] for _ in cores]

    def _clock(self, core: Core, pipe: int) -> Remote:
        clocks = self.watches[self.index[id(core)]].clocks
        return clocks.export(clocks.post(pipe, None, 0))

    def post(self, core: Core, flag_id: int, mode: int) -> None:
        me = self.index[id(core)]
        receivers = self._receivers(core, mode)
        pipe = self.watches[me].cross[0]
        clock = self._clock(core, pipe)
        before = {i: self.counts.get((i, flag_id), 0) for i in receivers}
        for i in receivers:
            self.sent.setdefault((i, flag_id), {}).setdefault(me, deque()).append(clock)
        super().post(core, flag_id, mode)
        for i in receivers:
            if self.counts.get((i, flag_id), 0) > before[i]:
                queues = self.sent[i, flag_id].values()
                self.ready.setdefault((i, flag_id), deque()).append([q.popleft() for q in queues if q])

    def wait(self, core: Core, flag_id: int) -> None:
        me = self.index[id(core)]
        pipe = self.watches[me].cross[0]
        super().wait(core, flag_id)
        arrived = self.ready.get((me, flag_id))
        if arrived:
            self.watches[me].clocks.receive(pipe, arrived.popleft())

    def barrier(self, core: Core) -> None:
        me = self.index[id(core)]
        clocks = self.watches[me].clocks
        clocks.barrier(Pipe.ALL)
        self.arrivals[me].append(self._clock(core, Pipe.S))
        turn = len(self.arrivals[me]) - 1
        super().barrier(core)
        group = [i for i, c in enumerate(self.cores) if c.kind == core.kind]
        clocks.receive(Pipe.S, [self.arrivals[i][turn] for i in group])

    def run(self, programs: Sequence[object]) -> None:
        try:
            super().run(programs)  # type: ignore[arg-type]
        except CoreDeadlockError as error:
            sites = [Site(f"{watch.name} waits", watch.cross[1]) for watch in self.watches if self._waiting(watch)]
            self.watches[0].sanitizer.report.add("Deadlock", "error", str(error), sites)
            raise

    def _waiting(self, watch: CoreWatch) -> bool:
        return watch.cross[1] is not None
