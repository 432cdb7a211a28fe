"""Fused steps of optimizers: one operator a parameter; the check of gradients that GradScaler scaled."""

from __future__ import annotations

from typing import Any

import torch

from torch_npu.dispatch.plan import FLOATS, NoPlan, Plan, T
from torch_npu.dispatch.table import row


def _steps(into_gradient: bool) -> Any:
    """AdamW's step of every parameter. ``into_gradient``: the decay is added to the gradient before (Adam), else the
    operator takes it off the parameter."""

    def build(plan: Plan, self: list[T], grads: list[T], exp_avgs: list[T], exp_avg_sqs: list[T],
              max_exp_avg_sqs: list[T], state_steps: list[T], lr: Any, beta1: float, beta2: float,
              weight_decay: float, eps: float, amsgrad: bool, maximize: bool, grad_scale: Any = None,
              found_inf: Any = None, out: Any = ()) -> Any:  # fmt: skip
        if amsgrad or grad_scale is not None or found_inf is not None or not isinstance(lr, float):
            raise NoPlan("options")
        for var, grad, m, v, step in zip(self, grads, exp_avgs, exp_avg_sqs, state_steps, strict=True):
            if var.dtype not in FLOATS or not all(t.is_contiguous for t in (var, grad, m, v)):
                raise NoPlan("types")
            used, off = grad, weight_decay
            if into_gradient and weight_decay:
                factor = -weight_decay if maximize else weight_decay
                used, off = plan.op("Axpy", [grad, var], loose=("alpha",), alpha=factor), 0.0
            results = plan.op(
                "ApplyAdamWV2", [var, m, v, used, step], lr=lr, beta1=beta1, beta2=beta2, weight_decay=off,
                eps=eps, amsgrad=False, maximize=bool(maximize), loose=("lr",),
            )  # fmt: skip
            for value, target in zip(results, (var, m, v), strict=True):
                plan.store(value, target)
        return []

    return build


row("_fused_adamw", writes=True, overloads="")(_steps(False))
row("_fused_adam", writes=True, overloads="")(_steps(True))

_MOST = 256  # tensors that one operator takes


@row("_amp_foreach_non_finite_check_and_unscale", writes=True)
def unscale(plan: Plan, self: list[T], found_inf: T, inv_scale: T, out: Any = ()) -> Any:
    if any(g.dtype not in FLOATS or g.dtype == torch.float64 or not g.is_contiguous for g in self):
        raise NoPlan("types")
    for first in range(0, len(self), _MOST):
        grads = self[first : first + _MOST]
        results = plan.op("ForeachNonFiniteCheckAndUnscale", [*grads, found_inf, inv_scale])
        for value, target in zip(results, [*grads, found_inf], strict=True):
            value.place = target.place
    return []


@row("_amp_update_scale", writes=True)
def update_scale(plan: Plan, self: T, growth_tracker: T, found_inf: T, scale_growth_factor: float,
                 scale_backoff_factor: float, growth_interval: int) -> Any:  # fmt: skip
    results = plan.op(
        "AmpUpdateScale", [self, growth_tracker, found_inf], growth_factor=scale_growth_factor,
        backoff_factor=scale_backoff_factor, growth_interval=growth_interval,
    )  # fmt: skip
    for value, target in zip(results, (self, growth_tracker), strict=True):
        value.place = target.place
    return [self]
