"""What the media units of each core generation accept: formats, sizes, strides, interpolations, functions.

Source: the public DVPP V1 chapters of the AscendCL guide (hiascend: VPC, JPEGD, JPEGE, PNGD, VDEC and VENC functions
and restrictions). Generations: m100 (310), c100 (910), m200 (310P), m300 (310B), c220 (910B).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from ascend_sim.dvpp.formats import FORMATS, PixelFormat

# acl.media functions that the first generation (310, 910) does not have
NEW_FUNCTIONS: Final = frozenset(
    (
        "dvpp_vpc_convert_color_async",
        "dvpp_vpc_pyr_down_async",
        "dvpp_vpc_equalize_hist_async",
        "dvpp_vpc_make_border_async",
        "dvpp_vpc_calc_hist_async",
        "dvpp_vpc_batch_crop_resize_make_border_async",
        "dvpp_set_channel_desc_mode",
    )
)
_8K_OLD: Final = frozenset((1, 2))
_8K_NEW: Final = frozenset((0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10))


@dataclass(frozen=True)
class Range:
    """Sizes of pictures, both ends included."""

    least: tuple[int, int]
    most: tuple[int, int]

    def holds(self, width: int, height: int) -> bool:
        return self.least[0] <= width <= self.most[0] and self.least[1] <= height <= self.most[1]

    def __str__(self) -> str:
        return f"{self.least[0]}x{self.least[1]} to {self.most[0]}x{self.most[1]}"


@dataclass(frozen=True)
class Rules:
    """``width_align`` is that of the width stride in pixels, ``even_rows`` whether every height stride is even,
    ``odd_edges`` whether regions must start on even and end on odd pixels, ``paste_align`` that of a paste region's
    left edge. ``interpolations`` maps modes to names of `resample.METHODS`. ``jpegd_align`` is the width stride of
    decoded pictures, ``jpegd_keeps`` whether a wider one set by the program stays. ``old``: first generation."""

    arch: str
    old: bool
    width_align: int
    even_rows: bool
    odd_edges: bool
    paste_align: int
    inputs: frozenset[int]
    outputs: frozenset[int]
    wide_inputs: frozenset[int]
    input_size: Range
    output_size: Range
    scale: tuple[float, float]
    interpolations: dict[int, str]
    jpegd_align: int
    jpegd_keeps: bool
    jpege_size: Range
    vdec_size: Range
    venc_size: Range

    def strides(self, form: PixelFormat, width: int, height: int) -> tuple[int, int]:
        """The least width stride (B) and height stride (rows) of a picture of the image unit."""
        align = self.width_align
        if form.kind == "packed422":
            wide = -(-2 * width // align) * align
        else:
            wide = -(-width // align) * align * form.row_bytes
        rows = height + height % 2 if self.even_rows or form.even_height else height
        return wide, rows

    def stride_step(self, form: PixelFormat) -> int:
        """Width strides are multiples of this."""
        return self.width_align * (form.row_bytes if form.kind == "rgb" else 1)


_ALL: Final = frozenset(FORMATS)
_PLAIN: Final = frozenset(n for n in FORMATS if n < 1000)
_SQUARE: Final = Range((10, 6), (4096, 4096))
_TALL: Final = Range((10, 6), (4096, 8192))
_INPUT: Final = Range((10, 6), (8192, 8192))
_JPEGE: Final = Range((32, 32), (8192, 8192))
_VDEC: Final = Range((128, 128), (4096, 4096))
_FIRST: Final = {0: "high order", 1: "bilinear", 2: "nearest", 3: "bilinear corners", 4: "nearest"}

JPEGD_SIZE: Final = Range((32, 32), (8192, 8192))
PNGD_SIZE: Final = Range((32, 32), (4096, 4096))


def _first(arch: str) -> Rules:
    return Rules(
        arch=arch, old=True, width_align=16, even_rows=True, odd_edges=True, paste_align=16, inputs=_PLAIN,
        outputs=frozenset((1, 2)), wide_inputs=_8K_OLD, input_size=_INPUT, output_size=_SQUARE, scale=(1 / 32, 16),
        interpolations=_FIRST, jpegd_align=128, jpegd_keeps=True, jpege_size=_JPEGE, vdec_size=_VDEC,
        venc_size=Range((128, 128), (1920, 1920)),
    )  # fmt: skip


@lru_cache(maxsize=8)
def rules(arch: str) -> Rules:
    """The rules of a core generation (``Soc.chip.arch``)."""
    if arch in ("m100", "c100"):
        return _first(arch)
    if arch == "m200":
        return Rules(
            arch=arch, old=False, width_align=16, even_rows=False, odd_edges=False, paste_align=16, inputs=_ALL,
            outputs=_PLAIN, wide_inputs=_8K_NEW, input_size=_INPUT, output_size=_SQUARE, scale=(1 / 32, 16),
            interpolations={0: "bilinear", 1: "bilinear", 2: "nearest"}, jpegd_align=64, jpegd_keeps=False,
            jpege_size=_JPEGE, vdec_size=_VDEC, venc_size=Range((128, 128), (4096, 4096)),
        )  # fmt: skip
    newest = {0: "bilinear", 1: "bilinear", 2: "nearest", 3: "bilinear", 4: "nearest", 5: "high order"}
    board = arch == "m300"
    return Rules(
        arch=arch, old=False, width_align=1, even_rows=False, odd_edges=False, paste_align=1, inputs=_ALL,
        outputs=_PLAIN, wide_inputs=_8K_NEW, input_size=_INPUT, output_size=_TALL, scale=(1 / 32, 16),
        interpolations=newest, jpegd_align=64, jpegd_keeps=True,
        jpege_size=Range((32, 32), (16384, 16384)) if board else _JPEGE,
        vdec_size=Range((128, 128), (8192, 8192)) if board else _VDEC, venc_size=Range((114, 114), (8192, 8192)),
    )  # fmt: skip
