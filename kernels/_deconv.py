"""The transposed convolution kernel: one small convolution per output phase.

With stride s, output rows y with equal r = (y + pad) mod s use the same filter rows r, r + s, ...; with q = (y + pad) //
s they are the rows of a stride-1 convolution of x with those filter rows in reverse. Every (row, column) phase is
computed from the same strip of x in L1; its results go to every s-th pixel of y.

Weights are FRACTAL_Z of [Cin, Cout, Kh, Kw], that is (Cout1 * Kh * Kw, Cin1, 16, 16): fractals are transposed on their
way to L0B.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from ascend_sim import asc
from ascend_sim.isa.layout import ceil_div
from ascend_sim.kernels._cube import FRACTAL, E, P, Ring, accumulate, balanced, block_index, copy_rows, even, runs, tensor
from ascend_sim.kernels._exit import BiasTable, CoupledExit, ExitPlan, Outlet
from ascend_sim.kernels._matmul_tiling import BIAS_BYTES
from ascend_sim.kernels._mix import MixExit, vector_side
from ascend_sim.kernels._slots import Held, Slots, one_ahead


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


class PhaseOutlet(Outlet):
    """Moves segments of pixels, ``stride`` apart in global memory."""

    def move(self, place: Any, cut: tuple[int, int, int, int], local: Any, gm: Any, to_gm: bool) -> None:
        first, count, row, rows = cut
        unit = 16 * self.item // 32
        for j in range(count):
            for seg in place.segments:
                low, high = max(seg.local, row), min(seg.local + seg.count, row + rows)
                if high <= low:
                    continue
                pixel = seg.pixel + (low - seg.local) * place.stride
                far = gm[place.offset + (first + j) * place.pitch + pixel * 16 :]
                near = local[(j * rows + low - row) * 16 :]
                if to_gm:
                    copy_rows(far, near, high - low, unit, unit, place.stride * unit)
                else:
                    copy_rows(near, far, high - low, unit, place.stride * unit, unit)


@asc.jit
def deconv_kernel(*gm: Any, plan: DeconvPlan) -> None:
    """Transposed convolution of one core's share."""
    share = share_of(plan.problem, plan.tiling, block_index())
    if min(share.images[1], share.rows[1], share.blocks[1]) == 0:
        return
    arguments: dict[str, list[Any]] = {}
    for role, address in zip(plan.roles, gm, strict=True):
        arguments.setdefault(role, []).append(tensor(address))
    if plan.exit.kind == "mix" and not asc.ascend_is_aic():
        places = (place_of(plan, share, unit) for unit in walk(plan, share))
        vector_side(plan.exit, arguments, places, plan.l0c, PhaseOutlet)
        return
    _CubeSide(plan, share, arguments).run()


