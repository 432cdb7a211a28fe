"""Mixture of experts: tokens to experts and back, and the choice of experts."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["npu_moe_gating_top_k_softmax", "npu_moe_token_permute", "npu_moe_token_unpermute"]


def npu_moe_token_permute(tokens: torch.Tensor, indices: torch.Tensor, num_out_tokens: Any = None,
                          padded_mode: bool = False) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Tokens in the order of their experts, and where each (token, choice) went."""
    if padded_mode:
        raise NotImplementedError("npu_moe_token_permute: padded_mode is not simulated")
    choices = indices.shape[1] if indices.dim() > 1 else 1
    order = torch.argsort(indices.reshape(-1), stable=True)
    places = torch.argsort(order, stable=True).int()
    if num_out_tokens:
        order = order[:num_out_tokens]
    return tokens.index_select(0, order // choices), places


def npu_moe_token_unpermute(permuted_tokens: torch.Tensor, sorted_indices: torch.Tensor, probs: Any = None,
                            padded_mode: bool = False, restore_shape: Any = None) -> torch.Tensor:  # fmt: skip
    """Tokens back in their order, weighted and summed over their choices."""
    if padded_mode:
        raise NotImplementedError("npu_moe_token_unpermute: padded_mode is not simulated")
    choices = 1 if probs is None else probs.shape[1]
    back = permuted_tokens.index_select(0, sorted_indices.long())
    back = back.reshape(-1, choices, permuted_tokens.shape[-1])
    if probs is not None:
        back = back * probs.unsqueeze(-1).to(back.dtype)
    return back.sum(1)


def npu_moe_gating_top_k_softmax(x: torch.Tensor, finished: Any = None, k: int = 1) -> Any:
    """Weights, experts and row numbers of the ``k`` best experts of every token."""
    weights, experts = torch.topk(torch.softmax(x.float(), -1), k, -1)
    rows = torch.arange(x.shape[0] * k, device=x.device, dtype=torch.int32).reshape(k, -1).t().contiguous()
    return weights.to(x.dtype), experts.int(), rows
