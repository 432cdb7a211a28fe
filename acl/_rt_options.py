"""acl.rt: switches, limits and error queries that only keep what they are told."""

from __future__ import annotations

import hashlib
from typing import Any

from acl import errors
from acl._api import api
from acl._common import current, current_device, on_stream, system
from ascend_sim.runtime.host import host_thread
from ascend_sim.runtime.stream import Stream

_FAILURE_MODE, _OVERFLOW, _TAG = 1, 2, 3  # attributes of a stream ("hicann/runtime", aclrtStreamAttr)
_ATTRIBUTES = {_FAILURE_MODE: "failureMode", _OVERFLOW: "overflowSwitch", _TAG: "userCustomTag"}
_CANN_ATTRIBUTES = 3  # infinity and NaN on overflow, bfloat16, operator binaries ("hicann/runtime", aclCannAttr)


@api("acl.rt.peek_at_last_error", "aclrtPeekAtLastError")
def peek_at_last_error(level: int, /) -> int:
    return host_thread().last_error


@api("acl.rt.get_last_error", "aclrtGetLastError")
def get_last_error(level: int, /) -> int:
    thread = host_thread()
    code, thread.last_error = thread.last_error, 0
    return code


@api("acl.rt.get_thread_last_task_id", "aclrtGetThreadLastTaskId")
def get_thread_last_task_id() -> tuple[int, int]:
    return host_thread().last_task, 0


@api("acl.rt.set_device_sat_mode", "aclrtSetDeviceSatMode", "api")
def set_device_sat_mode(mode: int, /) -> int:
    device = current_device()
    if device is None:
        return errors.RT_CONTEXT_NULL
    if mode not in (0, 1):
        return errors.bad("mode", mode, "0 (saturate) or 1 (infinity and NaN)")
    device.options["sat_mode"] = mode
    return 0


@api("acl.rt.get_device_sat_mode", "aclrtGetDeviceSatMode", "api")
def get_device_sat_mode() -> tuple[int, int]:
    device = current_device()
    if device is None:
        return 0, errors.RT_CONTEXT_NULL
    return device.options.get("sat_mode", 1 if device.soc.chip.split_cores else 0), 0


@api("acl.rt.set_sys_param_opt", "aclrtSetSysParamOpt", "api")
def set_sys_param_opt(opt: int, value: int, /) -> int:
    if opt < 0:
        return errors.bad("opt", opt, "a system parameter, at least 0")
    system().options[opt] = value
    return 0


@api("acl.rt.get_sys_param_opt", "aclrtGetSysParamOpt", "api")
def get_sys_param_opt(opt: int, /) -> tuple[int, int]:
    options = system().options
    if opt not in options:
        return 0, errors.bad("opt", opt, "a parameter set before with acl.rt.set_sys_param_opt")
    return options[opt], 0


def _set_attribute(stream: int, attribute: int, value: int) -> int:
    found, ret = on_stream(stream)
    if found is None:
        return ret
    if attribute == _FAILURE_MODE:
        if found.context is not None and found is found.context.default_stream:
            return errors.fail(errors.RT_PARAM_INVALID, "the default stream has no failure mode.")
        found.stops_on_failure = value == 1
    if attribute == _OVERFLOW and value == 1:
        found.device.watches_overflow = True
    found.attributes[attribute] = value
    return 0


def _attribute(stream: int, attribute: int) -> tuple[Stream | None, int, int]:
    found, ret = on_stream(stream)
    return (None, 0, ret) if found is None else (found, found.attributes.get(attribute, 0), 0)


@api("acl.rt.set_stream_overflow_switch", "aclrtSetStreamOverflowSwitch", "api")
def set_stream_overflow_switch(stream: int, flag: int, /) -> int:
    if flag not in (0, 1):
        return errors.bad("flag", flag, "0 (off) or 1 (on)")
    return _set_attribute(stream, _OVERFLOW, flag)


@api("acl.rt.get_stream_overflow_switch", "aclrtGetStreamOverflowSwitch", "api")
def get_stream_overflow_switch(stream: int, /) -> tuple[int, int]:
    return _attribute(stream, _OVERFLOW)[1:]


