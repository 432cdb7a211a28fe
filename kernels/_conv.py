"""The convolution kernel: im2col by load3d, strips of the feature map and chunks of the weights in L1.

Data: x is NC1HWC0, weights are FRACTAL_Z per group ((C1*Kh*Kw, N1, 16, C0), groups outermost), y is NC1HWC0. The
loop nest is written once as `walk`, a generator of tiles that a trace folds at every level; the cube side and, on
split chips with an epilogue, the vector side both follow it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from ascend_sim import asc
from ascend_sim.isa.layout import ceil_div

from ._bias_table import BiasTable
from ._conv_pool import PooledExit
from ._conv_tiling import Core, Strip
from ._conv_walk import ConvPlan, Part, Shape, Tile, own_columns, place_of, shapes_of, walk
from ._cube import (
    FRACTAL,
    E,
    P,
    Ring,
    accumulate,
    balanced,
    block_index,
    copy_rows,
    even,
    load_fractals,
    runs,
    tensor,
)
from ._exit import CoupledExit, FixpipeExit, Place
from ._matmul_tiling import BIAS_BYTES
from ._mix import MixExit, vector_side
from ._slots import Held, Slots, look_ahead


@asc.jit
def conv_kernel(*gm: Any, plan: ConvPlan) -> None:
    """Convolution of one core's share."""
    core = plan.core(block_index())
    if min(core.images[1], core.groups[1], core.rows[1], core.blocks[1]) == 0:
        return
    arguments: dict[str, list[Any]] = {}
    for role, address in zip(plan.roles, gm, strict=True):
        arguments.setdefault(role, []).append(tensor(address))
    if plan.exit.kind == "mix" and not asc.ascend_is_aic():
        places = (place_of(plan, core, tile) for tile in walk(plan, core))
        vector_side(plan.exit, arguments, places, plan.l0c)
        return
    _CubeSide(plan, core, arguments).run()


