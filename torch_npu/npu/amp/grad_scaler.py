"""``torch.npu.amp.GradScaler``: `torch.amp.GradScaler` with device npu."""

from __future__ import annotations

from typing import Any

import torch

from torch_npu.npu.options import clear_npu_overflow_flag, get_npu_overflow_flag


class GradScaler(torch.amp.GradScaler):
    """Scales the loss so that small gradients survive in float16. ``dynamic`` False keeps the scale constant."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        dynamic: bool = True,
        enabled: bool = True,
        **_: Any,
    ) -> None:
        if not dynamic:
            growth_factor, backoff_factor, growth_interval = 1.0 + 1e-12, 1.0 - 1e-12, 1 << 30
        super().__init__(
            "npu", init_scale=init_scale, growth_factor=growth_factor, backoff_factor=backoff_factor,
            growth_interval=growth_interval, enabled=enabled,
        )  # fmt: skip

    @staticmethod
    def get_npu_overflow_flag() -> bool:
        return get_npu_overflow_flag()

    @staticmethod
    def clear_npu_overflow_flag() -> None:
        clear_npu_overflow_flag()
