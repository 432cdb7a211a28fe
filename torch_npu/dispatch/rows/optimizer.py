"""Fused steps of optimizers: one operator a parameter."""

from __future__ import annotations

from typing import Any

from torch_npu.dispatch.plan import FLOATS, NoPlan, Plan, T
from torch_npu.dispatch.table import row


@row("_fused_adamw", writes=True, overloads="")
def fused_adamw(plan: Plan, self: list[T], grads: list[T], exp_avgs: list[T], exp_avg_sqs: list[T],
                max_exp_avg_sqs: list[T], state_steps: list[T], lr: Any, beta1: float, beta2: float,
                weight_decay: float, eps: float, amsgrad: bool, maximize: bool, grad_scale: Any = None,
                found_inf: Any = None, out: Any = ()) -> Any:  # fmt: skip
    if amsgrad or grad_scale is not None or found_inf is not None or not isinstance(lr, float):
        raise NoPlan("options")
    rows_ = zip(self, grads, exp_avgs, exp_avg_sqs, state_steps, strict=True)
    for var, grad, m, v, step in rows_:
        if var.dtype not in FLOATS or not all(t.is_contiguous for t in (var, grad, m, v)):
            raise NoPlan("types")
        results = plan.op(
            "ApplyAdamWV2", [var, m, v, grad, step], lr=lr, beta1=beta1, beta2=beta2, weight_decay=weight_decay,
            eps=eps, amsgrad=False, maximize=bool(maximize), loose=("lr",),
        )  # fmt: skip
        for value, target in zip(results, (var, m, v), strict=True):
            plan.store(value, target)
    return []
