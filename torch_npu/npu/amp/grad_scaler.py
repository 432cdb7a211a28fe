"""``torch.npu.amp.GradScaler``: `torch.amp.GradScaler` with device npu."""

from __future__ import annotations

from typing import Any

import torch

from torch_npu.npu.options import clear_npu_overflow_flag, get_npu_overflow_flag


class GradScaler(torch.amp.GradScaler):
    """Scales the loss so that small gradients survive in float16. ``dynamic`` False keeps the scale constant.

    As torch_npu has it, an overflow that one optimizer finds skips the steps of those after it too, until `update`.
    """

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
        self._overflowed = False

    def _maybe_opt_step(self, optimizer: Any, optimizer_state: Any, *args: Any, **kwargs: Any) -> Any:
        if any(v.item() for v in optimizer_state["found_inf_per_device"].values()):
            self._overflowed = True
        return None if self._overflowed else optimizer.step(*args, **kwargs)

    def update(self, new_scale: Any = None) -> None:
        super().update(new_scale)
        self._overflowed = False

    @staticmethod
    def get_npu_overflow_flag() -> bool:
        return get_npu_overflow_flag()

    @staticmethod
    def clear_npu_overflow_flag() -> None:
        clear_npu_overflow_flag()
