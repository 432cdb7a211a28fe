"""Between the extension and the table: makes plans, launches them, and pays for CPU fallbacks."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch

from acl import _eager, _sim
from torch_npu._backend import backend
from torch_npu.dispatch import table
from torch_npu.dispatch.plan import TYPE_OF_NUMBER, NoPlan, Plan, Scalar, contiguous_strides

fallbacks: Counter[str] = Counter()  # operators that ran on the CPU
_launched = [0]  # Ascend operators
reasons: dict[str, str] = {}  # why an operator fell back last
_warned: set[str] = set()


@cache
def _schema(name: str, overload: str) -> Any:
    return torch._C._get_schema(name, overload)


def _wrap(plan: Plan, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        if value.device.type == "cpu":
            if value.is_conj() or value.is_neg():
                value = value.resolve_conj().resolve_neg()
            return Scalar(value.item(), value.dtype, value)
        return plan.argument(value)
    if isinstance(value, list | tuple):
        return [_wrap(plan, v) for v in value]
    return value


def _value(argument: Any, value: Any) -> Any:
    """``value`` with types as torch types: the extension hands them over as their numbers."""
    if type(value) is int and "ScalarType" in str(argument.real_type):
        return TYPE_OF_NUMBER.get(value, value)
    return value


def _find(name: str, overload: str, schema: Any) -> tuple[table.Row | None, bool]:
    """The row of an operator, and whether it is an in-place form."""
    base = name.split("::", 1)[1]
    first = schema.arguments[0] if schema.arguments else None
    inplace = base.endswith("_") and first is not None and first.alias_info is not None and first.alias_info.is_write
    if inplace:
        base = base[:-1]
    rows = table.ROWS
    row = rows.get(f"{base}.{overload}") or rows.get(base)
    if row is not None and row.overloads is not None and overload not in row.overloads:
        row = None
    return row, inplace


def compile_plan(name: str, overload: str, values: list[Any]) -> Any:
    """The plan of a call; None when these arguments have none, False when no arguments ever will."""
    if not name.startswith("aten::") and not name.startswith("npu::"):
        return False
    schema = _schema(name, overload)
    row, inplace = _find(name, overload, schema)
    if row is None:
        return False
    try:
        plan = _compile(row, schema, inplace, values)
        if plan.launcher is not None:
            plan.launcher = Launcher(plan.launcher, name, values)
        return plan
    except NoPlan as why:
        reasons[name] = str(why)
        return None


def _compile(row: table.Row, schema: Any, inplace: bool, values: list[Any]) -> Plan:
    plan = Plan()
    named: dict[str, Any] = {}
    outs: list[Any] = []
    for argument, value in zip(schema.arguments, values, strict=True):
        wrapped = _wrap(plan, _value(argument, value))
        if argument.is_out:
            outs.append(wrapped)
        else:
            named[argument.name] = wrapped
    named.pop("generator", None)
    for key in ("layout", "device", "pin_memory"):
        named.pop(key, None)
    targets: list[Any] = outs
    if inplace:
        targets = [values_of(named, schema)]
    if row.takes_out:
        named["out"] = targets
    result = row.build(plan, **named)
    if row.writes:  # the builder stored what there is to store; ``result`` says what is returned
        plan.returns = [_given(r) for r in result]
        return plan.finish()
    listed = list(result) if isinstance(result, tuple) else [result]
    if not targets:
        plan.returns = [_return(plan, r) for r in listed]
        return plan.finish()
    _fill_targets(plan, listed, targets)
    if schema.returns:
        for target in targets:
            if isinstance(target, list):
                raise NoPlan("list results")
            plan.returns.append((0, target.place[1], []))
    return plan.finish()


def values_of(named: dict[str, Any], schema: Any) -> Any:
    return named[schema.arguments[0].name]


def _fill_targets(plan: Plan, results: list[Any], targets: list[Any]) -> None:
    flat_results: list[Any] = []
    flat_targets: list[Any] = []
    for r, t in zip(results, targets, strict=False):
        if isinstance(t, list):
            flat_results += r
            flat_targets += t
        else:
            flat_results.append(r)
            flat_targets.append(t)
    for r, t in zip(flat_results, flat_targets, strict=True):
        if r is None:
            continue
        if t.shape != r.shape and t.numel:
            raise NoPlan("the output has another shape")
        if r.dtype != t.dtype and (len(flat_results) > 1 or not torch.can_cast(r.dtype, t.dtype)):
            raise NoPlan("an error is due")
        if t.shape != r.shape:
            if t.place is None or t.place[0] != "arg":
                raise NoPlan("the output has another shape")
            plan.resizes.append((t.place[1], list(r.shape)))
            t.shape, t.strides = r.shape, contiguous_strides(r.shape)
        plan.store(r, t)


def _given(result: Any) -> tuple[int, int, list[int]]:
    if result is None:
        return (2, 0, [])
    if isinstance(result, list):
        return (3, 0, list(result))
    if isinstance(result, int):
        return (1, result, [])
    return (0, result.place[1], [])


def _return(plan: Plan, result: Any) -> tuple[int, int, list[int]]:
    if result is None:
        return (2, 0, [])
    if isinstance(result, int):
        return (4, result, [])
    if isinstance(result, list):
        return (3, 0, [plan.new(r) for r in result])
    return (1, plan.new(result), [])


def kernels_launched() -> int:
    """Ascend operators launched so far."""
    return _launched[0]


# -- launching ---------------------------------------------------------------------------------------------


class Launcher:
    """The kernels of a plan and what a profile says of them."""

    __slots__ = ("kernels", "name", "shapes", "types")

    def __init__(self, kernels: Sequence[Any], name: str, values: list[Any]) -> None:
        self.kernels, self.name = kernels, name
        tensors = [v if isinstance(v, torch.Tensor) else None for v in values]
        self.shapes = tuple(() if t is None else tuple(t.shape) for t in tensors)
        self.types = tuple("" if t is None else str(t.dtype).removeprefix("torch.") for t in tensors)


_shapes = [False]


def record_shapes(on: bool) -> None:
    """Whether profiles say the shapes of operators' arguments."""
    _shapes[0] = on