class _CubeSide:
    """L1, L0 and L0C of one core, and the loop over its tiles."""

    def __init__(self, plan: DeconvPlan, share: Share, arguments: dict[str, list[Any]]) -> None:
        p, t = plan.problem, plan.tiling
        self.plan, self.share, self.p, self.t = plan, share, p, t
        self.x, self.w = arguments["x"][0], arguments["w"][0]
        self.a_slot, self.w_slot = t.a_bytes // 2, t.w_bytes // 2
        self.a1 = asc.LocalTensor(plan.dtype, P.A1, 0, 2 * self.a_slot)
        self.b1 = asc.LocalTensor(plan.dtype, P.B1, 2 * t.a_bytes, t.w_slots * self.w_slot)
        self.slot_elements = (t.tile_m * t.step_k * FRACTAL // 2, t.tile_n * t.step_k * FRACTAL // 2)
        self.a2 = asc.LocalTensor(plan.dtype, P.A2, 0, 2 * self.slot_elements[0])
        self.b2 = asc.LocalTensor(plan.dtype, P.B2, 0, 2 * self.slot_elements[1])
        self.a_ring, self.w_ring = Slots(0, 2, 0), Slots(2, t.w_slots, 2)
        self.l0 = Ring(E.M_MTE1, E.MTE1_M, 0, 2)
        bias = arguments["bias"][0][share.blocks[0] * 16 :] if plan.exit.bias else None
        columns = min(plan.channels - share.blocks[0] * 16, share.blocks[1] * 16)
        self.table: BiasTable | None = None
        if plan.exit.bias == "table":
            at = 2 * t.a_bytes + t.w_slots * t.w_bytes
            self.table = BiasTable(plan.exit, bias, columns, at, t.tile_n * 16, 2 * BIAS_BYTES)
        elements = plan.l0c // 4
        self.out: Any
        if plan.exit.kind == "mix":
            self.out = MixExit(plan.exit, arguments["work"][0], 2, elements)
        else:
            extras = arguments.get("extra", [])
            self.out = CoupledExit(plan.exit, arguments["y"][0], extras, 2, elements, bias, columns, PhaseOutlet)
        self.ahead: list[PhasePlace] = []
        self.a_held: Held | None = None
        self.w_held: Held | None = None

    def run(self) -> None:
        plan, share = self.plan, self.share
        if plan.exit.bias == "l0c":
            self.ahead = self._ahead()
        rings: list[Any] = [self.a_ring, self.w_ring, self.l0]
        for ring in rings:
            ring.open()
        self.out.open(self.ahead[:2])
        if self.table:
            self.table.open()
            rings.append(self.table)
        one_ahead(walk(plan, share), self._load, self._work, lambda unit: self.t.w_slots > 1 or not unit.load_w)
        for ring in rings:
            ring.close()
        self.out.close()

    def _ahead(self) -> list[PhasePlace]:
        """Height, width and bias column of every tile by index (the bias is placed ahead)."""
        p, t, share = self.p, self.t, self.share
        heights = [m[1] for s in strips_of(p, t, share.rows) for _, m in tiles_of(p, s, t.tile_m)]
        return [
            PhasePlace(0, m1 * 16, n, 0, at * 16, 0, ())
            for at, n in even(share.blocks[1], t.tile_n) for _ in range(share.images[1]) for m1 in heights
        ]  # fmt: skip

    def _load(self, unit: Unit) -> tuple[Held, Held]:
        p = self.p
        if unit.load_a:
            strip = unit.strip
            rows = (strip.high - strip.low) * p.w
            self.a_held = self.a_ring.take()
            src = self.x[(unit.image * p.c1 * p.h + strip.low) * p.w * 16 :]
            copy_rows(self.a1[self.a_held.slot * self.a_slot :], src, p.c1, rows, p.h * p.w, rows)
            self.a_ring.hand(self.a_held)
        if unit.load_w:
            self.w_held = self.w_ring.take()
            per = p.kh * p.kw * p.c1 * 256
            blocks = unit.n[1] * per // 16
            src = self.w[unit.n[0] * per :]
            copy_rows(self.b1[self.w_held.slot * self.w_slot :], src, 1, blocks, blocks, blocks)
            self.w_ring.hand(self.w_held)
        assert self.a_held is not None and self.w_held is not None
        return self.a_held, self.w_held

    def _work(self, unit: Unit, held: tuple[Held, Held]) -> None:
        place = place_of(self.plan, self.share, unit)
        s, acc, zero = self.out.begin()
        row = self.table.begin(place) if self.table else None
        self._steps(unit, held, acc, zero, row[1] if row else None)
        if row and self.table:
            self.table.end(row[0])
        if unit.last_a:
            self.a_ring.give(held[0])
        if unit.last_w:
            self.w_ring.give(held[1])
        after = unit.index + 2
        self.out.end(s, place, self.ahead[after] if after < len(self.ahead) else None)

    def _steps(self, unit: Unit, held: tuple[Held, Held], acc: Any, zero: bool, bias: Any) -> None:
        p, t = self.p, self.t
        jh, jw = p.taps(unit.phase)
        pieces = balanced(p.c1 * jh * jw, t.step_k)
        a_waits = self.a_ring.split(held[0], [(1, 0)] * len(pieces))
        w_waits = self.w_ring.split(held[1], [(1, 0)] * len(pieces))
        view = view_of(p, unit.strip, unit.phase)
        src_a = self.a1[held[0].slot * self.a_slot :]
        src_b = self.b1[held[1].slot * self.w_slot :]

        def load(i: int, a: Any, b: Any) -> tuple[int, int, int]:
            k, size = pieces[i]
            self.a_ring.wait(held[0], a_waits[i])
            self.w_ring.wait(held[1], w_waits[i])
            self._load_a2(a, src_a, unit, view, (jh, jw), k, size)
            for j in range(size):
                c, tap = divmod(k + j, jh * jw)
                ty, tx = divmod(tap, jw)
                y, x = unit.phase[0] + p.sh * (jh - 1 - ty), unit.phase[1] + p.sw * (jw - 1 - tx)
                asc.load_data(b[j * unit.n[1] * 256 :], src_b, asc.LoadData2DParams(
                    (y * p.kw + x) * p.c1 + c, unit.n[1], p.kh * p.kw * p.c1, 0, 0, True,
                ))  # fmt: skip
            return unit.m[1] * 16, unit.n[1] * 16, size * 16

        keys = [(size, a_waits[i], w_waits[i]) for i, (_, size) in enumerate(pieces)]
        accumulate(self.l0, self.a2, self.b2, self.slot_elements, acc, keys, load, zero, bias)

    def _load_a2(
        self, dst: Any, src: Any, unit: Unit, view: View, taps: tuple[int, int], k: int, size: int
    ) -> None:
        p, strip = self.p, unit.strip
        jh, jw = taps
        rows = strip.high - strip.low
        if self.plan.load3d_v2:
            asc.load_data(dst, src, asc.LoadData3DParamsV2(
                view.pads, rows, p.w, p.c1 * 16, size * 16, unit.m[1] * 16, k * 16, unit.m[0], 1, 1, jw, jh,
            ))  # fmt: skip
            return
        c, tap = divmod(k, jh * jw)
        for i in range(unit.m[1]):
            row, column = divmod(unit.m[0] + i * 16, view.width)
            asc.load_data(dst[i * size * 256 :], src, asc.LoadData3DParamsV1(
                view.pads, rows, p.w, c, tap % jw, tap // jw, column - view.pads[0], row - view.pads[2], 1, 1, jw, jh,
                1, 1, 1, 0, size,
            ))  # fmt: skip


def signature(plan: DeconvPlan, block: int) -> tuple[Any, ...]:
    """Equal for blocks that issue the same instructions."""
    share = share_of(plan.problem, plan.tiling, block)
    strips: Sequence[Strip] = strips_of(plan.problem, plan.tiling, share.rows) if share.rows[1] > 0 else ()
    return share.images[1], share.blocks[1], tuple(strip_kind(plan.problem, s) for s in strips)
