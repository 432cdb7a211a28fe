"""Devices, streams, memory and synchronisation for programs that launch kernels themselves."""

from __future__ import annotations

import ctypes
from enum import Enum
from typing import Any

import numpy as np

from ascend_sim.asc.device import device
from ascend_sim.asc.kernel import as_array

Stream = Any
Memory = ctypes.c_void_p


class CoreType(Enum):
    AiCore = "AiCore"
    VectorCore = "VectorCore"
    CubeCore = "CubeCore"
    AiCpu = "AiCpu"


class DeviceModuleType(Enum):
    RT_MODULE_TYPE_SYSTEM = 0
    RT_MODULE_TYPE_AICPU = 1
    RT_MODULE_TYPE_CCPU = 2
    RT_MODULE_TYPE_DCPU = 3
    RT_MODULE_TYPE_AICORE = 4
    RT_MODULE_TYPE_TSCPU = 5
    RT_MODULE_TYPE_PCIE = 6
    RT_MODULE_TYPE_VECTOR_CORE = 7
    RT_MODULE_TYPE_HOST_AICPU = 8


class DeviceInfoType(Enum):
    INFO_TYPE_ENV = 0
    INFO_TYPE_VERSION = 1
    INFO_TYPE_MASTERID = 2
    INFO_TYPE_CORE_NUM = 3
    INFO_TYPE_OS_SCHED = 4
    INFO_TYPE_IN_USED = 5
    INFO_TYPE_ERROR_MAP = 6
    INFO_TYPE_OCCUPY = 7
    INFO_TYPE_ID = 8
    INFO_TYPE_IP = 9
    INFO_TYPE_ENDIAN = 10
    INFO_TYPE_CUBE_NUM = 2002410074


class MemoryType(Enum):
    RT_MEMORY_DEFAULT = 0
    RT_MEMORY_HBM = 2
    RT_MEMORY_DDR = 4


class MallocPolicy(Enum):
    RT_MEMORY_POLICY_NONE = 0
    RT_MEMORY_POLICY_HUGE_PAGE_FIRST = 1024
    RT_MEMORY_POLICY_HUGE_PAGE_ONLY = 2048
    RT_MEMORY_POLICY_DEFAULT_PAGE_ONLY = 4096


class MemcpyKind(Enum):
    RT_MEMCPY_HOST_TO_HOST = 0
    RT_MEMCPY_HOST_TO_DEVICE = 1
    RT_MEMCPY_DEVICE_TO_HOST = 2
    RT_MEMCPY_DEVICE_TO_DEVICE = 3


def use_model(*args: Any, **kwargs: Any) -> None:
    """The model backend is the only one: nothing to switch."""


def use_npu(*args: Any, **kwargs: Any) -> None:
    """The simulated device stands in for the hardware: nothing to switch."""


def is_initialized() -> bool:
    return True


def is_available() -> bool:
    return True


def is_model() -> bool:
    return True


def check_device_handle(device_id: int) -> None:
    """Raise RuntimeError unless the device exists."""
    count = device_count()
    if not isinstance(device_id, int) or not 0 <= device_id < count:
        raise RuntimeError(f"device_id = {device_id!r}: expected 0..{count - 1}")


def default_device() -> int:
    return 0


def current_device() -> int:
    return device().current_device()


def current_platform() -> str:
    """Name of the chip in use."""
    return device().soc().name


def set_soc_version(soc_version: Any) -> None:
    """Choose the chip by name or `asc.runtime.config.Platform`. Raises SocError for one that is not described."""
    device().set_platform(str(getattr(soc_version, "value", soc_version)))


def get_soc_version() -> str:
    """Name of the chip in use."""
    return device().soc().name


def acl_init() -> None:
    """The simulated runtime needs no start."""


def acl_finalize() -> None:
    """Let everything that was launched end."""
    synchronize_device()


def device_count() -> int:
    return device().device_count()


