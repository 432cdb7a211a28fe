"""acl.rt: events."""

from __future__ import annotations

from fractions import Fraction

from acl import _strict, errors, handles
from acl._api import api
from acl._common import current, event_of, handle_of, on_stream
from ascend_sim.runtime.events import DeviceEvent, Record
from ascend_sim.runtime.host import host_thread
from ascend_sim.runtime.scheduler import Wait
from ascend_sim.runtime.tasks import RecordTask, WaitTask

_MS = 1_000_000_000  # ps
_COMPLETE, _NOT_READY = 0, 1  # query_event, query_event_wait_status
_RECORDED, _NOT_RECORDED = 1, 0  # query_event_status: the opposite order
_FLAGS = 0x1 | 0x2 | 0x4 | 0x8 | 0x10 | 0x20


def _create(flags: int) -> tuple[int, int]:
    context = current()
    if context is None:
        return 0, errors.RT_CONTEXT_NULL
    device = context.device
    limit = device.soc.limits.events
    with device.scheduler.lock:
        if limit and device.events >= limit:
            return 0, errors.fail(
                errors.RT_NO_EVENT, f"device {device.index} has {device.events} events, its limit is {limit}."
            )
        device.events += 1
        event = DeviceEvent(context, device.next_event(), flags)
    return handle_of(event), 0


@api("acl.rt.create_event", "aclrtCreateEvent", "api")
def create_event() -> tuple[int, int]:
    return _create(0)


@api("acl.rt.create_event_with_flag", "aclrtCreateEventWithFlag", "api")
def create_event_with_flag(flag: int, /) -> tuple[int, int]:
    if flag & ~_FLAGS:
        return 0, errors.bad("flag", flag, "a combination of 1 (sync), 2 (stream progress) and 8 (time line)")
    return _create(flag)


@api("acl.rt.create_event_ex_with_flag", "aclrtCreateEventExWithFlag", "api")
def create_event_ex_with_flag(flag: int, /) -> tuple[int, int]:
    if flag & ~_FLAGS:
        return 0, errors.bad("flag", flag, "a combination of 1 (sync), 2 (stream progress) and 8 (time line)")
    return _create(flag)


@api("acl.rt.destroy_event", "aclrtDestroyEvent", "api")
def destroy_event(event: int, /) -> int:
    found, ret = event_of(event)
    if found is None:
        return ret
    found.alive = False
    found.context.device.events -= 1
    handles.drop(event)
    return 0


@api("acl.rt.record_event", "aclrtRecordEvent", "event")
def record_event(event: int, stream: int, /) -> int:
    found, ret = event_of(event)
    if found is None:
        return ret
    target, ret = on_stream(stream)
    if target is None:
        return ret
    with target.device.scheduler.lock:
        record = Record(target.device, target.id)
        found.bind(record)
        target.submit(RecordTask(record), host_thread())
    if _strict.watch is not None:
        _strict.watch.recorded[record] = (target, target.submitted)
    return 0


@api("acl.rt.reset_event", "aclrtResetEvent", "event")
def reset_event(event: int, stream: int, /) -> int:
    found, ret = event_of(event)
    if found is None:
        return ret
    target, ret = on_stream(stream)
    if target is None:
        return ret
    found.record = None
    return 0


@api("acl.rt.stream_wait_event", "aclrtStreamWaitEvent", "event")
def stream_wait_event(stream: int, event: int, /) -> int:
    found, ret = event_of(event)
    if found is None:
        return ret
    target, ret = on_stream(stream)
    if target is None:
        return ret
    with target.device.scheduler.lock:
        task = WaitTask(found, found.record)
        found.waits += 1
        if found.record is None:
            found.unbound.append(task)
        target.submit(task, host_thread())
    if _strict.watch is not None and found.record in _strict.watch.recorded:
        _strict.watch.follows(target, *_strict.watch.recorded[found.record])
    return 0


def _look(event: DeviceEvent) -> Record | None:
    """The event's record after the device did what it does up to the host's time."""
    record = event.record
    if record is not None and not record.done and record.device is not None:
        record.device.scheduler.advance(record.device, host_thread().now)
    return record


def _seen(record: Record | None) -> None:
    """Strict mode: the program knows now that the record was reached."""
    if _strict.watch is not None and record is not None and record.done and record in _strict.watch.recorded:
        _strict.watch.synchronized(*_strict.watch.recorded[record])


@api("acl.rt.query_event", "aclrtQueryEvent", "api")
def query_event(event: int, /) -> tuple[int, int]:
    found, ret = event_of(event)
    if found is None:
        return 0, ret
    record = _look(found)
    _seen(record)
    return (_COMPLETE if record is not None and record.done else _NOT_READY), 0


