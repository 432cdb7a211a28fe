"""Geometry and loop nest of the transposed convolution: phases, strips, tiles, and where each tile goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from ascend_sim.isa.layout import ceil_div

from ._cube import even, runs
from ._exit import ExitPlan


@dataclass(frozen=True)
class DeconvProblem:
    """x (batch, C1, H, W, 16) to y (batch, N1, Ho, Wo, 16); ``top`` and ``left`` pads of the forward convolution."""

    batch: int
    c1: int
    h: int
    w: int
    n1: int
    ho: int
    wo: int
    kh: int
    kw: int
    sh: int
    sw: int
    top: int
    left: int

    @property
    def rows(self) -> tuple[int, int]:
        """Range of q = (y + top) // sh over the output rows."""
        return self.top // self.sh, (self.ho - 1 + self.top) // self.sh + 1

    @property
    def columns(self) -> tuple[int, int]:
        return self.left // self.sw, (self.wo - 1 + self.left) // self.sw + 1

    @property
    def phases(self) -> list[tuple[int, int]]:
        return [(r, c) for r in range(self.sh) for c in range(self.sw)]

    def taps(self, phase: tuple[int, int]) -> tuple[int, int]:
        """Filter rows and columns of a phase."""
        return ceil_div(self.kh - phase[0], self.sh), ceil_div(self.kw - phase[1], self.sw)


@dataclass(frozen=True)
class DeconvTiling:
    """``split``: cores along (batch, q rows, output blocks). A strip of ``strip`` q rows and the weights of ``tile_n``
    output blocks are in L1; cube tiles are ``tile_m`` x ``tile_n`` fractals, ``step_k`` of the reduction at a time."""

    split: tuple[int, int, int]
    strip: int
    tile_n: int
    tile_m: int
    step_k: int
    a_bytes: int
    w_bytes: int
    w_slots: int


@dataclass(frozen=True)
class DeconvPlan:
    problem: DeconvProblem
    tiling: DeconvTiling
    exit: ExitPlan
    dtype: str
    roles: tuple[str, ...]
    load3d_v2: bool
    channels: int

    @property
    def l0c(self) -> int:
        return self.tiling.tile_m * self.tiling.tile_n * 1024


class Segment(NamedTuple):
    """Consecutive rows of a tile that go to every ``stride``-th pixel of one output row."""

    local: int
    count: int
    pixel: int


class PhasePlace(NamedTuple):
    """Where a tile goes: see `ascend_sim.kernels._exit.Place`; rows by ``segments``."""

    offset: int
    mp: int
    n1: int
    pitch: int
    column: int
    stride: int
    segments: tuple[Segment, ...]


class Strip(NamedTuple):
    """q rows [start, stop) and input rows [low, high) in L1."""

    start: int
    stop: int
    low: int
    high: int


class View(NamedTuple):
    """A phase's convolution over a strip: pads, virtual width, first and last row it needs, q of row and column 0."""

    pads: tuple[int, int, int, int]
    width: int
    first: int
    last: int
    q_row: int
    q_column: int


@lru_cache(maxsize=4096)
def view_of(p: DeconvProblem, strip: Strip, phase: tuple[int, int]) -> View:
    jh, jw = p.taps(phase)
    above = max(0, jh - 1 + strip.low - strip.start)
    below = max(0, strip.stop - strip.high)
    x0, x1 = p.columns
    left, right = max(0, jw - 1 - x0), max(0, x1 - p.w)
    first = strip.start - (jh - 1) - strip.low + above
    return View(
        (left, right, above, below), p.w + left + right - jw + 1, first, first + strip.stop - strip.start,
        strip.low - above + jh - 1, jw - 1 - left,
    )  # fmt: skip


