"""Elementwise work in pieces that stay in cache: widen, compute and round piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.ops.dtypes import numpy_dtype
from ascend_sim.ops.values._numeric import narrow, round_into, widen

Array = NDArray[Any]
BLOCK_ELEMENTS = 1 << 15


def pieces(shape: Sequence[int], limit: int) -> Iterator[tuple[slice, ...]]:
    """Indices that cut ``shape`` into contiguous pieces of about ``limit`` elements."""
    inner, axis = 1, len(shape)
    while axis and inner * shape[axis - 1] <= limit:
        axis -= 1
        inner *= shape[axis]
    if not axis:
        yield (slice(None),) * len(shape)
        return
    axis -= 1
    step = max(1, limit // inner)
    rest = (slice(None),) * (len(shape) - axis - 1)
    for lead in product(*(range(n) for n in shape[:axis])):
        for start in range(0, shape[axis], step):
            yield (*(slice(i, i + 1) for i in lead), slice(start, start + step), *rest)


def _part(x: Array, index: tuple[slice, ...]) -> Array:
    """The part of a broadcast operand (same number of axes) that goes with an index."""
    return x[tuple(slice(None) if n == 1 else i for n, i in zip(x.shape, index, strict=True))]


def elementwise(function: Callable[..., Any], operands: Sequence[Array], shape: Sequence[int], dtype: str) -> Array:
    """``function`` of the widened operands, which broadcast to ``shape``, rounded once to ``dtype``."""
    if not len(shape):  # functions may write into their results, which 0-d ones are not
        return elementwise(function, [x.reshape(1) for x in operands], (1,), dtype).reshape(())
    size = int(np.prod(shape))
    with np.errstate(all="ignore"):
        if size <= BLOCK_ELEMENTS:
            y = narrow(np.asarray(function(*(widen(x) for x in operands))), dtype)
            return y if y.shape == tuple(shape) else np.array(np.broadcast_to(y, shape))
        aligned = [x.reshape((1,) * (len(shape) - x.ndim) + x.shape) for x in operands]
        out = np.empty(shape, numpy_dtype(dtype))
        for index in pieces(shape, BLOCK_ELEMENTS):
            round_into(np.asarray(function(*(widen(_part(x, index)) for x in aligned))), out[index])
    return out
