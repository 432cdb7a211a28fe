"""The bytes an operand covers: strided spans over one memory."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from ascend_sim.isa.buffers import BLOCK, Bytes, View
from ascend_sim.isa.lanes import Lanes, mask_bits

Array = NDArray[Any]


class Span(NamedTuple):
    """``shape`` bytes (last axis contiguous) at ``strides`` from byte ``start`` of a memory (``data`` its bytes);
    ``mask`` selects some of them, ``at`` gives single addresses instead."""

    data: Bytes
    start: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    mask: Array | None = None
    at: Array | None = None

    def of(self, shadow: Array) -> Array:
        """The entries of ``shadow`` (one per byte of the memory): a view unless a mask or index selects."""
        if self.at is not None:
            picked: Array = shadow[self.at]
            return picked
        size = shadow.itemsize
        view = as_strided(shadow[self.start :], self.shape, tuple(s * size for s in self.strides))
        return view if self.mask is None else view[self.mask]

    def fill(self, shadow: Array, value: Any) -> None:
        """Set the entries of ``shadow``; ``value`` may be an array shaped like `of`."""
        if self.at is not None:
            shadow[self.at] = value
            return
        size = shadow.itemsize
        view = as_strided(shadow[self.start :], self.shape, tuple(s * size for s in self.strides))
        if self.mask is None:
            view[...] = value
        else:
            view[self.mask] = value

    @property
    def low(self) -> int:
        """First byte."""
        if self.at is not None:
            return int(self.at.min())
        return self.start + sum(min((n - 1) * s, 0) for n, s in zip(self.shape, self.strides, strict=True))

    @property
    def high(self) -> int:
        """Byte behind the last one."""
        if self.at is not None:
            return int(self.at.max()) + 1
        return self.start + sum(max((n - 1) * s, 0) for n, s in zip(self.shape, self.strides, strict=True)) + 1

    @property
    def contiguous(self) -> bool:
        return self.at is None and self.mask is None and self.high - self.low == prod(self.shape)


def span(data: Bytes, start: int, shape: tuple[int, ...], strides: tuple[int, ...], **rest: Any) -> list[Span]:
    """The span as a list; empty when it covers no byte. Axes of length 1 and adjoining axes are merged."""
    if 0 in shape:
        return []
    merged: list[tuple[int, int]] = []
    if rest:
        return [Span(data, start, shape, strides, **rest)]
    for n, s in zip(reversed(shape), reversed(strides), strict=True):
        if n == 1 and merged:
            continue
        if merged and s == merged[-1][0] * merged[-1][1]:
            merged[-1] = (merged[-1][0] * n, merged[-1][1])
        else:
            merged.append((n, s))
    merged.reverse()
    return [Span(data, start, tuple(n for n, _ in merged), tuple(s for _, s in merged))]


def run(view: View, nbytes: int) -> list[Span]:
    """``nbytes`` contiguous bytes from the start of a view."""
    return span(view.data, view.start, (nbytes,), (1,))


def rows(view: View, count: int, length: int, pitch: int) -> list[Span]:
    """``count`` rows of ``length`` bytes, ``pitch`` bytes apart."""
    return span(view.data, view.start, (count, length), (pitch, 1))


def table(view: View, offsets: Array, width: int) -> list[Span]:
    """``width`` bytes at each of some byte offsets from the start of a view."""
    if not offsets.size:
        return []
    where = (view.start + offsets.reshape(-1, 1).astype(np.int64) + np.arange(width)).reshape(-1)
    return [Span(view.data, view.start, (), (), at=where)]


def _leading(lanes: Lanes) -> int | None:
    """Active leading lanes of each repeat, or None when the mask has gaps."""
    if isinstance(lanes.mask, int):
        return min(lanes.mask, lanes.width)
    bits = mask_bits(lanes.mask, lanes.width)
    count = int(bits.sum())
    return count if bits[:count].all() else None


def lane_spans(view: View, lanes: Lanes, operand: int) -> list[Span]:
    """Active lanes of an operand of a vector instruction."""
    dtype = view.dtype
    if lanes.n >= 0:
        return run(view, (lanes.n * dtype.bits + 7) // 8)
    rep, blk = lanes.rep[operand] * BLOCK, lanes.blk[operand] * BLOCK

    def repeats(first: int, count: int, used: int) -> list[Span]:
        full, rest = divmod(used, dtype.block)
        at = view.start + first * rep
        return [
            *span(view.data, at, (count, full, BLOCK), (rep, blk, 1)),
            *span(view.data, at + full * blk, (count, rest * dtype.size), (rep, 1)),
        ]

    if lanes.total >= 0:
        whole, rest = divmod(lanes.total, lanes.width)
        return [*repeats(0, whole, lanes.width), *(repeats(whole, 1, rest) if rest else ())]
    leading = _leading(lanes)
    if leading is not None:
        return repeats(0, lanes.repeats, leading)
    bits = mask_bits(lanes.mask, lanes.width)
    blocks = -(-lanes.width // dtype.block)
    shape = (lanes.repeats, blocks, BLOCK)
    one = np.zeros(blocks * dtype.block, bool)
    one[: lanes.width] = bits
    mask = np.broadcast_to(np.repeat(one, dtype.size).reshape(blocks, BLOCK), shape)
    return span(view.data, view.start, shape, (rep, blk, 1), mask=mask) if lanes.repeats else []


def nbytes(spans: Iterable[Span]) -> int:
    return sum(s.at.size if s.at is not None else prod(s.shape) for s in spans)
