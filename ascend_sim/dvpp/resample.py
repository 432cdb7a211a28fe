"""Resizing of one plane, one function per interpolation of the image unit.

The public documentation says which algorithm each mode follows: 1 bilinear and 2 nearest as OpenCV computes them
(pixel centres at half), 3 bilinear and 4 nearest as TensorFlow's first resize operators (pixel corners), 0 on the first
generation and 5 on newer ones a high-order filter of the vendor. That filter is not published; a cubic one whose
support grows with the reduction stands for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Plane = NDArray[np.uint8]


def _linear(coordinates: NDArray[Any], size: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Lower and upper neighbours and the weight of the upper one; outside pixels repeat the edge."""
    clipped = np.clip(coordinates, 0, size - 1)
    low = np.floor(clipped).astype(np.intp)
    return low, np.minimum(low + 1, size - 1), (clipped - low).astype(np.float32)


def _blend(plane: Plane, rows: NDArray[Any], columns: NDArray[Any]) -> Plane:
    top, bottom, v = _linear(rows, plane.shape[0])
    left, right, h = _linear(columns, plane.shape[1])
    values = plane.astype(np.float32)
    across = values[:, left]
    across += (values[:, right] - across) * h
    result = across[top]
    result += (across[bottom] - result) * v[:, None]
    rounded: Plane = np.floor(result + np.float32(0.5)).astype(np.uint8)
    return rounded


def _centres(size: int, source: int) -> NDArray[Any]:
    return (np.arange(size) + 0.5) * (source / size) - 0.5


def _corners(size: int, source: int) -> NDArray[Any]:
    return np.arange(size) * (source / size)


def bilinear_centres(plane: Plane, height: int, width: int) -> Plane:
    """OpenCV's INTER_LINEAR (within one level: OpenCV rounds its weights to 11 bits)."""
    return _blend(plane, _centres(height, plane.shape[0]), _centres(width, plane.shape[1]))


def bilinear_corners(plane: Plane, height: int, width: int) -> Plane:
    """TensorFlow's resize_bilinear without aligned corners or half-pixel centres."""
    return _blend(plane, _corners(height, plane.shape[0]), _corners(width, plane.shape[1]))


def nearest(plane: Plane, height: int, width: int) -> Plane:
    """OpenCV's INTER_NEAREST, and TensorFlow's resize_nearest_neighbor: floor of the scaled index."""
    rows = np.minimum(np.floor(_corners(height, plane.shape[0])).astype(np.intp), plane.shape[0] - 1)
    columns = np.minimum(np.floor(_corners(width, plane.shape[1])).astype(np.intp), plane.shape[1] - 1)
    picked: Plane = plane[rows[:, None], columns]
    return picked


def high_order(plane: Plane, height: int, width: int) -> Plane:
    """Separable cubic convolution with a support that covers the reduction."""
    from PIL import Image as Pillow

    picture = Pillow.fromarray(np.ascontiguousarray(plane)).resize((width, height), Pillow.Resampling.BICUBIC)
    return np.asarray(picture)


Resize = Callable[[Plane, int, int], Plane]

METHODS: Final[dict[str, Resize]] = {
    "bilinear": bilinear_centres,
    "nearest": nearest,
    "bilinear corners": bilinear_corners,
    "high order": high_order,
}


def resize(plane: Plane, height: int, width: int, method: str) -> Plane:
    """``plane`` scaled to ``height`` x ``width``; the same size returns it unchanged."""
    if plane.shape == (height, width):
        return plane
    return METHODS[method](plane, height, width)
