"""Cube side of the attention gradient: five products per tile of scores.

Step i: scores Q K^T and weight gradients dY V^T of tile i to the workspace; then, with the weights P and the score
gradients dS of tile i - 1 from the vector cores, dQ += dS K, dK += dS^T Q and dV += P^T dY, added up in float32 in the
workspace by atomic writes (hicann/ops-transformer, restated).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from ascend_sim import asc
from ascend_sim.isa.layout import ceil_div

from ._attention_cube import STAGE, STEP, Slots, Unit, ahead
from ._attention_plan import Strides, Tile, steps_of
from ._cube import E, P, Ring, even
from ._vector import align

# cross-core flags: scores are there, weights and score gradients are there, sums are zero, all is done
SCORES, GRADS, CLEARED, DONE = 0, 1, 2, 3
SLOTS = 2  # of every workspace buffer
TILE_M, TILE_S = 128, 256
L1_BYTES = 512 * 1024
_NO_PAD = (0, 0, 0, 0)


@dataclass(frozen=True)
class GradPlan:
    """One launch. ``q`` and ``k``: strides of queries (and their gradients) and of keys and values; ``rows``: (batch,
    head, token, tokens) pieces of output rows each vector core prepares; ``shifts``: last visible key less token."""

    dtype: str
    d: int
    group: int
    heads: int
    tokens: int
    scale: float
    mask: str
    mask_shape: tuple[int, int, int]
    shifts: tuple[int, ...]
    q: Strides
    k: Strides
    roles: tuple[str, ...]
    work: tuple[tuple[Tile, ...], ...]
    rows: tuple[tuple[tuple[int, int, int, int], ...], ...]
    sizes: tuple[int, int]


def key_of(tile: Tile) -> tuple[Any, ...]:
    """Equal for tiles that issue the same instructions."""
    return tile.m, tile.w, tile.first, tile.last, tile.masked


class GradCube:
    """One cube core."""

    def __init__(self, plan: GradPlan, gm: dict[str, Any], block: int) -> None:
        self.plan, self.gm, self.tiles = plan, gm, plan.work[block]
        self.side = TILE_M * align(plan.d, 16)  # elements of a block of queries, and of a slice of keys
        rows, weights = 2 * 2 * self.side * 2, 2 * TILE_M * TILE_S * 2
        self.rows = Slots(0, rows // 2, 0, 2)  # queries and output gradients of a block
        self.kv = Slots(rows, self.side * 2, 2, 2 if plan.d > STEP else 4)
        self.ps = Slots(L1_BYTES - weights, weights, 6, 1)  # weights and score gradients of a tile
        self.l0, self.out = Ring(E.M_MTE1, E.MTE1_M, 0, 2), Ring(E.FIX_M, E.M_FIX, 0, 2)
        half = STEP * STEP
        self.a2 = [asc.LocalTensor(plan.dtype, P.A2, s * half * 2, half) for s in range(2)]
        self.b2 = [asc.LocalTensor(plan.dtype, P.B2, s * half * 2, half) for s in range(2)]
        self.acc = [asc.LocalTensor("float32", P.CO1, s * half * 4, half) for s in range(2)]
        self.after: dict[Any, tuple[int, ...]] = {}

    def run(self) -> None:
        rings: tuple[Any, ...] = (self.rows, self.kv, self.ps, self.l0, self.out)
        for ring in rings:
            ring.open()
        asc.cross_core_wait_flag(CLEARED, 2, asc.PipeID.FIX)
        tiles, keys = self.tiles, [(*key_of(t), t.turn % 2) for t in self.tiles]
        n = len(tiles)
        for i in steps_of([(keys[i] if i < n else None, keys[i - 1] if i else None) for i in range(n + 1)]):
            if i < n:
                self._stage("scores", self.scores, tiles[i], i)
            if i:
                self._stage("grads", self.grads, tiles[i - 1], i - 1)
        for ring in rings:
            ring.close()
        asc.sync_all(is_aiv_only=False)
        asc.cross_core_set_flag(DONE, 2, asc.PipeID.FIX)

    def _stage(self, name: str, body: Callable[[Tile, int], None], tile: Tile, index: int) -> None:
        rings: tuple[Any, ...] = (self.kv, self.l0, self.out)
        key = (name, key_of(tile), tile.turn % 2, *(ring.turn for ring in rings))
        asc.repeated(key, lambda: body(tile, index))
        for ring, turn in zip(rings, self.after.setdefault(key, tuple(r.turn for r in rings)), strict=True):
            ring.turn = turn

    def _in(self, dst: Any, src: Any, count: int, width: int, pitch: int) -> None:
        asc.data_copy(dst, src, asc.Nd2NzParams(1, count, width, 0, pitch, align(count, 16), 1, 0))

    def _keys(self, role: str, tile: Tile, at: int, count: int) -> int:
        """A slice of keys or values."""
        s, k = self.kv.take(), self.plan.k
        place = tile.batch * k.batch + (tile.s0 + at) * k.token + tile.head // self.plan.group * k.head
        self._in(self.kv.tensor(s, self.plan.dtype), self.gm[role][place:], count, self.plan.d, k.token)
        self.kv.filled(s)
        return s

    def scores(self, tile: Tile, index: int) -> None:
        """Q K^T and dY V^T of a tile."""
        plan = self.plan
        asc.scalar_instructions(1, STAGE)
        slot = tile.turn % 2
        both = self.rows.tensor(slot, plan.dtype)
        if tile.first:
            self.rows.turn = slot
            self.rows.take()
            place = tile.batch * plan.q.batch + tile.m0 * plan.q.token + tile.head * plan.q.head
            for side, role in enumerate(("q", "dy")):
                self._in(both[side * self.side :], self.gm[role][place:], tile.m, plan.d, plan.q.token)
            self.rows.filled(slot)
            self.rows.wait(slot)
        pitch = align(tile.w, 64)
        base = (index % SLOTS) * TILE_M * TILE_S

        def unit(at: int, count: int, side: int) -> Unit:
            def work(s: int) -> None:
                self.kv.wait(s)
                a = self.out.take()
                self._copied(ceil_div(plan.d, STEP), ("score", tile.m, count), partial(
                    self._score, a, both[side * self.side :], self.kv.tensor(s, plan.dtype), tile.m, count
                ))  # fmt: skip
                self._leave(a, self.gm[("scores", "raised")[side]], base + at, tile.m, count, pitch)
                self.kv.give(s)

            return Unit(lambda: self._keys(("k", "v")[side], tile, at, count), work, True)

        ahead([unit(*part, side) for part in even(tile.w, STEP) for side in (0, 1)])
        asc.cross_core_set_flag(SCORES, 2, asc.PipeID.FIX)

    def _score(self, acc: int, rows: Any, keys: Any, m: int, n: int) -> None:
        n1 = ceil_div(n, 16)
        for k, depth in even(self.plan.d, STEP):
            l0 = self.l0.take()
            self._left(self.a2[l0], rows, align(m, 16), self.plan.d, k, depth, 0, m, False)
            asc.load_data(self.b2[l0], keys[k // 16 * n1 * 256 :],
                          asc.LoadData2DParams(0, n1 * ceil_div(depth, 16), 1, 0, 0, False))  # fmt: skip
            self._mmad(acc, l0, m, n, depth, k == 0)

    def grads(self, tile: Tile, index: int) -> None:
        """dQ, dK and dV of a tile, added to what is there."""
        plan = self.plan
        asc.scalar_instructions(1, STAGE)
        pitch, base = align(tile.w, 64), (index % SLOTS) * TILE_M * TILE_S
        parts = even(tile.w, STEP)
        keys = [(self._keys("k", tile, at, count), at, count) for at, count in parts]
        asc.cross_core_wait_flag(GRADS, 2, asc.PipeID.MTE2)
        self.ps.take()
        both = self.ps.tensor(0, plan.dtype)
        for side, role in enumerate(("weights", "steps")):
            self._in(both[side * TILE_M * TILE_S :], self.gm[role][base:], tile.m, tile.w, pitch)
        self.ps.filled(0)
        self.ps.wait(0)
        slot, high, weights, steps = tile.turn % 2, align(tile.m, 16), both, both[TILE_M * TILE_S :]
        rows = self.rows.tensor(slot, plan.dtype)
        asc.set_atomic_add("float32")
        for s, _, _ in keys:
            self.kv.wait(s)
        place = tile.batch * plan.q.batch + tile.m0 * plan.q.token + tile.head * plan.q.head
        for n, columns in even(plan.d, STEP):  # dQ = dS K
            a = self.out.take()
            for i, (s, at, count) in enumerate(keys):
                l0 = self.l0.take()
                self._left(self.a2[l0], steps, high, tile.w, at, count, 0, tile.m, False)
                self._right(self.b2[l0], self.kv.tensor(s, plan.dtype), align(count, 16), plan.d, n, columns, count)
                self._mmad(a, l0, tile.m, columns, count, i == 0)
            self._leave(a, self.gm["dq"], place + n, tile.m, columns, plan.q.token)
        for s, _, _ in keys:
            self.kv.give(s)
        for role, left, right in (("dk", steps, rows), ("dv", weights, rows[self.side :])):
            for at, count in parts:
                far = tile.batch * plan.k.batch + (tile.s0 + at) * plan.k.token + tile.head // plan.group * plan.k.head
                for n, columns in even(plan.d, STEP):
                    a, l0 = self.out.take(), self.l0.take()
                    self._left(self.a2[l0], left, high, tile.w, 0, tile.m, at, count, True)
                    self._right(self.b2[l0], right, high, plan.d, n, columns, tile.m)
                    self._mmad(a, l0, count, columns, tile.m, True)
                    self._leave(a, self.gm[role], far + n, count, columns, plan.k.token)
        asc.set_atomic_none()
        self.ps.give(0)
        if tile.last:
            self.rows.give(slot)

    # ---- cube steps

    def _copied(self, steps: int, key: tuple[Any, ...], body: Callable[[], None]) -> None:
        turn = self.l0.turn
        asc.repeated((turn, *key), body)
        self.l0.turn = (turn + steps) % 2

    def _left(
        self, dst: Any, src: Any, high: int, width: int, k: int, depth: int, row: int, rows: int, turned: bool
    ) -> None:
        """``rows`` rows from ``row``, K [k, k + depth), of a matrix stored rows x K (``turned``: K x rows) in panels of
        16 columns, ``high`` high, to L0A."""
        if turned:
            params = asc.LoadData3DParamsV2(
                _NO_PAD, 1, high, align(width, 16), align(rows, 16), align(depth, 16), row, k, en_transpose=True
            )
        else:
            params = asc.LoadData3DParamsV2(
                _NO_PAD, 1, high, align(width, 16), align(depth, 16), align(rows, 16), k, row
            )
        asc.load_data(dst, src, params)

    def _right(self, dst: Any, src: Any, high: int, width: int, n: int, columns: int, depth: int) -> None:
        """Columns [n, n + columns) of a matrix stored K x N in panels ``high`` high, to L0B."""
        asc.load_data(dst, src, asc.LoadData3DParamsV2(
            _NO_PAD, 1, high, align(width, 16), align(columns, 16), align(depth, 16), n, 0
        ))  # fmt: skip

    def _mmad(self, acc: int, l0: int, m: int, n: int, k: int, first: bool) -> None:
        self.l0.hand(l0)
        asc.mmad(self.acc[acc], self.a2[l0], self.b2[l0], asc.MmadParams(m, n, k, cmatrix_init_val=first))
        self.l0.give(l0)

    def _leave(self, acc: int, dst: Any, offset: int, rows: int, columns: int, pitch: int) -> None:
        self.out.hand(acc)
        params = asc.FixpipeParamsV220(columns, rows, align(rows, 16), pitch, asc.QuantModes.NoQuant)
        asc.fixpipe(dst[offset:], self.acc[acc], params)
        self.out.give(acc)