def device_info(
    module_type: DeviceModuleType, info_type: DeviceInfoType, device_id: int | None = None
) -> int:
    """Core counts of the chip; other items are not known here. Raises RuntimeError for those."""
    cores = device().soc().cores
    counts = {
        DeviceModuleType.RT_MODULE_TYPE_AICORE: cores.ai_core_count,
        DeviceModuleType.RT_MODULE_TYPE_VECTOR_CORE: cores.vector_core_count,
        DeviceModuleType.RT_MODULE_TYPE_AICPU: cores.ai_cpu_count,
    }
    if info_type in (DeviceInfoType.INFO_TYPE_CORE_NUM, DeviceInfoType.INFO_TYPE_CUBE_NUM) and module_type in counts:
        return counts[module_type]
    raise RuntimeError(f"device_info: {module_type.name}, {info_type.name} is not known")


def set_device(device_id: int) -> None:
    check_device_handle(device_id)
    device().set_device(device_id)


def reset_device(device_id: int | None = None) -> None:
    synchronize_device()


def create_stream(priority: int = 0) -> Stream:
    return device().create_stream(priority)


def destroy_stream(stream_handle: Stream) -> None:
    if stream_handle is not None:
        device().destroy_stream(stream_handle)


def current_stream(device_id: int | None = None) -> Stream:
    return device().current_stream()


def synchronize(stream_handle: Stream | None = None, timeout: int = 0) -> None:
    device().synchronize(current_stream() if stream_handle is None else stream_handle)


def synchronize_device() -> None:
    device().synchronize(None)


def malloc(
    size: int, memory_type: MemoryType = MemoryType.RT_MEMORY_DEFAULT,
    policy: MallocPolicy = MallocPolicy.RT_MEMORY_POLICY_NONE,
) -> Memory:  # fmt: skip
    """Device memory, aligned to 512 bytes. Raises RuntimeError for a size that is not positive."""
    if size <= 0:
        raise RuntimeError(f"malloc: size = {size}: must be positive")
    return ctypes.c_void_p(device().malloc(size))


def free(mem_handle: Memory) -> None:
    if mem_handle.value is None:
        raise RuntimeError("free: null pointer")
    device().free(mem_handle.value)


def free_mem() -> None:
    """Kernels and memory of this process live as long as it does: nothing to give back."""


def _bytes(handle: Any, nbytes: int, on_device: bool) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """``nbytes`` behind a device pointer, a host pointer or an array."""
    array = as_array(handle)
    if array is not None:
        return array.reshape(-1).view(np.uint8)[:nbytes]
    address = handle.value if isinstance(handle, ctypes.c_void_p) else int(handle)
    if address is None:
        raise RuntimeError("memcpy: null pointer")
    if on_device:
        return device().memory(address)[:nbytes]
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))


def memcpy(dst: Any, dst_nbytes: int, src: Any, src_nbytes: int, kind: MemcpyKind) -> None:
    """Copy ``src_nbytes`` bytes. Raises RuntimeError when they do not fit."""
    if dst_nbytes <= 0 or src_nbytes <= 0 or src_nbytes > dst_nbytes:
        raise RuntimeError(f"memcpy: {src_nbytes} bytes to {dst_nbytes}: sizes must be positive and fit")
    to_device = kind in (MemcpyKind.RT_MEMCPY_HOST_TO_DEVICE, MemcpyKind.RT_MEMCPY_DEVICE_TO_DEVICE)
    from_device = kind in (MemcpyKind.RT_MEMCPY_DEVICE_TO_HOST, MemcpyKind.RT_MEMCPY_DEVICE_TO_DEVICE)
    synchronize_device()
    _bytes(dst, src_nbytes, to_device)[...] = _bytes(src, src_nbytes, from_device)


def copy_data_to_device(src_mem_handle: Any, nbytes: int) -> Memory:
    """New device memory with a copy of host bytes."""
    memory = malloc(nbytes)
    memcpy(memory, nbytes, src_mem_handle, nbytes, MemcpyKind.RT_MEMCPY_HOST_TO_DEVICE)
    return memory


def copy_data_from_device(mem_dst_handle: Any, mem_src_handle: Memory, nbytes: int) -> None:
    memcpy(mem_dst_handle, nbytes, mem_src_handle, nbytes, MemcpyKind.RT_MEMCPY_DEVICE_TO_HOST)


def current_tick() -> int | None:
    """Cycles of the device's clock; None where launches take no time."""
    return device().tick()
