"""Vector side of the attention gradient: row sums of dY Y and zeros before, weights and score gradients of every tile,
scaling and rounding after."""

from __future__ import annotations

from typing import Any

from ascend_sim import asc
from ascend_sim.isa.layout import ceil_div

from ._attention_cube import STAGE
from ._attention_grad_cube import CLEARED, DONE, GRADS, SCORES, SLOTS, TILE_M, TILE_S, GradPlan, key_of
from ._attention_plan import Tile, steps_of
from ._attention_softmax import BLOCK, Scratch, barrier, by_row, hide, reduce_rows
from ._cube import E, P, Ring, even
from ._vector import align

STRIP = 4096  # elements of one pass
MOST_ROWS = 64
ROW_ROLES = ("top", "total", "dots")


class GradVector:
    """One vector core."""

    def __init__(self, plan: GradPlan, gm: dict[str, Any], block: int) -> None:
        self.plan, self.gm, self.tiles, self.block = plan, gm, plan.work[block], block
        self.me = asc.get_sub_block_idx()
        self.core = 2 * block + self.me
        at = 0

        def room(dtype: str, elements: int, item: int) -> Any:
            nonlocal at
            t = asc.LocalTensor(dtype, P.VECCALC, at, elements)
            at += align(elements * item, 32)
            return t

        self.inputs = [[room("float32", STRIP, 4) for _ in range(2)] for _ in range(2)]
        self.outputs = [[room(plan.dtype, STRIP, 2) for _ in range(2)] for _ in range(2)]
        self.rows = [room("float32", TILE_M * BLOCK, 4) for _ in ROW_ROLES]
        self.mask = room("uint8", STRIP, 1)
        self.bits = room("uint8", STRIP // 8, 1)
        half, spread = room("float32", STRIP // 2, 4), room("float32", (MOST_ROWS + 8) * BLOCK, 4)
        self.scratch = Scratch(half, room("float32", 2 * MOST_ROWS, 4), spread, spread)
        self.load, self.store = Ring(E.V_MTE2, E.MTE2_V, 0, 2), Ring(E.MTE3_V, E.V_MTE3, 0, 2)
        self.cast_up = asc.RoundMode.CAST_NONE
        self.cast_down = asc.RoundMode.CAST_RINT if plan.dtype == "bfloat16" else asc.RoundMode.CAST_NONE
        self.after: dict[Any, tuple[int, int]] = {}

    def run(self) -> None:
        self._clear()
        self.load.open()
        self.store.open()
        asc.set_flag(E.V_MTE2, 2)
        asc.set_flag(E.V_MTE2, 3)
        for i in steps_of([piece[3] for piece in self.plan.rows[self.core]]):
            self._dots(*self.plan.rows[self.core][i])
        asc.sync_all()
        asc.cross_core_set_flag(CLEARED, 2, asc.PipeID.MTE3)
        for i in steps_of([key_of(t) for t in self.tiles]):
            tile = self.tiles[i]
            key = (key_of(tile), i % SLOTS, self.load.turn, self.store.turn)
            asc.repeated(key, lambda tile=tile, i=i: self._tile(tile, i))
            self.load.turn, self.store.turn = self.after.setdefault(key, (self.load.turn, self.store.turn))
        asc.cross_core_wait_flag(DONE, 2, asc.PipeID.MTE2)
        self._finish("dq_sum", "dq", self.plan.sizes[0], self.plan.scale)
        self._finish("dk_sum", "dk", self.plan.sizes[1], self.plan.scale)
        self._finish("dv_sum", "dv", self.plan.sizes[1], 1.0)
        self.load.close()
        self.store.close()
        asc.wait_flag(E.V_MTE2, 2)
        asc.wait_flag(E.V_MTE2, 3)

    def _share(self, total: int) -> list[tuple[int, int]]:
        """This core's passes over ``total`` elements."""
        cores = 2 * len(self.plan.work)
        size = align(ceil_div(total, cores), 64)
        start = self.core * size
        return [(start + at, n) for at, n in even(max(min(size, total - start), 0), STRIP)]

    def _clear(self) -> None:
        """Zero the sums."""
        zero = self.inputs[0][0]
        asc.duplicate(zero, 0.0, count=STRIP)
        asc.set_flag(E.V_MTE3, 0)
        asc.wait_flag(E.V_MTE3, 0)
        for role, size in (("dq_sum", 0), ("dk_sum", 1), ("dv_sum", 1)):
            passes = self._share(self.plan.sizes[size])
            for i in steps_of([n for _, n in passes]):
                at, n = passes[i]
                asc.data_copy(self.gm[role][at:], zero, n)
        asc.set_flag(E.MTE3_V, 2)
        asc.wait_flag(E.MTE3_V, 2)
        asc.set_flag(E.MTE3_MTE2, 0)
        asc.wait_flag(E.MTE3_MTE2, 0)

    def _dots(self, batch: int, head: int, token: int, count: int) -> None:
        """Row sums of dY Y for some tokens of a head, a block each."""
        plan, d = self.plan, self.plan.d
        q = plan.q
        place = batch * q.batch + head * q.head + token * q.token
        s, o = self.load.take(), self.store.take()
        for side, role in enumerate(("dy", "y")):
            asc.data_copy(self.outputs[s][side], self.gm[role][place:],
                          asc.DataCopyParams(count, d // 16, (q.token - d) // 16, 0))  # fmt: skip
        self.load.hand(s)
        a, b = self.inputs[s]
        asc.cast(a, self.outputs[s][0], self.cast_up, count=count * d)
        asc.cast(b, self.outputs[s][1], self.cast_up, count=count * d)
        barrier()
        asc.mul(a, a, b, count=count * d)
        barrier()
        reduce_rows(False, self.scratch, a, count, d, d)
        asc.adds(self.rows[o], self.scratch.spread, 0.0, count=count * BLOCK)
        self.load.give(s)
        self.store.hand(o)
        at = ((batch * plan.heads + head) * plan.tokens + token) * BLOCK
        asc.data_copy(self.gm["dots"][at:], self.rows[o], count * BLOCK)
        self.store.give(o)

    def _tile(self, tile: Tile, index: int) -> None:
        """Weights and score gradients of this core's rows of a tile."""
        plan = self.plan
        asc.scalar_instructions(1, STAGE)
        half = ceil_div(tile.m, 2)
        start, count = (0, half) if self.me == 0 else (half, tile.m - half)
        pitch, base = align(tile.w, 64), (index % SLOTS) * TILE_M * TILE_S
        if count:
            asc.wait_flag(E.V_MTE2, 2)
            at = ((tile.batch * plan.heads + tile.head) * plan.tokens + tile.m0 + start) * BLOCK
            for role, rows in zip(ROW_ROLES, self.rows, strict=True):
                asc.data_copy(rows, self.gm[role][at:], count * BLOCK)
            asc.set_flag(E.MTE2_V, 2)
            asc.wait_flag(E.MTE2_V, 2)
        asc.cross_core_wait_flag(SCORES, 2, asc.PipeID.MTE2)
        parts = even(count, min(STRIP // pitch, MOST_ROWS))

        def load(row: int, n: int) -> int:
            s = self.load.take()
            for x, role in zip(self.inputs[s], ("scores", "raised"), strict=True):
                asc.data_copy(x, self.gm[role][base + (start + row) * pitch :], n * pitch)
            asc.set_flag(E.MTE2_V, s)
            return s

        held = load(*parts[0]) if parts else 0
        for i, (row, n) in enumerate(parts):
            following = load(*parts[i + 1]) if i + 1 < len(parts) else 0
            if tile.masked:
                asc.wait_flag(E.V_MTE2, 3)
                self._mask_in(tile, start + row, n, pitch)
                asc.set_flag(E.MTE2_V, 3)
                asc.wait_flag(E.MTE2_V, 3)
            asc.wait_flag(E.MTE2_V, held)
            o = self.store.take()
            self._strip(tile, held, o, row, n, pitch)
            self.load.give(held)
            self.store.hand(o)
            for x, role in zip(self.outputs[o], ("weights", "steps"), strict=True):
                asc.data_copy(self.gm[role][base + (start + row) * pitch :], x, n * pitch)
            self.store.give(o)
            held = following
        if count:
            asc.set_flag(E.V_MTE2, 2)
        asc.cross_core_set_flag(GRADS, 2, asc.PipeID.MTE3)

    def _strip(self, tile: Tile, s: int, o: int, row: int, n: int, pitch: int) -> None:
        """P = exp(scaled scores - top) / total; dS = P (dP - dots)."""
        x, up = self.inputs[s]
        top, total, dots = (rows[row * BLOCK :] for rows in self.rows)
        asc.muls(x, x, self.plan.scale, count=n * pitch)
        barrier()
        if tile.masked:
            hide(x, self.mask, self.outputs[o][0].reinterpret_cast("float16"), self.bits, n * pitch)
            asc.set_flag(E.V_MTE2, 3)
        by_row(asc.sub, x, top, n, tile.w, pitch)
        by_row(asc.sub, up, dots, n, tile.w, pitch)
        barrier()
        asc.exp(x, x, count=n * pitch)
        barrier()
        by_row(asc.div, x, total, n, tile.w, pitch)
        barrier()
        asc.cast(self.outputs[o][0], x, self.cast_down, count=n * pitch)
        asc.mul(up, up, x, count=n * pitch)
        barrier()
        asc.cast(self.outputs[o][1], up, self.cast_down, count=n * pitch)

    def _mask_in(self, tile: Tile, row: int, rows: int, pitch: int) -> None:
        """Mask bytes of some rows; in the triangle at a place as far from the diagonal."""
        plan, mask = self.plan, self.gm["mask"]
        matrices, lines, line = plan.mask_shape
        token = tile.m0 + row
        if plan.mask == "full":
            at = ((tile.batch % matrices) * lines + token) * line + tile.s0
        else:
            ahead = tile.s0 - plan.shifts[tile.batch] - token
            at = min(max(ahead, 0), line - tile.w) + min(max(-ahead, 0), lines - rows) * line
        gap = (pitch - align(tile.w, 32)) // 32
        asc.data_copy_pad(self.mask, mask[at:], asc.DataCopyParams(rows, tile.w, line - tile.w, gap))

    def _finish(self, source: str, target: str, size: int, scale: float) -> None:
        """Sums to the output's type."""
        passes = self._share(size)
        for i in steps_of([n for _, n in passes]):
            at, n = passes[i]
            s = self.load.take()
            x = self.inputs[s][0]
            asc.data_copy(x, self.gm[source][at:], n)
            self.load.hand(s)
            o = self.store.take()
            asc.muls(x, x, scale, count=n)
            barrier()
            asc.cast(self.outputs[o][0], x, self.cast_down, count=n)
            self.load.give(s)
            self.store.hand(o)
            asc.data_copy(self.gm[target][at:], self.outputs[o][0], n)
            self.store.give(o)
