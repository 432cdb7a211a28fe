"""Devices: which there are, which is current, what they are called, how to wait for them."""

from __future__ import annotations

import atexit
import os
import time
import uuid
from typing import Any

import torch

from torch_npu import _setup
from torch_npu._backend import backend, soc
from torch_npu.utils._error_code import ErrCode, pta_error

_state: dict[str, Any] = {"initialized": False, "pid": os.getpid(), "bad_fork": False, "sync_debug": 0}


def _after_fork() -> None:
    if _state["initialized"]:
        _state["bad_fork"] = True
        _state["initialized"] = False


os.register_at_fork(after_in_child=_after_fork)


def init() -> None:
    """Initialise the device layer now instead of at first use."""
    _lazy_init()


def _lazy_init() -> None:
    if _state["initialized"]:
        return
    if _state["bad_fork"]:
        raise RuntimeError(
            "Cannot re-initialize NPU in forked subprocess. To use NPU with multiprocessing, you must use the 'spawn' "
            "start method"
        )
    from torch_npu.npu.options import check_environment

    check_environment()
    _state["initialized"] = True
    atexit.register(_let_threads_finish)


def _let_threads_finish() -> None:
    """Autograd's thread may still wait for the interpreter, to drop the last graph; one that gets it too late aborts
    the process."""
    time.sleep(0.02)


def is_initialized() -> bool:
    return bool(_state["initialized"]) and not _state["bad_fork"]


def _is_in_bad_fork() -> bool:
    return bool(_state["bad_fork"])


def is_available() -> bool:
    return device_count() > 0


def device_count() -> int:
    return backend.device_count()


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """Index of a device given as int, string, torch.device, tensor's device or None (``optional``: the current one)."""
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type == "cpu" and allow_cpu:
            return -1
        if device.type != "npu":
            raise ValueError(f"Expected a npu device, but got: {device}" + pta_error(ErrCode.VALUE))
        return current_device() if device.index is None else device.index
    if device is None:
        if optional:
            return current_device()
        raise ValueError("Expected a torch.device with a specified index or an integer, but got: None")
    if isinstance(device, int):
        return device
    index = getattr(device, "idx", getattr(device, "index", None))
    if isinstance(index, int):
        return index
    raise ValueError(f"Expected a npu device, but got: {device}" + pta_error(ErrCode.VALUE))


def _checked(device: Any) -> int:
    index = _get_device_index(device, optional=True)
    if not 0 <= index < device_count():
        raise AssertionError("Invalid device id" + pta_error(ErrCode.VALUE))
    return index


def current_device() -> int:
    _lazy_init()
    return int(_setup.ext.current_device())


def set_device(device: Any) -> None:
    index = _get_device_index(device, optional=True)
    if index >= 0:
        _lazy_init()
        _setup.ext.set_device(index)


def _exchange_device(device: int) -> int:
    before = current_device()
    if device >= 0 and device != before:
        set_device(device)
    return before


_maybe_exchange_device = _exchange_device


class device:  # the name of torch
    """Context manager: ``device`` is current inside."""

    def __init__(self, device: Any) -> None:
        self.idx = _get_device_index(device, optional=True)
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx >= 0:
            self.prev_idx = _exchange_device(self.idx)

    def __exit__(self, *_: object) -> None:
        if self.idx >= 0 and self.prev_idx >= 0:
            _exchange_device(self.prev_idx)


