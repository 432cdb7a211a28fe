"""Handles: the ints that stand for streams, datasets, descriptors and everything else a program holds.

A handle is never used twice, so a stale one is recognised; values lie where no memory is mapped, so one that is
taken for an address is recognised too.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from typing import Any, TypeVar

from acl import _strict
from ascend_sim.runtime.host import host_thread

T = TypeVar("T")

_FIRST = 0x100_0000_0040
_STEP = 0x40
_REMEMBERED = 8192

_next = itertools.count(_FIRST, _STEP)
_live: dict[int, Any] = {}
_dead: OrderedDict[int, tuple[str, str]] = OrderedDict()


def new(value: Any) -> int:
    """A handle for ``value``."""
    handle = next(_next)
    _live[handle] = value
    if _strict.watch is not None:
        _strict.watch.made[handle] = _strict.user_line()
    return handle


def get(handle: int, kind: type[T]) -> T | None:
    """What the handle stands for, if it is alive and of this kind."""
    value = _live.get(handle)
    return value if isinstance(value, kind) else None


def drop(handle: int) -> None:
    """Forget a handle; remembers who destroyed it."""
    value = _live.pop(handle, None)
    if value is None:
        return
    _dead[handle] = (type(value).__name__, host_thread().call)
    if len(_dead) > _REMEMBERED:
        _dead.popitem(last=False)


def story(handle: int, wanted: str, maker: str) -> str:
    """Why ``handle`` is not a living ``wanted``, which ``maker`` would have returned."""
    if handle == 0:
        return f"0 is no {wanted}; the call that should have made it probably failed (see {maker})."
    value = _live.get(handle)
    if value is not None:
        return f"{handle:#x} is a {type(value).__name__}, not a {wanted}."
    dead = _dead.get(handle)
    if dead is not None:
        return f"{handle:#x} was a {dead[0]} that {dead[1]} destroyed earlier."
    return f"{handle:#x} was never returned by {maker}."


def alive(kind: type[T]) -> list[int]:
    """Handles of one kind that were not destroyed, oldest first."""
    return [h for h, v in _live.items() if isinstance(v, kind)]


def forget_all() -> None:
    """Tests: start over."""
    _live.clear()
    _dead.clear()
