"""acl.rt: devices and contexts."""

from __future__ import annotations

from typing import Any

from acl import _strict, errors, handles
from acl._api import api
from acl._common import current, handle_of, system
from acl._rt_limits import device_at
from ascend_sim.runtime.device import Device
from ascend_sim.runtime.host import host_thread


@api("acl.rt.set_device", "aclrtSetDevice", "api")
def set_device(device_id: int, /) -> int:
    from ascend_sim.runtime.context import Context

    device = device_at(device_id)
    if device is None:
        return errors.RT_INVALID_DEVICE
    thread = host_thread()
    with device.scheduler.lock:
        if device.default_context is None:
            thread.now += device.system.costs["set_device"]
            device.default_context = Context(device, False, thread.now, thread.index)
        device.references += 1
        context = device.default_context
    handle_of(context)
    thread.join(context.created)
    thread.context = context
    return 0


@api("acl.rt.reset_device", "aclrtResetDevice", "api")
def reset_device(device_id: int, /) -> int:
    device = device_at(device_id)
    if device is None:
        return errors.RT_INVALID_DEVICE
    with device.scheduler.lock:
        if device.references == 0:
            return errors.fail(
                errors.RT_NEVER_SET,
                f"device {device_id} is not set by this process: reset_device needs as many acl.rt.set_device calls.",
                "acl.rt.set_device failed or was not called, or the device was reset already.",
            )
        device.references -= 1
        if device.references == 0:
            _close(device, everything=not any(c.explicit for c in device.contexts))
    return 0


@api("acl.rt.reset_device_force", "aclrtResetDeviceForce", "api")
def reset_device_force(device_id: int, /) -> int:
    device = device_at(device_id)
    if device is None:
        return errors.RT_INVALID_DEVICE
    with device.scheduler.lock:
        if device.references == 0 and not device.contexts:
            return errors.fail(errors.RT_NEVER_SET, f"device {device_id} is not set by this process.")
        _close(device, everything=True)
    return 0


def _close(device: Device, everything: bool) -> None:
    """Tear down the default context, or all that the process holds on the device."""
    closing = list(device.contexts) if everything else [c for c in device.contexts if not c.explicit]
    if _strict.watch is not None:
        _strict.watch.resets(device, closing, everything)
    for context in closing:
        for stream in context.streams:
            handles.drop(stream.handle)
        handles.drop(context.handle)
        context.close()
    device.default_context = None
    device.references = 0
    if everything:
        device.arena.release_all()
    thread = host_thread()
    if thread.context is not None and not thread.context.alive:
        thread.context = None


@api("acl.rt.get_device", "aclrtGetDevice", "api")
def get_device() -> tuple[int, int]:
    context = current()
    return (0, errors.RT_CONTEXT_NULL) if context is None else (context.device.index, 0)


@api("acl.rt.get_device_count", "aclrtGetDeviceCount", "api")
def get_device_count() -> tuple[int, int]:
    return len(system().devices), 0


@api("acl.rt.get_run_mode", "aclrtGetRunMode", "api")
def get_run_mode() -> tuple[int, int]:
    return system().soc.chip.run_mode, 0


@api("acl.rt.query_device_status", "aclrtQueryDeviceStatus", "api")
def query_device_status(device_id: int, /) -> tuple[int, int]:
    return (0, errors.RT_INVALID_DEVICE) if device_at(device_id) is None else (0, 0)


@api("acl.rt.set_ts_device", "aclrtSetTsDevice", "api")
def set_ts_device(ts_id: int, /) -> int:
    if ts_id not in (0, 1):
        return errors.bad("ts_id", ts_id, "0 (AI Core task scheduler) or 1 (vector core)")
    return 0


@api("acl.rt.get_primary_ctx_state", "aclrtGetPrimaryCtxState", "api")
def get_primary_ctx_state(device_id: int, /) -> tuple[int, int, int]:
    device = device_at(device_id)
    if device is None:
        return 0, 0, errors.RT_INVALID_DEVICE
    return int(device.default_context is not None), 0, 0


@api("acl.rt.get_device_utilization_rate", "aclrtGetDeviceUtilizationRate", "api")
def get_device_utilization_rate(device_id: int, /) -> tuple[dict[str, Any], int]:
    device = device_at(device_id)
    if device is None:
        return {}, errors.RT_INVALID_DEVICE
    busy = 100 if device.cores.busy_until() > host_thread().now else 0
    memory = device.arena.used * 100 // device.arena.capacity
    return {
        "cube_utilization": busy,
        "vector_utilization": busy,
        "aicpu_utilization": 0,
        "memory_utilization": memory,
        "utilization_extend": 0,
    }, 0


@api("acl.rt.device_get_stream_priority_range", "aclrtDeviceGetStreamPriorityRange", "api")
def device_get_stream_priority_range() -> tuple[int, int, int]:
    return (0, 0, errors.RT_CONTEXT_NULL) if current() is None else (7, 0, 0)


@api("acl.rt.device_can_access_peer", "aclrtDeviceCanAccessPeer", "api")
def device_can_access_peer(device_id: int, peer_device_id: int, /) -> tuple[int, int]:
    if device_at(device_id) is None or device_at(peer_device_id) is None:
        return 0, errors.RT_INVALID_DEVICE
    return int(device_id != peer_device_id), 0


@api("acl.rt.device_enable_peer_access", "aclrtDeviceEnablePeerAccess", "api")
def device_enable_peer_access(peer_device_id: int, flags: int, /) -> int:
    context = current()
    if context is None:
        return errors.RT_CONTEXT_NULL
    if flags != 0:
        return errors.bad("flags", flags, "0 (reserved)")
    if device_at(peer_device_id) is None:
        return errors.RT_INVALID_DEVICE
    if peer_device_id == context.device.index:
        return errors.bad("peer_device_id", peer_device_id, "another device than the current one")
    context.device.peers.add(peer_device_id)
    return 0


