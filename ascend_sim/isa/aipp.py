"""Semantics of the image load with all of its preprocessing (AIPP): crop, channel exchange, colour conversion,
normalisation, borders, channel padding.

Order and formulas: asc-devkit pages SetAippFunctions and LoadImageToLocal, and the public ATC manual's AIPP chapter
for the colour conversion, ``(M (x - in bias)) >> 8`` towards RGB and ``((M x) >> 8) + out bias`` towards YUV.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ascend_sim.isa.buffers import View
from ascend_sim.isa.dtypes import Array, cast_values
from ascend_sim.isa.enums import AippInputFormat, RoundMode
from ascend_sim.isa.instr import Pipe
from ascend_sim.isa.rows import instruction

PIXEL = {AippInputFormat.YUV420SP_U8: 1, AippInputFormat.XRGB8888_U8: 4, AippInputFormat.RGB888_U8: 3,
         AippInputFormat.YUV400_U8: 1}  # fmt: skip
_BORDER = {1: "edge", 2: "wrap", 3: "symmetric"}


class ImageSettings(NamedTuple):
    """The registers of SetAippFunctions. ``matrix`` row by row (empty: no conversion), the biases, means, minima and
    factors by channel; ``border`` the mode 0..3 with ``border_values`` by channel; ``channels`` stored per pixel, the
    missing ones ``channel_value``; ``half_even`` rounds conversions to integers half to even."""

    format: AippInputFormat
    swap_rb: bool = False
    swap_uv: bool = False
    swap_ax: bool = False
    single_line: bool = False
    matrix: tuple[int, ...] = ()
    bias_in: tuple[int, ...] = (0, 0, 0)
    bias_out: tuple[int, ...] = (0, 0, 0)
    mean: tuple[int, ...] = (0, 0, 0)
    minimum: tuple[float, ...] = (0.0, 0.0, 0.0)
    factor: tuple[float, ...] = (1.0, 1.0, 1.0)
    half_even: bool = False
    border: int = 0
    border_values: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0)
    channels: int = 16
    channel_value: float = 0.0


def _pixels(
    src: View, chroma: View, s: ImageSettings, window: tuple[int, int, int, int], pitch: int
) -> Array:
    """(rows, columns, channels) of 8-bit samples, channels exchanged."""
    left, top, columns, rows = window
    size = PIXEL[s.format]
    first = (top * pitch + left) * size
    samples: Array = src.strided((rows, columns, size), (pitch * size, size, 1), first)
    if s.format == AippInputFormat.YUV420SP_U8:
        pairs = chroma.strided((-(-rows // 2), -(-columns // 2), 2), (pitch, 2, 1), top // 2 * pitch + left)
        wide = pairs.repeat(2, 0).repeat(2, 1)[:rows, :columns]
        return np.concatenate([samples, wide[..., ::-1] if s.swap_uv else wide], -1)
    if s.format == AippInputFormat.XRGB8888_U8:
        samples = samples[..., 1:] if s.swap_ax else samples[..., :3]
    if s.swap_rb and samples.shape[-1] == 3:
        samples = samples[..., ::-1]
    return samples


def _converted(pixels: Array, s: ImageSettings) -> Array:
    """Colour conversion, saturated to 8 bits."""
    if not s.matrix:
        return pixels
    matrix = np.array(s.matrix, np.int64).reshape(3, 3)
    yuv = s.format == AippInputFormat.YUV420SP_U8
    values = pixels.astype(np.int64) - (np.array(s.bias_in) if yuv else 0)
    out = (values @ matrix.T) >> 8
    bytes_: Array = np.clip(out if yuv else out + np.array(s.bias_out), 0, 255).astype(np.uint8)
    return bytes_


@instruction(
    "load_image_to_local", "load_image_to_local", Pipe.MTE2,
    "part of an 8-bit image to (H, W, C) in L1: channel exchange, colour conversion, x - mean (int8) or "
    "(x - mean - min) * var (half), borders, channels padded to 32 bytes or 4",
    "needs set_aipp_functions", "sides and start 2..4095 and 0..4095, borders 0..32",
    "column of the start even; first row and width of the image too for YUV420SP",
)  # fmt: skip
def run_load_image_to_local(
    dst: View, src: View, chroma: View, settings: ImageSettings, window: tuple[int, int, int, int], pitch: int,
    borders: tuple[int, int, int, int],
) -> None:  # fmt: skip
    """``window`` (left, top, columns, rows) of an image ``pitch`` pixels wide; ``borders`` (left, right, top, bottom).
    ``chroma`` is the second plane of YUV420SP, else ``src`` again."""
    s, to = settings, dst.dtype
    pixels = _converted(_pixels(src, chroma, s, window, pitch), s)
    n = pixels.shape[-1]
    mode = RoundMode.CAST_RINT if s.half_even else RoundMode.CAST_ROUND
    if to.name == "uint8":
        values = pixels
    elif to.name == "int8":
        values = cast_values(pixels.astype(np.int32) - np.array(s.mean[:n], np.int32), to, mode)
    else:
        exact = pixels.astype(np.float32) - np.array(s.mean[:n], np.float32) - np.array(s.minimum[:n], np.float32)
        values = (exact * np.array(s.factor[:n], np.float32)).astype(to.np)
    left, right, top, bottom = borders
    rows, columns = values.shape[0] + top + bottom, values.shape[1] + left + right
    out = np.empty((rows, columns, s.channels), to.np)
    out[..., n:] = np.array(s.channel_value).astype(to.np)
    if s.border:
        around = ((top, bottom), (left, right), (0, 0))
        out[..., :n] = np.pad(values, around, mode=_BORDER[s.border])  # type: ignore[call-overload]
    else:
        out[..., :n] = np.array(s.border_values[:n]).astype(to.np)
        out[top : top + values.shape[0], left : left + values.shape[1], :n] = values
    size = to.size
    target = dst.strided(out.shape, (columns * s.channels * size, s.channels * size, size))
    target[...] = out
