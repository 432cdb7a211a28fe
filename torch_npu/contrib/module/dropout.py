"""Dropouts. On hardware some draw the masks of a whole model ahead of time; here each draws its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from torch_npu.contrib.function import dropout_with_byte_mask


class DropoutWithByteMask(nn.Module):
    """`torch.nn.Dropout`; ``max_seed`` is accepted."""

    def __init__(self, p: float = 0.5, inplace: bool = False, max_seed: int = 2**10 - 1) -> None:
        super().__init__()
        self.p, self.inplace = p, inplace

    def forward(self, input1: torch.Tensor) -> torch.Tensor:
        return dropout_with_byte_mask(input1, self.p, self.training, self.inplace)


class _Dropout(nn.Module):
    def __init__(self, p: float, module_name: str | None = None) -> None:
        super().__init__()
        self.p, self.module_name = p, module_name

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.dropout(x, self.p, self.training)

    @staticmethod
    def enable_dropout_ensemble(model: nn.Module) -> None:
        """Draw all masks at the start of a step: nothing to gain here."""


class NpuCachedDropout(_Dropout):
    """Dropout whose mask hardware draws ahead."""


class NpuFairseqDropout(_Dropout):
    """Dropout of fairseq, whose mask hardware draws ahead."""


class NpuDropPath(nn.Module):
    """Stochastic depth: whole samples are dropped with ``drop_prob``, the others scaled."""

    def __init__(self, drop_prob: float | None = None) -> None:
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, x: Any) -> Any:
        if not self.drop_prob or not self.training:
            return x
        keep = 1 - self.drop_prob
        mask = torch.rand((x.shape[0],) + (1,) * (x.ndim - 1), dtype=x.dtype, device=x.device) < keep
        return x / keep * mask

    @staticmethod
    def enable_droppath_ensemble(model: nn.Module) -> None:
        """Draw all masks at the start of a step: nothing to gain here."""
