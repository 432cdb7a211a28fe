"""Steps of optimizers. Outputs are the updated variables; on the device they overwrite the inputs.

Formulas are those of the operators' public prototypes (Ascend IR), in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ascend_sim.ops.registry import Array
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, like, need, text
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._numeric import narrow, widen


def _infer(tensors: Sequence[tuple[int, str]], scalars: Sequence[tuple[int, str]], outputs: Sequence[int]) -> Any:
    """``tensors`` have the shape of the first, ``scalars`` one element; the outputs are like inputs ``outputs``."""

    def infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
        first = need(inputs, *tensors[0])
        for index, name in tensors[1:]:
            spec = need(inputs, index, name)
            if spec.logical_shape != first.logical_shape:
                raise ShapeError(f"{name} is {text(spec)}; expected the shape of {tensors[0][1]} {text(first)}")
        for index, name in scalars:
            spec = need(inputs, index, name)
            if spec.size != 1:
                raise ShapeError(f"{name} is {text(spec)}; expected one element")
        return [like(need(inputs, i, "variable")) for i in outputs]

    return infer


Step = Callable[[list[Array], OpCall], Sequence[Array]]


def _values(step: Step) -> Any:
    def values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
        wide = [np.zeros(()) if a is None else widen(a) for a in arrays]
        wide = [a.reshape(()) if a.size == 1 else a for a in wide]
        with np.errstate(all="ignore"):
            results = step(wide, call)
        specs = zip(results, call.outputs, strict=True)
        return [narrow(np.asarray(r).reshape(s.logical_shape), s.dtype) for r, s in specs]

    return values


def _adam_w(a: list[Array], call: OpCall) -> Sequence[Array]:
    var, m, v, power1, power2, lr, decay, beta1, beta2, epsilon, grad = a[:11]
    grad = -grad if call.attr("maximize", False) else grad
    return decoupled(var, m, v, grad, (power1 * beta1, power2 * beta2), (lr, decay, beta1, beta2, epsilon))


def decoupled(
    var: Array, m: Array, v: Array, grad: Array, powers: tuple[Any, Any], p: Sequence[Any]
) -> tuple[Array, Array, Array]:
    """AdamW with running ``powers`` of the betas; ``p`` is lr, decay, beta1, beta2, epsilon."""
    lr, decay, beta1, beta2, epsilon = p
    m = m * beta1 + grad * (1 - beta1)
    v = v * beta2 + grad * grad * (1 - beta2)
    deviation = np.sqrt(v / (1 - powers[1])) + epsilon
    return var * (1 - lr * decay) - lr * m / (1 - powers[0]) / deviation, m, v


_ADAM_W = ("beta1_power", "beta2_power", "lr", "weight_decay", "beta1", "beta2", "epsilon")
define(
    "ApplyAdamW", "elementwise", f"var m v {' '.join(_ADAM_W)} grad max_grad_norm?",
    _infer([(0, "var"), (1, "m"), (2, "v"), (10, "grad")], [(3 + i, n) for i, n in enumerate(_ADAM_W)], (0, 1, 2)),
    _values(_adam_w),
)  # fmt: skip


ADAM_W_V2 = (("lr", 0.1), ("weight_decay", 0.1), ("beta1", 0.1), ("beta2", 0.1), ("eps", 0.1))


def _adam_w_v2(a: list[Array], call: OpCall) -> Sequence[Array]:
    """As ApplyAdamW, with the parameters as attributes and the number of the step as input."""
    var, m, v, grad, step = a[:5]
    p = [np.float32(call.attr(n, d)) for n, d in ADAM_W_V2]
    grad = -grad if call.attr("maximize", False) else grad
    return decoupled(var, m, v, grad, (p[2] ** step, p[3] ** step), p)


define(
    "ApplyAdamWV2", "elementwise", "var m v grad step max_grad_norm?",
    _infer([(0, "var"), (1, "m"), (2, "v"), (3, "grad")], [(4, "step")], (0, 1, 2)), _values(_adam_w_v2),
)  # fmt: skip


def _adam(a: list[Array], call: OpCall) -> Sequence[Array]:
    var, m, v, power1, power2, lr, beta1, beta2, epsilon, grad = a[:10]
    rate = lr * np.sqrt(1 - power2) / (1 - power1)
    m = m + (grad - m) * (1 - beta1)
    v = v + (grad * grad - v) * (1 - beta2)
    step = m * beta1 + grad * (1 - beta1) if call.attr("use_nesterov", False) else m
    return (var - rate * step / (np.sqrt(v) + epsilon), m, v)[: len(call.outputs)]


_ADAM = ("beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon")
for _name, _outputs in (("ApplyAdam", (0,)), ("ApplyAdamD", (0, 1, 2))):
    define(
        _name, "elementwise", f"var m v {' '.join(_ADAM)} grad",
        _infer([(0, "var"), (1, "m"), (2, "v"), (9, "grad")], [(3 + i, n) for i, n in enumerate(_ADAM)], _outputs),
        _values(_adam),
    )  # fmt: skip


def _momentum(a: list[Array], call: OpCall) -> Sequence[Array]:
    var, accum, lr, grad, momentum = a[:5]
    accum = accum * momentum + grad
    step = grad + accum * momentum if call.attr("use_nesterov", False) else accum
    return (var - step * lr, accum)[: len(call.outputs)]


for _name, _variables in (("ApplyMomentum", (0,)), ("ApplyMomentumD", (0, 1))):
    define(
        _name, "elementwise", "var accum lr grad momentum",
        _infer([(0, "var"), (1, "accum"), (3, "grad")], [(2, "lr"), (4, "momentum")], _variables), _values(_momentum),
    )  # fmt: skip


def _descent(a: list[Array], call: OpCall) -> Sequence[Array]:
    var, alpha, delta = a[:3]
    return (var - alpha * delta,)


define(
    "ApplyGradientDescent", "elementwise", "var alpha delta",
    _infer([(0, "var"), (2, "delta")], [(1, "alpha")], (0,)), _values(_descent),
)  # fmt: skip
