"""From an elementwise operator call to a launch: classify its inputs, build its vector program, choose the kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ascend_sim import asc
from ascend_sim.ops.dtypes import numpy_dtype
from ascend_sim.ops.registry import NoKernel
from ascend_sim.ops.schema import OpCall, TensorSpec

from ._flat import flat_launch
from ._program import Builder, Reg
from .broadcast import broadcast_launch, fuse

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

BLOCKED = frozenset(("NC1HWC0", "NDC1HWC0", "FRACTAL_NZ", "FRACTAL_Z", "FRACTAL_Z_3D", "NC1HWC0_C04"))


@dataclass(frozen=True)
class Operand:
    """One input of an elementwise operator inside the program: a tile in its own type, or one value for all
    elements (``scalar`` an immediate, or ``("arg", i)`` for the i-th scalar kernel argument)."""

    dtype: str
    reg: Reg | None = None
    scalar: float | tuple[str, int] | None = None

    def as_type(self, b: Builder, dtype: str) -> Reg:
        """The operand as a register of the compute type."""
        if self.reg is not None:
            return b.cast(self.reg, dtype)
        assert self.scalar is not None
        if isinstance(self.scalar, tuple):
            return b.splat(self.scalar[1], dtype)
        return b.dup(self.scalar, dtype)


Make = Callable[[Builder, Sequence[Operand]], Sequence[Reg]]


def constant(spec: TensorSpec) -> float | None:
    """The value of a one-element compile-time constant."""
    if spec.const is None or spec.size != 1:
        return None
    return float(np.frombuffer(spec.const, numpy_dtype(spec.dtype))[0])


def broadcast_shape(spec: TensorSpec, out: TensorSpec) -> tuple[int, ...]:
    """Storage shape of an input as it aligns with the output's. Raises `NoKernel` where blocked formats do not
    broadcast like plain ones."""
    if spec.shape == out.shape and spec.format == out.format:
        return spec.shape
    if spec.format not in BLOCKED and out.format not in BLOCKED:
        return spec.shape
    if spec.format != out.format or len(spec.shape) != len(out.shape):
        raise NoKernel(f"input {spec.format} {spec.shape} does not broadcast to {out.format} {out.shape} in storage")
    a, b = spec.logical_shape, out.logical_shape
    if len(a) != len(b):
        raise NoKernel(f"ranks of {a} and {b} differ in format {out.format}")
    inner = (1,) if out.format == "NC1HWC0" else range(len(b) - 2, len(b))
    for axis in inner:
        if a[axis] != b[axis]:
            raise NoKernel(f"axis {axis} of {a} broadcasts inside the blocks of {out.format}")
    return spec.shape


def plan_map(
    call: OpCall, soc: Soc, make: Make, *, inputs: Sequence[int] | None = None, live_floor: float = 0,
    code: str = "elementwise",
) -> list[asc.Launch]:  # fmt: skip
    """Launch of an elementwise operator. ``make`` records the program from the operands (the inputs numbered
    ``inputs``, default all) and returns one register per output, in the output's type. ``code`` is the class of a
    kernel without broadcast."""
    out = call.outputs[0]
    if out.size == 0:
        raise NoKernel("empty output")
    numbers = list(range(len(call.inputs))) if inputs is None else list(inputs)
    specs = [_present(call, i) for i in numbers]
    if any(s.size == 0 for s in specs):
        raise NoKernel("empty input")
    if out.dtype not in _MEMORY or any(s.dtype not in _MEMORY for s in specs):
        raise NoKernel("element type has no vector registers")
    tiles: list[int] = []  # positions in numbers
    scalars: list[int] = []
    values: dict[int, float] = {}
    for k, spec in enumerate(specs):
        value = constant(spec)
        if (spec.size == 1 and out.size > 1) or value is not None:
            if value is not None:
                values[k] = value
            else:
                scalars.append(k)
        else:
            tiles.append(k)
    if not tiles:
        tiles = [0]
        scalars = [k for k in scalars if k != 0]
        values.pop(0, None)
    shapes = {k: broadcast_shape(specs[k], out) for k in tiles}
    flat = all(specs[k].size == out.size for k in tiles)
    view = None if flat else fuse(out.shape, [shapes[k] for k in tiles])

    b = Builder(soc)
    operands: list[Operand] = [Operand("")] * len(specs)
    for n, k in enumerate(tiles):
        steady = view is not None and view.operands[n].row == 0
        operands[k] = Operand(specs[k].dtype, reg=b.input(specs[k].dtype, steady))
    for n, k in enumerate(scalars):
        operands[k] = Operand(specs[k].dtype, scalar=("arg", n))
    for k, value in values.items():
        operands[k] = Operand(specs[k].dtype, scalar=value)
    results = make(b, operands)
    program = b.build(*results)

    names = [(f"x{numbers[k]}", specs[k], "in") for k in tiles]
    names += [(f"y{i}", spec, "out") for i, spec in enumerate(call.outputs)]
    names += [(f"x{numbers[k]}", specs[k], "in") for k in scalars]
    args: list[tuple[str, int]] = [("in", numbers[k]) for k in tiles]
    args += [("out", i) for i in range(len(call.outputs))]
    args += [("in", numbers[k]) for k in scalars]
    if view is not None:
        return [broadcast_launch(program, view, names, args, soc, live_floor)]
    at = len(tiles)
    outputs = range(at, at + len(call.outputs))
    return [
        flat_launch(
            program, out.size, names, list(range(at)), list(outputs),
            [outputs.stop + n for n in range(len(scalars))], args, soc, live_floor, code,
        )
    ]  # fmt: skip


_MEMORY = frozenset(
    ["float16", "bfloat16", "float32", "int8", "uint8", "int16", "uint16", "int32", "uint32", "bool", "int64", "uint64"]
)


def _present(call: OpCall, index: int) -> TensorSpec:
    spec: Any = call.inputs[index]
    if spec is None:
        raise NoKernel(f"input {index} of {call.type} is absent")
    result: TensorSpec = spec
    return result
