"""DropOutDoMaskV3: the mask becomes numbers, two multiplications in float32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ascend_sim import asc
from ascend_sim.ops.registry import kernel
from ascend_sim.ops.schema import OpCall
from ascend_sim.ops.values.dropout import scale

from ._map import Operand, plan_map
from ._program import Builder, Reg

if TYPE_CHECKING:
    from ascend_sim.soc import Soc


@kernel("DropOutDoMaskV3")
def plan_do_mask(call: OpCall, soc: Soc) -> list[asc.Launch]:
    def make(b: Builder, operands: Sequence[Operand]) -> list[Reg]:
        x, mask = (o.as_type(b, "float32") for o in operands)
        return [b.cast(b.muls(b.mul(x, mask), scale(call)), call.outputs[0].dtype)]

    return plan_map(call, soc, make)
