"""One test a type or format: ``Dtypes``, ``Formats``, ``instantiate_tests``."""

from __future__ import annotations

import functools
import inspect
from itertools import product
from typing import Any

_EMPTY = inspect.Parameter.empty


class Dtypes:
    def __init__(self, *dtypes: Any) -> None:
        self.dtypes = dtypes

    def __call__(self, function: Any) -> Any:
        function.dtypes = self.dtypes
        return function


class Formats:
    def __init__(self, *formats: Any) -> None:
        self.formats = formats

    def __call__(self, function: Any) -> Any:
        function.formats = self.formats
        return function


def instantiate_tests(arg: Any = None, **_: Any) -> Any:
    """Replace tests with ``dtype`` or ``npu_format`` arguments by one for every value."""

    def expand(cls: Any) -> Any:
        for name, function in list(vars(cls).items()):
            dtypes, formats = getattr(function, "dtypes", None), getattr(function, "formats", None)
            if not callable(function) or not (dtypes or formats):
                continue
            delattr(cls, name)
            known = inspect.signature(function).parameters
            for dtype, number in product(dtypes or (None,), formats or (None,)):
                given = {"dtype": dtype, "npu_format": number}
                given = {k: v for k, v in given.items() if v is not None and k in known}
                fixed = {"device": "npu"} if "device" in known and known["device"].default is _EMPTY else {}
                made = functools.partialmethod(function, **given, **fixed)
                suffix = "_".join(str(v).removeprefix("torch.") for v in given.values())
                setattr(cls, f"{name}_{suffix}", _bound(made, cls, f"{name}_{suffix}"))
        return cls

    return expand(arg) if inspect.isclass(arg) else expand


def _bound(made: Any, cls: Any, name: str) -> Any:
    def run(self: Any) -> Any:
        return made.__get__(self, cls)()

    run.__name__ = name
    return run
