"""Sliding windows: geometry of convolutions and poolings, padded inputs and strided views of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from ascend_sim.ops.shapes import ints, window_output

Array = NDArray[Any]
Ints = tuple[int, ...]


def spatial(values: Sequence[int], fmt: str) -> Ints:
    """The D, H, W entries of a per-axis list written in ``fmt`` order."""
    return tuple(v for v, letter in zip(values, fmt, strict=True) if letter in "DHW")


def channels_last(fmt: str) -> bool:
    return fmt.endswith("C")


def to_channels_first(x: Array, fmt: str) -> Array:
    return np.moveaxis(x, -1, 1) if channels_last(fmt) else x


def full_shape(n: int, c: int, out: Sequence[int], fmt: str) -> Ints:
    """[N, C, spatial...] in the axis order of ``fmt``."""
    return (n, *out, c) if channels_last(fmt) else (n, c, *out)


@dataclass(frozen=True)
class Window:
    """Kernel, strides and dilations per spatial axis; pads as [before, after] pairs per axis in a row."""

    kernel: Ints
    strides: Ints
    dilations: Ints
    pads: Ints

    @classmethod
    def of_conv(cls, kernel: Sequence[int], get: Any, fmt: str) -> Window:
        """From the attributes of a convolution; ``get(name, default)`` reads one."""
        n = len(fmt)
        return cls(
            tuple(kernel),
            spatial(ints(get("strides", [1] * n), "strides", n), fmt),
            spatial(ints(get("dilations", [1] * n), "dilations", n), fmt),
            tuple(ints(get("pads", [0] * (2 * n - 4)), "pads", 2 * n - 4)),
        )

    @property
    def pointwise(self) -> bool:
        return all(k == 1 for k in self.kernel)

    def out(self, size: Sequence[int], *, ceil: bool = False) -> Ints:
        """Output size; raises ShapeError when the window does not fit."""
        return tuple(window_output(s, self, i, ceil=ceil) for i, s in enumerate(size))

    def pad(self, x: Array, kind: Any, fill: float = 0, out: Sequence[int] | None = None) -> Array:
        """``x`` [N, C, spatial...] in type ``kind`` with ``fill`` around the spatial axes.

        With ``out`` given the far end is extended so that all those windows fit (ceil mode)."""
        size = x.shape[2:]
        before = self.pads[0::2]
        ends = [b + s + a for b, s, a in zip(before, size, self.pads[1::2], strict=True)]
        if out is not None:
            spans = zip(out, self.kernel, self.strides, self.dilations, strict=True)
            ends = [max(e, (o - 1) * t + d * (k - 1) + 1) for e, (o, k, t, d) in zip(ends, spans, strict=True)]
        if list(size) == ends and not any(before):
            return x if x.dtype == kind else x.astype(kind)
        shape = (*x.shape[:2], *ends)
        padded = np.full(shape, fill, kind) if fill else np.zeros(shape, kind)
        inner = tuple(slice(b, b + s) for b, s in zip(before, size, strict=True))
        padded[(slice(None), slice(None), *inner)] = x
        return padded

    def view(self, padded: Array, out: Sequence[int]) -> Array:
        """View [N, C, kernel..., out...] of a padded input."""
        own = padded.strides[2:]
        taps = (s * d for s, d in zip(own, self.dilations, strict=True))
        steps = (s * t for s, t in zip(own, self.strides, strict=True))
        shape = (*padded.shape[:2], *self.kernel, *out)
        return as_strided(padded, shape, (*padded.strides[:2], *taps, *steps), writeable=False)
