"""The table from ATen to Ascend IR: one row an operator, put there by the modules of `rows`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """``build(plan, **arguments)`` with the arguments of the schema by name returns the results (`T`, list or tuple).
    One row serves the functional, the ``out=`` and the in-place form. ``overloads`` limits it to some overloads;
    ``takes_out`` hands the targets over as ``out``; ``writes``: the builder stores its results itself and returns what
    the call returns (arguments or numbers of new tensors)."""

    build: Callable[..., Any]
    overloads: frozenset[str] | None = None
    takes_out: bool = False
    writes: bool = False


ROWS: dict[str, Row] = {}


def row(*names: str, overloads: str | None = None, takes_out: bool = False, writes: bool = False) -> Any:
    """Put a builder into the table under ATen names (``add``, or ``max.dim`` for one overload)."""

    def add(build: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            if name in ROWS:
                raise ValueError(f"ATen operator {name!r} has two rows")
            limited = None if overloads is None else frozenset(overloads.split(" "))
            ROWS[name] = Row(build, limited, takes_out, writes)
        return build

    return add


def load() -> None:
    from torch_npu.dispatch.rows import load_all

    load_all()


load()
