"""FusedElementwise: a chain of elementwise steps that the graph fused into one kernel (attribute ``steps``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ascend_sim import asc
from ascend_sim.ops.registry import NoKernel, kernel
from ascend_sim.ops.schema import OpCall

from ._lower import Step
from ._map import Operand, plan_map
from ._program import Builder, Reg
from .elementwise import chain

if TYPE_CHECKING:
    from ascend_sim.soc import Soc


@kernel("FusedElementwise")
def plan_fused(call: OpCall, soc: Soc) -> list[asc.Launch]:
    """One pass through UB for the whole chain; computed in float32 unless every step is native to half."""
    steps: list[Step] = [tuple(s) for s in call.attr("steps", ())]
    x = call.inputs[0]
    if x is None or x.dtype not in ("float16", "bfloat16", "float32", "int32"):
        raise NoKernel(f"FusedElementwise of {None if x is None else x.dtype}")

    # the stock size of an exponential's tiles, which the fit of published times gives for a fused chain too
    live = 12 if any(s[0] == "exp" for s in steps) else 0

    def make(b: Builder, operands: Sequence[Operand]) -> list[Reg]:
        return [chain(b, soc, operands, steps, call.outputs[0].dtype)]

    return plan_map(call, soc, make, live_floor=live, code="graph")
