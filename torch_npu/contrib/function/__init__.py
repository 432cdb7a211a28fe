"""Functions of ``torch_npu.contrib``, composed of ATen operators."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional


def matmul_transpose(tensor1: torch.Tensor, tensor2: torch.Tensor) -> torch.Tensor:
    """``tensor1 @ tensor2`` with the last two axes of ``tensor2`` exchanged: a flag of the operator, not a copy."""
    return torch.matmul(tensor1, tensor2.transpose(-2, -1))


def roll(x: torch.Tensor, shifts: Any, dims: Any) -> torch.Tensor:
    return torch.roll(x, shifts, dims)


def dropout_with_byte_mask(
    input1: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> torch.Tensor:
    """`torch.nn.functional.dropout`; ValueError for a probability outside of 0 to 1."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    return functional.dropout(input1, p, training, inplace)


def fuse_add_softmax_dropout(
    training: bool, dropout: Any, attn_mask: torch.Tensor, attn_scores: torch.Tensor, attn_head_size: float,
    p: float = 0.5, dim: int = -1,
) -> torch.Tensor:  # fmt: skip
    """``dropout(softmax(attn_mask + attn_scores / sqrt(attn_head_size)))``; without training there is no dropout."""
    scores = torch.add(attn_mask, attn_scores, alpha=1 / math.sqrt(attn_head_size))
    probabilities = functional.softmax(scores, dim=dim)
    return functional.dropout(probabilities, p) if training else probabilities


def npu_fast_condition_index_put(x: torch.Tensor, condition: torch.Tensor, value: float) -> torch.Tensor:
    """``x[condition] = value`` without looking for the positions; ``condition`` is a bool tensor."""
    if condition.dtype != torch.bool:
        raise TypeError(f"condition is of {condition.dtype}; expected torch.bool")
    return torch.where(condition, torch.full_like(x, value), x)


__all__ = ["dropout_with_byte_mask", "fuse_add_softmax_dropout", "matmul_transpose", "npu_fast_condition_index_put",
           "roll"]  # fmt: skip
