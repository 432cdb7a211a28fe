"""GridSampler3D: x [N, C, D, H, W] sampled at grid [N, Do, Ho, Wo, 3] of (x, y, z) in [-1, 1]."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from ascend_sim.ops.registry import Array
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, like, need, rank, text
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._numeric import float32, narrow
from ascend_sim.ops.values.vision import place_on_grid


def _infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x, grid = need(inputs, 0, "x"), need(inputs, 1, "grid")
    shape, places = rank(x, "x", 5, 5), rank(grid, "grid", 5, 5)
    if places[0] != shape[0] or places[4] != 3:
        raise ShapeError(f"grid is {text(grid)}; expected [{shape[0]},D,H,W,3] for x {text(x)}")
    if attrs.get("interpolation_mode", "bilinear") not in ("bilinear", "nearest"):
        raise ShapeError(f"attribute interpolation_mode is {attrs['interpolation_mode']!r}; expected bilinear, nearest")
    return [like(x, (*shape[:2], *places[1:4]))]


def _sample(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x, grid = arrays[0], arrays[1]
    assert x is not None and grid is not None
    wide, points = float32(x), float32(grid)
    align, padding = bool(call.attr("align_corners", False)), str(call.attr("padding_mode", "zeros"))
    size = x.shape[2:]
    at = [place_on_grid(points[..., 2 - axis], s, padding, align) for axis, s in enumerate(size)]  # z, y, x
    image = np.arange(x.shape[0])[:, None, None, None]

    def taps(index: Sequence[Array]) -> Array:
        inside = np.logical_and.reduce([(i >= 0) & (i < s) for i, s in zip(index, size, strict=True)])
        z, y, w = (np.clip(i, 0, s - 1) for i, s in zip(index, size, strict=True))
        result: Array = np.where(inside[..., None], wide[image, :, z, y, w], np.float32(0))
        return result

    if str(call.attr("interpolation_mode", "bilinear")) == "nearest":
        y = taps([np.rint(v).astype(np.int64) for v in at])
    else:
        low = [np.floor(v).astype(np.int64) for v in at]
        part = [v - f for v, f in zip(at, low, strict=True)]
        y = np.zeros((*at[0].shape, x.shape[1]), np.float32)
        for corner in product((0, 1), repeat=3):
            weight = np.prod([p if c else 1 - p for p, c in zip(part, corner, strict=True)], axis=0)
            y += taps([f + c for f, c in zip(low, corner, strict=True)]) * weight[..., None]
    return [narrow(np.ascontiguousarray(np.moveaxis(y, -1, 1)), call.outputs[0].dtype)]


define("GridSampler3D", "vision", "x grid", _infer, _sample)
