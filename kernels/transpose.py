"""Transpose: DMA alone when the last axis stays, else 16 x 16 tiles through vnchwconv (16-bit types, and 32-bit ones
where the instruction takes them).

With the last axis moved, a tile is ``m`` rows along the input axis that becomes last and ``n`` columns along the
input's last axis; all other axes are loops. Tile sides that do not fill blocks use the row methods of `_rows` on
both sides.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ascend_sim import asc
from ascend_sim.ops.registry import NoKernel, kernel
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.values.layout import pick

from ._copy import Box, copy_launch
from ._rows import rows_of
from ._transpose import Side, TransposePlan, transpose_kernel
from ._transpose_narrow import narrow_launch
from ._transpose_pairs import SIDE, transpose_pairs
from ._vector import align, ceil_div, deal, item_bytes, legal, padded_dma, phased, vector_cores

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

_SCALAR_LIMIT = 4096


def fuse_permutation(shape: tuple[int, ...], perm: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Drop axes of size 1 and merge axes that stay neighbours; same data movement, fewer axes."""
    order = [p for p in perm if shape[p] != 1]
    groups: list[list[int]] = []
    kept = [i for i, s in enumerate(shape) if s != 1]
    place = {axis: i for i, axis in enumerate(kept)}
    for p in order:
        if groups and place[groups[-1][-1]] + 1 == place[p]:
            groups[-1].append(p)
        else:
            groups.append([p])
    ranked = sorted(groups, key=lambda g: place[g[0]])
    sizes = tuple(prod(shape[i] for i in g) for g in ranked)
    return sizes, tuple(ranked.index(g) for g in groups)


def _side(size: int, step: int, stride: int, soc: Soc) -> Side:
    step = min(step, size)
    if step < size:
        step = align(ceil_div(size, ceil_div(size, step)), 16)
    return Side(size, step, stride, rows_of(soc, step, [2]))


@kernel("Transpose", "TransposeD")
def plan_transpose(call: OpCall, soc: Soc) -> list[asc.Launch]:
    x, y = call.inputs[0], call.outputs[0]
    if x is None or x.format not in ("ND", "NCHW", "NHWC"):
        raise NoKernel("Transpose of a blocked format")
    rank = len(x.shape)
    perm = tuple(p % max(rank, 1) for p in pick(call.inputs, 1, dict(call.attrs), "perm"))
    shape, order = fuse_permutation(x.shape, perm)
    strides_in = [prod(shape[i + 1 :]) for i in range(len(shape))]
    out_shape = [shape[p] for p in order]
    strides_out = {p: prod(out_shape[i + 1 :]) for i, p in enumerate(order)}
    if not shape or order[-1] == len(shape) - 1:
        axes = tuple((shape[p], strides_in[p], strides_out[p]) for p in order) or ((1, 1, 1),)
        return [copy_launch([Box(0, 1, 0, 0, axes)], [(("in", 0), x)], [(("out", 0), y)], soc)]
    item = item_bytes(x.dtype)
    dtype = {2: "uint16", 4: "uint32"}.get(item, "uint8")
    if item == 8 and soc.chip.split_cores:
        return [_pairs_launch(x, y, shape, order, strides_in, strides_out, soc)]
    if item not in (2, 4) or not legal(soc, "vnchwconv", dtype):
        raise NoKernel(f"Transpose of {x.dtype} with the last axis moved")
    last, moved = len(shape) - 1, order[-1]
    n, m = shape[last], shape[moved]
    loops = tuple((shape[p], strides_in[p], strides_out[p]) for p in order if p not in (last, moved))
    if min(n, m) < 16 and not padded_dma(soc) and prod(shape) > _SCALAR_LIMIT:
        if item != 2:
            raise NoKernel(f"sides of {m} x {n} are shorter than a block")
        return [narrow_launch((m, n), (strides_in[moved], strides_out[last]), loops, (x.nbytes, y.nbytes), soc)]
    kind, cores = vector_cores(soc)
    area = soc.buffers.ub_bytes // (4 * item)
    wide = min(align(n, 16), 256)
    high = max(min(align(m, 16), area // wide // 16 * 16, max(128, area // wide // 16 * 16 if n <= 64 else 128)), 16)
    wide = max(min(align(n, 16), area // high // 16 * 16, 4080), 16) if m <= 64 else wide
    plan = TransposePlan(
        _side(m, high, strides_in[moved], soc), _side(n, wide, strides_out[last], soc), loops, 1, 1, dtype
    )
    units, blocks = deal(plan.total, cores)
    # published 910B2 times are the sums of load, turn and store
    serial = soc.chip.split_cores
    plan = TransposePlan(plan.m, plan.n, loops, units, 1 if serial or units < 2 else 2, dtype, serial)
    return [
        asc.Launch(
            transpose_kernel,
            block_dim=blocks,
            kind=kind,
            args=(("in", 0), ("out", 0)),
            gm=[("x", dtype, x.nbytes, "in"), ("y", dtype, y.nbytes, "out")],
            consts={"plan": plan},
            soc=soc,
            signature=phased(plan.signature, *(lambda b, s=s: plan.start(b)[s] * item for s in (0, 1))),
            code="transpose",
        )
    ]


def _pairs_launch(
    x: TensorSpec, y: TensorSpec, shape: tuple[int, ...], order: tuple[int, ...], strides_in: list[int],
    strides_out: dict[int, int], soc: Soc,
) -> asc.Launch:  # fmt: skip
    """Launch of `transpose_pairs`."""
    last = len(shape) - 1
    joined, rows = [order[-1]], shape[order[-1]]
    while order[-1 - len(joined)] != last and rows * shape[order[-1 - len(joined)]] <= SIDE[0]:
        joined.insert(0, order[-1 - len(joined)])
        rows *= shape[joined[0]]
    step, wide = min(rows, SIDE[0]), min(shape[last], SIDE[1])
    m = Side(rows, step, strides_in[order[-1]], rows_of(soc, 2 * step, [2]))
    n = Side(shape[last], wide, strides_out[last], rows_of(soc, 2 * wide, [2]))
    loops = tuple((shape[p], strides_in[p], strides_out[p]) for p in order if p not in (last, *joined))
    group = tuple((shape[p], strides_in[p]) for p in joined) if len(joined) > 1 else ()
    kind, cores = vector_cores(soc)
    units, blocks = deal(TransposePlan(m, n, loops, 1, 1, "uint32").total, cores)
    plan = TransposePlan(m, n, loops, units, 1, "uint32", True, group)
    return asc.Launch(
        transpose_pairs,
        block_dim=blocks,
        kind=kind,
        args=(("in", 0), ("out", 0)),
        gm=[("x", "uint32", x.nbytes, "in"), ("y", "uint32", y.nbytes, "out")],
        consts={"plan": plan},
        soc=soc,
        signature=phased(plan.signature, *(lambda b, s=s: plan.start(b)[s] * 8 for s in (0, 1))),
        code="transpose",
    )
