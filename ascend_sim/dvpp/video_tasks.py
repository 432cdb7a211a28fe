"""Channels of the video units: frames are tasks of a stream of their own, results come as reports to a host thread."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from simpy.events import Event as SimEvent

from ascend_sim.dvpp.units import units_of
from ascend_sim.runtime.host import HostThread
from ascend_sim.runtime.link import picoseconds
from ascend_sim.runtime.reports import CallbackTask, Reporter
from ascend_sim.runtime.tasks import Task

if TYPE_CHECKING:
    from ascend_sim.runtime.context import Context
    from ascend_sim.runtime.stream import Stream

_PATIENCE_S = 20.0


class VideoChannel:
    """``open`` counts frames whose callback has not returned yet, ``running`` callbacks that run now."""

    def __init__(self, context: Context, thread_id: int, unit: str) -> None:
        self.context = context
        self.device = context.device
        self.unit = unit
        self.thread_id = thread_id
        self.open = 0
        self.running = 0
        self.stream: Stream = context.add_stream()
        system = self.device.system
        with system.scheduler.lock:
            self.reporter = system.reporters.setdefault(thread_id, Reporter(thread_id))
            self.reporter.streams.add(self.stream)
            self.stream.reporter = self.reporter
            system.scheduler.changed.notify_all()

    def submit(self, task: FrameTask, thread: HostThread) -> bool:
        """False when the stream is gone: the context was destroyed, or the device reset."""
        if not self.stream.alive:
            return False
        if task.reports:
            with self.device.scheduler.lock:
                self.open += 1
                self.stream.callbacks += 1
        self.stream.submit(task, thread)
        return True

    def report(self, time: int, function: Callable[[], None]) -> None:
        """Hand a finished frame to the host thread (called with the scheduler's lock held)."""
        self.stream.callbacks -= 1
        self.reporter.waiting.append(_Report(self, function, time))
        self.device.scheduler.changed.notify_all()

    def lost(self) -> None:
        """A frame will never be reported."""
        self.stream.callbacks -= 1
        self.open -= 1

    def wait(self, thread: HostThread) -> bool:
        """Block until every frame was reported and its callback returned; False when no thread will take them: the
        one for callbacks has ended, or took none for `_PATIENCE_S` of wall clock."""
        left, since = self.open, time.monotonic()

        def over() -> bool:
            nonlocal left, since
            now = time.monotonic()
            if self.open != left or self.running:
                left, since = self.open, now
            if self.open <= 0 or now - since > _PATIENCE_S:
                return True
            return self.stream.idle and all(t.ident != self.thread_id for t in threading.enumerate())

        self.device.scheduler.wait(self.device, over)
        thread.join(self.stream.free_at)
        return self.open <= 0

    def close(self) -> None:
        system = self.device.system
        with system.scheduler.lock:
            self.reporter.waiting = deque(r for r in self.reporter.waiting if getattr(r, "channel", None) is not self)
            self.stream.close()
            if not self.reporter.streams and not self.reporter.waiting:
                system.reporters.pop(self.thread_id, None)
            system.scheduler.changed.notify_all()


class _Report(CallbackTask):
    """A finished frame on its way to the thread that runs acl.rt.process_report."""

    def __init__(self, channel: VideoChannel, function: Callable[[], None], time: int) -> None:
        super().__init__(self._call, None, False, channel.reporter)
        self.channel = channel
        self.time = time
        self._callback = function

    def _call(self, _data: None) -> None:
        self.channel.running += 1
        try:
            self._callback()
        finally:
            self.channel.running -= 1

    def finish(self, time: int) -> None:
        super().finish(time)
        self.channel.open -= 1


class FrameTask(Task):
    """One frame for a unit. ``work`` makes the values and may report finished frames at the time it is given;
    ``reports``: this frame will be reported once."""

    kind = "dvpp"

    def __init__(
        self, name: str, channel: VideoChannel, pixels: Callable[[], int], work: Callable[[int], None], reports: bool
    ) -> None:
        super().__init__(name)
        self.channel = channel
        self.reports = reports
        self._pixels = pixels
        self._work = work

    def run(self, stream: Stream, begin: int) -> Generator[SimEvent, Any, int]:
        device, unit = stream.device, self.channel.unit
        ready = begin + picoseconds(device.soc.dvpp.task_us)
        pixels = self._pixels()
        start, end = units_of(device).reserve(unit, ready, [pixels] if pixels else [])
        if end > device.env.now:
            yield device.env.timeout(end - int(device.env.now))
        self._work(end)
        self.emit(
            stream, start, end, op_type=unit.upper(), task_type="DVPP", pixels=pixels, pictures=1, estimated=False
        )
        return end

    def cancel(self, stream: Stream) -> None:
        if self.reports:
            self.channel.lost()


class Pending:
    """Frames that were sent and wait for their picture: decoded ones go to the oldest."""

    def __init__(self, channel: VideoChannel) -> None:
        self.channel = channel
        self._frames: deque[tuple[Callable[[Any], None], Callable[[], None]]] = deque()

    def add(self, store: Callable[[Any], None], callback: Callable[[], None]) -> None:
        """``store`` takes the picture, or None when the stream had none for this frame; ``callback`` follows."""
        self._frames.append((store, callback))

    def deliver(self, picture: Any, time: int) -> None:
        if self._frames:
            store, callback = self._frames.popleft()
            store(picture)
            self.channel.report(time, callback)

    def fail_newest(self, time: int) -> None:
        """The frame sent last cannot be decoded."""
        if self._frames:
            store, callback = self._frames.pop()
            store(None)
            self.channel.report(time, callback)

    def fail_all(self, time: int) -> None:
        while self._frames:
            self.deliver(None, time)
