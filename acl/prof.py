"""acl.prof: start and stop of profiling, step marks."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from acl import _names, _prof_steps, _prof_subscribe, errors, handles
from acl._api import api
from acl._common import system
from ascend_sim.runtime.host import host_thread
from ascend_sim.runtime.observe import Event

_METRICS = {*range(9), 255}

for _part in (_prof_steps, _prof_subscribe):
    for _name, _value in vars(_part).items():
        if getattr(_value, "acl_name", "") == f"acl.prof.{_name}":
            globals()[_name] = _value


@dataclass
class Config:
    """What `create_config` was given."""

    devices: list[int]
    metrics: int
    events: int
    mask: int
    running: bool = False


@dataclass
class Stamp:
    message: str = ""
    start: int = -1


@dataclass
class _State:
    path: str | None = None
    options: dict[int, str] = field(default_factory=dict)
    session: Any = None
    ranges: dict[int, Stamp] = field(default_factory=dict)
    stack: list[Stamp] = field(default_factory=list)
    next_range: int = 1


_state = _State()


def forget_all() -> None:
    """Tests: start over."""
    global _state
    _state = _State()
    _prof_subscribe.forget_all()


def initialized() -> bool:
    """Whether profiling into files was initialized."""
    return _state.path is not None


def _not_ready() -> int:
    return errors.fail(errors.UNINITIALIZE, "profiling is not initialized.", "acl.prof.init(path) comes first.")


@api("acl.prof.init", "aclprofInit")
def init(result_path: str, /) -> int:
    if not result_path:
        return errors.bad("result_path", result_path, "a directory")
    if _prof_subscribe.subscriptions:
        return errors.fail(
            errors.PROF_API_CONFLICT,
            f"models {', '.join(map(str, _prof_subscribe.subscriptions))} are subscribed: profiling into files does "
            "not go with that.",
            "acl.prof.model_unsubscribe ends a subscription.",
        )
    if _state.path is not None:
        return errors.fail(errors.REPEAT_INITIALIZE, f"profiling into {_state.path!r} is initialized already.")
    try:
        os.makedirs(result_path, exist_ok=True)
    except OSError as error:
        return errors.fail(errors.INVALID_FILE, f"directory {result_path!r} cannot be made: {error}.")
    if not os.access(result_path, os.W_OK):
        return errors.fail(errors.INVALID_FILE, f"directory {result_path!r} cannot be written.")
    _state.path = result_path
    return 0


@api("acl.prof.finalize", "aclprofFinalize")
def finalize() -> int:
    if _state.path is None:
        return _not_ready()
    _stop_session()
    _state.path = None
    return 0


@api("acl.prof.create_config", "aclprofCreateConfig")
def create_config(device_ids: list[int], aicore_metrics: int, aicore_events: int, data_type_mask: int, /) -> int:
    count = len(system().devices)
    if not device_ids or any(not isinstance(d, int) or not 0 <= d < count for d in device_ids):
        errors.bad("device_ids", device_ids, f"a list of devices 0..{count - 1}")
        return 0
    if aicore_metrics not in _METRICS:
        errors.bad("aicore_metrics", aicore_metrics, "0..8 or 255 (none)")
        return 0
    return handles.new(Config(list(device_ids), aicore_metrics, aicore_events, data_type_mask))


def _config(handle: int) -> Config | None:
    found = handles.get(handle, Config)
    if found is None:
        errors.fail(errors.INVALID_PARAM, handles.story(handle, "profiling config", "acl.prof.create_config"))
    return found


@api("acl.prof.destroy_config", "aclprofDestroyConfig")
def destroy_config(config: int, /) -> int:
    if _config(config) is None:
        return errors.INVALID_PARAM
    handles.drop(config)
    return 0


@api("acl.prof.set_config", "aclprofSetConfig")
def set_config(config_type: int, value: str, /) -> int:
    if not value:
        return errors.bad("value", value, "a text")
    _state.options[config_type] = value
    return 0


@api("acl.prof.start", "aclprofStart", "api")
def start(config: int, /) -> int:
    if _state.path is None:
        return _not_ready()
    found = _config(config)
    if found is None:
        return errors.INVALID_PARAM
    if found.running:
        return errors.fail(errors.INVALID_PARAM, "profiling with this config runs already.", "acl.prof.stop ends it.")
    found.running = True
    _start_session(_state.path, found)
    return 0


@api("acl.prof.stop", "aclprofStop", "api")
def stop(config: int, /) -> int:
    if _state.path is None:
        return _not_ready()
    found = _config(config)
    if found is None:
        return errors.INVALID_PARAM
    if not found.running:
        problem = "profiling with this config does not run."
        return errors.fail(errors.INVALID_PARAM, problem, "acl.prof.start begins it.")
    found.running = False
    _stop_session()
    return 0


def _start_session(path: str, config: Config) -> None:
    if _state.session is None:
        from acl._profile import Session
        from ascend_sim.profiling.msprof_switches import of_config

        _state.session = Session(path, of_config(config.metrics, config.mask, _state.options))


def _stop_session() -> None:
    session, _state.session = _state.session, None
    if session is not None:
        session.close()


# -- marks -------------------------------------------------------------------------------------------------


def _mark(name: str, start: int, end: int, event: str = "marker") -> None:
    machine, thread = system(), host_thread()
    if machine.observers.active:
        machine.observers.emit(Event("host", name, -1, -1, 0, start, end, thread.index, {"mark": True, "event": event}))


def _stamp(handle: int) -> Stamp | None:
    found = handles.get(handle, Stamp)
    if found is None:
        errors.fail(errors.INVALID_PARAM, handles.story(handle, "stamp", "acl.prof.create_stamp"))
    return found


@api("acl.prof.create_stamp", "aclprofCreateStamp")
def create_stamp() -> int:
    return handles.new(Stamp())


@api("acl.prof.destroy_stamp", "aclprofDestroyStamp")
def destroy_stamp(stamp: int, /) -> None:
    if _stamp(stamp) is not None:
        handles.drop(stamp)


@api("acl.prof.set_stamp_trace_message", "aclprofSetStampTraceMessage")
def set_stamp_trace_message(stamp: int, msg: str, length: int, /) -> int:
    found = _stamp(stamp)
    if found is None:
        return errors.INVALID_PARAM
    if not 0 < length <= 128:
        return errors.bad("len", length, "1..128")
    found.message = msg[:length]
    return 0


@api("acl.prof.mark", "aclprofMark")
def mark(stamp: int, /) -> int:
    found = _stamp(stamp)
    if found is None:
        return errors.INVALID_PARAM
    now = host_thread().now
    _mark(found.message, now, now)
    return 0


@api("acl.prof.push", "aclprofPush")
def push(stamp: int, /) -> int:
    found = _stamp(stamp)
    if found is None:
        return errors.INVALID_PARAM
    found.start = host_thread().now
    _state.stack.append(found)
    return 0


@api("acl.prof.pop", "aclprofPop")
def pop() -> int:
    if not _state.stack:
        return errors.fail(errors.INVALID_PARAM, "no range is open.", "acl.prof.push opens one.")
    found = _state.stack.pop()
    _mark(found.message, found.start, host_thread().now, "push/pop")
    return 0


@api("acl.prof.range_start", "aclprofRangeStart")
def range_start(stamp: int, /) -> tuple[int, int]:
    found = _stamp(stamp)
    if found is None:
        return 0, errors.INVALID_PARAM
    range_id = _state.next_range
    _state.next_range += 1
    found.start = host_thread().now
    _state.ranges[range_id] = found
    return range_id, 0


@api("acl.prof.range_stop", "aclprofRangeStop")
def range_stop(range_id: int, /) -> int:
    found = _state.ranges.pop(range_id, None)
    if found is None:
        return errors.bad("range_id", range_id, "an id of acl.prof.range_start that was not stopped yet")
    _mark(found.message, found.start, host_thread().now, "start/end")
    return 0


__all__ = list(_names.complete(globals(), "prof"))


def __dir__() -> list[str]:
    return list(__all__)


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
