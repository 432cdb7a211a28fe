"""The operator registry: every Ascend IR operator is declared once, and everything that runs one asks here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from ascend_sim.ops.schema import OpCall, TensorSpec

if TYPE_CHECKING:
    from ascend_sim.engine.trace import KernelTrace
    from ascend_sim.soc import Soc

Array = NDArray[Any]
Infer = Callable[[Sequence[TensorSpec | None], dict[str, Any]], list[TensorSpec]]
Values = Callable[[Sequence[Array | None], OpCall], list[Array]]


class Launch(Protocol):
    """One kernel launch of an operator's plan, as `ascend_sim.asc` builds it.

    ``args`` names what each kernel argument is: ``("in", i)``, ``("out", i)`` or ``("workspace", k)``.
    """

    args: tuple[tuple[str, int], ...]

    def trace(self) -> KernelTrace:
        """Trace without values (loops folded)."""

    def execute(self, buffers: Sequence[Array]) -> None:
        """Run instruction by instruction on the raw storage bytes of each argument (uint8 arrays)."""


Plan = Callable[[OpCall, "Soc"], "Sequence[Launch]"]


class NoKernel(Exception):
    """Raised by a plan for a shape, type or format that its kernel cannot do exactly; the operator is then charged
    by the estimate and flagged."""


@dataclass(frozen=True)
class OpDef:
    """``infer`` gives output specs from input specs and attributes; ``values`` the outputs of arrays in
    *logical* layout (origin shape, dtype of the spec); ``host`` marks operators that touch no device time
    (Data, Const, NetOutput, Identity without copy). ``inputs`` names the inputs in IR order: ``name?`` is
    optional, a last ``name*`` takes any number; inputs of a fused operator's epilogue follow them."""

    type: str
    infer: Infer
    values: Values
    family: str = "other"
    host: bool = False
    inputs: tuple[str, ...] = ()


_OPS: dict[str, OpDef] = {}
_KERNELS: dict[str, Plan] = {}


def register(op: OpDef) -> OpDef:
    if op.type in _OPS:
        raise ValueError(f"operator {op.type!r} is registered twice")
    _OPS[op.type] = op
    return op


def kernel(*types: str) -> Callable[[Plan], Plan]:
    """Declare the function that plans the launches of these operators: ``plan(call, soc) -> [Launch, ...]``."""

    def add(plan: Plan) -> Plan:
        for name in types:
            if name in _KERNELS:
                raise ValueError(f"operator {name!r} already has a kernel")
            _KERNELS[name] = plan
        return plan

    return add


def operators() -> dict[str, OpDef]:
    return dict(_OPS)


def kernels() -> dict[str, Plan]:
    return dict(_KERNELS)


def find(op_type: str) -> OpDef | None:
    return _OPS.get(op_type)


def find_kernel(op_type: str) -> Plan | None:
    return _KERNELS.get(op_type)
