"""acl.rt: what a device is, and how much of it a process or a stream may use."""

from __future__ import annotations

from acl import errors
from acl._api import api
from acl._common import current, current_device, on_stream, system
from ascend_sim.runtime.device import Device
from ascend_sim.runtime.host import host_thread
from ascend_sim.runtime.link import picoseconds
from ascend_sim.runtime.stream import Stream
from ascend_sim.runtime.stream_memory import StoreTask

_CUBE, _VECTOR = 0, 1  # resources that may be limited
_HCCS, _PHB = 0x01, 0x08  # how two devices are connected
_STATUS_BYTES = 64  # of get_overflow_status

# Attributes of a device ("hicann/runtime", aclrtDevAttr). 202..212 belong to SIMT, which no chip here has: they are 0.
_SIMT = range(202, 213)
_NUMBERS_OF_BOARD = range(401, 406)  # SMP, chip, and the numbers of a super pod
_PRIVILEGE, _MAINBOARD, _CONNECT, _FORM = 406, 407, 408, 409


def device_at(device_id: int) -> Device | None:
    """The device with this number; None (and 107001 explained) when there is none."""
    machine = system()
    if 0 <= device_id < len(machine.devices):
        return machine.devices[device_id]
    errors.bad(
        "device_id",
        device_id,
        f"0..{len(machine.devices) - 1}" if len(machine.devices) else "a device: none is visible",
        "acl.rt.get_device_count says how many devices there are; ASCEND_SIM_DEVICES and ASCEND_RT_VISIBLE_DEVICES "
        "set it.",
        errors.RT_INVALID_DEVICE,
    )
    return None


def _attribute(device: Device, attr: int) -> int | None:
    soc = device.soc
    split = soc.chip.split_cores
    values = {
        1: soc.cores.ai_cpu_count,
        101: soc.cores.ai_core_count,
        102: soc.cores.ai_core_count if split else 0,
        201: soc.cores.vector_core_count,
        301: soc.memory.capacity_bytes,
        302: soc.memory.l2_bytes,
        402: device.index,
        501: 0,
        601: soc.chip.npu_arch,
    }
    if attr in values:
        return values[attr]
    if attr in _SIMT or attr in _NUMBERS_OF_BOARD or attr in (_PRIVILEGE, _MAINBOARD):
        return 0
    return None


@api("acl.rt.get_device_info", "aclrtGetDeviceInfo", "api")
def get_device_info(device_id: int, attr: int, /) -> tuple[int, int]:
    device = device_at(device_id)
    if device is None:
        return 0, errors.RT_INVALID_DEVICE
    value = _attribute(device, attr)
    if value is not None:
        return value, 0
    if attr in (_CONNECT, _FORM):
        return 0, errors.fail(errors.RT_FEATURE_NOT_SUPPORT, f"{device.soc.name} does not tell attribute {attr}.")
    return 0, errors.bad("attr", attr, "an attribute of a device, such as 101 (number of AI cores)", code=107000)


@api("acl.rt.get_device_capability", "aclrtGetDeviceCapability", "api")
def get_device_capability(device_id: int, feature_type: int, /) -> tuple[int, int]:
    device = device_at(device_id)
    if device is None:
        return 0, errors.RT_INVALID_DEVICE
    if feature_type == 1:  # tasks of AI cores can be changed after they were enqueued
        return int(device.soc.chip.split_cores), 0
    if feature_type == 21:  # events of queues between devices
        return 0, 0
    expected = "1 (update of AI Core tasks) or 21 (queue events between devices)"
    return 0, errors.bad("feature_type", feature_type, expected, code=errors.RT_PARAM_INVALID)


@api("acl.rt.get_devices_topo", "aclrtGetDevicesTopo", "api")
def get_devices_topo(device_id: int, other_device_id: int, /) -> tuple[int, int]:
    device, other = device_at(device_id), device_at(other_device_id)
    if device is None or other is None:
        return 0, errors.RT_INVALID_DEVICE
    if device is other:
        return 0, errors.bad("other_device_id", other_device_id, "another device", code=errors.RT_PARAM_INVALID)
    return (_HCCS if device.soc.memory.kind == "HBM" else _PHB), 0


# -- how many cores operators may use ----------------------------------------------------------------------


def _hardware(device: Device) -> dict[int, int]:
    cores = device.soc.cores
    return {_CUBE: cores.ai_core_count, _VECTOR: cores.vector_core_count}


