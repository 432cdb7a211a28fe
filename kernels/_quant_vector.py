"""Vector side of int8 products: int32 tiles from the workspace, times the scale of each column and of each row, plus a
floating bias, rounded to 16 bits. The two vector cores of a block take half of a tile's rows each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from ascend_sim import asc
from ascend_sim.isa.layout import ceil_div

from ._attention_softmax import LANES, barrier, by_row
from ._cube import E, P, Ring, block_index, even
from ._exit import Place
from ._mix import FREE, READY, WORK_TILES
from ._vector import align, item_bytes

STRIP = 8192  # elements of one pass
ROW_FLAG = 2  # MTE2 <-> V, of what a tile's rows and columns share


class QuantVector:
    """``gm``: tensors by role (``work``, ``y``, ``scale``, and where given ``token`` and ``bias``); tiles of ``rows``
    x ``columns`` in the workspace."""

    def __init__(self, gm: dict[str, Any], rows: int, columns: int, dtype: str, per_column: bool) -> None:
        self.gm, self.pitch, self.size, self.dtype = gm, columns, rows * columns, dtype
        self.work = gm["work"][block_index() * WORK_TILES * self.size :]
        self.out = gm["y"]
        self.me = asc.get_sub_block_idx()
        half = align(ceil_div(rows, 2), 8) + 8
        at = 0

        def room(kind: str, elements: int) -> Any:
            nonlocal at
            t = asc.LocalTensor(kind, P.VECCALC, at, elements)
            at += align(elements * item_bytes(kind), 32)
            return t

        self.inputs = [room("int32", STRIP) for _ in range(2)]
        self.outputs = [room(dtype, STRIP) for _ in range(2)]
        self.rows: dict[str, tuple[Any, Any]] = {}  # role: (float32 row, as it lies in memory)
        for role in ("scale", "bias"):
            if role in gm and (per_column or role == "bias"):
                kind = gm[role].dtype.name
                wide = room("float32", align(columns, LANES))
                self.rows[role] = wide, wide if kind == "float32" else room(kind, align(columns, LANES))
        self.token: Any = room("float32", half) if "token" in gm else None
        self.spread: Any = room("float32", half * 8) if "token" in gm else None
        self.load, self.store = Ring(E.V_MTE2, E.MTE2_V, 0, 2), Ring(E.MTE3_V, E.V_MTE3, 0, 2)
        self.scalar = 1.0

    def run(self, places: Iterable[Place], first_row: Sequence[int]) -> None:
        """``first_row``: row of the token scales each tile begins at."""
        self.load.open()
        self.store.open()
        asc.set_flag(E.V_MTE2, ROW_FLAG)
        if "scale" not in self.rows:
            self.scalar = float(self.gm["scale"].get_value(0))
        for i, place in enumerate(places):
            self._tile(place, i % WORK_TILES, first_row[i])
        self.load.close()
        self.store.close()
        asc.wait_flag(E.V_MTE2, ROW_FLAG)

    def _tile(self, place: Place, slot: int, token_row: int) -> None:
        half = ceil_div(place.m, 2)
        start, count = (0, half) if self.me == 0 else (half, place.m - half)
        self._shared(place, token_row + start, count)
        asc.cross_core_wait_flag(READY, 2, asc.PipeID.MTE2)
        source = self.work[slot * self.size :]
        for row, n in even(count, STRIP // self.pitch):
            s = self.load.take()
            asc.data_copy(self.inputs[s], source[(start + row) * self.pitch :], n * self.pitch)
            self.load.hand(s)
            o = self.store.take()
            asc.repeated(("strip", n, place.n), partial(self._strip, s, o, row, n, place.n))
            self.load.give(s)
            self.store.hand(o)
            self._away(self.outputs[o], place, start + row, n)
            self.store.give(o)
        asc.set_flag(E.V_MTE2, ROW_FLAG)
        asc.cross_core_set_flag(FREE, 2, asc.PipeID.MTE2)

    def _shared(self, place: Place, row: int, count: int) -> None:
        """Scales of a tile's columns and of this core's rows."""
        asc.wait_flag(E.V_MTE2, ROW_FLAG)
        for role, (_, raw) in self.rows.items():
            asc.data_copy_pad(raw, self.gm[role][place.column :],
                              asc.DataCopyParams(1, place.n * raw.dtype.size, 0, 0))  # fmt: skip
        if self.token is not None and count:
            asc.data_copy_pad(self.token, self.gm["token"][row:], asc.DataCopyParams(1, count * 4, 0, 0))
        asc.set_flag(E.MTE2_V, ROW_FLAG)
        asc.wait_flag(E.MTE2_V, ROW_FLAG)
        for wide, raw in self.rows.values():
            if wide is not raw:
                asc.cast(wide, raw, asc.RoundMode.CAST_NONE, count=place.n)
        if self.token is not None and count:
            asc.brcb(self.spread, self.token, ceil_div(count, 8), asc.BrcbRepeatParams(1, 8))
        barrier()

    def _strip(self, s: int, o: int, row: int, n: int, columns: int) -> None:
        whole, pitch = self.inputs[s], self.pitch
        x = whole.reinterpret_cast("float32")
        asc.cast(x, whole, asc.RoundMode.CAST_NONE, count=n * pitch)
        barrier()
        if "scale" in self.rows:
            self._columns(asc.mul, x, self.rows["scale"][0], n, columns)
        else:
            asc.muls(x, x, self.scalar, count=n * pitch)
        barrier()
        if self.token is not None:
            by_row(asc.mul, x, self.spread[row * 8 :], n, columns, pitch)
            barrier()
        if "bias" in self.rows:
            self._columns(asc.add, x, self.rows["bias"][0], n, columns)
            barrier()
        mode = asc.RoundMode.CAST_RINT if self.dtype == "bfloat16" else asc.RoundMode.CAST_NONE
        asc.cast(self.outputs[o], x, mode, count=n * pitch)

    def _columns(self, op: Any, x: Any, line: Any, rows: int, columns: int) -> None:
        """x = op(x, a row) for every row."""
        step = self.pitch // 8
        for j in range(0, columns, LANES):
            params = asc.BinaryRepeatParams(1, 1, 1, step, step, 0)
            op(x[j:], x[j:], line[j:], min(LANES, columns - j), rows, params)

    def _away(self, src: Any, place: Place, row: int, n: int) -> None:
        far, wide = self.out[place.offset + row * place.pitch :], place.n * 2
        apart = (self.pitch - align(place.n, 16)) // 16
        if wide % 32 == 0 and place.pitch % 16 == 0:
            asc.data_copy(far, src, asc.DataCopyParams(n, wide // 32, apart, (place.pitch - place.n) // 16))
        else:
            asc.data_copy_pad(far, src, asc.DataCopyParams(n, wide, apart, (place.pitch - place.n) * 2))
