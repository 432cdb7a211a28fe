"""Loading images: AIPP on the way from global memory to L1 (inference chips)."""

from __future__ import annotations

from typing import NamedTuple

from ascend_sim.asc.calls_move import check_gm, gm_align, pitch_align
from ascend_sim.asc.machine import current
from ascend_sim.asc.tensor import GlobalTensor, LocalTensor
from ascend_sim.isa import image
from ascend_sim.isa.instr import MoveWork, Pipe
from ascend_sim.isa.legality import InstructionError

PATH_MODE = "aipp"
MOST = 4096  # rows and columns of one load


class ImageParams(NamedTuple):
    """One load: ``rows`` x ``columns`` pixels, source rows ``pitch`` bytes apart, ``pixel`` bytes a pixel; channel i
    of the result is source byte ``order[i]``, less ``offset[i]``, times ``scale[i]``; ``channels`` are stored, the
    rest of them zero. (The registers of SetAippFunctions and the parameters of LoadImageToLocal in one.)"""

    rows: int
    columns: int
    pitch: int
    pixel: int
    order: tuple[int, ...]
    offset: tuple[float, ...]
    scale: tuple[float, ...]
    channels: int = 16


def load_image(dst: LocalTensor, src: GlobalTensor, params: ImageParams) -> None:
    """Preprocess 8-bit pixels of global memory into a half feature map in L1, (rows, columns, channels)."""
    core, call, p = current(), "load_image", params
    if core.rules.split or core.rules.arch in ("c100",):
        raise InstructionError(call, "chip", core.rules.name, "only inference chips preprocess images on the way to L1")
    if not isinstance(src, GlobalTensor) or src.dtype.name != "uint8":
        raise InstructionError(call, "src", src, "must be uint8 in global memory")
    core.rules.require_memory(call, "dst", dst.mem, "L1")
    if dst.dtype.name != "float16":
        raise InstructionError(call, "dst", dst.dtype, "must be float16")
    core.rules.require_range(call, "rows", p.rows, 0, MOST)
    core.rules.require_range(call, "columns", p.columns, 0, MOST)
    if p.channels not in (4, 16) or not len(p.order) == len(p.offset) == len(p.scale) <= p.channels:
        raise InstructionError(call, "channels", p.channels, "4 or 16, with an order, offset and scale for each")
    core.rules.require_span(call, "dst", "L1", dst.addr, p.rows * p.columns * p.channels * 2, dst.end)
    if p.rows:
        check_gm(call, src, (p.rows - 1) * p.pitch + p.columns * p.pixel)
    align = min(gm_align(src.addr), pitch_align(p.pitch) if p.rows > 1 else 512)
    work = MoveWork("GM_L1", p.rows, p.columns * p.pixel, max(align, 32), src.arg, PATH_MODE, "uint8")
    core.emit_transfer(Pipe.MTE2, work, dst, src)
    if core.memory is not None:
        image.run_load_image(core.view(dst), core.view(src), *p)
