"""Semantics of the im2col loads. The feature map in L1 is NC1HWC0 with one batch: (C1, H, W, C0).

Window geometry (asc-devkit, LoadData 3D pages): the filter walks the padded map, output position p = ho*Wo + wo; the
virtual matrix has one row per position and column ((c1*Kh + kh)*Kw + kw)*C0 + c0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.isa.buffers import FRACTAL, View
from ascend_sim.isa.instr import Pipe
from ascend_sim.isa.layout import CUBE, ceil_div
from ascend_sim.isa.rows import instruction

Array = NDArray[Any]


@dataclass(frozen=True)
class Window:
    """Feature map and filter geometry; ``pads`` is (left, right, top, bottom)."""

    h: int
    w: int
    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    dilation_h: int
    dilation_w: int
    pads: tuple[int, int, int, int]

    @property
    def out_h(self) -> int:
        span = self.dilation_h * (self.kernel_h - 1) + 1
        return (self.h + self.pads[2] + self.pads[3] - span) // self.stride_h + 1

    @property
    def out_w(self) -> int:
        span = self.dilation_w * (self.kernel_w - 1) + 1
        return (self.w + self.pads[0] + self.pads[1] - span) // self.stride_w + 1


def _sample(fmap: Array, y: Array, x: Array, channel: Array, pad_value: Any) -> Array:
    """fmap[channel block of (C, H, W, c)] at broadcast positions, ``pad_value`` outside the map."""
    _, h, w, _ = fmap.shape
    inside = (y >= 0) & (y < h) & (x >= 0) & (x < w)
    c1, c0 = np.divmod(channel, fmap.shape[3])
    values = fmap[c1, np.clip(y, 0, h - 1), np.clip(x, 0, w - 1), c0]
    out: Array = np.where(inside, values, fmap.dtype.type(pad_value))
    return out


def gather_matrix(src: View, window: Window, channels: int, m: Array, k: Array, pad_value: Any) -> Array:
    """Rows ``m`` and columns ``k`` of the im2col matrix of the feature map at ``src``.

    ``channels`` counts the stored channels: whole C0 blocks and, for few channels, a narrower last block.
    """
    c0, size = src.dtype.block, src.dtype.size
    taps = window.kernel_h * window.kernel_w
    full, rest = divmod(channels, c0)
    plane = window.h * window.w
    out = np.full((len(m), len(k)), pad_value, src.dtype.np)
    ho, wo = np.divmod(m, window.out_w)
    y0 = ho * window.stride_h - window.pads[2]
    x0 = wo * window.stride_w - window.pads[0]
    for blocks, width, first_k, offset in ((full, c0, 0, 0), (1, rest, full * taps * c0, full * plane * c0)):
        if not blocks or not width:
            continue
        columns = (k >= first_k) & (k < first_k + blocks * taps * width)
        if not columns.any():
            continue
        fmap = src.strided(
            (blocks, window.h, window.w, width),
            (plane * width * size, window.w * width * size, width * size, size),
            offset * size,
        )
        local = k[columns] - first_k
        c1, tap, c = local // (taps * width), local // width % taps, local % width
        kh, kw = np.divmod(tap, window.kernel_w)
        y = y0[:, None] + (kh * window.dilation_h)[None, :]
        x = x0[:, None] + (kw * window.dilation_w)[None, :]
        out[:, columns] = _sample(fmap, y, x, (c1 * width + c)[None, :], pad_value)
    return out


@instruction(
    "load3dv2", "load_data", Pipe.MTE1, "a window (m, k) of the im2col matrix to L0A (Zz) or, transposed, to L0B (Zn)",
    "pads 0..255, l1_h and l1_w 1..32767, filter 1..511, stride 1..63, dilation 1..255",
    "k_start_pt is a multiple of C0, m_start_pt of 16, the extensions likewise except at the edge",
    "a zero extension makes it a no-operation",
)  # fmt: skip
def run_load3d_v2(
    dst: View, src: View, window: Window, channels: int, m_start: int, k_start: int, m_ext: int, k_ext: int,
    pad_value: Any, to_l0b: bool, transpose: bool,
) -> None:  # fmt: skip
    if not m_ext or not k_ext:
        return
    k0, size = dst.dtype.block, dst.dtype.size
    m_unit, k_unit = (k0, CUBE) if to_l0b or transpose else (CUBE, k0)
    rows, cols = ceil_div(m_ext, max(m_unit, CUBE)) * max(m_unit, CUBE), ceil_div(k_ext, k_unit) * k_unit
    matrix = np.zeros((rows, cols), dst.dtype.np)
    matrix[:m_ext, :k_ext] = gather_matrix(
        src, window, channels, m_start + np.arange(m_ext), k_start + np.arange(k_ext), pad_value
    )
    if to_l0b:  # B(k = positions, n = columns): (K1, N1, n, k)
        fractals = matrix.reshape(rows // k0, k0, cols // CUBE, CUBE).transpose(0, 2, 3, 1)
    elif transpose:  # A(m = columns, k = positions): (M1, K1, m, k)
        fractals = matrix.T.reshape(cols // CUBE, CUBE, rows // k0, k0).transpose(0, 2, 1, 3)
    else:
        fractals = matrix.reshape(rows // CUBE, CUBE, cols // k0, k0).transpose(0, 2, 1, 3)
    dst.strided((rows * cols,), (size,))[...] = fractals.reshape(-1)


@instruction(
    "load3dv1", "load_data", Pipe.MTE1, "fractals of 16 output positions x C0 channels of one filter tap; repeats walk"
    " the taps (mode 0: kernel width, height, then channel blocks) or the positions (mode 1); transposed to L0B",
    "pads 0..255, l1_h and l1_w 1..32767, filter 1..255, stride 1..63, dilation 1..255, jump_stride 0..127",
    "left_top positions lie in -255..32767", "c_size 1: pixels of 4 (16-bit) or 8 (8-bit) channels",
)  # fmt: skip
def run_load3d_v1(
    dst: View, src: View, window: Window, c1_index: int, fetch_h: int, fetch_w: int, top: int, left: int, jump: int,
    mode: int, repeat: int, pad_value: Any, channels: int = 0, to_l0b: bool = False,
) -> None:  # fmt: skip
    """``channels`` > 0 is the small-channel mode: pixels of that many channels, several taps side by side in a row of
    a fractal; taps behind the last one are zero."""
    if not repeat:
        return
    c0, size = src.dtype.block, src.dtype.size
    taps = window.kernel_h * window.kernel_w
    step = np.arange(repeat)
    if channels:
        _small_channels(dst, src, window, fetch_h * window.kernel_w + fetch_w, top, left, jump, mode, step, pad_value,
                        channels)  # fmt: skip
        return
    first_tap = (c1_index * window.kernel_h + fetch_h) * window.kernel_w + fetch_w
    tap_index = first_tap + (step if mode == 0 else np.zeros_like(step))
    position = np.arange(CUBE)[None, :] + (step[:, None] * CUBE if mode == 1 else 0)
    y0, x0 = _walk(window, top, left, position)
    c1, tap = np.divmod(tap_index, taps)
    kh, kw = np.divmod(tap, window.kernel_w)
    blocks = int(c1.max()) + 1
    fmap = src.strided(
        (blocks, window.h, window.w, c0), (window.h * window.w * c0 * size, window.w * c0 * size, c0 * size, size)
    )
    y = (y0 + (kh * window.dilation_h)[:, None])[:, :, None]
    x = (x0 + (kw * window.dilation_w)[:, None])[:, :, None]
    channel = (c1 * c0)[:, None, None] + np.arange(c0)[None, None, :]
    ys, xs, cs = np.broadcast_arrays(y, x, channel)
    values = _sample(fmap, ys, xs, cs, pad_value)
    stride = FRACTAL * max(jump, 1)
    if to_l0b:  # B(k = positions, n = channels): fractals are (n, k), as window loads leave them
        values = values.swapaxes(1, 2)
    dst.strided((repeat, FRACTAL // size), (stride, size))[...] = values.reshape(repeat, -1)


def _small_channels(
    dst: View, src: View, window: Window, first: int, top: int, left: int, jump: int, mode: int, step: Array,
    pad_value: Any, channels: int,
) -> None:  # fmt: skip
    """Load3d v1 with ``k0 // channels`` taps in a row of a fractal."""
    k0, size, repeat = src.dtype.block, src.dtype.size, len(step)
    beside = k0 // channels
    column = np.arange(k0)
    tap = first + column // channels + (step[:, None] * beside if mode == 0 else np.zeros((repeat, 1), np.int64))
    position = np.arange(CUBE)[None, :] + (step[:, None] * CUBE if mode == 1 else 0)
    y0, x0 = _walk(window, top, left, position)
    kh, kw = np.divmod(tap, window.kernel_w)
    fmap = src.strided(
        (1, window.h, window.w, channels),
        (window.h * window.w * channels * size, window.w * channels * size, channels * size, size),
    )
    rows: Array = y0[:, :, None] + (kh * window.dilation_h)[:, None, :]
    columns: Array = x0[:, :, None] + (kw * window.dilation_w)[:, None, :]
    channel: Array = np.broadcast_to(column % channels, rows.shape)
    values = _sample(fmap, rows, columns, channel, pad_value)
    values = np.where((tap < window.kernel_h * window.kernel_w)[:, None, :], values, values.dtype.type(0))
    dst.strided((repeat, FRACTAL // size), (FRACTAL * max(jump, 1), size))[...] = values.reshape(repeat, -1)


def _walk(window: Window, top: int, left: int, position: Array) -> tuple[Array, Array]:
    """(y, x) of the window's corner after ``position`` steps from (top, left), row by row over the padded map."""
    last = window.w + window.pads[1] - (window.dilation_w * (window.kernel_w - 1) + 1)
    in_first = max((last - left) // window.stride_w + 1, 0)
    rest = position - in_first
    row, column = np.divmod(rest, window.out_w)
    first = rest < 0
    x = np.where(first, left + position * window.stride_w, -window.pads[0] + column * window.stride_w)
    y = np.where(first, top, top + (row + 1) * window.stride_h)
    return y, x
