"""How results leave the cube: accumulators in L0C to the output tensor, with bias, activation and conversion.

Two families. With a fixpipe a tile goes straight to global memory, converted (and clipped by relu) on the way; other
epilogues run on the vector cores, which take the tile from a workspace (split chips) or from the unified buffer
(coupled ones). Without a fixpipe the vector unit of the same core copies fractals to the unified buffer, converting
on the way, runs the epilogue there, and MTE3 writes the result.

The bias starts the accumulator: from the bias table where there is one, else broadcast into L0C by the vector unit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ascend_sim import asc
from ascend_sim.isa.layout import ceil_div
from ascend_sim.ops.registry import NoKernel

from ._cube import BLOCK, E, P, Ring, copy_rows, tensor
from ._flat import compile_steps, registers
from ._lower import Step, apply_steps, compute_dtype
from ._program import Allocation, Builder, Program, allocate
from ._vector import align, item_bytes

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

QUANT = {
    ("float32", "float16"): asc.QuantModes.F322F16,
    ("float32", "bfloat16"): asc.QuantModes.F322BF16,
    ("float32", "float32"): asc.QuantModes.NoQuant,
    ("int32", "int32"): asc.QuantModes.NoQuant,
    ("int32", "float16"): asc.QuantModes.DEQF16,
}
MAX_BIAS_BYTES = 32768  # of UB, for the bias of all columns of a core
VECTOR_PIECE = 16384  # elements of a plain exit tile in UB
MIN_PIECE = 4096
BIAS_PANEL = 64 * 16 * 4  # bytes: one row of 16 for each of 64 fractals


class Place(NamedTuple):
    """Where a tile of the result goes: ``offset`` of its first element in the output; ``m`` valid rows of ``mp`` in
    L0C; ``n1`` blocks of 16 columns, ``n`` of them valid; ``pitch`` elements between blocks (NZ) or rows (ND);
    ``column`` first column of the bias. ``images`` stacked in the tile, each with ``m`` valid of ``rows`` rows, lie
    ``image_pitch`` elements apart in the output."""

    offset: int
    m: int
    mp: int
    n1: int
    n: int
    pitch: int
    column: int
    images: int = 1
    rows: int = 0
    image_pitch: int = 0


@dataclass(frozen=True)
class ExitPlan:
    """Everything about leaving L0C that the tiling does not decide.

    ``kind``: ``fixpipe`` (straight to global memory), ``vector`` (through UB of the same core; by the fixpipe where
    there is one) or ``mix`` (through a workspace to the vector cores). ``middle``: type between L0C and the epilogue.
    ``rows``: output is ND. ``program`` None: nothing but conversion and ``relu``. ``piece``: elements of a UB tile;
    ``sets`` of them are in flight. ``bias``: ``""``, ``table`` or ``l0c``. ``split``: blocks of 8 float32 channels.
    ``deq``: what int32 accumulators are multiplied with on their way to ``middle`` = float16.
    """

    kind: str
    acc: str
    middle: str
    out: str
    rows: bool
    relu: bool
    program: Program | None
    allocation: Allocation | None
    extras: int
    piece: int
    sets: int
    set_bytes: int
    bias: str
    bias_dtype: str
    bias_columns: int
    split: bool = False
    deq: float = 0.0

    @property
    def bias_ub_bytes(self) -> int:
        """UB kept for the bias: as accumulator type, as stored, and 16 columns repeated for the rows of a tile."""
        if self.bias != "l0c":
            return 0
        raw = 0 if self.bias_dtype == self.acc else item_bytes(self.bias_dtype)
        return align(self.bias_columns * (item_bytes(self.acc) + raw), BLOCK) + BIAS_PANEL

    @property
    def word(self) -> int:
        """Parameter word of the fixpipe."""
        return int(np.float32(self.deq).view(np.uint32))

    @property
    def half_scale(self) -> tuple[Any, int]:
        """Scale of the copy from L0C to UB: mode and float16 bits."""
        if not self.deq:
            return asc.DeqScale.DEQ_NONE, 0
        return asc.DeqScale.DEQ, int(np.float16(self.deq).view(np.uint16))

    def cost(self) -> int:
        """Nominal vector cycles per 16 x 16 fractal besides the copy (2 repeats of 16-bit, 4 of 32-bit types)."""
        steps = self.program.steps if self.program is not None else ()
        return sum(4 if item_bytes(s.dtype) == 4 else 2 for s in steps) * 2


def plan_exit(
    soc: Soc, acc: str, out: str, steps: Sequence[Step], extras: int, bias: str | None, columns: int, rows: bool,
    scattered: bool = False,
) -> ExitPlan:  # fmt: skip
    """Plan for accumulators of type ``acc``, output type ``out``, epilogue ``steps`` with ``extras`` further inputs,
    a bias of dtype ``bias`` over ``columns`` columns of a core. ``scattered``: pixels go to places the fixpipe cannot
    reach, always through UB. Raises `NoKernel` for a type pair without a path."""
    fixpipe = soc.chip.has_fixpipe
    deq = 0.0
    if acc == "int32" and out != "int32":
        if out != "float16" or not steps or steps[0][0] != "muls":
            raise NoKernel(f"int32 sums leave as int32, or multiplied by a scale as float16, not as {out}")
        deq, steps = float(steps[0][1]), steps[1:]  # type: ignore[arg-type]
    relu = bool(steps) and steps[0][0] == "relu" and deq >= 0
    rest = tuple(steps[1:] if relu else steps)
    program: Program | None = None
    middle = out
    if rest:
        compute = compute_dtype(soc, out, rest)
        middle = "float16" if compute == "float16" or deq else acc
        builder = Builder(soc)
        x = builder.input(middle)
        more = [builder.input(out) for _ in range(extras)]
        wide = [builder.cast(e, compute) for e in more]
        program = builder.build(builder.cast(apply_steps(builder, builder.cast(x, compute), rest, wide), out))
    if (acc, middle) not in QUANT:
        raise NoKernel(f"no conversion {acc} -> {middle} on the way out of L0C")
    direct = fixpipe and program is None and not scattered
    kind = "fixpipe" if direct else "mix" if soc.chip.split_cores else "vector"
    place = "" if bias is None else "table" if fixpipe else "l0c"
    base = ExitPlan(
        kind, acc, middle, out, rows, relu, program, None, extras, 0, 2, 0, place, bias or acc, align(columns, 16),
        deq=deq,
    )
    if place == "l0c" and base.bias_ub_bytes > MAX_BIAS_BYTES * 2:
        raise NoKernel(f"bias of {columns} columns a core does not fit the unified buffer")
    if kind == "fixpipe":
        return base
    return _with_tiles(base, soc.buffers.ub_bytes - base.bias_ub_bytes - 256)


def _with_tiles(plan: ExitPlan, room: int) -> ExitPlan:
    """Size the UB tiles: four sets of every register of the program (stores take a few tiles' time to be done), two
    where four would be small."""
    if plan.program is None:
        live = float(item_bytes(plan.out))
        allocation = None
    else:
        allocation = allocate(plan.program)
        live = allocation.live_bytes() + allocation.steady_bytes()
    sets = 4 if room / (4 * live) >= MIN_PIECE else 2
    piece = min(int(room / (sets * live)) // 256 * 256, VECTOR_PIECE)
    if piece < 256:
        raise NoKernel("the epilogue needs more registers than the unified buffer holds")
    bits = (item_bytes(plan.out) * 8,) if allocation is None else allocation.bits
    set_bytes = sum(align(piece * b // 8, BLOCK) for b in bits)
    return ExitPlan(
        plan.kind, plan.acc, plan.middle, plan.out, plan.rows, plan.relu, plan.program, allocation, plan.extras,
        piece, sets, set_bytes, plan.bias, plan.bias_dtype, plan.bias_columns, plan.split, plan.deq,
    )  # fmt: skip


def pieces(place: Any, piece: int) -> Iterator[tuple[int, int, int, int]]:
    """Cut a tile for UB: (first block, blocks, first row, rows) with blocks x rows x 16 <= ``piece``."""
    panel = place.mp * 16
    if panel <= piece:
        step = min(piece // panel, place.n1)
        step = ceil_div(place.n1, ceil_div(place.n1, step))
        for j in range(0, place.n1, step):
            yield j, min(step, place.n1 - j), 0, place.mp
        return
    rows = piece // 256 * 16
    for j in range(place.n1):
        for r in range(0, place.mp, rows):
            yield j, 1, r, min(rows, place.mp - r)


class Outlet:
    """Moves pieces between UB and the output (or extra input) tensors."""

    def __init__(self, plan: ExitPlan, out: Any, extras: Sequence[Any]) -> None:
        self.plan, self.out, self.extras = plan, out, extras
        self.item = item_bytes(plan.out)

    def move(self, place: Place, cut: tuple[int, int, int, int], local: Any, gm: Any, to_gm: bool) -> None:
        """Copy the valid rows of a piece between ``local`` ([blocks][rows][16]) and ``gm``."""
        first, count, row, rows = cut
        unit = 16 * self.item // BLOCK
        pitch = place.pitch * self.item // BLOCK
        if not self.plan.rows:
            for k in range(place.images):
                low, high = max(k * place.rows, row), min(k * place.rows + place.m, row + rows)
                if high <= low:
                    continue
                far = gm[place.offset + k * place.image_pitch + first * place.pitch + (low - k * place.rows) * 16 :]
                near = local[(low - row) * 16 :]
                if to_gm:
                    copy_rows(far, near, count, (high - low) * unit, rows * unit, pitch)
                else:
                    copy_rows(near, far, count, (high - low) * unit, pitch, rows * unit)
            return
        valid = min(rows, place.m - row)
        if valid <= 0:
            return
        if place.pitch * self.item % BLOCK:
            self._move_exact(place, cut, valid, local, gm, to_gm)
            return
        for j in range(count):
            far = gm[place.offset + row * place.pitch + (first + j) * 16 :]
            near = local[j * rows * 16 :]
            if to_gm:
                copy_rows(far, near, valid, unit, unit, pitch)
            else:
                copy_rows(near, far, valid, unit, pitch, unit)

    def _move_exact(self, place: Place, cut: tuple[int, int, int, int], valid: int, local: Any, gm: Any,
                    to_gm: bool) -> None:  # fmt: skip
        """Rows that are not whole blocks: byte-exact copies, one per 16 columns."""
        first, count, row, rows = cut
        for j in range(count):
            columns = min(16, place.n - (first + j) * 16)
            far = gm[place.offset + row * place.pitch + (first + j) * 16 :]
            near = local[j * rows * 16 :]
            gap = (place.pitch - columns) * self.item
            wide = (16 - columns) * self.item // BLOCK
            if to_gm:
                asc.data_copy_pad(far, near, asc.DataCopyParams(valid, columns * self.item, wide, gap))
            else:
                asc.data_copy_pad(near, far, asc.DataCopyParams(valid, columns * self.item, gap, wide))


class VectorTiles:
    """The UB side: takes pieces from a source, runs the program, writes them out. Used on the cube's own core
    (``fetch`` copies from L0C on the vector or fix pipe) and on vector cores (``fetch`` reads the workspace)."""

    def __init__(
        self, plan: ExitPlan, out: Any, extras: Sequence[Any], base: int, outlet: type[Outlet] = Outlet
    ) -> None:
        self.plan = plan
        self.outlet = outlet(plan, out, extras)
        self.store = Ring(E.MTE3_V, E.V_MTE3, 0, plan.sets)
        self.load = Ring(E.V_MTE2, E.MTE2_V, 0, plan.sets)
        self.sets: list[list[Any]] = []
        for s in range(plan.sets):
            at = base + s * plan.set_bytes
            if plan.program is None or plan.allocation is None:
                self.sets.append([asc.LocalTensor(plan.out, P.VECCALC, at, plan.piece)])
            else:
                self.sets.append(registers(plan.program, plan.allocation, at, plan.piece))
        self.calls: dict[tuple[int, int], list[Any]] = {}

    def open(self) -> None:
        self.store.open()
        if self.plan.extras:
            self.load.open()

    def close(self) -> None:
        self.store.close()
        if self.plan.extras:
            self.load.close()

    def run(self, s: int, count: int) -> Any:
        """Run the program on ``count`` elements of set ``s``; the tensor that holds the result."""
        plan, regs = self.plan, self.sets[s]
        if plan.program is None:
            return regs[0]
        calls = self.calls.get((s, count))
        if calls is None:
            calls = self.calls[(s, count)] = compile_steps(plan.program, regs, count, ())
        for function, args, kwargs in calls:
            function(*args, **kwargs)
        return regs[plan.program.outputs[0]]

    def source(self, s: int) -> Any:
        """Where the piece from L0C goes."""
        program = self.plan.program
        return self.sets[s][0 if program is None else program.inputs[0]]

    def fetch_extras(self, s: int, place: Place, cut: tuple[int, int, int, int]) -> None:
        program = self.plan.program
        assert program is not None
        for reg, gm in zip(program.inputs[1:], self.outlet.extras, strict=True):
            self.outlet.move(place, cut, self.sets[s][reg], gm, False)

    def finish(self, s: int, place: Place, cut: tuple[int, int, int, int]) -> None:
        """After ``run``: write the piece."""
        self.store.hand(s)
        program = self.plan.program
        result = self.sets[s][0 if program is None else program.outputs[0]]
        self.outlet.move(place, cut, result, self.outlet.out, True)
        self.store.give(s)


class CoupledExit:
    """Exit through UB of the same core, by the vector pipe (or the fixpipe of chips that have one)."""

    def __init__(
        self, plan: ExitPlan, out: Any, extras: Sequence[Any], slots: int, slot_elements: int, bias: Any, columns: int,
        outlet: type[Outlet] = Outlet,
    ) -> None:  # fmt: skip
        """``bias``: GlobalTensor at the first of the ``columns`` columns this core computes, or None."""
        self.plan = plan
        self.by_fix = plan.bias != "l0c" and asc.current_soc().chip.has_fixpipe
        self.ring = Ring(E.FIX_M, E.M_FIX, 0, slots) if self.by_fix else Ring(E.V_M, E.M_V, 0, slots)
        self.acc = [asc.LocalTensor(plan.acc, P.CO1, s * slot_elements * 4, slot_elements) for s in range(slots)]
        self.tiles = VectorTiles(plan, out, extras, plan.bias_ub_bytes, outlet)
        self.source, self.columns = bias, columns
        self.bias: Any = None
        self.panel: Any = None

    def open(self, places: Sequence[Place]) -> None:
        """``places``: the first tiles, as many as there are accumulators (needed for the bias only)."""
        self.tiles.open()
        if self.plan.bias != "l0c":
            self.ring.open()
            return
        self.bias = _bias_in_ub(self.plan, self.source, self.columns)
        at = self.plan.bias_ub_bytes - BIAS_PANEL
        self.panel = asc.LocalTensor(self.plan.acc, P.VECCALC, at, BIAS_PANEL // 4)
        for s, place in enumerate(places):
            self._start(s, place)

    def _start(self, s: int, place: Place) -> None:
        """Fill accumulator ``s`` with the bias row."""
        m1, vector = place.mp // 16, asc.DataCopyEnhancedParams(asc.BlockMode.BLOCK_MODE_VECTOR)
        row, acc = self.bias[place.column :], self.acc[s]
        if m1 <= 2 * place.n1 or self.plan.acc == "int32":  # all column blocks, one row of fractals after the other
            for i in range(m1):
                asc.data_copy(acc[i * 256 :], row, asc.DataCopyParams(place.n1, 1, 0, m1 - 1), vector)
        else:  # every row of fractals at once, from 16 columns repeated in UB
            for j in range(place.n1):
                asc.muls(self.panel, row[j * 16 :], 1.0, 16, m1, asc.UnaryRepeatParams(1, 1, 2, 0))
                asc.data_copy(acc[j * m1 * 256 :], self.panel, asc.DataCopyParams(1, m1, 0, 0), vector)
        self.ring.give(s)

    def begin(self) -> tuple[int, Any, bool]:
        """Accumulator of the next tile: (slot, tensor, whether the cube must start it from zero)."""
        s = self.ring.take()
        return s, self.acc[s], self.bias is None

    def end(self, s: int, place: Place, following: Place | None) -> None:
        """Tile ``place`` is complete in slot ``s``; ``following`` is the next tile to use the slot, if any."""
        plan, tiles = self.plan, self.tiles
        self.ring.hand(s)
        cuts = list(pieces(place, plan.piece))
        for i, cut in enumerate(cuts):
            if plan.extras:
                t = tiles.load.take()
                tiles.fetch_extras(t, place, cut)
                tiles.load.hand(t)
            t = tiles.store.take()
            self._copy(tiles.source(t), s, place, cut)
            if i + 1 == len(cuts):
                if self.bias is None:
                    self.ring.give(s)
                elif following is not None:
                    self._start(s, following)
            tiles.run(t, cut[1] * cut[3] * 16)
            if plan.extras:
                tiles.load.give(t)
            tiles.finish(t, place, cut)

    def _copy(self, dst: Any, s: int, place: Place, cut: tuple[int, int, int, int]) -> None:
        first, count, row, rows = cut
        src = self.acc[s][(first * place.mp + row) * 16 :]
        plan = self.plan
        if self.by_fix:
            params = asc.FixpipeParamsV220(
                count * 16, rows, place.mp, rows * 16 * item_bytes(plan.middle) // BLOCK,
                QUANT[plan.acc, plan.middle], plan.word, relu_en=plan.relu,
            )  # fmt: skip
            asc.set_flag(E.V_FIX, 0)  # the vector pipe has waited for the store of what lay there
            asc.wait_flag(E.V_FIX, 0)
            asc.fixpipe(dst, src, params, asc.FixpipeConfig.cfg_nz())
            asc.set_flag(E.FIX_V, 0)
            asc.wait_flag(E.FIX_V, 0)
            return
        asc.data_copy(
            dst, src, asc.DataCopyParams(count, rows // 16, (place.mp - rows) // 16, 0),
            asc.DataCopyEnhancedParams(asc.BlockMode.BLOCK_MODE_MATRIX, *plan.half_scale, is_relu_in=plan.relu),
        )  # fmt: skip

    def close(self) -> None:
        self.tiles.close()
        if self.bias is None:
            self.ring.close()


def _bias_in_ub(plan: ExitPlan, bias: Any, columns: int) -> Any:
    """Bring a core's bias row to UB in the accumulator type."""
    wide = asc.LocalTensor(plan.acc, P.VECCALC, 0, plan.bias_columns)
    raw = wide
    if plan.bias_dtype != plan.acc:
        raw = asc.LocalTensor(plan.bias_dtype, P.VECCALC, plan.bias_columns * item_bytes(plan.acc), plan.bias_columns)
    asc.data_copy(raw, bias, align(columns, BLOCK // item_bytes(plan.bias_dtype)))
    asc.set_flag(E.MTE2_V, 0)
    asc.wait_flag(E.MTE2_V, 0)
    if raw is not wide:
        asc.cast(wide, raw, asc.RoundMode.CAST_NONE, count=align(columns, 16))
    if columns % 16:  # lanes behind the bias go to pad channels: what lies behind it in memory may be anything
        first = columns // 8 * 8
        lanes = (1 << (align(columns, 16) - first)) - (1 << (columns - first))
        asc.duplicate(wide[first:], 0, [lanes, 0], 1, 1, 8)
    return wide


class FixpipeExit:
    """Exit straight to global memory: to the output, or to a workspace that the vector cores empty (``mix``)."""

    def __init__(self, plan: ExitPlan, out: Any, slots: int, slot_elements: int) -> None:
        self.plan, self.out = plan, out
        self.ring = Ring(E.FIX_M, E.M_FIX, 0, slots)
        self.acc = [asc.LocalTensor(plan.acc, P.CO1, s * slot_elements * 4, slot_elements) for s in range(slots)]
        self.quant = QUANT[plan.acc, plan.middle]
        self.config = asc.FixpipeConfig.cfg_row_major() if plan.rows and plan.kind == "fixpipe" else (
            asc.FixpipeConfig.cfg_nz()
        )  # fmt: skip

    def open(self, places: Sequence[Place]) -> None:
        self.ring.open()

    def begin(self) -> tuple[int, Any, bool]:
        s = self.ring.take()
        return s, self.acc[s], True

    def end(self, s: int, place: Place, following: Place | None) -> None:
        self.ring.hand(s)
        plan = self.plan
        pitch = place.pitch if plan.rows else place.pitch * item_bytes(plan.out) // BLOCK // (2 if plan.split else 1)
        n = place.n if plan.rows or plan.split else place.n1 * 16
        params = asc.FixpipeParamsV220(
            n, place.m, place.mp, pitch, self.quant, plan.word, relu_en=plan.relu, is_channel_split=plan.split
        )
        for k in range(place.images):
            to, at = self.out[place.offset + k * place.image_pitch :], self.acc[s][k * place.rows * 16 :]
            asc.fixpipe(to, at, params, self.config)
        self.ring.give(s)

    def close(self) -> None:
        self.ring.close()


__all__ = ["CoupledExit", "ExitPlan", "FixpipeExit", "Place", "VectorTiles", "plan_exit", "tensor"]
