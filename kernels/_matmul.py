"""The matrix multiplication kernel: tiles of C over the cores, K in chunks through L1 and in steps through L0.

Either operand may be stored in rows (ND) or in fractals (FRACTAL_NZ, FRACTAL_Z), transposed or not. In L1 it lies in
fractals in one of two orders: *k-outer* ([K1][rows][K0]: A as M x K, B as N x K) or *row-outer* ([rows1][K][16]: A as
K x M, B as K x N), and the load to L0 transposes where needed. Schedule: stock MatMulV3 base template (hicann/ops-nn),
restated: for each chunk DMA of A, DMA of B, then per step one load of each and one mmad.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import gcd
from typing import Any, NamedTuple

from ascend_sim import asc
from ascend_sim.isa.layout import ceil_div

from ._bias_table import BiasTable
from ._cube import E, P, Ring, accumulate, block_index, copy_rows, even, load_fractals, runs, tensor
from ._exit import CoupledExit, ExitPlan, FixpipeExit, Place
from ._matmul_tiling import BIAS_BYTES, MatmulProblem, MatmulTiling, align
from ._mix import MixExit, vector_side
from ._slots import Held, Slots, look_ahead
from ._vector import item_bytes

MAX_PITCH = 65535  # elements between rows the ND to NZ transfer takes


@dataclass(frozen=True)
class Source:
    """How an operand lies in global memory: ``fractal`` (else rows), ``k_outer`` order, ``pitch``: elements between
    rows, or padded length of the inner panel axis of fractals; ``matrix``: elements of one matrix."""

    fractal: bool
    k_outer: bool
    pitch: int
    matrix: int


@dataclass(frozen=True)
class MatmulPlan:
    """One launch. ``a_of`` and ``b_of``: matrix of A and B for each batch; ``out_pitch``: elements between rows of C
    (ND) or between its column panels (NZ); ``out_matrix``: elements of one C; ``nd2nz``: DMA turns rows into fractals;
    ``window_loads``: one im2col load instead of several fractal loads; ``hf32``: rounded float32; ``work``: tiles of
    each core, where they are not those of `tiles_of`; ``bias_pitch``: elements between the bias rows of the matrices of
    B (0: one row)."""

    problem: MatmulProblem
    tiling: MatmulTiling
    exit: ExitPlan
    dtype: str
    a: Source
    b: Source
    a_of: tuple[int, ...]
    b_of: tuple[int, ...]
    out_pitch: int
    out_matrix: int
    roles: tuple[str, ...]
    nd2nz: bool
    window_loads: bool
    hf32: bool = False
    work: tuple[tuple[Tile, ...], ...] = ()
    bias_pitch: int = 0

    @property
    def k0(self) -> int:
        return self.problem.k0


class Tile(NamedTuple):
    """One tile of C; ``same_a`` / ``same_b``: the operand in L1 is already there; ``keep_a`` / ``keep_b``: the next
    tile uses it again."""

    batch: int
    m: int
    m_size: int
    n: int
    n_size: int
    same_a: bool
    same_b: bool
    keep_a: bool
    keep_b: bool

    @property
    def kind(self) -> tuple[Any, ...]:
        """Equal for tiles that issue the same instructions."""
        return self.m_size, self.n_size, self.same_a, self.same_b, self.keep_a, self.keep_b


class Unit(NamedTuple):
    """What is computed between two transfers: ``part`` (start, size) of K, inside ``chunk``, the reach of the longer
    transfer; it ``opens`` or ``closes`` the chunk, is the ``first`` or ``last`` of tile ``index``."""

    index: int
    tile: Tile
    chunk: tuple[int, int]
    part: tuple[int, int]
    opens: bool
    closes: bool
    first: bool
    last: bool


@lru_cache(maxsize=1024)
def tiles_of(plan: MatmulPlan, block: int) -> tuple[Tile, ...]:
    """Tiles of a core: dealt cyclically along diagonals, so that neighbours share neither rows nor columns, full ones
    first."""
    if plan.work:
        return plan.work[block]
    p, t = plan.problem, plan.tiling
    m_tiles, n_tiles = ceil_div(p.m, t.base_m), ceil_div(p.n, t.base_n)
    per_matrix = m_tiles * n_tiles
    lcm = m_tiles * n_tiles // gcd(m_tiles, n_tiles)
    mine = []
    for index in range(block, p.batch * per_matrix, t.cores):
        batch, i = divmod(index, per_matrix)
        row, column = i % m_tiles, (i + i // lcm) % n_tiles
        m, n = row * t.base_m, column * t.base_n
        mine.append((batch, m, min(t.base_m, p.m - m), n, min(t.base_n, p.n - n)))
    mine.sort(key=lambda x: (-x[2], -x[4]))
    return link(mine, plan.problem, plan.tiling, plan.a_of, plan.b_of)


def link(
    mine: Sequence[tuple[int, int, int, int, int]], p: MatmulProblem, t: MatmulTiling, a_of: Sequence[int],
    b_of: Sequence[int],
) -> tuple[Tile, ...]:  # fmt: skip
    """Tiles (batch, m, rows, n, columns) of a core in order, with what each finds in L1 from the one before it: only
    operands that one transfer brings whole stay there."""
    whole_a, whole_b = t.step_ka * t.base_k >= p.k, t.step_kb * t.base_k >= p.k
    same_a, same_b = [False], [False]
    for before, after in pairwise(mine):
        same_a.append(whole_a and (a_of[before[0]], *before[1:3]) == (a_of[after[0]], *after[1:3]))
        same_b.append(whole_b and (b_of[before[0]], *before[3:]) == (b_of[after[0]], *after[3:]))
    same_a.append(False)
    same_b.append(False)
    return tuple(
        Tile(*x, same_a[i], same_b[i], same_a[i + 1], same_b[i + 1]) for i, x in enumerate(mine)
    )


@lru_cache(maxsize=1024)
def kinds_of(plan: MatmulPlan, block: int) -> tuple[tuple[Any, ...], ...]:
    """Kinds of a core's tiles in order; equal for blocks that issue the same instructions."""
    return tuple(tile.kind for tile in tiles_of(plan, block))


