"""Attention: FusedInferAttentionScore, PromptFlashAttention, IncreFlashAttention, FlashAttentionScore and its gradient.

softmax(Q K^T scale + mask) V with grouped heads, several layouts, sparse modes 0 to 4 and lengths per batch entry;
computed in float32 and rounded once. Sources: operator pages of hicann/ops-transformer, restated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ascend_sim.ops.dtypes import numpy_dtype
from ascend_sim.ops.registry import Array
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, need, optional, text
from ascend_sim.ops.values._attention import (
    COMPRESSED,
    ENDLESS,
    Band,
    Heads,
    attend,
    band_of,
    from_bnsd,
    heads_of,
    lengths,
    mask_rows,
    to_bnsd,
    union,
)
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._numeric import float32, narrow

INFER_INPUTS = (
    "query key value pse_shift? atten_mask? actual_seq_lengths? actual_seq_lengths_kv? dequant_scale1? quant_scale1? "
    "dequant_scale2? quant_scale2? quant_offset2? antiquant_scale? antiquant_offset? block_table? query_padding_size? "
    "kv_padding_size? key_antiquant_scale? key_antiquant_offset? value_antiquant_scale? value_antiquant_offset? "
    "key_shared_prefix? value_shared_prefix? actual_shared_prefix_len? query_rope? key_rope?"
)
PROMPT_INPUTS = (
    "query key value pse_shift? atten_mask? actual_seq_lengths? actual_seq_lengths_kv? deq_scale1? quant_scale1? "
    "deq_scale2? quant_scale2? quant_offset2?"
)
DECODE_INPUTS = (
    "query key value pse_shift? atten_mask? actual_seq_lengths_kv? dequant_scale1? quant_scale1? dequant_scale2? "
    "quant_scale2? quant_offset2? antiquant_scale? antiquant_offset? block_table? kv_padding_size?"
)
TRAIN_INPUTS = (
    "query key value real_shift? drop_mask? padding_mask? atten_mask? prefix? actual_seq_qlen? actual_seq_kvlen?"
)
GRAD_INPUTS = (
    "query key value dy pse_shift? drop_mask? padding_mask? atten_mask? softmax_max? softmax_sum? softmax_in? "
    "attention_in? prefix? actual_seq_qlen? actual_seq_kvlen?"
)
_NAMES = {
    "FusedInferAttentionScore": INFER_INPUTS, "PromptFlashAttention": PROMPT_INPUTS,
    "IncreFlashAttention": DECODE_INPUTS, "FlashAttentionScore": TRAIN_INPUTS, "FlashAttentionScoreGrad": GRAD_INPUTS,
}  # fmt: skip
_SHIFTS = ("pse_shift", "real_shift")
_QUERY_LENGTHS = ("actual_seq_lengths", "actual_seq_qlen")
_KEY_LENGTHS = ("actual_seq_lengths_kv", "actual_seq_kvlen")
_SERVED = {
    "query", "key", "value", "dy", "atten_mask", "query_rope", "key_rope", "softmax_max", "softmax_sum", "softmax_in",
    "attention_in", *_SHIFTS, *_QUERY_LENGTHS, *_KEY_LENGTHS,
}  # fmt: skip
_FLOATS = ("float16", "bfloat16", "float32")


@dataclass(frozen=True)
class Attention:
    """One attention call: sizes, layout, scaling and which keys are seen. ``place`` gives the index of an input by
    its name (-1: absent); ``q_lengths`` / ``k_lengths``: valid tokens of each batch entry, None when known at run
    time only; ``mask_mode`` as the attribute ``sparse_mode``."""

    layout: str
    q: Heads
    k: Heads
    v_dim: int
    rope: int
    dtype: str
    scale: float
    mode: int
    before: int
    after: int
    place: tuple[tuple[str, int], ...]
    q_lengths: tuple[int, ...] | None
    k_lengths: tuple[int, ...] | None

    @property
    def group(self) -> int:
        """Query heads of each key head."""
        return self.q.heads // self.k.heads

    def at(self, *names: str) -> int:
        """Index of the first present input of these names, -1 when there is none."""
        return next((i for name, i in self.place if name in names), -1)

    def band(self, q: int, k: int) -> Band:
        return band_of(self.mode, self.before, self.after, q, k, self.at("atten_mask") >= 0)


def attention_of(op_type: str, inputs: Specs, attrs: dict[str, Any]) -> Attention:
    """Read a call of one of the attention operators. Raises `ShapeError` naming what does not fit."""
    names = [name.rstrip("?") for name in _NAMES[op_type].split()]
    place = tuple((name, i) for i, name in enumerate(names) if optional(inputs, i) is not None)
    for name, i in place:
        if name not in _SERVED:
            raise ShapeError(f"input {i} ({name}) is given; quantised, paged and shared-prefix forms are not served")
    q, k, v = need(inputs, 0, "query"), need(inputs, 1, "key"), need(inputs, 2, "value")
    heads = int(attrs.get("num_heads", attrs.get("head_num", 0)))
    layout = str(attrs.get("input_layout", "BSH"))
    if layout not in ("BSND", "BSH", "BNSD", "SBH", "BNSD_BSND"):
        raise ShapeError(f"attribute input_layout is {layout!r}; expected BSND, BSH, BNSD, SBH or BNSD_BSND")
    qh = heads_of(q, layout, heads, "query")
    kh, vh = _key_value(k, v, layout, qh, int(attrs.get("num_key_value_heads", 0)))
    if q.dtype != k.dtype or q.dtype != v.dtype or q.dtype not in _FLOATS:
        raise ShapeError(f"query is {text(q)}, key {text(k)}, value {text(v)}; expected one floating type")
    if kh.heads < 1 or qh.heads % kh.heads:
        raise ShapeError(f"{qh.heads} query heads do not share {kh.heads} key heads evenly")
    if (kh.batch, kh.dim) != (qh.batch, qh.dim):
        raise ShapeError(f"key is {text(k)}; expected batch {qh.batch} and dim {qh.dim} of the query")
    found = dict(place)
    rope = 0
    if "query_rope" in found or "key_rope" in found:
        qr, kr = (need(inputs, found.get(name, len(inputs)), name) for name in ("query_rope", "key_rope"))
        rope = heads_of(qr, layout, qh.heads, "query_rope").dim
        if heads_of(kr, layout, kh.heads, "key_rope").dim != rope:
            raise ShapeError(f"key_rope is {text(kr)}; expected dim {rope} of query_rope {text(qr)}")
    scale = attrs.get("scale", attrs.get("scale_value"))
    mode = int(attrs.get("sparse_mode", 0))
    before = int(attrs.get("pre_tokens", attrs.get("pre_tockens", ENDLESS)))
    unset = 0 if op_type == "PromptFlashAttention" else ENDLESS
    after = int(attrs.get("next_tokens", attrs.get("next_tockens", unset)))
    band_of(mode, before, after, 1, 1, True)
    mask = optional(inputs, found.get("atten_mask", -1)) if "atten_mask" in found else None
    _check_mask(mask, mode, qh, kh)
    return Attention(
        layout, qh, kh, vh.dim, rope, q.dtype, 1.0 if scale is None else float(scale), mode,
        before, after, place, _lengths(inputs, found, _QUERY_LENGTHS, qh), _lengths(inputs, found, _KEY_LENGTHS, kh),
    )  # fmt: skip


def _key_value(k: TensorSpec, v: TensorSpec, layout: str, q: Heads, heads: int) -> tuple[Heads, Heads]:
    """Axes of key and value. Without ``num_key_value_heads`` a flat layout has as many as the query's width allows."""
    if not heads:
        heads = k.logical_shape[-1] // q.dim if layout.partition("_")[0].endswith("H") else 0
    kh = heads_of(k, layout, heads, "key")
    vh = heads_of(v, layout, heads, "value")
    if (vh.batch, vh.tokens, vh.heads) != (kh.batch, kh.tokens, kh.heads):
        raise ShapeError(f"value is {text(v)}; expected batch, tokens and heads of key {text(k)}")
    return kh, vh


