"""Custom operators that the chip has as one operator."""

from __future__ import annotations

from typing import Any

import torch

from torch_npu.dispatch.plan import FLOATS, NoPlan, Plan, T
from torch_npu.dispatch.rows.matmul import operand
from torch_npu.dispatch.table import row


def _float(x: T) -> T:
    if x.dtype not in FLOATS - {torch.float64}:
        raise NoPlan("type")
    return x


@row("npu_rms_norm")
def rms_norm(plan: Plan, self: T, gamma: T, epsilon: float = 1e-6) -> Any:
    return plan.op("RmsNorm", [_float(self), gamma], epsilon=float(epsilon))


@row("npu_add_rms_norm")
def add_rms_norm(plan: Plan, x1: T, x2: T, gamma: T, epsilon: float = 1e-6) -> Any:
    return plan.op("AddRmsNorm", [_float(x1), x2, gamma], epsilon=float(epsilon))


@row("npu_swiglu")
def swiglu(plan: Plan, self: T, dim: int = -1) -> Any:
    return plan.op("SwiGlu", [_float(self)], dim=dim)


@row("npu_rotary_mul")
def rotary_mul(plan: Plan, self: T, r1: T, r2: T, rotary_mode: str = "half") -> Any:
    mode = {"half": 0, "interleave": 1}.get(rotary_mode)
    if mode is None:
        raise NoPlan("mode")
    return plan.op("RotaryPositionEmbedding", [_float(self), r1, r2], mode=mode)


@row("npu_fast_gelu", "fast_gelu")
def fast_gelu(plan: Plan, self: T) -> Any:
    return plan.op("FastGelu", [_float(self)])


@row("npu_gelu")
def gelu(plan: Plan, self: T, approximate: str = "none") -> Any:
    return plan.op("GeluV2", [_float(self)], approximate=approximate)


@row("npu_silu")
def silu(plan: Plan, self: T) -> Any:
    return plan.op("Swish", [_float(self)])


@row("npu_linear")
def linear(plan: Plan, input: T, weight: T, bias: Any = None) -> Any:
    _float(input)
    left, ta = operand(plan, input)
    if left.ndim != 2:
        left, ta = plan.flat(input, (-1 if not input.numel else input.numel // input.shape[-1], input.shape[-1])), False
    right, tb = operand(plan, weight)
    y = plan.op("MatMulV2", [left, right, bias], transpose_x1=ta, transpose_x2=not tb)
    return plan.flat(y, (*input.shape[:-1], weight.shape[0]))


@row("npu_dynamic_quant")
def dynamic_quant(plan: Plan, input: T, smooth_scales: Any = None) -> Any:
    return plan.op("DynamicQuant", [_float(input), smooth_scales])


@row("npu_fusion_attention")
def fusion_attention(plan: Plan, query: T, key: T, value: T, head_num: int, input_layout: str, pse: Any = None,
                     padding_mask: Any = None, atten_mask: Any = None, scale: float = 1.0, keep_prob: float = 1.0,
                     pre_tockens: int = 2147483647, next_tockens: int = 2147483647, inner_precise: int = 0,
                     prefix: Any = None, actual_seq_qlen: Any = None, actual_seq_kvlen: Any = None,
                     sparse_mode: int = 0, gen_mask_parallel: bool = True, sync: bool = False) -> Any:  # fmt: skip
    if padding_mask is not None or prefix or actual_seq_qlen or actual_seq_kvlen:
        raise NoPlan("lengths")
    top, total, _, out = plan.op(
        "FlashAttentionScore", [query, key, value, pse, None, None, atten_mask], head_num=head_num,
        input_layout=input_layout, scale_value=float(scale), keep_prob=float(keep_prob), pre_tockens=pre_tockens,
        next_tockens=next_tockens, sparse_mode=sparse_mode,
    )  # fmt: skip
    return out, top, total, plan.fill((0,), 0, query.dtype), 0, 0, 0


@row("npu_fused_infer_attention_score")
def fused_infer(plan: Plan, query: T, key: T, value: T, pse_shift: Any = None, atten_mask: Any = None,
                actual_seq_lengths: Any = None, actual_seq_lengths_kv: Any = None, num_heads: int = 1,
                scale: float = 1.0, pre_tokens: int = 2147483647, next_tokens: int = 2147483647,
                input_layout: str = "BSH", num_key_value_heads: int = 0, sparse_mode: int = 0, inner_precise: int = 0,
                softmax_lse_flag: bool = False) -> Any:  # fmt: skip
    if actual_seq_lengths or actual_seq_lengths_kv:
        raise NoPlan("lengths")
    return plan.op(
        "FusedInferAttentionScore", [query, key, value, pse_shift, atten_mask], num_heads=num_heads, scale=float(scale),
        pre_tokens=pre_tokens, next_tokens=next_tokens, input_layout=input_layout,
        num_key_value_heads=num_key_value_heads, sparse_mode=sparse_mode, softmax_lse_flag=bool(softmax_lse_flag),
    )  # fmt: skip
