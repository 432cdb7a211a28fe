"""``torch.npu.amp.autocast``: `torch.autocast` with device npu."""

from __future__ import annotations

import functools

import torch


class autocast(torch.autocast):
    """Runs the operators of torch's lists in ``dtype`` (float16 unless told) inside the context."""

    def __init__(self, enabled: bool = True, dtype: torch.dtype = torch.float16, cache_enabled: bool = True) -> None:
        super().__init__("npu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


custom_fwd = functools.partial(torch.amp.custom_fwd, device_type="npu")
custom_bwd = functools.partial(torch.amp.custom_bwd, device_type="npu")


def get_amp_supported_dtype() -> list[torch.dtype]:
    from torch_npu.npu.devices import is_bf16_supported

    return [torch.float16, torch.bfloat16] if is_bf16_supported() else [torch.float16]


def is_autocast_enabled() -> bool:
    return torch.is_autocast_enabled("npu")


def set_autocast_enabled(enabled: bool) -> None:
    torch.set_autocast_enabled("npu", enabled)


def get_autocast_dtype() -> torch.dtype:
    return torch.get_autocast_dtype("npu")


def set_autocast_dtype(dtype: torch.dtype) -> None:
    torch.set_autocast_dtype("npu", dtype)
