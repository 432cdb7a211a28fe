"""Scaled dot-product attention: one flash-attention operator on chips with separate cube and vector cores."""

from __future__ import annotations

import math
from typing import Any

import torch

from torch_npu.dispatch.plan import NoPlan, Plan, T
from torch_npu.dispatch.table import row


def _attributes(query: T, scale: Any, is_causal: bool) -> dict[str, Any]:
    attrs: dict[str, Any] = {
        "head_num": query.shape[1], "input_layout": "BNSD",
        "scale_value": 1 / math.sqrt(query.shape[-1]) if scale is None else float(scale), "keep_prob": 1.0,
    }  # fmt: skip
    if is_causal:
        attrs["next_tockens"] = 0
    return attrs


def _mask(plan: Plan, query: T, key: T, bias: T | None) -> tuple[T | None, T | None]:
    """(additive shift, mask of what is hidden)."""
    if bias is None:
        return None, None
    n, s = query.shape[1:3]
    t = key.shape[2]
    shape = (1,) * (4 - bias.ndim) + bias.shape
    if bias.dtype == torch.bool and shape[1] == 1:
        hidden = plan.op("LogicalNot", [bias])
        return None, plan.broadcast(plan.flat(hidden, shape), (shape[0], 1, s, t))
    if bias.dtype == torch.bool:
        low = plan.fill((), -math.inf, query.dtype)
        bias = plan.op("SelectV2", [bias, plan.fill((), 0, query.dtype), low])
    shift = plan.flat(plan.cast(bias, query.dtype), shape)
    return plan.broadcast(shift, (shape[0], n, s, t)), None


def _causal(plan: Plan, query: T, key: T) -> T:
    s, t = query.shape[2], key.shape[2]
    ones = plan.fill((s, t), True, torch.bool)
    return plan.op("Triu", [ones], diagonal=1)


@row("_scaled_dot_product_fused_attention_overrideable")
def attention(plan: Plan, query: T, key: T, value: T, attn_bias: Any = None, dropout_p: float = 0.0,
              is_causal: bool = False, return_debug_mask: bool = False, scale: Any = None) -> Any:  # fmt: skip
    if dropout_p:
        raise NoPlan("dropout")
    b, n, s, _ = query.shape
    shift, hidden = _mask(plan, query, key, attn_bias)
    if is_causal:
        hidden = _causal(plan, query, key)
    top, total, _, out = plan.op(
        "FlashAttentionScore", [query, key, value, shift, None, None, hidden], **_attributes(query, scale, False)
    )
    first = [plan.op("SliceD", [x], offsets=[0, 0, 0, 0], size=[b, n, s, 1]) for x in (top, total)]
    lse = plan.flat(plan.op("Add", [first[0], plan.op("Log", [first[1]])]), (b, n, s))
    seed = plan.fill((), 0, torch.int64)
    return out, lse, None, None, s, key.shape[2], seed, plan.fill((), 0, torch.int64), None


@row("_scaled_dot_product_fused_attention_overrideable_backward")
def attention_backward(plan: Plan, grad_out: T, query: T, key: T, value: T, attn_bias: Any, grad_input_mask: list[bool],
                       out: T, logsumexp: T, cum_seq_q: Any, cum_seq_k: Any, max_q: int, max_k: int, dropout_p: float,
                       is_causal: bool, philox_seed: Any, philox_offset: Any, scale: Any = None) -> Any:  # fmt: skip
    shift, hidden = _mask(plan, query, key, attn_bias)
    if is_causal:
        hidden = _causal(plan, query, key)
    b, n, s, _ = query.shape
    # the operator takes row maxima and sums apart; exp(x - lse) needs the maximum to be lse and the sum to be 1
    top = plan.broadcast(plan.flat(logsumexp, (b, n, s, 1)), (b, n, s, 8))
    total = plan.fill((b, n, s, 8), 1, torch.float32)
    dq, dk, dv, _ = plan.op(
        "FlashAttentionScoreGrad",
        [query, key, value, grad_out, shift, None, None, hidden, top, total, None, out],
        **_attributes(query, scale, False),
    )
    return dq, dk, dv, None
