"""Filters given in NCHW: FRACTAL_Z made on the device, by the vector cores, from their NC1HWC0 form.

FRACTAL_Z (C1*Kh*Kw, N1, 16, C0) is NC1HWC0 (N, C1, Kh, Kw, C0) with its blocks of C0 channels transposed: a gather of
32-byte blocks that DMA does by itself. A depthwise filter [C, 1, Kh, Kw] is taken as one image of C channels; every
block of 16 of its weights becomes a diagonal fractal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ascend_sim import asc
from ascend_sim.isa.layout import ceil_div
from ascend_sim.ops.registry import NoKernel
from ascend_sim.ops.schema import TensorSpec

from ._cube import E, P, copy_rows, tensor
from ._vector import vector_cores

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

BLOCK = 16  # elements of 16-bit types in 32 bytes
ROOM = 65536  # bytes of UB a tile takes at most


@dataclass(frozen=True)
class Gather:
    """``n`` filters of ``rows`` blocks; ``per_core`` rows a core, ``tile`` of them at a time."""

    n: int
    rows: int
    per_core: int
    tile: int

    @property
    def padded(self) -> int:
        return ceil_div(self.n, 16) * 16


def _share(total: int, per_core: int) -> tuple[int, int]:
    start = asc.get_block_idx() * per_core
    return start, max(min(per_core, total - start), 0)


@asc.jit
def transpose_blocks(*gm: Any, plan: Gather) -> None:
    """[n][rows][16] to [rows][n padded to 16][16], zero filled, through two halves of UB in turn."""
    src, dst = (tensor(address) for address in gm)
    start, count = _share(plan.rows, plan.per_core)
    size = plan.tile * plan.padded * BLOCK
    ub = asc.LocalTensor("float16", P.VECCALC, 0, 2 * size)
    if plan.padded != plan.n:
        asc.duplicate(ub, 0.0, count=2 * size)
    asc.set_flag(E.V_MTE2, 0)
    asc.wait_flag(E.V_MTE2, 0)
    for s in (0, 1):
        asc.set_flag(E.MTE3_MTE2, s)
    for i in asc.steady(ceil_div(count, plan.tile)):
        s = i % 2
        half = ub[s * size :]
        first, rows = start + i * plan.tile, min(plan.tile, count - i * plan.tile)
        asc.wait_flag(E.MTE3_MTE2, s)
        for r in range(rows):
            copy_rows(half[r * plan.padded * BLOCK :], src[(first + r) * BLOCK :], plan.n, 1, plan.rows, 1)
        asc.set_flag(E.MTE2_MTE3, s)
        asc.wait_flag(E.MTE2_MTE3, s)
        asc.data_copy(dst[first * plan.padded * BLOCK :], half, rows * plan.padded * BLOCK)
        asc.set_flag(E.MTE3_MTE2, s)
    for s in (0, 1):
        asc.wait_flag(E.MTE3_MTE2, s)


@asc.jit
def spread_diagonals(*gm: Any, plan: Gather) -> None:
    """[rows][16] to [rows][16][16] with the 16 values on the diagonal."""
    src, dst = (tensor(address) for address in gm)
    start, count = _share(plan.rows, plan.per_core)
    ones = asc.LocalTensor("float16", P.VECCALC, 0, 256)
    line = asc.LocalTensor("float16", P.VECCALC, 512, plan.tile * BLOCK)
    out = asc.LocalTensor("float16", P.VECCALC, 512 + plan.tile * 32, plan.tile * 256)
    asc.duplicate(ones, 0.0, count=256)
    for i in range(16):  # lane i of row i; eight rows of 16 lanes make a repeat
        bit = i % 8 * 16 + i
        asc.duplicate(ones[i // 8 * 128 :], 1.0, [1 << bit & (1 << 64) - 1, 1 << bit >> 64], 1, 1, 8)
    asc.set_flag(E.V_MTE2, 0)
    asc.set_flag(E.MTE3_V, 0)
    for i in asc.steady(ceil_div(count, plan.tile)):
        first, rows = start + i * plan.tile, min(plan.tile, count - i * plan.tile)
        asc.wait_flag(E.V_MTE2, 0)
        asc.data_copy(line, src[first * BLOCK :], rows * BLOCK)
        asc.set_flag(E.MTE2_V, 0)
        asc.wait_flag(E.MTE2_V, 0)
        asc.wait_flag(E.MTE3_V, 0)
        for r in range(rows):
            asc.mul(out[r * 256 :], ones, line[r * BLOCK :], 128, 2, asc.BinaryRepeatParams(1, 1, 0, 8, 8, 0))
        asc.set_flag(E.V_MTE2, 0)
        asc.set_flag(E.V_MTE3, 0)
        asc.wait_flag(E.V_MTE3, 0)
        asc.data_copy(dst[first * 256 :], out, rows * 256)
        asc.set_flag(E.MTE3_V, 0)
    asc.wait_flag(E.V_MTE2, 0)
    asc.wait_flag(E.MTE3_V, 0)


def as_image(spec: TensorSpec, depthwise: bool) -> tuple[TensorSpec, TensorSpec]:
    """A filter as the feature map whose NC1HWC0 form the kernels here start from: (plain, blocked) specs.

    Raises `NoKernel` for types and orders that are not converted on the device."""
    if spec.dtype not in ("float16", "bfloat16") or spec.format not in ("NCHW", "ND") or len(spec.shape) != 4:
        raise NoKernel(f"filter of {spec.dtype} in {spec.format} is not laid out on the device")
    n, c, h, w = (1, *(spec.shape[i] for i in (0, 2, 3))) if depthwise else spec.shape
    plain = TensorSpec((n, c, h, w), spec.dtype, "NCHW")
    return plain, TensorSpec((n, ceil_div(c, BLOCK), h, w, BLOCK), spec.dtype, "NC1HWC0", (n, c, h, w), "NCHW")


def weight_launch(blocked: TensorSpec, stored: TensorSpec, depthwise: bool, soc: Soc) -> asc.Launch:
    """The launch from the blocked image of a filter to FRACTAL_Z."""
    n, c1, h, w, _ = blocked.shape
    rows = c1 * h * w
    kind, cores = vector_cores(soc)
    per_core = ceil_div(rows, cores)
    padded = ceil_div(n, 16) * 16
    row_bytes = 544 if depthwise else padded * 32
    if row_bytes > ROOM:
        raise NoKernel(f"{n} filters do not fit a tile of the unified buffer")
    plan = Gather(n, rows, per_core, min(ROOM // row_bytes, per_core, 8 if depthwise else rows))
    return asc.Launch(
        spread_diagonals if depthwise else transpose_blocks, block_dim=ceil_div(rows, per_core), kind=kind,
        args=(("in", 0), ("out", 0)),
        gm=[("x", "float16", blocked.nbytes, "in"), ("y", "float16", stored.nbytes, "out")], consts={"plan": plan},
        soc=soc, signature=lambda block: min(per_core, rows - block * per_core),
    )  # fmt: skip
