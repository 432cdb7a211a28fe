"""Recurrent networks. CommonLSTM, CommonGRU and CommonRNN have the ONNX inputs; DynamicRNN and DynamicGRUV2 GE's own.

State is kept in float32 from step to step; each output is rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ascend_sim.ops.registry import Array, Infer
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, need, optional, rank, text
from ascend_sim.ops.values import _functions as fn
from ascend_sim.ops.values._cache import prepared
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._numeric import float32, narrow

_ACTIVATIONS: dict[str, Callable[..., Array]] = {
    "sigmoid": fn.sigmoid,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "hardsigmoid": lambda x, alpha=0.2, beta=0.5: fn.hard_sigmoid(x, alpha, beta),
    "leakyrelu": lambda x, alpha=0.01: fn.leaky_relu(x, alpha),
    "elu": lambda x, alpha=1.0: fn.elu(x, alpha),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "softplus": fn.softplus,
    "affine": lambda x, alpha=1.0, beta=0.0: x * np.float32(alpha) + np.float32(beta),
}
Cell = Callable[[Array, list[Array]], list[Array]]


def _wide(w: Array, key: str, make: Callable[[Array], Array]) -> Array:
    return prepared(w, ("recurrent", key), lambda a: np.ascontiguousarray(make(float32(a))))


def _activate(function: Callable[..., Array], parameters: dict[str, float], clip: float, x: Array) -> Array:
    return function(np.clip(x, -clip, clip) if clip else x, **parameters)


def _functions(call: OpCall, direction: int, defaults: Sequence[str]) -> list[Callable[[Array], Array]]:
    """Activations of one direction, with clipping in front and their parameters bound."""
    n = len(defaults)
    names = [str(v).lower() for v in call.attr("activations", ())][direction * n :][:n] or list(defaults)
    alpha, beta = call.attr("activation_alpha", ()), call.attr("activation_beta", ())
    clip = float(call.attr("clip", 0.0))
    out: list[Callable[[Array], Array]] = []
    for i, name in enumerate(names):
        if name not in _ACTIVATIONS:
            raise ShapeError(f"attribute activations has {name!r}; expected one of {', '.join(_ACTIVATIONS)}")
        parameters = {}
        if len(alpha) > direction * n + i:
            parameters["alpha"] = float(alpha[direction * n + i])
        if len(beta) > direction * n + i:
            parameters["beta"] = float(beta[direction * n + i])
        wanted = {"hardsigmoid": 2, "affine": 2, "leakyrelu": 1, "elu": 1}.get(name, 0)
        bound = dict(list(parameters.items())[:wanted])
        out.append(partial(_activate, _ACTIVATIONS[name], bound, clip))
    return out


def _scan(cell: Cell, xs: Array, state: list[Array], lengths: Array | None, reverse: bool) -> tuple[Array, list[Array]]:
    """Run ``cell`` over ``xs`` [T, B, gates] (input part of the gates); beyond a sequence's length outputs are zero
    and its state stands still. A reverse scan of a shorter sequence starts at its own end."""
    steps, batch = xs.shape[:2]
    hidden = state[0].shape[-1]
    ys = np.zeros((steps, batch, hidden), np.float32)
    for t in range(steps - 1, -1, -1) if reverse else range(steps):
        new = cell(xs[t], state)
        if lengths is None:
            state = new
            ys[t] = state[0]
        else:
            live = (t < lengths)[:, None]
            state = [np.where(live, n, s) for n, s in zip(new, state, strict=True)]
            ys[t] = np.where(live, new[0], 0)
    return ys, state


# ---- the ONNX-shaped ones: x [T, B, I], w [D, gates * H, I], r [D, gates * H, H], b [D, 2 * gates * H]


def _infer_common(gates: int, states: int) -> Infer:
    def infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
        x, w, r = (need(inputs, i, n) for i, n in enumerate(("x", "w", "r")))
        steps, batch, width = rank(x, "x", 3, 3)
        if attrs.get("layout", 0):
            steps, batch = batch, steps
        directions, rows, columns = rank(w, "w", 3, 3)
        hidden = int(attrs.get("hidden_size", rows // gates))
        wanted = 2 if str(attrs.get("direction", "forward")) == "bidirectional" else 1
        if (directions, rows, columns) != (wanted, gates * hidden, width):
            raise ShapeError(f"w is {text(w)}; expected [{wanted},{gates * hidden},{width}] for x {text(x)}")
        if r.logical_shape != (wanted, gates * hidden, hidden):
            raise ShapeError(f"r is {text(r)}; expected [{wanted},{gates * hidden},{hidden}]")
        b = optional(inputs, 3)
        if b is not None and b.logical_shape != (wanted, 2 * gates * hidden):
            raise ShapeError(f"b is {text(b)}; expected [{wanted},{2 * gates * hidden}]")
        y, last = (steps, wanted, batch, hidden), (wanted, batch, hidden)
        if attrs.get("layout", 0):
            y, last = (batch, steps, wanted, hidden), (batch, wanted, hidden)
        return [TensorSpec(y, x.dtype), *[TensorSpec(last, x.dtype)] * states]

    return infer


def _lstm_cell(call: OpCall, d: int, r: Array, peepholes: Array | None) -> Cell:
    f, g, h = _functions(call, d, ("sigmoid", "tanh", "tanh"))
    hidden = r.shape[0]
    pi, po, pf = (None,) * 3 if peepholes is None else np.split(peepholes, 3)

    def cell(x: Array, state: list[Array]) -> list[Array]:
        gates = x + state[0] @ r
        i, o, fg, c = (gates[:, k * hidden : (k + 1) * hidden] for k in range(4))
        old = state[1]
        if pi is not None and pf is not None:
            i, fg = i + pi * old, fg + pf * old
        keep = f(i)
        forget = 1 - keep if call.attr("input_forget", 0) else f(fg)
        new = forget * old + keep * g(c)
        out = f(o if po is None else o + po * new)
        return [out * h(new), new]

    return cell


def _gru_cell(call: OpCall, d: int, r: Array, r_bias: Array) -> Cell:
    f, g = _functions(call, d, ("sigmoid", "tanh"))
    hidden = r.shape[0]
    linear = bool(call.attr("linear_before_reset", 0))
    rz, rh = np.ascontiguousarray(r[:, : 2 * hidden]), np.ascontiguousarray(r[:, 2 * hidden :])
    bz, bh = r_bias[: 2 * hidden], r_bias[2 * hidden :]

    def cell(x: Array, state: list[Array]) -> list[Array]:
        h = state[0]
        zr = f(x[:, : 2 * hidden] + h @ rz + bz)
        z, reset = zr[:, :hidden], zr[:, hidden:]
        n = x[:, 2 * hidden :] + (reset * (h @ rh + bh) if linear else (reset * h) @ rh + bh)
        return [(1 - z) * g(n) + z * h]

    return cell


def _rnn_cell(call: OpCall, d: int, r: Array) -> Cell:
    (f,) = _functions(call, d, ("tanh",))
    return lambda x, state: [f(x + state[0] @ r)]


def _common(kind: str, gates: int, states: int) -> Any:
    def values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
        x, w, r, b, lengths, h0, c0, p = [*arrays, *[None] * 8][:8]
        assert x is not None and w is not None and r is not None
        batch_first = bool(call.attr("layout", 0))
        wide = float32(x)
        if batch_first:
            wide = wide.swapaxes(0, 1)
            h0, c0 = (None if s is None else s.swapaxes(0, 1) for s in (h0, c0))
        steps, batch, width = wide.shape
        hidden = r.shape[-1]
        ws = _wide(w, "w", lambda a: a.swapaxes(1, 2))
        rs = _wide(r, "r", lambda a: a.swapaxes(1, 2))
        bias = np.zeros((w.shape[0], 2 * gates * hidden), np.float32) if b is None else float32(b)
        direction = str(call.attr("direction", "forward"))
        ys, lasts = [], []
        for d in range(w.shape[0]):
            bw, br = bias[d, : gates * hidden], bias[d, gates * hidden :]
            xs = (wide.reshape(-1, width) @ ws[d] + bw).reshape(steps, batch, -1)
            state = [np.zeros((batch, hidden), np.float32) if h0 is None else float32(h0[d])]
            if kind == "LSTM":
                state.append(np.zeros((batch, hidden), np.float32) if c0 is None else float32(c0[d]))
                cell = _lstm_cell(call, d, rs[d], None if p is None else float32(p[d]))
                xs = xs + br
            elif kind == "GRU":
                cell = _gru_cell(call, d, rs[d], br)
            else:
                cell = _rnn_cell(call, d, rs[d])
                xs = xs + br
            y, state = _scan(cell, xs, state, lengths, direction == "reverse" or d == 1)
            ys.append(y)
            lasts.append(state)
        results = [np.stack(ys, 1), *(np.stack([s[k] for s in lasts]) for k in range(states))]
        if batch_first:
            results = [results[0].transpose(2, 0, 1, 3), *(s.swapaxes(0, 1) for s in results[1:])]
        return [narrow(v, o.dtype) for v, o in zip(results, call.outputs, strict=False)]

    return values


define(
    "CommonLSTM",
    "recurrent",
    "x w r b? sequence_lens? initial_h? initial_c? p?",
    _infer_common(4, 2),
    _common("LSTM", 4, 2),
)
define("CommonGRU", "recurrent", "x w r b? sequence_lens? initial_h?", _infer_common(3, 1), _common("GRU", 3, 1))
define("CommonRNN", "recurrent", "x w r b? sequence_lens? initial_h?", _infer_common(1, 1), _common("RNN", 1, 1))


# ---- GE's own: gates side by side, weights [I + H, 4 H] (DynamicRNN), [I, 3 H] and [H, 3 H] (DynamicGRUV2)


def _infer_dynamic_rnn(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x, w, b = (need(inputs, i, n) for i, n in enumerate(("x", "w", "b")))
    steps, batch, width = rank(x, "x", 3, 3)
    rows, columns = rank(w, "w", 2, 2)
    hidden = columns // 4
    if rows != width + hidden or columns % 4:
        raise ShapeError(f"w is {text(w)}; expected [{width} + H, 4 H] for x {text(x)}")
    if b.size != columns:
        raise ShapeError(f"b is {text(b)}; expected [{columns}]")
    if str(attrs.get("cell_type", "LSTM")) != "LSTM":
        raise ShapeError(f"attribute cell_type is {attrs['cell_type']!r}; expected LSTM")
    return [TensorSpec((steps, batch, hidden), x.dtype)] * 8


def _dynamic_rnn(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """y, output_h, output_c, i, j, f, o, tanhc: every one for all steps."""
    x, w, b, lengths, h0, c0 = [*arrays, *[None] * 4][:6]
    assert x is not None and w is not None and b is not None
    steps, batch, width = x.shape
    hidden = w.shape[1] // 4
    wide = _wide(w, "dynamic", lambda a: a)
    order = str(call.attr("gate_order", "ijfo"))
    act = _ACTIVATIONS[str(call.attr("activation", "tanh")).lower()]
    xs = (float32(x).reshape(-1, width) @ wide[:width] + float32(b)).reshape(steps, batch, -1)
    record = np.zeros((8, steps, batch, hidden), np.float32)
    h = np.zeros((batch, hidden), np.float32) if h0 is None else float32(h0).reshape(batch, hidden)
    c = np.zeros((batch, hidden), np.float32) if c0 is None else float32(c0).reshape(batch, hidden)
    reverse = str(call.attr("direction", "UNIDIRECTIONAL")) == "REDIRECTIONAL"
    for t in range(steps - 1, -1, -1) if reverse else range(steps):
        gates = xs[t] + h @ wide[width:]
        part = {name: gates[:, k * hidden : (k + 1) * hidden] for k, name in enumerate(order)}
        i, f, o = fn.sigmoid(part["i"]), fn.sigmoid(part["f"] + np.float32(call.attr("forget_bias", 0.0))), part["o"]
        j, o = act(part["j"]), fn.sigmoid(o)
        new_c = f * c + i * j
        tanhc = act(new_c)
        new_h = o * tanhc
        if lengths is not None and lengths.ndim == 1:
            live = (t < lengths)[:, None]
            new_h, new_c = np.where(live, new_h, h), np.where(live, new_c, c)
        h, c = new_h, new_c
        record[:, t] = (h, h, c, i, j, f, o, tanhc)
    return [narrow(v, s.dtype) for v, s in zip(record, call.outputs, strict=False)]


define("DynamicRNN", "recurrent", "x w b seq_length? init_h? init_c?", _infer_dynamic_rnn, _dynamic_rnn)


def _infer_dynamic_gru(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x, wi, wh = (need(inputs, i, n) for i, n in enumerate(("x", "weight_input", "weight_hidden")))
    steps, batch, width = rank(x, "x", 3, 3)
    hidden = rank(wh, "weight_hidden", 2, 2)[0]
    if wh.logical_shape != (hidden, 3 * hidden) or wi.logical_shape != (width, 3 * hidden):
        raise ShapeError(
            f"weight_input is {text(wi)} and weight_hidden {text(wh)}; expected [{width},3 H] and [H,3 H] "
            f"for x {text(x)}"
        )
    return [TensorSpec((steps, batch, hidden), x.dtype)] * 6


def _dynamic_gru(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """y, output_h, update, reset, new, hidden_new."""
    x, wi, wh, bi, bh, lengths, h0 = [*arrays, *[None] * 4][:7]
    assert x is not None and wi is not None and wh is not None
    steps, batch, width = x.shape
    hidden = wh.shape[0]
    order = str(call.attr("gate_order", "zrh"))
    reset_after = bool(call.attr("reset_after", True))
    w_in, w_hidden = _wide(wi, "input", lambda a: a), _wide(wh, "hidden", lambda a: a)
    b_in = np.zeros(3 * hidden, np.float32) if bi is None else float32(bi)
    b_hidden = np.zeros(3 * hidden, np.float32) if bh is None else float32(bh)
    xs = (float32(x).reshape(-1, width) @ w_in + b_in).reshape(steps, batch, -1)
    cut = {name: slice(k * hidden, (k + 1) * hidden) for k, name in enumerate(order)}
    h = np.zeros((batch, hidden), np.float32) if h0 is None else float32(h0).reshape(batch, hidden)
    record = np.zeros((6, steps, batch, hidden), np.float32)
    for t in range(steps):
        rec = h @ w_hidden + b_hidden
        z = fn.sigmoid(xs[t][:, cut["z"]] + rec[:, cut["z"]])
        r = fn.sigmoid(xs[t][:, cut["r"]] + rec[:, cut["r"]])
        hidden_new = rec[:, cut["h"]] if reset_after else (r * h) @ w_hidden[:, cut["h"]] + b_hidden[cut["h"]]
        n = np.tanh(xs[t][:, cut["h"]] + (r * hidden_new if reset_after else hidden_new))
        new = (1 - z) * n + z * h
        if lengths is not None and lengths.ndim == 1:
            new = np.where((t < lengths)[:, None], new, h)
        h = new
        record[:, t] = (h, h, z, r, n, hidden_new)
    return [narrow(v, s.dtype) for v, s in zip(record, call.outputs, strict=False)]


define(
    "DynamicGRUV2",
    "recurrent",
    "x weight_input weight_hidden bias_input? bias_hidden? seq_length? init_h?",
    _infer_dynamic_gru,
    _dynamic_gru,
)
