"""Operators: schema, registry, shape inference, values and cost of every Ascend IR operator.

``load()`` registers the operators and the kernels; ``infer`` gives output specs and ``values`` output arrays.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from typing import Any

from ascend_sim.ops.registry import Array, OpDef, find, operators, register
from ascend_sim.ops.schema import OpCall, TensorSpec, freeze_attrs
from ascend_sim.ops.shapes import ShapeError, text
from ascend_sim.ops.values._threads import limited

# The package of operator families must be bound before the function of the same name below replaces it as an
# attribute of this package (importing a submodule binds it in its parent, once).
_FAMILIES = importlib.import_module("ascend_sim.ops.values")

__all__ = [
    "OpCall",
    "OpDef",
    "ShapeError",
    "TensorSpec",
    "UnknownOpError",
    "call",
    "find",
    "freeze_attrs",
    "infer",
    "load",
    "operators",
    "register",
    "values",
]

_loaded = {"families": False, "kernels": False}


class UnknownOpError(ValueError, KeyError):
    """No operator of that type is registered."""

    __str__ = ValueError.__str__


def load(*, kernels: bool = True) -> None:
    """Register every operator, and (unless ``kernels`` is False) the kernels of every package that offers some
    in the entry point group ``ascend_sim.kernels``. Further calls do nothing."""
    if not _loaded["families"]:
        _loaded["families"] = True
        for module in pkgutil.iter_modules(_FAMILIES.__path__):
            if not module.name.startswith("_"):
                importlib.import_module(f"{_FAMILIES.__name__}.{module.name}")
    if kernels and not _loaded["kernels"]:
        _loaded["kernels"] = True
        _load_kernels()


def _load_kernels() -> None:
    from importlib.metadata import entry_points

    names = ["ascend_sim.kernels"]
    names += [p.value for p in sorted(entry_points(group="ascend_sim.kernels")) if p.value not in names]
    for name in names:
        importlib.import_module(name.partition(":")[0])


def _get(op_type: str) -> OpDef:
    load(kernels=False)
    op = find(op_type)
    if op is None:
        raise UnknownOpError(f"operator {op_type!r} is not in the registry")
    return op


def infer(op_type: str, inputs: Sequence[TensorSpec | None], attrs: Mapping[str, Any]) -> list[TensorSpec]:
    """Specs of the outputs, in logical layout.

    Raises `UnknownOpError` for an unknown type and `ShapeError`, naming operator, input, shape and what was
    expected, when inputs or attributes do not fit.
    """
    op = _get(op_type)
    try:
        _check_count(op, inputs)
        return op.infer(inputs, dict(attrs))
    except (ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
        reason = str(error) if isinstance(error, ShapeError) else f"bad attribute or input ({error!r})"
        described = ", ".join(text(s) for s in inputs)
        raise ShapeError(f"{op_type}: {reason} [inputs: {described}]") from error


def _check_count(op: OpDef, inputs: Sequence[TensorSpec | None]) -> None:
    for index, name in enumerate(op.inputs):
        if not name.endswith(("?", "*")) and (index >= len(inputs) or inputs[index] is None):
            raise ShapeError(f"input {index} ({name}) is missing")


def call(op_type: str, inputs: Sequence[TensorSpec | None], attrs: Mapping[str, Any] | None = None) -> OpCall:
    """An `OpCall` with inferred outputs."""
    attrs = attrs or {}
    return OpCall(op_type, tuple(inputs), tuple(infer(op_type, inputs, attrs)), freeze_attrs(attrs))


def values(op_call: OpCall, arrays: Sequence[Array | None]) -> list[Array]:
    """Output arrays of a call, each of the logical shape and dtype that its spec states.

    ``arrays`` are parallel to ``op_call.inputs``, in logical layout; they are not changed. Constants should be
    read-only arrays (`ndarray.setflags`): what is prepared from those is kept for the next call. Raises ValueError
    naming the operator when an array does not fit its spec or its values cannot be used.
    """
    op = _get(op_call.type)
    if len(arrays) != len(op_call.inputs):
        raise ValueError(f"{op_call.type}: {len(arrays)} arrays for {len(op_call.inputs)} inputs")
    for index, (array, spec) in enumerate(zip(arrays, op_call.inputs, strict=True)):
        if (array is None) != (spec is None) or (spec is not None and array.shape != spec.logical_shape):  # type: ignore[union-attr]
            given = "absent" if array is None else list(array.shape)
            raise ValueError(f"{op_call.type}: input {index} is {given}; its spec says {text(spec)}")
    try:
        with limited(op_call):
            return op.values(arrays, op_call)
    except (ValueError, TypeError, IndexError, AssertionError) as error:
        described = ", ".join(text(s) for s in op_call.inputs)
        raise ValueError(f"{op_call.type}: {error or 'a required input is missing'} [inputs: {described}]") from error
