"""Tasks that hold their stream until something is true of memory or of a notify, whoever makes it true."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from simpy.events import Event as SimEvent

from ascend_sim.runtime.stream import TaskFailure
from ascend_sim.runtime.tasks import Task

if TYPE_CHECKING:
    from ascend_sim.runtime.device import Device
    from ascend_sim.runtime.stream import Stream


class Conditions:
    """What tasks of a machine wait for, in the order they began to wait. `poke` is called after every write that
    could matter; it costs nothing while nobody waits."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Device, Callable[[], bool], SimEvent]] = []

    def add(self, device: Device, holds: Callable[[], bool]) -> SimEvent:
        """An event of ``device`` that happens, with the time (ps) as its value, once ``holds()``."""
        event = device.env.event()
        self.waiting.append((device, holds, event))
        device.watching += 1
        return event

    def drop(self, event: SimEvent) -> None:
        """Nobody waits for this event any more."""
        for entry in self.waiting:
            if entry[2] is event:
                self.waiting.remove(entry)
                entry[0].watching -= 1
                return

    def poke(self, time: int) -> None:
        """Something changed at ``time`` (ps): let those go on whose condition holds now."""
        for entry in list(self.waiting):
            device, holds, event = entry
            if holds():
                self.waiting.remove(entry)
                device.watching -= 1
                event.succeed(time)
                device.scheduler.changed.notify_all()


class ConditionTask(Task):
    """Holds its stream until ``holds()``; ``timeout`` (ps, None: no limit) makes the task fail instead."""

    kind = "event"

    def __init__(self, name: str, holds: Callable[[], bool], what: str, timeout: int | None = None) -> None:
        super().__init__(name)
        self._holds = holds
        self._what = what
        self._timeout = timeout
        self._event: SimEvent | None = None

    def cancel(self, stream: Stream) -> None:
        if self._event is not None:
            stream.device.system.conditions.drop(self._event)

    def run(self, stream: Stream, begin: int) -> Generator[SimEvent, Any, int]:
        device = stream.device
        end = begin
        if not self._holds():
            event = self._event = device.system.conditions.add(device, self._holds)
            if self._timeout is None:
                yield event
            else:
                yield event | device.env.timeout(self._timeout)
                if not event.triggered:
                    device.system.conditions.drop(event)
                    seconds = self._timeout / 1e12
                    raise TaskFailure("timeout", f"{self._what} did not come within {seconds:g} s of simulated time")
            time: Any = event.value
            end = max(begin, int(time))
        if end > device.env.now:
            yield device.env.timeout(end - int(device.env.now))
        self.emit(stream, begin, end)
        return end


class Notify:
    """A flag that one stream sets and another waits for and clears. ``device`` is where it was made."""

    def __init__(self, device: Device, notify_id: int, flags: int) -> None:
        self.device = device
        self.id = notify_id
        self.flags = flags
        self.set = False
        self.key = ""  # under which it is shared
        self.users = 1  # handles that stand for it

    def take(self) -> bool:
        """Whether it was set; it is clear afterwards."""
        was, self.set = self.set, False
        return was


class NotifyRecordTask(Task):
    """Sets a notify."""

    kind = "event"

    def __init__(self, notify: Notify) -> None:
        super().__init__("notify record")
        self.notify = notify

    def run(self, stream: Stream, begin: int) -> Generator[SimEvent, Any, int]:
        self.notify.set = True
        stream.device.system.conditions.poke(begin)
        stream.device.scheduler.changed.notify_all()
        self.emit(stream, begin, begin)
        return begin
        yield  # pragma: no cover  # makes this a generator
