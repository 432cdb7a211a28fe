"""Arithmetic of the scalar unit on the one-element inputs of a vector program.

An expression is a number, ``("arg", i)`` for the value of scalar input i, or ``(operation, a, b)`` of expressions with
the operations of `OPERATIONS` (``sqrt`` takes one).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

Expression = float | tuple[Any, ...]


def _divide(a: float, b: float) -> float:
    if b:
        return a / b
    return math.copysign(math.inf, a) if a else 0.0  # traces run with stand-ins: they must not stop here


OPERATIONS: dict[str, Callable[..., float]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": _divide,
    "pow": lambda a, b: a**b,
    "sqrt": lambda a: math.sqrt(max(a, 0.0)),
}


def evaluate(expression: Any, inputs: Sequence[Any]) -> Any:
    """The value of an expression; None stays None."""
    if not isinstance(expression, tuple):
        return expression
    operation, *parts = expression
    if operation == "arg":
        return inputs[parts[0]]
    return OPERATIONS[operation](*(float(evaluate(p, inputs)) for p in parts))
