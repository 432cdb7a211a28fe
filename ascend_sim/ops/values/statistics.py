"""Moments, norms, running extremes, and products in types that the cube unit lacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascend_sim.ops.dtypes import FLOATING
from ascend_sim.ops.registry import Array
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, axis_of, broadcast, like, need, reduced, text
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._numeric import narrow, widen
from ascend_sim.ops.values.reduce import reduce_axes


def _floating(inputs: Specs) -> TensorSpec:
    x = need(inputs, 0, "x")
    if x.dtype not in FLOATING:
        raise ShapeError(f"x is {text(x)}; expected a floating-point type")
    return x


def _infer_var(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = _floating(inputs)
    axes = reduce_axes(inputs, attrs, len(x.logical_shape))
    out = like(x, reduced(x.logical_shape, axes, bool(attrs.get("keep_dims", False))))
    return [out, out]


def _var(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """Variance (divided by n - ``correction``) and mean."""
    x = arrays[0]
    assert x is not None
    axes = reduce_axes(call.inputs, dict(call.attrs), x.ndim)
    wide = widen(x).astype(np.float64)
    mean = wide.mean(axis=axes, keepdims=True)
    count = wide.size / max(mean.size, 1)
    with np.errstate(all="ignore"):
        variance = np.square(wide - mean).sum(axis=axes) / np.maximum(count - float(call.attr("correction", 1.0)), 0.0)
    return [narrow(r.reshape(o.logical_shape), o.dtype) for r, o in zip((variance, mean), call.outputs, strict=True)]


define("ReduceVar", "reduce", "x", _infer_var, _var)


def _infer_lp_norm(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = _floating(inputs)
    axes = reduce_axes(inputs, attrs, len(x.logical_shape))
    return [like(x, reduced(x.logical_shape, axes, bool(attrs.get("keepdim", False))))]


def _lp_norm(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    axes = reduce_axes(call.inputs, dict(call.attrs), x.ndim)
    p, size = float(call.attr("p", 2.0)), np.abs(widen(x))
    with np.errstate(all="ignore"):
        if p == 0:
            y = (size != 0).sum(axis=axes).astype(size.dtype)
        elif p == 1:
            y = size.sum(axis=axes, dtype=size.dtype)
        elif p == 2:
            y = np.sqrt(np.square(size).sum(axis=axes, dtype=size.dtype))
        else:
            y = np.power(np.power(size, size.dtype.type(p)).sum(axis=axes, dtype=size.dtype), size.dtype.type(1 / p))
    return [narrow(np.asarray(y).reshape(call.outputs[0].logical_shape), call.outputs[0].dtype)]


define("LpNormV2", "reduce", "x", _infer_lp_norm, _lp_norm)


def _log_cumsum_exp(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    with np.errstate(all="ignore"):
        y = np.logaddexp.accumulate(widen(x), axis=axis_of(int(call.attr("axis", 0)), x.ndim))
    return [narrow(y, call.outputs[0].dtype)]


define("LogCumsumExp", "sort", "x", lambda i, a: [like(_floating(i))], _log_cumsum_exp)


def _infer_running(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    axis_of(int(attrs.get("dim", 0)), len(x.logical_shape), "dim")
    return [like(x), like(x, dtype="int64")]


def _running(largest: bool) -> Any:
    def values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
        """Extreme so far along ``dim``, and where it last was."""
        x = arrays[0]
        assert x is not None
        axis = axis_of(int(call.attr("dim", 0)), x.ndim)
        wide = np.moveaxis(widen(x), axis, 0)
        best, where = np.empty_like(wide), np.zeros(wide.shape, np.int64)
        if len(wide):
            best[0] = wide[0]
        for i in range(1, len(wide)):
            last = best[i - 1]
            better = wide[i] >= last if largest else wide[i] <= last
            if wide.dtype.kind == "f":
                better = (better | np.isnan(wide[i])) & ~(np.isnan(last) & ~np.isnan(wide[i]))
            best[i] = np.where(better, wide[i], last)
            where[i] = np.where(better, i, where[i - 1])
        values_ = narrow(np.ascontiguousarray(np.moveaxis(best, 0, axis)), call.outputs[0].dtype)
        return [values_, np.ascontiguousarray(np.moveaxis(where, 0, axis))]

    return values


define("Cummax", "sort", "x", _infer_running, _running(True))
define("Cummin", "sort", "x", _infer_running, _running(False))


def _infer_trace(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    if len(x.logical_shape) != 2:
        raise ShapeError(f"x is {text(x)}; expected rank 2")
    return [TensorSpec((), x.dtype)]


def _trace(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    wide = widen(x)
    return [narrow(np.asarray(np.trace(wide, dtype=wide.dtype)), call.outputs[0].dtype)]


define("Trace", "reduce", "x", _infer_trace, _trace)


def _infer_wide_product(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    a, b = need(inputs, 0, "x1"), need(inputs, 1, "x2")
    sa, sb = a.logical_shape, b.logical_shape
    m, k = sa[-2:][::-1] if attrs.get("transpose_x1", False) else sa[-2:]
    kb, n = sb[-2:][::-1] if attrs.get("transpose_x2", False) else sb[-2:]
    if k != kb or a.dtype != b.dtype:
        raise ShapeError(f"x2 is {text(b)} (K = {kb}) but x1 is {text(a)} (K = {k}); expected equal K and type")
    return [TensorSpec((*broadcast(sa[:-2], sb[:-2]), m, n), a.dtype)]


def _wide_product(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """Matrix product in integers (wrapping) or float64, as the AI CPU computes it."""
    a, b = arrays[0], arrays[1]
    assert a is not None and b is not None
    a = a.swapaxes(-1, -2) if call.attr("transpose_x1", False) else a
    b = b.swapaxes(-1, -2) if call.attr("transpose_x2", False) else b
    return [np.matmul(a, b, dtype=a.dtype)]


define("MatMulWide", "aicpu", "x1 x2", _infer_wide_product, _wide_product)