@api("acl.rt.device_disable_peer_access", "aclrtDeviceDisablePeerAccess", "api")
def device_disable_peer_access(peer_device_id: int, /) -> int:
    context = current()
    if context is None:
        return errors.RT_CONTEXT_NULL
    if device_at(peer_device_id) is None:
        return errors.RT_INVALID_DEVICE
    context.device.peers.discard(peer_device_id)
    return 0


# A device has three numbers: that of this process (user), that among all of the machine (logic), and the chip's.


def _logic(user: int) -> tuple[int, int]:
    return (0, errors.RT_INVALID_DEVICE) if device_at(user) is None else (system().visible[user], 0)


def _user(logic: int) -> tuple[int, int]:
    visible = system().visible
    if logic in visible:
        return visible.index(logic), 0
    ret = errors.bad("logic_dev_id", logic, f"one of {list(visible)}", code=errors.RT_INVALID_DEVICE)
    return 0, ret


@api("acl.rt.get_logic_dev_id_by_user_dev_id", "aclrtGetLogicDevIdByUserDevId", "api")
def get_logic_dev_id_by_user_dev_id(user_dev_id: int, /) -> tuple[int, int]:
    return _logic(user_dev_id)


@api("acl.rt.get_user_dev_id_by_logic_dev_id", "aclrtGetUserDevIdByLogicDevId", "api")
def get_user_dev_id_by_logic_dev_id(logic_dev_id: int, /) -> tuple[int, int]:
    return _user(logic_dev_id)


@api("acl.rt.get_logic_dev_id_by_phy_dev_id", "aclrtGetLogicDevIdByPhyDevId", "api")
def get_logic_dev_id_by_phy_dev_id(phy_dev_id: int, /) -> tuple[int, int]:
    _, ret = _user(phy_dev_id)
    return (0, ret) if ret else (phy_dev_id, 0)


@api("acl.rt.get_phy_dev_id_by_logic_dev_id", "aclrtGetPhyDevIdByLogicDevId", "api")
def get_phy_dev_id_by_logic_dev_id(logic_dev_id: int, /) -> tuple[int, int]:
    _, ret = _user(logic_dev_id)
    return (0, ret) if ret else (logic_dev_id, 0)


# -- contexts ----------------------------------------------------------------------------------------------


@api("acl.rt.create_context", "aclrtCreateContext", "api")
def create_context(device_id: int, /) -> tuple[int, int]:
    from ascend_sim.runtime.context import Context

    device = device_at(device_id)
    if device is None:
        return 0, errors.RT_INVALID_DEVICE
    thread = host_thread()
    with device.scheduler.lock:
        context = Context(device, True, thread.now, thread.index)
    thread.context = context
    return handle_of(context), 0


@api("acl.rt.destroy_context", "aclrtDestroyContext", "api")
def destroy_context(context: int, /) -> int:
    from ascend_sim.runtime.context import Context

    if context == 0:
        return errors.bad("context", 0, "a context of acl.rt.create_context")
    found = handles.get(context, Context)
    if found is None or not found.alive:
        return errors.fail(errors.RT_PARAM_INVALID, handles.story(context, "Context", "acl.rt.create_context"))
    if not found.explicit:
        return errors.fail(
            errors.RT_PARAM_INVALID,
            f"{context:#x} is the default context of device {found.device.index}: only contexts of "
            "acl.rt.create_context may be destroyed, the default one goes with acl.rt.reset_device.",
        )
    with found.device.scheduler.lock:
        for stream in found.streams:
            handles.drop(stream.handle)
        found.close()
    handles.drop(context)
    thread = host_thread()
    if thread.context is found:
        thread.context = None
    return 0


@api("acl.rt.set_context", "aclrtSetCurrentContext", "api")
def set_context(context: int, /) -> int:
    from ascend_sim.runtime.context import Context

    if context == 0:
        return errors.bad("context", 0, "a context of acl.rt.create_context or acl.rt.get_context")
    found = handles.get(context, Context)
    if found is None or not found.alive:
        return errors.fail(errors.RT_PARAM_INVALID, handles.story(context, "Context", "acl.rt.create_context"))
    thread = host_thread()
    thread.join(found.created)
    thread.context = found
    return 0


@api("acl.rt.get_context", "aclrtGetCurrentContext", "api")
def get_context() -> tuple[int, int]:
    context = current()
    return (0, errors.RT_CONTEXT_NULL) if context is None else (handle_of(context), 0)


@api("acl.rt.ctx_get_current_default_stream", "aclrtCtxGetCurrentDefaultStream", "api")
def ctx_get_current_default_stream() -> tuple[int, int]:
    context = current()
    return (0, errors.RT_CONTEXT_NULL) if context is None else (handle_of(context.default_stream), 0)


@api("acl.rt.ctx_set_sys_param_opt", "aclrtCtxSetSysParamOpt", "api")
def ctx_set_sys_param_opt(opt: int, value: int, /) -> int:
    context = current()
    if context is None:
        return errors.RT_CONTEXT_NULL
    context.options[opt] = value
    return 0


@api("acl.rt.ctx_get_sys_param_opt", "aclrtCtxGetSysParamOpt", "api")
def ctx_get_sys_param_opt(opt: int, /) -> tuple[int, int]:
    context = current()
    if context is None:
        return 0, errors.RT_CONTEXT_NULL
    if opt not in context.options:
        return 0, errors.bad("opt", opt, "an option set before with acl.rt.ctx_set_sys_param_opt")
    return context.options[opt], 0
