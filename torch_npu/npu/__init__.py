"""``torch.npu``: devices, streams, events, memory, random numbers, mixed precision, options, graphs."""

from torch import OutOfMemoryError

from torch_npu.npu import aclnn, amp, devices, memory, options, random, streams, tensors, utils
from torch_npu.npu.amp.autocast_mode import (
    get_amp_supported_dtype,
    get_autocast_dtype,
    is_autocast_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)
from torch_npu.npu.devices import *  # noqa: F403
from torch_npu.npu.devices import (
    _exchange_device,
    _get_device_index,
    _is_in_bad_fork,
    _lazy_init,
    _maybe_exchange_device,
    _NPUDeviceProperties,
    device,
)
from torch_npu.npu.graphs import *  # noqa: F403
from torch_npu.npu.memory import *  # noqa: F403
from torch_npu.npu.memory import _record_memory_history, _snapshot
from torch_npu.npu.mstx import mstx
from torch_npu.npu.options import *  # noqa: F403
from torch_npu.npu.options import config, conv, matmul
from torch_npu.npu.random import *  # noqa: F403
from torch_npu.npu.random import _get_rng_state_offset, _set_rng_state_offset, default_generators
from torch_npu.npu.streams import *  # noqa: F403
from torch_npu.npu.streams import (
    Event,
    ExternalEvent,
    ExternalStream,
    Stream,
    StreamContext,
    SyncLaunchStream,
    _sleep,
    stream,
)
from torch_npu.npu.tensors import *  # noqa: F403

_utils = utils

__all__ = [
    "BFloat16Storage", "BFloat16Tensor", "BoolStorage", "BoolTensor", "ByteStorage", "ByteTensor", "CharStorage",
    "CharTensor", "CubeMathType", "DoubleStorage", "DoubleTensor", "Event", "ExternalEvent", "FloatStorage",
    "FloatTensor", "HalfStorage", "HalfTensor", "IntStorage", "IntTensor", "LongStorage", "LongTensor", "MemPool",
    "NPUGraph", "NPUPluggableAllocator", "NpuGraphOpHandler", "OutOfMemoryError", "ShortStorage", "ShortTensor",
    "Stream", "StreamContext", "SyncLaunchStream", "are_compatible_impl_enabled", "caching_allocator_alloc",
    "caching_allocator_delete", "can_device_access_peer", "change_current_allocator", "check_uce_in_memory",
    "clear_npu_overflow_flag", "config", "conv", "current_blas_handle", "current_device", "current_stream",
    "default_stream", "device", "device_count", "device_of", "disable_deterministic_with_backward", "empty_cache",
    "empty_virt_addr_cache", "enable_deterministic_with_backward", "finalize_dump", "get_allocator_backend",
    "get_amp_supported_dtype", "get_autocast_dtype", "get_device_capability", "get_device_limit", "get_device_name",
    "get_device_properties", "get_mm_bmm_format_nd", "get_npu_overflow_flag", "get_per_process_memory_fraction",
    "get_rng_state", "get_rng_state_all", "get_stream_limit", "get_sync_debug_mode", "graph", "graph_pool_handle",
    "graph_task_group_begin", "graph_task_group_end", "graph_task_update_begin", "graph_task_update_end",
    "host_empty_cache", "host_memory_stats", "host_memory_stats_as_nested_dict", "init", "init_dump", "initial_seed",
    "ipc_collect", "is_autocast_enabled", "is_available", "is_bf16_supported", "is_current_stream_capturing",
    "is_initialized", "is_jit_compile_false", "make_graphed_callables", "manual_seed", "manual_seed_all", "matmul",
    "max_memory_allocated", "max_memory_cached", "max_memory_reserved", "mem_get_info", "memory_allocated",
    "memory_cached", "memory_reserved", "memory_snapshot", "memory_stats", "memory_stats_as_nested_dict",
    "memory_summary", "mstx", "npurt", "obfuscation_calculate", "obfuscation_finalize", "obfuscation_initialize",
    "register_npu_graph_handler", "reset_accumulated_host_memory_stats", "reset_accumulated_memory_stats",
    "reset_max_memory_allocated", "reset_max_memory_cached", "reset_peak_host_memory_stats",
    "reset_peak_memory_stats", "reset_stream_limit", "restart_device", "seed", "seed_all", "set_aoe",
    "set_autocast_dtype", "set_autocast_enabled", "set_compile_mode", "set_deterministic_level", "set_device",
    "set_device_limit", "set_dump", "set_mm_bmm_format_nd", "set_op_timeout_ms", "set_option",
    "set_per_process_memory_fraction", "set_rng_state", "set_rng_state_all", "set_stream", "set_stream_limit",
    "set_sync_debug_mode", "stop_device", "stream", "stress_detect", "super_kernel_scope_begin",
    "super_kernel_scope_end", "synchronize", "use_compatible_impl", "use_mem_pool", "utilization",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name == "_initialized":  # where ``torch.utils.checkpoint`` looks before it keeps the state of the generators
        return devices.is_initialized()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
