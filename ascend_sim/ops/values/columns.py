"""Col2im: columns of sliding blocks added into an image, over any number of spatial axes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ascend_sim.ops.registry import Array
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, ints, need, rank, text
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._numeric import narrow, widen
from ascend_sim.ops.values._window import Window


def _geometry(get: Any) -> tuple[list[int], Window]:
    size = ints(get("output_size", None), "output_size")
    axes = len(size)
    return size, Window(
        tuple(ints(get("kernel_size", None), "kernel_size", axes)),
        tuple(ints(get("stride", [1] * axes), "stride", axes)),
        tuple(ints(get("dilation", [1] * axes), "dilation", axes)),
        tuple(ints(get("padding", [0] * (2 * axes)), "padding", 2 * axes)),
    )


def _infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    """x [N, C * taps, blocks] -> [N, C, size...]; ``padding`` are pairs (before, after) per axis."""
    x = need(inputs, 0, "x")
    n, rows, blocks = rank(x, "x", 3, 3)
    size, window = _geometry(attrs.get)
    taps, places = prod(window.kernel), prod(window.out(size))
    if rows % taps or blocks != places:
        raise ShapeError(f"x is {text(x)}; expected [N, C * {taps}, {places}] for output_size {size}")
    return [TensorSpec((n, rows // taps, *size), x.dtype)]


def _col2im(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    size, window = _geometry(call.attr)
    out = window.out(size)
    n, channels = call.outputs[0].logical_shape[:2]
    columns = widen(x).reshape(n, channels, *window.kernel, *out)
    pairs = zip(size, window.pads[0::2], window.pads[1::2], strict=True)
    canvas = np.zeros((n, channels, *(before + s + after for s, before, after in pairs)), columns.dtype)
    every = (slice(None), slice(None))
    for tap in np.ndindex(*window.kernel):
        steps = zip(tap, window.dilations, window.strides, out, strict=True)
        place = tuple(slice(t * d, t * d + (o - 1) * s + 1, s) for t, d, s, o in steps)
        canvas[(*every, *place)] += columns[(*every, *tap)]
    inner = tuple(slice(before, before + s) for before, s in zip(window.pads[0::2], size, strict=True))
    return [narrow(np.ascontiguousarray(canvas[(*every, *inner)]), call.outputs[0].dtype)]


define("Col2im", "movement", "x", _infer, _col2im)