def _check_mask(mask: TensorSpec | None, mode: int, q: Heads, k: Heads) -> None:
    if mask is None:
        if mode in COMPRESSED:
            raise ShapeError(f"attribute sparse_mode is {mode}; it needs the 2048 x 2048 atten_mask")
        return
    shape = mask.logical_shape
    if mask.dtype not in ("bool", "int8", "uint8"):
        raise ShapeError(f"atten_mask is {text(mask)}; expected bool, int8 or uint8")
    if mode in COMPRESSED:
        if shape[-2:] != (2048, 2048):
            raise ShapeError(f"atten_mask is {text(mask)}; sparse_mode {mode} takes the compressed [2048,2048] one")
        return
    if len(shape) < 2 or shape[-2] < q.tokens or shape[-1] < k.tokens or (len(shape) == 4 and shape[1] != 1):
        raise ShapeError(f"atten_mask is {text(mask)}; expected at least [{q.tokens},{k.tokens}], one for all heads")


def _lengths(
    inputs: Specs, found: dict[str, int], names: Sequence[str], heads: Heads
) -> tuple[int, ...] | None:
    index = next((found[n] for n in names if n in found), -1)
    if index < 0:
        return (heads.tokens,) * heads.batch
    spec = inputs[index]
    assert spec is not None
    if spec.const is None:
        return None
    given = np.frombuffer(spec.const, numpy_dtype(spec.dtype)).tolist()
    return tuple(lengths(given, heads.batch, heads.tokens, names[0]))


