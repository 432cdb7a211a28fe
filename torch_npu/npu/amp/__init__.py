"""Automatic mixed precision on device npu."""

from torch_npu.npu.amp import autocast_mode, common, grad_scaler, sharded_grad_scaler
from torch_npu.npu.amp.autocast_mode import autocast, custom_bwd, custom_fwd
from torch_npu.npu.amp.grad_scaler import GradScaler

__all__ = [
    "GradScaler", "autocast", "autocast_mode", "common", "custom_bwd", "custom_fwd", "grad_scaler",
    "sharded_grad_scaler",
]  # fmt: skip
