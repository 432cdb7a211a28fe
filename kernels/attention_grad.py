"""FlashAttentionScoreGrad: the plan, for chips with separate cube and vector cores."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ascend_sim import asc
from ascend_sim.ops.registry import NoKernel, kernel
from ascend_sim.ops.schema import OpCall
from ascend_sim.ops.values.attention import Attention, attention_of

from ._attention_grad_cube import SLOTS, TILE_M, TILE_S, GradCube, GradPlan, key_of
from ._attention_grad_vector import MOST_ROWS, STRIP, GradVector
from ._attention_plan import blocks_of, deal
from ._attention_softmax import BLOCK
from ._cube import block_index, even, tensor
from .attention import mask_kind, mask_shape, shifts_of, strides_of

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

INPUTS = {"q": "query", "k": "key", "v": "value", "dy": "dy", "top": "softmax_max", "total": "softmax_sum",
          "y": "attention_in"}  # fmt: skip
OUTPUTS = ("dq", "dk", "dv")
MAX_WIDTH = 256  # of a head: 128 rows of it fill a buffer of L1


@asc.jit
def flash_attention_grad(*gm: Any, plan: GradPlan) -> None:
    """One block: a cube core, or one of its two vector cores."""
    block = block_index()
    held = {role: tensor(address) for role, address in zip(plan.roles, gm, strict=True)}
    for role in ("scores", "raised", "weights", "steps"):
        held[role] = held[role][block * SLOTS * TILE_M * TILE_S :]
    if asc.ascend_is_aic():
        for role in OUTPUTS:
            held[role] = held[f"{role}_sum"]
        GradCube(plan, held, block).run()
    else:
        GradVector(plan, held, block).run()


@kernel("FlashAttentionScoreGrad")
def plan_attention_grad(call: OpCall, soc: Soc) -> list[asc.Launch]:
    """One launch. Raises `NoKernel` for chips with coupled cores and for forms the kernel does not do."""
    if not soc.chip.split_cores:
        raise NoKernel(f"attention gradient on {soc.name}, whose cube and vector unit share a core")
    a = attention_of(call.type, call.inputs, dict(call.attrs))
    if a.dtype not in ("float16", "bfloat16"):
        raise NoKernel(f"attention gradient of {a.dtype}")
    if a.at("pse_shift") >= 0 or a.rope:
        raise NoKernel("attention gradient with a shift or rotary parts")
    if a.q.dim != a.v_dim or a.q.dim % 16 or a.q.dim > MAX_WIDTH:
        raise NoKernel(f"attention gradient of heads of {a.q.dim} and {a.v_dim} elements")
    for name in ("softmax_max", "softmax_sum", "attention_in"):
        if a.at(name) < 0:
            raise NoKernel(f"attention gradient without {name}")
    if a.q_lengths != (a.q.tokens,) * a.q.batch or a.k_lengths != (a.k.tokens,) * a.k.batch:
        raise NoKernel("attention gradient over parts of the batch entries")
    plan = _plan(a, mask_shape(call, a), soc.cores.ai_core_count)
    return [_launch(call, a, plan, soc)]


def _workspace(a: Attention) -> dict[str, tuple[str, int, bool]]:
    """Workspace buffers: type, elements, whether per block."""
    tile = SLOTS * TILE_M * TILE_S
    q, k = a.q.batch * a.q.heads * a.q.tokens * a.q.dim, a.k.batch * a.k.heads * a.k.tokens * a.k.dim
    return {
        "scores": ("float32", tile, True), "raised": ("float32", tile, True), "weights": (a.dtype, tile, True),
        "steps": (a.dtype, tile, True), "dq_sum": ("float32", q, False), "dk_sum": ("float32", k, False),
        "dv_sum": ("float32", k, False), "dots": ("float32", q // a.q.dim * BLOCK, False),
    }  # fmt: skip


@lru_cache(maxsize=256)
def _plan(a: Attention, shape: tuple[int, int, int], cores: int) -> GradPlan:
    shifts = shifts_of(a)
    mask = mask_kind(a, shape, shifts)
    lengths = (a.q.tokens,) * a.q.batch, (a.k.tokens,) * a.k.batch
    blocks = blocks_of(a.q.heads, 1, True, TILE_M, TILE_S, *lengths, shifts, mask == "full")
    work, _ = deal(blocks, cores, True)
    rows = [
        (b, h, token, count) for b in range(a.q.batch) for h in range(a.q.heads)
        for token, count in even(a.q.tokens, min(STRIP // a.q.dim, MOST_ROWS))
    ]  # fmt: skip
    vector = 2 * len(work)
    dealt = tuple(tuple(rows[i * len(rows) // vector : (i + 1) * len(rows) // vector]) for i in range(vector))
    roles = (*INPUTS, *(("mask",) if mask else ()), *OUTPUTS, *_workspace(a))
    sizes = a.q.batch * a.q.heads * a.q.tokens * a.q.dim, a.k.batch * a.k.heads * a.k.tokens * a.k.dim
    return GradPlan(
        a.dtype, a.q.dim, a.group, a.q.heads, a.q.tokens, a.scale, mask, shape, shifts or (),
        strides_of(a.layout, a.q, a.q.dim), strides_of(a.layout, a.k, a.k.dim), roles, work, dealt, sizes,
    )  # fmt: skip


def _launch(call: OpCall, a: Attention, plan: GradPlan, soc: Soc) -> asc.Launch:
    blocks = len(plan.work)
    args: list[tuple[str, int]] = []
    gm: list[tuple[str, str, int, str]] = []
    places = {role: a.at(name) for role, name in INPUTS.items()} | {"mask": a.at("atten_mask")}
    spaces = _workspace(a)
    for role in plan.roles:
        if role in places:
            spec = call.inputs[places[role]]
            assert spec is not None
            args.append(("in", places[role]))
            gm.append((role, "uint8" if role == "mask" else spec.dtype, spec.nbytes, "in"))
        elif role in OUTPUTS:
            y = call.outputs[OUTPUTS.index(role)]
            args.append(("out", OUTPUTS.index(role)))
            gm.append((role, y.dtype, y.nbytes, "out"))
        else:
            dtype, elements, per_block = spaces[role]
            args.append(("workspace", len(gm)))
            size = elements * (blocks if per_block else 1) * (4 if dtype == "float32" else 2)
            gm.append((role, dtype, size, "workspace"))

    def signature(block: int) -> Any:
        pieces = tuple(tuple(piece[3] for piece in plan.rows[2 * block + side]) for side in (0, 1))
        edge = block == blocks - 1  # the share of the flat passes may be shorter
        return tuple(key_of(t) for t in plan.work[block]), pieces, edge

    return asc.Launch(
        flash_attention_grad, block_dim=blocks, kind="MIX", args=args, gm=gm, consts={"plan": plan}, soc=soc,
        signature=signature, cooperative=True, name=call.type, code="object",
    )  # fmt: skip
