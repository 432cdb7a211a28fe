"""Max pooling that also tells where each maximum was: MaxPoolWithArgmaxV1.

The positions are ONNX's: flat indices into the whole input [N, C, H, W] without padding, the first maximum of a window
wins, and ``storage_order`` 1 counts the last two axes column by column.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ascend_sim.ops.registry import Array
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import need, rank
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._numeric import narrow, widen
from ascend_sim.ops.values.pooling import pool_window


def _infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    shape = rank(x, "x", 4, 4)
    window, ceil = pool_window(attrs.get, shape[2:], "NCHW")
    out = (*shape[:2], *window.out(shape[2:], ceil=ceil))
    return [TensorSpec(out, x.dtype, "NCHW"), TensorSpec(out, "int64", "NCHW")]


def _values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    wide = widen(x)
    size = x.shape[2:]
    window, ceil = pool_window(call.attr, size, "NCHW")
    out = window.out(size, ceil=ceil)
    low = np.iinfo(wide.dtype).min if wide.dtype.kind in "iu" else -np.inf
    view = window.view(window.pad(wide, wide.dtype, low, out), out)
    flat = view.reshape(*x.shape[:2], prod(window.kernel), *out)
    tap = flat.argmax(axis=2)
    best = np.take_along_axis(flat, tap[:, :, None], axis=2)[:, :, 0]
    places = []
    for axis, (t, step, dilation) in enumerate(zip(
        np.unravel_index(tap, window.kernel), window.strides, window.dilations, strict=True
    )):  # fmt: skip
        start = np.arange(out[axis]).reshape([-1 if i == axis else 1 for i in range(len(out))]) * step
        places.append(start - window.pads[2 * axis] + t * dilation)
    row, column = places
    inner = column * size[0] + row if call.attr("storage_order", 0) else row * size[1] + column
    plane = np.arange(prod(x.shape[:2])).reshape(*x.shape[:2], 1, 1) * prod(size)
    return [narrow(best, call.outputs[0].dtype), (inner + plane).astype(np.int64)]


define("MaxPoolWithArgmaxV1", "pooling", "x", _infer, _values)
