"""The optimizers: those of torch with their fused or foreach form chosen, and `zero_grad` as torch_npu has it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch


class _Fused:
    """What scripts call on NPU optimizers beside the methods of torch."""

    is_npu_fused_optimizer = True

    def npu_fused_step(self, closure: Any = None) -> Any:
        return self.step(closure)  # type: ignore[attr-defined]

    def npu_fused_clip_grad_norm_(
        self, combined_grads_masks: Any = None, max_norm: float = 1.0, norm_type: float = 2.0
    ) -> Any:
        parameters = [p for g in self.param_groups for p in g["params"] if p.grad is not None]  # type: ignore[attr-defined]
        return torch.nn.utils.clip_grad_norm_(parameters, max_norm, norm_type)


@torch.no_grad()
def _step(self: Any, closure: Any = None) -> Any:
    """A step of optimizers that have one of a parameter: ``self._one(p, grad, group)``."""
    loss = None if closure is None else torch.enable_grad()(closure)()
    for group in self.param_groups:
        for p in group["params"]:
            if p.grad is not None:
                self._one(p, p.grad, group)
    return loss


class NpuFusedOptimizerBase(_Fused, torch.optim.Optimizer):
    """Base of optimizers that other libraries write for NPUs."""

    def __init__(self, params: Any, default: Any) -> None:
        super().__init__(params, default)

    def _of(self, kind: str) -> list[torch.Tensor]:
        found = [p for group in self.param_groups for p in group["params"] if p.grad is not None]
        return found if kind == "params" else [p.grad for p in found]

    def get_combined_params(self) -> list[torch.Tensor]:
        """Parameters that have gradients; here they stay apart."""
        return self._of("params")

    def get_combined_grads(self) -> list[torch.Tensor]:
        return self._of("grads")

    def clip_grad_norm_fused_(self, max_norm: float, norm_type: float = 2) -> torch.Tensor:
        return torch.nn.utils.clip_grad_norm_(self.get_combined_params(), max_norm, norm_type)


class NpuFusedBertAdam(NpuFusedOptimizerBase):
    """Adam of BERT: no correction of the moments' start, decay beside the step, gradients clipped, ``schedule``
    (``warmup_linear``, ``warmup_constant`` or ``warmup_cosine``) of the learning rate over ``t_total`` steps."""

    def __init__(self, params: Any, lr: float, warmup: float = -1, t_total: int = -1, schedule: str = "warmup_linear",
                 b1: float = 0.9, b2: float = 0.999, e: float = 1e-6, weight_decay: float = 0.01,
                 max_grad_norm: float = 1.0) -> None:  # fmt: skip
        if schedule not in _SCHEDULES:
            raise ValueError(f"Invalid schedule parameter: {schedule}; expected one of {', '.join(_SCHEDULES)}")
        if lr < 0:
            raise ValueError(f"Invalid learning rate: {lr} - should be >= 0.0")
        super().__init__(params, {"lr": lr, "warmup": warmup, "t_total": t_total, "schedule": schedule, "b1": b1,
                                  "b2": b2, "e": e, "weight_decay": weight_decay,
                                  "max_grad_norm": max_grad_norm})  # fmt: skip

    step = _step

    def _one(self, p: torch.Tensor, grad: torch.Tensor, group: dict[str, Any]) -> None:
        state = self.state[p]
        if not state:
            state.update(step=0, exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
        if group["max_grad_norm"] > 0:
            torch.nn.utils.clip_grad_norm_(p, group["max_grad_norm"])
        m, v = state["exp_avg"], state["exp_avg_sq"]
        m.mul_(group["b1"]).add_(grad, alpha=1 - group["b1"])
        v.mul_(group["b2"]).addcmul_(grad, grad, value=1 - group["b2"])
        update = m / (v.sqrt() + group["e"])
        if group["weight_decay"] > 0:
            update.add_(p, alpha=group["weight_decay"])
        rate = group["lr"]
        if group["t_total"] != -1:
            rate *= _SCHEDULES[group["schedule"]](state["step"] / group["t_total"], group["warmup"])
        p.sub_(update, alpha=rate)
        state["step"] += 1


_SCHEDULES: dict[str, Callable[[float, float], float]] = {
    "warmup_linear": lambda x, w: x / w if x < w else max((x - 1) / (w - 1), 0),
    "warmup_constant": lambda x, w: x / w if x < w else 1.0,
    "warmup_cosine": lambda x, w: x / w if x < w else 0.5 * (1 + math.cos(math.pi * x)),
}


class NpuFusedAdamW(_Fused, torch.optim.AdamW):
    def __init__(self, params: Any, lr: float = 1e-3, betas: Any = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 1e-2, amsgrad: bool = False) -> None:  # fmt: skip
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, fused=not amsgrad)


class NpuFusedAdam(_Fused, torch.optim.Adam):
    def __init__(self, params: Any, lr: float = 1e-3, betas: Any = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, amsgrad: bool = False) -> None:  # fmt: skip
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, foreach=True)


class NpuFusedSGD(_Fused, torch.optim.SGD):
    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
    ) -> None:
        super().__init__(params, lr, momentum, dampening, weight_decay, nesterov, foreach=True)


class NpuFusedRMSprop(_Fused, torch.optim.RMSprop):
    def __init__(self, params: Any, lr: float = 1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0,
                 momentum: float = 0, centered: bool = False) -> None:  # fmt: skip
        super().__init__(params, lr, alpha, eps, weight_decay, momentum, centered, foreach=True)


class NpuFusedAdadelta(_Fused, torch.optim.Adadelta):
    def __init__(
        self, params: Any, lr: float = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0
    ) -> None:
        super().__init__(params, lr, rho, eps, weight_decay, foreach=True)


class NpuFusedRMSpropTF(_Fused, torch.optim.Optimizer):
    """RMSprop as TensorFlow computes it: epsilon inside the root, the average starts at one."""

    def __init__(self, params: Any, lr: float = 1e-2, alpha: float = 0.9, eps: float = 1e-10, weight_decay: float = 0,
                 momentum: float = 0.0, centered: bool = False, decoupled_decay: bool = False,
                 lr_in_momentum: bool = True) -> None:  # fmt: skip
        super().__init__(params, {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay,
                                  "momentum": momentum, "centered": centered, "decoupled_decay": decoupled_decay,
                                  "lr_in_momentum": lr_in_momentum})  # fmt: skip

    step = _step

    def _one(self, p: torch.Tensor, grad: torch.Tensor, group: dict[str, Any]) -> None:
        state = self.state[p]
        if not state:
            state["square_avg"] = torch.ones_like(p)
            state["momentum_buffer"] = torch.zeros_like(p)
            state["grad_avg"] = torch.zeros_like(p)
        if group["weight_decay"]:
            if group["decoupled_decay"]:
                p.mul_(1 - group["lr"] * group["weight_decay"])
            else:
                grad = grad.add(p, alpha=group["weight_decay"])
        square, rate = state["square_avg"], 1 - group["alpha"]
        square.add_(grad.pow(2) - square, alpha=rate)
        average = square
        if group["centered"]:
            state["grad_avg"].add_(grad - state["grad_avg"], alpha=rate)
            average = square - state["grad_avg"].pow(2)
        step = grad / average.add(group["eps"]).sqrt()
        if group["momentum"] > 0:
            buffer = state["momentum_buffer"]
            if group["lr_in_momentum"]:
                buffer.mul_(group["momentum"]).add_(step, alpha=group["lr"])
                p.sub_(buffer)
            else:
                buffer.mul_(group["momentum"]).add_(step)
                p.sub_(buffer, alpha=group["lr"])
        else:
            p.sub_(step, alpha=group["lr"])


class NpuFusedLamb(_Fused, torch.optim.Optimizer):
    """LAMB: Adam's step scaled by the ratio of the norms of weight and step."""

    def __init__(self, params: Any, lr: float = 1e-3, betas: Any = (0.9, 0.999), eps: float = 1e-6,
                 weight_decay: float = 0, adam: bool = False, use_global_grad_norm: bool = False) -> None:  # fmt: skip
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "adam": adam})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(p), torch.zeros_like(p)
                m, v = state["exp_avg"], state["exp_avg_sq"]
                m.mul_(beta1).add_(p.grad, alpha=1 - beta1)
                v.mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                step = m / v.sqrt().add(group["eps"])
                if group["weight_decay"]:
                    step.add_(p, alpha=group["weight_decay"])
                weight, size = p.norm().clamp(0, 10), step.norm()
                ratio = torch.where((weight == 0) | (size == 0), torch.ones_like(weight), weight / size)
                p.sub_(step * (ratio if not group["adam"] else 1), alpha=group["lr"])
        return loss


class NpuFusedAdamP(NpuFusedAdam):
    """AdamP without its projection for one-dimensional weights: Adam's step."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: Any = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        delta: float = 0.1,
        wd_ratio: float = 0.1,
        nesterov: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay)
