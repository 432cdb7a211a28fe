"""Prepared constants: what an operator makes once from a weight array (widened, reshaped) and uses every run."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from numpy.typing import NDArray

T = TypeVar("T")

_prepared: dict[int, dict[Hashable, Any]] = {}


def prepared(array: NDArray[Any], key: Hashable, make: Callable[[NDArray[Any]], T]) -> T:
    """``make(array)``, remembered under ``key`` as long as ``array`` lives.

    Only read-only arrays are remembered (`array.flags.writeable` False): a writable one may change between
    two calls, so its preparation is made anew each time.
    """
    if array.flags.writeable:
        return make(array)
    own = _prepared.get(id(array))
    if own is None:
        own = _prepared[id(array)] = {}
        weakref.finalize(array, _prepared.pop, id(array), None).atexit = False
    if key not in own:
        own[key] = make(array)
    value: T = own[key]
    return value


def prepared_count() -> int:
    """Number of arrays something is remembered for."""
    return len(_prepared)
