"""PNG: header, size prediction and decoding (Pillow) to RGB888 or RGBA8888."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Final

import numpy as np

from ascend_sim.dvpp.errors import BadStream
from ascend_sim.dvpp.formats import RGB888, RGBA8888, UNKNOWN, PixelFormat
from ascend_sim.dvpp.image import Image

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_PALETTE, _ALPHA = 3, (4, 6)


@dataclass(frozen=True)
class PngInfo:
    """``alpha``: the file has an alpha channel; ``problem`` says why the decoder refuses it, if it does."""

    width: int
    height: int
    alpha: bool
    problem: str = ""


def info(data: bytes) -> PngInfo:
    """What the header says. `BadStream` when this is no PNG picture."""
    if data[:8] != _SIGNATURE or data[12:16] != b"IHDR" or len(data) < 33:
        raise BadStream(f"no PNG picture: it starts with {data[:8].hex(' ') or 'nothing'}")
    width, height = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    depth, colour = data[24], data[25]
    problem = ""
    if colour == _PALETTE:
        problem = "it has a palette: only RGB, gray and both with alpha are decoded"
    elif depth not in (8, 16):
        problem = f"it has {depth} bits per sample: only 8 and 16 are decoded"
    return PngInfo(width, height, colour in _ALPHA, problem)


def output_form(number: int, header: PngInfo) -> PixelFormat | None:
    """The format asked for (`UNKNOWN`: that of the source); None when the decoder cannot give it."""
    if number == UNKNOWN:
        return RGBA8888 if header.alpha else RGB888
    if number == RGB888.number:
        return RGB888
    return RGBA8888 if number == RGBA8888.number and header.alpha else None


def output_strides(form: PixelFormat, width: int, height: int) -> tuple[int, int]:
    """Width stride (B) and height stride of a decoded picture."""
    return -(-width // 128) * 128 * form.row_bytes, -(-height // 16) * 16


def decode(data: bytes, form: PixelFormat) -> Image:
    """The channels of ``form``. `BadStream` when the data is broken."""
    from PIL import Image as Pillow

    try:
        with Pillow.open(io.BytesIO(data), formats=("PNG",)) as picture:
            if picture.mode.startswith("I"):  # 16 bits of gray: the upper byte
                samples = (np.asarray(picture).astype(np.uint32) >> 8).astype(np.uint8)
                pixels = np.repeat(samples[:, :, None], 3, axis=2)
            else:
                pixels = np.asarray(picture.convert(form.order))
    except (OSError, SyntaxError) as error:
        raise BadStream(f"broken PNG picture: {error}") from error
    planes = {channel: np.ascontiguousarray(pixels[:, :, i]) for i, channel in enumerate(form.order)}
    return Image(pixels.shape[1], pixels.shape[0], planes)
