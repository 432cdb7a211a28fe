"""acl.rt: what a program is told of a task that failed, and memory faults."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from acl import _dump, _op_dump, errors, handles
from acl._api import api
from acl._common import current, failure_code, system
from acl._rt_limits import device_at
from ascend_sim.runtime.stream import failure_listeners

if TYPE_CHECKING:
    from ascend_sim.runtime.stream import Stream, TaskFailure
    from ascend_sim.runtime.tasks import Task

_NONE = 0xFFFFFFFF  # "the device itself is at fault"
_REMEMBERED = 64  # failed tasks that acl.mdl.create_and_get_op_desc can describe
_MAX_ABORT_MS = 36 * 60 * 1000
_MAX_FAULTS = 128


@dataclass(frozen=True)
class ExceptionInfo:
    task: int
    stream: int
    thread: int
    device: int
    code: int


# (device, stream, task) -> what failed, newest last
failed_tasks: OrderedDict[tuple[int, int, int], Task] = OrderedDict()
_callback: Callable[[int], Any] | None = None


def forget_all() -> None:
    """Tests: start over."""
    global _callback
    _callback = None
    failed_tasks.clear()


def failed(stream: Stream, task: Task, failure: TaskFailure) -> None:
    """Remember a failed task and tell the program of it, in the thread that stepped the device."""
    key = (stream.device.index, stream.id, task.sequence)
    failed_tasks[key] = task
    if len(failed_tasks) > _REMEMBERED:
        failed_tasks.popitem(last=False)
    if _dump.state.config is not None and _dump.state.config.failures:
        _op_dump.failed(_dump.state.config, stream, task)
    if _callback is None:
        return
    code = failure_code(failure.kind)
    info = handles.new(ExceptionInfo(task.sequence, stream.id, task.thread, stream.device.index, code))
    try:
        _callback(info)
    except Exception:  # as the interpreter does for an exception in a C callback
        sys.excepthook(*sys.exc_info())
    finally:
        handles.drop(info)


failure_listeners.append(failed)


@api("acl.rt.set_exception_info_callback", "aclrtSetExceptionInfoCallback")
def set_exception_info_callback(function: object = None, /) -> int:
    global _callback
    if function is not None and not callable(function):
        raise TypeError(f"expected a function or None, got {type(function).__name__}")
    _callback = function
    return 0


def _info(handle: int) -> ExceptionInfo | None:
    found = handles.get(handle, ExceptionInfo)
    if found is None:
        errors.fail(
            errors.INVALID_PARAM, handles.story(handle, "ExceptionInfo", "the callback of set_exception_info_callback")
        )
    return found


@api("acl.rt.get_task_id_from_exception_info", "aclrtGetTaskIdFromExceptionInfo")
def get_task_id_from_exception_info(info: int, /) -> int:
    found = _info(info)
    return _NONE if found is None else found.task


@api("acl.rt.get_stream_id_from_exception_info", "aclrtGetStreamIdFromExceptionInfo")
def get_stream_id_from_exception_info(info: int, /) -> int:
    found = _info(info)
    return _NONE if found is None else found.stream


@api("acl.rt.get_thread_id_from_exception_info", "aclrtGetThreadIdFromExceptionInfo")
def get_thread_id_from_exception_info(info: int, /) -> int:
    found = _info(info)
    return _NONE if found is None else found.thread


@api("acl.rt.get_device_id_from_exception_info", "aclrtGetDeviceIdFromExceptionInfo")
def get_device_id_from_exception_info(info: int, /) -> int:
    found = _info(info)
    return _NONE if found is None else found.device


@api("acl.rt.get_error_code_from_exception_info", "aclrtGetErrorCodeFromExceptionInfo")
def get_error_code_from_exception_info(info: int, /) -> int:
    found = _info(info)
    return _NONE if found is None else found.code


@api("acl.rt.device_task_abort", "aclrtDeviceTaskAbort", "sync")
def device_task_abort(device_id: int, timeout: int, /) -> int:
    device = device_at(device_id)
    if device is None:
        return errors.RT_INVALID_DEVICE
    if not 0 <= timeout <= _MAX_ABORT_MS:
        return errors.bad("timeout", timeout, f"0 (no limit) to {_MAX_ABORT_MS} ms", code=errors.RT_PARAM_INVALID)
    if device.references == 0 and not device.contexts:
        return errors.fail(errors.RT_NEVER_SET, f"device {device_id} is not set by this process.")
    with device.scheduler.lock:
        for stream in list(device.streams.values()):
            stream.abort()
    return 0


# A simulated memory has no faults of its own: the list is empty, and everything in it can be repaired.


@api("acl.rt.get_mem_uce_info", "aclrtGetMemUceInfo", "api")
def get_mem_uce_info(device_id: int, array_size: int, /) -> tuple[list[dict[str, int]], int]:
    if device_at(device_id) is None:
        return [], errors.RT_INVALID_DEVICE
    if not 0 < array_size <= _MAX_FAULTS:
        return [], errors.bad("array_size", array_size, f"1..{_MAX_FAULTS}", code=errors.RT_PARAM_INVALID)
    return [], 0


@api("acl.rt.mem_uce_repair", "aclrtMemUceRepair", "api")
def mem_uce_repair(device_id: int, faults: list[Any], /) -> int:
    if device_at(device_id) is None:
        return errors.RT_INVALID_DEVICE
    if not 0 < len(faults) <= _MAX_FAULTS:
        return errors.bad("list", faults, f"1 to {_MAX_FAULTS} faults", code=errors.RT_PARAM_INVALID)
    for fault in faults:
        if not isinstance(fault, dict) or not fault.get("addr"):
            return errors.bad("list", fault, 'dicts with "addr" and "len"', code=errors.RT_PARAM_INVALID)
        if system().memory.find(fault["addr"]) is None:
            return errors.fail(errors.RT_PARAM_INVALID, f"{fault['addr']:#x} is not device memory.")
    return 0


# -- groups of cores ---------------------------------------------------------------------------------------

_NO_GROUPS = "groups of cores exist only where the program runs on the chip's own CPUs (Atlas inference series)."


@api("acl.rt.set_group", "aclrtSetGroup", "api", supported=False)
def set_group(group_id: int, /) -> int:
    return errors.RT_CONTEXT_NULL if current() is None else errors.fail(errors.RT_FEATURE_NOT_SUPPORT, _NO_GROUPS)


@api("acl.rt.get_group_count", "aclrtGetGroupCount", "api", supported=False)
def get_group_count() -> tuple[int, int]:
    return 0, errors.fail(errors.RT_FEATURE_NOT_SUPPORT, _NO_GROUPS)


@api("acl.rt.create_group_info", "aclrtCreateGroupInfo", supported=False)
def create_group_info() -> int:
    errors.fail(errors.RT_FEATURE_NOT_SUPPORT, _NO_GROUPS)
    return 0


@api("acl.rt.destroy_group_info", "aclrtDestroyGroupInfo", supported=False)
def destroy_group_info(info: int, /) -> int:
    return errors.fail(errors.RT_FEATURE_NOT_SUPPORT, _NO_GROUPS)


@api("acl.rt.get_all_group_info", "aclrtGetAllGroupInfo", "api", supported=False)
def get_all_group_info(info: int, /) -> int:
    return errors.fail(errors.RT_FEATURE_NOT_SUPPORT, _NO_GROUPS)


@api("acl.rt.get_group_info_detail", "aclrtGetGroupInfoDetail", "api", supported=False)
def get_group_info_detail(info: int, group_id: int, attr: int, /) -> tuple[int, int]:
    return 0, errors.fail(errors.RT_FEATURE_NOT_SUPPORT, _NO_GROUPS)
