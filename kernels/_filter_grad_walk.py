"""How the gradient of a filter is cut, and the loop nest of its kernel.

dW (M x N) = dy^T (M x P) x im2col(x) (P x N): M output channels, N = (input block, tap, C0), reduced over the P
positions of all images. Cores split the output rows of all images, M and N; each computes its tiles of dW over its
own rows, brought to L1 in strips of rows of one image.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from ascend_sim.isa.layout import ceil_div
from ascend_sim.ops.registry import NoKernel

from ._conv_tiling import DMA_CYCLES, FEED_BYTES, LOAD3D_BYTES, ConvProblem, Strip
from ._cube import FRACTAL, balanced, even, runs
from ._exit import ExitPlan, Place
from ._matmul_tiling import CubeBuffers, align

ATOMIC_BYTES = 37  # per cycle and core, when all cores add to memory: fixpipe times of an AlexNet training profile


@dataclass(frozen=True)
class FilterTiling:
    """``split``: cores along (rows of all images, M, N). Tiles of dW are ``tile_m`` blocks of 16 output channels x
    ``tile_n`` blocks of C0 columns; the cube takes ``step`` times 16 positions at a time; strips have at most ``rows``
    output rows, two buffers of ``a_bytes`` (dy) and ``b_bytes`` (x). ``l0c_slots`` accumulators."""

    split: tuple[int, int, int]
    tile_m: int
    tile_n: int
    step: int
    rows: int
    a_bytes: int
    b_bytes: int
    l0c_slots: int


@dataclass(frozen=True)
class FilterPlan:
    """One launch. ``conv``: the forward convolution, n1 blocks of 16 output channels; ``dy_blocks``: blocks of C0
    channels of dy; ``window_loads``: im2col loads take windows (V2); ``exit_c0``: columns of a block of dW as stored;
    ``atomic``: cores add to dW in memory."""

    conv: ConvProblem
    tiling: FilterTiling
    exit: ExitPlan
    dtype: str
    roles: tuple[str, ...]
    dy_blocks: int
    window_loads: bool
    hf32: bool
    exit_c0: int

    @property
    def atomic(self) -> bool:
        return self.tiling.split[0] > 1

    @property
    def c0(self) -> int:
        return 32 // self.conv.item


class Piece(NamedTuple):
    """A strip of one image."""

    image: int
    strip: Strip


class Tile(NamedTuple):
    """(start, count) of a tile of dW: blocks of 16 output channels, and of C0 columns."""

    m: tuple[int, int]
    n: tuple[int, int]


class Unit(NamedTuple):
    """A tile and a strip: what is computed between two transfers."""

    tile: Tile
    piece: Piece
    first: bool
    last: bool


def share(total: int, parts: int, index: int) -> tuple[int, int]:
    """Part ``index`` of ``total`` items, dealt as evenly as possible."""
    size, more = divmod(total, parts)
    return index * size + min(index, more), size + (index < more)


@lru_cache(maxsize=1024)
def pieces_of(p: ConvProblem, most: int, rows: tuple[int, int]) -> tuple[Piece, ...]:
    """Strips of at most ``most`` rows that cover ``rows`` (start, count) of the rows of all images."""
    out = []
    at, end = rows[0], rows[0] + rows[1]
    while at < end:
        image, row = divmod(at, p.ho)
        count = min(p.ho - row, end - at)
        for start, n in balanced(count, most):
            out.append(Piece(image, Strip(row + start, n, *p.input_rows(row + start, n), n * p.wo)))
        at += count
    return tuple(out)


def columns_of(p: ConvProblem) -> int:
    """Blocks of C0 columns of dW."""
    return p.c1 * p.taps


@lru_cache(maxsize=1024)
def core_of(plan: FilterPlan, block: int) -> tuple[tuple[Piece, ...], tuple[Tile, ...]]:
    """Strips and tiles of a block."""
    p, t = plan.conv, plan.tiling
    block, i_n = divmod(block, t.split[2])
    i_k, i_m = divmod(block, t.split[1])
    m, n = share(p.n1, t.split[1], i_m), share(columns_of(p), t.split[2], i_n)
    tiles = tuple(Tile((m[0] + a, b), (n[0] + c, d)) for c, d in even(n[1], t.tile_n) for a, b in even(m[1], t.tile_m))
    return pieces_of(p, t.rows, share(p.batch * p.ho, t.split[0], i_k)), tiles


def input_blocks(p: ConvProblem, tile: Tile) -> tuple[int, int]:
    """(first, count) of the input channel blocks that a tile's columns come from."""
    first = tile.n[0] // p.taps
    return first, ceil_div(tile.n[0] + tile.n[1], p.taps) - first


def signature(plan: FilterPlan, block: int) -> object:
    """Equal for blocks that issue the same instructions."""
    pieces, tiles = core_of(plan, block)
    kinds = tuple(x.strip.kind for x in pieces)
    return kinds, tuple((x.m[1], x.n[1], x.n[0] % plan.conv.taps, rows_of(plan, x)) for x in tiles)


def rows_of(plan: FilterPlan, tile: Tile) -> int:
    """Output channels of a tile that dy has."""
    return min(tile.m[1] * 16, plan.dy_blocks * plan.c0 - tile.m[0] * 16)


def walk(plan: FilterPlan, block: int) -> Iterator[Unit]:
    pieces, tiles = core_of(plan, block)
    kinds = [x.strip.kind for x in pieces]
    shapes = [(x.m[1], x.n[1], x.n[0] % plan.conv.taps, rows_of(plan, x)) for x in tiles]
    for i in runs(shapes):
        for j in runs(kinds):
            yield Unit(tiles[i], pieces[j], j == 0, j + 1 == len(pieces))


