"""The documentation row of every instruction, collected where its semantics are written, and the place from which
executions can be watched."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from ascend_sim.isa.instr import Pipe


@dataclass(frozen=True)
class Row:
    """``name`` machine name, ``calls`` names in the kernel language, ``pipe`` the unit that runs it, ``text`` what it
    computes, ``rules`` its restrictions, ``function`` its semantics."""

    name: str
    calls: tuple[str, ...]
    pipe: Pipe
    text: str
    rules: tuple[str, ...]
    function: Callable[..., Any]


ROWS: dict[str, Row] = {}

F = TypeVar("F", bound=Callable[..., Any])


class _Observer(threading.local):
    """``call(function, args, kwargs)`` runs in place of every execution of this thread, or None."""

    call: Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any] | None = None


observer = _Observer()


def observed(function: F) -> F:
    """Let an observer (the sanitizer) see the operands of each execution of these semantics: functions whose operands
    are `View`s, destination first."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        watch = observer.call
        return function(*args, **kwargs) if watch is None else watch(function, args, kwargs)

    return cast(F, run)


def instruction(name: str, calls: str, pipe: Pipe, text: str, *rules: str) -> Callable[[F], F]:
    """Register the function below as the semantics of machine instruction ``name`` (``calls`` space separated)."""

    def add(function: F) -> F:
        ROWS[name] = Row(name, tuple(calls.split()), pipe, text, rules, function)
        on_memory = function.__annotations__.get("dst") in ("View", "Sequence[View]")
        return observed(function) if on_memory else function

    return add