@api("acl.rt.set_stream_failure_mode", "aclrtSetStreamFailureMode", "api")
def set_stream_failure_mode(stream: int, mode: int, /) -> int:
    if mode not in (0, 1):
        return errors.bad("mode", mode, "0 (go on) or 1 (stop on failure)")
    return _set_attribute(stream, _FAILURE_MODE, mode)


@api("acl.rt.set_stream_attribute", "aclrtSetStreamAttribute", "api")
def set_stream_attribute(stream: int, attr: int, value: dict[str, Any], /) -> int:
    if attr not in _ATTRIBUTES:
        return errors.bad("attr", attr, f"one of {sorted(_ATTRIBUTES)}")
    given = value.get(_ATTRIBUTES[attr])
    if not isinstance(given, int):
        return errors.bad("value", value, f'a dict with the int "{_ATTRIBUTES[attr]}"')
    return _set_attribute(stream, attr, given)


@api("acl.rt.get_stream_attribute", "aclrtGetStreamAttribute", "api")
def get_stream_attribute(stream: int, attr: int, /) -> tuple[dict[str, Any], int]:
    if attr not in _ATTRIBUTES:
        return {}, errors.bad("attr", attr, f"one of {sorted(_ATTRIBUTES)}")
    found, value, ret = _attribute(stream, attr)
    return ({}, ret) if found is None else ({_ATTRIBUTES[attr]: value}, 0)


@api("acl.rt.device_get_uuid", "aclrtDeviceGetUuid", "api")
def device_get_uuid(device_id: int, /) -> tuple[dict[str, Any], int]:
    machine = system()
    if not 0 <= device_id < len(machine.devices):
        return {}, errors.bad("device_id", device_id, f"0..{len(machine.devices) - 1}", code=errors.RT_INVALID_DEVICE)
    digest = hashlib.sha256(f"{machine.soc.name}/{device_id}".encode()).digest()
    return {"bytes": list(digest[:16])}, 0


@api("acl.rt.device_get_bare_tgid", "aclrtDeviceGetBareTgid", "api")
def device_get_bare_tgid() -> tuple[int, int]:
    import os

    return (0, errors.RT_CONTEXT_NULL) if current() is None else (os.getpid(), 0)


@api("acl.rt.device_peer_access_status", "aclrtDevicePeerAccessStatus", "api")
def device_peer_access_status(device_id: int, peer_device_id: int, /) -> tuple[int, int]:
    machine = system()
    for value in (device_id, peer_device_id):
        if not 0 <= value < len(machine.devices):
            expected = f"0..{len(machine.devices) - 1}"
            return 0, errors.bad("device_id", value, expected, code=errors.RT_INVALID_DEVICE)
    return int(peer_device_id in machine.devices[device_id].peers), 0


# -- what software and chip can do -------------------------------------------------------------------------


def _has(attribute: int) -> bool:
    """Infinity and NaN, and bfloat16, came with cores that have their own vector units; binaries are everywhere."""
    return attribute == 2 or system().soc.chip.split_cores


@api("acl.get_cann_attribute_list", "aclGetCannAttributeList", "api")
def get_cann_attribute_list() -> tuple[list[int], int, int]:
    found = [a for a in range(_CANN_ATTRIBUTES) if _has(a)]
    return found, len(found), 0


@api("acl.get_cann_attribute", "aclGetCannAttribute", "api")
def get_cann_attribute(attr: int, /) -> tuple[int, int]:
    if not 0 <= attr < _CANN_ATTRIBUTES:
        return 0, errors.bad("attr", attr, "0 (infinity and NaN), 1 (bfloat16) or 2 (operator binaries)")
    return int(_has(attr)), 0


@api("acl.get_device_capability", "aclGetDeviceCapability", "api")
def get_device_capability(device_id: int, device_info: int, /) -> tuple[int, int]:
    machine = system()
    if not 0 <= device_id < len(machine.devices):
        return 0, errors.bad("device_id", device_id, f"0..{len(machine.devices) - 1}", code=errors.RT_INVALID_DEVICE)
    soc = machine.soc
    figures = {0: soc.cores.ai_core_count, 1: soc.cores.vector_core_count, 2: soc.memory.l2_bytes}
    if device_info not in figures:
        return 0, errors.bad("device_info", device_info, "0 (AI cores), 1 (vector cores) or 2 (bytes of L2)")
    return figures[device_info], 0