class device_of(device):
    """Context manager: the device of a tensor is current inside (no change for tensors of the CPU)."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if getattr(obj, "is_npu", False) else -1)
        if not getattr(obj, "is_npu", False):
            self.idx = -1


def synchronize(device: Any = None) -> None:
    """Wait for all streams of a device."""
    _lazy_init()
    backend.synchronize_device(_checked(device))


def get_device_name(device: Any = None) -> str:
    _checked(device)
    return str(soc().name)


class _NPUDeviceProperties:
    """What torch_npu says of a device; fields without meaning on an NPU are None."""

    def __init__(self, name: str, total_memory: int, cube: int, vector: int, l2: int, index: int = 0) -> None:
        self.name = name
        self.total_memory = total_memory
        self.cube_core_num = cube
        self.vector_core_num = vector
        self.L2_cache_size = l2
        self.major = self.minor = None
        self.is_multi_gpu_board = self.is_integrated = None
        self.multi_processor_count = 0
        self.max_threads_per_multi_processor = self.warp_size = self.regs_per_multiprocessor = None
        self.gcnArchName = None
        self.uuid = uuid.uuid5(uuid.NAMESPACE_OID, f"{name}:{index}")  # the same in every process

    def __repr__(self) -> str:
        return (
            f"_NPUDeviceProperties(name='{self.name}', total_memory={self.total_memory // (1 << 20)}MB, "
            f"L2_cache_size={self.L2_cache_size // (1 << 20)}MB, cube_core_num={self.cube_core_num}, "
            f"vector_core_num={self.vector_core_num})"
        )


def get_device_properties(device: Any = None) -> _NPUDeviceProperties:
    index = _checked(device)
    chip = soc()
    return _NPUDeviceProperties(
        chip.name, chip.memory.capacity_bytes, chip.cores.ai_core_count,
        chip.cores.vector_core_count or chip.cores.ai_core_count, chip.memory.l2_bytes, index,
    )  # fmt: skip


def get_device_capability(device: Any = None) -> tuple[int, int] | None:
    given = os.environ.get("TORCH_NPU_DEVICE_CAPABILITY")
    if given:
        major, _, minor = given.partition(".")
        if major.isdigit() and minor.isdigit():
            return int(major), int(minor)
    return None


def can_device_access_peer(device_id: Any, peer_device_id: Any) -> bool:
    first, second = _get_device_index(device_id, optional=True), _get_device_index(peer_device_id, optional=True)
    if not 0 <= first < device_count():
        raise AssertionError("Invalid device id" + pta_error(ErrCode.VALUE))
    if not 0 <= second < device_count():
        raise AssertionError("Invalid peer device id" + pta_error(ErrCode.VALUE))
    return first != second


def utilization(device: Any = None) -> int:
    """Percent of the time that kernels held the AI cores so far."""
    return round(100 * backend.context(_checked(device)).device.cores.utilization())


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes of device memory."""
    return backend.memory_info(_checked(device))


def set_sync_debug_mode(debug_mode: int | str) -> None:
    names = {"default": 0, "warn": 1, "error": 2}
    if isinstance(debug_mode, str):
        if debug_mode not in names:
            raise RuntimeError("invalid value of debug_mode, expected one of `default`, `warn`, `error`")
        debug_mode = names[debug_mode]
    if debug_mode not in (0, 1, 2):
        raise RuntimeError("invalid value of debug_mode, expected one of 0,1,2")
    _state["sync_debug"] = debug_mode


def get_sync_debug_mode() -> int:
    return int(_state["sync_debug"])


def is_bf16_supported() -> bool:
    """Whether the chip computes in bfloat16 (910B and later)."""
    return bool(soc().chip.split_cores)


def ipc_collect() -> None:
    """Nothing is shared between processes here."""


def current_blas_handle() -> None:
    """There is no such handle on an NPU."""


def stress_detect(mode: int = 0) -> int:
    """Hardware check: a simulated chip is healthy."""
    return 0


def check_uce_in_memory(device_id: int) -> int:
    """Uncorrectable memory errors: none (0)."""
    return 0


def stop_device(device_id: int) -> None:
    synchronize(device_id)


def restart_device(device_id: int, rebuild_all_resources: bool = False) -> None:
    synchronize(device_id)


_limits: dict[int, dict[str, int]] = {}


def _numbered(device: Any) -> int:
    if not isinstance(device, int) or isinstance(device, bool):
        raise TypeError(f"device must be an int, but got {type(device).__name__}" + pta_error(ErrCode.TYPE))
    return _checked(device)


def set_device_limit(device: int, cube_num: int = -1, vector_num: int = -1) -> None:
    """Remembers how many cores kernels may use; the cores of the simulated chip are not divided."""
    _limits[_numbered(device)] = {"cube_core_num": cube_num, "vector_core_num": vector_num}


def get_device_limit(device: int) -> dict[str, int]:
    given = _limits.get(_numbered(device), {})
    properties = get_device_properties(device)
    cube, vector = given.get("cube_core_num", -1), given.get("vector_core_num", -1)
    return {
        "cube_core_num": properties.cube_core_num if cube < 0 else cube,
        "vector_core_num": properties.vector_core_num if vector < 0 else vector,
    }


def get_cann_version(module: str = "CANN") -> str:
    from torch_npu.utils.collect_env import get_cann_version as version

    return version(module)


def _is_gte_cann_version(version: str, module: str = "CANN") -> bool:
    """Whether the imitated release is at least ``version``."""

    def parts(text: str) -> list[int]:
        return [int("".join(c for c in p if c.isdigit()) or 0) for p in text.split(".")]

    return parts(get_cann_version(module)) >= parts(version)
