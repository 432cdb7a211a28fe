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
_UNIT: Final = 2048


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


def _weights(size: int, source: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int32]]:
    """Neighbours of every pixel and their weights in units of 1/2048, as OpenCV rounds them."""
    at = _centres(size, source).astype(np.float32)
    low = np.floor(at)
    upper = at - low
    upper[(low < 0) | (low >= source - 1)] = 0
    first = np.clip(low, 0, source - 1).astype(np.intp)
    weights = np.rint(np.stack((1 - upper, upper)) * np.float32(_UNIT)).astype(np.int32)
    return first, np.minimum(first + 1, source - 1), weights


def bilinear_centres(plane: Plane, height: int, width: int) -> Plane:
    """OpenCV's INTER_LINEAR for bytes, in its fixed-point arithmetic; halving both sides takes the mean of four."""
    if plane.shape == (2 * height, 2 * width):
        total = plane.reshape(height, 2, width, 2).sum(axis=(1, 3), dtype=np.uint16)
        mean: Plane = ((total + 2) >> 2).astype(np.uint8)
        return mean
    left, right, h = _weights(width, plane.shape[1])
    top, bottom, v = _weights(height, plane.shape[0])
    values = plane.astype(np.int32)
    across = values[:, left] * h[0]
    across += values[:, right] * h[1]
    across >>= 4
    result = (across[top] * v[0][:, None]) >> 16
    result += (across[bottom] * v[1][:, None]) >> 16
    made: Plane = ((result + 2) >> 2).astype(np.uint8)
    return made


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
