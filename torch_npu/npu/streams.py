"""Streams and events, in simulated time."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import torch

from acl import _eager
from torch_npu import _setup
from torch_npu._backend import backend, soc
from torch_npu.npu.devices import _get_device_index, _lazy_init, current_device
from torch_npu.utils._error_code import ErrCode, pta_error

_DEVICE_TYPE = 20  # torch's number of the device type that "npu" renames


def _check(number: int, device: int, device_type: int) -> None:
    """RuntimeError when there is no such stream."""
    exists = 0 <= device < backend.device_count() and backend.has_stream(device, number)
    if device_type != _DEVICE_TYPE or not exists:
        raise RuntimeError(
            f"there is no stream {number} of device {device}, device type {device_type}" + pta_error(ErrCode.PARAM)
        )


class Stream(torch.Stream):
    """A queue of work of a device. ``priority`` below 0 is higher than the default."""

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> Stream:
        _lazy_init()
        if "stream_id" in kwargs:
            index = kwargs.get("device_index", 0)
            _check(kwargs["stream_id"], index, kwargs.get("device_type", _DEVICE_TYPE))
            made = super().__new__(cls, stream_id=kwargs["stream_id"], device_index=index,
                                   device_type=_DEVICE_TYPE)  # fmt: skip
            return made  # type: ignore[no-any-return]
        index = _get_device_index(device, optional=True)
        return super().__new__(cls, torch.device("npu", index), priority=priority)  # type: ignore[no-any-return]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    @property
    def npu_stream(self) -> int:
        """A number that stands for the stream."""
        return int(self.stream_id)

    _as_parameter_ = npu_stream

    @property
    def priority(self) -> int:
        return backend.priorities.get((self.device_index, self.stream_id), 0)

    def wait_event(self, event: Any) -> None:
        event.wait(self)

    def wait_stream(self, stream: Any) -> None:
        self.wait_event(stream.record_event())

    def record_event(self, event: Any = None) -> Any:
        event = Event() if event is None else event
        event.record(self)
        return event

    def query(self) -> bool:
        return backend.query_stream(self.device_index, self.stream_id)

    def synchronize(self) -> None:
        backend.synchronize_stream(self.device_index, self.stream_id)

    def set_data_preprocess_stream(self, is_data_preprocess_stream: bool = False) -> None:
        """Marks a stream for data loading; it is scheduled like the others."""

    def __enter__(self) -> Stream:
        self._context = StreamContext(self)
        self._context.__enter__()
        return self

    def __exit__(self, *args: Any) -> None:
        self._context.__exit__(*args)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, torch.Stream) and (self.device_index, self.stream_id) == (
            other.device_index,
            other.stream_id,
        )

    def __hash__(self) -> int:
        return hash((self.device_index, self.stream_id))

    def __repr__(self) -> str:
        return f"<torch_npu.npu.Stream device=npu:{self.device_index} npu_stream={self.npu_stream:#x}>"


class SyncLaunchStream(Stream):
    """A stream whose launches are not queued by a helper thread; here every stream is one."""


class ExternalStream(Stream):
    """A stream made elsewhere, by its number."""

    def __new__(cls, stream_ptr: int, device: Any = None, **kwargs: Any) -> ExternalStream:
        index = _get_device_index(device, optional=True)
        made = torch.Stream.__new__(cls, stream_id=stream_ptr, device_index=index, device_type=_DEVICE_TYPE)
        return made  # type: ignore[return-value]

    def synchronize(self) -> None:
        raise RuntimeError(
            "NPUStream::synchronize is not supported for an external stream: whoever made it waits for it"
            + pta_error(ErrCode.NOT_SUPPORT)
        )

    def query(self) -> bool:
        raise RuntimeError("Cannot query an external stream" + pta_error(ErrCode.NOT_SUPPORT))

    @property
    def npu_stream(self) -> int:
        if os.environ.get("PER_STREAM_QUEUE") == "1" and os.environ.get("TASK_QUEUE_ENABLE", "1") != "0":
            raise RuntimeError(
                "an external stream with PER_STREAM_QUEUE=1 is not supported in NPUStream::stream()"
                + pta_error(ErrCode.NOT_SUPPORT)
            )
        return int(self.stream_id)


class Event:
    """A mark in a stream. ``enable_timing`` lets `elapsed_time` be asked for (in simulated ms)."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False,
                 external: bool = False) -> None:  # fmt: skip
        self.enable_timing, self.blocking = enable_timing, blocking
        self._number = 0
        self._device = -1

    @property
    def npu_event(self) -> int:
        return self._number

    @property
    def device(self) -> torch.device | None:
        return None if self._device < 0 else torch.device("npu", self._device)

    @property
    def event_id(self) -> int:
        return self._number

    def record(self, stream: Any = None) -> None:
        stream = current_stream() if stream is None else stream
        if self._device >= 0 and stream.device_index != self._device:
            raise RuntimeError(
                f"Event device index {self._device} does not match recording stream's device index "
                f"{stream.device_index}."
            )
        self._device = stream.device_index
        self._number = backend.record(self._number, stream.device_index, stream.stream_id, 0)

    def wait(self, stream: Any = None) -> None:
        stream = current_stream() if stream is None else stream
        if self._number:
            backend.block(self._number, stream.device_index, stream.stream_id)

    def query(self) -> bool:
        return not self._number or backend.query_event(self._number)

    def synchronize(self) -> None:
        if self._number:
            backend.synchronize_event(self._number)

    def elapsed_time(self, end_event: Event) -> float:
        """Simulated milliseconds from this event to ``end_event``."""
        if not (self.enable_timing and end_event.enable_timing):
            raise RuntimeError("Both events must be created with argument 'enable_timing=True'.")
        if not (self._number and end_event._number):
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return backend.elapsed_ms(self._number, end_event._number)

    def recorded_time(self) -> int:
        """Simulated microseconds at which the event was reached."""
        if not self._number or not backend.query_event(self._number):
            raise RuntimeError("the event was not recorded or is not reached yet")
        return (backend.recorded_ps(self._number) or 0) // 1_000_000

    def reset(self, stream: Any = None) -> None:
        self._number = 0

    def ipc_handle(self) -> bytes:
        raise RuntimeError("events are not shared between processes here" + pta_error(ErrCode.NOT_SUPPORT))

    @classmethod
    def from_ipc_handle(cls, device: Any, handle: bytes) -> Event:
        raise RuntimeError("events are not shared between processes here" + pta_error(ErrCode.NOT_SUPPORT))

    def __del__(self) -> None:
        if getattr(self, "_number", 0) and backend is not None:
            backend.destroy_event(self._number)

    def __repr__(self) -> str:
        return f"<torch_npu.npu.Event {self._number:#x}>" if self._number else "<torch_npu.npu.Event uninitialized>"


