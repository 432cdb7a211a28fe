"""Contexts: what streams, events and models of one device belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ascend_sim.runtime.stream import Stream

if TYPE_CHECKING:
    from ascend_sim.runtime.device import Device


class Context:
    """``explicit`` ones come from create_context, the other is the device's default. ``created`` (ps) and
    ``creator`` (index of the host thread) serve clocks and messages."""

    def __init__(self, device: Device, explicit: bool, created: int, creator: int) -> None:
        self.device = device
        self.explicit = explicit
        self.created = created
        self.creator = creator
        self.handle = 0  # what a face calls it
        self.alive = True
        self.streams: list[Stream] = []
        self.options: dict[int, int] = {}
        self.default_stream = self.add_stream()
        device.contexts.append(self)

    def add_stream(self, priority: int = 0, flags: int = 0) -> Stream:
        stream = self.device.add_stream(self, priority, flags)
        self.streams.append(stream)
        return stream

    def close(self) -> None:
        """Destroy the context: its streams finish what they hold, then end."""
        if not self.alive:
            return
        for stream in list(self.streams):
            stream.drain()
            stream.close()
        self.alive = False
        if self in self.device.contexts:
            self.device.contexts.remove(self)
        if self.device.default_context is self:
            self.device.default_context = None