@lru_cache(maxsize=1 << 14)
def segments_of(p: DeconvProblem, view: View, phase: tuple[int, int], m: int, size: int) -> tuple[Segment, ...]:
    """Valid output rows of positions [m, m + size) of a phase's convolution."""
    out = []
    for v in range(max(m // view.width, view.first), min(ceil_div(m + size, view.width), view.last)):
        y = (v + view.q_row) * p.sh + phase[0] - p.top
        if not 0 <= y < p.ho:
            continue
        low, high = max(m - v * view.width, 0), min(m + size - v * view.width, view.width)
        shift = view.q_column * p.sw + phase[1] - p.left  # x of column 0
        low = max(low, ceil_div(-shift, p.sw))
        high = min(high, ceil_div(p.wo - shift, p.sw))
        if high > low:
            out.append(Segment(v * view.width + low - m, high - low, y * p.wo + shift + low * p.sw))
    return tuple(out)


class Share(NamedTuple):
    """What one core computes: (start, count) of images, q rows and output blocks."""

    images: tuple[int, int]
    rows: tuple[int, int]
    blocks: tuple[int, int]


def share_of(p: DeconvProblem, t: DeconvTiling, block: int) -> Share:
    block, i_n = divmod(block, t.split[2])
    i_b, i_r = divmod(block, t.split[1])
    q0, q1 = p.rows

    def part(total: int, cores: int, index: int, start: int = 0) -> tuple[int, int]:
        size = ceil_div(total, cores)
        return start + index * size, max(min(size, total - index * size), 0)

    return Share(part(p.batch, t.split[0], i_b), part(q1 - q0, t.split[1], i_r, q0), part(p.n1, t.split[2], i_n))


@lru_cache(maxsize=1024)
def strips_of(p: DeconvProblem, t: DeconvTiling, rows: tuple[int, int]) -> tuple[Strip, ...]:
    most = max(p.taps((0, 0))[0], 1)
    out = []
    for start, n in even(rows[1], t.strip):
        q = rows[0] + start
        low = min(max(q - most + 1, 0), p.h - 1)
        out.append(Strip(q, q + n, low, max(min(q + n, p.h), low + 1)))
    return tuple(out)


class Unit(NamedTuple):
    """One cube tile of one phase."""

    image: int
    n: tuple[int, int]
    strip: Strip
    phase: tuple[int, int]
    m: tuple[int, int]  # first position, fractals
    load_w: bool
    load_a: bool
    last_a: bool
    last_w: bool
    index: int


def strip_kind(p: DeconvProblem, strip: Strip) -> tuple[Any, ...]:
    """Equal for strips that issue the same instructions."""
    return (strip.stop - strip.start, strip.high - strip.low, *(view_of(p, strip, f) for f in p.phases)) if (
        strip.start == p.rows[0] or strip.stop >= p.h
    ) else (strip.stop - strip.start, strip.high - strip.low)  # fmt: skip


@lru_cache(maxsize=1024)
def tiles_of(p: DeconvProblem, strip: Strip, tile_m: int) -> tuple[tuple[tuple[int, int], tuple[int, int]], ...]:
    """(phase, (first position, fractals)) of a strip's tiles."""
    out = []
    for phase in p.phases:
        view = view_of(p, strip, phase)
        start = view.first * view.width // 16
        stop = ceil_div(view.last * view.width, 16)
        out += [(phase, ((start + at) * 16, n)) for at, n in even(stop - start, tile_m)]
    return tuple(out)


def walk(plan: DeconvPlan, share: Share) -> Iterator[Unit]:
    p, t = plan.problem, plan.tiling
    strips = strips_of(p, t, share.rows)
    chunks = [(share.blocks[0] + at, n) for at, n in even(share.blocks[1], t.tile_n)]
    counts = [len(tiles_of(p, s, t.tile_m)) for s in strips]
    kinds = [strip_kind(p, s) for s in strips]
    for c in runs([n for _, n in chunks]):
        for i in runs([0] * share.images[1]):
            for s in runs(kinds):
                tiles = tiles_of(p, strips[s], t.tile_m)
                base = (c * share.images[1] + i) * sum(counts) + sum(counts[:s])
                for k, (phase, m) in enumerate(tiles):
                    first, last = k == 0, k + 1 == len(tiles)
                    yield Unit(
                        share.images[0] + i, chunks[c], strips[s], phase, m, first and i == 0 and s == 0, first, last,
                        last and i + 1 == share.images[1] and s + 1 == len(strips), base + k,
                    )  # fmt: skip


def place_of(plan: DeconvPlan, share: Share, unit: Unit) -> PhasePlace:
    p = plan.problem
    plane = p.ho * p.wo
    view = view_of(p, unit.strip, unit.phase)
    return PhasePlace(
        (unit.image * p.n1 + unit.n[0]) * plane * 16, unit.m[1] * 16, unit.n[1], plane * 16,
        (unit.n[0] - share.blocks[0]) * 16, p.sw, segments_of(p, view, unit.phase, unit.m[0], unit.m[1] * 16),
    )  # fmt: skip


def signature(plan: DeconvPlan, block: int) -> tuple[Any, ...]:
    """Equal for blocks that issue the same instructions."""
    share = share_of(plan.problem, plan.tiling, block)
    strips: Sequence[Strip] = strips_of(plan.problem, plan.tiling, share.rows) if share.rows[1] > 0 else ()
    return share.images[1], share.blocks[1], tuple(strip_kind(plan.problem, s) for s in strips)
