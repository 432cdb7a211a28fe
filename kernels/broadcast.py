"""Elementwise operators whose inputs do not all have the shape of the output.

The output is seen as ``outer x rows x length`` after axes with the same broadcast pattern were fused. A tile is some
whole rows (or a piece of one long row). Inputs that vary with the row and along it are loaded tile by tile; the
others are expanded to the size of a tile in UB: once per outer index when they do not vary with the row
(row vectors, per-channel blocks of NC1HWC0), per tile when each row has one value. Axes are fused and dealt to the
cores as in the stock broadcast schedule (TBE repository, Apache-2.0, restated): the first axis whose product
reaches the core count is cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

from ascend_sim import asc
from ascend_sim.ops.schema import TensorSpec

from ._flat import compile_steps, global_tensor, registers, vector_copy
from ._program import Allocation, Program, allocate
from ._rows import Rows, rows_of
from ._sync import STEADY, Pipeline, walk
from ._vector import BLOCK, align, ceil_div, deal, item_bytes, memory_dtype, phased, vector_cores

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

_SMALL_PIECE = 512  # elements of a row below which it is not cut to occupy more cores


@dataclass(frozen=True)
class Operand:
    """One input in the fused view: element strides of the outer axes, of a row (0: same for all rows) and along a
    row (0 or 1)."""

    outer: tuple[int, ...]
    row: int
    column: int
    total: int


@dataclass(frozen=True)
class Fused:
    """The fused view of a broadcast: sizes of the outer axes, rows, row length, operands."""

    outer: tuple[int, ...]
    rows: int
    length: int
    operands: tuple[Operand, ...]


def fuse(shape: Sequence[int], inputs: Sequence[Sequence[int]]) -> Fused:
    """Fuse neighbouring axes on which the same inputs are broadcast. Input shapes align at the right."""
    rank = len(shape)
    padded = [(1,) * (rank - len(s)) + tuple(s) for s in inputs]
    axes: list[tuple[int, tuple[bool, ...]]] = []
    for k, size in enumerate(shape):
        if size == 1:
            continue
        varies = tuple(s[k] != 1 for s in padded)
        if axes and axes[-1][1] == varies:
            axes[-1] = (axes[-1][0] * size, varies)
        else:
            axes.append((size, varies))
    if not axes:
        axes = [(1, (True,) * len(inputs))]
    if len(axes) == 1:
        axes.insert(0, (1, axes[0][1]))
    strides: list[list[int]] = []
    for i in range(len(inputs)):
        stride, own = 1, []
        for size, varies in reversed(axes):
            own.append(stride if varies[i] else 0)
            stride *= size if varies[i] else 1
        strides.append(own[::-1])
    operands = tuple(
        Operand(tuple(s[:-2]), s[-2], s[-1], prod(inputs[i])) for i, s in enumerate(strides)
    )
    return Fused(tuple(a[0] for a in axes[:-2]), axes[-2][0], axes[-1][0], operands)


@dataclass(frozen=True)
class BroadcastPlan:
    """Units of work are (outer index, group of ``row_block`` rows, piece of ``column_block`` elements); each core
    takes ``units`` of them; a tile is ``tile_rows`` rows of ``io.pitch`` elements. Kernel arguments are the
    operands in order, then the outputs, then the scalar inputs."""

    fused: Fused
    program: Program
    allocation: Allocation
    io: Rows
    last_io: Rows
    row_block: int
    column_block: int
    tile_rows: int
    buffers: int
    units: int

    @property
    def row_groups(self) -> int:
        return ceil_div(self.fused.rows, self.row_block)

    @property
    def column_groups(self) -> int:
        return ceil_div(self.fused.length, self.column_block)

    @property
    def total_units(self) -> int:
        return prod(self.fused.outer) * self.row_groups * self.column_groups

    def offset(self, operand: Operand, outer: int) -> int:
        """First element of an operand at a flat outer index."""
        at = 0
        for size, stride in zip(reversed(self.fused.outer), reversed(operand.outer), strict=True):
            outer, digit = divmod(outer, size)
            at += digit * stride
        return at

    def steady(self) -> list[tuple[int, Operand, bool]]:
        """Operands expanded once per unit, with whether once per core is enough."""
        return [
            (i, o, not any(o.outer) and (o.column == 0 or self.column_groups == 1))
            for i, o in enumerate(self.fused.operands)
            if o.row == 0
        ]

    def moving(self) -> list[tuple[int, Operand]]:
        """Operands loaded tile by tile."""
        return [(i, o) for i, o in enumerate(self.fused.operands) if o.row]

    def shape(self, unit: int) -> tuple[int, bool]:
        """(rows, whether it is the last piece of its rows) of a unit."""
        group, piece = divmod(unit % (self.row_groups * self.column_groups), self.column_groups)
        return min(self.row_block, self.fused.rows - group * self.row_block), piece + 1 == self.column_groups

    def starts(self, block: int) -> list[int]:
        """First element of a block in the output and in every operand loaded tile by tile."""
        outer, rest = divmod(block * self.units, self.row_groups * self.column_groups)
        group, piece = divmod(rest, self.column_groups)
        row, column = group * self.row_block, piece * self.column_block
        moving = [self.offset(o, outer) + row * o.row + column * o.column for _, o in self.moving()]
        return [(outer * self.fused.rows + row) * self.fused.length + column, *moving]

    def signature(self, block: int) -> object:
        """Blocks with equal signatures issue the same instructions."""
        first = block * self.units
        count = min(self.units, self.total_units - first)
        if self.fused.rows % self.row_block == 0 and self.column_groups == 1:
            return count
        inner = self.row_groups * self.column_groups
        return count, first % inner if count < inner or self.units % inner else 0


@asc.jit
def broadcast_kernel(*gm: asc.GlobalAddress, plan: BroadcastPlan) -> None:
    """Run the program over this core's units."""
    first = asc.get_block_idx() * plan.units
    count = min(plan.units, plan.total_units - first)
    tensors = [global_tensor(a) for a in gm]
    inputs, outputs = len(plan.fused.operands), len(plan.program.outputs)
    scalars = [t.get_value(0) for t in tensors[inputs + outputs :]]
    tile = align(plan.tile_rows * plan.io.pitch, 256)
    bits = [b for s, b in enumerate(plan.allocation.bits) if s not in plan.allocation.steady]
    set_bytes = sum(align(tile * b // 8, BLOCK) for b in bits)
    base = set_bytes * plan.buffers
    sets = [registers(plan.program, plan.allocation, k * set_bytes, tile, base) for k in range(plan.buffers)]
    steady, moving = plan.steady(), plan.moving()
    renewed = any(not once for _, _, once in steady)
    whole = plan.tile_rows * plan.io.pitch
    full = [compile_steps(plan.program, regs, whole, scalars) for regs in sets]
    pipe = Pipeline(plan.buffers)
    tiles_per_unit = ceil_div(plan.row_block, plan.tile_rows)
    if renewed:
        asc.set_flag(asc.HardEvent.V_MTE2, STEADY)
    for u in walk(count, lambda u: plan.shape(first + u)):
        outer, rest = divmod(first + u, plan.row_groups * plan.column_groups)
        group, piece = divmod(rest, plan.column_groups)
        row0, column0 = group * plan.row_block, piece * plan.column_block
        rows = min(plan.row_block, plan.fused.rows - row0)
        io = plan.io if piece + 1 < plan.column_groups else plan.last_io
        if renewed:
            asc.wait_flag(asc.HardEvent.V_MTE2, STEADY)
        _expand(plan, tensors, sets[0], io, [s for s in steady if u == 0 or not s[2]], outer, column0)
        for i in asc.steady(ceil_div(rows, plan.tile_rows)):
            slot = (u * tiles_per_unit + i) % plan.buffers
            regs = sets[slot]
            row = row0 + i * plan.tile_rows
            n = min(plan.tile_rows, row0 + rows - row)
            pipe.load(slot)
            columns = []
            for k, o in moving:
                at = plan.offset(o, outer) + row * o.row + column0 * o.column
                if o.column:
                    io.load(regs[plan.program.inputs[k]], tensors[k][at:], n, o.row)
                else:
                    columns.append((regs[plan.program.inputs[k]], tensors[k][at:], o.row))
            pipe.compute(slot)
            for reg, values, step in columns:
                for r in asc.steady(n):
                    _fill(reg[r * io.pitch :], values.get_value(r * step), io.pitch)
            elements = n * io.pitch
            calls = full[slot] if elements == whole else compile_steps(plan.program, regs, elements, scalars)
            for function, args, kwargs in calls:
                function(*args, **kwargs)
            pipe.store(slot)
            at = (outer * plan.fused.rows + row) * plan.fused.length + column0
            for k, number in enumerate(plan.program.outputs):
                io.store(tensors[inputs + k][at:], regs[number], n, plan.fused.length)
            pipe.done(slot)
        if renewed:
            asc.set_flag(asc.HardEvent.V_MTE2, STEADY)
    pipe.drain()
    if renewed:
        asc.wait_flag(asc.HardEvent.V_MTE2, STEADY)


def _expand(
    plan: BroadcastPlan, tensors: Sequence[asc.GlobalTensor], regs: Sequence[asc.LocalTensor], io: Rows,
    steady: Sequence[tuple[int, Operand, bool]], outer: int, column0: int,
) -> None:  # fmt: skip
    """Fill the steady registers with ``tile_rows`` copies of a row, or with one value."""
    rows = [(regs[plan.program.inputs[k]], tensors[k][plan.offset(o, outer) + column0 :])
            for k, o, _ in steady if o.column]  # fmt: skip
    for reg, source in rows:
        io.load(reg, source, 1)
    if rows:
        asc.set_flag(asc.HardEvent.MTE2_V, STEADY)
        asc.wait_flag(asc.HardEvent.MTE2_V, STEADY)
    for reg, _ in rows:
        done = 1
        while done < plan.tile_rows:
            n = min(done, plan.tile_rows - done)
            vector_copy(reg[done * io.pitch :], reg, n * io.pitch)
            done += n
    for k, o, _ in steady:
        if not o.column:
            value = tensors[k][plan.offset(o, outer) :].get_value(0)
            _fill(regs[plan.program.inputs[k]], value, plan.tile_rows * io.pitch)


def _fill(reg: asc.LocalTensor, value: Any, count: int) -> None:
    """One value in every element. Bytes go in pairs: no chip fills single ones."""
    if str(reg.dtype) in ("int8", "uint8"):
        byte = int(value) & 0xFF
        asc.duplicate(reg.reinterpret_cast("uint16"), byte << 8 | byte, count=ceil_div(count, 2))
    else:
        asc.duplicate(reg, value, count=count)


def broadcast_launch(
    program: Program,
    fused: Fused,
    specs: Sequence[tuple[str, TensorSpec, str]],
    args: Sequence[tuple[str, int]],
    soc: Soc,
    live_floor: float = 0,
) -> asc.Launch:
    """Launch of `broadcast_kernel`. ``specs`` and ``args`` describe the kernel arguments: operands, outputs, scalar
    inputs. The program's inputs are the operands; those with ``row`` 0 must be steady ones."""
    allocation = allocate(program)
    items = [item_bytes(program.dtypes[r]) for r in (*program.inputs, *program.outputs)]
    kind, cores = vector_cores(soc)
    io = rows_of(soc, fused.length, items)
    outer = prod(fused.outer)
    live, kept = max(allocation.live_bytes(), live_floor), allocation.steady_bytes()
    groups, pieces = _split(outer, fused, cores, io, min(items))
    row_block = ceil_div(fused.rows, groups)
    column_block = min(align(ceil_div(fused.length, pieces), io.unit), io.pitch)
    buffers = 2 if ceil_div(outer * groups * pieces, cores) > 1 else 1
    if _capacity(soc, live, kept, 1, io.unit) < row_block * column_block:
        buffers = 2
    room = _capacity(soc, live, kept, buffers, io.unit)
    if room < column_block:
        column_block = align(ceil_div(fused.length, ceil_div(fused.length, room)), io.unit)
    if column_block < fused.length:
        main = rows_of(soc, column_block, items)
        last = rows_of(soc, fused.length - (ceil_div(fused.length, column_block) - 1) * column_block, items)
        tile_rows = 1
    else:
        column_block, main, last = fused.length, io, io
        tile_rows = min(max(room // io.pitch, 1), row_block)
        tile_rows = ceil_div(row_block, ceil_div(row_block, tile_rows))
    plan = BroadcastPlan(fused, program, allocation, main, last, row_block, column_block, tile_rows, buffers, 1)
    units, blocks = deal(plan.total_units, cores)
    plan = replace(plan, units=units)
    moved = 1 + len(plan.moving())
    return asc.Launch(
        broadcast_kernel,
        block_dim=blocks,
        kind=kind,
        args=tuple(args),
        gm=[(name, memory_dtype(spec.dtype), spec.nbytes, role) for name, spec, role in specs],
        consts={"plan": plan},
        soc=soc,
        signature=phased(plan.signature, *(lambda b, s=s: plan.starts(b)[s] * min(items) for s in range(moved))),
        code="broadcast",
    )


def _capacity(soc: Soc, live: float, kept: float, buffers: int, unit: int) -> int:
    """Elements of a tile that fit UB (registers are rounded up to 256 elements)."""
    return max((int(soc.buffers.ub_bytes // (live * buffers + kept)) - 256) // unit * unit, unit)


def _split(outer: int, fused: Fused, cores: int, io: Rows, item: int) -> tuple[int, int]:
    """Groups of rows and pieces of a row, so that the cores have work."""
    total = outer * fused.rows * fused.length
    if outer >= cores or total <= 2 * cores * (BLOCK // min(item, BLOCK)):
        return 1, 1
    groups = min(fused.rows, ceil_div(cores, outer))
    pieces = 1
    if outer * fused.rows < cores and fused.length > _SMALL_PIECE:
        pieces = min(ceil_div(cores, outer * fused.rows), fused.length // _SMALL_PIECE)
    return groups, pieces
