"""Matrix blocks on a cube core: global memory to L1 (MTE2), L1 to L0 (MTE1), mmad (M), out through the fixpipe (FIX).

Every stage has two buffers where they fit and hands them on by flags, so that the four pipes overlap. The operand that
stays the same from one base block to the next (B when the order is along M) is kept in L1 when its whole K panel fits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ascend_sim.asc.calls_cube import fixpipe, mmad
from ascend_sim.asc.calls_load import load_data, load_data_with_transpose
from ascend_sim.asc.calls_move import data_copy, set_atomic_add, set_atomic_none
from ascend_sim.asc.calls_sync import set_flag, wait_flag
from ascend_sim.asc.machine import Core
from ascend_sim.asc.params import (
    DataCopyParams,
    FixpipeConfig,
    FixpipeParamsV220,
    LoadData2DParams,
    LoadData2dTransposeParams,
    LoadData3DParamsV2,
    MmadParams,
    Nd2NzParams,
)
from ascend_sim.asc.tensor import GlobalTensor, LocalTensor
from ascend_sim.isa.dtypes import DataType, float32, int8, int32, uint32, uint64
from ascend_sim.isa.enums import CubeFormat, HardEvent, IterateOrder, QuantModes, TPosition
from ascend_sim.isa.layout import CUBE, ceil_div
from ascend_sim.isa.legality import InstructionError

E = HardEvent
CALL = "Matmul"
MAX_REPEAT = 255


@dataclass(frozen=True)
class Matrix:
    """An operand in global memory: rows of ``pitch`` elements (ND) or panels of ``pitch`` rows (NZ), stored
    transposed or not."""

    tensor: GlobalTensor
    dtype: DataType
    pitch: int
    transposed: bool = False
    format: CubeFormat = CubeFormat.ND


@dataclass(frozen=True)
class Exit:
    """Where a base block goes: ``tensor`` (global memory or, on chips with that path, the unified buffer), row pitch
    in elements, conversion."""

    tensor: GlobalTensor | LocalTensor
    dtype: DataType
    pitch: int
    format: CubeFormat = CubeFormat.ND
    quant: QuantModes = QuantModes.NoQuant
    scalar: int = 0
    vector: GlobalTensor | None = None
    atomic: bool = False
    sequential: bool = False  # every base block from the start of ``tensor``


@dataclass(frozen=True)
class Product:
    """C (m x n) = A (m x k) B (k x n) + bias in base blocks of (base_m, base_n, base_k)."""

    a: Matrix
    b: Matrix
    bias: GlobalTensor | None
    bias_dtype: DataType
    m: int
    n: int
    k: int
    base_m: int
    base_n: int
    base_k: int
    step_k: int = 1
    order: IterateOrder = IterateOrder.ORDER_M
    hf32: bool = False

    @property
    def rows(self) -> int:
        return ceil_div(self.m, self.base_m)

    @property
    def columns(self) -> int:
        return ceil_div(self.n, self.base_n)

    @property
    def blocks(self) -> int:
        return self.rows * self.columns

    def place(self, index: int) -> tuple[int, int, int, int]:
        """(first row, first column, rows, columns) of a base block."""
        if self.order == IterateOrder.ORDER_N:
            i, j = divmod(index, self.columns)
        else:
            j, i = divmod(index, self.rows)
        row, column = i * self.base_m, j * self.base_n
        return row, column, min(self.base_m, self.m - row), min(self.base_n, self.n - column)


@dataclass
class Ring:
    """Buffers handed from one pipe to the next and back. ``full`` and ``free`` are flags of the two directions, ids
    from ``first``; a buffer that was never used needs no wait."""

    full: HardEvent
    free: HardEvent
    slots: int
    first: int = 0
    turn: int = 0
    owed: set[int] = field(default_factory=set)

    def take(self) -> int:
        """The next buffer, for the producer."""
        slot = self.turn
        self.turn = (self.turn + 1) % self.slots
        if slot in self.owed:
            self.owed.discard(slot)
            wait_flag(self.free, self.first + slot)
        return slot

    def hand(self, slot: int) -> None:
        """Filled: the consumer may go on."""
        set_flag(self.full, self.first + slot)
        wait_flag(self.full, self.first + slot)

    def give(self, slot: int) -> None:
        """Consumed: the producer may fill it again."""
        set_flag(self.free, self.first + slot)
        self.owed.add(slot)

    def close(self) -> None:
        for slot in sorted(self.owed):
            wait_flag(self.free, self.first + slot)
        self.owed.clear()


class CubeWorker:
    """Runs products on the cube core that calls it. ``l1_base`` bytes of L1 belong to the kernel's own buffers."""

    def __init__(self, core: Core, l1_base: int = 0) -> None:
        self.rules = core.rules
        if not self.rules.exists("data_move_out2l1_nd2nz") or not self.rules.fixpipe:
            raise InstructionError(
                CALL, "chip", self.rules.name, "the high-level matrix object needs the ND to Nz move and the fixpipe"
            )
        self.l1_base = ceil_div(l1_base, 512) * 512
        self.l1 = Ring(E.MTE2_MTE1, E.MTE1_MTE2, 2)
        self.l0 = Ring(E.MTE1_M, E.M_MTE1, 2)
        self.l0c = Ring(E.M_FIX, E.FIX_M, 2)
        self.bias = Ring(E.MTE2_MTE1, E.MTE1_MTE2, 1, 2)
        self.scales = Ring(E.MTE2_FIX, E.FIX_MTE2, 1)
        self.kept: tuple[Any, ...] = ()  # what the resident panel of L1 holds, and columns of K already there
        self.panel = 0
        self.layout: tuple[int, ...] = ()

    def close(self) -> None:
        """Wait for everything in flight."""
        for ring in (self.l1, self.l0, self.l0c, self.bias, self.scales):
            ring.close()
        self.kept = ()

    def run(self, p: Product, blocks: range, out: Exit) -> None:
        """Compute base blocks ``blocks`` of a product and write them out."""
        cut = _Cut(self, p)
        if cut.layout != self.layout:
            self.close()
            self.layout = cut.layout
        if blocks.start == 0:
            self.kept = ()  # the operands may have changed since
        if out.atomic:
            set_atomic_add(out.dtype)
        for index in blocks:
            self._block(p, cut, index, out)
        if out.atomic:
            set_atomic_none()

    def _block(self, p: Product, cut: _Cut, index: int, out: Exit) -> None:
        row, column, m, n = p.place(index)
        width = cut.columns(n)
        acc = int32 if p.a.dtype is int8 else float32
        slot = self.l0c.take() if cut.c_slots > 1 else self._single(self.l0c)
        c = LocalTensor(acc, TPosition.CO1, slot * cut.c_bytes, cut.c_bytes // 4)
        bias = self._bias(p, column, n, width) if p.bias is not None else None
        first = True
        for k0 in range(0, p.k, cut.l1_k):
            depth = min(cut.l1_k, p.k - k0)
            s = self.l1.take() if cut.l1_slots > 1 else self._single(self.l1)
            a1, b1 = self._load(p, cut, s, row, column, m, n, k0, depth)
            self.l1.hand(s)
            for kk in range(0, depth, p.base_k):
                k = min(p.base_k, depth - kk)
                t = self.l0.take() if cut.l0_slots > 1 else self._single(self.l0)
                a2 = LocalTensor(p.a.dtype, TPosition.A2, t * cut.a_bytes, cut.a_bytes // p.a.dtype.size)
                b2 = LocalTensor(p.b.dtype, TPosition.B2, t * cut.b_bytes, cut.b_bytes // p.b.dtype.size)
                _to_l0a(a2, a1, p.a, m, depth, kk, k)
                _to_l0b(b2, b1, p.b, n, width, depth, kk, k)
                self.l0.hand(t)
                params = MmadParams(
                    m, width, k, cmatrix_init_val=first and bias is None,
                    k_direction_align=p.a.transposed and p.a.dtype is float32,
                )  # fmt: skip
                if first and bias is not None:
                    mmad(c, a2, b2, bias, params)
                else:
                    mmad(c, a2, b2, params)
                first = False
                self.l0.give(t)
            self.l1.give(s)
        self.l0c.hand(slot)
        self._leave(p, c, row, column, m, n, out)
        self.l0c.give(slot)

    def _single(self, ring: Ring) -> int:
        ring.turn = 0
        return ring.take()

    def _load(
        self, p: Product, cut: _Cut, slot: int, row: int, column: int, m: int, n: int, k0: int, depth: int
    ) -> tuple[LocalTensor, LocalTensor]:
        """Bring a K chunk of both operands to L1; the resident operand only when it is not there yet."""
        a = LocalTensor(p.a.dtype, TPosition.A1, cut.a1 + slot * cut.a1_bytes, cut.a1_bytes // p.a.dtype.size)
        b = LocalTensor(p.b.dtype, TPosition.B1, cut.b1 + slot * cut.b1_bytes, cut.b1_bytes // p.b.dtype.size)
        if cut.resident:
            key = (cut.resident, p, column if cut.resident == "b" else row)
            if k0 == 0 and self.kept[:3] != key:
                self.panel ^= cut.panels - 1
                self.kept = (*key, 0)
            have = self.kept[3]
            at = cut.kept + self.panel * cut.panel_bytes + k0 * cut.panel_k_bytes
            if cut.resident == "b":
                b = LocalTensor(p.b.dtype, TPosition.B1, at, cut.b1_bytes // p.b.dtype.size)
            else:
                a = LocalTensor(p.a.dtype, TPosition.A1, at, cut.a1_bytes // p.a.dtype.size)
            fresh = have == k0
            if fresh:
                self.kept = (*key, k0 + depth)
        else:
            fresh = True
        if cut.resident != "a" or fresh:
            _to_l1(a, p.a, row, m, k0, depth)
        if cut.resident != "b" or fresh:
            _to_l1(b, _flipped(p.b), column, n, k0, depth)
        return a, b

    def _bias(self, p: Product, column: int, n: int, width: int) -> LocalTensor:
        """The bias row of a block in the bias table, ``width`` columns of it for the cube."""
        assert p.bias is not None
        size = p.bias_dtype.size
        room = ceil_div(width * 4, 64) * 16
        if room * 4 > self.rules.sizes["BT"]:
            raise InstructionError(
                CALL, "base_n", n, f"a bias row must fit in the bias table of {self.rules.sizes['BT']} bytes"
            )
        s = self.bias.take()
        l1 = LocalTensor(p.bias_dtype, TPosition.A1, self.l1_base, ceil_div(room * size, 64) * 64 // size)
        data_copy(l1, p.bias[column:], Nd2NzParams(1, 1, n, 0, max(n, 1), 1, 1, 0))
        self.bias.hand(s)
        table = LocalTensor(int32 if p.bias_dtype is int32 else float32, TPosition.C2, 0, room)
        # mmad of the previous block may still read the table: it is in flight until its accumulator was handed on
        if self.l0.owed:
            last = (self.l0.turn - 1) % 2
            if last in self.l0.owed:
                wait_flag(E.M_MTE1, last)
                set_flag(E.M_MTE1, last)
        data_copy(table, l1, room)
        self.bias.give(s)
        return table

    def _leave(self, p: Product, c: LocalTensor, row: int, column: int, m: int, n: int, out: Exit) -> None:
        """L0C through the fixpipe."""
        wide = ceil_div(m, CUBE) * CUBE
        vector: LocalTensor | None = None
        slot = -1
        if out.vector is not None:
            slot = self.scales.take()
            l1 = LocalTensor(uint64, TPosition.A1, self.l1_base + 4096, ceil_div(n, 16) * 16)
            words = out.vector[column:].reinterpret_cast(uint32)
            data_copy(l1.reinterpret_cast(uint32), words, Nd2NzParams(1, 1, n * 2, 0, n * 2, 1, 1, 0))
            self.scales.hand(slot)
            vector = LocalTensor(uint64, TPosition.C2PIPE2GM, 0, ceil_div(n, 16) * 16)
            data_copy(vector, l1, ceil_div(n, 16) * 16)
        if out.format == CubeFormat.NZ:
            c0 = 32 // out.dtype.size if out.dtype.size != 4 else CUBE
            offset = 0 if out.sequential else column * out.pitch + row * c0
            columns = ceil_div(n, CUBE) * CUBE
            rows = wide if out.sequential else out.pitch
            params = FixpipeParamsV220(columns, m, wide, rows * c0 * out.dtype.size // 32, out.quant, out.scalar)
            config = FixpipeConfig.cfg_nz()
        else:
            offset = 0 if out.sequential else row * out.pitch + column
            params = FixpipeParamsV220(n, m, wide, n if out.sequential else out.pitch, out.quant, out.scalar)
            config = FixpipeConfig.cfg_row_major()
        if vector is None:
            fixpipe(out.tensor[offset:], c, params, config)
        else:
            fixpipe(out.tensor[offset:], c, vector, params, config)
            self.scales.give(slot)


class _Cut:
    """Buffers of a product: bytes per slot and slots of every memory."""

    def __init__(self, worker: CubeWorker, p: Product) -> None:
        rules = worker.rules
        size, c0 = p.a.dtype.size, p.a.dtype.block
        if p.a.dtype is not p.b.dtype:
            raise InstructionError(CALL, "data types", f"{p.a.dtype} x {p.b.dtype}", "A and B must have the same type")
        self.square_b = size == 1 and not p.b.transposed
        square_a = 32 if size == 1 and p.a.transposed else CUBE
        bm, bn = ceil_div(p.base_m, square_a) * square_a, self.columns(p.base_n)
        unit = max(c0, CUBE)
        bk = ceil_div(p.base_k, unit) * unit
        self.a_bytes, self.b_bytes = bm * bk * size, bn * bk * size
        self.c_bytes = ceil_div(bm * bn * 4, 1024) * 1024
        for name, memory, nbytes in (("base_m x base_k", "L0A", self.a_bytes), ("base_k x base_n", "L0B", self.b_bytes),
                                     ("base_m x base_n", "L0C", self.c_bytes)):  # fmt: skip
            if nbytes > rules.sizes[memory]:
                sizes = f"{p.base_m} x {p.base_n} x {p.base_k} ({p.a.dtype})"
                rule = f"{name} needs {nbytes} bytes of {memory}, which has {rules.sizes[memory]}"
                raise InstructionError(CALL, "base block", sizes, rule)
        twice = self.a_bytes * 2 <= rules.sizes["L0A"] and self.b_bytes * 2 <= rules.sizes["L0B"]
        self.l0_slots = 2 if twice else 1
        self.c_slots = 2 if self.c_bytes * 2 <= rules.sizes["L0C"] else 1
        start = worker.l1_base + 8192  # bias row and quantisation vector
        room = rules.sizes["L1"] - start
        step = max(p.step_k, 1)
        while step > 1 and 2 * step * (self.a_bytes + self.b_bytes) > room:
            step -= 1
        self.l1_k = min(step * p.base_k, ceil_div(p.k, unit) * unit)
        k = ceil_div(self.l1_k, unit) * unit
        self.a1_bytes, self.b1_bytes = bm * k * size, bn * k * size
        self.l1_slots = 2 if 2 * (self.a1_bytes + self.b1_bytes) <= room else 1
        if self.a1_bytes + self.b1_bytes > room:
            rule = f"one K step needs {self.a1_bytes + self.b1_bytes} bytes of L1, which has {room} free"
            raise InstructionError(CALL, "base block", f"{p.base_m} x {p.base_n} x {p.base_k}", rule)
        self.a1, self.b1 = start, start + self.l1_slots * self.a1_bytes
        end = self.b1 + self.l1_slots * self.b1_bytes
        # a resident panel replaces the slots of its operand when there is more than one block to use it
        chunks = ceil_div(p.k, self.l1_k)
        along_m = p.order != IterateOrder.ORDER_N
        again = p.rows if along_m else p.columns
        rows = bn if along_m else bm
        self.panel_k_bytes = rows * size
        self.panel_bytes = chunks * k * rows * size
        self.panels = 2 if chunks == 1 else 1
        other = self.l1_slots * (self.a1_bytes if along_m else self.b1_bytes)
        self.resident = ""
        if again > 1 and self.l1_slots == 2 and other + self.panels * self.panel_bytes <= room and p.base_k % unit == 0:
            self.resident = "b" if along_m else "a"
            if along_m:
                self.a1, self.kept = start, start + other
            else:
                self.b1, self.kept = start, start + other
        elif end > rules.sizes["L1"]:
            raise InstructionError(CALL, "base block", f"{p.base_m} x {p.base_n} x {p.base_k}", "does not fit in L1")
        self.layout = (
            self.a_bytes, self.b_bytes, self.c_bytes, self.l0_slots, self.c_slots, self.a1, self.b1, self.a1_bytes,
            self.b1_bytes, self.l1_slots, self.panel_bytes,
        )  # fmt: skip

    def columns(self, n: int) -> int:
        """Columns mmad computes: whole fractals, pairs of them where 8-bit types are transposed on the way."""
        unit = 32 if self.square_b else CUBE
        return ceil_div(n, unit) * unit


def _flipped(b: Matrix) -> Matrix:
    """B seen as the other operand: (n x k) rows are columns of B."""
    return Matrix(b.tensor, b.dtype, b.pitch, not b.transposed, b.format)


def _to_l1(dst: LocalTensor, x: Matrix, row: int, rows: int, k0: int, depth: int) -> None:
    """(rows x depth) of an operand from global memory to L1 as Nz; transposed operands arrive as (depth x rows)."""
    r, c, height, width = (k0, row, depth, rows) if x.transposed else (row, k0, rows, depth)
    unit = 32 if x.dtype.size == 1 and x.transposed else CUBE
    panel = ceil_div(height, unit) * unit
    if x.format == CubeFormat.NZ:
        c0 = x.dtype.block
        if c % c0 or r % CUBE:
            raise InstructionError(CALL, "offset", (r, c), f"NZ operands are cut at multiples of {CUBE} x {c0}")
        params = DataCopyParams(ceil_div(width, c0), height, x.pitch - height, panel - height)
        data_copy(dst, x.tensor[c * x.pitch + r * c0 :], params)
        return
    start = r * x.pitch + c
    if height == 1 or x.pitch <= 65535:
        data_copy(dst, x.tensor[start:], Nd2NzParams(1, height, width, 0, x.pitch, panel, 1, 0))
        return
    for i in range(height):
        line = Nd2NzParams(1, 1, width, 0, width, panel, 1, 0)
        data_copy(dst[i * x.dtype.block :], x.tensor[start + i * x.pitch :], line)


def _window(height: int, channels: int, k0: int, k: int, transpose: bool, rows: int) -> LoadData3DParamsV2:
    """A load3d of a 1 x 1 filter: (height x channels) of Nz in L1, a window of it to L0."""
    if transpose:
        return LoadData3DParamsV2((0, 0, 0, 0), 1, height, channels, rows, k, 0, k0, 1, 1, 1, 1, 1, 1, True)
    return LoadData3DParamsV2((0, 0, 0, 0), 1, height, channels, k, rows, k0, 0)


def _to_l0a(dst: LocalTensor, src: LocalTensor, a: Matrix, m: int, depth: int, k0: int, k: int) -> None:
    """A in L1 (Nz, or its transpose) to L0A (Zz)."""
    c0 = a.dtype.block
    if not a.transposed:
        height = ceil_div(m, CUBE) * CUBE
        load_data(dst, src, _window(height, ceil_div(depth, c0) * c0, k0, k, False, m))
    elif a.dtype.size > 1:
        height, channels = ceil_div(depth, CUBE) * CUBE, ceil_div(m, c0) * c0
        load_data(dst, src, _window(height, channels, k0, k, True, channels))
    else:  # 8-bit: square blocks of 32 x 32
        height, k1 = ceil_div(depth, 32), ceil_div(k, 32)
        for j in range(ceil_div(m, 32)):
            params = LoadData2dTransposeParams(j * height + k0 // 32, k1, 1, 0, k1 - 1)
            load_data_with_transpose(dst[2 * j * k1 * 512 :], src, params)


def _to_l0b(
    dst: LocalTensor, src: LocalTensor, b: Matrix, n: int, width: int, depth: int, k0: int, k: int
) -> None:
    """B in L1 (Nz, or its transpose) to L0B (Zn); ``width`` is n in whole fractals."""
    c0 = b.dtype.block
    if b.transposed:  # (n x k) Nz has the fractals of Zn in their order
        first, count = k0 // c0 * (width // CUBE), ceil_div(k, c0) * (width // CUBE)
        for i in range(0, count, MAX_REPEAT):
            part = min(MAX_REPEAT, count - i)
            load_data(dst[i * 512 // b.dtype.size :], src, LoadData2DParams(first + i, part, 1))
    elif b.dtype.size > 1:
        height = ceil_div(depth, CUBE) * CUBE
        channels = ceil_div(n, c0) * c0
        load_data(dst, src, LoadData3DParamsV2((0, 0, 0, 0), 1, height, channels, channels, k, 0, k0))
    else:
        height = ceil_div(depth, 32)
        for i in range(ceil_div(k, 32)):
            params = LoadData2dTransposeParams(k0 // 32 + i, width // 32, height, 1, 0)
            load_data_with_transpose(dst[i * width * 32 :], src, params)
