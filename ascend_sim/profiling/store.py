"""Collects events while a program runs and answers the questions every report asks."""

from __future__ import annotations

from collections.abc import Iterator

from ascend_sim.engine.result import KernelTiming
from ascend_sim.runtime.observe import Event


class EventStore:
    """An observer that keeps every event, in order of emission."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    def kernels(self) -> list[Event]:
        """Device tasks that ran on AI cores or AI CPUs, by device and start."""
        picked = [e for e in self.events if e.kind in ("kernel", "aicpu")]
        return sorted(picked, key=lambda e: (e.device, e.start, e.stream, e.task))

    def devices(self) -> list[int]:
        """Devices that executed something."""
        return sorted({e.device for e in self.events if e.stream >= 0})

    def of_device(self, device: int) -> EventStore:
        """What happened on a device or was called for it, and what the host did for none."""
        found = EventStore()
        found.events = [e for e in self.events if e.device in (device, -1)]
        return found

    def of_kind(self, *kinds: str) -> Iterator[Event]:
        return (e for e in self.events if e.kind in kinds)


def timings(event: Event) -> tuple[KernelTiming, ...]:
    """The kernel launches behind a kernel event (none when it is estimated)."""
    timing = event.args.get("timing")
    if timing is None:
        return ()
    return timing if isinstance(timing, tuple) else (timing,)
