"""Semantics of the image load: 8-bit pixels of global memory, preprocessed (AIPP), to a feature map in L1."""

from __future__ import annotations

import numpy as np

from ascend_sim.isa.buffers import View
from ascend_sim.isa.instr import Pipe
from ascend_sim.isa.rows import instruction


@instruction(
    "load_image_to_cbuf", "load_image", Pipe.MTE2,
    "rows of 8-bit pixels to (H, W, C0) or (H, W, 4) half in L1: channel choice, (x - offset) * scale, zero channels",
    "at most 4096 rows and columns",
)  # fmt: skip
def run_load_image(
    dst: View, src: View, rows: int, columns: int, pitch: int, pixel: int, order: tuple[int, ...],
    offset: tuple[float, ...], scale: tuple[float, ...], channels: int,
) -> None:  # fmt: skip
    """``pitch`` and ``pixel`` are bytes of a source row and pixel; ``order`` the source byte of each channel;
    ``channels`` stored per pixel."""
    if not rows or not columns:
        return
    source = src.strided((rows, columns, pixel), (pitch, pixel, 1))[..., list(order)].astype(np.float32)
    n, size = len(order), dst.dtype.size
    target = dst.strided((rows, columns, channels), (columns * channels * size, channels * size, size))
    target[..., :n] = (source - np.asarray(offset, np.float32)) * np.asarray(scale, np.float32)
    target[..., n:] = 0
