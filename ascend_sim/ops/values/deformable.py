"""DeformableConv2D: every tap of the window reads at its own offset, bilinearly, weighted by a mask.

Inputs: x [N, C, H, W], filter [O, C / groups, Kh, Kw], offsets [N, 2 * deformable_groups * Kh * Kw, Ho, Wo] as pairs
(y, x) per tap, bias [O], mask [N, deformable_groups * Kh * Kw, Ho, Wo].
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ascend_sim.ops.registry import Array
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, need, rank, text
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._numeric import float32, narrow
from ascend_sim.ops.values._window import Window


def _infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x, w, offsets = (need(inputs, i, n) for i, n in enumerate(("x", "filter", "offsets")))
    shape, (channels, _, *kernel) = rank(x, "x", 4, 4), rank(w, "filter", 4, 4)
    out = Window.of_conv(kernel, attrs.get, "NCHW").out(shape[2:])
    own = int(attrs.get("deformable_groups", 1))
    wanted = (shape[0], 2 * own * prod(kernel), *out)
    if offsets.logical_shape != wanted:
        raise ShapeError(f"offsets is {text(offsets)}; expected {list(wanted)} for x {text(x)}")
    return [TensorSpec((shape[0], channels, *out), x.dtype, "NCHW")]


def _read(plane: Array, y: Array, x: Array) -> Array:
    """Bilinear samples of [C, H, W] at [P] positions -> [C, P]; outside counts as 0."""
    h, w = plane.shape[1:]
    y0, x0 = np.floor(y).astype(np.int64), np.floor(x).astype(np.int64)
    result = np.zeros((plane.shape[0], y.size), np.float32)
    for dy in (0, 1):
        for dx in (0, 1):
            iy, ix = y0 + dy, x0 + dx
            weight = (1 - np.abs(y - iy)) * (1 - np.abs(x - ix))
            weight = np.where((iy >= 0) & (iy < h) & (ix >= 0) & (ix < w), weight, 0).astype(np.float32)
            result += plane[:, np.clip(iy, 0, h - 1), np.clip(ix, 0, w - 1)] * weight
    return result


def _values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x, w, offsets, bias, mask = [*arrays, None, None][:5]
    assert x is not None and w is not None and offsets is not None
    image, taps = float32(x), float32(w)
    kernel = w.shape[2:]
    window = Window.of_conv(kernel, call.attr, "NCHW")
    n, channels, ho, wo = call.outputs[0].logical_shape
    own, groups = int(call.attr("deformable_groups", 1)), int(call.attr("groups", 1))
    moves = float32(offsets).reshape(n, own, *kernel, 2, ho, wo)
    weights = None if mask is None else float32(mask).reshape(n, own, *kernel, ho * wo)
    rows = (np.arange(ho) * window.strides[0] - window.pads[0])[:, None]
    lines = (np.arange(wo) * window.strides[1] - window.pads[2])[None, :]
    per = x.shape[1] // own
    columns = np.empty((n, x.shape[1], *kernel, ho * wo), np.float32)
    for b, g, (i, j) in ((b, g, t) for b in range(n) for g in range(own) for t in np.ndindex(*kernel)):
        y = rows + i * window.dilations[0] + moves[b, g, i, j, 0]
        z = lines + j * window.dilations[1] + moves[b, g, i, j, 1]
        part = _read(image[b, g * per : (g + 1) * per], y.reshape(-1), z.reshape(-1))
        columns[b, g * per : (g + 1) * per, i, j] = part if weights is None else part * weights[b, g, i, j]
    left = taps.reshape(groups, channels // groups, -1)
    right = columns.reshape(n, groups, -1, ho * wo)
    result = np.matmul(left, right).reshape(n, channels, ho, wo)
    if bias is not None:
        result += float32(bias).reshape(1, -1, 1, 1)
    return [narrow(result, call.outputs[0].dtype)]


define("DeformableConv2D", "vision", "x filter offsets bias? mask?", _infer, _values)
