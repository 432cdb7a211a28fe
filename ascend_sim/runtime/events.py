"""Device events: marks that one stream sets and others, or the host, wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simpy.events import Event as SimEvent

if TYPE_CHECKING:
    from ascend_sim.runtime.context import Context
    from ascend_sim.runtime.device import Device
    from ascend_sim.runtime.tasks import WaitTask


class Record:
    """One recording of an event: ``done`` at ``time`` (ps) once the stream reached it."""

    __slots__ = ("device", "done", "stream", "time", "waiters")

    def __init__(self, device: Device, stream: int) -> None:
        self.device: Device | None = device
        self.stream = stream
        self.done = False
        self.time = 0
        self.waiters: list[SimEvent] = []

    def finish(self, time: int) -> None:
        self.done = True
        self.time = time
        for waiter in self.waiters:
            if not waiter.triggered:
                waiter.succeed()
        self.waiters.clear()


class DeviceEvent:
    """``record`` is the latest recording (None: never, or reset). A wait that comes before any recording
    waits for the next one: ``unbound`` holds those."""

    def __init__(self, context: Context, event_id: int, flags: int) -> None:
        self.context = context
        self.id = event_id
        self.flags = flags
        self.handle = 0  # what a face calls it
        self.alive = True
        self.record: Record | None = None
        self.unbound: list[WaitTask] = []
        self.waits = 0  # wait tasks that have not passed

    def bind(self, record: Record) -> None:
        self.record = record
        waiting, self.unbound = self.unbound, []
        for task in waiting:
            task.bind(record)