class ExternalEvent(Event):
    """An event that captured graphs wait for from outside."""


class StreamContext:
    """Context manager: ``stream`` is current inside (its device too)."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.before: tuple[int, int, int] | None = None

    def __enter__(self) -> None:
        if self.stream is None:
            return
        device = self.stream.device_index
        self.before = (current_device(), device, _setup.ext.current_stream(device))
        _setup.ext.set_device(device)
        _setup.ext.set_stream(device, self.stream.stream_id)

    def __exit__(self, *_: object) -> None:
        if self.before is not None:
            current, device, number = self.before
            _setup.ext.set_stream(device, number)
            _setup.ext.set_device(current)


def stream(stream: Any) -> StreamContext:
    return StreamContext(stream)


def set_stream(stream: Any) -> None:
    if stream is not None:
        _setup.ext.set_device(stream.device_index)
        _setup.ext.set_stream(stream.device_index, stream.stream_id)


def current_stream(device: Any = None) -> Stream:
    index = _get_device_index(device, optional=True)
    return Stream(stream_id=_setup.ext.current_stream(index), device_index=index)


def default_stream(device: Any = None) -> Stream:
    return Stream(stream_id=0, device_index=_get_device_index(device, optional=True))


def _sleep(cycles: int) -> None:
    """Keep the current stream busy for ``cycles`` of the AI cores' clock."""
    if not isinstance(cycles, int) or cycles <= 0:
        raise RuntimeError(f"torch.npu._sleep(): expected positive cycles, got {cycles}" + pta_error(ErrCode.VALUE))
    device = current_device()
    where = backend.stream(device, _setup.ext.current_stream(device))
    _eager.sleep(where, round(cycles * 1_000_000 / soc().cores.clock_mhz))


def set_stream_limit(stream: Any, cube_num: int = -1, vector_num: int = -1) -> None:
    """Accepted; the cores of the simulated chip are not divided between streams."""


def get_stream_limit(stream: Any) -> dict[str, int]:
    from torch_npu.npu.devices import get_device_limit

    return get_device_limit(stream.device_index)


def reset_stream_limit(stream: Any) -> None:
    """Takes back `set_stream_limit`."""


class _Runtime:
    """``torch.npu.npurt()``: streams for libraries that make their own, by address as in C; codes are those of acl."""

    def __getattr__(self, name: str) -> Any:
        import acl

        return getattr(acl.rt, name)

    @staticmethod
    def npuStreamCreate(pointer: int) -> int:
        """Store the number of a new stream of the current device at the address ``pointer``."""
        ctypes.c_void_p.from_address(pointer).value = backend.new_stream(current_device(), 0)
        return 0

    @staticmethod
    def npuStreamDestroy(stream: int) -> int:
        """Wait for a stream; its number is not given out again."""
        device = current_device()
        if not backend.has_stream(device, stream):
            return 107003
        backend.synchronize_stream(device, stream)
        return 0


def npurt() -> _Runtime:
    return _Runtime()
