"""Quantisation to 8-bit integers."""

from __future__ import annotations

from ascend_sim.asc.adv.scratch import Scratch
from ascend_sim.asc.adv.types import QuantConfig
from ascend_sim.asc.calls_vector import adds, cast, muls
from ascend_sim.asc.tensor import LocalTensor
from ascend_sim.isa.dtypes import float16, float32, int8
from ascend_sim.isa.enums import RoundMode
from ascend_sim.isa.layout import ceil_div
from ascend_sim.isa.legality import InstructionError


def quant(
    dst: LocalTensor, src: LocalTensor, scale: float, offset: float, count: int | None = None,
    temp_buffer: LocalTensor | None = None, reuse_source: bool = False, config: QuantConfig | None = None,
) -> None:  # fmt: skip
    """dst = int8(round(src x scale + offset)), half to even, saturating. half or float32 sources; scale and offset are
    applied in the source's type and narrowed through half. Works in pieces that fit ``temp_buffer``."""
    if src.dtype not in (float16, float32) or dst.dtype is not int8:
        raise InstructionError("quant", "data types", f"{src.dtype} -> {dst.dtype}", "half or float32 to int8")
    if count is None:
        count = config.calc_count if config is not None and config.calc_count else src.get_size()
    left = int(count)
    scratch = Scratch("quant", temp_buffer)
    per = src.dtype.size + (2 if src.dtype is float32 else 0)
    piece = scratch.left // per // 64 * 64
    if piece < 64:
        raise InstructionError("quant", "temp_buffer", f"{scratch.left} bytes", f"at least {64 * per} are needed")
    piece = min(piece, ceil_div(left, 64) * 64)
    work = scratch.take(src.dtype, piece)
    half = scratch.take(float16, piece) if src.dtype is float32 else work
    for first in range(0, left, piece):
        n = min(piece, left - first)
        muls(work, src[first:], scale, n)
        adds(work, work, offset, n)
        if src.dtype is float32:
            cast(half, work, RoundMode.CAST_RINT, n)
        cast(dst[first:], half, RoundMode.CAST_RINT, n)
