"""The image unit (VPC): crop, resize, paste, colour, borders, histograms, tables, pyramids, on arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from ascend_sim.dvpp import colour, image
from ascend_sim.dvpp.formats import PixelFormat
from ascend_sim.dvpp.image import Bytes, Image
from ascend_sim.dvpp.picture import Region
from ascend_sim.dvpp.resample import resize

CONSTANT, REPLICATE, REFLECT, REFLECT_101 = range(4)
_PAD_MODES: Final[dict[int, Literal["edge", "symmetric", "reflect"]]] = {
    REPLICATE: "edge",
    REFLECT: "symmetric",
    REFLECT_101: "reflect",
}
_BINOMIAL: Final = (1, 4, 6, 4, 1)


def resized(picture: Image, width: int, height: int, method: str) -> Image:
    """Every plane scaled by itself; chroma keeps its subsampling."""
    if (picture.width, picture.height) == (width, height):
        return picture
    sub_w, sub_h = picture.subsampling
    planes = {}
    for name, plane in picture.planes.items():
        w, h = (sub_w, sub_h) if name in "UV" else (1, 1)
        planes[name] = resize(plane, -(-height // h), -(-width // w), method)
    return Image(width, height, planes)


def processed(
    picture: Image, region: Region, width: int, height: int, method: str, form: PixelFormat, matrix: int
) -> Image:
    """``region`` of a picture, scaled to ``width`` x ``height``, in the format ``form``."""
    part = image.crop(picture, region.left, region.top, region.width, region.height)
    return colour.convert(resized(part, width, height, method), form, matrix)


def bordered(
    picture: Image, form: PixelFormat, edges: tuple[int, int, int, int], kind: int, values: Sequence[int]
) -> Image:
    """The picture with a border of ``edges`` (top, bottom, left, right) pixels; ``values`` are those of a constant one,
    one for each of `channels`."""
    top, bottom, left, right = edges
    sub_w, sub_h = picture.subsampling
    planes = {}
    for name, value in zip(channels(picture, form), values, strict=False):
        plane = picture.planes[name]
        w, h = (sub_w, sub_h) if name in "UV" else (1, 1)
        pad = ((top // h, -(-bottom // h)), (left // w, -(-right // w)))
        if kind == CONSTANT:
            planes[name] = np.pad(plane, pad, constant_values=value)
        else:
            planes[name] = np.pad(plane, pad, mode=_PAD_MODES[kind])
    return Image(picture.width + left + right, picture.height + top + bottom, planes)


def channels(picture: Image, form: PixelFormat) -> list[str]:
    """Names of the channels in the order in which histograms and tables count them: that of the format, and Y, U, V."""
    names = form.order if form.kind == "rgb" else "YUV"
    return [name for name in names if name in picture.planes]


def histograms(picture: Image, form: PixelFormat) -> list[NDArray[np.uint32]]:
    """Counts of the 256 levels of each of `channels`."""
    counts = (np.bincount(picture.planes[name].ravel(), minlength=256) for name in channels(picture, form))
    return [count.astype(np.uint32) for count in counts]


def mapped(picture: Image, form: PixelFormat, tables: Sequence[Bytes]) -> Image:
    """Each of `channels` through its table of 256 levels."""
    names = channels(picture, form)
    return Image(picture.width, picture.height, {n: t[picture.planes[n]] for n, t in zip(names, tables, strict=False)})


def pyramid_down(picture: Image) -> Image:
    """Gaussian 5 x 5, then every other pixel (OpenCV's pyrDown with its default border)."""
    sub_w, sub_h = picture.subsampling
    width, height = -(-picture.width // 2), -(-picture.height // 2)
    planes = {}
    for name, plane in picture.planes.items():
        w, h = (sub_w, sub_h) if name in "UV" else (1, 1)
        planes[name] = _halved(plane)[: -(-height // h), : -(-width // w)]
    return Image(width, height, planes)


def _halved(plane: Bytes) -> Bytes:
    padded = np.pad(plane, 2, mode="reflect").astype(np.uint32)
    rows, columns = -(-plane.shape[0] // 2), -(-plane.shape[1] // 2)
    down = np.zeros((rows, padded.shape[1]), np.uint32)
    for i, weight in enumerate(_BINOMIAL):
        down += weight * padded[i : i + 2 * rows : 2][:rows]
    total = np.zeros((rows, columns), np.uint32)
    for i, weight in enumerate(_BINOMIAL):
        total += weight * down[:, i : i + 2 * columns : 2][:, :columns]
    return ((total + 128) >> 8).astype(np.uint8)
