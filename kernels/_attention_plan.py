"""How attention is cut: blocks of query rows, tiles of keys, and which core computes which tiles.

Rules of the stock FusedInferAttentionScore template for 16-bit types (hicann/ops-transformer, restated): the query
heads that share a key head are folded into the rows; a tile is up to 512 rows x 512 keys (few rows: fewer rows, more
keys); tiles wholly hidden by a causal mask are left out; the list of tiles is dealt to the cube cores in contiguous
runs of about equal cost, also through the keys of one block, whose parts are then combined (flash decode).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ascend_sim import asc
from ascend_sim.isa.layout import ceil_div

from ._cube import even
from ._vector import align

STRIP = 8192  # scores of one vector pass: 32 KB of float32
LANES = 64


class Strides(NamedTuple):
    """Elements between neighbours of a tensor along batch, token and head."""

    batch: int
    token: int
    head: int


class Tile(NamedTuple):
    """Rows [m0, m0 + m) of a (batch, key head) times keys [s0, s0 + w). ``first`` / ``last`` of the keys this core
    does for the block; ``masked``: crosses what is hidden; ``part``: slot of a partial result, -1 when the core does
    all keys; ``turn``: number of the block on this core."""

    batch: int
    head: int
    m0: int
    m: int
    s0: int
    w: int
    first: bool
    last: bool
    masked: bool
    part: int
    turn: int

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for tiles that issue the same instructions."""
        return self.m, self.w, self.first, self.last, self.masked, self.part >= 0


class Join(NamedTuple):
    """Rows [row, row + rows) of a block whose keys several cores shared: combine the partial results ``parts``."""

    batch: int
    head: int
    m0: int
    row: int
    rows: int
    parts: tuple[int, ...]


@dataclass(frozen=True)
class AttentionPlan:
    """One launch.

    ``fold``: query heads in the rows of a block (1: none); ``group``: query heads per key head; ``token_major``: rows
    are token x fold + head, else head x tokens + token. ``d``, ``rope``, ``dv``: widths of query and key, of their
    rotary part, of value. ``mask``: ``""``, ``compressed`` (the 2048 x 2048 triangle) or ``full``; ``mask_shape``: its
    matrices, rows and pitch. ``shifts``: last visible key of token t is t + shift, per batch entry.
    ``work``: tiles of each core; ``joins``: rows to combine, per vector core. ``rows_out``: write row maxima and sums.
    """

    dtype: str
    d: int
    rope: int
    dv: int
    fold: int
    group: int
    token_major: bool
    scale: float
    tile_m: int
    tile_s: int
    mask: str
    mask_shape: tuple[int, int, int]
    q_lengths: tuple[int, ...]
    shifts: tuple[int, ...]
    q: Strides
    k: Strides
    v: Strides
    o: Strides
    q_rope: Strides
    k_rope: Strides
    roles: tuple[str, ...]
    work: tuple[tuple[Tile, ...], ...]
    joins: tuple[tuple[Join, ...], ...]
    rows_out: tuple[int, int] | None

    @property
    def cores(self) -> int:
        return len(self.work)

    @property
    def chunks(self) -> list[tuple[bool, int, int]]:
        """Pieces of the query and key width as L1 holds them: (of the rotary part, start, width)."""
        return [(False, *c) for c in even(self.d, 256)] + [(True, *c) for c in even(self.rope, 256)]

    def head_of(self, tile: Tile | Join) -> int:
        """Key head of a tile (``head`` counts query heads when they are not folded)."""
        return tile.head if self.fold > 1 or self.group == 1 else tile.head // self.group

    def rows(self, tile: Tile | Join, row: int, count: int) -> Iterator[tuple[int, int, int, int, int]]:
        """Pieces of rows [row, row + count) of a block with regular strides: (row of the piece, token, folded head,
        tokens, folded heads)."""
        if self.fold == 1:
            yield 0, tile.m0 + row, 0, count, 1
            return
        inner = self.fold if self.token_major else self.q_lengths[tile.batch]
        at, start = 0, tile.m0 + row
        while at < count:
            outer, offset = divmod(start + at, inner)
            whole = (count - at) // inner if not offset else 0
            lead = inner if whole else min(inner - offset, count - at)
            number = max(whole, 1)
            if self.token_major:
                yield at, outer, offset, number, lead
            else:
                yield at, offset, outer, lead, number
            at += number * lead

    def token(self, tile: Tile, row: int) -> int:
        """Query token of a row of a block."""
        at = tile.m0 + row
        if self.fold == 1:
            return at
        return at // self.fold if self.token_major else at % self.q_lengths[tile.batch]

    def query_head(self, tile: Tile | Join) -> int:
        """First query head of a block."""
        return tile.head * self.fold


def cut_rows(tokens: int, fold: int, tile_m: int) -> list[tuple[int, int]]:
    """(start, rows) of the blocks of one (batch, key head)."""
    return even(tokens * fold, tile_m)


