"""Loss functions and their gradients; ``reduction`` is ``none``, ``mean`` or ``sum``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ascend_sim.ops.registry import Array
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, broadcast, need, text
from ascend_sim.ops.values import _functions as fn
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._numeric import narrow, widen


def _reduced(y: Array, how: str) -> Array:
    if how == "none":
        return y
    return np.asarray(y.mean(dtype=y.dtype) if how == "mean" else y.sum(dtype=y.dtype))


# ---- elementwise losses


def _mse(x: Array, t: Array) -> Any:
    return np.square(x - t)


def _mse_grad(x: Array, t: Array) -> Any:
    return 2 * (x - t)


def _smooth_l1(x: Array, t: Array, beta: float) -> Any:
    d = np.abs(x - t)
    return d if beta == 0 else np.where(d < beta, d * d * x.dtype.type(0.5 / beta), d - x.dtype.type(beta / 2))


def _smooth_l1_grad(x: Array, t: Array, beta: float) -> Any:
    d = x - t
    return np.sign(d) if beta == 0 else np.where(np.abs(d) < beta, d / x.dtype.type(beta), np.sign(d))


def _huber(x: Array, t: Array, delta: float) -> Any:
    d, k = np.abs(x - t), x.dtype.type
    return np.where(d <= delta, k(0.5) * d * d, k(delta) * (d - k(delta / 2)))


def _huber_grad(x: Array, t: Array, delta: float) -> Any:
    d = x - t
    return np.clip(d, -delta, delta).astype(x.dtype)


def _soft_margin(x: Array, t: Array) -> Any:
    return fn.softplus(-t * x)


def _soft_margin_grad(x: Array, t: Array) -> Any:
    return -t * fn.sigmoid(-t * x)


_LOSSES: dict[str, tuple[Callable[..., Array], Callable[..., Array], dict[str, float]]] = {
    "MseLoss": (_mse, _mse_grad, {}),
    "SmoothL1LossV2": (_smooth_l1, _smooth_l1_grad, {"sigma": 1.0}),
    "HuberLoss": (_huber, _huber_grad, {"delta": 1.0}),
    "SoftMarginLoss": (_soft_margin, _soft_margin_grad, {}),
}


def _infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x, t = need(inputs, 0, "predict"), need(inputs, 1, "label")
    shape = broadcast(x.logical_shape, t.logical_shape)
    return [TensorSpec(shape if attrs.get("reduction", "mean") == "none" else (), x.dtype)]


def _values(function: Callable[..., Array], defaults: dict[str, float]) -> Any:
    def values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
        x, t = (widen(a) for a in arrays[:2] if a is not None)
        y = function(x, t, *(call.attr(n, d) for n, d in defaults.items()))
        return [narrow(_reduced(y, str(call.attr("reduction", "mean"))), call.outputs[0].dtype)]

    return values


def _infer_grad(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x, t = need(inputs, 0, "predict"), need(inputs, 1, "label")
    return [TensorSpec(broadcast(x.logical_shape, t.logical_shape), x.dtype)]


def _grad_values(function: Callable[..., Array], defaults: dict[str, float]) -> Any:
    def values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
        x, t, dout = (widen(a) for a in arrays[:3] if a is not None)
        y = function(x, t, *(call.attr(n, d) for n, d in defaults.items())) * dout
        if call.attr("reduction", "mean") == "mean":
            y = y / y.dtype.type(max(y.size, 1))
        return [narrow(np.broadcast_to(y, call.outputs[0].logical_shape), call.outputs[0].dtype)]

    return values


for _name, (_loss, _gradient, _defaults) in _LOSSES.items():
    define(_name, "elementwise", "predict label", _infer, _values(_loss, _defaults))
    define(f"{_name}Grad", "elementwise", "predict label dout", _infer_grad, _grad_values(_gradient, _defaults))


def _bce(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """-w (t log x + (1 - t) log(1 - x)), the logarithms not below -100."""
    x, t, weight = [*arrays, None][:3]
    assert x is not None and t is not None
    a, b = widen(x), widen(t)
    with np.errstate(all="ignore"):
        y = (b - 1) * np.maximum(np.log1p(-a), -100) - b * np.maximum(np.log(a), -100)
    if weight is not None:
        y = y * widen(weight)
    return [narrow(_reduced(y, str(call.attr("reduction", "mean"))), call.outputs[0].dtype)]


def _bce_grad(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x, t, dout, weight = [*arrays, None][:4]
    assert x is not None and t is not None and dout is not None
    a, b = widen(x), widen(t)
    y = widen(dout) * (a - b) / np.maximum((1 - a) * a, a.dtype.type(1e-12))
    if weight is not None:
        y = y * widen(weight)
    if call.attr("reduction", "mean") == "mean":
        y = y / y.dtype.type(max(y.size, 1))
    return [narrow(np.broadcast_to(y, call.outputs[0].logical_shape), call.outputs[0].dtype)]


define("BinaryCrossEntropy", "elementwise", "x y weight?", _infer, _bce)
define("BinaryCrossEntropyGrad", "elementwise", "x y grad_output weight?", _infer_grad, _bce_grad)


# ---- negative log likelihood: x [N, C] or [N, C, d...]


def _nll_parts(x: TensorSpec, t: TensorSpec) -> tuple[int, ...]:
    shape = x.logical_shape
    wanted = () if len(shape) == 1 else (shape[0], *shape[2:])
    if t.logical_shape != wanted and not (len(shape) == 1 and t.size == 1):
        raise ShapeError(f"target is {text(t)}; expected {list(wanted)} for x {text(x)}")
    return t.logical_shape if len(shape) == 1 else wanted


def _infer_nll(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x, t = need(inputs, 0, "x"), need(inputs, 1, "target")
    shape = _nll_parts(x, t)
    return [TensorSpec(shape if attrs.get("reduction", "mean") == "none" else (), x.dtype), TensorSpec((), x.dtype)]


def _picked(x: Array, t: Array, weight: Array | None, ignored: int) -> tuple[Array, Array, Array]:
    """Rows with the classes last, targets with ignored ones at 0, weights of the targets (0 where ignored)."""
    rows = np.moveaxis(x, 1, -1).reshape(-1, x.shape[1]) if x.ndim > 1 else x.reshape(1, -1)
    flat = t.reshape(-1)
    kept = flat != ignored
    safe = np.where(kept, flat, 0)
    if safe.size and (int(safe.min()) < 0 or int(safe.max()) >= rows.shape[1]):
        raise ValueError(f"target {int(safe.max())} is out of bounds for {rows.shape[1]} classes")
    w = np.ones(len(flat), x.dtype) if weight is None else widen(weight)[safe]
    return rows, safe, np.where(kept, w, 0).astype(x.dtype)


def _nll(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x, t, weight = [*arrays, None][:3]
    assert x is not None and t is not None
    rows, safe, w = _picked(widen(x), t, weight, int(call.attr("ignore_index", -100)))
    y = -rows[np.arange(len(safe)), safe] * w
    how, total = str(call.attr("reduction", "mean")), w.sum(dtype=w.dtype)
    if how == "none":
        out = y.reshape(call.outputs[0].logical_shape)
        return [narrow(out, call.outputs[0].dtype), narrow(np.asarray(0.0), call.outputs[1].dtype)]
    with np.errstate(all="ignore"):
        out = y.sum(dtype=y.dtype) if how == "sum" else y.sum(dtype=y.dtype) / total
    return [narrow(np.asarray(out), call.outputs[0].dtype), narrow(np.asarray(total), call.outputs[1].dtype)]


define("NLLLoss", "gather", "x target weight?", _infer_nll, _nll)


def _infer_nll_grad(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    return [TensorSpec(x.logical_shape, x.dtype)]


def _nll_grad(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x, dy, t, weight, total = [*arrays, None, None][:5]
    assert x is not None and dy is not None and t is not None
    rows, safe, w = _picked(widen(x), t, weight, int(call.attr("ignore_index", -100)))
    how = str(call.attr("reduction", "mean"))
    g = -w * widen(dy).reshape(-1)
    if how == "mean":
        assert total is not None
        with np.errstate(all="ignore"):
            g = g / widen(total).reshape(())
        g = np.where(w == 0, 0, g)
    out = np.zeros_like(rows)
    out[np.arange(len(safe)), safe] = g
    if x.ndim > 1:
        out = np.moveaxis(out.reshape(x.shape[0], *x.shape[2:], x.shape[1]), -1, 1)
    return [narrow(np.ascontiguousarray(out).reshape(x.shape), call.outputs[0].dtype)]


define("NLLLossGrad", "gather", "x y_grad target weight? total_weight?", _infer_nll_grad, _nll_grad)
