"""Random tensors and dropout: drawn from the device's generator at once, charged as the operators of the chip."""

from __future__ import annotations

from typing import Any

import torch

from torch_npu.dispatch.plan import REALS, NoPlan, Plan, T
from torch_npu.dispatch.table import row


def _drawn(op_type: str) -> Any:
    def build(plan: Plan, self: Any = None, out: Any = (), **_: Any) -> Any:
        target = out[0] if out else self
        if not isinstance(target, T) or target.dtype not in REALS or not target.is_contiguous:
            raise NoPlan("target")
        if target.numel:
            plan.charge(op_type, target)
        return [target]

    return build


for _names, _type in (
    (("normal", "log_normal"), "StatelessRandomNormalV3"),
    (("uniform", "exponential", "cauchy", "geometric"), "StatelessRandomUniformV3"),
    (("random",), "StatelessRandintV2"),
    (("bernoulli",), "StatelessBernoulliV2"),
    (("randperm",), "StatelessRandperm"),
):  # fmt: skip
    row(*_names, takes_out=True, writes=True)(_drawn(_type))


@row("native_dropout_backward")
def dropout_backward(plan: Plan, grad_output: T, mask: T, scale: float) -> Any:
    """Dropout with a given mask: the forward step of a drawn mask, too."""
    if grad_output.dtype not in (torch.float32, torch.float16, torch.bfloat16) or mask.dtype != torch.bool:
        raise NoPlan("types")
    return plan.op("DropOutDoMaskV3", [grad_output, mask], keep_prob=1.0 / scale if scale else 0.0)
