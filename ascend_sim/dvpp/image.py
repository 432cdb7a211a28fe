"""Pictures as arrays, and their way from and to memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.dvpp.formats import PixelFormat

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Image:
    """Channel planes by name: ``Y``, ``U``, ``V`` (chroma at its own resolution) or ``R``, ``G``, ``B`` (and ``A``).

    All planes are uint8 of shape (rows, columns); those of chroma have ceil(rows / sub_h) rows and ceil(columns /
    sub_w) columns."""

    width: int
    height: int
    planes: dict[str, Bytes]

    @property
    def is_rgb(self) -> bool:
        return "R" in self.planes

    @property
    def subsampling(self) -> tuple[int, int]:
        """(horizontal, vertical) subsampling of chroma; (1, 1) for RGB and gray pictures."""
        chroma = self.planes.get("U")
        if chroma is None:
            return 1, 1
        return -(-self.width // chroma.shape[1]), -(-self.height // chroma.shape[0])


def _rows(memory: Bytes, offset: int, rows: int, stride: int, columns: int) -> Bytes:
    """A view of ``rows`` x ``columns`` bytes with the stride given; the last row may end before its stride."""
    whole: Any = np.lib.stride_tricks.as_strided(memory[offset:], (rows, columns), (stride, 1))
    return whole  # type: ignore[no-any-return]


def _views(
    memory: Bytes, form: PixelFormat, width: int, height: int, width_stride: int, height_stride: int
) -> dict[str, Bytes]:
    """Writable views of the channels inside ``memory``."""
    if form.kind in ("gray", "semi"):
        planes = {"Y": _rows(memory, 0, height, width_stride, width)}
        if form.kind == "semi":
            rows, columns = -(-height // form.sub_h), -(-width // form.sub_w)
            stride = width_stride * 2 // form.sub_w
            chroma = _rows(memory, width_stride * height_stride, rows, stride, 2 * columns)
            planes[form.order[0]], planes[form.order[1]] = chroma[:, 0::2], chroma[:, 1::2]
        return planes
    whole = _rows(memory, 0, height, width_stride, width * form.row_bytes)
    if form.kind == "packed422":
        found = {"Y": whole[:, form.order.index("Y") :: 2]}
        found |= {channel: whole[:, form.order.index(channel) :: 4] for channel in "UV"}
        return found
    return {channel: whole[:, i :: len(form.order)] for i, channel in enumerate(form.order)}


def read(memory: Bytes, form: PixelFormat, width: int, height: int, width_stride: int, height_stride: int) -> Image:
    """A copy of the picture in ``memory`` (at least `PixelFormat.nbytes` of the strides)."""
    views = _views(memory, form, width, height, width_stride, height_stride)
    return Image(width, height, {name: np.ascontiguousarray(view) for name, view in views.items()})


def write(image: Image, memory: Bytes, form: PixelFormat, width_stride: int, height_stride: int) -> None:
    """Store ``image``, whose planes must be those of ``form``. Bytes between width and stride stay as they are."""
    for name, view in _views(memory, form, image.width, image.height, width_stride, height_stride).items():
        view[...] = image.planes[name]


def crop(image: Image, left: int, top: int, width: int, height: int) -> Image:
    """The part of a picture; chroma samples that lie partly inside belong to it."""
    sub_w, sub_h = image.subsampling
    planes = {}
    for name, plane in image.planes.items():
        w, h = (sub_w, sub_h) if name in "UV" else (1, 1)
        x, y = left // w, top // h
        planes[name] = plane[y : y - (-height // h), x : x - (-width // w)]
    return Image(width, height, planes)


def paste(canvas: Image, image: Image, left: int, top: int) -> Image:
    """``canvas`` with ``image`` (same channels and subsampling) at this place; what lies outside is cut off."""
    sub_w, sub_h = canvas.subsampling
    planes = {}
    for name, plane in canvas.planes.items():
        w, h = (sub_w, sub_h) if name in "UV" else (1, 1)
        x, y = left // w, top // h
        fresh = plane.copy()
        part = fresh[y : y + image.planes[name].shape[0], x : x + image.planes[name].shape[1]]
        part[...] = image.planes[name][: part.shape[0], : part.shape[1]]
        planes[name] = fresh
    return Image(canvas.width, canvas.height, planes)


def extended(image: Image, width: int, height: int) -> Image:
    """The picture with its last column and row repeated up to ``width`` x ``height``."""
    sub_w, sub_h = image.subsampling
    planes = {}
    for name, plane in image.planes.items():
        w, h = (sub_w, sub_h) if name in "UV" else (1, 1)
        more = ((0, height // h - plane.shape[0]), (0, width // w - plane.shape[1]))
        planes[name] = np.pad(plane, more, mode="edge")
    return Image(width, height, planes)
