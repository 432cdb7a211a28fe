"""SoftmaxV2 and LogSoftmaxV2 over one axis (or several neighbouring ones).

Along the last axis a tile is some whole rows; load, computation and store run in series, as the stock schedule does
(published 910B2 times show no double buffering). Over an inner axis a tile is all rows of some columns. The maximum
is taken in the input's type where that is exact, the rest runs in float32; where the chip has exp for half only,
exp runs in half.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from ascend_sim import asc
from ascend_sim.ops.registry import NoKernel, find_kernel, kernel
from ascend_sim.ops.schema import OpCall, TensorSpec, freeze_attrs
from ascend_sim.ops.shapes import axes_of, ints
from ascend_sim.ops.values.gradients import grad_axes

from ._flat import global_tensor
from ._layouts import rewire
from ._lines import Heap, Lines, line_launch, lines_of, reciprocal
from ._long_rows import exp_into, softmax_long_launch
from ._rows import Rows, rows_of
from ._softmax_rows import softmax_rows_launch
from ._sync import Pipeline, walk
from ._vector import BLOCK, REPEAT, align, ceil_div, deal, item_bytes, legal, phased, vector_cores

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

LONG = 4096  # elements of a row that may go in pieces
TURNED = ("workspace", 300), ("workspace", 301)  # the tensor with its axis last, before and after


@dataclass(frozen=True)
class SoftmaxPlan:
    """``rows`` rows (or, over an inner axis, ``rows`` slices of ``depth`` rows, of which a tile takes ``tile``
    columns); ``units`` tiles' worth of rows per core."""

    rows: int
    tile: int
    units: int
    lines: Lines
    half_lines: Lines | None
    in_dtype: str
    out_dtype: str
    log: bool
    exp_half: bool
    divides: bool

    def count(self, block: int) -> int:
        return min(self.units, self.rows - block * self.units)


def _log(values: asc.LocalTensor, half: asc.LocalTensor | None, count: int) -> None:
    if half is None:
        asc.ln(values, values, count=count)
        return
    asc.cast(half, values, asc.RoundMode.CAST_NONE, count=count)
    asc.ln(half, half, count=count)
    asc.cast(values, half, asc.RoundMode.CAST_NONE, count=count)


def _round(dtype: str) -> asc.RoundMode:
    return asc.RoundMode.CAST_RINT if dtype == "bfloat16" else asc.RoundMode.CAST_NONE


@asc.jit
def softmax_rows(src: asc.GlobalAddress, dst: asc.GlobalAddress, plan: SoftmaxPlan) -> None:
    """Softmax along rows of ``plan.lines``."""
    source, target = global_tensor(src), global_tensor(dst)
    io, lines = plan.lines.io, plan.lines
    area, rows_room = plan.tile * io.pitch, align(plan.tile, 16)
    heap = Heap()
    taken = heap.take(plan.in_dtype, area)
    wide = taken if plan.in_dtype == "float32" else heap.take("float32", area)
    power = heap.take("float32", area) if plan.log else wide
    result = wide if plan.out_dtype == "float32" else heap.take(plan.out_dtype, area)
    scratch = heap.take("float32", plan.tile * lines.width)
    values, ones = heap.take("float32", rows_room), heap.take("float32", rows_room)
    blocks = heap.take("float32", rows_room * 8) if lines.brcb else None
    half = heap.take("float16", area) if plan.exp_half else None
    half_values = heap.take("float16", rows_room) if plan.half_lines else None
    first = asc.get_block_idx() * plan.units
    count = plan.count(asc.get_block_idx())
    pipe = Pipeline(1)
    for t in asc.steady(ceil_div(count, plan.tile)):
        row = first + t * plan.tile
        n = min(plan.tile, count - t * plan.tile)
        size = n * io.pitch
        pipe.load(0)
        io.load(taken, source[row * io.length :], n)
        pipe.compute(0)
        if plan.half_lines is not None and half_values is not None:
            plan.half_lines.reduce("max", taken, n, scratch.reinterpret_cast("float16"), half_values)
            asc.cast(values, half_values, asc.RoundMode.CAST_NONE, count=n)
        if wide is not taken:
            asc.cast(wide, taken, asc.RoundMode.CAST_NONE, count=size)
        if plan.half_lines is None:
            lines.reduce("max", wide, n, scratch, values)
        lines.spread("sub", wide, wide, values, n, blocks)
        exp_into(power, wide, half, size)
        lines.reduce("sum", power, n, scratch, values)
        if plan.log:
            _log(values, half, n)
            lines.spread("sub", wide, wide, values, n, blocks)
        elif plan.divides and lines.brcb:
            lines.spread("div", wide, wide, values, n, blocks)
        else:
            reciprocal(values, values, ones if plan.divides else None, n)
            lines.spread("mul", wide, wide, values, n, blocks)
        if result is not wide:
            asc.cast(result, wide, _round(plan.out_dtype), count=size)
        pipe.store(0)
        io.store(target[row * io.length :], result, n)
        pipe.done(0)
    pipe.drain()


