"""The loop nest of the convolution kernel: tiles of a core in order, and where each goes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from ascend_sim.isa.layout import ceil_div

from ._conv_tiling import ConvProblem, ConvTiling, Core, Strip, core_of, strips_of
from ._cube import even, runs
from ._exit import ExitPlan, Place


@dataclass(frozen=True)
class Image:
    """8-bit images [N, rows, columns, pixel bytes]: the window from (``top``, ``left``) is the feature map, channel i
    of which is source byte ``order[i]``, less ``offset[i]``, times ``scale[i]``."""

    rows: int
    columns: int
    pixel: int
    top: int
    left: int
    order: tuple[int, ...]
    offset: tuple[float, ...]
    scale: tuple[float, ...]


@dataclass(frozen=True)
class Pool:
    """Max pooling behind the convolution: ``size`` x ``size`` windows every ``stride``, ``pad`` before; ``rows`` and
    ``columns`` of its result."""

    size: int
    stride: int
    pad: int
    rows: int
    columns: int


@dataclass(frozen=True)
class ConvPlan:
    """One launch. ``load3d_v2``: the chip has the window form of load3d; ``l0a``, ``l0b``, ``l0c`` bytes of a slot;
    ``roles``: what the kernel's arguments are (``x``, ``w``, ``bias``, ``extra``, ``y``, ``work``);
    ``channels``: output channels; ``a_parts``, ``w_parts``: pieces in which a strip and a chunk come to L1;
    ``out_c0``, ``out_c1``: channels of a block of y, and blocks; ``hf32``: float32 is rounded for speed; ``image``: x
    holds 8-bit pixels that are preprocessed on the way to L1."""

    problem: ConvProblem
    tiling: ConvTiling
    exit: ExitPlan
    dtype: str
    roles: tuple[str, ...]
    load3d_v2: bool
    l0a: int
    l0b: int
    l0c: int
    l0c_slots: int
    channels: int
    a_parts: int = 1
    w_parts: int = 1
    out_c0: int = 16
    out_c1: int = 0
    hf32: bool = False
    image: Image | None = None
    pool: Pool | None = None

    def core(self, block: int) -> Core:
        """Work of a block. With pooling, blocks divide its rows, and compute two rows before their own for what the
        windows reach back to."""
        core = core_of(self.problem, self.tiling, block)
        if self.pool is None:
            return core
        parts = self.tiling.split[2]
        size = ceil_div(self.pool.rows, parts)
        first = block % parts * size
        count = max(min(size, self.pool.rows - first), 0)
        lead = 2 if first and count else 0
        begin = first * self.pool.stride - lead
        stop = min((first + count) * self.pool.stride, self.problem.ho)
        return replace(core, rows=(begin, max(stop - begin, 0) if count else 0), lead=lead)

    @property
    def depth(self) -> int:
        """Units whose loads are issued ahead: one less than the buffers of what is loaded more than once."""
        slots = [n for n in (self.tiling.a_slots, self.tiling.w_slots) if n > 1]
        return min(slots, default=2) - 1

    @property
    def c0(self) -> int:
        return 32 // self.problem.item

    @property
    def stored(self) -> int:
        """Channels of a pixel and input block in L1."""
        return 4 if self.problem.small else self.c0


class Tile(NamedTuple):
    """One cube tile: ``m`` and ``n`` (first, count) in fractals of the strip (of each of its ``images``, from ``image``
    on) and in output blocks of the group. The flags say what must be brought to L1 before it and is done with after.
    """

    image: int
    images: int
    group: int
    strip: Strip
    chunk: tuple[int, int]
    m: tuple[int, int]
    n: tuple[int, int]
    load_a: bool
    load_w: bool
    last_a: bool
    last_w: bool
    index: int


class Part(NamedTuple):
    """A stretch of a tile along the reduction: input blocks [c, c + count)."""

    tile: Tile
    c: int
    count: int
    first: bool
    last: bool


class Shape(NamedTuple):
    """Height in fractals, width in blocks and first bias column of a tile (for work ahead of it)."""

    m1: int
    n1: int
    column: int


@lru_cache(maxsize=1024)
def chunks_of(size: int, chunk: int) -> list[tuple[int, int]]:
    return even(size, chunk)


def tiles_of(plan: ConvPlan, strip: Strip, chunk: tuple[int, int]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """(m, n) tiles of a strip and a chunk, rows fastest."""
    t = plan.tiling
    m1 = ceil_div(strip.m, 16)
    heights = [(0, m1)] if t.images > 1 else even(m1, t.tile_m)
    return [(m, (chunk[0] + a, n)) for a, n in even(chunk[1], t.tile_n) for m in heights]


def walk(plan: ConvPlan, core: Core) -> Iterator[Tile]:
    """Tiles of a core in the order in which they are computed."""
    p, t = plan.problem, plan.tiling
    strips = strips_of(p, t.strip_rows, core.rows, core.lead)
    chunks = [(core.blocks[0] + a, n) for a, n in even(core.blocks[1], t.chunk_n1)]
    rows = [1 if t.images > 1 else ceil_div(ceil_div(s.m, 16), t.tile_m) for s in strips]
    columns = [ceil_div(n, t.tile_n) for _, n in chunks]
    per_strip, per_image = sum(columns), sum(rows) * sum(columns)
    images = even(core.images[1], t.images)
    counts = [n for _, n in images]
    kinds = [s.kind for s in strips]
    sizes = [n for _, n in chunks]
    for g in runs([0] * core.groups[1]):
        group = core.groups[0] + g
        base_g = g * len(images) * per_image
        if t.weights_outer:
            for c in runs(sizes):
                base_c = base_g + sum(columns[:c]) * sum(rows) * len(images)
                for i in runs(counts):
                    for s in runs(kinds):
                        base = base_c + columns[c] * (i * sum(rows) + sum(rows[:s]))
                        one = len(images) * len(strips) == 1
                        yield from _tiles(
                            plan, (core.images[0] + images[i][0], counts[i]), group, strips[s], chunks[c], base,
                            load_a=not (one and c > 0), last_a=not one or c + 1 == len(chunks),
                            load_w=i == 0 and s == 0, last_w=i + 1 == len(images) and s + 1 == len(strips),
                        )  # fmt: skip
        else:
            for i in runs(counts):
                for s in runs(kinds):
                    base_s = base_g + i * per_image + sum(rows[:s]) * per_strip
                    for c in runs(sizes):
                        one = len(chunks) == 1
                        ends = i + 1 == len(images) and s + 1 == len(strips)
                        yield from _tiles(
                            plan, (core.images[0] + images[i][0], counts[i]), group, strips[s], chunks[c],
                            base_s + rows[s] * sum(columns[:c]),
                            load_a=c == 0, last_a=c + 1 == len(chunks),
                            load_w=not one or (i == 0 and s == 0), last_w=not one or ends,
                        )  # fmt: skip


def _tiles(
    plan: ConvPlan, images: tuple[int, int], group: int, strip: Strip, chunk: tuple[int, int], base: int, *,
    load_a: bool, last_a: bool, load_w: bool, last_w: bool,
) -> Iterator[Tile]:  # fmt: skip
    tiles = tiles_of(plan, strip, chunk)
    end = len(tiles) - 1
    for i in runs([(m[1], n[1], load_w and m[0] == 0) for m, n in tiles]):
        m, n = tiles[i]
        yield Tile(
            *images, group, strip, chunk, m, n, load_a and i == 0, load_w and i == 0, last_a and i == end,
            last_w and i == end, base + i,
        )  # fmt: skip


def _higher(shape: Shape, images: int) -> Shape:
    return shape._replace(m1=shape.m1 * images)


@lru_cache(maxsize=256)
def shapes_of(plan: ConvPlan, core: Core) -> list[Shape]:
    """Shape of every tile of a core, by index (for the bias, which is placed ahead)."""
    p, t = plan.problem, plan.tiling
    strips = strips_of(p, t.strip_rows, core.rows, core.lead)
    chunks = [(core.blocks[0] + a, n) for a, n in even(core.blocks[1], t.chunk_n1)]
    first = 0 if p.groups > 1 else core.blocks[0]
    sets = [n for _, n in even(core.images[1], t.images)]
    per = {
        (s, c): [Shape(m[1], n[1], (n[0] - first) * 16) for m, n in tiles_of(plan, s, c)]
        for s in set(strips) for c in chunks
    }  # fmt: skip
    if t.weights_outer:
        one = [_higher(x, k) for c in chunks for k in sets for s in strips for x in per[s, c]]
    else:
        one = [_higher(x, k) for k in sets for s in strips for c in chunks for x in per[s, c]]
    step = p.n1 * 16
    return [x._replace(column=x.column + g * step) for g in range(core.groups[1]) for x in one]


def place_of(plan: ConvPlan, core: Core, tile: Tile) -> Place:
    """Where a tile goes in y, and its bias columns counted from the core's first."""
    p = plan.problem
    plane, c0 = p.ho * p.wo, plan.out_c0
    first, rows = tile.m[0] * 16, tile.m[1] * 16
    block = (tile.group * p.n1 + tile.n[0]) * 16 // c0
    offset = ((tile.image * plan.out_c1 + block) * plane + tile.strip.row * p.wo + first) * c0
    left = ceil_div(plan.channels, c0) * c0 - block * c0
    return Place(
        offset, min(rows, tile.strip.m - first), rows * tile.images, tile.n[1], min(tile.n[1] * 16, left), plane * 16,
        _column(plan, core, tile), tile.images, rows, plan.out_c1 * plane * c0,
    )  # fmt: skip


def _column(plan: ConvPlan, core: Core, tile: Tile) -> int:
    if plan.problem.groups > 1:
        return ((tile.group - core.groups[0]) * plan.problem.n1 + tile.n[0]) * 16
    return (tile.n[0] - core.blocks[0]) * 16


def own_columns(plan: ConvPlan, core: Core) -> int:
    if plan.problem.groups > 1:
        return core.groups[1] * plan.problem.n1 * 16
    return core.blocks[1] * 16


def bias_columns(problem: ConvProblem, tiling: ConvTiling) -> int:
    """Columns whose bias a core keeps: those it computes, all channels of its groups when there are several."""
    groups, blocks = ceil_div(problem.groups, tiling.split[1]), ceil_div(problem.n1, tiling.split[3])
    return groups * problem.n1 * 16 if problem.groups > 1 else blocks * 16
