"""``torch_npu.npu.utils``: devices and streams by another path, and checks of overflow."""

from __future__ import annotations

from typing import Any

import torch

from torch_npu._backend import soc
from torch_npu.npu.devices import *  # noqa: F403
from torch_npu.npu.devices import _get_device_index, _is_gte_cann_version, device, get_cann_version
from torch_npu.npu.memory import _erase_stream
from torch_npu.npu.options import (
    clear_npu_overflow_flag,
    finalize_dump,
    get_npu_overflow_flag,
    init_dump,
    obfuscation_calculate,
    obfuscation_finalize,
    obfuscation_initialize,
    set_dump,
    set_op_timeout_ms,
)
from torch_npu.npu.streams import StreamContext, current_stream, default_stream, set_stream, stream

__all__ = ["StreamContext", "_erase_stream", "_get_device_index", "_is_gte_cann_version", "clear_npu_overflow_flag",
           "current_stream", "default_stream", "device", "finalize_dump", "get_cann_version", "get_npu_overflow_flag",
           "init_dump", "is_support_inf_nan", "npu_check_overflow", "obfuscation_calculate", "obfuscation_finalize",
           "obfuscation_initialize", "set_dump", "set_op_timeout_ms", "set_stream", "stream"]  # fmt: skip


def is_support_inf_nan() -> bool:
    """Whether operators give infinity and NaN instead of the largest number (910B and later)."""
    return bool(soc().chip.split_cores)


def npu_check_overflow(grad: Any) -> bool:
    """Whether a gradient (or number) holds an infinity or NaN."""
    if isinstance(grad, torch.Tensor):
        return not bool(torch.isfinite(grad.float().sum()))
    return not bool(torch.isfinite(torch.tensor(float(grad))))
