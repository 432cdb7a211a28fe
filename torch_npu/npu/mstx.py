"""Marks and ranges of the program's own, for profiles."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from acl import _eager
from torch_npu.npu.devices import current_device

_next = itertools.count(1)
_open: dict[int, tuple[str, int, str]] = {}
_stack: list[int] = []


class mstx:
    """Static functions as in ``torch_npu.npu.mstx``: spans appear in the profile as host events."""

    @staticmethod
    def mark(message: str, stream: Any = None, domain: str = "default") -> None:
        if message:
            _eager.emit("host", message, current_device(), _eager.host().now, domain=domain)

    @staticmethod
    def range_start(message: str, stream: Any = None, domain: str = "default") -> int:
        if not message:
            return 0
        number = next(_next)
        _open[number] = (message, _eager.host().now, domain)
        return number

    @staticmethod
    def range_end(range_id: int, domain: str = "default") -> None:
        found = _open.pop(range_id, None)
        if found is not None:
            _eager.emit("host", found[0], current_device(), found[1], domain=found[2])

    @staticmethod
    def range_push(message: str, stream: Any = None, domain: str = "default") -> int:
        _stack.append(mstx.range_start(message, stream, domain))
        return len(_stack)

    @staticmethod
    def range_pop(domain: str = "default") -> int:
        if not _stack:
            return -1
        mstx.range_end(_stack.pop(), domain)
        return len(_stack)

    @staticmethod
    @contextmanager
    def annotate(message: str = "", stream: Any = None, domain: str = "default") -> Iterator[None]:
        """The block inside as a range."""
        number = mstx.range_start(message, stream, domain)
        try:
            yield
        finally:
            mstx.range_end(number, domain)

    @staticmethod
    def mstx_range(message: str, stream: Any = None, domain: str = "default") -> Callable[..., Any]:
        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            @wraps(function)
            def call(*args: Any, **kwargs: Any) -> Any:
                number = mstx.range_start(message, stream, domain)
                try:
                    return function(*args, **kwargs)
                finally:
                    mstx.range_end(number, domain)

            return call

        return decorate
