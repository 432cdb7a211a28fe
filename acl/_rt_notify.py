"""acl.rt: notifies, flags that one stream sets and another waits for and clears."""

from __future__ import annotations

import os
import secrets

from acl import errors, handles
from acl._api import api
from acl._common import current, on_stream, system
from ascend_sim.runtime.conditions import ConditionTask, Notify, NotifyRecordTask
from ascend_sim.runtime.host import host_thread

_S = 1_000_000_000_000  # ps
_MAX_TIMEOUT = 0xFFFFFFFF  # a 32-bit number of seconds in the C interface
KEY_LENGTH = 65  # characters of a shared name with its end
_NO_PID_CHECK = 0x2  # flag of notify_get_export_key
_PEER_ACCESS = 0x1  # flag of notify_import_by_key

# notifies of a device by architecture ("hicann/runtime" api_ref/08_notify_management)
_LIMITS = {"c220": 8192, "m300": 2048, "m200": 1024, "c100": 1024}

_shared: dict[str, Notify] = {}
_allowed: dict[str, set[int] | None] = {}  # processes that may import a key; None: any


def forget_all() -> None:
    """Tests: start over."""
    _shared.clear()
    _allowed.clear()


def _notify(handle: int) -> Notify | None:
    if handle == 0:
        errors.bad("notify", 0, "a notify of acl.rt.create_notify")
        return None
    found = handles.get(handle, Notify)
    if found is None:
        errors.fail(errors.RT_PARAM_INVALID, handles.story(handle, "Notify", "acl.rt.create_notify"))
    return found


def _code(handle: int) -> int:
    return errors.INVALID_PARAM if handle == 0 else errors.RT_PARAM_INVALID


@api("acl.rt.create_notify", "aclrtCreateNotify", "api")
def create_notify(flag: int, /) -> tuple[int, int]:
    context = current()
    if context is None:
        return 0, errors.RT_CONTEXT_NULL
    if flag not in (0, 1):
        return 0, errors.bad("flag", flag, "0 (default) or 1 (used by the device only)", "", errors.RT_PARAM_INVALID)
    device = context.device
    limit = _LIMITS.get(device.soc.chip.arch, 1024)
    with device.scheduler.lock:
        if device.notifies >= limit:
            return 0, errors.fail(
                errors.RT_NO_NOTIFY,
                f"device {device.index} has {device.notifies} notifies, its limit is {limit}.",
                "acl.rt.destroy_notify gives one back.",
            )
        device.notifies += 1
        return handles.new(Notify(device, device.next_notify(), flag)), 0


@api("acl.rt.destroy_notify", "aclrtDestroyNotify", "api")
def destroy_notify(notify: int, /) -> int:
    found = _notify(notify)
    if found is None:
        return _code(notify)
    found.users -= 1
    handles.drop(notify)
    if found.users == 0:
        found.device.notifies -= 1
        _shared.pop(found.key, None)
        _allowed.pop(found.key, None)
    return 0


@api("acl.rt.record_notify", "aclrtRecordNotify", "event")
def record_notify(notify: int, stream: int, /) -> int:
    found = _notify(notify)
    if found is None:
        return _code(notify)
    target, ret = on_stream(stream)
    if target is None:
        return ret
    target.submit(NotifyRecordTask(found), host_thread())
    return 0


@api("acl.rt.wait_and_reset_notify", "aclrtWaitAndResetNotify", "event")
def wait_and_reset_notify(notify: int, stream: int, timeout: int, /) -> int:
    found = _notify(notify)
    if found is None:
        return _code(notify)
    if not 0 <= timeout <= _MAX_TIMEOUT:
        return errors.bad("timeout", timeout, "0 (no limit) or a number of seconds", "", errors.RT_PARAM_INVALID)
    target, ret = on_stream(stream)
    if target is None:
        return ret
    limit = timeout * _S if timeout else None
    task = ConditionTask("notify wait", found.take, f"notify {found.id} of device {found.device.index}", limit)
    target.submit(task, host_thread())
    return 0


