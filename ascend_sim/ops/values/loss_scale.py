"""Loss scaling: gradients are checked and scaled back in one operator, the scale is renewed in another.

Behaviour: the public documentation of ForeachNonFiniteCheckAndUnscale (hicann/ops-nn) and AmpUpdateScale.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascend_sim.ops.registry import Array
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, like, need, text
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._numeric import narrow, widen

MOST = 256  # tensors of one call


def _one(spec: TensorSpec, name: str) -> TensorSpec:
    if spec.size != 1:
        raise ShapeError(f"{name} is {text(spec)}; expected one element")
    return spec


def _infer_check(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    grads = len(inputs) - 2
    if not 1 <= grads <= MOST:
        raise ShapeError(f"scaled_grads holds {max(grads, 0)} tensors; expected 1 to {MOST}")
    specs = [need(inputs, i, f"scaled_grads[{i}]") for i in range(grads)]
    for i, spec in enumerate(specs):
        if spec.dtype not in ("float32", "float16", "bfloat16") or spec.dtype != specs[0].dtype:
            raise ShapeError(f"scaled_grads[{i}] is {text(spec)}; expected float32, float16 or bfloat16 as all others")
    found = _one(need(inputs, grads, "found_inf"), "found_inf")
    _one(need(inputs, grads + 1, "inv_scale"), "inv_scale")
    return [*(like(s) for s in specs), like(found)]


def _check(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    *grads, found, inverse = (widen(a) for a in arrays if a is not None)
    finite = all(bool(np.isfinite(g).all()) for g in grads)
    with np.errstate(all="ignore"):
        results = [g * inverse.reshape(()) for g in grads]
    results.append(found if finite else np.ones_like(found))
    return [narrow(r, s.dtype) for r, s in zip(results, call.outputs, strict=True)]


define(
    "ForeachNonFiniteCheckAndUnscale", "elementwise", "scaled_grads* found_inf inv_scale", _infer_check, _check
)  # fmt: skip


def _infer_update(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    names = ("current_scale", "growth_tracker", "found_inf")
    scale, tracker, _ = (_one(need(inputs, i, name), name) for i, name in enumerate(names))
    if tracker.dtype != "int32":
        raise ShapeError(f"growth_tracker is {text(tracker)}; expected int32")
    return [like(scale), like(tracker)]


def _update(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    scale, tracker, found = (a for a in arrays if a is not None)
    if float(found.reshape(())) > 0:
        return [narrow(widen(scale) * np.float32(call.attr("backoff_factor", 0.5)), scale.dtype.name),
                np.zeros_like(tracker)]  # fmt: skip
    steps = int(tracker.reshape(())) + 1
    if steps < int(call.attr("growth_interval", 2000)):
        return [scale.copy(), np.full_like(tracker, steps)]
    with np.errstate(over="ignore"):
        grown = widen(scale) * np.float32(call.attr("growth_factor", 2.0))
    return [narrow(grown, scale.dtype.name) if np.isfinite(grown).all() else scale.copy(), np.zeros_like(tracker)]


define("AmpUpdateScale", "elementwise", "current_scale growth_tracker found_inf", _infer_update, _update)
