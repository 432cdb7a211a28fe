"""Layers that hardware has fast forms of."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional


class Mish(nn.Mish):
    """x tanh(softplus(x))."""


class SiLU(nn.SiLU):
    """x sigmoid(x)."""


class Swish(nn.SiLU):
    """x sigmoid(x)."""


class BiLSTM(nn.Module):
    """A bidirectional LSTM, sequence first: (T, N, input_size) -> (T, N, 2 hidden_size)."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.fw_rnn = nn.LSTM(input_size, hidden_size)
        self.bw_rnn = nn.LSTM(input_size, hidden_size)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        forward, _ = self.fw_rnn(inputs)
        backward, _ = self.bw_rnn(inputs.flip(0))
        return torch.cat((forward, backward.flip(0)), dim=2)


class LabelSmoothingCrossEntropy(nn.Module):
    """Mean cross entropy of classes whose targets are smoothed by ``smooth_factor``."""

    def __init__(self, num_classes: int = 1000, smooth_factor: float = 0.0) -> None:
        super().__init__()
        self.on_value, self.off_value = 1.0 - smooth_factor, smooth_factor / (num_classes - 1)
        self.num_classes = num_classes

    def forward(self, pred: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        hot = functional.one_hot(target.long(), self.num_classes).to(pred.dtype)
        smooth = hot * self.on_value + (1 - hot) * self.off_value
        return -(smooth * functional.log_softmax(pred, dim=-1)).sum(-1).mean()


def autopad(k: Any, p: Any = None) -> Any:
    """Padding that keeps the size for kernels ``k``, unless ``p`` says it."""
    if p is not None:
        return p
    return k // 2 if isinstance(k, int) else [n // 2 for n in k]


def fast_slice(x: torch.Tensor) -> torch.Tensor:
    """The four phases of every second pixel side by side as channels: (N, C, H, W) -> (N, 4 C, H/2, W/2)."""
    return torch.cat((x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2]), dim=1)


class Conv(nn.Module):
    """Convolution, batch norm and SiLU (or ``act``, a module)."""

    def __init__(self, c1: int, c2: int, k: int = 1, s: int = 1, p: Any = None, g: int = 1, act: Any = True) -> None:
        super().__init__()
        self.conv = nn.Conv2d(c1, c2, k, s, autopad(k, p), groups=g, bias=False)
        self.bn = nn.BatchNorm2d(c2)
        self.act = nn.SiLU() if act is True else act if isinstance(act, nn.Module) else nn.Identity()

    def forward(self, x: torch.Tensor) -> Any:
        return self.act(self.bn(self.conv(x)))

    def fuseforward(self, x: torch.Tensor) -> Any:
        """After the norm was folded into the convolution."""
        return self.act(self.conv(x))


class Focus(nn.Module):
    """`fast_slice`, then `Conv`."""

    def __init__(self, c1: int, c2: int, k: int = 1, s: int = 1, p: Any = None, g: int = 1, act: Any = True) -> None:
        super().__init__()
        self.conv = Conv(4 * c1, c2, k, s, p, g, act)

    def forward(self, x: torch.Tensor) -> Any:
        return self.conv(fast_slice(x))