class _CubeSide:
    """L1, L0 and L0C of one core, and the loop over its tiles."""

    def __init__(self, plan: ConvPlan, core: Core, arguments: dict[str, list[Any]]) -> None:
        t = plan.tiling
        self.plan, self.core, self.p, self.t = plan, core, plan.problem, t
        self.x, self.w, self.y = arguments["x"][0], arguments["w"][0], arguments["y"][0]
        dtype = plan.dtype
        item = plan.problem.item
        self.a_slot, self.w_slot = t.a_bytes // item, t.w_bytes // item
        self.a1 = asc.LocalTensor(dtype, P.A1, 0, t.a_slots * self.a_slot)
        self.b1 = asc.LocalTensor(dtype, P.B1, t.a_slots * t.a_bytes, t.w_slots * self.w_slot)
        self.a2 = asc.LocalTensor(dtype, P.A2, 0, 2 * plan.l0a // item)
        self.b2 = asc.LocalTensor(dtype, P.B2, 0, 2 * plan.l0b // item)
        self.slot_elements = (plan.l0a // item, plan.l0b // item)
        self.a_ring = Slots(0, t.a_slots, 0, plan.a_parts)
        self.w_ring = Slots(t.a_slots, t.w_slots, t.a_slots * plan.a_parts, plan.w_parts)
        self.l0 = Ring(E.M_MTE1, E.MTE1_M, 0, 2)
        bias = None
        first = core.groups[0] * plan.problem.n1 if plan.problem.groups > 1 else core.blocks[0]
        if plan.exit.bias:
            bias = arguments["bias"][0][first * 16 :]
        self.columns = min(plan.channels - first * 16, plan.exit.bias_columns, own_columns(plan, core))
        self.table: BiasTable | None = None
        if plan.exit.bias == "table":
            at = t.a_slots * t.a_bytes + t.w_slots * t.w_bytes
            self.table = BiasTable(plan.exit, bias, self.columns, at, t.tile_n * 16, 2 * BIAS_BYTES)
        self.out = self._exit(arguments, bias)
        self.opened = False
        self.ahead: list[Shape] = []
        self.whole_a, self.whole_w = t.a_c1 == self.p.c1, t.w_c1 == self.p.c1
        self.a_held: Held | None = None
        self.w_held: Held | None = None
        self.acc: tuple[int, Any, bool] = (0, None, True)

    def _exit(self, arguments: dict[str, list[Any]], bias: Any) -> Any:
        plan = self.plan
        elements = plan.l0c // 4
        if plan.exit.kind == "fixpipe":
            return FixpipeExit(plan.exit, self.y, plan.l0c_slots, elements)
        if plan.exit.kind == "mix":
            return MixExit(plan.exit, arguments["work"][0], plan.l0c_slots, elements)
        if plan.pool is not None:
            return PooledExit(plan, self.core, self.y, plan.l0c_slots, elements, bias, self.columns)
        return CoupledExit(plan.exit, self.y, arguments.get("extra", []), plan.l0c_slots, elements, bias,
                           self.columns)  # fmt: skip

    def run(self) -> None:
        plan = self.plan
        self.ahead = shapes_of(plan, self.core) if plan.exit.bias == "l0c" else []
        if plan.hf32:
            asc.set_hf32_mode(True)
        for ring in (self.a_ring, self.w_ring, self.l0):
            ring.open()
        look_ahead(self._units(), self._load, self._work, self._free, plan.depth)
        for ring in (self.a_ring, self.w_ring, self.l0):
            ring.close()
        if self.table:
            self.table.close()
        self.out.close()

    def _units(self) -> Iterator[Part]:
        """Tiles, cut along the reduction where an operand streams."""
        c1 = self.p.c1
        step = c1 if self.whole_a and self.whole_w else min(self.t.a_c1, self.t.w_c1)
        sizes = [min(step, c1 - at) for at in range(0, c1, step)]
        for tile in walk(self.plan, self.core):
            for i in runs(sizes):
                yield Part(tile, i * step, sizes[i], i == 0, i + 1 == len(sizes))

    def _free(self, part: Part) -> bool:
        """Whether what a part loads has a buffer besides the one in use."""
        a_comes = not self.whole_a or (part.first and part.tile.load_a)
        w_comes = not self.whole_w or (part.first and part.tile.load_w)
        return (self.t.a_slots > 1 or not a_comes) and (self.t.w_slots > 1 or not w_comes)

    def _load(self, part: Part) -> tuple[Held, Held]:
        tile = part.tile
        pieces: list[Iterator[None]] = []
        if not self.whole_a or (part.first and tile.load_a):
            self.a_held = self.a_ring.take()
            a = (0, self.p.c1) if self.whole_a else (part.c, part.count)
            pieces.append(self._load_a(self.a_held, tile, *a))
        if not self.whole_w or (part.first and tile.load_w):
            self.w_held = self.w_ring.take()
            w = (tile.chunk, 0, self.p.c1) if self.whole_w else (tile.n, part.c, part.count)
            load_w = self._load_w_backward(self.w_held, *w) if self.p.backward else (
                self._load_w(self.w_held, tile.group, *w))
            pieces.append(load_w)
        for _ in zip_longest(*pieces):  # in turn, so that the cube starts on the first piece of both
            self._open_exit()
        assert self.a_held is not None and self.w_held is not None
        return self.a_held, self.w_held

    def _work(self, part: Part, held: tuple[Held, Held]) -> None:
        tile = part.tile
        place = place_of(self.plan, self.core, tile)
        row: tuple[int, Any] | None = None
        if part.first:
            self.acc = self.out.begin()
            row = self.table.begin(place) if self.table else None
        s, acc, zero = self.acc
        self._steps(part, held, acc, zero and part.first, row[1] if row else None)
        if row and self.table:
            self.table.end(row[0])
        if not self.whole_a or (part.last and tile.last_a):
            self.a_ring.give(held[0])
        if not self.whole_w or (part.last and tile.last_w):
            self.w_ring.give(held[1])
        if part.last:
            after = tile.index + self.plan.l0c_slots
            following = self._shape_place(self.ahead[after]) if after < len(self.ahead) else None
            self.out.end(s, place, following)

    def _open_exit(self) -> None:
        """Once: the bias comes behind what the first load to L0 waits for, before the rest of the weights."""
        if self.opened:
            return
        self.opened = True
        self.out.open([self._shape_place(s) for s in self.ahead[: self.plan.l0c_slots]])
        if self.table:
            self.table.open()

    def _shape_place(self, shape: Shape) -> Place:
        return Place(0, 0, shape.m1 * 16, shape.n1, 0, 0, shape.column)

    # -- L1

    def _load_a(self, held: Held, tile: Tile, c: int, count: int) -> Iterator[None]:
        """Input rows of the tile's strip, input blocks [c, c + count), a piece at a time."""
        p, s = self.p, tile.strip
        rows = s.count * p.w
        if self.plan.image is not None:
            self._load_image(held, tile)
            yield
            return
        for at, n in even(count, ceil_div(count, self.plan.a_parts)):
            for k in range(tile.images):
                block = ((tile.image + k) * p.groups + tile.group) * p.c1 + c + at
                to = self.a1[held.slot * self.a_slot + (k * count + at) * rows * self.plan.c0 :]
                copy_rows(to, self.x[(block * p.h + s.first) * p.w * self.plan.c0 :], n, rows, p.h * p.w, rows)
            self.a_ring.hand(held, (at * p.taps, 0))
            yield

    def _load_image(self, held: Held, tile: Tile) -> None:
        """The strip's pixels, preprocessed."""
        image, s, stored = self.plan.image, tile.strip, self.plan.stored
        assert image is not None
        pitch = image.columns * image.pixel
        for k in range(tile.images):
            to = self.a1[held.slot * self.a_slot + k * s.count * self.p.w * stored :]
            at = ((tile.image + k) * image.rows + image.top + s.first) * pitch + image.left * image.pixel
            asc.load_image(to, self.x[at:], asc.ImageParams(
                s.count, self.p.w, pitch, image.pixel, image.order, image.offset, image.scale, stored,
            ))  # fmt: skip
        self.a_ring.hand(held)

    def _load_w(self, held: Held, group: int, chunk: tuple[int, int], c: int, count: int) -> Iterator[None]:
        """Weights of a chunk, input blocks [c, c + count), a piece at a time: one panel per tile width, (taps x count)
        rows each."""
        p = self.p
        at = held.slot * self.w_slot
        rows = count * p.taps
        per, blocks = FRACTAL // p.item, FRACTAL // 32
        panels = even(chunk[1], self.t.tile_n)
        parts = max(self.plan.w_parts // len(panels), 1)
        moves = [(i, k, n) for i in range(len(panels)) for k, n in even(rows, ceil_div(rows, parts))]
        for start, size in even(len(moves), ceil_div(len(moves), self.plan.w_parts)):
            for i, k, n in moves[start : start + size]:
                first, width = panels[i]
                offset = ((group * p.k1 + c * p.taps + k) * p.n1 + chunk[0] + first) * per
                to = self.b1[at + (first * rows + k * width) * per :]
                copy_rows(to, self.w[offset:], n, width * blocks, p.n1 * blocks, width * blocks)
            self.w_ring.hand(held, moves[start][:2])
            yield

    def _load_w_backward(self, held: Held, chunk: tuple[int, int], c: int, count: int) -> Iterator[None]:
        """Weights of the forward convolution, in their order: per block of C0 input channels (of the forward
        convolution, output channels of this one) [tap][reduction rows][C0]."""
        p, c0 = self.p, self.plan.c0
        per = 16 // c0  # blocks of C0 channels in one of 16
        panels = even(chunk[1], self.t.tile_n)
        for batch in (panels[s : s + n] for s, n in even(len(panels), ceil_div(len(panels), self.plan.w_parts))):
            first, end = batch[0][0] * per, min((batch[-1][0] + batch[-1][1]) * per, p.w_blocks - chunk[0] * per)
            source = (chunk[0] * per + first) * p.taps * p.w_rows + c * c0
            to = self.b1[held.slot * self.w_slot + first * count * p.taps * c0 * c0 :]
            copy_rows(to, self.w[source * c0 :], (end - first) * p.taps, count * c0, p.w_rows, count * c0)
            self.w_ring.hand(held, (batch[0][0] // self.t.tile_n, 0))
            yield

    # -- L0

    def _load_turned(self, dst: Any, src: Any, n1: int, k: int, size: int, depth: int) -> None:
        """Fractals [k, k + size) of ``depth`` along the reduction for ``n1`` output blocks, turned around and
        transposed to L0B, one row of them at a time. 32-bit ones come as windows of 16 rows, of which the next load
        overwrites the half that is not wanted."""
        p, c0 = self.p, self.plan.c0
        count = depth // p.taps
        for i in range(size):
            c, tap = divmod(k + i, p.taps)
            row = (p.taps - 1 - tap) * count + c
            to = dst[i * n1 * 16 * c0 :]
            if p.surplus:
                odd = row % 2  # windows start at multiples of 16
                asc.load_data(to, src[odd * c0 * c0 :], asc.LoadData3DParamsV2(
                    (0, 0, 0, 0), depth, c0, n1 * 16, n1 * 16, c0, 0, (row - odd) * c0,
                ))  # fmt: skip
            else:
                asc.load_data(to, src, asc.LoadData2DParams(row, n1, depth, 0, 0, True))

    def _steps(self, part: Part, held: tuple[Held, Held], acc: Any, first: bool, bias: Any) -> None:
        """Cube steps over a part's input blocks. What is whole in L1 is read from block ``part.c`` on."""
        p, t, tile = self.p, self.t, part.tile
        pieces = balanced(part.count * p.taps, t.step_k)
        a_from, w_from = (part.c * p.taps if whole else 0 for whole in (self.whole_a, self.whole_w))
        source_a = self.a1[held[0].slot * self.a_slot :]
        per = FRACTAL // p.item
        panel_at = tile.n[0] - tile.chunk[0] if self.whole_w else 0
        panel_rows = p.k1 if self.whole_w else part.count * p.taps
        source_b = self.b1[held[1].slot * self.w_slot + panel_at * panel_rows * per :]
        m, n = tile.images * tile.m[1] * 16, tile.n[1] * 16
        channels = (p.c1 if self.whole_a else part.count) * self.plan.stored
        image_size = channels * tile.strip.count * p.w
        a_waits = self.a_ring.split(held[0], [(a_from + k + size, 0) for k, size in pieces])
        w_waits = self.w_ring.split(held[1], [(panel_at // t.tile_n, w_from + k + size) for k, size in pieces])

        def load(i: int, a: Any, b: Any) -> tuple[int, int, int]:
            k, size = pieces[i]
            self.a_ring.wait(held[0], a_waits[i])
            self.w_ring.wait(held[1], w_waits[i])
            for image in range(tile.images):
                a_to = a[image * tile.m[1] * size * per :]
                self._load3d(a_to, source_a[image * image_size :], tile, a_from + k, size, channels)
            if p.backward:
                self._load_turned(b, source_b, tile.n[1], w_from + k, size, panel_rows)
            else:
                load_fractals(b, source_b[(w_from + k) * tile.n[1] * per :], 1, size * tile.n[1], 0, 1)
            return m, n, size * self.plan.c0

        keys = [(size, a_waits[i], w_waits[i]) for i, (_, size) in enumerate(pieces)]
        accumulate(self.l0, self.a2, self.b2, self.slot_elements, acc, keys, load, first, bias)

    def _load3d(self, dst: Any, src: Any, tile: Tile, k: int, size: int, channels: int) -> None:
        """Fractals [k, k + size) along the reduction of the tile's rows, to L0A; ``channels`` of the strip in L1."""
        p, s, c0 = self.p, tile.strip, self.plan.c0
        pads = (p.pads[0], p.pads[1], s.top, s.bottom)
        if self.plan.load3d_v2:
            asc.load_data(dst, src, asc.LoadData3DParamsV2(
                pads, s.count, p.w, channels, size * c0, tile.m[1] * 16, k * c0, tile.m[0] * 16,
                p.sw, p.sh, p.kw, p.kh, p.dw, p.dh,
            ))  # fmt: skip
            return
        c1, tap = divmod(k, p.taps)
        fetch_h, fetch_w = divmod(tap, p.kw)
        per = FRACTAL // p.item
        if tile.m[1] <= size:  # along the filter, one instruction per 16 positions
            for i in range(tile.m[1]):
                self._load3d_v1(dst[i * size * per :], src, pads, s, c1, fetch_h, fetch_w, tile.m[0] + i, 1, 0, size)
            return
        for i in range(size):  # along the positions, one instruction per tap
            c1, tap = divmod(k + i, p.taps)
            fetch_h, fetch_w = divmod(tap, p.kw)
            self._load3d_v1(dst[i * per :], src, pads, s, c1, fetch_h, fetch_w, tile.m[0], size, 1, tile.m[1])

    def _load3d_v1(
        self, dst: Any, src: Any, pads: Sequence[int], s: Strip, c1: int, fetch_h: int, fetch_w: int, m1: int,
        jump: int, mode: int, repeat: int,
    ) -> None:  # fmt: skip
        p = self.p
        row, column = divmod(m1 * 16, p.wo)
        asc.load_data(dst, src, asc.LoadData3DParamsV1(
            pads, s.count, p.w, c1, fetch_w, fetch_h, column * p.sw - p.pads[0], row * p.sh - s.top,
            p.sw, p.sh, p.kw, p.kh, p.dw, p.dh, jump, mode, repeat,
        ))  # fmt: skip