@api("acl.rt.get_notify_id", "aclrtGetNotifyId", "api")
def get_notify_id(notify: int, /) -> tuple[int, int]:
    found = _notify(notify)
    return (0, _code(notify)) if found is None else (found.id, 0)


@api("acl.rt.notify_batch_reset", "aclrtNotifyBatchReset", "api")
def notify_batch_reset(notifies: list[int], /) -> int:
    if not notifies:
        return errors.bad("notifies", notifies, "at least one notify")
    made = []
    for handle in notifies:
        if not isinstance(handle, int):
            raise TypeError(f"notifies must hold int, got {type(handle).__name__}")
        found = _notify(handle)
        if found is None:
            return _code(handle)
        made.append(found)
    with system().scheduler.lock:
        for found in made:
            found.set = False
    return 0


# -- between processes -------------------------------------------------------------------------------------


def new_key() -> str:
    """A name for something shared, of the documented length."""
    return f"{os.getpid():08x}{secrets.token_hex(28)}"[: KEY_LENGTH - 1]


def foreign(key: str) -> str:
    """Why a key cannot be imported."""
    try:
        owner = int(key[:8], 16)
    except ValueError:
        owner = -1
    if len(key) == KEY_LENGTH - 1 and owner > 0 and owner != os.getpid():
        return f"the key is of process {owner}: simulated devices are not shared between processes."
    return "no such key was exported, or what it stood for is gone."


@api("acl.rt.notify_get_export_key", "aclrtNotifyGetExportKey", "api")
def notify_get_export_key(notify: int, length: int, flags: int, /) -> tuple[str, int]:
    found = _notify(notify)
    if found is None:
        return "", _code(notify)
    if length < KEY_LENGTH:
        return "", errors.bad("len", length, f"at least {KEY_LENGTH}", "", errors.RT_PARAM_INVALID)
    if flags not in (0, _NO_PID_CHECK):
        return "", errors.bad("flags", flags, "0 or 2 (no check of processes)", "", errors.RT_PARAM_INVALID)
    if not found.key:
        found.key = new_key()
        _shared[found.key] = found
    _allowed[found.key] = None if flags == _NO_PID_CHECK else set()
    return found.key, 0


@api("acl.rt.notify_set_import_pid", "aclrtNotifySetImportPid", "api")
def notify_set_import_pid(notify: int, pids: list[int], /) -> int:
    found = _notify(notify)
    if found is None:
        return _code(notify)
    if not found.key:
        return errors.fail(
            errors.RT_PARAM_INVALID, f"notify {notify:#x} is not shared.", "acl.rt.notify_get_export_key comes first."
        )
    if not pids:
        return errors.bad("pids", pids, "at least one process", "", errors.RT_PARAM_INVALID)
    allowed = _allowed[found.key]
    if allowed is not None:
        allowed.update(int(p) for p in pids)
    return 0


@api("acl.rt.notify_import_by_key", "aclrtNotifyImportByKey", "api")
def notify_import_by_key(key: str, flag: int, /) -> tuple[int, int]:
    if current() is None:
        return 0, errors.RT_CONTEXT_NULL
    if flag not in (0, _PEER_ACCESS):
        return 0, errors.bad("flag", flag, "0 or 1 (open the link to the other device)", "", errors.RT_PARAM_INVALID)
    found = _shared.get(key)
    if found is None:
        return 0, errors.fail(errors.RT_PARAM_INVALID, f"key {key!r}: {foreign(key)}")
    allowed = _allowed[key]
    if allowed is not None and os.getpid() not in allowed:
        return 0, errors.fail(
            errors.RT_NO_PERMISSION,
            f"process {os.getpid()} may not import notify {found.id}.",
            "acl.rt.notify_set_import_pid of the exporting process names those that may.",
        )
    found.users += 1
    return handles.new(found), 0
