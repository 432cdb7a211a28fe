"""One step of LSTM and GRU on gates that matrix products have made, and their gradients (gate order of torch)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascend_sim.ops.registry import Array
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import like, need
from ascend_sim.ops.values import _functions as fn
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._numeric import narrow, widen


def _total(parts: Sequence[Array | None]) -> Array:
    result = np.zeros((), np.float32)
    for p in parts:
        if p is not None:
            result = result + widen(p)
    return result


def _infer_lstm(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    gates, cx = need(inputs, 0, "input_gates"), need(inputs, 2, "cx")
    return [like(cx), like(cx), like(gates)]


def _lstm(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """h, c and the activated gates i, f, g, o."""
    a, b, cx, bias_a, bias_b = [*arrays, None, None][:5]
    assert cx is not None
    i, f, g, o = np.split(_total((a, b, bias_a, bias_b)), 4, axis=1)
    i, f, g, o = fn.sigmoid(i), fn.sigmoid(f), np.tanh(g), fn.sigmoid(o)
    c = f * widen(cx) + i * g
    results = (o * np.tanh(c), c, np.concatenate((i, f, g, o), axis=1))
    return [narrow(r, s.dtype) for r, s in zip(results, call.outputs, strict=True)]


define("ThnnFusedLstmCell", "elementwise", "input_gates hidden_gates cx input_bias? hidden_bias?", _infer_lstm, _lstm)


def _infer_lstm_grad(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    cx, workspace = need(inputs, 2, "cx"), need(inputs, 4, "workspace")
    return [like(workspace), like(cx), TensorSpec(workspace.logical_shape[1:], workspace.dtype)]


def _lstm_grad(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """Gradients of the gates, of c and (summed over the batch) of the biases."""
    grad_h, grad_c, cx, cy, workspace = arrays[:5]
    assert cx is not None and cy is not None and workspace is not None
    i, f, g, o = np.split(widen(workspace), 4, axis=1)
    t = np.tanh(widen(cy))
    h = np.zeros_like(t) if grad_h is None else widen(grad_h)
    c = h * o * (1 - t * t) + (0 if grad_c is None else widen(grad_c))
    gates = np.concatenate(
        (c * g * i * (1 - i), c * widen(cx) * f * (1 - f), c * i * (1 - g * g), h * t * o * (1 - o)), axis=1
    )
    results = (gates, c * f, gates.sum(axis=0))
    return [narrow(r, s.dtype) for r, s in zip(results, call.outputs, strict=True)]


define("ThnnFusedLstmCellGrad", "elementwise", "grad_hy? grad_cy? cx cy workspace", _infer_lstm_grad, _lstm_grad)


def _infer_gru(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    hx = need(inputs, 2, "hx")
    n, h = hx.logical_shape
    return [like(hx), TensorSpec((n, 5 * h), hx.dtype)]


def _gru(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """h and what the gradient needs: r, z, n, hx, the hidden part of n."""
    a, b, hx, bias_a, bias_b = [*arrays, None, None][:5]
    assert hx is not None
    x, h = _total((a, bias_a)), _total((b, bias_b))
    xr, xz, xn = np.split(x, 3, axis=1)
    hr, hz, hn = np.split(h, 3, axis=1)
    r, z = fn.sigmoid(xr + hr), fn.sigmoid(xz + hz)
    n = np.tanh(xn + r * hn)
    state = widen(hx)
    results = (n + z * (state - n), np.concatenate((r, z, n, state, hn), axis=1))
    return [narrow(v, s.dtype) for v, s in zip(results, call.outputs, strict=True)]


define("ThnnFusedGruCell", "elementwise", "input_gates hidden_gates hx input_bias? hidden_bias?", _infer_gru, _gru)


def _infer_gru_grad(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    grad = need(inputs, 0, "grad_hy")
    n, h = grad.logical_shape
    gates, bias = TensorSpec((n, 3 * h), grad.dtype), TensorSpec((3 * h,), grad.dtype)
    return [gates, gates, like(grad), bias, bias]


def _gru_grad(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    grad, workspace = arrays[:2]
    assert grad is not None and workspace is not None
    g = widen(grad)
    r, z, n, state, hn = np.split(widen(workspace), 5, axis=1)
    dz = g * (state - n) * z * (1 - z)
    dn = g * (1 - z) * (1 - n * n)
    dr = dn * hn * r * (1 - r)
    x, h = np.concatenate((dr, dz, dn), axis=1), np.concatenate((dr, dz, dn * r), axis=1)
    results = (x, h, g * z, x.sum(axis=0), h.sum(axis=0))
    return [narrow(v, s.dtype) for v, s in zip(results, call.outputs, strict=True)]


define("ThnnFusedGruCellGrad", "elementwise", "grad_hy workspace", _infer_gru_grad, _gru_grad)
