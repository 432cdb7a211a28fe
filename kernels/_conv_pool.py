"""Max pooling fused behind the first convolution: results leave L0C, are pooled in UB, and only the pooled rows go to
global memory (the stock library's AippConvReluMaxpooling).

A cube tile is two rows of the convolution. The last row of the tile before stays in UB, so that each tile completes
one row of 3 x 3 windows at stride 2 with one row of padding above and one column before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ascend_sim import asc

from ._cube import E, P, Ring, copy_rows
from ._exit import CoupledExit
from ._vector import BLOCK

if TYPE_CHECKING:
    from ._conv_tiling import Core
    from ._conv_walk import ConvPlan
    from ._exit import Place

ROWS = 2  # of the convolution in a tile
LANES = 128


class _Stores:
    """Two buffers of pooled rows on their way out."""

    def __init__(self) -> None:
        self.ring = Ring(E.MTE3_V, E.V_MTE3, 0, 2)
        self.open, self.close = self.ring.open, self.ring.close


class PooledExit(CoupledExit):
    """See the module's text. Takes plans whose epilogue is at most a ReLU."""

    def __init__(
        self, plan: ConvPlan, core: Core, out: Any, slots: int, slot_elements: int, bias: Any, columns: int
    ) -> None:
        pool, p = plan.pool, plan.problem
        assert pool is not None
        self.plan, self.by_fix, self.conv, self.pool, self.target = plan.exit, False, plan, pool, out
        self.first = core.rows[0] + core.lead
        self.ring = Ring(E.V_M, E.M_V, 0, slots)
        self.acc = [asc.LocalTensor(plan.exit.acc, P.CO1, s * slot_elements * 4, slot_elements) for s in range(slots)]
        self.stores = _Stores()
        self.tiles: Any = self.stores
        self.source, self.columns = bias, columns
        self.bias: Any = None
        self.panel: Any = None
        row = p.n1 * p.wo * 16
        at = plan.exit.bias_ub_bytes
        self.rows = []
        for _ in range(ROWS + 1):
            self.rows.append(asc.LocalTensor("float16", P.VECCALC, at, row))
            at += row * 2
        self.highest = asc.LocalTensor("float16", P.VECCALC, at, row)
        at += row * 2
        self.pooled = []
        for _ in range(2):
            self.pooled.append(asc.LocalTensor("float16", P.VECCALC, at, p.n1 * pool.columns * 16))
            at += p.n1 * pool.columns * BLOCK

    def end(self, s: int, place: Place, following: Place | None) -> None:
        p, pool = self.conv.problem, self.pool
        self.ring.hand(s)
        at = place.offset // 16
        image, within = divmod(at, self.conv.out_c1 * p.ho * p.wo)
        row = within // p.wo
        before, upper, lower = self.rows
        for i, target in enumerate((upper, lower)):
            asc.data_copy(
                target, self.acc[s][i * p.wo * 16 :],
                asc.DataCopyParams(p.n1, p.wo // 16, (place.mp - p.wo) // 16, 0),
                asc.DataCopyEnhancedParams(asc.BlockMode.BLOCK_MODE_MATRIX, is_relu_in=self.plan.relu),
            )  # fmt: skip
        if self.bias is None:
            self.ring.give(s)
        elif following is not None:
            self._start(s, following)
        count = p.n1 * p.wo * 16
        if row >= self.first:
            asc.max(self.highest, upper, lower, count=count)
            if row:
                asc.max(self.highest, self.highest, before, count=count)
            t = self.stores.ring.take()
            self._columns(self.pooled[t])
            self.stores.ring.hand(t)
            plane = pool.rows * pool.columns
            to = self.target[(image * self.conv.out_c1 * plane + row // pool.stride * pool.columns) * 16 :]
            copy_rows(to, self.pooled[t], p.n1, pool.columns, pool.columns, plane)
            self.stores.ring.give(t)
        asc.data_copy(before, lower, count)

    def _columns(self, out: Any) -> None:
        """Windows along the row: columns 2j and 2j + 1, and 2j - 1 except in the first."""
        p, columns = self.conv.problem, self.pool.columns
        source = self.highest
        strided = asc.BinaryRepeatParams(1, 2, 2, 8, 16, 16)
        asc.max(out, source, source[16:], LANES, p.n1 * columns // 8, strided)
        params = asc.BinaryRepeatParams(1, 1, 2, 8, 8, 16)
        whole, rest = divmod(columns - 1, 8)
        for n in range(p.n1):
            to, near = out[(n * columns + 1) * 16 :], source[(n * p.wo + 1) * 16 :]
            asc.max(to, to, near, LANES, whole, params)
            if rest:
                to, near = to[whole * LANES :], near[2 * whole * LANES :]
                asc.max(to, to, near, rest * 16, 1, params)

    def close(self) -> None:
        self.stores.close()
        if self.bias is None:
            self.ring.close()
