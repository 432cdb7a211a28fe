"""How every public function behaves at its border: positional arguments only, checked Python types, host time
charged, one event per call."""

from __future__ import annotations

import functools
import operator
import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from acl import errors
from acl._support import MISSING_ON
from ascend_sim.runtime.host import host_thread
from ascend_sim.runtime.observe import Event
from ascend_sim.runtime.system import MachineError, running, system

F = TypeVar("F", bound=Callable[..., Any])


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected str, got {type(value).__name__}")
    return value


def _of(kind: type) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if not isinstance(value, kind):
            raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")
        return value

    return check


def _real(value: Any) -> float:
    if isinstance(value, str | bytes):
        raise TypeError(f"expected a number, got {type(value).__name__}")
    return float(value)


def _callable(value: Any) -> Any:
    if not callable(value):
        raise TypeError(f"expected a function, got {type(value).__name__}")
    return value


_LEAST, _BEYOND = -(1 << 63), 1 << 64  # what 64 bits hold, signed or not


def _integer(value: Any) -> int:
    """An int as the C interface sees it: what 64 bits cannot hold loses its upper bits."""
    number = operator.index(value)
    return number if _LEAST <= number < _BEYOND else number % _BEYOND


_process: dict[str, Any] = {"forked": False, "said": ""}


def _after_fork() -> None:
    """A child has no threads and no device of its parent: it may run, but not use what it inherited."""
    if running() is not None:
        _process["forked"] = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


_FORKED = (
    "the device was used before this process was forked: a forked child cannot use it. Start workers with the "
    '"spawn" method, or use the device in the children only.'
)


def _refuse(name: str, code: int, why: str) -> Any:
    """Fail in the documented shape of a function."""
    from acl import _names

    host_thread().call = name
    parts = name.split(".")
    shape = _names.table(parts[1] if len(parts) == 3 else "")[parts[-1]][1]
    return _names.failure(shape, errors.fail(code, why))


def refuse_child(name: str) -> Any:
    """Refuse ``name`` in a child that was forked after the device was used; None elsewhere."""
    return _refuse(name, errors.RT_INTERNAL, _FORKED) if _process["forked"] else None


def _no_machine(name: str, error: MachineError) -> Any:
    """The chip cannot be simulated; said on stderr once, since few programs ask for messages."""
    if str(error) != _process["said"]:
        _process["said"] = str(error)
        sys.stderr.write(f"ascend-sim: {error}\n")
    return _refuse(name, errors.INVALID_PARAM, f"{error}.")


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "int": _integer,
    "float": _real,
    "str": _text,
    "bytes": _of(bytes),
    "list": _of(list),
    "tuple": _of(tuple),
    "dict": _of(dict),
    "Callable": _callable,
}


def _plan(function: Callable[..., Any]) -> tuple[tuple[tuple[int, Callable[[Any], Any]], ...], int, int]:
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    checks = []
    for index, name in enumerate(names):
        kind = str(function.__annotations__.get(name, "object")).split("[")[0].split(" ")[0]
        if kind in _CHECKS:
            checks.append((index, _CHECKS[kind]))
    required = len(names) - len(function.__defaults__ or ())
    return tuple(checks), required, len(names)


def _convert(name: str, args: tuple[Any, ...], checks: tuple[tuple[int, Callable[[Any], Any]], ...]) -> list[Any]:
    converted = list(args)
    for index, check in checks:
        if index < len(converted):
            try:
                converted[index] = check(converted[index])
            except TypeError as error:
                raise TypeError(f"{name}() argument {index + 1}: {error}") from None
    return converted


def _only_elsewhere(name: str, function: Callable[..., Any], archs: tuple[str, ...]) -> Callable[..., Any]:
    """``function``, refused on chips of these architectures as on hardware."""

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        machine = system()
        if machine.soc.chip.arch in archs:
            return _refuse(
                name, errors.RT_FEATURE_NOT_SUPPORT, f"{machine.soc.name} has no {name}: other products support it."
            )
        return function(*args)

    return call


def api(name: str, c_name: str, cost: str = "none", *, supported: bool = True) -> Callable[[F], F]:
    """Make ``name`` (``acl.rt.malloc``) out of a function with positional-only, annotated parameters.

    ``cost`` is the kind of host time a call takes (key of `ascend_sim.runtime.system.System.costs`); calls that
    only keep books on the host (``none``) are free and leave no event. ``supported`` False marks a function that only
    explains why it cannot be simulated.
    """

    def decorate(function: F) -> F:
        checks, required, most = _plan(function)
        archs = MISSING_ON.get(name)
        if archs is not None:
            function = _only_elsewhere(name, function, archs)  # type: ignore[assignment]
        ints = tuple(i for i, check in checks if check is _integer)
        only_ints = len(ints) == most
        short = name.rsplit(".", 1)[1]
        module = name.rsplit(".", 1)[0]

        def checked(args: tuple[Any, ...]) -> tuple[Any, ...] | list[Any]:
            given = len(args)
            if not required <= given <= most:
                wanted = str(most) if required == most else f"{required} to {most}"
                raise TypeError(f"{short}() takes {wanted} positional arguments, {given} given")
            if only_ints:
                for value in args:
                    if type(value) is not int or not _LEAST <= value < _BEYOND:
                        return _convert(short, args, checks)
                return args
            return _convert(short, args, checks)

        if cost == "none":

            @functools.wraps(function)
            def call(*args: Any) -> Any:
                ready = checked(args) if most else ()
                host_thread().call = name
                try:
                    return function(*ready)
                except MachineError as error:
                    return _no_machine(name, error)

        else:

            @functools.wraps(function)
            def call(*args: Any) -> Any:
                ready = checked(args) if most else ()
                if _process["forked"]:
                    return _refuse(name, errors.RT_INTERNAL, _FORKED)
                try:
                    machine = system()
                except MachineError as error:
                    return _no_machine(name, error)
                thread = host_thread()
                thread.call = name
                start = thread.now
                thread.now = start + machine.costs[cost]
                result = function(*ready)
                if machine.observers.active:
                    ret = result[-1] if isinstance(result, tuple) else result
                    context = thread.context
                    device = context.device.index if context is not None else -1
                    facts = {"module": module, "ret": ret}
                    machine.observers.emit(Event("api", c_name, device, -1, 0, start, thread.now, thread.index, facts))
                return result

        call.acl_name = name  # type: ignore[attr-defined]
        if not supported:
            call.unsupported = True  # type: ignore[attr-defined]
        return call  # type: ignore[return-value]

    return decorate