@dataclass(frozen=True)
class ColumnsPlan:
    """``outer`` slices of ``depth`` rows x ``inner`` columns; tiles of ``piece`` columns."""

    outer: int
    depth: int
    inner: int
    piece: int
    io: Rows
    last_io: Rows
    units: int
    in_dtype: str
    out_dtype: str
    log: bool
    exp_half: bool
    divides: bool

    @property
    def pieces(self) -> int:
        return ceil_div(self.inner, self.piece)

    def count(self, block: int) -> int:
        return min(self.units, self.outer * self.pieces - block * self.units)

    def signature(self, block: int) -> object:
        return self.count(block), block * self.units % self.pieces if self.io != self.last_io else 0

    def start(self, block: int) -> int:
        """First element of a block."""
        outer, piece = divmod(block * self.units, self.pieces)
        return outer * self.depth * self.inner + piece * self.piece


@asc.jit
def softmax_columns(src: asc.GlobalAddress, dst: asc.GlobalAddress, plan: ColumnsPlan) -> None:
    """Softmax over an inner axis: every row of a tile is one value per column."""
    source, target = global_tensor(src), global_tensor(dst)
    pitch = plan.io.pitch
    heap = Heap()
    taken = heap.take(plan.in_dtype, plan.depth * pitch)
    wide = taken if plan.in_dtype == "float32" else heap.take("float32", plan.depth * pitch)
    power = heap.take("float32", plan.depth * pitch) if plan.log else wide
    result = wide if plan.out_dtype == "float32" else heap.take(plan.out_dtype, plan.depth * pitch)
    values = heap.take("float32", pitch)
    half = heap.take("float16", plan.depth * pitch) if plan.exp_half else None
    first = asc.get_block_idx() * plan.units
    pipe = Pipeline(1)
    for u in walk(plan.count(asc.get_block_idx()), lambda u: (first + u + 1) % plan.pieces == 0):
        outer, piece = divmod(first + u, plan.pieces)
        io = plan.io if piece + 1 < plan.pieces else plan.last_io
        width = io.pitch
        size = plan.depth * width
        at = outer * plan.depth * plan.inner + piece * plan.piece
        pipe.load(0)
        io.load(taken, source[at:], plan.depth, plan.inner)
        pipe.compute(0)
        if wide is not taken:
            asc.cast(wide, taken, asc.RoundMode.CAST_NONE, count=size)
        _over(asc.max, values, wide, plan.depth, width)
        for r in asc.steady(plan.depth):
            asc.sub(wide[r * width :], wide[r * width :], values, count=width)
        exp_into(power, wide, half, size)
        _over(asc.add, values, power, plan.depth, width)
        if plan.log:
            _log(values, half, width)
        elif not plan.divides:
            reciprocal(values, values, None, width)
        for r in asc.steady(plan.depth):
            line = wide[r * width :]
            if plan.log:
                asc.sub(line, line, values, count=width)
            elif plan.divides:
                asc.div(line, line, values, count=width)
            else:
                asc.mul(line, line, values, count=width)
        if result is not wide:
            asc.cast(result, wide, _round(plan.out_dtype), count=size)
        pipe.store(0)
        io.store(target[at:], result, plan.depth, plan.inner)
        pipe.done(0)
    pipe.drain()


