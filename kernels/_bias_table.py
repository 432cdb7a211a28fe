"""The bias of chips with a bias table: rows in L1, moved to the table tile by tile, added by the first mmad."""

from __future__ import annotations

from collections import deque
from typing import Any

from ascend_sim import asc

from ._cube import BLOCK, E, P, Ring
from ._exit import ExitPlan, Place
from ._vector import align, item_bytes

BIAS_FLAG = 7  # MTE2 <-> MTE1 flag of the bias row (chips with a bias table have eight)


class BiasTable:
    """Bias rows in L1, moved to the bias table tile by tile. The core's whole row stays in L1 where ``room`` bytes hold
    it, else each tile brings its part: when it begins, or with its operands (`fetch`, two buffers) where ``ahead``."""

    def __init__(
        self, plan: ExitPlan, bias: Any, columns: int, l1_at: int, tile_columns: int, room: int, ahead: bool = False
    ) -> None:
        """``bias``: GlobalTensor at the first of the ``columns`` columns this core computes."""
        self.plan, self.bias, self.columns = plan, bias, columns
        width = align(tile_columns, 16)
        slots = max(min(asc.current_soc().buffers.bt_bytes // (width * 4), 2), 1)
        self.ring = Ring(E.M_MTE1, E.MTE1_M, 2, slots)
        self.rows = [asc.LocalTensor(plan.acc, P.C2, s * width * 4, width) for s in range(slots)]
        self.whole = align(columns, 16) * item_bytes(plan.bias_dtype) <= room
        self.ahead = ahead and not self.whole
        buffers = 2 if self.ahead else 1
        self.load = Ring(E.MTE1_MTE2, E.MTE2_MTE1, BIAS_FLAG + 1 - buffers, buffers)
        self.step = width
        self.l1 = asc.LocalTensor(plan.bias_dtype, P.C1, l1_at, align(columns, 16) if self.whole else buffers * width)
        self.fetched: deque[int] = deque()

    def _bring(self, column: int, count: int, buffer: int = 0) -> None:
        """One row to L1, filled with zeros to 16 columns (the move itself fills to 32 bytes)."""
        params = asc.Nd2NzParams(1, 1, count, 0, count, 1, 1, 0)
        asc.data_copy(self.l1[buffer * self.step :], self.bias[column:], params)
        size = item_bytes(self.plan.bias_dtype)
        filled = align(count * size, BLOCK)
        rest = align(count, 16) * size - filled
        if rest:
            zeros = asc.InitConstValueParams(1, rest // BLOCK, 0, 0)
            asc.init_const_value(self.l1[buffer * self.step + filled // size :], zeros)

    def open(self) -> None:
        self.ring.open()
        if self.whole:
            self._bring(0, self.columns)
            self.load.hand(0)
        else:
            self.load.open()

    def fetch(self, place: Place) -> None:
        """Bring the row of a tile to L1, if each tile brings its own and ``ahead`` was asked for."""
        if self.ahead:
            self._fetch(place)

    def _fetch(self, place: Place) -> None:
        a = self.load.take()
        self._bring(place.column, min(place.n1 * 16, self.columns - place.column), a)
        asc.set_flag(E.MTE2_MTE1, self.load.first + a)
        self.fetched.append(a)

    def begin(self, place: Place) -> tuple[int, Any]:
        """The row of a tile in the bias table; (slot, tensor)."""
        source, a = self.l1, -1
        if self.whole:
            source = source[place.column :]
        else:
            if not self.fetched:
                self._fetch(place)
            a = self.fetched.popleft()
            asc.wait_flag(E.MTE2_MTE1, self.load.first + a)
            source = source[a * self.step :]
        s = self.ring.take()
        asc.data_copy(self.rows[s], source, place.n1 * 16)
        if a >= 0:
            self.load.give(a)
        self.ring.hand(s)
        return s, self.rows[s]

    def end(self, s: int) -> None:
        """The first mmad of the tile has been issued."""
        self.ring.give(s)

    def close(self) -> None:
        self.ring.close()
        if not self.whole:
            self.load.close()
