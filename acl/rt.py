"""acl.rt: devices, contexts, streams, events, memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acl import (
    _names,
    _rt_allocator,
    _rt_device,
    _rt_event,
    _rt_exception,
    _rt_kernel,
    _rt_launch,
    _rt_limits,
    _rt_memory,
    _rt_notify,
    _rt_options,
    _rt_stream,
    _rt_stream_memory,
    _rt_virtual,
)

_PARTS = (
    _rt_device,
    _rt_memory,
    _rt_stream,
    _rt_event,
    _rt_kernel,
    _rt_launch,
    _rt_options,
    _rt_limits,
    _rt_notify,
    _rt_stream_memory,
    _rt_virtual,
    _rt_exception,
    _rt_allocator,
)

for _part in _PARTS:
    for _name, _value in vars(_part).items():
        if getattr(_value, "acl_name", "") == f"acl.rt.{_name}":
            globals()[_name] = _value

__all__ = list(_names.complete(globals(), "rt"))


def __dir__() -> list[str]:
    return list(__all__)


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
