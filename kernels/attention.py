"""FusedInferAttentionScore, PromptFlashAttention, IncreFlashAttention and FlashAttentionScore: plans.

On chips with separate cube and vector cores inference folds the query heads of a key head into the rows and may cut
keys over cores; the training form keeps heads apart and also writes row maxima and sums. Elsewhere attention is made
of other kernels.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ascend_sim import asc
from ascend_sim.ops.registry import NoKernel, kernel
from ascend_sim.ops.schema import OpCall
from ascend_sim.ops.values._attention import COMPRESSED, ENDLESS, Heads
from ascend_sim.ops.values.attention import Attention, attention_of

from ._attention_composed import composed
from ._attention_cube import SLOTS, CubeSide
from ._attention_decode import MOST_KEYS, DecodePlan, decode_attention
from ._attention_plan import AttentionPlan, Strides, blocks_of, deal, tile_sizes
from ._attention_softmax import BLOCK
from ._attention_vector import VectorSide
from ._cube import block_index, tensor
from ._vector import align

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

TRAINING = ("FlashAttentionScore",)
SCORE_TILE = 128 * 1024  # scores of one vector core's tile in the training kernel: 512 KB


@asc.jit
def flash_attention(*gm: Any, plan: AttentionPlan) -> None:
    """One block: a cube core, or one of its two vector cores."""
    block = block_index()
    sizes = _workspace(plan)
    held = {}
    for role, address in zip(plan.roles, gm, strict=True):
        held[role] = tensor(address)
        if role in sizes and not role.startswith("part"):
            held[role] = held[role][block * sizes[role][1] :]
    if asc.ascend_is_aic():
        CubeSide(plan, held, block).run()
    else:
        VectorSide(plan, held, block).run()


def _workspace(plan: AttentionPlan) -> dict[str, tuple[str, int]]:
    """Workspace buffers: (type, elements per block), of ``part`` buffers per core as well."""
    rows, columns = plan.tile_m, align(plan.tile_s, 64)
    out = {
        "scores": ("float32", SLOTS * rows * columns),
        "weights": (plan.dtype, SLOTS * rows * columns),
        "values": ("float32", SLOTS * rows * plan.dv),
        "kept": ("float32", rows * plan.dv),
    }
    if any(plan.joins):
        out |= {
            "part": ("float32", 2 * rows * plan.dv),
            "part_top": ("float32", 2 * rows * BLOCK),
            "part_total": ("float32", 2 * rows * BLOCK),
        }
    return out


@kernel("FusedInferAttentionScore", "PromptFlashAttention", "IncreFlashAttention", "FlashAttentionScore")
def plan_attention(call: OpCall, soc: Soc) -> list[asc.Launch]:
    """One launch on chips with separate cores, a row of them elsewhere. Raises `NoKernel` for forms not done."""
    a = attention_of(call.type, call.inputs, dict(call.attrs))
    if a.dtype not in ("float16", "bfloat16"):
        raise NoKernel(f"attention of {a.dtype}")
    if a.at("pse_shift", "real_shift") >= 0:
        raise NoKernel("attention with a shift added to the scores")
    if call.attr("softmax_lse_flag", False):
        raise NoKernel("attention that returns the logarithm of the row sums")
    if any(width % 16 for width in (a.q.dim, a.rope, a.v_dim)):
        raise NoKernel(f"heads of {a.q.dim} + {a.rope} and {a.v_dim} elements: whole 32-byte blocks only")
    if a.q_lengths is None or a.k_lengths is None:
        raise NoKernel("lengths known at run time only")
    if a.q_lengths != (a.q.tokens,) * a.q.batch or min(a.k_lengths) < 1:
        raise NoKernel("batch entries with fewer query tokens, or without keys")
    if not soc.chip.split_cores:
        if call.type in TRAINING:
            raise NoKernel(f"training attention on {soc.name}, whose cube and vector unit share a core")
        return composed(call, a, soc)
    if _decodes(call, a):
        return [_decode(call, a, soc)]
    plan = _plan(call.type in TRAINING, a, mask_shape(call, a), soc.cores.ai_core_count)
    return [_launch(call, a, plan, soc)]


def _decodes(call: OpCall, a: Attention) -> bool:
    """Whether the stock library takes its all-vector kernel: one float16 query row per head, no grouped heads."""
    return (
        call.type not in TRAINING and a.dtype == "float16" and a.q.tokens == 1 and a.group == 1 and not a.rope
        and a.q.dim == a.v_dim <= 512 and a.at("atten_mask") < 0 and a.k_lengths is not None
        and max(a.k_lengths) <= MOST_KEYS
    )  # fmt: skip


def _decode(call: OpCall, a: Attention, soc: Soc) -> asc.Launch:
    assert a.k_lengths is not None
    cores = soc.cores.vector_core_count
    pairs = [(b, h) for b in range(a.q.batch) for h in range(a.q.heads)]
    used = min(cores, len(pairs))
    share = tuple(tuple(pairs[i * len(pairs) // used : (i + 1) * len(pairs) // used]) for i in range(used))
    plan = DecodePlan(
        share, a.k_lengths, a.q.dim, a.scale, strides_of(a.layout, a.q, a.q.dim), strides_of(a.layout, a.k, a.k.dim),
        strides_of(a.layout.rpartition("_")[2], a.q, a.v_dim),
    )  # fmt: skip
    args = [("in", 0), ("in", 1), ("in", 2), ("out", 0)]
    specs = [*call.inputs[:3], call.outputs[0]]
    gm = [
        (name, s.dtype, s.nbytes, role)
        for name, s, (role, _) in zip(("q", "k", "v", "out"), specs, args, strict=True) if s is not None
    ]  # fmt: skip
    return asc.Launch(
        decode_attention, block_dim=used, kind="AIV", args=args, gm=gm, consts={"plan": plan}, soc=soc,
        signature=lambda block: tuple(a.k_lengths[b] for b, _ in share[block]), name=call.type,  # type: ignore[index]
    )  # fmt: skip


def mask_shape(call: OpCall, a: Attention) -> tuple[int, int, int]:
    """Matrices, rows and pitch of the mask tensor; (0, 0, 0) when there is none to read."""
    index = a.at("atten_mask")
    if index < 0 or (a.mode == 1):
        return 0, 0, 0
    spec = call.inputs[index]
    assert spec is not None
    *lead, rows, columns = spec.logical_shape
    matrices = 1
    for size in lead:
        matrices *= size
    return matrices, rows, columns


def shifts_of(a: Attention) -> tuple[int, ...] | None:
    """Last visible key less token, per batch entry; None when position hides nothing."""
    assert a.k_lengths is not None
    bands = [a.band(a.q.tokens, keys) for keys in a.k_lengths]
    for band, keys in zip(bands, a.k_lengths, strict=True):
        if band.before < a.q.tokens + abs(band.shift):
            raise NoKernel(f"a band that hides keys more than {band.before} tokens back")
        if band.after < ENDLESS // 2 and band.shift + band.after < 0:
            raise NoKernel(f"{a.q.tokens} query tokens over {keys} keys: the first ones see none")
    if all(band.after >= keys + abs(band.shift) for band, keys in zip(bands, a.k_lengths, strict=True)):
        return None
    return tuple(band.shift + band.after for band in bands)


def mask_kind(a: Attention, shape: tuple[int, int, int], shifts: tuple[int, ...] | None) -> str:
    """How masks of tiles are read: ``""`` not at all, ``compressed`` from the triangle, ``full``. Raises `NoKernel`."""
    mask = "" if not shape[0] else "compressed" if a.mode in COMPRESSED else "full"
    if mask == "full" and shifts is not None:
        raise NoKernel("a mask tensor together with a band")
    if not mask and shifts is not None:
        raise NoKernel("a band without its mask tensor")
    return "" if mask == "compressed" and shifts is None else mask


@lru_cache(maxsize=1024)
def _plan(train: bool, a: Attention, shape: tuple[int, int, int], cores: int) -> AttentionPlan:
    assert a.q_lengths is not None and a.k_lengths is not None
    shifts = shifts_of(a)
    mask = mask_kind(a, shape, shifts)
    fold = 1 if train else a.group
    keys, tokens = max(a.k_lengths), a.q.tokens
    tile_m, tile_s = _train_tiles(tokens, keys) if train else tile_sizes(tokens, fold, keys, bool(mask))
    tile_s = min(tile_s, align(keys, 64))
    tile_m = min(tile_m, align(tokens * fold, 16))
    heads = a.k.heads if fold == a.group else a.q.heads
    token_major = a.layout.partition("_")[0] != "BNSD"
    blocks = blocks_of(heads, fold, token_major, tile_m, tile_s, a.q_lengths, a.k_lengths, shifts, mask == "full")
    work, joins = deal(blocks, cores, split=not train)
    roles = [name for name, _ in _operands(a, bool(mask))] + (["top", "total"] if train else []) + ["out"]
    plan = AttentionPlan(
        a.dtype, a.q.dim, a.rope, a.v_dim, fold, a.group, token_major, a.scale, tile_m, tile_s, mask, shape,
        a.q_lengths, shifts or (), strides_of(a.layout, a.q, a.q.dim), strides_of(a.layout, a.k, a.k.dim),
        strides_of(a.layout, a.k, a.v_dim), strides_of(a.layout.rpartition("_")[2], a.q, a.v_dim),
        strides_of(a.layout, a.q, a.rope), strides_of(a.layout, a.k, a.rope), (), work, joins,
        (a.q.heads, tokens) if train else None,
    )  # fmt: skip
    from dataclasses import replace

    return replace(plan, roles=(*roles, *_workspace(plan)))


def _train_tiles(tokens: int, keys: int) -> tuple[int, int]:
    """Training kernel: up to 1024 keys at a time, 128 rows or more per vector core while 512 KB of scores allow."""
    s = min(1024, align(keys, 128))
    return min(2 * max(SCORE_TILE // s, 64), 512), s


def strides_of(layout: str, heads: Heads, dim: int) -> Strides:
    b, s, n = heads.batch, heads.tokens, heads.heads
    layout = layout.partition("_")[0]
    if layout == "BNSD":
        return Strides(n * s * dim, dim, s * dim)
    if layout == "SBH":
        return Strides(n * dim, b * n * dim, dim)
    return Strides(s * n * dim, n * dim, dim)


def _operands(a: Attention, mask: bool) -> list[tuple[str, int]]:
    """(role, input) of the tensors the kernel reads."""
    out = [("q", 0), ("k", 1), ("v", 2)]
    if mask:
        out.append(("mask", a.at("atten_mask")))
    if a.rope:
        out += [("q_rope", a.at("query_rope")), ("k_rope", a.at("key_rope"))]
    return out


def _launch(call: OpCall, a: Attention, plan: AttentionPlan, soc: Soc) -> asc.Launch:
    args: list[tuple[str, int]] = []
    gm: list[tuple[str, str, int, str]] = []
    for role, index in _operands(a, bool(plan.mask)):
        spec = call.inputs[index]
        assert spec is not None
        args.append(("in", index))
        gm.append((role, "uint8" if role == "mask" else spec.dtype, spec.nbytes, "in"))
    outs = [("top", 0), ("total", 1), ("out", 3)] if plan.rows_out else [("out", 0)]
    for role, index in outs:
        y = call.outputs[index]
        args.append(("out", index))
        gm.append((role, y.dtype, y.nbytes, "out"))
    for number, (role, (dtype, elements)) in enumerate(_workspace(plan).items()):
        args.append(("workspace", number))
        gm.append((role, dtype, elements * plan.cores * (4 if dtype == "float32" else 2), "workspace"))
    joins = any(plan.joins)

    def signature(block: int) -> Any:
        joined = tuple((j.rows, len(j.parts)) for side in (0, 1) for j in plan.joins[2 * block + side]) if joins else ()
        return tuple(tile.key for tile in plan.work[block]), joined

    return asc.Launch(
        flash_attention, block_dim=plan.cores, kind="MIX", args=args, gm=gm, consts={"plan": plan}, soc=soc,
        signature=signature, cooperative=joins, name=call.type,
        code="object" if call.type in TRAINING else "attention",
    )  # fmt: skip