# ---- shapes


def _out(a: Attention) -> TensorSpec:
    b, s, n, d = a.q.batch, a.q.tokens, a.q.heads, a.v_dim
    shape = {"BNSD": (b, n, s, d), "BSND": (b, s, n, d), "BSH": (b, s, n * d), "SBH": (s, b, n * d)}
    return TensorSpec(shape[a.layout.rpartition("_")[2]], a.dtype)


def _infer_fused(op_type: str) -> Any:
    def infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
        a = attention_of(op_type, inputs, attrs)
        if op_type != "FusedInferAttentionScore":
            return [_out(a)]
        lse = (a.q.batch, a.q.heads, a.q.tokens, 1) if attrs.get("softmax_lse_flag", False) else (1,)
        return [_out(a), TensorSpec(lse, "float32")]

    return infer


def _infer_train(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    a = attention_of("FlashAttentionScore", inputs, attrs)
    if float(attrs.get("keep_prob", 1.0)) != 1.0:
        raise ShapeError(f"attribute keep_prob is {attrs['keep_prob']}; expected 1 (no dropout)")
    rows = TensorSpec((a.q.batch, a.q.heads, a.q.tokens, 8), "float32")
    return [rows, rows, TensorSpec((0,), a.dtype), _out(a)]


def _infer_grad(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    attention_of("FlashAttentionScoreGrad", inputs, attrs)
    dy = need(inputs, 3, "dy")
    q, k, v = (need(inputs, i, name) for i, name in enumerate(("query", "key", "value")))
    if dy.dtype != q.dtype:
        raise ShapeError(f"dy is {text(dy)}; expected {q.dtype}")
    return [*(TensorSpec(s.logical_shape, s.dtype) for s in (q, k, v)), TensorSpec((0,), q.dtype)]


# ---- values


@dataclass(frozen=True)
class _Group:
    """Arrays of one batch entry and key head: q [g, s, d], k [t, d], v [t, d]."""

    b: int
    heads: slice
    key_head: int
    q: Array
    k: Array
    v: Array
    hidden: Array | None
    shift: Array | None


def _groups(arrays: Sequence[Array | None], a: Attention) -> Iterator[_Group]:
    q, k, v = arrays[0], arrays[1], arrays[2]
    assert q is not None and k is not None and v is not None
    q4, k4, v4 = to_bnsd(q, a.layout, a.q.heads), to_bnsd(k, a.layout, a.k.heads), to_bnsd(v, a.layout, a.k.heads)
    if a.rope:
        qr, kr = arrays[a.at("query_rope")], arrays[a.at("key_rope")]
        assert qr is not None and kr is not None
        q4 = np.concatenate([q4, to_bnsd(qr, a.layout, a.q.heads)], -1)
        k4 = np.concatenate([k4, to_bnsd(kr, a.layout, a.k.heads)], -1)
    mask = arrays[a.at("atten_mask")] if a.at("atten_mask") >= 0 else None
    shift = arrays[a.at(*_SHIFTS)] if a.at(*_SHIFTS) >= 0 else None
    q_lengths = _run_lengths(arrays, a, _QUERY_LENGTHS, a.q_lengths, a.q)
    k_lengths = _run_lengths(arrays, a, _KEY_LENGTHS, a.k_lengths, a.k)
    for b in range(a.q.batch):
        s, t = q_lengths[b], k_lengths[b]
        hidden = union(a.band(s, t).hidden(s, t), mask_rows(mask, a.mode, b, s, t))
        for n in range(a.k.heads):
            heads = slice(n * a.group, (n + 1) * a.group)
            part = None if shift is None else shift[b % shift.shape[0], heads, :s, :t]
            yield _Group(b, heads, n, q4[b, heads, :s], k4[b, n, :t], v4[b, n, :t], hidden, part)


def _run_lengths(
    arrays: Sequence[Array | None], a: Attention, names: Sequence[str], known: tuple[int, ...] | None, heads: Heads
) -> Sequence[int]:
    if known is not None:
        return known
    given = arrays[a.at(*names)]
    assert given is not None
    return lengths(given.reshape(-1).tolist(), heads.batch, heads.tokens, names[0])


def _forward(arrays: Sequence[Array | None], a: Attention) -> tuple[Array, Array, Array]:
    """Output [b, n, s, d] in float32, row maxima and row sums [b, n, s]."""
    b, n, s = a.q.batch, a.q.heads, a.q.tokens
    out = np.zeros((b, n, s, a.v_dim), np.float32)
    top, total = np.zeros((b, n, s), np.float32), np.zeros((b, n, s), np.float32)
    for g in _groups(arrays, a):
        rows = g.q.shape[1]
        part, high, weight = attend(g.q, g.k, g.v, a.scale, g.hidden, g.shift)
        out[g.b, g.heads, :rows], top[g.b, g.heads, :rows], total[g.b, g.heads, :rows] = part, high, weight
    return out, top, total


def _values_fused(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    a = attention_of(call.type, call.inputs, dict(call.attrs))
    out, top, total = _forward(arrays, a)
    result = [narrow(from_bnsd(out, a.layout), a.dtype)]
    if len(call.outputs) > 1:
        if call.attr("softmax_lse_flag", False):
            with np.errstate(divide="ignore"):
                result.append((np.log(total) + top)[..., None].astype(np.float32))
        else:
            result.append(np.zeros((1,), np.float32))
    return result


def _values_train(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    a = attention_of(call.type, call.inputs, dict(call.attrs))
    out, top, total = _forward(arrays, a)
    rows = [np.repeat(x[..., None], 8, axis=-1) for x in (top, total)]
    return [*rows, np.zeros((0,), numpy_dtype(a.dtype)), narrow(from_bnsd(out, a.layout), a.dtype)]


def _values_grad(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """dV = P^T dY; dP = dY V^T; dS = P (dP - rowsum(dY Y)); dQ = dS K scale; dK = dS^T Q scale."""
    a = attention_of(call.type, call.inputs, dict(call.attrs))
    dy = arrays[3]
    assert dy is not None
    dy4 = to_bnsd(dy, a.layout.rpartition("_")[2], a.q.heads)
    dq = np.zeros((a.q.batch, a.q.heads, a.q.tokens, a.q.dim), np.float32)
    dk = np.zeros((a.k.batch, a.k.heads, a.k.tokens, a.k.dim), np.float32)
    dv = np.zeros((a.k.batch, a.k.heads, a.k.tokens, a.v_dim), np.float32)
    for g in _groups(arrays, a):
        s, t = g.q.shape[1], g.k.shape[0]
        eye = np.eye(t, dtype=np.float32)
        p, _, _ = attend(g.q, g.k, eye, a.scale, g.hidden, g.shift)
        up = float32(dy4[g.b, g.heads, :s])
        dp = up @ float32(g.v).T
        ds = p * (dp - (dp * p).sum(axis=-1, keepdims=True)) * np.float32(a.scale)
        dq[g.b, g.heads, :s] = ds @ float32(g.k)
        dk[g.b, g.key_head, :t] = np.einsum("gst,gsd->td", ds, float32(g.q))
        dv[g.b, g.key_head, :t] = np.einsum("gst,gsd->td", p, up)
    grads = [narrow(from_bnsd(x, a.layout.partition("_")[0]), a.dtype) for x in (dq, dk, dv)]
    return [*grads, np.zeros((0,), numpy_dtype(a.dtype))]


for _name in ("FusedInferAttentionScore", "PromptFlashAttention", "IncreFlashAttention"):
    define(_name, "attention", _NAMES[_name], _infer_fused(_name), _values_fused)
define("FlashAttentionScore", "attention", TRAIN_INPUTS, _infer_train, _values_train)
define("FlashAttentionScoreGrad", "attention", GRAD_INPUTS, _infer_grad, _values_grad)
