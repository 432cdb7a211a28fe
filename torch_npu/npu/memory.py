"""Memory of the caching allocator: figures in the layout of torch.cuda, and the few things one can do to it."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import torch

from torch_npu import _setup
from torch_npu.npu.devices import _get_device_index, device
from torch_npu.utils._error_code import ErrCode, pta_error

_fractions: dict[int, float] = {}


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    return dict(_setup.ext.memory_stats(_get_device_index(device, optional=True)))


def _flat(nested: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, int]]:
    for key, value in nested.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def memory_stats(device: Any = None) -> OrderedDict[str, int]:
    """Every figure under a dotted name: ``allocated_bytes.all.current`` and so on."""
    return OrderedDict(sorted(_flat(memory_stats_as_nested_dict(device))))


def memory_allocated(device: Any = None) -> int:
    return memory_stats(device)["allocated_bytes.all.current"]


def max_memory_allocated(device: Any = None) -> int:
    return memory_stats(device)["allocated_bytes.all.peak"]


def memory_reserved(device: Any = None) -> int:
    return memory_stats(device)["reserved_bytes.all.current"]


def max_memory_reserved(device: Any = None) -> int:
    return memory_stats(device)["reserved_bytes.all.peak"]


memory_cached, max_memory_cached = memory_reserved, max_memory_reserved


def reset_peak_memory_stats(device: Any = None) -> None:
    _setup.ext.reset_peak_memory_stats(_get_device_index(device, optional=True))


def reset_accumulated_memory_stats(device: Any = None) -> None:
    _setup.ext.reset_accumulated_memory_stats(_get_device_index(device, optional=True))


reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats


def empty_cache() -> None:
    """Give unused segments back to the device."""
    _setup.ext.empty_cache()


def empty_virt_addr_cache() -> None:
    """Give unused address ranges back: segments are all there is here."""
    empty_cache()


def memory_snapshot(mempool_id: Any = None) -> list[dict[str, Any]]:
    return list(_setup.ext.memory_snapshot())


def _snapshot(device: Any = None, **_: Any) -> dict[str, Any]:
    return {"segments": memory_snapshot(), "device_traces": []}


def _record_memory_history(enabled: Any = "all", *_: Any, **__: Any) -> None:
    """Accepted; no trace of allocations is kept."""


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    index = _get_device_index(device, optional=True)
    _fractions[index] = fraction
    _setup.ext.set_memory_fraction(index, fraction)


def get_per_process_memory_fraction(device: Any = None) -> float:
    return _fractions.get(_get_device_index(device, optional=True), 1.0)


_blocks: dict[int, torch.Tensor] = {}


def caching_allocator_alloc(size: int, device_: Any = None, stream: Any = None) -> int:
    """Raw memory from the caching allocator; its address."""
    with device(_get_device_index(device_, optional=True)):
        block = torch.empty(size, dtype=torch.uint8, device="npu")
    _blocks[block.data_ptr()] = block
    return block.data_ptr()


def caching_allocator_delete(mem_ptr: int) -> None:
    _blocks.pop(mem_ptr, None)


def _erase_stream(tensor: torch.Tensor, stream: Any) -> None:
    """Take back ``tensor.record_stream(stream)``: the memory does not wait for that stream any more."""
    if not isinstance(tensor, torch.Tensor) or tensor.device.type != "npu":
        raise RuntimeError("tensor must be a tensor of device npu" + pta_error(ErrCode.PARAM))
    _setup.ext.erase_stream(tensor, stream.stream_id)


def get_allocator_backend() -> str:
    return "native"


class NPUPluggableAllocator:
    """Allocators from a shared library cannot serve simulated memory."""

    def __init__(self, path_to_so_file: str, alloc_fn_name: str, free_fn_name: str) -> None:
        raise NotImplementedError("pluggable allocators are not supported: device memory belongs to the simulator")


def change_current_allocator(allocator: Any) -> None:
    raise NotImplementedError("pluggable allocators are not supported: device memory belongs to the simulator")


class MemPool:
    """A part of the memory that only allocations inside `use_mem_pool` come from."""

    _next = 1

    def __init__(self, allocator: Any = None) -> None:
        self._number = MemPool._next
        MemPool._next += 1

    @property
    def id(self) -> tuple[int, int]:
        return (0, self._number)

    def __del__(self) -> None:
        if _setup.ext is not None:
            for index in range(8):
                _setup.ext.release_pool(index, self._number)


@contextlib.contextmanager
def use_mem_pool(pool: MemPool, device: Any = None) -> Iterator[None]:
    index = _get_device_index(device, optional=True)
    _setup.ext.set_pool(index, pool._number)
    try:
        yield
    finally:
        _setup.ext.set_pool(index, 0)


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    from acl import _sim

    used, peak = _sim.system().host.used, _sim.system().host.peak
    return {"allocated_bytes": {"current": used, "peak": peak, "allocated": peak, "freed": peak - used}}


def host_memory_stats() -> OrderedDict[str, int]:
    return OrderedDict(_flat(host_memory_stats_as_nested_dict()))


def host_empty_cache() -> None:
    """Pinned blocks are kept for the next tensors of their size."""


def reset_accumulated_host_memory_stats() -> None:
    """No running totals are kept for pinned memory."""


def reset_peak_host_memory_stats() -> None:
    """No running totals are kept for pinned memory."""


# ---- the table

_METRICS = [
    ("allocated_bytes", "Allocated memory", True), ("active_bytes", "Active memory", True),
    ("reserved_bytes", "NPU reserved memory", True), ("inactive_split_bytes", "Non-releasable memory", True),
    ("allocation", "Allocations", False), ("active", "Active allocs", False),
    ("segment", "NPU reserved segments", False),
    ("inactive_split", "Non-releasable allocs", False),
]  # fmt: skip


def _size(value: int, previous: int | None, of_bytes: bool) -> str:
    if not of_bytes:
        prefixes, step = ["  ", "K ", "M ", "G "], 1000
    else:
        prefixes, step = ["B  ", "KiB", "MiB", "GiB", "TiB"], 1024
    shown, index = value, 0
    previous = value if previous is None else previous
    while previous >= 768 * (step // 1000 or 1) and index + 1 < len(prefixes):
        shown //= step
        previous //= step
        index += 1
    return f"{shown:7d} {prefixes[index]} "


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The figures as a table."""
    index = _get_device_index(device, optional=True)
    stats = memory_stats(index)
    rule = "=" * 75
    lines = [
        "|" + rule + "|",
        f"|{f' PyTorch NPU memory summary, device ID {index} ':^75}|",
        "|" + "-" * 75 + "|",
        f"|{'':11} NPU OOMs: {stats['num_ooms']:<13d} | {'':6} npuMalloc retries: {stats['num_alloc_retries']:<9d}  |",
        "|" + rule + "|",
        "|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |",
    ]
    for key, name, of_bytes in _METRICS:
        lines.append("|" + "-" * 75 + "|")
        rows = [(name, "all")]
        if not abbreviated:
            rows += [("      from large pool", "large_pool"), ("      from small pool", "small_pool")]
        for title, pool in rows:
            values = [stats[f"{key}.{pool}.{field}"] for field in ("current", "peak", "allocated", "freed")]
            cells = "|".join(f" {_size(v, None, of_bytes)}"[:12].ljust(12) for v in values)
            lines.append(f"| {title:<21} |{cells}|")
    for key, name in (("oversize_allocations", "Oversize allocations"), ("oversize_segments", "Oversize NPU segments")):
        lines.append("|" + "-" * 75 + "|")
        values = [stats[f"{key}.{field}"] for field in ("current", "peak", "allocated", "freed")]
        cells = "|".join(f" {_size(v, None, False)}"[:12].ljust(12) for v in values)
        lines.append(f"| {name:<21} |{cells}|")
    lines.append("|" + rule + "|")
    return "\n".join(lines) + "\n"