def _over(combine: Any, values: asc.LocalTensor, data: asc.LocalTensor, depth: int, width: int) -> None:
    """values = all rows of ``data`` combined (asc.max or asc.add)."""
    asc.adds(values, data, 0.0, count=width)
    for r in asc.steady(depth - 1):
        combine(values, values, data[(r + 1) * width :], count=width)


@kernel("SoftmaxV2", "Softmax", "LogSoftmaxV2")
def plan_softmax(call: OpCall, soc: Soc) -> list[asc.Launch]:
    """Raises `NoKernel` for blocked formats, scattered axes, and rows that do not fit UB."""
    x, y = call.inputs[0], call.outputs[0]
    if x is None or x.format not in ("ND", "NCHW", "NHWC") or x.size == 0:
        raise NoKernel("softmax of a blocked format")
    axes = axes_of(ints(call.attr("axes", call.attr("axis", [-1])), "axes"), len(x.shape))
    if not axes or list(axes) != list(range(min(axes), max(axes) + 1)):
        raise NoKernel(f"softmax over axes {axes}")
    outer, depth = prod(x.shape[: min(axes)]), prod(x.shape[min(axes) : max(axes) + 1])
    inner = prod(x.shape[max(axes) + 1 :])
    log = call.type.startswith("Log")
    if inner == 1:
        return [_along_rows(x, y, outer, depth, log, soc)]
    try:
        return [_columns_launch(x, y, (outer, depth, inner), log, soc)]
    except NoKernel:
        return _turned(x, y, (outer, depth, inner), log, soc)


def _along_rows(x: TensorSpec, y: TensorSpec, rows: int, length: int, log: bool, soc: Soc) -> asc.Launch:
    kind = "log" if log else "softmax"
    if _spreads(soc):
        try:
            return softmax_rows_launch(kind, [x], y, rows, length, soc)
        except NoKernel:
            pass  # longer rows fit the layout without spread values
    try:
        return _rows_launch(x, y, rows, length, log, soc)
    except NoKernel:
        if length < LONG:
            raise
        return softmax_long_launch(kind, x, y, rows, length, soc)


def _turned(x: TensorSpec, y: TensorSpec, sizes: tuple[int, int, int], log: bool, soc: Soc) -> list[asc.Launch]:
    """Columns that do not fit: the axis becomes the last one, and goes back."""
    outer, depth, inner = sizes
    turn = find_kernel("TransposeD")
    assert turn is not None
    there, back = (TensorSpec((outer, inner, depth), s.dtype) for s in (x, y))
    attrs = freeze_attrs({"perm": (0, 2, 1)})
    before = turn(OpCall("TransposeD", (TensorSpec(sizes, x.dtype),), (there,), attrs), soc)
    after = turn(OpCall("TransposeD", (back,), (TensorSpec(sizes, y.dtype),), attrs), soc)
    along = _along_rows(there, back, outer * inner, depth, log, soc)
    return [
        *(rewire(step, {("out", 0): TURNED[0]}) for step in before),
        rewire(along, {("in", 0): TURNED[0], ("out", 0): TURNED[1]}),
        *(rewire(step, {("in", 0): TURNED[1]}) for step in after),
    ]


def _spreads(soc: Soc) -> bool:
    """Whether the chip has what `_softmax_rows` issues."""
    return all(legal(soc, i, "float32") for i in ("vbrcb", "vcmax", "vcadd", "vexp", "vln", "vdiv"))


