"""Attention of single query rows on the vector cores alone: the stock incremental kernel for float16 without grouped
heads (hicann/ops-transformer, restated).

Each core takes some (batch, head) pairs. Keys and values come in chunks of 32 KB, a block longer between rows so that
rows start in different banks. Scores: 16 columns of four keys a repeat, added up by a block reduction. Values: every
row times its weight, rows added in halves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from ascend_sim import asc

from ._attention_cube import STAGE
from ._attention_plan import Strides, steps_of
from ._attention_softmax import BLOCK, LANES, Rows, Scratch, barrier, by_row, softmax
from ._cube import E, P, Ring, even, tensor
from ._vector import align

CHUNK = 32 * 1024  # bytes of keys or values of one transfer
MOST_KEYS = 8192  # whose scores stay in the unified buffer
MOST_ROWS = 128  # of a chunk
HALF_LANES = 16  # float16 of a data block


@dataclass(frozen=True)
class DecodePlan:
    """``pairs``: (batch, head) pairs of each core; ``lengths``: keys of each batch entry."""

    pairs: tuple[tuple[tuple[int, int], ...], ...]
    lengths: tuple[int, ...]
    d: int
    scale: float
    q: Strides
    k: Strides
    o: Strides

    @property
    def rows(self) -> int:
        """Keys of a chunk."""
        return min(CHUNK // (self.d * 2) // 8 * 8, MOST_ROWS)

    @property
    def pitch(self) -> int:
        """Data blocks between rows in the unified buffer."""
        return self.d // HALF_LANES + 1


@asc.jit
def decode_attention(q: Any, k: Any, v: Any, out: Any, plan: DecodePlan) -> None:
    """The pairs of one vector core."""
    asc.scalar_instructions(1, STAGE)
    side = _Decode(plan, tensor(q), tensor(k), tensor(v), tensor(out))
    side.run(plan.pairs[asc.get_block_idx()])


class _Decode:
    def __init__(self, plan: DecodePlan, q: Any, k: Any, v: Any, out: Any) -> None:
        self.plan, self.q, self.k, self.v, self.out = plan, q, k, v, out
        d, rows = plan.d, plan.rows
        keys = align(max(plan.lengths), LANES)
        at = 0

        def room(dtype: str, elements: int, item: int) -> Any:
            nonlocal at
            t = asc.LocalTensor(dtype, P.VECCALC, at, elements)
            at += align(elements * item, 32)
            return t

        self.chunks = [room("float16", rows * plan.pitch * HALF_LANES, 2) for _ in range(2)]
        self.query = room("float16", d, 2)
        self.scores, self.weights = room("float32", keys + LANES, 4), room("float16", keys + LANES, 2)
        self.sums = room("float32", rows * max(d // 2, HALF_LANES), 4)
        self.wide = room("float16", rows * HALF_LANES, 2)
        self.acc, self.result = room("float32", d, 4), room("float16", d, 2)
        small = [room("float32", LANES, 4) for _ in range(6)]
        self.scratch = Scratch(self.sums, small[0], small[1], small[2])
        self.state = Rows(small[3], small[4], small[5])
        self.load = Ring(E.V_MTE2, E.MTE2_V, 0, 2)

    def run(self, pairs: tuple[tuple[int, int], ...]) -> None:
        self.load.open()
        asc.set_flag(E.V_MTE2, 2)
        asc.set_flag(E.MTE3_V, 0)
        lengths = self.plan.lengths
        for i in steps_of([lengths[b] for b, _ in pairs]):
            asc.repeated((lengths[pairs[i][0]], self.load.turn), partial(self._pair, *pairs[i]))
            self.load.turn = 0
        self.load.close()
        asc.wait_flag(E.V_MTE2, 2)
        asc.wait_flag(E.MTE3_V, 0)

    def _chunks(self, src: Any, b: int, h: int) -> list[tuple[int, int, Any]]:
        """(first key, keys, global tensor) of the chunks of a head."""
        s = self.plan.k
        base = b * s.batch + h * s.head
        return [(at, n, src[base + at * s.token :]) for at, n in even(self.plan.lengths[b], self.plan.rows)]

    def _bring(self, src: Any, n: int) -> int:
        s, blocks = self.load.take(), self.plan.d // HALF_LANES
        gap = self.plan.k.token // HALF_LANES - blocks
        asc.data_copy(self.chunks[s], src, asc.DataCopyParams(n, blocks, gap, 1))
        asc.set_flag(E.MTE2_V, s)
        return s

    def _pair(self, b: int, h: int) -> None:
        """One row of the output."""
        plan, keys = self.plan, self.plan.lengths[b]
        asc.wait_flag(E.V_MTE2, 2)
        asc.data_copy(self.query, self.q[b * plan.q.batch + h * plan.q.head :], plan.d)
        asc.set_flag(E.MTE2_V, 2)
        work = [(self.k, c) for c in self._chunks(self.k, b, h)] + [(self.v, c) for c in self._chunks(self.v, b, h)]
        half = len(work) // 2
        held = self._bring(work[0][1][2], work[0][1][1])
        asc.wait_flag(E.MTE2_V, 2)
        for i, (_, (at, n, _)) in enumerate(work):
            following = self._bring(work[i + 1][1][2], work[i + 1][1][1]) if i + 1 < len(work) else 0
            asc.wait_flag(E.MTE2_V, held)
            if i < half:
                self._score(self.chunks[held], at, n)
            else:
                self._add(self.chunks[held], at, n, i == half)
            self.load.give(held)
            held = following
            if i + 1 == half:
                asc.set_flag(E.V_MTE2, 2)
                asc.muls(self.scores, self.scores, plan.scale, count=keys)
                barrier()
                softmax(self.scores, self.weights, self.scratch, self.state, 1, keys, align(keys, LANES), True)
                barrier()
        if len(work) % 2:
            self.load.turn = 0
        asc.wait_flag(E.MTE3_V, 0)
        by_row(asc.div, self.acc, self.state.total, 1, plan.d, plan.d)
        barrier()
        asc.cast(self.result, self.acc, asc.RoundMode.CAST_NONE, count=plan.d)
        asc.set_flag(E.V_MTE3, 0)
        asc.wait_flag(E.V_MTE3, 0)
        asc.data_copy(self.out[b * plan.o.batch + h * plan.o.head :], self.result, plan.d)
        asc.set_flag(E.MTE3_V, 0)

    def _score(self, keys: Any, at: int, n: int) -> None:
        """Scores of ``n`` keys: products of 16 columns at a time, four keys a repeat."""
        pitch, repeats = self.plan.pitch, -(-n // 4)
        asc.duplicate(self.sums, 0.0, count=repeats * 4 * HALF_LANES)
        barrier()
        params = asc.BinaryRepeatParams(1, pitch, 0, 8, 4 * pitch, 0)
        for j in range(0, self.plan.d, HALF_LANES):
            asc.mul_add_dst(self.sums, keys[j:], self.query[j:], LANES, repeats, params)
            barrier()
        asc.add(self.sums, self.sums, self.sums[BLOCK:], BLOCK, n, asc.BinaryRepeatParams(1, 1, 1, 1, 2, 2))
        barrier()
        asc.block_reduce_sum(self.scores[at:], self.sums, -(-n // 8), LANES, 1, 1, 8)
        barrier()

    def _add(self, values: Any, at: int, n: int, first: bool) -> None:
        """Weighted rows of ``n`` values, added up in halves, to the accumulator."""
        d, pitch = self.plan.d, self.plan.pitch
        asc.brcb(self.wide, self.weights[at:], -(-n // 8), asc.BrcbRepeatParams(1, 8))
        for start in range(0, n, self.plan.rows // 2):  # the sums hold half a chunk
            rows = min(self.plan.rows // 2, n - start)
            asc.duplicate(self.sums, 0.0, count=rows * d)
            barrier()
            params = asc.BinaryRepeatParams(1, 1, 0, d // BLOCK, pitch, 1)
            for j in range(0, d, LANES):
                asc.mul_add_dst(self.sums[j:], values[start * pitch * HALF_LANES + j :],
                                self.wide[start * HALF_LANES :], min(LANES, d - j), rows, params)  # fmt: skip
            barrier()
            while rows > 1:
                keep = -(-rows // 2)
                asc.add(self.sums, self.sums, self.sums[keep * d :], count=(rows - keep) * d)
                barrier()
                rows = keep
            if first and start == 0:
                asc.adds(self.acc, self.sums, 0.0, count=d)
            else:
                asc.add(self.acc, self.acc, self.sums, count=d)
            barrier()
