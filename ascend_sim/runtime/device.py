"""One simulated NPU: its memory, cores, copy engines, L2 state and discrete-event clock."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any

import simpy
from simpy.events import Event as SimEvent

from ascend_sim.runtime.cores import CorePool
from ascend_sim.runtime.host import host_thread
from ascend_sim.runtime.link import Link
from ascend_sim.runtime.memory import Arena
from ascend_sim.runtime.observe import Event
from ascend_sim.runtime.stream import Stream

if TYPE_CHECKING:
    from ascend_sim.runtime.context import Context
    from ascend_sim.runtime.events import Record
    from ascend_sim.runtime.memory import Block
    from ascend_sim.runtime.scheduler import Scheduler
    from ascend_sim.runtime.system import System
    from ascend_sim.runtime.tasks import Step
    from ascend_sim.soc import Soc

_REPLAYS = 64  # model executions remembered by cache state
_FAR = 46  # bits: the memory of others lies this far away, as the caches see it
_AFTER_NORMAL = 2  # SimPy priority: after every ordinary event of the same time


class _Turn(SimEvent):
    """An event of this instant that happens after all ordinary ones."""

    def __init__(self, env: simpy.Environment) -> None:
        super().__init__(env)
        self._ok = True
        self._value = None
        env.schedule(self, priority=_AFTER_NORMAL)  # type: ignore[arg-type]


class Device:
    """``references`` counts set_device calls; ``channels`` holds when each copy engine is free (ps);
    ``foreign`` the records of other devices that streams of this one wait for."""

    def __init__(self, system: System, index: int, soc: Soc) -> None:
        self.system = system
        self.index = index
        self.soc = soc
        self.env = simpy.Environment()
        self.scheduler: Scheduler = system.scheduler
        self.arena = system.memory.add(
            Arena(f"device {index} ({soc.name})", soc.memory.capacity_bytes, "device", index)
        )
        self.arena.changed = self._memory_changed
        self.cores = CorePool(soc)
        self.link = Link(soc)
        self.channels = {"h2d": 0, "d2h": 0, "d2d": 0, "p2p": 0, "set": 0}
        self.references = 0
        self.options: dict[str, int] = {}
        self.limits: dict[int, int] = {}  # cores that this process may use: 0 AI or cube cores, 1 vector cores
        self.watches_overflow = False  # somebody asks whether results of operators overflowed
        self.overflowed = False
        self._narrow: dict[tuple[int, int], Soc] = {}
        self.peers: set[int] = set()  # devices whose memory this one may touch
        self.default_context: Context | None = None
        self.contexts: list[Context] = []
        self.streams: dict[int, Stream] = {}
        self.events = 0
        self.notifies = 0
        self.foreign: dict[Record, None] = {}
        self.watching = 0  # tasks that wait for a condition which any device may bring about
        self.busy_streams = 0  # streams with unfinished tasks
        self._next_stream = 0
        self._next_event = 0
        self._next_notify = 0
        self._turns: list[tuple[int, int, SimEvent]] = []
        self._l2: Any = None
        self._replays: OrderedDict[tuple[Hashable, Hashable], tuple[list[Step], Hashable, int]] = OrderedDict()

    @property
    def now(self) -> int:
        """The device clock: the time (ps) of the last thing that happened on it."""
        return int(self.env.now)

    @property
    def l2(self) -> Any:
        """Residency of the last-level cache (`ascend_sim.engine.memory.L2`); lives as long as the device."""
        if self._l2 is None:
            from ascend_sim.engine.memory import L2

            self._l2 = L2(self.soc)
        return self._l2

    def replayed(self, key: Hashable, plan: Callable[[], Iterable[Step]]) -> list[Step]:
        """The operators of ``plan`` with their times, remembered by ``key`` and the state of the cache.

        A model that runs again on the same buffers with the same cache contents takes the same times and leaves the
        same contents, so nothing has to be looked at again. ``plan`` must use this device's cache only.
        """
        l2 = self.l2
        before = l2.state()
        found = self._replays.get((key, before))
        if found is not None:
            self._replays.move_to_end((key, before))
            steps, after, written_back = found
            if after != before:
                l2.restore(after)
            l2.written_back += written_back
            return steps
        written_back = -l2.written_back
        steps = list(plan())
        self._replays[key, before] = (steps, l2.state(), written_back + l2.written_back)
        if len(self._replays) > _REPLAYS:
            self._replays.popitem(last=False)
        return steps

    def offset(self, address: int) -> int:
        """Address as the caches see it: independent of where this process mapped the device."""
        arena = self.arena
        if arena.base <= address < arena.end:
            return address - arena.base
        for number, other in enumerate(self.system.memory.arenas, 1):
            if other.base <= address < other.end:
                return address - other.base + (number << _FAR)
        return address - arena.base

    def _memory_changed(self, block: Block, nbytes: int) -> None:
        observers = self.system.observers
        if observers.active:
            thread = host_thread()
            facts = {"component": "APP", "address": block.address - self.arena.base, "nbytes": nbytes,
                     "allocated": self.arena.used}  # fmt: skip
            now = thread.now
            observers.emit(Event("memory", block.owner, self.index, -1, 0, now, now, thread.index, facts))

    def add_stream(self, context: Context | None, priority: int = 0, flags: int = 0) -> Stream:
        stream = Stream(self, context, self._next_stream, priority, flags)
        self._next_stream += 1
        self.streams[stream.id] = stream
        return stream

    def narrowed(self, cores: tuple[int, int]) -> Soc:
        """The chip as operators see it that may use so many AI or cube cores and vector cores only."""
        soc = self._narrow.get(cores)
        if soc is None:
            cube, vector = cores
            figures = {"cores.ai_core_count": cube}
            if self.soc.cores.vector_core_count:
                figures["cores.vector_core_count"] = vector
            soc = self._narrow[cores] = self.soc.override(figures)
        return soc

    def next_notify(self) -> int:
        """A number for a new notify."""
        self._next_notify += 1
        return self._next_notify - 1

    def next_event(self) -> int:
        """A number for a new event."""
        self._next_event += 1
        return self._next_event - 1

    def turn(self, ready: int, stream: int) -> SimEvent:
        """Wait for one's turn among the streams whose next task is ready at this instant: order of
        (ready time, stream)."""
        event = self.env.event()
        if not self._turns:
            _Turn(self.env).callbacks.append(self._grant)
        self._turns.append((ready, stream, event))
        return event

    def _grant(self, _event: SimEvent) -> None:
        turns, self._turns = self._turns, []
        for _, _, event in sorted(turns, key=lambda t: t[:2]):
            event.succeed()

    def reserve_channel(self, direction: str, start: int, duration: int) -> int:
        """Queue a transfer on its copy engine; returns when it starts."""
        start = max(start, self.channels[direction])
        self.channels[direction] = start + duration
        return start
