"""Vector side of attention: softmax of score tiles, running output, and the combination of partial results.

Each of the two vector cores of a block takes half of a tile's rows, in strips of 8192 scores. Step i turns the scores
of tile i - 1 into weights, then adds the weighted values of tile i - 2 to the output, which waits in the workspace
between tiles (hicann/ops-transformer, restated).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ascend_sim import asc
from ascend_sim.isa.layout import ceil_div

from ._attention_cube import SCORES, SLOTS, STAGE, VALUES, WEIGHTS
from ._attention_plan import JOIN_ROWS, STRIP, AttentionPlan, Join, Strides, Tile, steps_of
from ._attention_softmax import BLOCK, Rows, Scratch, barrier, by_row, hide, softmax
from ._cube import E, P, Ring, even
from ._vector import align

PASS = STRIP // 2  # elements of the output in one pass of the update: two inputs share a buffer
MOST_ROWS = 64  # of a strip
FULL = asc.PipeID.PIPE_ALL


class VectorSide:
    """Unified buffer of one vector core and the loop over the tiles of its block."""

    def __init__(self, plan: AttentionPlan, gm: dict[str, Any], block: int) -> None:
        self.plan, self.gm, self.tiles = plan, gm, plan.work[block]
        self.block, self.me = block, asc.get_sub_block_idx()
        half = ceil_div(max((t.m for t in self.tiles), default=1), 2)
        self.state_rows = align(half, 8) + 8
        at = 0

        def room(dtype: str, elements: int, item: int) -> Any:
            nonlocal at
            t = asc.LocalTensor(dtype, P.VECCALC, at, elements)
            at += align(elements * item, 32)
            return t

        self.inputs = [room("float32", STRIP, 4) for _ in range(2)]
        self.outputs = [room(plan.dtype, STRIP, 2) for _ in range(2)]
        self.wide = [t.reinterpret_cast("float32") for t in self.outputs]
        self.masks = [room("uint8", STRIP, 1) for _ in range(2)] if plan.mask else []
        self.bits = room("uint8", STRIP // 8, 1) if plan.mask else None
        rows = MOST_ROWS
        self.scratch = Scratch(
            room("float32", STRIP // 2, 4), room("float32", rows + 64, 4), room("float32", (rows + 8) * BLOCK, 4),
            room("float32", (rows + 8) * BLOCK, 4),
        )  # fmt: skip
        n = self.state_rows * BLOCK
        self.top = [room("float32", n, 4) for _ in range(2)]
        self.total = [room("float32", n, 4) for _ in range(2)]
        self.change = [room("float32", n, 4) for _ in range(2)]
        self.load, self.mask_load = Ring(E.V_MTE2, E.MTE2_V, 0, 2), Ring(E.V_MTE2, E.MTE2_V, 2, 2)
        self.store = Ring(E.MTE3_V, E.V_MTE3, 0, 2)

        self.after: dict[Any, tuple[int, ...]] = {}  # ring positions after a stage

    def run(self) -> None:
        rings = [self.load, self.store] + ([self.mask_load] if self.plan.mask else [])
        for ring in rings:
            ring.open()
        tiles = self.tiles
        keys = [t.key for t in tiles]
        n = len(keys)
        for i in steps_of([(keys[i] if i < n else None, keys[i - 1] if i else None) for i in range(n + 1)]):
            if i < n:
                self._stage("weights", self.weights, tiles[i], i)
            if i:
                self._stage("update", self.update, tiles[i - 1], i - 1)
        for ring in rings:
            ring.close()
        if any(self.plan.joins):
            asc.sync_all()
            for join in self.plan.joins[2 * self.block + self.me]:
                self.join(join)

    def _stage(self, name: str, body: Callable[[Tile, int], None], tile: Tile, index: int) -> None:
        """A stage issues the same instructions for equal tiles and equal positions of the buffer rings."""
        rings = (self.load, self.mask_load, self.store)
        plan = self.plan
        beyond = plan.mask == "full" or (bool(plan.mask) and tile.s0 > plan.shifts[tile.batch] + plan.token(tile, 0))
        if tile.masked and beyond:  # where mask rows begin decides how they are copied
            body(tile, index)
            return
        key = (name, tile.key, tile.m0 % plan.fold, *(ring.turn for ring in rings))
        asc.repeated(key, lambda: body(tile, index))
        turns = self.after.setdefault(key, tuple(ring.turn for ring in rings))
        for ring, turn in zip(rings, turns, strict=True):
            ring.turn = turn

    def _share(self, m: int) -> tuple[int, int]:
        """Rows of a tile that this core does: (first, count)."""
        half = ceil_div(m, 2)
        return (0, half) if self.me == 0 else (half, m - half)

    # ---- scores to weights

    def weights(self, tile: Tile, index: int) -> None:
        plan = self.plan
        start, count = self._share(tile.m)
        pitch = align(tile.w, 64)
        rows = min(STRIP // pitch, MOST_ROWS)
        slot = (index % SLOTS) * plan.tile_m * align(plan.tile_s, 64)
        top, total, change = self.top[tile.turn % 2], self.total[tile.turn % 2], self.change[index % 2]
        asc.cross_core_wait_flag(SCORES, 2, asc.PipeID.MTE2)
        strips = even(count, rows)
        asc.scalar_instructions(1, STAGE)

        def load(row: int, n: int) -> tuple[int, int]:
            s = self.load.take()
            asc.data_copy(self.inputs[s], self.gm["scores"][slot + (start + row) * pitch :], n * pitch)
            asc.set_flag(E.MTE2_V, s)
            m = -1
            if tile.masked:
                m = self.mask_load.take()
                self._mask_in(self.masks[m], tile, start + row, n, pitch)
                asc.set_flag(E.MTE2_V, 2 + m)
            return s, m

        def work(row: int, n: int, held: tuple[int, int]) -> None:
            s, m = held
            x = self.inputs[s]
            asc.wait_flag(E.MTE2_V, s)
            o = self.store.take()
            asc.muls(x, x, plan.scale, count=n * pitch)
            barrier()
            if tile.masked:
                asc.wait_flag(E.MTE2_V, 2 + m)
                hide(x, self.masks[m], self.outputs[o].reinterpret_cast("float16"), self.bits, n * pitch)
                self.mask_load.give(m)
            state = Rows(top[row * BLOCK :], total[row * BLOCK :], change[row * BLOCK :])
            asc.repeated(("softmax", n, tile.w, tile.first), lambda: softmax(
                x, self.outputs[o], self.scratch, state, n, tile.w, pitch, tile.first
            ))  # fmt: skip
            self.load.give(s)
            self.store.hand(o)
            asc.data_copy(self.gm["weights"][slot + (start + row) * pitch :], self.outputs[o], n * pitch)
            self.store.give(o)

        _one_ahead(strips, load, work)
        asc.cross_core_set_flag(WEIGHTS, 2, asc.PipeID.MTE3)
        if tile.last and count and (tile.part >= 0 or plan.rows_out):
            self._rows_away(tile, start, count, top, total)

    def _mask_in(self, dst: Any, tile: Tile, row: int, rows: int, pitch: int) -> None:
        """Mask bytes of some rows of a tile, ``pitch`` apart; one copy where rows follow each other in the mask."""
        plan, mask = self.plan, self.gm["mask"]
        gap = (pitch - align(tile.w, 32)) // 32
        matrices, lines, line = plan.mask_shape

        def place(token: int) -> int:
            """Where the mask of a token's tile begins. In the triangle: at a place as far from the diagonal."""
            if plan.mask == "full":
                return ((tile.batch % matrices) * lines + token) * line + tile.s0
            ahead = tile.s0 - plan.shifts[tile.batch] - token
            return min(max(ahead, 0), line - tile.w) + min(max(-ahead, 0), lines - 1) * line

        blocks = tile.w % 32 == 0 and line % 32 == 0

        def copy(i: int, count: int) -> None:
            at = place(plan.token(tile, row + i))
            if blocks and at % 32 == 0:
                params = asc.DataCopyParams(count, tile.w // 32, (line - tile.w) // 32, gap)
                asc.data_copy(dst[i * pitch :], mask[at:], params)
            else:
                params = asc.DataCopyParams(count, tile.w, line - tile.w, gap)
                asc.data_copy_pad(dst[i * pitch :], mask[at:], params)

        if plan.fold == 1:
            copy(0, rows)
            return
        apart = plan.fold if plan.token_major else 1  # rows of one token are not copied one after the other
        for first in range(min(apart, rows)):
            for i in range(first, rows, apart):
                copy(i, 1)

    def _rows_away(self, tile: Tile, start: int, count: int, top: Any, total: Any) -> None:
        """Row maxima and sums to the partial results or to the operator's outputs."""
        plan = self.plan
        asc.set_flag(E.V_MTE3, 2)
        asc.wait_flag(E.V_MTE3, 2)
        if tile.part >= 0:
            for name, values in (("part_top", top), ("part_total", total)):
                at = (tile.part * plan.tile_m + start) * BLOCK
                asc.data_copy(self.gm[name][at:], values, count * BLOCK)
        elif plan.rows_out:
            heads, tokens = plan.rows_out
            for name, values in (("top", top), ("total", total)):
                at = ((tile.batch * heads + plan.query_head(tile)) * tokens + tile.m0 + start) * BLOCK
                asc.data_copy(self.gm[name][at:], values, count * BLOCK)
        asc.set_flag(E.MTE3_V, 2)
        asc.wait_flag(E.MTE3_V, 2)

    # ---- weighted values to the output

    def update(self, tile: Tile, index: int) -> None:
        plan = self.plan
        dv = plan.dv
        start, count = self._share(tile.m)
        rows = min(PASS // dv, MOST_ROWS)
        slot = (index % SLOTS) * plan.tile_m * dv
        total, change = self.total[tile.turn % 2], self.change[index % 2]
        asc.cross_core_wait_flag(VALUES, 2, asc.PipeID.MTE2)
        if not tile.first:
            asc.wait_flag(E.MTE3_MTE2, 0)
        asc.scalar_instructions(1, STAGE)

        def load(row: int, n: int) -> int:
            s = self.load.take()
            asc.data_copy(self.inputs[s], self.gm["values"][slot + (start + row) * dv :], n * dv)
            if not tile.first:
                asc.data_copy(self.inputs[s][PASS:], self.gm["kept"][(start + row) * dv :], n * dv)
            asc.set_flag(E.MTE2_V, s)
            return s

        def work(row: int, n: int, s: int) -> None:
            x, before = self.inputs[s], self.inputs[s][PASS:]
            asc.wait_flag(E.MTE2_V, s)
            o = self.store.take()
            asc.repeated(("update", n, *tile.key), lambda: self._update(
                tile, n, x, before, change[row * BLOCK :], total[row * BLOCK :], o
            ))  # fmt: skip
            self.load.give(s)
            self.store.hand(o)
            if not tile.last:
                asc.data_copy(self.gm["kept"][(start + row) * dv :], self.wide[o], n * dv)
            elif tile.part >= 0:
                at = (tile.part * plan.tile_m + start + row) * dv
                asc.data_copy(self.gm["part"][at:], self.wide[o], n * dv)
            else:
                self._rows_out(self.outputs[o], tile, start + row, n)
            self.store.give(o)

        _one_ahead(even(count, rows), load, work)
        if not tile.last:  # the next update reads what this one wrote
            asc.set_flag(E.MTE3_MTE2, 0)

    def _update(self, tile: Tile, n: int, x: Any, before: Any, change: Any, total: Any, o: int) -> None:
        """Weighted values and the output so far to the new output, finished with a tile that is the last."""
        plan, dv = self.plan, self.plan.dv
        if not tile.first:
            by_row(asc.mul, before, change, n, dv, dv)
            barrier()
            asc.add(x, x, before, count=n * dv)
            barrier()
        if tile.last and tile.part < 0:
            by_row(asc.div, x, total, n, dv, dv)
            barrier()
            mode = asc.RoundMode.CAST_RINT if plan.dtype == "bfloat16" else asc.RoundMode.CAST_NONE
            asc.cast(self.outputs[o], x, mode, count=n * dv)
        else:
            asc.adds(self.wide[o], x, 0.0, count=n * dv)

    def _rows_out(self, src: Any, tile: Tile | Join, row: int, count: int) -> None:
        """Finished rows to the output."""
        plan, out, dv = self.plan, self.gm["out"], self.plan.dv
        for at, token, head, tokens, heads in plan.rows(tile, row, count):
            far = out[_place(plan.o, tile.batch, token, plan.query_head(tile) + head) :]
            near = src[at * dv :]
            outer, inner, far_outer, far_inner = (
                (tokens, heads, plan.o.token, plan.o.head) if plan.token_major or plan.fold == 1
                else (heads, tokens, plan.o.head, plan.o.token)
            )  # fmt: skip
            if inner == 1 or far_inner == dv:
                self._bursts(far, near, outer, inner * dv, far_outer)
            else:
                for i in range(outer):
                    self._bursts(far[i * far_outer :], near[i * inner * dv :], inner, dv, far_inner)

    def _bursts(self, far: Any, near: Any, count: int, length: int, pitch: int) -> None:
        gap = (pitch - length) // 16 if count > 1 else 0
        if 0 <= gap <= 65535:
            asc.data_copy(far, near, asc.DataCopyParams(count, length // 16, 0, gap))
            return
        for i in range(count):
            asc.data_copy(far[i * pitch :], near[i * length :], asc.DataCopyParams(1, length // 16, 0, 0))

    # ---- parts of a block that several cores shared

    def join(self, join: Join) -> None:
        """Combine partial results: weights exp(top - greatest top), output = sum of weighted parts / weighted sums."""
        dv, n = self.plan.dv, join.rows
        step = min(JOIN_ROWS, PASS // dv)
        for row in range(join.row, join.row + n, step):
            self._join(join, row, min(step, join.row + n - row), dv)

    def _join(self, join: Join, row: int, n: int, dv: int) -> None:
        plan = self.plan
        size = n * BLOCK
        great, weight, total, sums = self.top[0], self.top[1], self.total[0], self.total[1]
        acc, part = self.inputs[0], self.inputs[1]

        def fetch(dst: Any, name: str, slot: int, width: int, count: int) -> None:
            asc.data_copy(dst, self.gm[name][(slot * plan.tile_m + row) * width :], count)

        asc.pipe_barrier(FULL)
        for i, slot in enumerate(join.parts):
            fetch(weight if i else great, "part_top", slot, BLOCK, size)
            asc.pipe_barrier(FULL)
            if i:
                asc.max(great, great, weight, count=size)
                asc.pipe_barrier(FULL)
        for i, slot in enumerate(join.parts):
            fetch(weight, "part_top", slot, BLOCK, size)
            fetch(sums, "part_total", slot, BLOCK, size)
            fetch(part, "part", slot, dv, n * dv)
            asc.pipe_barrier(FULL)
            asc.sub(weight, weight, great, count=size)
            barrier()
            asc.exp(weight, weight, count=size)
            barrier()
            asc.mul(sums, sums, weight, count=size)
            by_row(asc.mul, part, weight, n, dv, dv)
            barrier()
            if i:
                asc.add(total, total, sums, count=size)
                asc.add(acc, acc, part, count=n * dv)
            else:
                asc.adds(total, sums, 0.0, count=size)
                asc.adds(acc, part, 0.0, count=n * dv)
            asc.pipe_barrier(FULL)
        by_row(asc.div, acc, total, n, dv, dv)
        barrier()
        mode = asc.RoundMode.CAST_RINT if plan.dtype == "bfloat16" else asc.RoundMode.CAST_NONE
        asc.cast(self.outputs[0], acc, mode, count=n * dv)
        asc.pipe_barrier(FULL)
        self._rows_out(self.outputs[0], join, row, n)


def _one_ahead(parts: Sequence[tuple[int, int]], load: Callable[[int, int], Any], work: Callable[..., None]) -> None:
    """Issue the loads of each part (first row, rows) before the work on the one before it."""
    held: Any = None
    for i in steps_of([n for _, n in parts]):
        now = load(*parts[i])
        if i:
            work(*parts[i - 1], held)
        held = now
    if parts:
        work(*parts[-1], held)


def _place(strides: Strides, batch: int, token: int, head: int) -> int:
    return batch * strides.batch + token * strides.token + head * strides.head
