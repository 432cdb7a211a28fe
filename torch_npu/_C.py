"""Functions that libraries import from torch_npu's own extension, by its names for them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from torch_npu import _setup
from torch_npu._backend import backend


def _npu_getDeviceCount() -> int:
    return backend.device_count()


def _npu_getDevice() -> int:
    return int(_setup.ext.current_device())


def _npu_setDevice(device: int) -> None:
    from torch_npu.npu.devices import set_device

    set_device(device)


def _npu_synchronize() -> None:
    from torch_npu.npu.devices import synchronize

    synchronize()


def _npu_getCurrentRawStream(device: int) -> int:
    """The number that ``Stream.npu_stream`` is too."""
    return int(_setup.ext.current_stream(device))


_npu_getCurrentRawStreamNoWait = _npu_getCurrentRawStream


def _empty_strided_npu(sizes: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """`torch.empty_strided` on the current device."""
    return torch.empty_strided(tuple(sizes), tuple(strides), dtype=dtype, device="npu")


def _npu_hostEmptyCache() -> None:
    from torch_npu.npu.memory import host_empty_cache

    host_empty_cache()
