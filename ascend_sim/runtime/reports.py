"""Callbacks: a stream hands a report to a subscribed host thread, which runs the function."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Generator
from enum import Enum
from typing import TYPE_CHECKING, Any

from simpy.events import Event as SimEvent

from ascend_sim.runtime.tasks import Task

if TYPE_CHECKING:
    from ascend_sim.runtime.host import HostThread
    from ascend_sim.runtime.stream import Stream
    from ascend_sim.runtime.system import System


class Reporter:
    """The reports waiting for one host thread, and the streams it serves."""

    def __init__(self, ident: int) -> None:
        self.ident = ident
        self.streams: set[Stream] = set()
        self.waiting: deque[CallbackTask] = deque()


class CallbackTask(Task):
    """Runs ``function(data)`` in the subscribed thread. A blocking one holds its stream until that returned."""

    kind = "callback"

    def __init__(self, function: Callable[[Any], Any], data: Any, block: bool, reporter: Reporter) -> None:
        super().__init__("callback")
        self.function = function
        self.data = data
        self.block = block
        self.reporter = reporter
        self.time = 0
        self._done: SimEvent | None = None
        self._end = 0
        self._handed = False

    def run(self, stream: Stream, begin: int) -> Generator[SimEvent, Any, int]:
        self.time = self._end = begin
        if self.block:
            self._done = stream.device.env.event()
        self._handed = True
        stream.callbacks -= 1
        self.reporter.waiting.append(self)
        stream.device.scheduler.changed.notify_all()
        if self._done is not None:
            yield self._done
        self.emit(stream, begin, self._end)
        return self._end

    def cancel(self, stream: Stream) -> None:
        if self in self.reporter.waiting:
            self.reporter.waiting.remove(self)
        elif not self._handed:
            stream.callbacks -= 1

    def stuck(self, ident: int) -> bool:
        """Whether the stream is held for good while the thread ``ident`` waits for it: the function belongs to this
        very thread, or to one that has ended."""
        if self._done is None or not self._handed or self._done.triggered:
            return False
        return self.reporter.ident == ident or self.reporter.ident not in sys._current_frames()

    def finish(self, time: int) -> None:
        """The function returned at host time ``time`` (called with the scheduler's lock held)."""
        self._end = max(self._end, time)
        if self._done is not None and not self._done.triggered:
            self._done.succeed()


class NoReport(Enum):
    NOT_SUBSCRIBED = "not subscribed"
    TIMEOUT = "timeout"


_GRACE_S = 0.001  # a thread that is not subscribed yet waits this long for it
_RECHECK_S = 0.2


def next_report(system: System, thread: HostThread, timeout_ms: int | None) -> CallbackTask | NoReport:
    """Wait for the next callback of this host thread (None: without limit).

    Where the stream already holds one, the device is driven to it and the time-out is simulated time; else the
    thread waits for other threads by wall clock.
    """
    scheduler = system.scheduler
    limit = None if timeout_ms is None else thread.now + timeout_ms * 1_000_000_000
    left = float("inf") if timeout_ms is None else timeout_ms / 1000
    with scheduler.changed:
        if thread.ident not in system.reporters:
            scheduler.changed.wait(min(_GRACE_S, left))
        while True:
            reporter = system.reporters.get(thread.ident)
            if reporter is None:
                return NoReport.NOT_SUBSCRIBED
            if reporter.waiting:
                return reporter.waiting.popleft()
            pending = sorted((s for s in reporter.streams if s.callbacks), key=lambda s: (s.device.index, s.id))
            if any(scheduler.drive(s.device, lambda r=reporter: bool(r.waiting), limit) for s in pending):  # type: ignore[misc]
                continue
            if limit is not None and any(s.device.env.peek() != float("inf") for s in pending):
                thread.join(limit)
                return NoReport.TIMEOUT
            if left <= 0:
                return NoReport.TIMEOUT
            patience = min(_RECHECK_S, left)
            if not scheduler.changed.wait(patience):
                left -= patience
