"""QuantBatchMatmulV3: the plan. int8 x int8, dequantised on the cube's way out or on the vector cores.

Rules of the stock kernel (hicann/ops-nn, restated): with a packed scale and a float16, int8 or int32 result the cube
cores do everything; a bfloat16 result, token scales or a floating bias need the vector cores. Tiles of 128 x 256 x 128
in contiguous runs per core.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ascend_sim import asc
from ascend_sim.isa.layout import ceil_div
from ascend_sim.ops.registry import NoKernel, kernel
from ascend_sim.ops.schema import OpCall, TensorSpec

from ._cube import block_index, cube_buffers, tensor
from ._exit import ExitPlan
from ._matmul import MatmulPlan, Source, kinds_of, link, place_of, tiles_of
from ._matmul_tiling import CubeBuffers, MatmulProblem, MatmulTiling, align
from ._mix import WORK_TILES
from ._quant_cube import QuantCube
from ._quant_vector import QuantVector

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

BASE_M, BASE_N, BASE_K = 128, 256, 128
WORDS = ("uint64", "int64")


@asc.jit
def quant_matmul(*gm: Any, plan: MatmulPlan, out: str, per_column: bool) -> None:
    """Tiles of one block."""
    held = {role: tensor(address) for role, address in zip(plan.roles, gm, strict=True)}
    if asc.ascend_is_aic():
        if "work" in held:
            held.pop("scale")
        QuantCube(plan, {role: [t] for role, t in held.items()}, out, per_column).run()
        return
    tiles = tiles_of(plan, block_index())
    if plan.exit.bias:
        held.pop("bias")
    side = QuantVector(held, plan.tiling.base_m, plan.tiling.base_n, out, per_column)
    side.run([place_of(plan, t) for t in tiles], [t.m for t in tiles])


@kernel("QuantBatchMatmulV3")
def plan_quant(call: OpCall, soc: Soc) -> list[asc.Launch]:
    """Launches of a quantised product: one, after one that packs a float scale where the cube needs words. Raises
    `NoKernel` for forms and chips the kernel does not do."""
    a, b, scale, offset, bias, token = [*call.inputs, None, None, None][:6]
    y = call.outputs[0]
    assert a is not None and b is not None and scale is not None
    if not soc.chip.split_cores:
        raise NoKernel(f"quantised product on {soc.name}, whose cube and vector unit share a core")
    if offset is not None:
        raise NoKernel("quantised product with an offset")
    mixed = y.dtype == "bfloat16" or token is not None or (bias is not None and bias.dtype != "int32")
    if mixed and y.dtype not in ("float16", "bfloat16"):
        raise NoKernel(f"{y.dtype} result with token scales or a floating bias")
    if mixed and scale.dtype in WORDS:
        raise NoKernel("packed scales together with vector work")
    if y.dtype == "int8" and scale.dtype not in WORDS:
        raise NoKernel("int8 result whose scale is not packed")
    if bias is not None and len(bias.logical_shape) != 1:
        raise NoKernel(f"bias of {bias.logical_shape}")
    trans = bool(call.attr("transpose_x1", False)), bool(call.attr("transpose_x2", False))
    plan = _plan(soc, _problem(a, b, *trans, bias is not None and bias.dtype == "int32"), _batches(a, b), mixed,
                 token is not None, None if bias is None else bias.dtype, y.dtype)  # fmt: skip
    launches = []
    scaled = y.dtype != "int32"
    pack = scaled and not mixed and scale.dtype not in WORDS
    if pack:
        launches.append(_packing(scale, soc))
    inputs: dict[str, tuple[str, int, TensorSpec | None]] = {
        "a": ("in", 0, a), "b": ("in", 1, b), "scale": ("in", 2, scale), "bias": ("in", 4, bias),
        "token": ("in", 5, token), "y": ("out", 0, y),
    }  # fmt: skip
    args, gm = [], []
    for role in plan.roles:
        if role == "work":
            args.append(("workspace", 0))
            gm.append((role, "int32", _work_bytes(plan), "workspace"))
        elif role == "scale" and pack:
            args.append(("workspace", 1))
            gm.append((role, "uint64", scale.size * 8, "workspace"))
        else:
            way, index, spec = inputs[role]
            assert spec is not None
            args.append((way, index))
            gm.append((role, "uint64" if spec.dtype == "int64" else spec.dtype, spec.nbytes, way))
    launches.append(asc.Launch(
        quant_matmul, block_dim=plan.tiling.cores, kind="MIX" if mixed else "AIC", args=args, gm=gm,
        consts={"plan": plan, "out": y.dtype, "per_column": scale.size > 1}, soc=soc,
        signature=lambda block: kinds_of(plan, block), name=call.type, code="object",
    ))  # fmt: skip
    return launches


def _problem(a: TensorSpec, b: TensorSpec, trans_a: bool, trans_b: bool, bias: bool) -> MatmulProblem:
    sa, sb = a.logical_shape, b.logical_shape
    m, k = (sa[-1], sa[-2]) if trans_a else sa[-2:]
    n = sb[-2] if trans_b else sb[-1]
    batch = prod(np.broadcast_shapes(sa[:-2], sb[:-2]))
    return MatmulProblem(m, k, n, batch, 1, trans_a, trans_b, False, bias)


def _batches(a: TensorSpec, b: TensorSpec) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Matrix of A and of B for every batch of the result."""
    lead = np.broadcast_shapes(a.logical_shape[:-2], b.logical_shape[:-2])
    index = [np.arange(prod(s[:-2])).reshape(s[:-2]) for s in (a.logical_shape, b.logical_shape)]
    of = [tuple(np.broadcast_to(i, lead).reshape(-1).tolist()) for i in index]
    return of[0], of[1]