def walk(plan: MatmulPlan, block: int) -> Iterator[tuple[int, Tile]]:
    tiles = tiles_of(plan, block)
    for i in runs(kinds_of(plan, block)):
        yield i, tiles[i]


def place_of(plan: MatmulPlan, tile: Tile) -> Place:
    """Where a tile goes in C."""
    start = tile.batch * plan.out_matrix
    if plan.exit.rows:
        offset = start + tile.m * plan.out_pitch + tile.n
    else:
        offset = start + tile.n // 16 * plan.out_pitch + tile.m * 16
    m = tile.m_size if plan.exit.rows else align(tile.m_size, 16)
    n1 = ceil_div(tile.n_size, 16)
    return Place(offset, m, align(tile.m_size, 16), n1, tile.n_size, plan.out_pitch,
                 tile.batch * plan.bias_pitch + tile.n)  # fmt: skip


@asc.jit
def matmul_kernel(*gm: Any, plan: MatmulPlan) -> None:
    """Tiles of one core."""
    arguments: dict[str, list[Any]] = {}
    for role, address in zip(plan.roles, gm, strict=True):
        arguments.setdefault(role, []).append(tensor(address))
    if plan.exit.kind == "mix" and not asc.ascend_is_aic():
        places = (place_of(plan, tile) for _, tile in walk(plan, block_index()))
        vector_side(plan.exit, arguments, places, plan.tiling.base_m * plan.tiling.base_n * 4)
        return
    CubeSide(plan, arguments).run()


