"""Random tensors: drawn from the device's generator at once, charged as the operators of the chip."""

from __future__ import annotations

from typing import Any

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
