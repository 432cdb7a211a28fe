"""Vector instructions on the first n elements in mask form: whole repeats of 256 bytes, then one masked remainder.

That is what the TBE compiler issues. The first-n calls of Ascend C set the counter mode instead, which costs its
switch on every instruction; kernels modelled on Ascend C sources use those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ascend_sim import asc

from ._vector import BLOCK, MAX_REPEATS, REPEAT

Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


def masked(function: Callable[..., Any], tensors: Sequence[Any], count: int, *values: Any) -> list[Call]:
    """Calls of ``function(dst, *srcs, *values, mask, repeats, strides)`` on ``count`` elements of ``tensors`` (the
    destination first). The widest type sets the elements of a repeat."""
    sizes = [t.dtype.size for t in tensors]
    width = REPEAT // max(sizes)
    steps = [width * size // BLOCK for size in sizes]
    calls: list[Call] = []
    at, repeats = 0, count // width
    while repeats:
        n = min(repeats, MAX_REPEATS)
        calls.append(_call(function, tensors, at, values, width, n, steps))
        at, repeats = at + n * width, repeats - n
    if at < count:
        calls.append(_call(function, tensors, at, values, count - at, 1, steps))
    return calls


def _call(
    function: Callable[..., Any], tensors: Sequence[Any], at: int, values: Sequence[Any], mask: int, n: int,
    steps: Sequence[int],
) -> Call:  # fmt: skip
    parts = [t[at:] if at else t for t in tensors]
    if len(parts) == 1:
        return function, (parts[0], *values, mask, n, 1, steps[0]), {}
    kind = asc.UnaryRepeatParams if len(parts) == 2 else asc.BinaryRepeatParams
    return function, (*parts, *values, mask, n, kind(*[1] * len(parts), *steps)), {}


def issue(function: Callable[..., Any], tensors: Sequence[Any], count: int, *values: Any) -> None:
    """`masked`, issued."""
    for f, args, kwargs in masked(function, tensors, count, *values):
        f(*args, **kwargs)