class CubeSide:
    """L1, L0 and L0C of one core, and the loop over its tiles."""

    def __init__(self, plan: MatmulPlan, arguments: dict[str, list[Any]]) -> None:
        t, p = plan.tiling, plan.problem
        self.plan, self.p, self.t = plan, p, t
        self.block = block_index()
        self.a, self.b = arguments["a"][0], arguments["b"][0]
        dtype, item = plan.dtype, p.item
        self.a_slot, self.b_slot = t.base_m * t.step_ka * t.base_k, t.base_n * t.step_kb * t.base_k
        self.a1 = asc.LocalTensor(dtype, P.A1, 0, 2 * self.a_slot)
        self.b1 = asc.LocalTensor(dtype, P.B1, 2 * self.a_slot * item, 2 * self.b_slot)
        slots = (t.base_m * t.base_k, t.base_n * t.base_k)
        self.a2 = asc.LocalTensor(dtype, P.A2, 0, 2 * slots[0])
        self.b2 = asc.LocalTensor(dtype, P.B2, 0, 2 * slots[1])
        self.slot_elements = slots
        self.a_ring, self.b_ring = Slots(0, 2, 0), Slots(2, 2, 2)
        self.l0 = Ring(E.M_MTE1, E.MTE1_M, 0, 2)
        bias = arguments["bias"][0] if plan.exit.bias else None
        self.table: BiasTable | None = None
        if plan.exit.bias == "table":
            columns, room = plan.bias_pitch * len(plan.b_of) or p.n, 0 if plan.bias_pitch else BIAS_BYTES
            at = 2 * (self.a_slot + self.b_slot) * item
            ahead = at + 2 * t.base_n * item_bytes(plan.exit.bias_dtype) <= asc.current_soc().buffers.l1_bytes
            self.table = BiasTable(plan.exit, bias, columns, at, t.base_n, room, ahead)
        elements = t.base_m * t.base_n
        self.out: Any
        if plan.exit.kind == "fixpipe":
            self.out = FixpipeExit(plan.exit, arguments["y"][0], t.l0c_slots, elements)
        elif plan.exit.kind == "mix":
            self.out = MixExit(plan.exit, arguments["work"][0], t.l0c_slots, elements)
        else:
            self.out = CoupledExit(
                plan.exit, arguments["y"][0], arguments.get("extra", []), t.l0c_slots, elements, bias, p.n
            )
        self.a_held: Held | None = None
        self.b_held: Held | None = None
        self.acc: tuple[int, Any, bool] = (0, None, True)

    def run(self) -> None:
        plan, t = self.plan, self.t
        if plan.hf32:
            asc.set_hf32_mode(True)
        tiles = self.tiles = tiles_of(plan, self.block)
        rings: list[Any] = [self.a_ring, self.b_ring, self.l0] + ([self.table] if self.table else [])
        for ring in rings:
            ring.open()
        self.out.open([place_of(plan, tile) for tile in tiles[: t.l0c_slots]])
        look_ahead(self._units(), self._load, self._work, lambda unit: True)
        for ring in rings:
            ring.close()
        self.out.close()

    def _units(self) -> Iterator[Unit]:
        """Tiles, cut along K into what the more frequent of the two transfers brings."""
        t = self.t
        outer, inner = (f(t.step_ka, t.step_kb) * t.base_k for f in (max, min))
        chunks = [(at, size, even(size, inner)) for at, size in even(self.p.k, outer)]
        for index, tile in walk(self.plan, self.block):
            for i in runs([size for _, size, _ in chunks]):
                at, size, parts = chunks[i]
                for j in runs([part for _, part in parts]):
                    ends = j + 1 == len(parts)
                    yield Unit(index, tile, (at, size), (at + parts[j][0], parts[j][1]), j == 0, ends,
                               i == 0 and j == 0, ends and i + 1 == len(chunks))  # fmt: skip

    def _load(self, unit: Unit) -> tuple[Held, Held]:
        t, tile = self.t, unit.tile
        if unit.first and self.table:
            self.table.fetch(place_of(self.plan, tile))
        if not tile.same_a and (unit.opens or t.step_ka < t.step_kb):
            self.a_held = self.a_ring.take()
            at, size = unit.chunk if t.step_ka >= t.step_kb else unit.part
            src = self.a[self.plan.a_of[tile.batch] * self.plan.a.matrix :]
            to = self.a1[self.a_held.slot * self.a_slot :]
            self._to_l1(to, src, self.plan.a, tile.m, tile.m_size, at, size)
            self.a_ring.hand(self.a_held)
        if not tile.same_b and (unit.opens or t.step_kb < t.step_ka):
            self.b_held = self.b_ring.take()
            at, size = unit.chunk if t.step_kb >= t.step_ka else unit.part
            src = self.b[self.plan.b_of[tile.batch] * self.plan.b.matrix :]
            to = self.b1[self.b_held.slot * self.b_slot :]
            self._to_l1(to, src, self.plan.b, tile.n, tile.n_size, at, size)
            self.b_ring.hand(self.b_held)
        assert self.a_held is not None and self.b_held is not None
        return self.a_held, self.b_held

    def _work(self, unit: Unit, held: tuple[Held, Held]) -> None:
        plan, t, tile = self.plan, self.t, unit.tile
        place = place_of(plan, tile)
        row: tuple[int, Any] | None = None
        if unit.first:
            self.acc = self.out.begin()
            row = self.table.begin(place) if self.table else None
        s, acc, zero = self.acc
        self._steps(unit, held, acc, zero and unit.first, row[1] if row else None)
        if row and self.table:
            self.table.end(row[0])
        if not tile.keep_a and (unit.closes or t.step_ka < t.step_kb):
            self.a_ring.give(held[0])
        if not tile.keep_b and (unit.closes or t.step_kb < t.step_ka):
            self.b_ring.give(held[1])
        if unit.last:
            after = unit.index + t.l0c_slots
            self.out.end(s, place, place_of(plan, self.tiles[after]) if after < len(self.tiles) else None)

    def _to_l1(self, dst: Any, src: Any, source: Source, r: int, rows: int, k: int, size: int) -> None:
        """Bring rows [r, r + rows) x K [k, k + size) of an operand to L1."""
        k0 = self.plan.k0
        if source.k_outer:
            lead, lead_at, inner, inner_at = align(rows, 16), r, size, k
            count = rows
        else:
            lead, lead_at, inner, inner_at = align(size, 16), k, rows, r
            count = size
        if source.fractal:
            offset = inner_at // k0 * source.pitch * k0 + lead_at * k0
            copy_rows(dst, src[offset:], ceil_div(inner, k0), lead, source.pitch, lead)
            return
        offset = lead_at * source.pitch + inner_at
        if not self.plan.nd2nz:
            for i in range(ceil_div(inner, k0)):
                copy_rows(dst[i * lead * k0 :], src[offset + i * k0 :], count, 1, source.pitch // k0, 1)
        elif source.pitch <= MAX_PITCH:
            asc.data_copy(dst, src[offset:], asc.Nd2NzParams(1, count, inner, 0, source.pitch, lead, 1, 0))
        else:
            for i in range(count):
                row = src[offset + i * source.pitch :]
                asc.data_copy(dst[i * k0 :], row, asc.Nd2NzParams(1, 1, inner, 0, inner, lead, 1, 0))

    def _steps(self, unit: Unit, held: tuple[Held, Held], acc: Any, first: bool, bias: Any) -> None:
        """Cube steps over a unit's part of K."""
        t, tile = self.t, unit.tile
        start, size = unit.part
        a_from, a_depth = unit.chunk if t.step_ka >= t.step_kb else unit.part
        b_from, b_depth = unit.chunk if t.step_kb >= t.step_ka else unit.part
        pieces = even(size, t.base_k)
        a1, b1 = self.a1[held[0].slot * self.a_slot :], self.b1[held[1].slot * self.b_slot :]
        for ring, one in ((self.a_ring, held[0]), (self.b_ring, held[1])):
            ring.wait(one, ring.split(one, [(1, 0)])[0])

        def load(i: int, a: Any, b: Any) -> tuple[int, int, int]:
            k, length = pieces[i]
            self._to_l0(a, a1, self.plan.a, tile.m_size, start - a_from + k, length, a_depth, True)
            self._to_l0(b, b1, self.plan.b, tile.n_size, start - b_from + k, length, b_depth, False)
            return tile.m_size, tile.n_size, length

        accumulate(
            self.l0, self.a2, self.b2, self.slot_elements, acc, [size for _, size in pieces], load, first, bias
        )

    def _to_l0(self, dst: Any, src: Any, source: Source, rows: int, k: int, size: int, depth: int, left: bool) -> None:
        """Load K [k, k + size) of a tile in L1 (``rows`` x ``depth``) to L0A (``left``) or L0B."""
        k0 = self.plan.k0
        r1, k1, at = ceil_div(rows, 16), ceil_div(size, k0), k // k0
        high = r1 if source.k_outer else ceil_div(depth, 16)  # fractals of a panel
        if source.k_outer and not left:  # fractals are in order
            load_fractals(dst, src[at * high * 16 * k0 :], k1, r1, high, 1)
        elif self.plan.window_loads:
            self._window(dst, src, source, rows, k, size, depth, left)
        elif left and source.k_outer:
            load_fractals(dst, src[at * high * 16 * k0 :], r1, k1, 1, high)
        elif left:
            load_fractals(dst, src[at * 256 :], r1, k1, high, 1, transpose=True)
        else:
            load_fractals(dst, src[at * 256 :], k1, r1, 1, high, transpose=True)

    def _window(self, dst: Any, src: Any, source: Source, rows: int, k: int, size: int, depth: int, left: bool) -> None:
        """The load as a window of the im2col matrix of a 1 x n feature map: positions are the panel axis, channels
        the other one."""
        k0 = self.plan.k0
        r1, k1 = ceil_div(rows, 16), ceil_div(size, k0)
        if source.k_outer:
            asc.load_data(dst, src, asc.LoadData3DParamsV2(
                (0, 0, 0, 0), 1, r1 * 16, align(depth, k0), k1 * k0, r1 * 16, k, 0,
            ))  # fmt: skip
            return
        width, channels = align(depth, 16), align(rows, 16)
        if left and k1 * k0 % 16:  # positions come in sixteens: one fractal row at a time, the surplus overwritten
            for i in range(r1):
                asc.load_data(dst[i * k1 * 16 * k0 :], src, asc.LoadData3DParamsV2(
                    (0, 0, 0, 0), 1, width, channels, 16, align(size, 16), i * 16, k, en_transpose=True,
                ))  # fmt: skip
            return
        asc.load_data(dst, src, asc.LoadData3DParamsV2(
            (0, 0, 0, 0), 1, width, channels, r1 * 16, k1 * k0, 0, k, en_transpose=left,
        ))  # fmt: skip
