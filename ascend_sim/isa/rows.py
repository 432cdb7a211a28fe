"""The documentation row of every instruction, collected where its semantics are written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

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


def instruction(name: str, calls: str, pipe: Pipe, text: str, *rules: str) -> Callable[[F], F]:
    """Register the function below as the semantics of machine instruction ``name`` (``calls`` space separated)."""

    def add(function: F) -> F:
        ROWS[name] = Row(name, tuple(calls.split()), pipe, text, rules, function)
        return function

    return add
