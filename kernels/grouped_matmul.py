"""GroupedMatmul: the plan. Rows of every group times the group's own weight, all groups in one launch.

Rules of the stock kernel (hicann/ops-transformer, restated): tiles of up to 128 x 256, counted on through the groups
and dealt to the cores in turn; inside a group rows of tiles, or diagonals of blocks of 8 x 8 tiles when it has more
than five; operands always come through the ND to NZ transfer, whatever their pitch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ascend_sim import asc
from ascend_sim.isa.layout import ceil_div
from ascend_sim.ops.registry import NoKernel, kernel
from ascend_sim.ops.schema import ITEM_BITS, OpCall
from ascend_sim.ops.shapes import const_ints
from ascend_sim.ops.values.grouped_matmul import group_sizes

from ._cube import cube_buffers, cube_kind, nd2nz, tensor
from ._exit import plan_exit
from ._matmul import CubeSide, MatmulPlan, Source, kinds_of, link
from ._matmul_tiling import MatmulProblem, MatmulTiling, align

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

BASE_M, BASE_N = 128, 256
FEW_ROWS = 5  # tiles of a group; up to here row by row
SQUARE = 8  # tiles of a side of a diagonal block


@asc.jit
def grouped_matmul(*gm: Any, plan: MatmulPlan) -> None:
    """Tiles of one core, of whichever groups they are."""
    arguments = {role: [tensor(address)] for role, address in zip(plan.roles, gm, strict=True)}
    CubeSide(plan, arguments).run()


@kernel("GroupedMatmul")
def plan_grouped(call: OpCall, soc: Soc) -> list[asc.Launch]:
    """One launch. Raises `NoKernel` for chips without ND to NZ transfers and for groups known at run time only."""
    x, w, bias, listed = call.inputs[:4]
    y = call.outputs[0]
    assert x is not None and w is not None and listed is not None
    if not nd2nz(soc) or not soc.chip.has_fixpipe:
        raise NoKernel(f"grouped product on {soc.name}, which does not turn rows into fractals")
    if listed.const is None:
        raise NoKernel("group sizes known at run time only")
    if bias is not None and not soc.buffers.bt_bytes:
        raise NoKernel("bias without a bias table")
    sizes = tuple(group_sizes(const_ints(listed, "group_list"), int(call.attr("group_list_type", 0))))
    if sum(sizes) != x.logical_shape[0]:
        raise NoKernel(f"{x.logical_shape[0]} rows of which the groups take {sum(sizes)}")
    trans = bool(call.attr("transpose_weight", False))
    k = x.logical_shape[1]
    n = w.logical_shape[1 if trans else 2]
    plan = _plan(soc, sizes, k, n, trans, x.dtype, y.dtype, None if bias is None else bias.dtype)
    roles = [("a", x, "in", 0), ("b", w, "in", 1), ("bias", bias, "in", 2), ("y", y, "out", 0)]
    present = [(role, spec, way, i) for role, spec, way, i in roles if spec is not None]
    return [asc.Launch(
        grouped_matmul, block_dim=plan.tiling.cores, kind=cube_kind(soc), args=[(way, i) for _, _, way, i in present],
        gm=[(role, spec.dtype, spec.nbytes, way) for role, spec, way, _ in present], consts={"plan": plan}, soc=soc,
        signature=lambda block: kinds_of(plan, block), name=call.type, code="object",
    )]  # fmt: skip


@lru_cache(maxsize=1024)
def _plan(
    soc: Soc, sizes: tuple[int, ...], k: int, n: int, trans: bool, dtype: str, out: str, bias: str | None
) -> MatmulPlan:
    b = cube_buffers(soc)
    item = ITEM_BITS[dtype] // 8
    base_m, base_n, base_k = min(BASE_M, align(max(sum(sizes), 1), 16)), min(BASE_N, align(n, 16)), 128 // item
    steps = ceil_div(k, base_k)
    step_ka, step_kb = min(4 if bias else 8, steps), min(4, steps)  # a bias row takes room of the smaller operand
    step_ka = step_ka // step_kb * step_kb
    dealt = list(_tiles(sizes, n, base_m, base_n))
    cores = max(min(b.cores, len(dealt)), 1)
    problem = MatmulProblem(sum(sizes), k, n, 1, item, False, trans, False, bias is not None)
    tiling = MatmulTiling(base_m, base_n, base_k, step_ka, step_kb, 1, cores)
    groups = tuple(range(len(sizes)))
    leave = plan_exit(soc, "float32", out, (), 0, bias, align(n, 16), rows=True)
    work = tuple(link(dealt[c::cores], problem, tiling, groups, groups) for c in range(cores))
    roles = ("a", "b", *(("bias",) if bias else ()), "y")
    return MatmulPlan(
        problem, tiling, leave, dtype, Source(False, True, k, 0), Source(False, trans, k if trans else n, k * n),
        (0,) * len(sizes), groups, n, 0, roles, True, soc.chip.split_cores, work=work, bias_pitch=n if bias else 0,
    )  # fmt: skip


def _tiles(sizes: Sequence[int], n: int, base_m: int, base_n: int) -> Iterator[tuple[int, int, int, int, int]]:
    """(group, first row, rows, first column, columns) in the order cores take them."""
    at = 0
    for group, rows in enumerate(sizes):
        m_tiles, n_tiles = ceil_div(rows, base_m), ceil_div(n, base_n)
        for i, j in _order(m_tiles, n_tiles):
            m, c = i * base_m, j * base_n
            yield group, at + m, min(base_m, rows - m), c, min(base_n, n - c)
        at += rows


def _order(m_tiles: int, n_tiles: int) -> Iterator[tuple[int, int]]:
    if m_tiles <= FEW_ROWS:
        yield from ((i, j) for i in range(m_tiles) for j in range(n_tiles))
        return
    for i0 in range(0, m_tiles, SQUARE):
        for j0 in range(0, n_tiles, SQUARE):
            rows, columns = min(SQUARE, m_tiles - i0), min(SQUARE, n_tiles - j0)
            for diagonal in range(columns):
                yield from ((i0 + i, j0 + (i + diagonal) % columns) for i in range(rows))