def tile_sizes(tokens: int, group: int, keys: int, masked: bool) -> tuple[int, int]:
    """Rows and keys of a tile: 512 x 512 above 16 query tokens; else the more keys the fewer rows."""
    if tokens > 16:
        return 512, 512
    s = (8192, 4096, 2048)[min(group // 5, 2)]
    if masked:
        s = min(s, 1024)
    s = min(s, align(keys, LANES))
    for limit, m in ((512, 512), (1024, 256), (2048, 128), (4096, 64)):
        if s <= limit:
            return m, s
    return 32, s


class _Block(NamedTuple):
    batch: int
    head: int
    m0: int
    m: int
    tiles: tuple[tuple[int, int, bool], ...]


def blocks_of(
    heads: int, fold: int, token_major: bool, tile_m: int, tile_s: int, q_lengths: Sequence[int],
    k_lengths: Sequence[int], shifts: Sequence[int] | None, all_masked: bool,
) -> list[_Block]:  # fmt: skip
    """Blocks in order of batch, head, rows, each with its tiles (first key, keys, masked). ``shifts``: keys beyond
    token + shift are hidden."""
    out = []
    for b, (tokens, keys) in enumerate(zip(q_lengths, k_lengths, strict=True)):
        for h in range(heads):
            for m0, m in cut_rows(tokens, fold, tile_m):
                if token_major or fold == 1:
                    first, last = m0 // fold, (m0 + m - 1) // fold
                else:
                    first, last = m0 % tokens, (m0 + m - 1) % tokens
                    if first + m > tokens:  # rows of more than one head
                        first, last = 0, tokens - 1
                end = keys if shifts is None else min(keys, last + shifts[b] + 1)
                stop = min(ceil_div(max(end, 1), tile_s) * tile_s, keys)
                tiles = tuple(
                    (s0, w, all_masked or (shifts is not None and s0 + w - 1 > first + shifts[b]))
                    for s0, w in even(stop, tile_s)
                )
                out.append(_Block(b, h, m0, m, tiles))
    return out


def deal(
    blocks: Sequence[_Block], cores: int, split: bool
) -> tuple[tuple[tuple[Tile, ...], ...], tuple[tuple[Join, ...], ...]]:
    """Contiguous runs of tiles of about equal cost, one per core, and the joins of blocks that were cut. The cost of a
    tile is 6 per 16 rows and 10 per 64 keys. Without ``split`` blocks stay whole."""
    items = [(i, tile, _cost(block.m, tile[1])) for i, block in enumerate(blocks) for tile in block.tiles]
    if not split:
        items = [(i, block.tiles, sum(_cost(block.m, t[1]) for t in block.tiles)) for i, block in enumerate(blocks)]  # type: ignore[misc]
    runs = _even_runs([cost for _, _, cost in items], cores)
    held: list[list[tuple[int, Any]]] = [[] for _ in runs]
    for run, (start, stop) in zip(held, runs, strict=True):
        for i, tiles, _ in items[start:stop]:
            run.extend((i, t) for t in ((tiles,) if split else tiles))
    owners: dict[int, list[int]] = {}
    for core, run in enumerate(held):
        for i, _ in run:
            found = owners.setdefault(i, [])
            if not found or found[-1] != core:
                found.append(core)
    work: list[tuple[Tile, ...]] = []
    parts: dict[int, dict[int, None]] = {}
    for core, run in enumerate(held):
        tiles_of_core, turn = [], -1
        for at, (i, (s0, w, masked)) in enumerate(run):
            first = at == 0 or run[at - 1][0] != i
            last = at + 1 == len(run) or run[at + 1][0] != i
            turn += first
            part = -1
            if len(owners[i]) > 1:
                part = 2 * core + (0 if at == 0 or run[0][0] == i else 1)
                parts.setdefault(i, {})[part] = None
            b = blocks[i]
            tiles_of_core.append(Tile(b.batch, b.head, b.m0, b.m, s0, w, first, last, masked, part, turn))
        work.append(tuple(tiles_of_core))
    return tuple(work), _joins(blocks, {i: tuple(found) for i, found in parts.items()}, 2 * len(work))


def _cost(m: int, w: int) -> int:
    return 6 * ceil_div(m, 16) + 10 * ceil_div(w, 64)


def _even_runs(costs: Sequence[int], cores: int) -> list[tuple[int, int]]:
    """Cut a list into at most ``cores`` contiguous runs whose sums are close to the mean of what is left."""
    runs: list[tuple[int, int]] = []
    start, left = 0, sum(costs)
    while start < len(costs):
        room = cores - len(runs)
        target, stop, total = left / room, start, 0
        while stop < len(costs) and (stop == start or room == 1 or total + costs[stop] / 2 <= target):
            total += costs[stop]
            stop += 1
        runs.append((start, stop))
        start, left = stop, left - total
    return runs


JOIN_ROWS = 32


def _joins(blocks: Sequence[_Block], parts: dict[int, tuple[int, ...]], cores: int) -> tuple[tuple[Join, ...], ...]:
    """Rows of cut blocks, dealt to the vector cores."""
    out: list[list[Join]] = [[] for _ in range(cores)]
    turn = 0
    for i, found in sorted(parts.items()):
        b = blocks[i]
        for row, rows in even(b.m, JOIN_ROWS):
            out[turn % cores].append(Join(b.batch, b.head, b.m0, row, rows, found))
            turn += 1
    return tuple(tuple(x) for x in out)


def steps_of(keys: Sequence[Any]) -> Iterator[int]:
    """Indices 0 .. len(keys) - 1; stretches of keys that repeat with a period of at most 4 fold in a trace, a whole
    period at a time: iterations of unlike keys may issue equal code."""
    n, start = len(keys), 0
    while start < n:
        best, step = start + 1, 1
        for period in (1, 2, 3, 4):
            stop = start + period
            while stop < n and keys[stop] == keys[stop - period]:
                stop += 1
            stop -= (stop - start) % period
            if stop - start >= 3 * period and stop > best:
                best, step = stop, period
        if best - start > 3:
            for begin in asc.steady(start, best, step, 0):
                yield from range(begin, begin + step)
        else:
            yield from range(start, best)
        start = best
