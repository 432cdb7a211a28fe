"""Depthwise convolution at stride 1 by plain fractal loads.

A tap of the filter reads, for 16 consecutive output pixels of a row, 16 consecutive input pixels: in NC1HWC0 that is
one contiguous 512-byte fractal. With the image in L1 in rows padded to pitch W + left + right (zeros around it), output
position p = row * pitch + column finds tap (i, j) at pixel p + i * dilation * pitch + j * dilation, so a whole tile of
fractals of a tap is one load2d, at its full rate, where load3d would gather pixel by pixel. Positions in the padding
are computed and not stored. Each fractal meets the diagonal 16 x 16 weights of its tap in the cube.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ascend_sim import asc
from ascend_sim.isa.layout import ceil_div

from ._bias_table import BiasTable
from ._cube import FRACTAL, E, P, Ring, balanced, block_index, copy_rows, even, runs, tensor
from ._exit import QUANT, CoupledExit, ExitPlan, Outlet
from ._matmul_tiling import BIAS_BYTES, CubeBuffers
from ._slots import Held, Slots, look_ahead
from ._vector import align, item_bytes

MOST_WIDER = 1.08  # rows of whole fractals against rows as they are
MOST_TILE = 32  # fractals of a cube tile
WEIGHT_BYTES = 65536  # of L1 for the weights of a run of groups
ZERO_ELEMENTS = 16384  # of UB, to clear L1 with


@dataclass(frozen=True)
class DepthProblem:
    """x (batch, C1, H, W, 16) to y (batch, C1, Ho, Wo, 16); ``pads`` (left, right, top, bottom). ``whole``: rows in
    whole fractals, where that makes them little longer: then one transfer of the fixpipe takes all rows of a tile."""

    batch: int
    groups: int
    h: int
    w: int
    ho: int
    wo: int
    kh: int
    kw: int
    dh: int
    dw: int
    pads: tuple[int, int, int, int]
    whole: bool = False

    @property
    def pitch(self) -> int:
        width = self.w + self.pads[0] + self.pads[1]
        whole = align(width, 16)
        return whole if self.whole and whole <= MOST_WIDER * width else width

    @property
    def taps(self) -> int:
        return self.kh * self.kw


@dataclass(frozen=True)
class DepthTiling:
    """``split``: cores along (batch, channel blocks, rows). A core keeps its rows of one image and channel block in
    L1 (``slot`` bytes, ``slots`` of them), the weights of ``run`` blocks, and computes ``rows`` output rows a tile
    (``tile`` fractals), ``step`` taps per buffer of L0.
    """

    split: tuple[int, int, int]
    rows: int
    tile: int
    step: int
    slot: int
    slots: int
    run: int


@dataclass(frozen=True)
class DepthPlan:
    """``fill``: every weight is this number (average pooling) and none comes from memory. ``turned``: taps meet the
    weights in reverse order (gradient of the input)."""

    problem: DepthProblem
    tiling: DepthTiling
    exit: ExitPlan
    roles: tuple[str, ...]
    channels: int
    fill: float = 0.0
    turned: bool = False


def _slots(room: int, slot: int, flags: int) -> int:
    """Buffers of the image: four where L1 and the flags (two serve the weights) allow, else two or one."""
    for n in (4, 2):
        if n * slot <= room and n + 2 <= flags:
            return n
    return 1


def tile_depthwise(p: DepthProblem, b: CubeBuffers, flags: int) -> DepthTiling | None:
    """Least fractals on the busiest core; None when a core's rows do not fit L1 or a row is wider than a tile."""
    room = b.l1 - 2 * BIAS_BYTES - 2 * WEIGHT_BYTES
    best: tuple[int, DepthTiling] | None = None
    for i in range(1, min(p.batch, b.cores) + 1):
        for g in range(1, min(p.groups, b.cores // i) + 1):
            r = min(p.ho, b.cores // (i * g))
            rows = ceil_div(p.ho, r)
            slot = ((rows - 1 + p.dh * (p.kh - 1) + 1) * p.pitch + 16 + p.dw * p.kw) * 32
            most = MOST_TILE if p.pitch <= MOST_TILE * 16 else 2 * MOST_TILE
            fit = ((most * 16 - p.wo) // p.pitch + 1) if most * 16 >= p.wo else 0
            if slot > room or fit < 1:
                continue
            tile_rows = ceil_div(rows, ceil_div(rows, min(fit, rows)))
            tile = ceil_div((tile_rows - 1) * p.pitch + p.wo, 16)
            images, groups = ceil_div(p.batch, i), ceil_div(p.groups, g)
            step = max(min(p.taps, b.l0a // 2 // FRACTAL // tile), 1)
            run = max(min(groups, WEIGHT_BYTES // (p.taps * FRACTAL)), 1)
            work = images * groups * ceil_div(rows, tile_rows) * (tile * p.taps + 16) + slot // 64
            tiling = DepthTiling((i, g, r), tile_rows, tile, step, slot, _slots(room, slot, flags), run)
            if best is None or work < best[0]:
                best = work, tiling
    return None if best is None else best[1]


class Share(NamedTuple):
    """(start, count) of images, channel blocks and output rows of a core."""

    images: tuple[int, int]
    groups: tuple[int, int]
    rows: tuple[int, int]


def share_of(p: DepthProblem, t: DepthTiling, block: int) -> Share:
    block, i_r = divmod(block, t.split[2])
    i_b, i_g = divmod(block, t.split[1])

    def part(total: int, cores: int, index: int) -> tuple[int, int]:
        size = ceil_div(total, cores)
        return index * size, max(min(size, total - index * size), 0)

    return Share(part(p.batch, t.split[0], i_b), part(p.groups, t.split[1], i_g), part(p.ho, t.split[2], i_r))


def input_rows(p: DepthProblem, rows: tuple[int, int]) -> tuple[int, int, int]:
    """(first input row, count, rows of zeros above it) for a core's output rows."""
    start = rows[0] - p.pads[2]
    stop = start + rows[1] + p.dh * (p.kh - 1)
    low, high = max(start, 0), min(stop, p.h)
    return low, max(high - low, 0), low - start


def signature(plan: DepthPlan, block: int) -> tuple[Any, ...]:
    """Equal for blocks that issue the same instructions."""
    share = share_of(plan.problem, plan.tiling, block)
    return share.images[1], share.groups[1], share.rows[1], input_rows(plan.problem, share.rows)[1:]


class Unit(NamedTuple):
    """One tile: output rows (first of the core's, count) of an image and channel block."""

    image: int
    group: int
    run: tuple[int, int]
    rows: tuple[int, int]
    load_a: bool
    load_w: bool
    last_a: bool
    last_w: bool
    index: int


def walk(plan: DepthPlan, share: Share) -> Iterator[Unit]:
    t = plan.tiling
    chunks = even(share.groups[1], t.run)
    tiles = even(share.rows[1], t.rows)
    for c in runs([n for _, n in chunks]):
        start, count = share.groups[0] + chunks[c][0], chunks[c][1]
        for i in runs([0] * share.images[1]):
            for g in runs([0] * count):
                base = ((chunks[c][0] * share.images[1]) + i * count + g) * len(tiles)
                ends = i + 1 == share.images[1] and g + 1 == count
                for k in runs([n for _, n in tiles]):
                    first, last = k == 0, k + 1 == len(tiles)
                    yield Unit(
                        share.images[0] + i, start + g, (start, count), tiles[k], first, first and i == 0 and g == 0,
                        last, last and ends, base + k,
                    )  # fmt: skip


class RowsPlace(NamedTuple):
    """A tile of ``rows`` output rows, ``pitch`` positions apart; see `ascend_sim.kernels._exit.Place`."""

    offset: int
    mp: int
    n1: int
    column: int
    rows: int
    pitch: int
    width: int


def fractals(p: DepthProblem, rows: int) -> int:
    return ceil_div((rows - 1) * p.pitch + p.wo, 16)


def place_of(p: DepthProblem, share: Share, unit: Unit) -> RowsPlace:
    row = share.rows[0] + unit.rows[0]
    offset = ((unit.image * p.groups + unit.group) * p.ho + row) * p.wo * 16
    column = (unit.group - share.groups[0]) * 16
    return RowsPlace(offset, fractals(p, unit.rows[1]) * 16, 1, column, unit.rows[1], p.pitch, p.wo)


class RowsOutlet(Outlet):
    """Moves whole output rows out of the padded rows of a tile."""

    def move(self, place: Any, cut: tuple[int, int, int, int], local: Any, gm: Any, to_gm: bool) -> None:
        _, _, begin, count = cut
        unit = 16 * self.item // 32
        first = ceil_div(begin, place.pitch)  # rows that start in the cut
        stop = min((begin + count - place.width) // place.pitch + 1, place.rows)  # ... and end in it
        pieces = [(r, 0, place.width, 1) for r in range(place.rows) if not first <= r < stop]
        if stop > first:
            pieces.append((first, 0, place.width, stop - first))
        for r, _, width, times in pieces:
            low = max(r * place.pitch, begin)
            high = min(r * place.pitch + width, begin + count) if times == 1 else low + width
            if high <= low:
                continue
            far = gm[place.offset + (r * place.width + low - r * place.pitch) * 16 :]
            near = local[(low - begin) * 16 :]
            source, target = place.pitch * unit, place.width * unit
            if to_gm:
                copy_rows(far, near, times, (high - low) * unit, source, target)
            else:
                copy_rows(near, far, times, (high - low) * unit, target, source)


class RowsFixpipe:
    """Exit through the fixpipe: one transfer per output row, or one for all rows that start with a fractal."""

    def __init__(self, plan: ExitPlan, out: Any, slots: int, slot_elements: int) -> None:
        self.plan, self.out = plan, out
        self.ring = Ring(E.FIX_M, E.M_FIX, 0, slots)
        self.acc = [asc.LocalTensor(plan.acc, P.CO1, s * slot_elements * 4, slot_elements) for s in range(slots)]

    def open(self, places: Sequence[Any]) -> None:
        self.ring.open()

    def begin(self) -> tuple[int, Any, bool]:
        s = self.ring.take()
        return s, self.acc[s], True

    def end(self, s: int, place: RowsPlace, following: Any) -> None:
        self.ring.hand(s)
        plan = self.plan
        if place.pitch % 16 == 0:
            every = asc.FixpipeParamsV220(
                16, place.width, place.mp, 16, QUANT[plan.acc, plan.middle], nd_num=place.rows,
                src_nd_stride=place.pitch // 16, dst_nd_stride=place.width * 16, relu_en=plan.relu,
            )  # fmt: skip
            asc.fixpipe(self.out[place.offset :], self.acc[s], every, asc.FixpipeConfig.cfg_row_major())
            self.ring.give(s)
            return
        params = asc.FixpipeParamsV220(
            16, place.width, place.mp, place.width * 16 * item_bytes(plan.out) // 32, QUANT[plan.acc, plan.middle],
            relu_en=plan.relu,
        )  # fmt: skip
        for r in runs([0] * place.rows):
            to = self.out[place.offset + r * place.width * 16 :]
            asc.fixpipe(to, self.acc[s][r * place.pitch * 16 :], params, asc.FixpipeConfig.cfg_nz())
        self.ring.give(s)

    def close(self) -> None:
        self.ring.close()


@asc.jit
def depthwise_kernel(*gm: Any, plan: DepthPlan) -> None:
    """Depthwise convolution of one core's share."""
    share = share_of(plan.problem, plan.tiling, block_index())
    if min(share.images[1], share.groups[1], share.rows[1]) == 0:
        return
    arguments: dict[str, list[Any]] = {}
    for role, address in zip(plan.roles, gm, strict=True):
        arguments.setdefault(role, []).append(tensor(address))
    _CubeSide(plan, share, arguments).run()


class _CubeSide:
    """L1, L0 and L0C of one core, and the loop over its tiles."""

    def __init__(self, plan: DepthPlan, share: Share, arguments: dict[str, list[Any]]) -> None:
        p, t = plan.problem, plan.tiling
        self.plan, self.share, self.p, self.t = plan, share, p, t
        self.x, self.w = arguments["x"][0], None if plan.fill else arguments["w"][0]
        self.a_slot, self.w_slot = t.slot // 2, (1 if plan.fill else t.run) * p.taps * 256
        self.a1 = asc.LocalTensor("float16", P.A1, 0, t.slots * self.a_slot)
        self.b1 = asc.LocalTensor("float16", P.B1, t.slots * t.slot, 2 * self.w_slot)
        self.a2 = asc.LocalTensor("float16", P.A2, 0, 2 * t.step * t.tile * 256)
        self.b2 = asc.LocalTensor("float16", P.B2, 0, 2 * t.step * 256)
        self.a_ring, self.w_ring = Slots(0, t.slots, 0), Slots(t.slots, 2, t.slots)
        self.l0 = Ring(E.M_MTE1, E.MTE1_M, 0, 2)
        bias = arguments["bias"][0][share.groups[0] * 16 :] if plan.exit.bias else None
        columns = min(plan.channels - share.groups[0] * 16, share.groups[1] * 16)
        self.table: BiasTable | None = None
        if plan.exit.bias == "table":
            at = t.slots * t.slot + 2 * self.w_slot * 2
            self.table = BiasTable(plan.exit, bias, columns, at, 16, 2 * BIAS_BYTES)
        self.out: Any
        if plan.exit.kind == "fixpipe":
            self.out = RowsFixpipe(plan.exit, arguments["y"][0], 2, t.tile * 256)
        else:
            extras = arguments.get("extra", [])
            self.out = CoupledExit(
                plan.exit, arguments["y"][0], extras, 2, t.tile * 256, bias, columns, RowsOutlet
            )
        self.ahead: list[RowsPlace] = []
        self.a_held: Held | None = None
        self.w_held: Held | None = None

    def run(self) -> None:
        p, t, share = self.p, self.t, self.share
        rings: list[Any] = [self.a_ring, self.l0] if self.plan.fill else [self.a_ring, self.w_ring, self.l0]
        for ring in rings:
            ring.open()
        self._clear()
        if self.plan.exit.bias == "l0c":
            heights = [fractals(p, n) * 16 for _, n in even(share.rows[1], t.rows)]
            self.ahead = [
                RowsPlace(0, mp, 1, (at + g) * 16, 0, 0, 0)
                for at, n in even(share.groups[1], t.run) for _ in range(share.images[1]) for g in range(n)
                for mp in heights
            ]  # fmt: skip
        self.out.open(self.ahead[:2])
        if self.table:
            self.table.open()
            rings.append(self.table)
        look_ahead(
            walk(self.plan, share), self._load, self._work, lambda unit: self.t.slots > 1 or not unit.load_a,
            self._ahead(),
        )
        for ring in rings:
            ring.close()
        self.out.close()

    def _ahead(self) -> int:
        """Tiles from the one that is computed to the one whose image is brought: as many images as there are further
        slots, within two runs of weights."""
        share, t = self.share, self.t
        planes = min(n for _, n in even(share.groups[1], t.run)) * share.images[1]
        return max(min(t.slots - 1, planes) * len(even(share.rows[1], t.rows)), 1)

    def _clear(self) -> None:
        """Zeros around the image: transfers write inside them, so once is enough."""
        total = self.t.slots * self.a_slot
        zero = asc.LocalTensor("float16", P.VECCALC, 0, ZERO_ELEMENTS)
        asc.duplicate(zero, 0.0, count=ZERO_ELEMENTS)
        asc.set_flag(E.V_MTE3, 0)
        asc.wait_flag(E.V_MTE3, 0)
        for at, n in even(total, ZERO_ELEMENTS):
            asc.data_copy(self.a1[at:], zero, n)
        if self.plan.fill:
            self._equal_weights()
        asc.set_flag(E.MTE3_MTE2, 0)
        asc.wait_flag(E.MTE3_MTE2, 0)

    def _equal_weights(self) -> None:
        """One diagonal fractal of the same number for every tap; loads to L0 come after the first image."""
        diagonal = asc.LocalTensor("float16", P.VECCALC, 2 * ZERO_ELEMENTS, 256)
        asc.duplicate(diagonal, 0.0, count=256)
        asc.pipe_barrier(asc.PipeID.V)
        for i in range(16):
            asc.duplicate(diagonal[i * 16 :], self.plan.fill, [1 << i, 0], 1, 1, 8)
        asc.set_flag(E.V_MTE3, 0)
        asc.wait_flag(E.V_MTE3, 0)
        for tap in range(self.p.taps):
            asc.data_copy(self.b1[tap * 256 :], diagonal, 256)

    def _load(self, unit: Unit) -> tuple[Held, Held | None]:
        p = self.p
        if unit.load_a:
            first, count, above = input_rows(p, self.share.rows)
            self.a_held = self.a_ring.take()
            if count:
                to = self.a1[self.a_held.slot * self.a_slot + (above * p.pitch + p.pads[0]) * 16 :]
                src = self.x[((unit.image * p.groups + unit.group) * p.h + first) * p.w * 16 :]
                copy_rows(to, src, count, p.w, p.w, p.pitch)
            self.a_ring.hand(self.a_held)
        if unit.load_w and self.w is not None:
            self.w_held = self.w_ring.take()
            blocks = unit.run[1] * p.taps * 16
            src = self.w[unit.run[0] * p.taps * 256 :]
            copy_rows(self.b1[self.w_held.slot * self.w_slot :], src, 1, blocks, blocks, blocks)
            self.w_ring.hand(self.w_held)
        assert self.a_held is not None
        return self.a_held, self.w_held

    def _work(self, unit: Unit, held: tuple[Held, Held | None]) -> None:
        place = place_of(self.p, self.share, unit)
        s, acc, zero = self.out.begin()
        row = self.table.begin(place) if self.table else None
        self._steps(unit, place, held, acc, zero, row[1] if row else None)
        if row and self.table:
            self.table.end(row[0])
        if unit.last_a:
            self.a_ring.give(held[0])
        if unit.last_w and held[1] is not None:
            self.w_ring.give(held[1])
        after = unit.index + 2
        self.out.end(s, place, self.ahead[after] if after < len(self.ahead) else None)

    def _steps(
        self, unit: Unit, place: RowsPlace, held: tuple[Held, Held | None], acc: Any, zero: bool, bias: Any
    ) -> None:
        p, t = self.p, self.t
        m1 = place.mp // 16
        for ring, one in ((self.a_ring, held[0]), (self.w_ring, held[1])):
            if one is not None:
                ring.wait(one, ring.split(one, [(1, 0)])[0])
        image = self.a1[held[0].slot * self.a_slot + unit.rows[0] * p.pitch * 16 :]
        weights = self.b1
        if held[1] is not None:
            weights = self.b1[held[1].slot * self.w_slot + (unit.group - unit.run[0]) * p.taps * 256 :]
        pieces = balanced(p.taps, t.step)
        for i in runs([size for _, size in pieces]):
            tap, size = pieces[i]
            s = self.l0.take()
            a, b = self.a2[s * t.step * t.tile * 256 :], self.b2[s * t.step * 256 :]
            for j in range(size):
                y, x = divmod(tap + j, p.kw)
                src = image[(y * p.dh * p.pitch + x * p.dw) * 16 :]
                asc.load_data(a[j * m1 * 256 :], src, asc.LoadData2DParams(0, m1, 1))
            first = p.taps - tap - size if self.plan.turned else tap
            asc.load_data(b, weights[first * 256 :], asc.LoadData2DParams(0, size, 1))
            self.l0.hand(s)
            for j in range(size):
                start = i == 0 and j == 0
                operands = (acc, a[j * m1 * 256 :], b[(size - 1 - j if self.plan.turned else j) * 256 :])
                if start and bias is not None:
                    asc.mmad(*operands, bias, asc.MmadParams(m1 * 16, 16, 16, cmatrix_init_val=False))
                else:
                    asc.mmad(*operands, asc.MmadParams(m1 * 16, 16, 16, cmatrix_init_val=zero and start))
            self.l0.give(s)


__all__ = ["DepthPlan", "DepthProblem", "depthwise_kernel", "signature", "tile_depthwise"]