@kernel("SoftmaxGrad", "LogSoftmaxGrad")
def plan_softmax_grad(call: OpCall, soc: Soc) -> list[asc.Launch]:
    """Along the last axes."""
    a, b, y = call.inputs[0], call.inputs[1], call.outputs[0]
    if a is None or b is None or a.format not in ("ND", "NCHW", "NHWC") or a.size == 0:
        raise NoKernel("softmax gradient of a blocked format")
    if not _spreads(soc):
        raise NoKernel("softmax gradient on this chip")
    axes = grad_axes(call, len(a.shape))
    if sorted(axes) != list(range(min(axes), len(a.shape))):
        raise NoKernel(f"softmax gradient over axes {axes}")
    length = prod(a.shape[min(axes) :])
    kind = "log_grad" if call.type.startswith("Log") else "softmax_grad"
    return [softmax_rows_launch(kind, [a, b], y, a.size // length, length, soc)]


def _rows_launch(x: TensorSpec, y: TensorSpec, rows: int, length: int, log: bool, soc: Soc) -> asc.Launch:
    item, out_item = item_bytes(x.dtype), item_bytes(y.dtype)
    io = rows_of(soc, length, [item, out_item])
    if io.mode == "scalar" and rows * length > 4096:
        raise NoKernel(f"rows of {length} elements are shorter than a block")
    lines = lines_of(soc, io, "float32")
    half_lines = None
    if "max" not in lines.whole and x.dtype == "float16":
        half_lines = lines_of(soc, io, "float16")
    exp_half = not legal(soc, "vexp", "float32")
    per_row = io.pitch * (item + (4 if item == 2 else 0) + (4 if log else 0) + (out_item if out_item == 2 else 0))
    per_row += REPEAT + 8 + (32 if lines.brcb else 0) + (2 * io.pitch if exp_half else 0) + 2
    room = soc.buffers.ub_bytes - 16 * BLOCK - 16 * (8 + 32 + 2)
    if per_row > room:
        raise NoKernel(f"a row of {length} elements does not fit the unified buffer")
    cores = vector_cores(soc)[1]
    units, blocks = deal(rows, cores)
    tile = min(room // per_row, units)
    tile = ceil_div(units, ceil_div(units, tile))
    plan = SoftmaxPlan(
        rows, tile, units, lines, half_lines, x.dtype, y.dtype, log, exp_half, legal(soc, "vdiv", "float32")
    )
    signature = phased(plan.count, lambda b: b * units * length * item, lambda b: b * units * length * out_item)
    return line_launch(softmax_rows, x, y, plan, signature, blocks, soc, serial=True)


def _columns_launch(x: TensorSpec, y: TensorSpec, sizes: tuple[int, int, int], log: bool, soc: Soc) -> asc.Launch:
    outer, depth, inner = sizes
    item, out_item = item_bytes(x.dtype), item_bytes(y.dtype)
    exp_half = not legal(soc, "vexp", "float32")
    per_column = depth * (item + (4 if item == 2 else 0) + (4 if log else 0) + (out_item if out_item == 2 else 0))
    per_column += 8 + (2 * depth if exp_half else 0)
    unit = BLOCK // min(item, out_item)
    most = (soc.buffers.ub_bytes - 16 * BLOCK) // per_column // unit * unit
    if most < unit:
        raise NoKernel(f"{depth} rows of a block do not fit the unified buffer")
    cores = vector_cores(soc)[1]
    pieces = max(ceil_div(inner, most), min(ceil_div(cores, outer), ceil_div(inner, unit)))
    piece = align(ceil_div(inner, pieces), unit)
    piece = min(piece, inner)
    io = rows_of(soc, piece, [item, out_item])
    last = rows_of(soc, inner - (ceil_div(inner, piece) - 1) * piece, [item, out_item])
    for part in (io, last):
        if part.mode == "scalar" and outer * depth * part.length > 4096:
            raise NoKernel(f"rows of {part.length} elements are shorter than a block")
    units, blocks = deal(outer * ceil_div(inner, piece), cores)
    plan = ColumnsPlan(
        outer, depth, inner, piece, io, last, units, x.dtype, y.dtype, log, exp_half, legal(soc, "vdiv", "float32")
    )
    signature = phased(plan.signature, lambda b: plan.start(b) * item, lambda b: plan.start(b) * out_item)
    return line_launch(softmax_columns, x, y, plan, signature, blocks, soc, serial=True)
