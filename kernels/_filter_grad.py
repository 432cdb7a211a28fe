"""The kernel of a filter's gradient: dW = dy^T x im2col(x), strip by strip.

dy comes to L1 as (output blocks, positions, C0) and is transposed on its way to L0A; im2col loads bring the input to
L0B. A tile of dW stays in L0C over all strips of the core and leaves as FRACTAL_Z, added to what is in memory when
other cores work on the same tile.
"""

from __future__ import annotations

from typing import Any

from ascend_sim import asc
from ascend_sim.isa.layout import ceil_div

from ._cube import E, P, Ring, accumulate, block_index, copy_rows, even, load_fractals, tensor
from ._exit import CoupledExit, FixpipeExit
from ._filter_grad_walk import FilterPlan, Unit, input_blocks, place_of, rows_of, walk
from ._matmul_tiling import align
from ._slots import Held, Slots, look_ahead


@asc.jit
def filter_grad_kernel(*gm: Any, plan: FilterPlan) -> None:
    """Tiles of dW of one core."""
    arguments = {role: tensor(address) for role, address in zip(plan.roles, gm, strict=True)}
    _CubeSide(plan, arguments).run()


class _CubeSide:
    """L1, L0 and L0C of one core, and the loop over its tiles and strips."""

    def __init__(self, plan: FilterPlan, arguments: dict[str, Any]) -> None:
        t, p = plan.tiling, plan.conv
        self.plan, self.p, self.t = plan, p, t
        self.x, self.dy = arguments["x"], arguments["dy"]
        item, c0 = p.item, plan.c0
        self.a_slot, self.b_slot = t.a_bytes // item, t.b_bytes // item
        self.a1 = asc.LocalTensor(plan.dtype, P.A1, 0, 2 * self.a_slot)
        self.b1 = asc.LocalTensor(plan.dtype, P.B1, 2 * t.a_bytes, 2 * self.b_slot)
        n1 = ceil_div(t.tile_n * c0, 16)
        self.slot_elements = (t.tile_m * t.step * 256, n1 * t.step * 256)
        self.a2 = asc.LocalTensor(plan.dtype, P.A2, 0, 2 * self.slot_elements[0])
        self.b2 = asc.LocalTensor(plan.dtype, P.B2, 0, 2 * self.slot_elements[1])
        self.a_ring, self.b_ring = Slots(0, 2, 0), Slots(2, 2, 2)
        self.l0 = Ring(E.M_MTE1, E.MTE1_M, 0, 2)
        elements = t.tile_m * n1 * 256
        self.out: Any
        if plan.exit.kind == "fixpipe":
            self.out = FixpipeExit(plan.exit, arguments["y"], t.l0c_slots, elements)
        else:
            self.out = CoupledExit(plan.exit, arguments["y"], [], t.l0c_slots, elements, None, 0)
        self.acc: tuple[int, Any, bool] = (0, None, True)

    def run(self) -> None:
        if self.plan.hf32:
            asc.set_hf32_mode(True)
        if self.plan.atomic:
            asc.set_atomic_add("float32")
        rings: tuple[Any, ...] = (self.a_ring, self.b_ring, self.l0)
        for ring in rings:
            ring.open()
        self.out.open([])
        look_ahead(walk(self.plan, block_index()), self._load, self._work, lambda unit: True)
        for ring in rings:
            ring.close()
        self.out.close()
        if self.plan.atomic:
            asc.set_atomic_none()

    def _load(self, unit: Unit) -> tuple[Held, Held]:
        p, c0, tile, strip = self.p, self.plan.c0, unit.tile, unit.piece.strip
        a, b = self.a_ring.take(), self.b_ring.take()
        blocks = ceil_div(rows_of(self.plan, tile), c0)
        first = unit.piece.image * self.plan.dy_blocks + tile.m[0] * 16 // c0
        source = self.dy[(first * p.ho + strip.row) * p.wo * c0 :]
        copy_rows(self.a1[a.slot * self.a_slot :], source, blocks, strip.m, p.ho * p.wo, align(strip.m, 16))
        self.a_ring.hand(a)
        c, count = input_blocks(p, tile)
        source = self.x[((unit.piece.image * p.c1 + c) * p.h + strip.first) * p.w * c0 :]
        rows = strip.count * p.w
        copy_rows(self.b1[b.slot * self.b_slot :], source, count, rows, p.h * p.w, rows)
        self.b_ring.hand(b)
        return a, b

    def _work(self, unit: Unit, held: tuple[Held, Held]) -> None:
        p, tile, strip = self.p, unit.tile, unit.piece.strip
        place = place_of(self.plan, tile)
        if unit.first:
            self.acc = self.out.begin()
        s, acc, _ = self.acc
        for ring, one in ((self.a_ring, held[0]), (self.b_ring, held[1])):
            ring.wait(one, ring.split(one, [(1, 0)])[0])
        a1, b1 = self.a1[held[0].slot * self.a_slot :], self.b1[held[1].slot * self.b_slot :]
        steps = even(strip.m, self.t.step * 16)

        def load(i: int, a: Any, b: Any) -> tuple[int, int, int]:
            at, size = steps[i]
            self._load_a2(a, a1, unit, at, size)
            self._load_b2(b, b1, unit, at, size)
            return tile.m[1] * 16, align(tile.n[1] * self.plan.c0, 16), size

        accumulate(
            self.l0, self.a2, self.b2, self.slot_elements, acc, [n for _, n in steps], load, unit.first,
            align_k=p.item == 4,
        )  # fmt: skip
        self.a_ring.give(held[0])
        self.b_ring.give(held[1])
        if unit.last:
            self.out.end(s, place, None)

    def _load_a2(self, dst: Any, src: Any, unit: Unit, at: int, size: int) -> None:
        """Positions [at, at + size) of dy, transposed."""
        m1, pitch = unit.tile.m[1], align(unit.piece.strip.m, 16)
        if self.plan.window_loads:
            asc.load_data(dst, src, asc.LoadData3DParamsV2(
                (0, 0, 0, 0), 1, pitch, m1 * 16, m1 * 16, align(size, 16), 0, at, en_transpose=True,
            ))  # fmt: skip
        else:
            load_fractals(dst, src[at * 16 :], m1, ceil_div(size, 16), pitch // 16, 1, transpose=True)

    def _load_b2(self, dst: Any, src: Any, unit: Unit, at: int, size: int) -> None:
        """Rows [at, at + size) of the im2col matrix of the strip, columns of the tile."""
        p, strip, c0, n = self.p, unit.piece.strip, self.plan.c0, unit.tile.n
        pads = (p.pads[0], p.pads[1], strip.top, strip.bottom)
        c, count = input_blocks(p, unit.tile)
        start = n[0] - c * p.taps
        if self.plan.window_loads:
            asc.load_data(dst, src, asc.LoadData3DParamsV2(
                pads, strip.count, p.w, count * c0, n[1] * c0, align(size, 16), start * c0, at, p.sw, p.sh, p.kw, p.kh,
                p.dw, p.dh,
            ))  # fmt: skip
            return
        c1, tap = divmod(start, p.taps)
        fetch_h, fetch_w = divmod(tap, p.kw)
        for i in range(ceil_div(size, 16)):
            row, column = divmod(at + i * 16, p.wo)
            asc.load_data(dst[i * n[1] * 256 :], src, asc.LoadData3DParamsV1(
                pads, strip.count, p.w, c1, fetch_w, fetch_h, column * p.sw - p.pads[0], row * p.sh - strip.top,
                p.sw, p.sh, p.kw, p.kh, p.dw, p.dh, 1, 0, n[1],
            ))  # fmt: skip
