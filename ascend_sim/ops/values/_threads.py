"""One BLAS thread for products too small to share.

OpenBLAS workers spin between calls: over the many middle-sized products of a network they cost several times the
arithmetic in processor time, and more than that in waiting when other programs run. Products of at least ``SHARED``
multiply-accumulates keep all threads. Without an OpenBLAS of NumPy's own nothing is changed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from math import prod
from pathlib import Path

import numpy as np

from ascend_sim.ops.schema import OpCall

SHARED = 1 << 31
_NAMES = (
    ("scipy_openblas_get_num_threads64_", "scipy_openblas_set_num_threads64_"),
    ("openblas_get_num_threads64_", "openblas_set_num_threads64_"),
    ("openblas_get_num_threads", "openblas_set_num_threads"),
)


@lru_cache(maxsize=1)
def _controls() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """Getter and setter of the thread count of the OpenBLAS inside NumPy's wheel, if there is one."""
    for path in sorted(Path(np.__file__).parent.parent.joinpath("numpy.libs").glob("*openblas*")):
        try:
            library = ctypes.CDLL(str(path))
        except OSError:
            continue
        for getter, setter in _NAMES:
            if hasattr(library, getter) and hasattr(library, setter):
                get, put = getattr(library, getter), getattr(library, setter)
                get.restype, put.restype, put.argtypes = ctypes.c_int, None, [ctypes.c_int]
                return get, put
    return None


def small(call: OpCall) -> bool:
    """Whether output elements x what each multiplies (by the shape of the second operand) stay below ``SHARED``."""
    specs = [s for s in call.inputs[:2] if s is not None]
    if len(specs) < 2 or not call.outputs:
        return True
    weight = specs[1].logical_shape
    depth = prod(weight[1:]) if len(weight) > 2 else max(weight, default=1)
    return prod(call.outputs[0].logical_shape) * depth < SHARED


@contextmanager
def limited(call: OpCall) -> Iterator[None]:
    """Values of ``call`` inside run with one BLAS thread when the product is small."""
    controls = _controls() if small(call) else None
    before = controls[0]() if controls else 1
    if controls is None or before == 1:
        yield
        return
    controls[1](1)
    try:
        yield
    finally:
        controls[1](before)
