"""Short forms for declaring operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ascend_sim.ops.registry import Infer, OpDef, Values, register
from ascend_sim.ops.schema import TensorSpec
from ascend_sim.ops.shapes import like, need

Specs = Sequence[TensorSpec | None]


def define(op_type: str, family: str, inputs: str, infer: Infer, values: Values, *, host: bool = False) -> None:
    """Register an operator; ``inputs`` is a space-separated list of names: ``bias?`` is optional (or may be given as
    an attribute of that name), ``x*`` takes any number."""
    register(OpDef(op_type, infer, values, family, host, tuple(inputs.split())))


def infer_same(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    """One output like the first input."""
    return [like(need(inputs, 0, "x"))]
