"""Conversions between colour formats.

Matrices are the six of ``acldvppCscMatrix``: BT.601, BT.709 and BT.2020, each wide (full range, as in JPEG) or narrow
(Y 16..235, chroma 16..240); wide BT.601 is the default, so that a decoded JPEG picture turns into the RGB picture it
was made from.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ascend_sim.dvpp.formats import PixelFormat
from ascend_sim.dvpp.image import Bytes, Image

_KR_KB: Final = ((0.299, 0.114), (0.2126, 0.0722), (0.2627, 0.0593))  # BT.601, BT.709, BT.2020
MATRICES: Final = 6


def _bytes(values: NDArray[Any]) -> Bytes:
    clipped: Bytes = np.clip(np.floor(values + np.float32(0.5)), 0, 255).astype(np.uint8)
    return clipped


def _standard(matrix: int) -> tuple[float, float, bool]:
    """(kr, kb, narrow) of a matrix number: standards in turn, wide before narrow."""
    kr, kb = _KR_KB[matrix // 2]
    return kr, kb, bool(matrix % 2)


def to_rgb(y: Bytes, u: Bytes, v: Bytes, matrix: int = 0) -> dict[str, Bytes]:
    """R, G, B of planes of equal size."""
    kr, kb, narrow = _standard(matrix)
    luma = y.astype(np.float32)
    cb, cr = u.astype(np.float32) - 128, v.astype(np.float32) - 128
    if narrow:
        luma = (luma - 16) * np.float32(255 / 219)
        cb, cr = cb * np.float32(255 / 224), cr * np.float32(255 / 224)
    red = luma + np.float32(2 * (1 - kr)) * cr
    blue = luma + np.float32(2 * (1 - kb)) * cb
    kg = 1 - kr - kb
    green = luma - np.float32(2 * kr * (1 - kr) / kg) * cr - np.float32(2 * kb * (1 - kb) / kg) * cb
    return {"R": _bytes(red), "G": _bytes(green), "B": _bytes(blue)}


def to_yuv(r: Bytes, g: Bytes, b: Bytes, matrix: int = 0) -> dict[str, Bytes]:
    """Y, U, V at full resolution."""
    kr, kb, narrow = _standard(matrix)
    red, green, blue = (channel.astype(np.float32) for channel in (r, g, b))
    luma = np.float32(kr) * red + np.float32(1 - kr - kb) * green + np.float32(kb) * blue
    cb = (blue - luma) * np.float32(0.5 / (1 - kb))
    cr = (red - luma) * np.float32(0.5 / (1 - kr))
    if narrow:
        luma = luma * np.float32(219 / 255) + 16
        cb, cr = cb * np.float32(224 / 255), cr * np.float32(224 / 255)
    return {"Y": _bytes(luma), "U": _bytes(cb + 128), "V": _bytes(cr + 128)}


def shrink(plane: Bytes, w: int, h: int) -> Bytes:
    """Mean of every ``h`` x ``w`` block; a last odd row or column counts twice."""
    if w == h == 1:
        return plane
    rows, columns = -(-plane.shape[0] // h), -(-plane.shape[1] // w)
    padded = np.pad(plane, ((0, rows * h - plane.shape[0]), (0, columns * w - plane.shape[1])), mode="edge")
    total = padded.reshape(rows, h, columns, w).sum(axis=(1, 3), dtype=np.uint16)
    mean: Bytes = ((total + w * h // 2) // (w * h)).astype(np.uint8)
    return mean


def grow(plane: Bytes, w: int, h: int, width: int, height: int) -> Bytes:
    """Every sample repeated ``w`` times across and ``h`` times down, cut to the size of the picture."""
    if w == h == 1:
        return plane
    return np.repeat(np.repeat(plane, h, axis=0)[:height], w, axis=1)[:, :width]


def full_yuv(image: Image, matrix: int = 0) -> dict[str, Bytes]:
    """Y, U, V of equal size."""
    if image.is_rgb:
        planes = image.planes
        return to_yuv(planes["R"], planes["G"], planes["B"], matrix)
    y = image.planes["Y"]
    if "U" not in image.planes:
        flat = np.full(y.shape, 128, np.uint8)
        return {"Y": y, "U": flat, "V": flat}
    w, h = image.subsampling
    return {"Y": y} | {c: grow(image.planes[c], w, h, image.width, image.height) for c in "UV"}


def convert(image: Image, form: PixelFormat, matrix: int = 0) -> Image:
    """The picture with the channels and the subsampling of ``form``. An alpha channel that the source lacks is 255."""
    wants_rgb = form.kind == "rgb" and "R" in form.order
    if wants_rgb:
        planes = image.planes
        if not image.is_rgb:
            full = full_yuv(image)
            planes = to_rgb(full["Y"], full["U"], full["V"], matrix)
        chosen = {channel: planes[channel] for channel in "RGB"}
        if "A" in form.order:
            chosen["A"] = image.planes.get("A", np.full(planes["R"].shape, 255, np.uint8))
        return Image(image.width, image.height, chosen)
    if form.kind == "gray":
        y = full_yuv(image, matrix)["Y"] if image.is_rgb else image.planes["Y"]
        return Image(image.width, image.height, {"Y": y})
    if not image.is_rgb and "U" in image.planes and image.subsampling == (form.sub_w, form.sub_h):
        return image
    planes = full_yuv(image, matrix)
    return Image(
        image.width, image.height,
        {"Y": planes["Y"]} | {c: shrink(planes[c], form.sub_w, form.sub_h) for c in "UV"},
    )  # fmt: skip
