"""What the JSON file of acl.init may say."""

from __future__ import annotations

import atexit
import os
from typing import Any

from acl import _dump, _op_store, errors
from ascend_sim.runtime import system as machine

_STACK_STEP, _STACK_LEAST = 16 << 10, 32 << 10  # bytes of a core's stack
_PROFILER = {
    "switch": ("on", "off"), "aicpu": ("on", "off"), "l2": ("on", "off"), "ascendcl": ("on", "off"),
    "runtime_api": ("on", "off"), "hccl": ("on", "off"), "msproftx": ("on", "off"), "task_memory": ("on", "off"),
    "task_time": ("on", "off", "l0", "l1"), "ge_api": ("off", "l0", "l1"),
}  # fmt: skip
_METRICS = (
    "PipeUtilization", "ArithmeticUtilization", "Memory", "MemoryL0", "MemoryUB", "ResourceConflictRatio", "L2Cache",
    "PipelineExecuteUtilization", "MemoryAccess",
)  # fmt: skip


class _State:
    """``session`` of the profiler section; ``default_device`` of threads that chose none (-1: none)."""

    def __init__(self) -> None:
        self.session: Any = None
        self.default_device = -1


state = _State()


def forget_all() -> None:
    """Tests: start over."""
    state.session, state.default_device = None, -1
    _dump.forget_all()


def choose_machine(content: dict[str, Any], path: str) -> int:
    """Chip and number of devices, before anything else makes the machine."""
    own = content.get("ascend_sim") or {}
    if isinstance(own, str):
        own = {"soc": own}
    if not isinstance(own, dict):
        return _wrong(path, "ascend_sim", own, "an object")
    soc, devices, compiling = own.get("soc", content.get("soc")), own.get("devices"), own.get("op_compile")
    if compiling not in (None, True, False):
        return _wrong(path, "ascend_sim op_compile", compiling, "true or false")
    if devices is not None and _number(devices) is None:
        return _wrong(path, "ascend_sim devices", devices, "a number of devices")
    _op_store.store.compile = bool(compiling)
    if soc is None and devices is None:
        return 0
    try:
        machine.configure(soc=None if soc is None else str(soc), devices=_number(devices))
    except ValueError as error:
        return errors.fail(errors.INVALID_PARAM, f"config file {path!r}: {error}.")
    return 0


def apply(content: dict[str, Any], path: str) -> int:
    """Everything else; 0 or the return code of the first section that is wrong."""
    for section in (_messages, _queue, _stack, _events, _device, _dumping, _profiling):
        ret = section(content, path)
        if ret:
            return ret
    return 0


def end() -> None:
    """acl.finalize: write what was collected."""
    session, state.session = state.session, None
    if session is not None:
        session.close()
    _dump.state.config, _dump.state.begun = None, False


def _wrong(path: str, name: str, value: Any, expected: str, code: int = errors.INVALID_PARAM) -> int:
    return errors.fail(code, f"config file {path!r}: {name} is {value!r}: expected {expected}.")


def _number(value: Any) -> int | None:
    """A number that may be written as text, as most of acl.json's are; None for anything else."""
    text = str(value)
    if isinstance(value, bool) or not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        return None
    return int(text)


_DIGITS = 19


def _messages(content: dict[str, Any], path: str) -> int:
    mode = content.get("err_msg_mode")
    if mode is None:
        return 0
    if mode not in ("0", "1"):
        return _wrong(path, "err_msg_mode", mode, '"0" or "1"')
    errors.set_process_wide(mode == "1")
    return 0


def _queue(content: dict[str, Any], path: str) -> int:
    value = content.get("max_opqueue_num")
    if value is None:
        return 0
    limit = _number(value)
    if limit is None or limit < 1:
        return _wrong(path, "max_opqueue_num", value, "a number of at least 1", errors.MAX_OP_QUEUE)
    _op_store.store.queue_limit = limit
    return 0


def _stack(content: dict[str, Any], path: str) -> int:
    section = content.get("StackSize")
    if section is None:
        return 0
    if not isinstance(section, dict):
        return _wrong(path, "StackSize", section, "an object")
    size = section.get("aicore_stack_size", _STACK_LEAST)
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        return _wrong(path, "aicore_stack_size", size, "a number of bytes")
    rounded = max(_STACK_LEAST, -(-size // _STACK_STEP) * _STACK_STEP)
    machine.system().options[_STACK_OPTION] = rounded
    return 0


_STACK_OPTION = -1  # where the machine keeps it; system parameters of programs start at 0


def _events(content: dict[str, Any], path: str) -> int:
    mode = content.get("event_mode")
    if mode is not None and str(mode) not in ("0", "1"):
        return _wrong(path, "event_mode", mode, "0 or 1")
    return 0


def _device(content: dict[str, Any], path: str) -> int:
    section = content.get("defaultDevice")
    if section is None:
        return 0
    value = section.get("default_device") if isinstance(section, dict) else section
    count = len(machine.system().devices)
    device = _number(value)
    if device is None or device >= count:
        return _wrong(path, "default_device", value, f"0..{count - 1}")
    state.default_device = device
    return 0


def _dumping(content: dict[str, Any], path: str) -> int:
    section = content.get("dump")
    if section is None:
        return 0
    if not isinstance(section, dict):
        return _wrong(path, "dump", section, "an object", errors.INVALID_DUMP_CONFIG)
    if not section:
        return 0
    config = _dump.parse(section)
    if isinstance(config, int):
        return config
    _dump.state.config = config
    return 0


def _profiling(content: dict[str, Any], path: str) -> int:
    section = content.get("profiler")
    if section is None:
        return 0
    if not isinstance(section, dict):
        return _wrong(path, "profiler", section, "an object", errors.INVALID_PROFILING_CONFIG)
    for name, allowed in _PROFILER.items():
        if name in section and section[name] not in allowed:
            return _wrong(
                path, f"profiler {name}", section[name], f"one of {', '.join(allowed)}", errors.INVALID_PROFILING_CONFIG
            )
    metrics = section.get("aic_metrics")
    if metrics and metrics not in _METRICS:
        return _wrong(
            path, "profiler aic_metrics", metrics, f"one of {', '.join(_METRICS)}", errors.INVALID_PROFILING_CONFIG
        )
    if section.get("switch") != "on":
        return 0
    output = section.get("output") or os.path.dirname(os.path.abspath(path))
    if not isinstance(output, str):
        return _wrong(path, "profiler output", output, "a directory", errors.INVALID_PROFILING_CONFIG)
    try:
        os.makedirs(output, exist_ok=True)
    except (OSError, ValueError) as error:
        return errors.fail(
            errors.INVALID_PROFILING_CONFIG, f"config file {path!r}: directory {output!r} cannot be made: {error}."
        )
    from acl._profile import Session
    from ascend_sim.profiling.msprof_switches import of_options

    state.session = Session(output, of_options(section))
    atexit.register(end)  # a program may end without acl.finalize
    return 0
