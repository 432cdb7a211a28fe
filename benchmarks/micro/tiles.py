"""The asc-devkit data_copy sample: all cores read a 12288 x 12288 float16 matrix tile by tile, nothing else. Each core
has its own rows; tiles go along them."""

from __future__ import annotations

from typing import Any

from ascend_sim import asc
from ascend_sim.engine.memory import L2
from ascend_sim.engine.result import KernelTiming
from ascend_sim.engine.simulate import simulate_kernel
from ascend_sim.soc import Soc

SIDE = 12288
P = asc.TPosition


@asc.jit
def read_tiles(x: Any, rows: int, columns: int, to_l1: bool) -> None:
    """Read this core's rows in tiles of ``rows`` x ``columns`` to the unified buffer, or as Nz to L1."""
    source = asc.GlobalTensor()
    source.set_global_buffer(x)
    mine = SIDE // asc.get_block_num()
    first = asc.get_block_idx() * mine
    across, down = SIDE // columns, mine // rows
    dst = asc.LocalTensor("float16", P.A1 if to_l1 else P.VECIN)
    params: Any = asc.DataCopyParams(rows, columns // 16, (SIDE - columns) // 16, 0)
    if to_l1:
        params = asc.Nd2NzParams(1, rows, columns, 0, SIDE, rows, 1, 0)
    for i in asc.steady(across * down):
        at = (first + i // across * rows) * SIDE + i % across * columns
        asc.data_copy(dst, source[at:], params)


def read_matrix(soc: Soc, rows: int, columns: int, to_l1: bool) -> KernelTiming:
    """Time of the launch with an L2 that holds nothing of the matrix."""
    kind, cores = ("AIC", soc.cores.ai_core_count) if to_l1 else ("AIV", soc.cores.vector_core_count)
    consts = {"rows": rows, "columns": columns, "to_l1": to_l1}
    gm = [("x", "float16", SIDE * SIDE * 2, "in")]
    launch = asc.Launch(read_tiles, cores, kind, gm=gm, consts=consts, soc=soc, signature=lambda _: 0)
    return simulate_kernel(launch.trace(), soc, L2(soc))
