"""Pixel formats: how a picture of each lies in memory.

Numbers are those of ``acldvppPixelFormat`` (public pyACL documentation). A picture has a width stride (bytes from row
to row) and a height stride (rows from plane to plane).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

UNKNOWN: Final = 10000  # decoders: keep the format of the source


@dataclass(frozen=True)
class PixelFormat:
    """``kind`` is ``semi`` (a plane of Y and one of interleaved chroma; ``gray``: Y only), ``packed422`` or ``rgb``
    (also packed YUV 4:4:4).

    ``order`` names the bytes as they follow each other: the two chroma bytes (``UV``), the four of a packed pair
    (``YUYV``) or those of a pixel (``RGB``). ``sub_w`` and ``sub_h`` are the subsampling of chroma."""

    number: int
    name: str
    kind: str
    order: str = ""
    sub_w: int = 1
    sub_h: int = 1

    @property
    def row_bytes(self) -> int:
        """Bytes per pixel of a row of the first plane."""
        return {"gray": 1, "semi": 1, "packed422": 2, "rgb": len(self.order)}[self.kind]

    @property
    def even_width(self) -> bool:
        return self.sub_w == 2

    @property
    def even_height(self) -> bool:
        return self.sub_h == 2

    @property
    def planes(self) -> Fraction:
        """Size of the picture in units of width stride x height stride."""
        return 1 + Fraction(2, self.sub_w * self.sub_h) if self.kind == "semi" else Fraction(1)

    def nbytes(self, width_stride: int, height_stride: int) -> int:
        """Bytes of a picture with these strides."""
        return -(-width_stride * height_stride * self.planes.numerator // self.planes.denominator)


YUV400: Final = PixelFormat(0, "YUV400", "gray")
NV12: Final = PixelFormat(1, "YUV420SP (NV12)", "semi", "UV", 2, 2)
NV21: Final = PixelFormat(2, "YVU420SP (NV21)", "semi", "VU", 2, 2)
RGB888: Final = PixelFormat(12, "RGB888", "rgb", "RGB")
RGBA8888: Final = PixelFormat(16, "RGBA8888", "rgb", "RGBA")

FORMATS: Final[dict[int, PixelFormat]] = {
    f.number: f
    for f in (
        YUV400,
        NV12,
        NV21,
        PixelFormat(3, "YUV422SP", "semi", "UV", 2, 1),
        PixelFormat(4, "YVU422SP", "semi", "VU", 2, 1),
        PixelFormat(5, "YUV444SP", "semi", "UV"),
        PixelFormat(6, "YVU444SP", "semi", "VU"),
        PixelFormat(7, "YUYV422 packed", "packed422", "YUYV", 2, 1),
        PixelFormat(8, "UYVY422 packed", "packed422", "UYVY", 2, 1),
        PixelFormat(9, "YVYU422 packed", "packed422", "YVYU", 2, 1),
        PixelFormat(10, "VYUY422 packed", "packed422", "VYUY", 2, 1),
        PixelFormat(11, "YUV444 packed", "rgb", "YUV"),
        RGB888,
        PixelFormat(13, "BGR888", "rgb", "BGR"),
        PixelFormat(14, "ARGB8888", "rgb", "ARGB"),
        PixelFormat(15, "ABGR8888", "rgb", "ABGR"),
        RGBA8888,
        PixelFormat(17, "BGRA8888", "rgb", "BGRA"),
        PixelFormat(1000, "YUV440SP", "semi", "UV", 1, 2),
        PixelFormat(1001, "YVU440SP", "semi", "VU", 1, 2),
    )
}


def semi_planar(order: str, sub_w: int, sub_h: int) -> PixelFormat:
    """The semi-planar format with this subsampling and order of chroma."""
    return next(
        f for f in FORMATS.values() if f.kind == "semi" and (f.order, f.sub_w, f.sub_h) == (order, sub_w, sub_h)
    )
