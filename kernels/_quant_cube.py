"""Cube side of int8 products: the matmul core with 8-bit operands, and the two ways the int32 result leaves.

Rows along K go to L0 as they lie; rows along M or N in squares of 32 x 32 bytes that the load turns. The result is
scaled by the fixpipe (a row of 64-bit words per tile) or left as int32 in the workspace for the vector cores.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from ascend_sim import asc
from ascend_sim.isa.layout import ceil_div

from ._cube import E, P, Ring, block_index
from ._exit import Place
from ._matmul import CubeSide, MatmulPlan, Source, Unit, place_of
from ._mix import FREE, READY, WORK_TILES
from ._slots import Held
from ._vector import align

SQUARE = 32  # side of the squares the transposing load takes
SCALE_FLAG = 4  # MTE2 <-> FIX
MODES = {
    ("float16", True): asc.QuantModes.VDEQF16, ("float16", False): asc.QuantModes.DEQF16,
    ("int8", True): asc.QuantModes.VREQ8, ("int8", False): asc.QuantModes.REQ8,
}  # fmt: skip


class QuantCube(CubeSide):
    """`CubeSide` for int8."""

    def __init__(self, plan: MatmulPlan, arguments: dict[str, list[Any]], out: str, per_column: bool) -> None:
        super().__init__(plan, arguments)
        t = plan.tiling
        elements = t.base_m * t.base_n
        if "work" in arguments:
            self.out = WorkspaceExit(arguments["work"][0], t.l0c_slots, t.base_m, t.base_n)
        elif "scale" in arguments:
            at = 2 * (self.a_slot + self.b_slot) + (2 * t.base_n * 4 if plan.exit.bias else 0)
            self.out = ScaledExit(
                arguments["y"][0], arguments["scale"][0], MODES[out, per_column], t.l0c_slots, elements, t.base_n, at
            )

    def _load(self, unit: Unit) -> tuple[Held, Held]:
        if unit.first and isinstance(self.out, ScaledExit):
            self.out.fetch(place_of(self.plan, unit.tile))
        return super()._load(unit)

    def _to_l1(self, dst: Any, src: Any, source: Source, r: int, rows: int, k: int, size: int) -> None:
        if source.k_outer:
            super()._to_l1(dst, src, source, r, rows, k, size)
            return
        params = asc.Nd2NzParams(1, size, rows, 0, source.pitch, align(size, SQUARE), 1, 0)
        asc.data_copy(dst, src[k * source.pitch + r :], params)

    def _to_l0(self, dst: Any, src: Any, source: Source, rows: int, k: int, size: int, depth: int, left: bool) -> None:
        if source.k_outer:
            super()._to_l0(dst, src, source, rows, k, size, depth, left)
            return
        high, k1, panels = ceil_div(depth, SQUARE), ceil_div(size, SQUARE), ceil_div(rows, SQUARE)
        fractal = 16 * SQUARE
        if left:  # a panel of 32 rows at a time: squares along K
            for p in range(panels):
                params = asc.LoadData2dTransposeParams(p * high + k // SQUARE, k1, 1, 0, k1 - 1)
                asc.load_data_with_transpose(dst[2 * p * k1 * fractal :], src, params)
            return
        n1 = ceil_div(rows, 16)
        for i in range(k1):  # 32 of K at a time: squares along N
            params = asc.LoadData2dTransposeParams(k // SQUARE + i, panels, high, 1, 0)
            asc.load_data_with_transpose(dst[i * n1 * fractal :], src, params)


class ScaledExit:
    """Straight to the output, scaled by the fixpipe: by one word, or by a word per column that comes with the tile
    through L1 and the fixpipe's buffer."""

    def __init__(
        self, out: Any, scale: Any, mode: asc.QuantModes, slots: int, slot_elements: int, columns: int, l1_at: int
    ) -> None:
        self.out, self.scale, self.mode = out, scale, mode
        self.vector = mode in (asc.QuantModes.VDEQF16, asc.QuantModes.VREQ8)
        self.ring = Ring(E.FIX_M, E.M_FIX, 0, slots)
        self.acc = [asc.LocalTensor("int32", P.CO1, s * slot_elements * 4, slot_elements) for s in range(slots)]
        self.load = Ring(E.FIX_MTE2, E.MTE2_FIX, SCALE_FLAG, 2)
        width = align(columns, 16)
        self.rows = [asc.LocalTensor("uint64", P.C1, l1_at + s * width * 8, width) for s in range(2)]
        self.words = asc.LocalTensor("uint64", P.C2PIPE2GM, 0, width)
        self.fetched: deque[int] = deque()
        self.word = 0

    def open(self, places: Sequence[Place]) -> None:
        self.ring.open()
        if self.vector:
            self.load.open()
        else:
            self.word = int(self.scale.get_value(0))

    def fetch(self, place: Place) -> None:
        """Bring the words of a tile's columns to L1."""
        if not self.vector:
            return
        s = self.load.take()
        params = asc.Nd2NzParams(1, 1, place.n * 2, 0, place.n * 2, 1, 1, 0)
        asc.data_copy(self.rows[s].reinterpret_cast("int32"), self.scale.reinterpret_cast("int32")[place.column * 2 :],
                      params)  # fmt: skip
        asc.set_flag(E.MTE2_FIX, self.load.first + s)
        self.fetched.append(s)

    def begin(self) -> tuple[int, Any, bool]:
        s = self.ring.take()
        return s, self.acc[s], True

    def end(self, s: int, place: Place, following: Place | None) -> None:
        self.ring.hand(s)
        params = asc.FixpipeParamsV220(place.n, place.m, place.mp, place.pitch, self.mode, deq_scalar=self.word)
        if self.vector:
            row = self.fetched.popleft()
            asc.wait_flag(E.MTE2_FIX, self.load.first + row)
            asc.data_copy(self.words, self.rows[row], align(place.n, 16))
            self.load.give(row)
            asc.pipe_barrier(asc.PipeID.PIPE_FIX)
            asc.fixpipe(self.out[place.offset :], self.acc[s], self.words, params)
        else:
            asc.fixpipe(self.out[place.offset :], self.acc[s], params)
        self.ring.give(s)

    def close(self) -> None:
        self.ring.close()
        if self.vector:
            self.load.close()


