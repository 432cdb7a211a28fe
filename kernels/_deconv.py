"""The transposed convolution kernel: one small convolution per output phase.

With stride s, output rows y with equal r = (y + pad) mod s use the same filter rows r, r + s, ...; with q = (y + pad)
// s they are the rows of a stride-1 convolution of x with those filter rows in reverse. Every (row, column) phase is
computed from the same strip of x in L1; its results go to every s-th pixel of y.

Weights are FRACTAL_Z of [Cin, Cout, Kh, Kw], that is (Cout1 * Kh * Kw, Cin1, 16, 16): fractals are transposed on their
way to L0B.
"""

from __future__ import annotations

from typing import Any

from ascend_sim import asc

from ._bias_table import BiasTable
from ._cube import FRACTAL, E, P, Ring, accumulate, balanced, block_index, copy_rows, even, tensor
from ._deconv_walk import (
    DeconvPlan,
    PhasePlace,
    Share,
    Unit,
    View,
    place_of,
    share_of,
    strips_of,
    tiles_of,
    view_of,
    walk,
)
from ._exit import CoupledExit, Outlet
from ._matmul_tiling import BIAS_BYTES
from ._mix import MixExit, vector_side
from ._slots import Held, Slots, look_ahead


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
        look_ahead(walk(plan, share), self._load, self._work, lambda unit: self.t.w_slots > 1 or not unit.load_w)
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
