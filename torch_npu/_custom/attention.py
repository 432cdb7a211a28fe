"""Attention: npu_fusion_attention (training), npu_fused_infer_attention_score and its older forms (inference)."""

from __future__ import annotations

from typing import Any

import torch

from torch_npu._custom._define import define

__all__ = ["npu_fused_infer_attention_score", "npu_fusion_attention", "npu_incre_flash_attention",
           "npu_prompt_flash_attention"]  # fmt: skip


def _split(x: torch.Tensor, layout: str, heads: int) -> torch.Tensor:
    """As [B, N, S, D]."""
    if layout == "BNSD":
        return x
    if layout == "BSND":
        return x.transpose(1, 2)
    if layout == "SBH":
        x = x.transpose(0, 1)
    b, s, h = x.shape
    return x.reshape(b, s, heads, h // heads).transpose(1, 2)


def _joined(x: torch.Tensor, layout: str) -> torch.Tensor:
    b, n, s, d = x.shape
    if layout == "BNSD":
        return x
    x = x.transpose(1, 2)
    if layout == "BSND":
        return x.contiguous()
    x = x.reshape(b, s, n * d)
    return x.transpose(0, 1).contiguous() if layout == "SBH" else x


def _hidden(mask: Any, mode: int, s: int, t: int, before: int, after: int, device: Any) -> Any:
    rows = torch.arange(s, device=device)[:, None]
    columns = torch.arange(t, device=device)[None, :]
    if mode == 2:
        return columns > rows
    if mode == 3:
        return columns > rows + (t - s)
    hidden = None
    if mode in (0, 4):
        shift = t - s if mode == 4 else 0
        if before < max(s, t) or after < max(s, t):
            hidden = (columns > rows + shift + after) | (columns < rows + shift - before)
    if mask is not None and mode in (0, 1):
        given = mask.bool()
        hidden = given if hidden is None else given | hidden
    return hidden


def _attend(q: Any, k: Any, v: Any, scale: float, pse: Any, hidden: Any) -> tuple[Any, Any, Any]:
    group = q.shape[1] // k.shape[1]
    if group > 1:
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = torch.matmul(q.float(), k.float().transpose(-1, -2)) * scale
    if pse is not None:
        scores = scores + pse.float()
    if hidden is not None:
        scores = scores.masked_fill(hidden, -3.4e38)
    top = scores.amax(-1, keepdim=True)
    weights = torch.exp(scores - top)
    total = weights.sum(-1, keepdim=True)
    return torch.matmul(weights / total, v.float()).to(q.dtype), top, total


def _fusion(query: Any, key: Any, value: Any, head_num: int, input_layout: str, pse: Any = None,
            padding_mask: Any = None, atten_mask: Any = None, scale: float = 1.0, keep_prob: float = 1.0,
            pre_tockens: int = 2147483647, next_tockens: int = 2147483647, inner_precise: int = 0, prefix: Any = None,
            actual_seq_qlen: Any = None, actual_seq_kvlen: Any = None, sparse_mode: int = 0,
            gen_mask_parallel: bool = True, sync: bool = False) -> Any:  # fmt: skip
    if input_layout == "TND":
        raise NotImplementedError("npu_fusion_attention: layout TND is not simulated")
    q = _split(query, input_layout, head_num)
    width = key.shape[-1]
    kv_heads = (
        key.shape[1] if input_layout == "BNSD" else key.shape[2] if input_layout == "BSND" else width // q.shape[-1]
    )
    k, v = _split(key, input_layout, kv_heads), _split(value, input_layout, kv_heads)
    hidden = _hidden(atten_mask, sparse_mode, q.shape[2], k.shape[2], pre_tockens, next_tockens, query.device)
    out, top, total = _attend(q, k, v, scale, pse, hidden)
    top, total = (x.expand(*x.shape[:3], 8).contiguous() for x in (top, total))
    return _joined(out, input_layout), top, total, query.new_empty(0), 0, 0, 0


npu_fusion_attention = define(
    "npu_fusion_attention(Tensor query, Tensor key, Tensor value, int head_num, str input_layout, Tensor? pse=None, "
    "Tensor? padding_mask=None, Tensor? atten_mask=None, float scale=1., float keep_prob=1., "
    "int pre_tockens=2147483647, "
    "int next_tockens=2147483647, int inner_precise=0, int[]? prefix=None, int[]? actual_seq_qlen=None, "
    "int[]? actual_seq_kvlen=None, int sparse_mode=0, bool gen_mask_parallel=True, bool sync=False) -> "
    "(Tensor, Tensor, Tensor, Tensor, int, int, int)",
    _fusion,
)


def _infer(query: Any, key: Any, value: Any, *, pse_shift: Any = None, atten_mask: Any = None,
           actual_seq_lengths: Any = None, actual_seq_lengths_kv: Any = None, num_heads: int = 1, scale: float = 1.0,
           pre_tokens: int = 2147483647, next_tokens: int = 2147483647, input_layout: str = "BSH",
           num_key_value_heads: int = 0, sparse_mode: int = 0, inner_precise: int = 0,
           softmax_lse_flag: bool = False) -> Any:  # fmt: skip
    heads = num_key_value_heads or num_heads
    layout = input_layout.partition("_")[0]
    q, k, v = _split(query, layout, num_heads), _split(key, layout, heads), _split(value, layout, heads)
    hidden = _hidden(atten_mask, sparse_mode, q.shape[2], k.shape[2], pre_tokens, next_tokens, query.device)
    if actual_seq_lengths_kv is not None:
        given = list(actual_seq_lengths_kv)
        given = given * q.shape[0] if len(given) == 1 else given
        lengths = torch.tensor(given, device=query.device).reshape(-1, 1, 1, 1)
        beyond = torch.arange(k.shape[2], device=query.device) >= lengths
        hidden = beyond if hidden is None else beyond | hidden
    out, top, total = _attend(q, k, v, scale, pse_shift, hidden)
    lse = torch.log(total) + top if softmax_lse_flag else torch.zeros(1, device=query.device)
    return _joined(out, input_layout.rpartition("_")[2]), lse


npu_fused_infer_attention_score = define(
    "npu_fused_infer_attention_score(Tensor query, Tensor key, Tensor value, *, Tensor? pse_shift=None, "
    "Tensor? atten_mask=None, int[]? actual_seq_lengths=None, int[]? actual_seq_lengths_kv=None, int num_heads=1, "
    "float scale=1.0, int pre_tokens=2147483647, int next_tokens=2147483647, str input_layout='BSH', "
    "int num_key_value_heads=0, int sparse_mode=0, int inner_precise=0, bool softmax_lse_flag=False) -> "
    "(Tensor, Tensor)",
    _infer, gradient=False,
)  # fmt: skip


def npu_prompt_flash_attention(query: Any, key: Any, value: Any, *, scale_value: float = 1.0, **kwargs: Any) -> Any:
    """The older form of `npu_fused_infer_attention_score` for prompts."""
    return npu_fused_infer_attention_score(query, key, value, scale=scale_value, **kwargs)[0]


def npu_incre_flash_attention(query: Any, key: Any, value: Any, *, scale_value: float = 1.0,
                              actual_seq_lengths: Any = None, **kwargs: Any) -> Any:  # fmt: skip
    """The older form of `npu_fused_infer_attention_score` for one new token."""
    return npu_fused_infer_attention_score(query, key, value, scale=scale_value,
                                           actual_seq_lengths_kv=actual_seq_lengths, **kwargs)[0]  # fmt: skip
