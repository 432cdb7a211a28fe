"""A case: one call of one operator with its arrays, in the storage formats that its kernel takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from ascend_sim.kernels._execute import run_plan

from ascend_sim import ops
from ascend_sim.isa import layout
from ascend_sim.ops.dtypes import numpy_dtype
from ascend_sim.ops.registry import find_kernel
from ascend_sim.ops.schema import OpCall, TensorSpec, freeze_attrs
from ascend_sim.soc import load_soc

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Operand:
    """A logical array, how it is stored, and whether its value is known when the operator is compiled. ``axes`` names
    the axes of a plain array of four (NCHW)."""

    array: Array
    format: str = "ND"
    c0: int = 16
    groups: int = 1
    const: bool = False
    axes: str = "NCHW"

    @property
    def dtype(self) -> str:
        return "bfloat16" if self.array.dtype == ml_dtypes.bfloat16 else self.array.dtype.name

    def plain(self) -> TensorSpec:
        """Spec in logical layout."""
        fmt = self.axes if self.array.ndim == 4 else "ND"
        return TensorSpec(self.array.shape, self.dtype, fmt, const=self.array.tobytes() if self.const else None)

    def stored(self) -> tuple[TensorSpec, Array]:
        """Spec and array in the storage format."""
        if self.format == "ND":
            return self.plain(), self.array
        array = pack(self.array, self.format, self.c0, self.groups)
        origin = "NCHW" if self.array.ndim == 4 else "ND"
        return TensorSpec(array.shape, self.dtype, self.format, self.array.shape, origin), array


@dataclass(frozen=True)
class Case:
    """``outputs``: storage format and C0 of every output (all the same), ``wide``: its type, where not inferred.
    ``outs``: outputs compared (all by default). ``steps``: how far quantised integers may be apart."""

    op: str
    chip: str
    inputs: tuple[Operand | None, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    outputs: str = "ND"
    c0: int = 16
    wide: str = ""
    outs: tuple[int, ...] | None = None
    steps: int = 0

    def __str__(self) -> str:
        given = ", ".join("-" if x is None else f"{list(x.array.shape)} {x.dtype} {x.format}" for x in self.inputs)
        return f"{self.op}({given}; {self.attrs}) on {self.chip}"


def pack(array: Array, fmt: str, c0: int, groups: int = 1) -> Array:
    """An array in a storage format. A depthwise filter (one channel a group) puts 16 channels on a diagonal."""
    if fmt == "NC1HWC0":
        return layout.nchw_to_nc1hwc0(array, c0)
    if fmt == "FRACTAL_NZ":
        panels = layout.nd_to_nz(array, c0)
        return panels.reshape(*panels.shape[:-2], -1, 16, c0)
    if fmt != "FRACTAL_Z":
        raise ValueError(f"format {fmt}: expected NC1HWC0, FRACTAL_NZ or FRACTAL_Z")
    o, c, kh, kw = array.shape
    if groups == 1 or c > 1 or o % groups:
        return np.concatenate([layout.oihw_to_fractal_z(part, c0) for part in np.split(array, groups)])
    multiplier, parts = o // groups, []
    for first in range(0, groups, 16):
        full = np.zeros((16 * multiplier, 16, kh, kw), array.dtype)
        for i in range(min(16, groups - first) * multiplier):
            full[i, i // multiplier] = array[first * multiplier + i, 0]
        parts.append(layout.oihw_to_fractal_z(full, c0))
    return np.concatenate(parts)


def unpack(data: Array, spec: TensorSpec) -> Array:
    """Logical array of stored bytes."""
    stored, logical = data[: spec.nbytes].view(numpy_dtype(spec.dtype)).reshape(spec.shape), spec.logical_shape
    if spec.format == "NC1HWC0":
        return layout.nc1hwc0_to_nchw(stored, logical[1])
    if spec.format == "FRACTAL_NZ":
        c1, m1, m0, c0 = stored.shape[-4:]
        return layout.nz_to_nd(stored.reshape(*stored.shape[:-4], c1, m1 * m0, c0), *logical[-2:])
    if spec.format == "FRACTAL_Z":
        return layout.fractal_z_to_oihw(stored, logical)  # type: ignore[arg-type]
    return stored


def storage(spec: TensorSpec, fmt: str, c0: int) -> TensorSpec:
    """Spec of a result stored in ``fmt``."""
    if fmt == "ND":
        return spec
    shape = pack(np.zeros(spec.logical_shape, np.int8), fmt, c0).shape
    return TensorSpec(shape, spec.dtype, fmt, spec.logical_shape, "NCHW" if len(spec.logical_shape) == 4 else "ND")


def logical_call(case: Case) -> OpCall:
    """The call in logical layout, outputs inferred."""
    attrs = {k: v for k, v in case.attrs.items() if k != "epilogue"}
    count = len(case.inputs) - sum(step[0] in ("add", "mul", "max") for step in case.attrs.get("epilogue", ()))
    specs = [None if x is None else x.plain() for x in case.inputs]
    outs = ops.infer(case.op, specs[:count], attrs)
    if case.wide:
        outs = [TensorSpec(y.shape, case.wide, y.format) for y in outs]
    return OpCall(case.op, tuple(specs), tuple(outs), freeze_attrs(case.attrs))


def operator_values(case: Case) -> list[Array]:
    """Values of the whole operator."""
    return ops.values(logical_call(case), [None if x is None else x.array for x in case.inputs])


def instruction_values(case: Case) -> list[Array]:
    """Values of the kernel's instructions. Raises NoKernel like the plan."""
    plain = logical_call(case)
    stored = [None if x is None else x.stored() for x in case.inputs]
    outs = tuple(storage(y, case.outputs, case.c0) for y in plain.outputs)
    call = OpCall(case.op, tuple(None if s is None else s[0] for s in stored), outs, plain.attrs)
    plan = find_kernel(case.op)
    if plan is None:
        raise ValueError(f"{case.op} has no kernel")
    arrays: Sequence[Array | None] = [None if s is None else s[1] for s in stored]
    results = run_plan(call, plan(call, load_soc(case.chip)), arrays)
    return [unpack(raw, y) for raw, y in zip(results, outs, strict=True)]