def place_of(plan: FilterPlan, tile: Tile) -> Place:
    """Where a tile goes in dW: (columns, output channels, C0)."""
    p, c0 = plan.conv, plan.exit_c0
    height = p.n1 * 16
    columns = tile.n[1] * plan.c0
    offset = tile.n[0] * height * c0 + tile.m[0] * 16 * c0
    return Place(offset, rows_of(plan, tile), tile.m[1] * 16, ceil_div(columns, 16), columns, height * 16, 0)


@lru_cache(maxsize=1024)
def tile_filter(p: ConvProblem, b: CubeBuffers, atomic: bool) -> FilterTiling:
    """The cheapest cut by an estimate of the busiest core. Without ``atomic`` no two cores share a tile of dW. Raises
    NoKernel when one output row does not fit L1 in any way."""
    best: tuple[float, FilterTiling] | None = None
    most = _row_parts(p, b) if atomic else 1
    for k in (most, *range(1, most)):
        for m in range(1, min(p.n1, b.cores // k) + 1):
            n = min(columns_of(p), b.cores // (k * m))
            for tiling in _tilings(p, b, (k, m, n)):
                cost = _cycles(p, b, tiling)
                if best is None or cost < best[0]:
                    best = cost, tiling
        if best is not None:
            break
    if best is None:
        raise NoKernel(f"one output row of {p.wo} and its {p.kh} input rows of {p.w} do not fit L1")
    return best[1]


def _row_parts(p: ConvProblem, b: CubeBuffers) -> int:
    """Parts of the rows of all images. The stock kernel deals rows first: as many parts as keep the exit, which grows
    with them, within half of the cube's time (fixpipe and mac times of an AlexNet training profile, 910B2: 12 parts of
    24 cores for 256 x 3456, 24 for 192 x 1600 and 64 x 968)."""
    c0 = 32 // p.item
    fractals = p.n1 * columns_of(p) * c0 / 16
    cube = fractals * p.batch * p.ho * p.wo / c0 / b.cores
    fits = (k for k in range(1, min(b.cores, p.batch * p.ho) + 1) if b.cores % k == 0)
    return max((k for k in fits if fractals * 1024 * k / b.cores / ATOMIC_BYTES <= cube / 2), default=1)


def _tilings(p: ConvProblem, b: CubeBuffers, split: tuple[int, int, int]) -> Iterator[FilterTiling]:
    c0 = 32 // p.item
    m1, nb = ceil_div(p.n1, split[1]), ceil_div(columns_of(p), split[2])
    rows = min(ceil_div(p.batch * p.ho, split[0]), p.ho)
    per = FRACTAL * 16 // c0  # bytes of 16 x 16 elements
    for slots in (1, 2):
        for parts in (1, 2, 3, 4, 6):
            tile_m = ceil_div(m1, parts)
            most = b.l0c // slots // 1024 // tile_m * 16 // c0
            most = min(most, b.l0b // 2 // per * (16 // c0), nb)
            if most == 0 or tile_m * per * 2 > b.l0a:
                continue
            whole = most // p.taps * p.taps
            for tile_n in {ceil_div(nb, ceil_div(nb, most)), whole} - {0}:
                n1 = ceil_div(tile_n * c0, 16)
                step = min(b.l0a // 2 // (tile_m * per), b.l0b // 2 // (n1 * per))
                blocks = ceil_div(tile_n + p.taps - 1, p.taps) if tile_n % p.taps else tile_n // p.taps
                for most_rows in (rows, ceil_div(rows, 2), ceil_div(rows, 4), ceil_div(rows, 8), 1):
                    height = min((most_rows - 1) * p.sh + p.dh * (p.kh - 1) + 1, p.h)
                    a_bytes = tile_m * 16 * p.item * align(most_rows * p.wo, 16)
                    b_bytes = min(blocks, p.c1) * height * p.w * 32
                    if 2 * (a_bytes + b_bytes) <= b.l1:
                        yield FilterTiling(split, tile_m, tile_n, step, most_rows, a_bytes, b_bytes, slots)
                        break


def _cycles(p: ConvProblem, b: CubeBuffers, t: FilterTiling) -> float:
    """Estimated cycles of the busiest core: the longest of cube, loads to L0 and transfers to L1, then the exit, which
    a single accumulator does not hide."""
    c0 = 32 // p.item
    rows = ceil_div(p.batch * p.ho, t.split[0])
    m1, nb = ceil_div(p.n1, t.split[1]), ceil_div(columns_of(p), t.split[2])
    m_tiles, n_tiles = ceil_div(m1, t.tile_m), ceil_div(nb, t.tile_n)
    positions = rows * p.wo
    n1 = n_tiles * ceil_div(t.tile_n * c0, 16)
    strips = max(ceil_div(rows, t.rows), 1)
    cube = m1 * n1 * positions / c0 + m_tiles * n_tiles * (positions / 16 / t.step + strips) * 8
    stride_cost = min(p.sw, 4)
    load = positions * p.item * 16 * (m1 * n_tiles / LOAD3D_BYTES[b.fixpipe]
                                      + n1 * m_tiles * stride_cost * 2 / LOAD3D_BYTES[b.fixpipe])  # fmt: skip
    dma = m_tiles * n_tiles * strips * (t.a_bytes + t.b_bytes) * rows / (strips * t.rows)
    dma = dma / FEED_BYTES + 2 * m_tiles * n_tiles * strips * DMA_CYCLES
    leave = m1 * n1 * 1024 / ATOMIC_BYTES if t.split[0] > 1 else m1 * n1 * 10
    if t.l0c_slots > 1:
        leave /= m_tiles * n_tiles
    return max(cube, load, dma) + leave + (t.a_bytes + t.b_bytes) / FEED_BYTES
