"""What the runtime functions of every sub-module need: the current context, and handles turned into objects."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from acl import errors, handles
from ascend_sim.runtime.host import host_thread
from ascend_sim.runtime.system import System, running, system

if TYPE_CHECKING:
    from ascend_sim.runtime.context import Context
    from ascend_sim.runtime.device import Device
    from ascend_sim.runtime.events import DeviceEvent
    from ascend_sim.runtime.stream import Stream


def _no_context() -> int:
    thread = host_thread()
    machine = running()
    known = []
    if machine is not None:
        for device in machine.devices.active():
            for context in device.contexts:
                known.append(f"{context.handle:#x} (device {device.index}, made by thread {context.creator})")
    held = f"contexts of this process: {', '.join(known)}." if known else "this process has no context yet."
    if thread.context is not None:
        problem = f"the current context {thread.context.handle:#x} of this thread was destroyed"
    else:
        problem = f"thread {thread.index} has no current context"
    return errors.fail(
        errors.RT_CONTEXT_NULL,
        f"{problem}; call acl.rt.set_context(context) or acl.rt.set_device(id) in this thread first.",
        held,
    )


def current() -> Context | None:
    """The calling thread's context; None (and 107002 explained) when it has none."""
    context = host_thread().context
    if context is not None and context.alive:
        return context
    if context is None and (made := _default_context()) is not None:
        return made
    _no_context()
    return None


def _default_context() -> Context | None:
    """The default context of the device that acl.json names for threads that chose none."""
    from acl import _config

    if _config.state.default_device < 0:
        return None
    from acl._rt_device import set_device

    call = host_thread().call
    ret = set_device(_config.state.default_device)
    host_thread().call = call
    return None if ret else host_thread().context


def current_device() -> Device | None:
    context = current()
    return None if context is None else context.device


def handle_of(value: Context | Stream | DeviceEvent) -> int:
    """The handle of a runtime object, made when first asked for."""
    if value.handle == 0:
        value.handle = handles.new(value)
    return value.handle


def stream_of(handle: int, context: Context) -> tuple[Stream | None, int]:
    """The stream a handle stands for (0: the default stream), checked against the current context."""
    from ascend_sim.runtime.stream import Stream

    if handle == 0:
        return context.default_stream, 0
    stream = handles.get(handle, Stream)
    if stream is None or not stream.alive:
        return None, errors.fail(errors.RT_PARAM_INVALID, handles.story(handle, "Stream", "acl.rt.create_stream"))
    if stream.context is not context:
        owner = stream.context
        where = "another context" if owner is None else f"context {owner.handle:#x} on device {owner.device.index}"
        return None, errors.fail(
            errors.RT_STREAM_CONTEXT,
            f"stream {handle:#x} belongs to {where}; the current context is {context.handle:#x} "
            f"on device {context.device.index}.",
            "acl.rt.create_stream made the stream, acl.rt.set_context changes the current context.",
        )
    return stream, 0


def on_stream(handle: int) -> tuple[Stream | None, int]:
    """`stream_of` in the current context."""
    context = current()
    if context is None:
        return None, errors.RT_CONTEXT_NULL
    return stream_of(handle, context)


def event_of(handle: int) -> tuple[DeviceEvent | None, int]:
    from ascend_sim.runtime.events import DeviceEvent

    if handle == 0:
        return None, errors.bad("event", 0, "an event of acl.rt.create_event")
    event = handles.get(handle, DeviceEvent)
    if event is None or not event.alive:
        return None, errors.fail(errors.RT_PARAM_INVALID, handles.story(handle, "DeviceEvent", "acl.rt.create_event"))
    return event, 0


_FAILURES = {
    "model": errors.RT_MODEL_EXECUTE,
    "aicore": errors.RT_AICORE_EXCEPTION,
    "aicore timeout": errors.RT_AICORE_TIMEOUT,
    "copy": errors.RT_DRV_INTERNAL,
    "dvpp": errors.RT_AICPU_EXCEPTION,
    "timeout": errors.RT_TASK_TIMEOUT,
}


def failure_code(kind: str) -> int:
    """The return code that stands for a failed task."""
    return _FAILURES.get(kind, errors.RT_INTERNAL)


_OWN = (os.path.dirname(__file__), os.path.join(os.path.dirname(os.path.dirname(__file__)), "torch_npu"))


def caller() -> tuple[str, int]:
    """File and line of the program that called into pyACL."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def task_failure(stream: Stream) -> int:
    """The code of a task that failed on the stream since the last look, 0 when none did."""
    failure = stream.take_failure()
    if failure is None:
        return 0
    related = f"task {failure.task} of stream {stream.id}, submitted by thread {failure.thread}"
    if failure.where is not None:
        related += f" at {failure.where[0]}:{failure.where[1]}"
    return errors.fail(failure_code(failure.kind), str(failure), f"{related}.")


__all__ = [
    "System",
    "caller",
    "current",
    "current_device",
    "event_of",
    "failure_code",
    "handle_of",
    "on_stream",
    "stream_of",
    "system",
    "task_failure",
]
