"""Resampling to another size as torch defines it, axis by axis: every output is a weighted sum of inputs.

``mode``: ``nearest``, ``nearest-exact``, ``linear`` or ``cubic``; ``scales`` (output / input, 0: from the sizes).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ascend_sim.ops.registry import Array
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, ints, need, rank, text
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._numeric import narrow, widen

_A = -0.75  # of the cubic kernel


@lru_cache(maxsize=256)
def weights(size: int, out: int, mode: str, align: bool, scale: float) -> Array:
    """Matrix [out, size] of one axis."""
    matrix = np.zeros((out, size), np.float32)
    step = 1 / scale if scale > 0 else size / out
    step = float(np.float32(step))
    if mode in ("nearest", "nearest-exact"):
        offset = 0.5 if mode == "nearest-exact" else 0.0
        for i in range(out):
            matrix[i, min(int(np.floor(np.float32((i + offset) * step))), size - 1)] = 1
        return matrix
    if align:
        step = (size - 1) / (out - 1) if out > 1 else 0.0
    for i in range(out):
        at = i * step if align else (i + 0.5) * step - 0.5
        if mode == "linear":
            at = max(at, 0.0)
            low = min(int(at), size - 1)
            part = at - low
            matrix[i, low] += 1 - part
            matrix[i, min(low + 1, size - 1)] += part
            continue
        low = int(np.floor(at))
        t = at - low
        for k, w in enumerate(_cubic(t)):
            matrix[i, min(max(low - 1 + k, 0), size - 1)] += w
    return matrix


def _cubic(t: float) -> tuple[float, ...]:
    def near(x: float) -> float:
        return ((_A + 2) * x - (_A + 3)) * x * x + 1

    def far(x: float) -> float:
        return ((_A * x - 5 * _A) * x + 8 * _A) * x - 4 * _A

    return far(t + 1), near(t), near(1 - t), far(2 - t)


def _matrices(get: Any, sizes: Sequence[int], out: Sequence[int]) -> list[Array]:
    scales = get("scales", None) or [0.0] * len(out)
    mode, align = str(get("mode", "nearest")), bool(get("align_corners", False))
    return [weights(n, m, mode, align, float(s or 0.0)) for n, m, s in zip(sizes, out, scales, strict=True)]


def _apply(x: Array, matrices: Sequence[Array]) -> Array:
    for axis, matrix in zip(range(2, x.ndim), matrices, strict=True):
        x = np.moveaxis(np.tensordot(x, matrix.astype(x.dtype), axes=([axis], [1])), -1, axis)
    return np.ascontiguousarray(x)


def _infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    out = ints(attrs.get("output_size"), "output_size")
    shape = rank(x, "x", len(out) + 2, len(out) + 2)
    return [TensorSpec((*shape[:2], *out), x.dtype)]


def _values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    wide = x if x.dtype.kind in "iub" else widen(x)
    y = _apply(wide.astype(np.float32) if x.dtype.kind in "iub" else wide,
               _matrices(call.attr, x.shape[2:], call.outputs[0].logical_shape[2:]))  # fmt: skip
    return [narrow(np.rint(y) if x.dtype.kind in "iub" else y, call.outputs[0].dtype)]


define("Upsample", "elementwise", "x", _infer, _values)


def _infer_grad(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    dy = need(inputs, 0, "grad_output")
    shape = tuple(ints(attrs.get("input_size"), "input_size"))
    if len(shape) != len(dy.logical_shape):
        raise ShapeError(f"input_size {list(shape)} does not fit grad_output {text(dy)}")
    return [TensorSpec(shape, dy.dtype)]


def _grad(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    dy = arrays[0]
    assert dy is not None
    matrices = _matrices(call.attr, call.outputs[0].logical_shape[2:], dy.shape[2:])
    return [narrow(_apply(widen(dy), [m.T for m in matrices]), call.outputs[0].dtype)]


define("UpsampleGrad", "elementwise", "grad_output", _infer_grad, _grad)
