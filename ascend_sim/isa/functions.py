"""Semantics of the element functions that the language composes of many vector instructions.

Values are those of the exact function, rounded once to the type; the library's own polynomials stay within the error
its documentation allows. Source: asc-devkit, high-level API, mathematical computation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.isa.buffers import View
from ascend_sim.isa.rows import observed

Array = NDArray[Any]


def _each(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """A function of Python floats over an array; what it has no value for is NaN."""

    def safe(x: float) -> float:
        try:
            return function(x)
        except (ValueError, OverflowError):
            return math.nan if not math.isinf(x) else math.inf

    return lambda x: np.array([safe(v) for v in x.tolist()], np.float64)


def _digamma(x: float) -> float:
    """Derivative of the logarithm of the gamma function; NaN at its poles."""
    if x <= 0:
        if x == math.floor(x):
            return math.nan
        return _digamma(1 - x) - math.pi / math.tan(math.pi * x)
    shift = 0.0
    while x < 8:
        shift -= 1 / x
        x += 1
    y = 1 / (x * x)
    series = y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y * (1 / 132 - y * 691 / 32760)))))
    return shift + math.log(x) - 0.5 / x - series


def _round(x: Array) -> Array:
    return np.rint(x)


# function and how many passes of the vector unit its composition takes (assumed from the length of usual polynomials)
ONE: dict[str, tuple[Callable[[Array], Array], int]] = {
    "acos": (np.arccos, 36), "acosh": (np.arccosh, 12), "asin": (np.arcsin, 34), "asinh": (np.arcsinh, 14),
    "atan": (np.arctan, 40), "atanh": (np.arctanh, 8), "ceil": (np.ceil, 2), "cos": (np.cos, 26), "cosh": (np.cosh, 7),
    "digamma": (_each(_digamma), 60), "erf": (_each(math.erf), 24), "erfc": (_each(math.erfc), 40),
    "exp": (np.exp, 12), "floor": (np.floor, 2), "frac": (lambda x: x - np.trunc(x), 3),
    "lgamma": (_each(math.lgamma), 70), "log": (np.log, 1), "round": (_round, 2), "sign": (np.sign, 9),
    "sin": (np.sin, 26), "sinh": (np.sinh, 7), "tan": (np.tan, 40), "tanh": (np.tanh, 9), "trunc": (np.trunc, 2),
}  # fmt: skip
TWO: dict[str, tuple[Callable[[Array, Array], Array], int]] = {
    "power": (np.power, 40), "xor": (np.bitwise_xor, 4),
}  # fmt: skip


@observed
def run_function(dst: View, sources: Sequence[View], count: int, name: str) -> None:
    """The first ``count`` elements of ``dst`` = the function of those of ``sources``."""
    with np.errstate(all="ignore"):
        if name in TWO:
            a, b = (s.flat(count).copy() for s in sources)
            if a.dtype.kind == "f":
                a, b = a.astype(np.float64), b.astype(np.float64)
            dst.flat(count)[...] = TWO[name][0](a, b).astype(dst.dtype.np)
        else:
            dst.flat(count)[...] = ONE[name][0](sources[0].flat(count).astype(np.float64)).astype(dst.dtype.np)
