"""The bias of chips with a bias table: rows in L1, moved to the table tile by tile, added by the first mmad."""

from __future__ import annotations

from typing import Any

from ascend_sim import asc

from ._cube import E, P, Ring
from ._exit import ExitPlan, Place
from ._vector import align, item_bytes

BIAS_FLAG = 7  # MTE2 <-> MTE1 flag of the bias row (chips with a bias table have eight)


class BiasTable:
    """Bias rows in L1, moved to the bias table tile by tile. The core's whole row stays in L1 where ``room`` bytes hold
    it, else each tile brings its part."""

    def __init__(self, plan: ExitPlan, bias: Any, columns: int, l1_at: int, tile_columns: int, room: int) -> None:
        """``bias``: GlobalTensor at the first of the ``columns`` columns this core computes."""
        self.plan, self.bias, self.columns = plan, bias, columns
        width = align(tile_columns, 16)
        slots = max(min(asc.current_soc().buffers.bt_bytes // (width * 4), 2), 1)
        self.ring = Ring(E.M_MTE1, E.MTE1_M, 2, slots)
        self.rows = [asc.LocalTensor(plan.acc, P.C2, s * width * 4, width) for s in range(slots)]
        self.whole = align(columns, 16) * item_bytes(plan.bias_dtype) <= room
        self.load = Ring(E.MTE1_MTE2, E.MTE2_MTE1, BIAS_FLAG, 1)
        self.l1 = asc.LocalTensor(plan.bias_dtype, P.C1, l1_at, align(columns, 16) if self.whole else width)

    def _bring(self, column: int, count: int) -> None:
        """One row to L1, filled with zeros to 32 bytes."""
        asc.data_copy(self.l1, self.bias[column:], asc.Nd2NzParams(1, 1, count, 0, count, 1, 1, 0))

    def open(self) -> None:
        self.ring.open()
        if self.whole:
            self._bring(0, self.columns)
            self.load.hand(0)
        else:
            self.load.open()

    def begin(self, place: Place) -> tuple[int, Any]:
        """Bring the row of a tile; (slot, tensor)."""
        n = place.n1 * 16
        source = self.l1
        if self.whole:
            source = source[place.column :]
        else:
            a = self.load.take()
            self._bring(place.column, min(n, self.columns - place.column))
            self.load.hand(a)
        s = self.ring.take()
        asc.data_copy(self.rows[s], source, n)
        if not self.whole:
            self.load.give(0)
        self.ring.hand(s)
        return s, self.rows[s]

    def end(self, s: int) -> None:
        """The first mmad of the tile has been issued."""
        self.ring.give(s)

    def close(self) -> None:
        self.ring.close()
        if not self.whole:
            self.load.close()