def _check(kind: int, value: int | None, device: Device) -> int:
    if kind not in (_CUBE, _VECTOR):
        return errors.bad("type", kind, "0 (AI or cube cores) or 1 (vector cores)", code=errors.RT_PARAM_INVALID)
    most = _hardware(device)[kind]
    if value is not None and not 1 <= value <= max(1, most):
        return errors.bad("value", value, f"1..{most}, the cores of {device.soc.name}", code=errors.RT_PARAM_INVALID)
    return 0


def _limit(device: Device, stream: Stream | None, kind: int) -> int:
    for limits in (stream.limits if stream is not None else {}, device.limits):
        if kind in limits:
            return limits[kind]
    return _hardware(device)[kind]


@api("acl.rt.get_device_res_limit", "aclrtGetDeviceResLimit", "api")
def get_device_res_limit(device_id: int, type_: int, /) -> tuple[int, int]:
    device = device_at(device_id)
    if device is None:
        return 0, errors.RT_INVALID_DEVICE
    ret = _check(type_, None, device)
    return (0, ret) if ret else (_limit(device, None, type_), 0)


@api("acl.rt.set_device_res_limit", "aclrtSetDeviceResLimit", "api")
def set_device_res_limit(device_id: int, type_: int, value: int, /) -> int:
    device = device_at(device_id)
    if device is None:
        return errors.RT_INVALID_DEVICE
    ret = _check(type_, value, device)
    if ret == 0:
        device.limits[type_] = value
    return ret


@api("acl.rt.reset_device_res_limit", "aclrtResetDeviceResLimit", "api")
def reset_device_res_limit(device_id: int, /) -> int:
    device = device_at(device_id)
    if device is None:
        return errors.RT_INVALID_DEVICE
    device.limits.clear()
    return 0


@api("acl.rt.get_stream_res_limit", "aclrtGetStreamResLimit", "api")
def get_stream_res_limit(stream: int, type_: int, /) -> tuple[int, int]:
    found, ret = on_stream(stream)
    if found is None:
        return 0, ret
    ret = _check(type_, None, found.device)
    return (0, ret) if ret else (_limit(found.device, found, type_), 0)


@api("acl.rt.set_stream_res_limit", "aclrtSetStreamResLimit", "api")
def set_stream_res_limit(stream: int, type_: int, value: int, /) -> int:
    found, ret = on_stream(stream)
    if found is None:
        return ret
    ret = _check(type_, value, found.device)
    if ret == 0:
        found.limits[type_] = value
    return ret


@api("acl.rt.reset_stream_res_limit", "aclrtResetStreamResLimit", "api")
def reset_stream_res_limit(stream: int, /) -> int:
    found, ret = on_stream(stream)
    if found is None:
        return ret
    found.limits.clear()
    return 0


@api("acl.rt.use_stream_res_in_current_thread", "aclrtUseStreamResInCurrentThread", "api")
def use_stream_res_in_current_thread(stream: int, /) -> int:
    found, ret = on_stream(stream)
    if found is None:
        return ret
    host_thread().limited_by = found
    return 0


@api("acl.rt.unuse_stream_res_in_current_thread", "aclrtUnuseStreamResInCurrentThread", "api")
def unuse_stream_res_in_current_thread(stream: int, /) -> int:
    found, ret = on_stream(stream)
    if found is None:
        return ret
    thread = host_thread()
    if thread.limited_by is found:
        thread.limited_by = None
    return 0


@api("acl.rt.get_res_in_current_thread", "aclrtGetResInCurrentThread", "api")
def get_res_in_current_thread(type_: int, /) -> tuple[int, int]:
    device = current_device()
    if device is None:
        return 0, errors.RT_CONTEXT_NULL
    ret = _check(type_, None, device)
    return (0, ret) if ret else (_limit(device, host_thread().limited_by, type_), 0)


def cores_of_thread(device: Device) -> tuple[int, int] | None:
    """(AI or cube cores, vector cores) that operators of the calling thread may use; None when nothing is limited."""
    stream = host_thread().limited_by
    if not device.limits and (stream is None or not stream.limits):
        return None
    return _limit(device, stream, _CUBE), _limit(device, stream, _VECTOR)


# -- overflow ----------------------------------------------------------------------------------------------