class WorkspaceExit:
    """int32 rows to one of two tiles in the workspace, for the vector cores."""

    def __init__(self, work: Any, slots: int, rows: int, columns: int) -> None:
        self.size, self.columns = rows * columns, columns
        self.work = work[block_index() * WORK_TILES * self.size :]
        self.ring = Ring(E.FIX_M, E.M_FIX, 0, slots)
        self.acc = [asc.LocalTensor("int32", P.CO1, s * self.size * 4, self.size) for s in range(slots)]
        self.begun = 0

    def open(self, places: Sequence[Place]) -> None:
        self.ring.open()

    def begin(self) -> tuple[int, Any, bool]:
        s = self.ring.take()
        return s, self.acc[s], True

    def end(self, s: int, place: Place, following: Place | None) -> None:
        self.ring.hand(s)
        if self.begun >= WORK_TILES:
            asc.cross_core_wait_flag(FREE, 2, asc.PipeID.FIX)
        params = asc.FixpipeParamsV220(place.n, place.m, place.mp, self.columns, asc.QuantModes.NoQuant)
        asc.fixpipe(self.work[self.begun % WORK_TILES * self.size :], self.acc[s], params)
        self.begun += 1
        asc.cross_core_set_flag(READY, 2, asc.PipeID.FIX)
        self.ring.give(s)

    def close(self) -> None:
        self.ring.close()
        for _ in range(min(self.begun, WORK_TILES)):
            asc.cross_core_wait_flag(FREE, 2, asc.PipeID.FIX)
