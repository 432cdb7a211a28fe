"""Kernel arguments of the cube operators: inputs, bias, inputs of the epilogue, output, workspace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ascend_sim.ops.registry import NoKernel

if TYPE_CHECKING:
    from ascend_sim.ops.schema import OpCall

DECLARED = 3  # x, filter, bias; inputs of the epilogue follow
Gm = tuple[str, str, int, str]


@dataclass(frozen=True)
class Arguments:
    """Parallel per kernel argument: ``roles`` in the kernel (``x``, ``w``, ``bias``, ``extra``, ``y``, ``work``),
    ``args`` to the operator, ``gm`` as `asc.Launch` takes them."""

    roles: tuple[str, ...]
    args: tuple[tuple[str, int], ...]
    gm: tuple[Gm, ...]

    def with_workspace(self, dtype: str, nbytes: int) -> Arguments:
        """A workspace behind the other arguments."""
        gm = ("work", dtype, nbytes, "workspace")
        return Arguments((*self.roles, "work"), (*self.args, ("workspace", 0)), (*self.gm, gm))


def conv_arguments(call: OpCall, left: str = "x", right: str = "w") -> Arguments:
    """Arguments of a convolution or product. Raises `NoKernel` for an epilogue input unlike the output."""
    y = call.outputs[0]
    roles, args, gm = [], [], []
    for i, spec in enumerate(call.inputs):
        if spec is None:
            continue
        if i >= DECLARED and (spec.shape != y.shape or spec.dtype != y.dtype):
            raise NoKernel(f"epilogue input {spec.dtype}{spec.shape} differs from the output {y.dtype}{y.shape}")
        roles.append((left, right, "bias")[i] if i < DECLARED else "extra")
        args.append(("in", i))
        gm.append((f"x{i}", spec.dtype, spec.nbytes, "in"))
    return Arguments((*roles, "y"), (*args, ("out", 0)), (*gm, ("y", y.dtype, y.nbytes, "out")))