def _work_bytes(plan: MatmulPlan) -> int:
    t = plan.tiling
    return WORK_TILES * t.base_m * t.base_n * 4 * t.cores


def quant_tiling(p: MatmulProblem, b: CubeBuffers) -> MatmulTiling:
    """Tile and depth of the transfers: A up to 6 steps of 128 (a few rows: all of K), B two."""
    unit = 32 if p.trans_a else 16
    base_m, base_n = min(BASE_M, align(p.m, unit)), min(BASE_N, align(p.n, 32))
    steps = ceil_div(p.k, BASE_K)
    step_kb = min(2, steps)
    room = (b.l1 // 2 - 2 * base_n * step_kb * BASE_K) // (2 * base_m * BASE_K)
    step_ka = min(6 if base_m > 32 else max(room, 6), steps)
    step_ka = max(step_ka // step_kb * step_kb, step_kb)
    tiles = p.batch * ceil_div(p.m, base_m) * ceil_div(p.n, base_n)
    slots = 2 if base_m * base_n * 8 <= b.l0c else 1
    rounds = ceil_div(tiles, b.cores)
    return MatmulTiling(base_m, base_n, BASE_K, step_ka, step_kb, slots, ceil_div(tiles, rounds))


@lru_cache(maxsize=1024)
def _plan(
    soc: Soc, p: MatmulProblem, of: tuple[tuple[int, ...], tuple[int, ...]], mixed: bool, token: bool,
    bias: str | None, out: str,
) -> MatmulPlan:  # fmt: skip
    t = quant_tiling(p, cube_buffers(soc))
    table = bias == "int32"
    roles = ["a", "b", *(("scale",) if out != "int32" else ()), *(("bias",) if bias else ()),
             *(("token",) if token else ()), "y", *(("work",) if mixed else ())]  # fmt: skip
    leave = ExitPlan("fixpipe", "int32", "int32", out, True, False, None, None, 0, 0, 2, 0, "table" if table else "",
                     "int32", align(p.n, 16))  # fmt: skip
    source_a = Source(False, not p.trans_a, p.m if p.trans_a else p.k, p.m * p.k)
    source_b = Source(False, p.trans_b, p.k if p.trans_b else p.n, p.k * p.n)
    return MatmulPlan(
        p, t, leave, "int8", source_a, source_b, *of, p.n, p.m * p.n, tuple(roles), True, True,
        work=_deal(p, t, of, soc.cores.ai_core_count),
    )  # fmt: skip


def _deal(
    p: MatmulProblem, t: MatmulTiling, of: tuple[tuple[int, ...], tuple[int, ...]], cores: int
) -> tuple[Any, ...]:
    """Contiguous runs of tiles per core, along rows of C, or along columns where C is wide or its tiles divide so."""
    m_tiles, n_tiles = ceil_div(p.m, t.base_m), ceil_div(p.n, t.base_n)
    down = p.n > 5 * p.m or m_tiles % (cores // 2) == 0
    order = [
        (i, j) for j in range(n_tiles) for i in range(m_tiles)
    ] if down else [(i, j) for i in range(m_tiles) for j in range(n_tiles)]  # fmt: skip
    tiles = [
        (batch, i * t.base_m, min(t.base_m, p.m - i * t.base_m), j * t.base_n, min(t.base_n, p.n - j * t.base_n))
        for batch in range(p.batch) for i, j in order
    ]  # fmt: skip
    rounds = ceil_div(len(tiles), t.cores)
    return tuple(link(tiles[c * rounds : (c + 1) * rounds], p, t, *of) for c in range(t.cores))


# ---- packing float scales into words


PACK = 2048  # scales of one pass
HIGH_HALVES = 0xAAAAAAAAAAAAAAAA  # every second lane


@asc.jit
def pack_scales(src: Any, dst: Any, count: int) -> None:
    """float32 scales to 64-bit words that hold them in the low half (the stock TransQuantParamV2)."""
    source, target = tensor(src), tensor(dst).reinterpret_cast("float32")
    room = align(PACK, 64)
    x = asc.LocalTensor("float32", asc.TPosition.VECCALC, 0, room)
    wide = asc.LocalTensor("float32", asc.TPosition.VECCALC, room * 4, room * 8)
    for at in range(0, count, PACK):
        n = min(PACK, count - at)
        asc.data_copy_pad(x, source[at:], asc.DataCopyParams(1, n * 4, 0, 0))
        asc.pipe_barrier(asc.PipeID.PIPE_ALL)
        for first in range(0, n, 2040):
            repeats = ceil_div(min(2040, n - first), 8)
            asc.brcb(wide[first * 8 :], x[first:], repeats, asc.BrcbRepeatParams(1, 8))
        asc.pipe_barrier(asc.PipeID.PIPE_V)
        for first in range(0, n, 2040):
            repeats = ceil_div(min(2040, n - first), 8)
            asc.duplicate(wide[first * 8 :], 0.0, [HIGH_HALVES, 0], repeats, 1, 8)
        asc.pipe_barrier(asc.PipeID.PIPE_ALL)
        asc.data_copy_pad(target[at * 2 :], wide, asc.DataCopyParams(n, 8, 0, 0))
        asc.pipe_barrier(asc.PipeID.PIPE_ALL)


def _packing(scale: TensorSpec, soc: Soc) -> asc.Launch:
    if scale.dtype != "float32":
        raise NoKernel(f"scale of {scale.dtype} for a cube that needs packed words")
    return asc.Launch(
        pack_scales, block_dim=1, kind="AIV", args=[("in", 2), ("workspace", 1)],
        gm=[("scale", "float32", scale.nbytes, "in"), ("words", "uint64", scale.size * 8, "workspace")],
        consts={"count": scale.size}, soc=soc, name="TransQuantParamV2",
    )  # fmt: skip
