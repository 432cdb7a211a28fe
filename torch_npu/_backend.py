"""What the C++ device layer asks the simulator for: devices, memory segments, streams, events, copies."""

from __future__ import annotations

import itertools
import os
from typing import Any

from acl import _eager, _sim

_MAX_STREAM = 1 << 62


def visible_devices() -> list[int]:
    """Physical devices in the order of ``ASCEND_RT_VISIBLE_DEVICES``; all of them without it."""
    count = _eager.device_count()
    chosen = os.environ.get("ASCEND_RT_VISIBLE_DEVICES")
    if chosen is None or not chosen.strip():
        return list(range(count))
    listed = []
    for item in chosen.split(","):
        if not item.strip().isdigit() or int(item) >= count:
            break  # as documented: an id that does not exist ends the list
        listed.append(int(item))
    return listed


class Backend:
    """One object for all devices. Stream and event numbers are handed to torch; 0 is a device's default stream."""

    def __init__(self) -> None:
        self._devices: list[int] | None = None
        self._opened = False
        self._streams: dict[tuple[int, int], Any] = {}
        self._events: dict[int, Any] = {}
        self._next = itertools.count(1)
        self.priorities: dict[tuple[int, int], int] = {}
        self.capture: Any = None  # the graph that records launches, if any
        self.blocking = os.environ.get("ASCEND_LAUNCH_BLOCKING") == "1"

    def forked(self) -> None:
        """In a child process: the devices are the parent's, using them here is an error (`context` says it)."""
        self._opened = False
        self._streams.clear()

    # -- devices

    def devices(self) -> list[int]:
        if self._devices is None or not self._opened:  # fixed from the first use of a device on
            self._devices = visible_devices()
        return self._devices

    def device_count(self) -> int:
        return len(self.devices())

    def physical(self, device: int) -> int:
        return self.devices()[device]

    def context(self, device: int) -> Any:
        if not self._opened:
            from torch_npu import _setup
            from torch_npu.npu import devices

            devices._lazy_init()
            self._opened = True
            _setup.ext.use_flash_attention(bool(_sim.soc().chip.split_cores))
        return _eager.open_device(self.physical(device))

    # -- memory

    def segment_alloc(self, device: int, nbytes: int) -> int:
        self.context(device)
        return _eager.segment_alloc(self.physical(device), nbytes)

    def segment_free(self, device: int, address: int) -> None:
        _eager.segment_free(self.physical(device), address)

    def memory_info(self, device: int) -> tuple[int, int]:
        self.context(device)
        return _eager.memory_info(self.physical(device))

    def memory_changed(
        self, device: int, stream: int, address: int, nbytes: int, allocated: int, reserved: int, active: int
    ) -> None:
        """A block of the caching allocator was taken, or given back (negative size)."""
        index = self.physical(device)
        offset = _sim.system().devices[index].offset(address)
        _eager.emit("memory", "PTA", index, _eager.host().now, component="PTA", address=offset, nbytes=nbytes,
                    allocated=allocated, reserved=reserved, active=active, stream=stream)  # fmt: skip

    def host_alloc(self, nbytes: int) -> int:
        return _eager.host_alloc(nbytes)

    def host_free(self, address: int) -> None:
        _eager.host_free(address)

    # -- streams

    def stream(self, device: int, number: int) -> Any:
        """The runtime's stream."""
        found = self._streams.get((device, number))
        if found is None or not found.alive:
            context = self.context(device)
            if number != 0 and found is None:
                raise RuntimeError(f"stream {number} of npu:{device} does not exist")
            found = self._streams[device, number] = context.default_stream
        return found

    def has_stream(self, device: int, number: int) -> bool:
        return number == 0 or (device, number) in self._streams

    def new_stream(self, device: int, priority: int) -> int:
        context = self.context(device)
        stream = context.add_stream(0 if priority < 0 else 4, 0)
        number = stream.id
        self._streams[device, number] = stream
        self.priorities[device, number] = priority
        return number

    def query_stream(self, device: int, number: int) -> bool:
        return _eager.query(self.stream(device, number))

    def synchronize_stream(self, device: int, number: int) -> None:
        _eager.synchronize(self.stream(device, number))

    def synchronize_device(self, device: int) -> None:
        _eager.synchronize_device(self.physical(device))

    def values(self) -> bool:
        """Whether operators compute values."""
        return _sim.values_mode() != "none"

    def settle(self, device: int) -> bool:
        """Let what is queued happen, before values are made on the host; False when no values are wanted."""
        if not self.values():
            return False
        _eager.settle(self.physical(device))
        return True

    def redraw(self, draw: Any) -> None:
        """The graph that is being captured draws random values of its own in every replay."""
        self.capture.add_draw(draw)

    def capturing(self, device: int, number: int) -> bool:
        return self.capture is not None

    # -- events

    def record(self, event: int, device: int, number: int, flag: int) -> int:
        if event == 0:
            event = next(self._next)
            self._events[event] = _eager.new_event(self.physical(device))
        _eager.record(self._events[event], self.stream(device, number))
        return event

    def block(self, event: int, device: int, number: int) -> None:
        _eager.wait(self._events[event], self.stream(device, number))

    def query_event(self, event: int) -> bool:
        return _eager.reached(self._events[event])

    def synchronize_event(self, event: int) -> None:
        _eager.synchronize_event(self._events[event])

    def destroy_event(self, event: int) -> None:
        self._events.pop(event, None)

    def recorded_ps(self, event: int) -> int | None:
        """Simulated time (ps) at which the event was reached; None when it was not."""
        found = self._events.get(event)
        return None if found is None else _eager.time_ps(found)

    def elapsed_ms(self, first: int, second: int) -> float:
        times = []
        for event in (first, second):
            if not self.query_event(event):
                raise RuntimeError(
                    "Both events must be completed before calculating elapsed time: "
                    "synchronize the later one first, error code is 107020"
                )
            times.append(self.recorded_ps(event) or 0)
        return (times[1] - times[0]) / 1e9

    # -- copies

    def copy(
        self, dst: int, src: int, nbytes: int, kind: int, is_async: bool, pinned: bool, device: int, number: int
    ) -> None:
        if self.capture is not None:
            self.capture.copy(dst, src, nbytes, kind)
        _eager.copy(self.stream(device, number), dst, src, nbytes, kind, pinned, not (is_async and pinned))


backend = Backend()
os.register_at_fork(after_in_child=backend.forked)


def soc() -> Any:
    return _sim.soc()
