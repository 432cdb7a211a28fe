"""Zeros in memory: what runs before a kernel whose cores add to their output (the stock library's MemSet)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ascend_sim import asc

from ._cube import tensor
from ._vector import BLOCK, align, ceil_div, deal, vector_cores

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

PIECE = 65536  # bytes of a transfer


@asc.jit
def clear_kernel(y: Any, *, nbytes: int, share: int) -> None:
    """Zero ``share`` bytes of one core."""
    size = min(PIECE, share)
    zeros = asc.LocalTensor("float32", asc.TPosition.VECCALC, 0, size // 4)
    asc.duplicate(zeros, 0.0, size // 4)
    asc.set_flag(asc.HardEvent.V_MTE3, 0)
    asc.wait_flag(asc.HardEvent.V_MTE3, 0)
    start = asc.get_block_idx() * share
    out = tensor(y)
    for at in range(start, min(start + share, nbytes), PIECE):
        n = min(PIECE, start + share - at, nbytes - at)
        asc.data_copy(out[at // 4 :], zeros, asc.DataCopyParams(1, n // BLOCK, 0, 0))


def clear_launch(nbytes: int, role: tuple[str, int], soc: Soc) -> asc.Launch:
    """Launch that fills ``nbytes`` (whole blocks) of an argument with zeros."""
    kind, cores = vector_cores(soc)
    share, blocks = deal(align(nbytes, BLOCK), cores, 2048)
    return asc.Launch(
        clear_kernel, block_dim=blocks, kind=kind, args=[role], gm=[("y", "float32", nbytes, "out")],
        consts={"nbytes": nbytes, "share": share}, soc=soc,
        signature=lambda block: ceil_div(min(share, nbytes - block * share), BLOCK),
    )  # fmt: skip
