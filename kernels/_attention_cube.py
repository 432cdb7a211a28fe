"""Cube side of attention: scores Q K^T and weighted values P V of one core's tiles, through the workspace.

Step i computes the scores of tile i, then the values of tile i - 1, whose weights the vector cores have finished
meanwhile. L1 holds the query of a block (two buffers of 96 KB), three buffers of 64 KB for keys and weights, two of
64 KB for values; the cube works in steps of 128 x 128 x 128 with two accumulators (hicann/ops-transformer, restated).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from ascend_sim import asc
from ascend_sim.isa.layout import ceil_div

from ._attention_plan import AttentionPlan, Strides, Tile, steps_of
from ._cube import E, P, Ring, even
from ._vector import align

SCORES, WEIGHTS, VALUES = 0, 1, 2  # cross-core flags: scores are there, weights are there, weighted values are there
SLOTS = 2  # of every workspace buffer
STAGE = "attention_stage"  # scalar routine of a stage: which tile it is, where its tensors begin
STEP = 128  # rows, columns and depth of a cube step
Q_BYTES, KP_BYTES, V_BYTES = 96 * 1024, 64 * 1024, 64 * 1024
MAX_PITCH = 65535
_NO_PAD = (0, 0, 0, 0)


class Slots:
    """Buffers in L1: a free and a ready flag each, from ``first`` on."""

    __slots__ = ("base", "first", "nbytes", "slots", "turn")

    def __init__(self, base: int, nbytes: int, first: int, slots: int) -> None:
        self.base, self.nbytes, self.first, self.slots, self.turn = base, nbytes, first, slots, 0

    def open(self) -> None:
        for s in range(self.slots):
            asc.set_flag(E.MTE1_MTE2, self.first + s)

    def take(self) -> int:
        s = self.turn
        self.turn = (s + 1) % self.slots
        asc.wait_flag(E.MTE1_MTE2, self.first + s)
        return s

    def tensor(self, s: int, dtype: str) -> Any:
        return asc.LocalTensor(dtype, P.A1, self.base + s * self.nbytes, self.nbytes // 2)

    def filled(self, s: int) -> None:
        asc.set_flag(E.MTE2_MTE1, self.first + s)

    def wait(self, s: int) -> None:
        asc.wait_flag(E.MTE2_MTE1, self.first + s)

    def give(self, s: int) -> None:
        asc.set_flag(E.MTE1_MTE2, self.first + s)

    def close(self) -> None:
        for i in range(self.slots):
            asc.wait_flag(E.MTE1_MTE2, self.first + (self.turn + i) % self.slots)


class Unit(NamedTuple):
    """Transfers to L1 and the work on them; ``free``: their buffers are not those of the unit before."""

    load: Callable[[], Any]
    work: Callable[[Any], None]
    free: bool


def ahead(units: Sequence[Unit]) -> None:
    """Issue the transfers of each unit before the work of the one before it, where buffers allow."""
    before: tuple[Unit, Any] | None = None
    for unit in units:
        if before is not None and not unit.free:
            before[0].work(before[1])
            before = None
        held = unit.load()
        if before is not None:
            before[0].work(before[1])
        before = (unit, held)
    if before is not None:
        before[0].work(before[1])


class _Query(NamedTuple):
    """Left operand in L1: buffer, tensor, rows of its panels, width, and the row to begin at."""

    slot: int
    tensor: Any
    high: int
    width: int
    row: int


class CubeSide:
    """Buffers of one cube core and the loop over its tiles."""

    def __init__(self, plan: AttentionPlan, gm: dict[str, Any], block: int) -> None:
        self.plan, self.gm, self.tiles = plan, gm, plan.work[block]
        rows = align(max((t.m for t in self.tiles), default=16), 16)
        wide = rows * (plan.d + plan.rope) * 2
        half = min(rows, 256) * (plan.d + plan.rope) * 2
        self.resident = "two" if half <= Q_BYTES else "one" if wide <= 2 * Q_BYTES else ""
        q_slots = {"two": 2, "one": 1, "": 3}[self.resident]
        self.q = Slots(0, 2 * Q_BYTES // q_slots, 0, q_slots)
        self.kp = Slots(2 * Q_BYTES, KP_BYTES, 3, 3)
        self.v = Slots(2 * Q_BYTES + 3 * KP_BYTES, V_BYTES, 6, 2)
        self.l0 = Ring(E.M_MTE1, E.MTE1_M, 0, 2)
        self.out = Ring(E.FIX_M, E.M_FIX, 0, 2)
        dtype = plan.dtype
        self.a2 = [asc.LocalTensor(dtype, P.A2, s * STEP * STEP * 2, STEP * STEP) for s in range(2)]
        self.b2 = [asc.LocalTensor(dtype, P.B2, s * STEP * STEP * 2, STEP * STEP) for s in range(2)]
        self.acc = [asc.LocalTensor("float32", P.CO1, s * STEP * STEP * 4, STEP * STEP) for s in range(2)]
        self.after: dict[Any, tuple[list[tuple[int, int, int]], tuple[int, ...]]] = {}  # what a stage leaves
        self.held: list[tuple[int, int, int]] = []  # resident query: (slot, first row, rows)

    def run(self) -> None:
        rings: tuple[Any, ...] = (self.q, self.kp, self.v, self.l0, self.out)
        for ring in rings:
            ring.open()
        tiles = self.tiles
        keys = [tile.key for tile in tiles]
        for i in steps_of([(keys[i] if i < len(keys) else None, keys[i - 1] if i else None)
                           for i in range(len(keys) + 1)]):  # fmt: skip
            if i < len(tiles):
                self._stage("scores", self.scores, tiles[i], i)
            if i:
                self._stage("values", self.values, tiles[i - 1], i - 1)
        for ring in rings:
            ring.close()

    def _stage(self, name: str, body: Callable[[Tile, int], None], tile: Tile, index: int) -> None:
        """A stage issues the same instructions for equal tiles, equal positions of the buffer rings and queries in
        equal buffers."""
        rings: tuple[Any, ...] = (self.q, self.kp, self.v, self.l0, self.out)
        key = (name, tile.key, tile.m0 % self.plan.fold, tuple(self.held), *(ring.turn for ring in rings))
        asc.repeated(key, lambda: body(tile, index))
        held, turns = self.after.setdefault(key, (list(self.held), tuple(ring.turn for ring in rings)))
        self.held = list(held)
        for ring, turn in zip(rings, turns, strict=True):
            ring.turn = turn

    # ---- transfers

    def _rows_in(self, dst: Any, src: Any, count: int, width: int, pitch: int, high: int) -> None:
        """Rows of ``width`` elements, ``pitch`` apart, into fractals of panel height ``high``."""
        if pitch <= MAX_PITCH or count == 1:
            asc.data_copy(dst, src, asc.Nd2NzParams(1, count, width, 0, min(pitch, MAX_PITCH), high, 1, 0))
            return
        for i in range(count):
            asc.data_copy(dst[i * 16 :], src[i * pitch :], asc.Nd2NzParams(1, 1, width, 0, width, high, 1, 0))

    def _query_in(self, dst: Any, tile: Tile, row: int, count: int, chunk: tuple[bool, int, int]) -> None:
        """Rows of a block of queries, one chunk of their width."""
        plan = self.plan
        rope, start, width = chunk
        src, strides = (self.gm["q_rope"], plan.q_rope) if rope else (self.gm["q"], plan.q)
        high = align(count, 16)
        for at, token, head, tokens, heads in plan.rows(tile, row, count):
            far = src[_place(strides, tile.batch, token, plan.query_head(tile) + head) + start :]
            near = dst[at * 16 :]
            outer, inner, far_outer, far_inner = (
                (tokens, heads, strides.token, strides.head) if plan.token_major or plan.fold == 1
                else (heads, tokens, strides.head, strides.token)
            )  # fmt: skip
            if inner == 1:
                self._rows_in(near, far, outer, width, far_outer, high)
            elif outer == 1 or max(far_outer, far_inner) > MAX_PITCH:
                for i in range(outer):
                    self._rows_in(near[i * inner * 16 :], far[i * far_outer :], inner, width, far_inner, high)
            else:
                params = asc.Nd2NzParams(outer, inner, width, far_outer, far_inner, high, 1, inner * 16)
                asc.data_copy(near, far, params)

    def _hold_query(self, tile: Tile) -> None:
        """Bring the whole block of queries to L1; it stays for all its tiles."""
        step = 256 if self.resident == "two" else tile.m
        self.held = []
        for row, count in even(tile.m, step):
            s = self.q.take()
            dst, at = self.q.tensor(s, self.plan.dtype), 0
            for chunk in self.plan.chunks:
                self._query_in(dst[at:], tile, row, count, chunk)
                at += align(count, 16) * align(chunk[2], 16)
            self.q.filled(s)
            self.q.wait(s)
            self.held.append((s, row, count))

    def _keys_in(self, tile: Tile, at: int, count: int) -> list[tuple[int, int]]:
        """One slice of keys, a buffer per chunk of their width, in halves of 128 keys."""
        plan, out = self.plan, []
        for rope, start, width in plan.chunks:
            src, strides = (self.gm["k_rope"], plan.k_rope) if rope else (self.gm["k"], plan.k)
            s = self.kp.take()
            dst = self.kp.tensor(s, plan.dtype)
            for half, rows in even(count, STEP):
                far = src[_place(strides, tile.batch, tile.s0 + at + half, plan.head_of(tile)) + start :]
                self._rows_in(dst[half * align(width, 16) :], far, rows, width, strides.token, align(rows, 16))
            self.kp.filled(s)
            out.append((s, width))
        return out

    # ---- the two products

    def scores(self, tile: Tile, index: int) -> None:
        """Q K^T of a tile into its workspace slot."""
        plan = self.plan
        asc.scalar_instructions(1, STAGE)
        if tile.first and self.resident:
            self._hold_query(tile)
        self.kp.turn = 0  # the weights of the tile before end in another buffer: stages begin alike
        chunks = plan.chunks
        single = len(chunks) == 1
        slice_keys = 256 if single and chunks[0][2] <= STEP else STEP
        base = (index % SLOTS) * plan.tile_m * align(plan.tile_s, 64)
        keys: list[tuple[int, int]] = []

        def unit(at: int, count: int, row: int, rows: int) -> Unit:
            def load() -> tuple[list[tuple[int, int]], list[_Query]]:
                if row == 0:
                    keys[:] = self._keys_in(tile, at, count)
                return list(keys), self._queries(tile, row, rows)

            def work(held: tuple[list[tuple[int, int]], list[_Query]]) -> None:
                self._slice(tile, at, count, row, rows, held[0], held[1], base)

            return Unit(load, work, single)

        ahead([unit(*part, *rows) for part in even(tile.w, slice_keys) for rows in even(tile.m, STEP)])
        asc.cross_core_set_flag(SCORES, 2, asc.PipeID.FIX)
        if tile.last and self.resident:
            for s, _, _ in self.held:
                self.q.give(s)

    def _slice(
        self, tile: Tile, at: int, count: int, row: int, rows: int, keys: list[tuple[int, int]],
        queries: list[_Query], base: int,
    ) -> None:  # fmt: skip
        """Scores of 128 rows of a tile with one slice of keys."""
        pitch = align(tile.w, 64)
        if row == 0:
            for s, _ in keys:
                self.kp.wait(s)
        if not self.resident:
            for query in queries:
                self.q.wait(query.slot)
        for half, columns in even(count, STEP):
            a = self.out.take()
            n = sum(ceil_div(width, STEP) for _, width in keys)
            self._copied(n, ("scores", rows, columns), partial(self._score, a, keys, queries, rows, half, columns))
            self._leave(a, self.gm["scores"], base + row * pitch + at + half, rows, columns, pitch)
        if not self.resident:
            for query in queries:
                self.q.give(query.slot)
        if row + rows == tile.m:
            for s, _ in keys:
                self.kp.give(s)

    def _score(
        self, a: int, keys: list[tuple[int, int]], queries: list[_Query], rows: int, half: int, columns: int
    ) -> None:
        """Scores of 128 rows and 128 keys into an accumulator."""
        n1, first = ceil_div(columns, 16), True
        for (s, width), query in zip(keys, queries, strict=True):
            b1 = self.kp.tensor(s, self.plan.dtype)[half * align(width, 16) :]
            for k, depth in even(width, STEP):
                l0 = self.l0.take()
                self._window(self.a2[l0], query, k, depth, rows)
                asc.load_data(self.b2[l0], b1[k // 16 * n1 * 256 :],
                              asc.LoadData2DParams(0, n1 * ceil_div(depth, 16), 1, 0, 0, False))  # fmt: skip
                self._mmad(a, l0, rows, columns, depth, first)
                first = False

    def _copied(self, steps: int, key: tuple[Any, ...], body: Callable[[], None]) -> None:
        """Cube steps that are alike whenever they begin with the same buffer of L0."""
        turn = self.l0.turn
        asc.repeated((turn, *key), body)
        self.l0.turn = (turn + steps) % 2

    def _queries(self, tile: Tile, row: int, rows: int) -> list[_Query]:
        """128 rows of the query, for each chunk of its width."""
        plan, out = self.plan, []
        if self.resident:
            s, start, count = next(h for h in self.held if h[1] <= row < h[1] + h[2])
            dst, high, at = self.q.tensor(s, plan.dtype), align(count, 16), 0
            for _, _, width in plan.chunks:
                out.append(_Query(s, dst[at:], high, width, row - start))
                at += high * align(width, 16)
            return out
        for chunk in plan.chunks:
            s = self.q.take()
            dst = self.q.tensor(s, plan.dtype)
            self._query_in(dst, tile, row, rows, chunk)
            self.q.filled(s)
            out.append(_Query(s, dst, align(rows, 16), chunk[2], 0))
        return out

    def values(self, tile: Tile, index: int) -> None:
        """P V of a tile into its workspace slot."""
        plan = self.plan
        asc.scalar_instructions(1, STAGE)
        pitch = align(tile.w, 64)
        base = (index % SLOTS) * plan.tile_m * align(plan.tile_s, 64)
        out = (index % SLOTS) * plan.tile_m * plan.dv
        slices = even(tile.w, 256)
        keep = len(slices) <= self.v.slots
        loads = len(slices) * ceil_div(tile.m, STEP) * ceil_div(plan.dv, STEP)
        self.kp.turn = -loads % self.kp.slots
        held: dict[str, Any] = {"values": [], "acc": 0}

        def load_values(n: int, columns: int, k: int, depth: int) -> tuple[int, int]:
            s = self.v.take()
            far = self.gm["v"][_place(plan.v, tile.batch, tile.s0 + k, plan.head_of(tile)) + n :]
            self._rows_in(self.v.tensor(s, plan.dtype), far, depth, columns, plan.v.token, align(depth, 16))
            self.v.filled(s)
            return s, k

        def unit(n: int, columns: int, row: int, rows: int, k: int, depth: int) -> Unit:
            opens, closes = k == 0, k + depth == tile.w
            begins = row == 0 and opens

            def load() -> tuple[int, int]:
                if keep and begins:
                    held["values"] = [load_values(n, columns, *part) for part in slices]
                elif not keep:
                    held["values"] = [load_values(n, columns, k, depth)]
                if begins and n == 0:
                    asc.cross_core_wait_flag(WEIGHTS, 2, asc.PipeID.MTE2)
                s = self.kp.take()
                self._rows_in(self.kp.tensor(s, plan.dtype), self.gm["weights"][base + row * pitch + k :], rows, depth,
                              pitch, align(rows, 16))  # fmt: skip
                self.kp.filled(s)
                return s, next(x for x, start in held["values"] if start == k)

            def work(slots: tuple[int, int]) -> None:
                s, v = slots
                self.kp.wait(s)
                if not keep or row == 0:
                    self.v.wait(v)
                if opens:
                    held["acc"] = self.out.take()
                weights = _Query(s, self.kp.tensor(s, plan.dtype), align(rows, 16), depth, 0)
                body = partial(self._value, held["acc"], weights, v, rows, columns, opens)
                self._copied(ceil_div(depth, STEP), ("values", rows, columns, depth, opens), body)
                self.kp.give(s)
                if not keep or row + rows == tile.m:
                    self.v.give(v)
                if closes:
                    self._leave(held["acc"], self.gm["values"], out + row * plan.dv + n, rows, columns, plan.dv)

            return Unit(load, work, not (keep and begins) or n == 0 or len(slices) == 1)

        ahead([
            unit(n, columns, row, rows, k, depth)
            for n, columns in even(plan.dv, STEP) for row, rows in even(tile.m, STEP) for k, depth in slices
        ])  # fmt: skip
        asc.cross_core_set_flag(VALUES, 2, asc.PipeID.FIX)

    def _value(self, acc: int, weights: _Query, v: int, rows: int, columns: int, opens: bool) -> None:
        """A slice of weights times a slice of values, added to an accumulator."""
        b1, depth = self.v.tensor(v, self.plan.dtype), weights.width
        for at, part in even(depth, STEP):
            l0 = self.l0.take()
            self._window(self.a2[l0], weights, at, part, rows)
            asc.load_data(self.b2[l0], b1, asc.LoadData3DParamsV2(
                _NO_PAD, 1, align(depth, 16), align(columns, 16), align(columns, 16), align(part, 16), 0, at,
            ))  # fmt: skip
            self._mmad(acc, l0, rows, columns, part, opens and at == 0)

    # ---- cube steps

    def _window(self, dst: Any, source: _Query, k: int, depth: int, rows: int) -> None:
        """Rows in L1 to L0A."""
        asc.load_data(dst, source.tensor, asc.LoadData3DParamsV2(
            _NO_PAD, 1, source.high, align(source.width, 16), align(depth, 16), align(rows, 16), k, source.row,
        ))  # fmt: skip

    def _mmad(self, acc: int, l0: int, m: int, n: int, k: int, first: bool) -> None:
        self.l0.hand(l0)
        asc.mmad(self.acc[acc], self.a2[l0], self.b2[l0], asc.MmadParams(m, n, k, cmatrix_init_val=first))
        self.l0.give(l0)

    def _leave(self, acc: int, dst: Any, offset: int, rows: int, columns: int, pitch: int) -> None:
        """Accumulator to rows of the workspace."""
        self.out.hand(acc)
        params = asc.FixpipeParamsV220(columns, rows, align(rows, 16), pitch, asc.QuantModes.NoQuant)
        asc.fixpipe(dst[offset:], self.acc[acc], params)
        self.out.give(acc)


def _place(strides: Strides, batch: int, token: int, head: int) -> int:
    return batch * strides.batch + token * strides.token + head * strides.head

