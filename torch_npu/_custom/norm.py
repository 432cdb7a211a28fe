"""Normalisations and gates: npu_rms_norm, npu_add_rms_norm, npu_swiglu, npu_rotary_mul, fast_gelu, npu_gelu."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from torch_npu._custom._define import define

__all__ = ["fast_gelu", "npu_add_rms_norm", "npu_fast_gelu", "npu_gelu", "npu_mish", "npu_rms_norm", "npu_rotary_mul",
           "npu_scaled_masked_softmax", "npu_silu", "npu_swiglu"]  # fmt: skip


def _rms_norm(x: torch.Tensor, gamma: torch.Tensor, epsilon: float = 1e-6) -> Any:
    wide = x.float()
    axes = tuple(range(x.dim() - gamma.dim(), x.dim()))
    rstd = torch.rsqrt(wide.pow(2).mean(axes, keepdim=True) + epsilon)
    return (wide * rstd * gamma.float()).to(x.dtype), rstd


def _add_rms_norm(x1: torch.Tensor, x2: torch.Tensor, gamma: torch.Tensor, epsilon: float = 1e-6) -> Any:
    total = x1 + x2
    y, rstd = _rms_norm(total, gamma, epsilon)
    return y, rstd, total


def _swiglu(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    a, b = torch.chunk(x, 2, dim)
    return functional.silu(a) * b


def _rotary(x: torch.Tensor, r1: torch.Tensor, r2: torch.Tensor, rotary_mode: str = "half") -> torch.Tensor:
    if rotary_mode == "interleave":
        a, b = x[..., 0::2], x[..., 1::2]
        turned = torch.stack((-b, a), -1).flatten(-2)
    elif rotary_mode == "half":
        a, b = torch.chunk(x, 2, -1)
        turned = torch.cat((-b, a), -1)
    else:
        raise ValueError(f"rotary_mode is {rotary_mode!r}; expected 'half' or 'interleave'")
    return x * r1 + turned * r2


def _masked_softmax(
    x: torch.Tensor, mask: torch.Tensor, scale: Any = 1.0, fixed_triu_mask: bool = False
) -> torch.Tensor:
    if fixed_triu_mask:
        mask = torch.ones(x.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
    return torch.softmax((x.float() * scale).masked_fill(mask.bool(), -10000.0), -1).to(x.dtype)


npu_rms_norm = define("npu_rms_norm(Tensor self, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor)", _rms_norm)
npu_add_rms_norm = define(
    "npu_add_rms_norm(Tensor x1, Tensor x2, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor, Tensor)",
    _add_rms_norm,
)
npu_swiglu = define("npu_swiglu(Tensor self, int dim=-1) -> Tensor", _swiglu)
npu_rotary_mul = define("npu_rotary_mul(Tensor self, Tensor r1, Tensor r2, str rotary_mode='half') -> Tensor", _rotary)
npu_scaled_masked_softmax = define(
    "npu_scaled_masked_softmax(Tensor x, Tensor mask, Scalar scale=1.0, bool fixed_triu_mask=False) -> Tensor",
    _masked_softmax,
)
npu_fast_gelu = define("npu_fast_gelu(Tensor self) -> Tensor", lambda x: x * torch.sigmoid(1.702 * x))
fast_gelu = define("fast_gelu(Tensor self) -> Tensor", lambda x: x * torch.sigmoid(1.702 * x))
npu_gelu = define(
    "npu_gelu(Tensor self, *, str approximate='none') -> Tensor",
    lambda x, *, approximate="none": functional.gelu(x, approximate=approximate),
)
npu_silu = define("npu_silu(Tensor self) -> Tensor", functional.silu)
npu_mish = define("npu_mish(Tensor self) -> Tensor", functional.mish)