def launch(launcher: Launcher, device: int, stream: int, addresses: tuple[int, ...]) -> None:
    kernels = launcher.kernels
    _launched[0] += len(kernels)
    if backend.capture is not None:  # recorded, not run: the first replay is the first time
        backend.capture.add(kernels, addresses)
        return
    where = backend.stream(device, stream)
    if not _sim.recording():
        _eager.launch(kernels, where, addresses)
    else:
        start = _eager.host().now
        _eager.launch(kernels, where, addresses)
        facts = {"shapes": launcher.shapes, "types": launcher.types} if _shapes[0] else {}
        # what the operator before it enqueued bears this very time: it belongs to that one
        _sim.emit("op", launcher.name, start + 1, _eager.host().now, device=where.device.index, **facts)
    if backend.blocking:
        backend.synchronize_stream(device, stream)


# -- CPU fallbacks -----------------------------------------------------------------------------------------


def before_fallback(name: str, overload: str, device: int, stream: int, nbytes: int) -> None:
    """Before a CPU kernel works on the bytes of npu tensors: say so once, wait for the device, pay for the copies."""
    if os.environ.get("TORCH_NPU_FALLBACK_CPU_DISABLE") == "1":
        raise RuntimeError(
            f"CAUTION: the operator '{name}' is not currently supported on the NPU backend, and "
            "TORCH_NPU_FALLBACK_CPU_DISABLE=1 forbids running it on the CPU, error code is 100024"
        )
    if backend.capture is not None:
        raise RuntimeError(
            f"operation not permitted when stream is capturing: '{name}' runs on the CPU (not supported on the NPU "
            "backend), error code is 107027"
        )
    if name not in _warned:
        _warned.add(name)
        full = f"{name}.{overload}" if overload else name
        warnings.warn(
            f"CAUTION: The operator '{full}' is not currently supported on the NPU backend and will fall back to run "
            "on the CPU. This may have performance implications.",
            UserWarning,
            stacklevel=2,
        )
    fallbacks[name] += 1
    where = backend.stream(device, stream)
    _eager.synchronize_device(backend.physical(device))
    _eager.charge_copy(where, "d2h", nbytes, name)


def after_fallback(name: str, device: int, nbytes: int) -> None:
    """After it: pay for the way back."""
    _eager.charge_copy(backend.stream(device, 0), "h2d", nbytes, name)
