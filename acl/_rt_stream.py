"""acl.rt: streams, callbacks and synchronisation."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from acl import _strict, errors, handles
from acl._api import api
from acl._common import current, handle_of, on_stream, system, task_failure
from ascend_sim.runtime.host import host_thread
from ascend_sim.runtime.reports import CallbackTask, NoReport, Reporter, next_report
from ascend_sim.runtime.scheduler import Wait

_MS = 1_000_000_000  # ps
_NO_BLOCK, _BLOCK = 0, 1


def _create(priority: int, flags: int) -> tuple[int, int]:
    context = current()
    if context is None:
        return 0, errors.RT_CONTEXT_NULL
    device = context.device
    limit = device.soc.limits.streams
    with device.scheduler.lock:
        if limit and len(device.streams) >= limit:
            return 0, errors.fail(
                errors.RT_NO_STREAM, f"device {device.index} has {len(device.streams)} streams, its limit is {limit}."
            )
        stream = context.add_stream(priority, flags)
    return handle_of(stream), 0


@api("acl.rt.create_stream", "aclrtCreateStream", "api")
def create_stream() -> tuple[int, int]:
    return _create(0, 0)


@api("acl.rt.create_stream_with_config", "aclrtCreateStreamWithConfig", "api")
def create_stream_with_config(priority: int, flag: int, /) -> tuple[int, int]:
    if not 0 <= priority <= 7:
        return 0, errors.bad("priority", priority, "0 (highest) to 7")
    return _create(priority, flag)


def _destroy(handle: int, wait: bool) -> int:
    if handle == 0:
        return errors.bad("stream", 0, "a stream of acl.rt.create_stream")
    stream, ret = on_stream(handle)
    if stream is None:
        return ret
    if stream.context is not None and stream is stream.context.default_stream:
        return errors.fail(errors.RT_PARAM_INVALID, "the default stream of a context cannot be destroyed.")
    if wait and not stream.idle:
        stream.synchronize(host_thread())
    stream.close()
    handles.drop(handle)
    return 0


@api("acl.rt.destroy_stream", "aclrtDestroyStream", "api")
def destroy_stream(stream: int, /) -> int:
    return _destroy(stream, True)


@api("acl.rt.destroy_stream_force", "aclrtDestroyStreamForce", "api")
def destroy_stream_force(stream: int, /) -> int:
    return _destroy(stream, False)


@api("acl.rt.stream_query", "aclrtStreamQuery", "api")
def stream_query(stream: int, /) -> tuple[int, int]:
    found, ret = on_stream(stream)
    if found is None:
        return 0, ret
    found.device.scheduler.advance(found.device, host_thread().now)
    if found.idle and _strict.watch is not None:
        _strict.watch.synchronized(found)
    return (0 if found.idle else 1), 0


@api("acl.rt.stream_get_id", "aclrtStreamGetId", "api")
def stream_get_id(stream: int, /) -> tuple[int, int]:
    found, ret = on_stream(stream)
    return (0, ret) if found is None else (found.id, 0)


@api("acl.rt.get_stream_available_num", "aclrtGetStreamAvailableNum", "api")
def get_stream_available_num() -> tuple[int, int]:
    context = current()
    if context is None:
        return 0, errors.RT_CONTEXT_NULL
    return max(0, context.device.soc.limits.streams - len(context.device.streams)), 0


@api("acl.rt.stream_abort", "aclrtStreamAbort", "api")
def stream_abort(stream: int, /) -> int:
    found, ret = on_stream(stream)
    if found is None:
        return ret
    with found.device.scheduler.lock:
        found.abort()
    return 0


# -- waiting -----------------------------------------------------------------------------------------------


def _stuck(what: str) -> str:
    return (
        f"{what} can never finish: it waits for a callback or an event that no thread of this process will bring. "
        "acl.rt.process_report must run in the subscribed thread, which is another one than the thread that waits; a "
        "callback cannot wait for its own stream; another stream must record the event."
    )


@api("acl.rt.synchronize_stream", "aclrtSynchronizeStream", "sync")
def synchronize_stream(stream: int, /) -> int:
    found, ret = on_stream(stream)
    if found is None:
        return ret
    if found.synchronize(host_thread()) is Wait.DEADLOCK:
        return errors.fail(errors.RT_STREAM_SYNC_TIMEOUT, _stuck(f"stream {found.id}"))
    if _strict.watch is not None:
        _strict.watch.synchronized(found)
    return task_failure(found)


@api("acl.rt.synchronize_stream_with_timeout", "aclrtSynchronizeStreamWithTimeout", "sync")
def synchronize_stream_with_timeout(stream: int, timeout_ms: int, /) -> int:
    if timeout_ms < -1 or timeout_ms == 0:
        return errors.bad("timeout_ms", timeout_ms, "-1 (no limit) or at least 1", "", errors.RT_PARAM_INVALID)
    found, ret = on_stream(stream)
    if found is None:
        return ret
    result = found.synchronize(host_thread(), None if timeout_ms == -1 else timeout_ms * _MS)
    if result is Wait.DONE:
        if _strict.watch is not None:
            _strict.watch.synchronized(found)
        return task_failure(found)
    if result is Wait.TIMEOUT:
        host_thread().now += timeout_ms * _MS
    left = found.submitted - found.completed
    state = f"stream {found.id} still has {left} tasks after {timeout_ms} ms of simulated time."
    return errors.fail(errors.RT_STREAM_SYNC_TIMEOUT, state)


@api("acl.rt.synchronize_device", "aclrtSynchronizeDevice", "sync")
def synchronize_device() -> int:
    return _synchronize_device(-1)


@api("acl.rt.synchronize_device_with_timeout", "aclrtSynchronizeDeviceWithTimeout", "sync")
def synchronize_device_with_timeout(timeout_ms: int, /) -> int:
    if timeout_ms < -1 or timeout_ms == 0:
        return errors.bad("timeout_ms", timeout_ms, "-1 (no limit) or at least 1", "", errors.RT_PARAM_INVALID)
    return _synchronize_device(timeout_ms)


def _synchronize_device(timeout_ms: int) -> int:
    context = current()
    if context is None:
        return errors.RT_CONTEXT_NULL
    thread = host_thread()
    limit = None if timeout_ms == -1 else thread.now + timeout_ms * _MS
    for stream in sorted(context.device.streams.values(), key=lambda s: s.id):
        result = stream.synchronize(thread, None if limit is None else max(0, limit - thread.now))
        if result is not Wait.DONE:
            what = f"stream {stream.id} of device {context.device.index}"
            return errors.fail(errors.RT_STREAM_SYNC_TIMEOUT, _stuck(what))
        if _strict.watch is not None:
            _strict.watch.synchronized(stream)
    for stream in sorted(context.device.streams.values(), key=lambda s: s.id):
        ret = task_failure(stream)
        if ret:
            return ret
    return 0


# -- callbacks ---------------------------------------------------------------------------------------------


@api("acl.rt.subscribe_report", "aclrtSubscribeReport", "api")
def subscribe_report(thread_id: int, stream: int, /) -> int:
    found, ret = on_stream(stream)
    if found is None:
        return ret
    machine = system()
    with machine.scheduler.lock:
        if found.reporter is not None:
            if found.reporter.ident == thread_id:
                return errors.fail(errors.RT_THREAD_SUBSCRIBE, f"thread {thread_id} serves stream {found.id} already.")
            return errors.fail(
                errors.RT_STREAM_SUBSCRIBED,
                f"stream {found.id} is served by thread {found.reporter.ident}: one thread per stream.",
                "acl.rt.unsubscribe_report ends that.",
            )
        reporter = machine.reporters.setdefault(thread_id, Reporter(thread_id))
        reporter.streams.add(found)
        found.reporter = reporter
        machine.scheduler.changed.notify_all()
    return 0


@api("acl.rt.unsubscribe_report", "aclrtUnSubscribeReport", "api")
def unsubscribe_report(thread_id: int, stream: int, /) -> int:
    found, ret = on_stream(stream)
    if found is None:
        return ret
    machine = system()
    with machine.scheduler.lock:
        reporter = found.reporter
        if reporter is None or reporter.ident != thread_id:
            return errors.fail(
                errors.RT_THREAD_SUBSCRIBE,
                f"thread {thread_id} does not serve stream {found.id}"
                + (f": thread {reporter.ident} does." if reporter else ": no thread does."),
            )
        found.reporter = None
        reporter.streams.discard(found)
        if not reporter.streams and not reporter.waiting:
            machine.reporters.pop(thread_id, None)
        machine.scheduler.changed.notify_all()
    return 0


@api("acl.rt.launch_callback", "aclrtLaunchCallback", "launch")
def launch_callback(function: Callable[[Any], Any], user_data: object, block_type: int, stream: int, /) -> int:
    if block_type not in (_NO_BLOCK, _BLOCK):
        return errors.bad("block_type", block_type, "0 (no block) or 1 (block)")
    found, ret = on_stream(stream)
    if found is None:
        return ret
    reporter = found.reporter
    if reporter is None:
        return errors.fail(
            errors.RT_STREAM_NOT_SUBSCRIBED,
            f"no thread is subscribed to stream {found.id}.",
            "acl.rt.subscribe_report(thread_id, stream) comes first.",
        )
    found.callbacks += 1
    task = CallbackTask(function, user_data, block_type == _BLOCK, reporter)
    found.submit(task, host_thread())
    if _strict.watch is not None:
        _strict.watch.recorded[task] = (found, task.sequence)
    return 0


@api("acl.rt.process_report", "aclrtProcessReport", "api")
def process_report(timeout_ms: int, /) -> int:
    if timeout_ms == 0 or timeout_ms < -1:
        return errors.bad("timeout_ms", timeout_ms, "-1 (no limit) or at least 1")
    machine, thread = system(), host_thread()
    task = next_report(machine, thread, None if timeout_ms == -1 else timeout_ms)
    if task is NoReport.NOT_SUBSCRIBED:
        return errors.fail(
            errors.RT_THREAD_SUBSCRIBE,
            f"thread {thread.ident} is not subscribed to any stream.",
            "acl.rt.subscribe_report(thread_id, stream) takes the id that acl.util.start_thread returned.",
        )
    if isinstance(task, NoReport):
        return errors.fail(errors.RT_REPORT_TIMEOUT, f"no callback came within {timeout_ms} ms.")
    thread.join(task.time)
    if _strict.watch is not None and task in _strict.watch.recorded:
        _strict.watch.synchronized(*_strict.watch.recorded.pop(task))
    try:
        task.function(task.data)
    except BaseException as error:  # as the interpreter does for an exception in a C callback
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        sys.excepthook(*sys.exc_info())
    finally:
        with machine.scheduler.lock:
            task.finish(thread.now)
            machine.scheduler.changed.notify_all()
    return 0