@api("acl.rt.get_overflow_status", "aclrtGetOverflowStatus", "launch")
def get_overflow_status(out_addr: int, out_size: int, stream: int, /) -> int:
    from acl import _model

    found, ret = on_stream(stream)
    if found is None:
        return ret
    if out_size != _STATUS_BYTES:
        return errors.bad("out_size", out_size, f"{_STATUS_BYTES}", code=errors.RT_PARAM_INVALID)
    place = _model.where(out_addr, out_size, "out_addr", True)
    if isinstance(place, int):
        return place
    device = found.device

    def status() -> bytes:
        return int(device.overflowed).to_bytes(4, "little") + bytes(_STATUS_BYTES - 4)

    found.submit(StoreTask("overflow status", out_addr, status, place.block), host_thread())
    return 0


@api("acl.rt.reset_overflow_status", "aclrtResetOverflowStatus", "launch")
def reset_overflow_status(stream: int, /) -> int:
    found, ret = on_stream(stream)
    if found is None:
        return ret
    device = found.device
    device.watches_overflow = True

    def clear() -> bytes:
        device.overflowed = False
        return b""

    found.submit(StoreTask("overflow reset", 0, clear, None), host_thread())
    return 0


# -- time-outs of operators --------------------------------------------------------------------------------

# Seconds, AI Core operators ("hicann/runtime" api_ref/12_execution_control): without a setting, and at most.
_STEPS = 254  # a time-out is this many intervals at most
_DEFAULT_S = {"c220": 1091, "m300": 1091, "m200": 547, "c100": 68}
_MOST_S = {"c220": 1091, "m300": 1091, "m200": 547, "c100": 2176}


def _seconds(table: dict[str, int]) -> int:
    return table.get(system().soc.chip.arch, table["m200"])


def interval_us() -> int:
    """The steps in which the hardware counts an operator's time-out: the longest one has 254 of them."""
    return round(_seconds(_MOST_S) * 1_000_000 / _STEPS)


@api("acl.rt.get_op_timeout_interval", "aclrtGetOpTimeOutInterval", "api")
def get_op_timeout_interval() -> tuple[int, int]:
    return interval_us(), 0


def _set_timeout(us: int) -> int:
    """The time-out (us) that takes effect; 0 asks for the longest."""
    step = interval_us()
    actual = step * (min(_STEPS, -(-us // step)) if us else _STEPS)
    system().op_timeout = actual * picoseconds(1.0)
    return actual


@api("acl.rt.set_op_execute_timeout_v2", "aclrtSetOpExecuteTimeOutV2", "api")
def set_op_execute_timeout_v2(timeout_us: int, /) -> tuple[int, int]:
    if timeout_us < 0:
        return 0, errors.bad("timeout", timeout_us, "0 (the longest) or a number of us", code=errors.RT_PARAM_INVALID)
    return _set_timeout(timeout_us), 0


@api("acl.rt.set_op_execute_time_out", "aclrtSetOpExecuteTimeOut", "api")
def set_op_execute_time_out(timeout_s: int, /) -> int:
    if current() is None:
        return errors.RT_CONTEXT_NULL
    if timeout_s < 0:
        return errors.bad("timeout", timeout_s, "0 (the longest) or a number of seconds", code=errors.RT_PARAM_INVALID)
    _set_timeout(timeout_s * 1_000_000)
    return 0


@api("acl.rt.get_op_execute_timeout", "aclrtGetOpExecuteTimeout", "api")
def get_op_execute_timeout() -> tuple[int, int]:
    machine = system()
    if machine.op_timeout:
        return machine.op_timeout // 1_000_000_000, 0
    return _seconds(_DEFAULT_S) * 1000, 0


@api("acl.rt.set_op_wait_timeout", "aclrtSetOpWaitTimeout", "api")
def set_op_wait_timeout(timeout_s: int, /) -> int:
    if current() is None:
        return errors.RT_CONTEXT_NULL
    if timeout_s < 0:
        return errors.bad("timeout", timeout_s, "0 (no limit) or a number of seconds", code=errors.RT_PARAM_INVALID)
    system().wait_timeout = timeout_s * 1_000_000_000_000
    return 0


# -- what no chip here has ---------------------------------------------------------------------------------

_SIMT_ONLY = "it limits the stack of SIMT operators, which this chip does not have."


@api("acl.rt.device_set_limit", "aclrtDeviceSetLimit", "api", supported=False)
def device_set_limit(limit: int, value: int, /) -> int:
    return errors.fail(errors.RT_FEATURE_NOT_SUPPORT, _SIMT_ONLY)


@api("acl.rt.device_get_limit", "aclrtDeviceGetLimit", "api", supported=False)
def device_get_limit(limit: int, /) -> tuple[int, int]:
    return 0, errors.fail(errors.RT_FEATURE_NOT_SUPPORT, _SIMT_ONLY)
