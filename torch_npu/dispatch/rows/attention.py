"""Scaled dot-product attention: one flash-attention operator on chips with separate cube and vector cores."""

from __future__ import annotations

import math
from typing import Any

import torch

from torch_npu.dispatch.plan import NoPlan, Plan, T
from torch_npu.dispatch.table import row


def _attributes(query: T, scale: Any) -> dict[str, Any]:
    attrs: dict[str, Any] = {
        "head_num": query.shape[1], "input_layout": "BNSD",
        "scale_value": 1 / math.sqrt(query.shape[-1]) if scale is None else float(scale), "keep_prob": 1.0,
    }  # fmt: skip
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


def _layout(plan: Plan, *tensors: T) -> tuple[str, list[T]]:
    """How the tensors lie in memory: [B, S, N, D] where a program split heads and transposed, else [B, N, S, D]."""
    swapped = [T([x.shape[i] for i in (0, 2, 1, 3)], x.dtype, [x.strides[i] for i in (0, 2, 1, 3)]) for x in tensors]
    if all(s.is_contiguous for s in swapped) and not all(x.is_contiguous for x in tensors):
        return "BSND", [plan.seen_as(x, s.shape) for x, s in zip(tensors, swapped, strict=True)]
    return "BNSD", list(tensors)


def _swapped_view(plan: Plan, x: T) -> T:
    """[B, S, N, D] seen as [B, N, S, D]."""
    b, s, n, d = x.shape
    return plan.seen_as(x, (b, n, s, d), (s * n * d, d, n * d, 1))


@row("_scaled_dot_product_fused_attention_overrideable")
def attention(
    plan: Plan,
    query: T,
    key: T,
    value: T,
    attn_bias: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    scale: Any = None,
) -> Any:
    """Row maxima and row sums, which the gradient needs, are handed on as ``logsumexp`` and ``philox_seed``."""
    if dropout_p:
        raise NoPlan("dropout")
    shift, hidden = _mask(plan, query, key, attn_bias)
    if is_causal:
        hidden = _causal(plan, query, key)
    layout, (q, k, v) = _layout(plan, query, key, value)
    attrs = {**_attributes(query, scale), "input_layout": layout}
    top, total, _, out = plan.op("FlashAttentionScore", [q, k, v, shift, None, None, hidden], **attrs)
    if layout == "BSND":
        out = _swapped_view(plan, out)
    nothing = plan.fill((0,), 0, torch.int64)
    return out, top, None, None, query.shape[2], key.shape[2], total, nothing, None


@row("_scaled_dot_product_fused_attention_overrideable_backward")
def attention_backward(
    plan: Plan,
    grad_out: T,
    query: T,
    key: T,
    value: T,
    attn_bias: Any,
    grad_input_mask: list[bool],
    out: T,
    logsumexp: T,
    cum_seq_q: Any,
    cum_seq_k: Any,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    philox_seed: T,
    philox_offset: Any,
    scale: Any = None,
) -> Any:
    shift, hidden = _mask(plan, query, key, attn_bias)
    if is_causal:
        hidden = _causal(plan, query, key)
    layout, (q, k, v, dy, y) = _layout(plan, query, key, value, grad_out, out)
    grads = plan.op(
        "FlashAttentionScoreGrad",
        [q, k, v, dy, shift, None, None, hidden, logsumexp, philox_seed, None, y],
        **{**_attributes(query, scale), "input_layout": layout},
    )
    dq, dk, dv = (_swapped_view(plan, g) if layout == "BSND" else g for g in grads[:3])
    return dq, dk, dv, None
