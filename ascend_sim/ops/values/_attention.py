"""What attention operators share: layouts, visible key ranges, and softmax(Q K^T scale + mask) V block by block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ascend_sim.ops.registry import Array
from ascend_sim.ops.schema import TensorSpec
from ascend_sim.ops.shapes import ShapeError, text
from ascend_sim.ops.values._numeric import float32, narrow

ENDLESS = 2147483647  # of pre_tokens and next_tokens: no limit
COMPRESSED = (2, 3, 4)  # sparse modes whose mask tensor is the 2048 x 2048 triangle
LAYOUTS = ("BSND", "BSH", "BNSD", "SBH", "BNSD_BSND")


@dataclass(frozen=True)
class Heads:
    """A query, key or value tensor: sizes of its axes, whatever the layout."""

    batch: int
    tokens: int
    heads: int
    dim: int


def heads_of(spec: TensorSpec, layout: str, heads: int, name: str) -> Heads:
    """Axes of a tensor in ``layout``. Raises `ShapeError` for a rank or a width that does not fit."""
    shape, layout = spec.logical_shape, layout.partition("_")[0]
    if layout not in LAYOUTS:
        raise ShapeError(f"attribute input_layout is {layout!r}; expected one of {', '.join(LAYOUTS)}")
    if len(shape) != len(layout):
        raise ShapeError(f"{name} is {text(spec)}; expected {len(layout)} axes ({layout})")
    size = dict(zip(layout, shape, strict=True))
    if "H" in size:
        if heads < 1 or size["H"] % heads:
            raise ShapeError(f"{name} is {text(spec)}; expected a width that {heads} heads divide")
        return Heads(size["B"], size["S"], heads, size["H"] // heads)
    if heads and size["N"] != heads:
        raise ShapeError(f"{name} is {text(spec)} with {size['N']} heads; the attributes say {heads}")
    return Heads(size["B"], size["S"], size["N"], size["D"])


def to_bnsd(array: Array, layout: str, heads: int) -> Array:
    """View of a tensor as [batch, heads, tokens, dim]."""
    layout = layout.partition("_")[0]
    if layout == "BNSD":
        return array
    if layout == "SBH":
        array = array.swapaxes(0, 1)
    if layout.endswith("H"):
        array = array.reshape(*array.shape[:2], heads, -1)
    return array.transpose(0, 2, 1, 3)


def from_bnsd(array: Array, layout: str) -> Array:
    """[batch, heads, tokens, dim] in ``layout`` (``BNSD_BSND``: what follows the underscore)."""
    layout = layout.rpartition("_")[2]
    if layout == "BNSD":
        return array
    array = array.transpose(0, 2, 1, 3)
    if layout.endswith("H"):
        array = array.reshape(*array.shape[:2], -1)
    return np.ascontiguousarray(array.swapaxes(0, 1) if layout == "SBH" else array)


@dataclass(frozen=True)
class Band:
    """Keys a query token sees by position: token t of ``q`` sees keys ``t + shift - before .. t + shift + after``."""

    before: int
    after: int
    shift: int

    def hidden(self, q: int, k: int) -> Array | None:
        """[q, k] true where a key is hidden, None when nothing is."""
        if self.before >= q + abs(self.shift) and self.after >= k + abs(self.shift):
            return None
        distance = np.arange(k)[None, :] - np.arange(q)[:, None] - self.shift
        return (distance > self.after) | (distance < -self.before)


def band_of(mode: int, before: int, after: int, q: int, k: int, masked: bool) -> Band:
    """Band of a sparse mode: 0 as given (only with a mask), 1 everything, 2 triangle from the upper left, 3 from the
    lower right corner, 4 a band from the lower right corner. Raises `ShapeError` for other modes."""
    if mode == 2:
        return Band(ENDLESS, 0, 0)
    if mode == 3:
        return Band(ENDLESS, 0, k - q)
    if mode == 4:
        return Band(before, after, k - q)
    if mode in (0, 1):
        return Band(before, after, 0) if masked and mode == 0 else Band(ENDLESS, ENDLESS, 0)
    raise ShapeError(f"attribute sparse_mode is {mode}; expected 0 to 4")


def attend(
    q: Array, k: Array, v: Array, scale: float, hidden: Array | None, shift: Array | None = None
) -> tuple[Array, Array, Array]:
    """Attention of one head group: q [g, s, d] over k, v [t, d] in float32; ``hidden`` [s, t] (or with a leading g)
    marks keys not seen, ``shift`` is added to the scores. Returns (output, row maximum, row sum of exponentials); a
    row that sees nothing gives 0.

    The second product takes its weights in the type of ``v``: flash attention rounds the exponentials (not yet divided
    by their sum, which stays float32) on their way to the cube (hicann/ops-transformer, flash_attention_score)."""
    scores = float32(q) @ float32(k).T
    scores *= np.float32(scale)
    if shift is not None:
        scores = scores + float32(shift)
    if hidden is not None:
        scores = np.where(hidden, np.float32(-np.inf), scores)
    top = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    safe = np.where(np.isfinite(top), top, np.float32(0))
    weight = np.exp(scores - safe)
    total = weight.sum(axis=-1, keepdims=True, dtype=np.float32)
    out = float32(narrow(weight, v.dtype.name)) @ float32(v)
    out = out / np.where(total == 0, np.float32(1), total)
    return out, top[..., 0], total[..., 0]


def lengths(given: Sequence[int] | None, batch: int, full: int, name: str) -> list[int]:
    """Valid tokens of each batch entry: as given (one value serves all), else the whole axis."""
    if given is None or len(given) == 0:
        return [full] * batch
    out = [int(x) for x in given]
    if len(out) == 1:
        out *= batch
    if len(out) != batch or not all(0 <= x <= full for x in out):
        raise ShapeError(f"{name} is {list(given)}; expected {batch} lengths of 0..{full}")
    return out


def mask_rows(mask: Array | None, mode: int, b: int, q: int, k: int) -> Array | None:
    """[q, k] part of an attention mask tensor for batch entry ``b`` (true: hidden), None where the mode implies it."""
    if mask is None or mode in COMPRESSED:
        return None
    plane = mask.reshape(-1, *mask.shape[-2:])
    rows: Array = plane[b % plane.shape[0]][:q, :k].astype(bool)
    return rows


def union(a: Array | None, b: Array | None) -> Array | None:
    if a is None or b is None:
        return b if a is None else a
    return a | b