@api("acl.rt.query_event_status", "aclrtQueryEventStatus", "api")
def query_event_status(event: int, /) -> tuple[int, int]:
    found, ret = event_of(event)
    if found is None:
        return 0, ret
    record = _look(found)
    _seen(record)
    return (_RECORDED if record is not None and record.done else _NOT_RECORDED), 0


@api("acl.rt.query_event_wait_status", "aclrtQueryEventWaitStatus", "api")
def query_event_wait_status(event: int, /) -> tuple[int, int]:
    found, ret = event_of(event)
    if found is None:
        return 0, ret
    _look(found)
    found.context.device.scheduler.advance(found.context.device, host_thread().now)
    return (_COMPLETE if found.waits == 0 else _NOT_READY), 0


def _synchronize(event: int, timeout_ms: int) -> int:
    found, ret = event_of(event)
    if found is None:
        return ret
    record = found.record
    if record is None or record.device is None:
        return errors.fail(
            errors.RT_PARAM_INVALID,
            f"event {event:#x} was never recorded.",
            "acl.rt.record_event(event, stream) does it.",
        )
    thread = host_thread()
    limit = None if timeout_ms == -1 else thread.now + timeout_ms * _MS
    device, number = record.device, record.stream

    def hopeless() -> bool:
        stream = device.streams.get(number)
        return stream is None or stream.stuck(thread.ident)

    result = device.scheduler.wait(device, lambda: record.done, limit, hopeless)
    if result is Wait.DONE:
        thread.join(record.time)
        _seen(record)
        return 0
    if result is Wait.TIMEOUT and limit is not None:
        thread.join(limit)
    why = ": nothing will bring it about" if result is Wait.DEADLOCK else f" within {timeout_ms} ms of simulated time"
    return errors.fail(
        errors.RT_EVENT_SYNC_TIMEOUT, f"event {event:#x} was not reached by stream {record.stream}{why}."
    )


@api("acl.rt.synchronize_event", "aclrtSynchronizeEvent", "sync")
def synchronize_event(event: int, /) -> int:
    return _synchronize(event, -1)


@api("acl.rt.synchronize_event_with_timeout", "aclrtSynchronizeEventWithTimeout", "sync")
def synchronize_event_with_timeout(event: int, timeout_ms: int, /) -> int:
    if timeout_ms < -1 or timeout_ms == 0:
        return errors.bad("timeout_ms", timeout_ms, "-1 (no limit) or at least 1", "", errors.RT_PARAM_INVALID)
    return _synchronize(event, timeout_ms)


def _ticks(event: DeviceEvent, record: Record) -> int:
    """Time stamp as the device writes it: whole ticks of its clock, in ps."""
    tick = max(1, round(Fraction(str(event.context.device.soc.limits.timestamp_tick_ns)) * 1000))
    return record.time // tick * tick


def _stamp(handle: int, name: str) -> tuple[int, int]:
    event, ret = event_of(handle)
    if event is None:
        return 0, ret
    record = _look(event)
    if record is None or not record.done:
        state = "was never recorded" if record is None else f"has not been reached by stream {record.stream} yet"
        return 0, errors.fail(
            errors.RT_EVENT_TIMESTAMP_INVALID,
            f"the {name} event {handle:#x} {state}.",
            "acl.rt.synchronize_stream or acl.rt.synchronize_event waits for it.",
        )
    return _ticks(event, record), 0


@api("acl.rt.event_elapsed_time", "aclrtEventElapsedTime", "api")
def event_elapsed_time(start: int, end: int, /) -> tuple[float, int]:
    for handle in (start, end):
        found, ret = event_of(handle)
        if found is None:
            return 0.0, ret
    first, ret = _stamp(start, "start")
    if ret:
        return 0.0, ret
    last, ret = _stamp(end, "end")
    if ret:
        return 0.0, ret
    if last < first:
        return 0.0, errors.fail(
            errors.RT_EVENT_TIMESTAMP_REVERSAL, f"the end event came {(first - last) / 1e6} us before the start event."
        )
    return (last - first) / _MS, 0


@api("acl.rt.event_get_timestamp", "aclrtEventGetTimestamp", "api")
def event_get_timestamp(event: int, /) -> tuple[int, int]:
    stamp, ret = _stamp(event, "given")
    return stamp // 1_000_000, ret


@api("acl.rt.get_event_id", "aclrtGetEventId", "api")
def get_event_id(event: int, /) -> tuple[int, int]:
    found, ret = event_of(event)
    return (0, ret) if found is None else (found.id, 0)


@api("acl.rt.get_event_avail_num", "aclrtGetEventAvailNum", "api")
def get_event_avail_num() -> tuple[int, int]:
    context = current()
    if context is None:
        return 0, errors.RT_CONTEXT_NULL
    return max(0, context.device.soc.limits.events - context.device.events), 0
