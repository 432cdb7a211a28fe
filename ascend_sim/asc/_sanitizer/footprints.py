"""Which bytes each instruction reads and writes: one function per semantics of `ascend_sim.isa`, with the same
parameters (the functions are in ``*_footprints.py``)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ascend_sim.asc._sanitizer.spans import Span, run, span
from ascend_sim.isa.buffers import View


class Touch(NamedTuple):
    """Bytes of one execution. ``atomic``: the writes combine with what is there."""

    reads: list[Span]
    writes: list[Span]
    atomic: bool = False


Footprint = Callable[..., Touch]
FOOTPRINTS: dict[str, Footprint] = {}


def footprint(*names: str) -> Callable[[Footprint], Footprint]:
    """Register the function below for the semantics ``module.function``."""

    def add(function: Footprint) -> Footprint:
        FOOTPRINTS.update(dict.fromkeys(names, function))
        return function

    return add


class _Spy(View):
    """A view that notes what is taken from it."""

    def flat(self, n: int) -> Any:
        _seen.log.append((self, run(self, n * self.dtype.bits // 8)))
        return super().flat(n)

    def strided(self, shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> Any:
        size = self.dtype.size
        _seen.log.append((self, span(self.data, self.start + offset, (*shape, size), (*strides, 1))))
        return super().strided(shape, strides, offset)


class _Seen(threading.local):
    log: list[tuple[View, list[Span]]] = []  # noqa: RUF012 (replaced before each use)


_seen = _Seen()


def spied(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Touch]:
    """Run semantics that have no footprint: what they take from their first view (or list of views), and what changes
    in its memory, counts as written, the rest as read."""
    _seen.log = []
    targets: list[View] = []

    def spy(value: Any) -> Any:
        if isinstance(value, View):
            if not targets:
                targets.append(value)
            return _Spy(*value)
        if isinstance(value, list | tuple) and value and all(isinstance(v, View) for v in value):
            if not targets:
                targets.extend(value)
            return [_Spy(*v) for v in value]
        return value

    given = [spy(a) for a in args]
    named = {k: spy(v) for k, v in kwargs.items()}
    memories = {id(v.data): (v.data, v.data.copy()) for v in targets}
    result = function(*given, **named)
    reads: list[Span] = []
    writes: list[Span] = []
    for view, spans in _seen.log:
        written = any(view.data is t.data and view.start == t.start for t in targets)
        (writes if written else reads).extend(spans)
    for data, before in memories.values():
        changed = np.flatnonzero(data != before)
        if len(changed):
            writes.append(Span(data, 0, (), (), at=changed))
    return result, Touch(reads, writes)
