"""Pooling in NC1HWC0: MaxPoolV3, AvgPoolV2 and the global poolings.

Windows are taken axis by axis: rows first (whole rows of blocks), then columns by block strides. One tile is some
output rows of one plane. The columns of a tile are laid out so that one instruction runs through all its rows: the
output pitch is a multiple of eight blocks and the input pitch is the column stride times that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ascend_sim import asc
from ascend_sim.ops.registry import NoKernel, kernel
from ascend_sim.ops.schema import OpCall
from ascend_sim.ops.values.pooling import pool_window

from ._depthwise import DepthProblem
from ._flat import global_tensor
from ._layouts import around, plain_image
from ._spatial import spatial_launch
from ._sync import Pipeline, walk
from ._vector import BLOCK, MAX_REPEATS, REPEAT, align, ceil_div, deal, vector_cores
from .depthwise import average_launch

if TYPE_CHECKING:
    from ascend_sim.ops.values._window import Window
    from ascend_sim.soc import Soc

C0 = 16
_LOWEST = -65504.0


@dataclass(frozen=True)
class PoolPlan:
    """Geometry (heights then widths) and tile. ``pitch_in``/``pitch_out`` are blocks per row in UB; tiles have
    ``rows`` output rows; ``shares`` are 1/(number of counted elements) per output row and column, or None."""

    planes: int
    size: tuple[int, int]
    out: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    before: tuple[int, int]
    average: bool
    pitch_in: int
    pitch_out: int
    rows: int
    units: int
    buffers: int
    row_share: tuple[float, ...] = ()
    column_share: tuple[float, ...] = ()

    @property
    def strips(self) -> int:
        """Tiles per plane."""
        return ceil_div(self.out[0], self.rows)

    def rows_in(self, rows: int) -> int:
        return (rows - 1) * self.stride[0] + self.dilation[0] * (self.kernel[0] - 1) + 1

    def shape(self, strip: int) -> tuple[int, int, int]:
        """(output rows, padding rows above, input rows) of a strip."""
        row0 = strip * self.rows
        rows = min(self.rows, self.out[0] - row0)
        top = row0 * self.stride[0] - self.before[0]
        low, high = max(top, 0), min(top + self.rows_in(rows), self.size[0])
        return rows, low - top, high - low

    def count(self, block: int) -> int:
        return min(self.units, self.planes * self.strips - block * self.units)

    def signature(self, block: int) -> object:
        first = block * self.units
        return self.count(block), first % self.strips


@asc.jit
def pool_kernel(src: asc.GlobalAddress, dst: asc.GlobalAddress, plan: PoolPlan) -> None:
    """Pool this core's strips."""
    source, target = global_tensor(src), global_tensor(dst)
    item = 4 if plan.average else 2
    tile_in = plan.rows_in(plan.rows) * plan.pitch_in
    slack = 8 * plan.stride[1] + plan.dilation[1] * (plan.kernel[1] - 1)  # blocks read behind the last row
    tile_out = plan.rows * plan.pitch_out
    at = 0
    ins, outs = [], []
    for _ in range(plan.buffers):
        ins.append(asc.LocalTensor("float16", asc.TPosition.VECCALC, at, (tile_in + slack) * C0))
        at += (tile_in + slack) * BLOCK
        outs.append(asc.LocalTensor("float16", asc.TPosition.VECCALC, at, tile_out * C0))
        at += tile_out * BLOCK
    dtype = "float32" if plan.average else "float16"
    wide = ins
    if plan.average:
        wide = [asc.LocalTensor(dtype, asc.TPosition.VECCALC, at, (tile_in + slack) * C0)] * plan.buffers
        at += (tile_in + slack) * C0 * item
    column = asc.LocalTensor(dtype, asc.TPosition.VECCALC, at, (plan.rows * plan.pitch_in + slack) * C0)
    at += (plan.rows * plan.pitch_in + slack) * C0 * item
    result, shares = outs[0], None
    if plan.average:
        result = asc.LocalTensor(dtype, asc.TPosition.VECCALC, at, tile_out * C0)
        at += tile_out * C0 * item
    if plan.column_share:
        shares = asc.LocalTensor(dtype, asc.TPosition.VECCALC, at, plan.pitch_out * C0)
    fill = 0.0 if plan.average else _LOWEST
    for t in ins:
        asc.duplicate(t, fill, count=(tile_in + slack) * C0)
    if plan.kernel[0] > 1:
        asc.duplicate(column[plan.rows * plan.pitch_in * C0 :], fill, count=slack * C0)
    if shares is not None:
        _fill_shares(plan, shares)
    pipe = Pipeline(plan.buffers)
    first = asc.get_block_idx() * plan.units
    for u in walk(plan.count(asc.get_block_idx()), lambda u: plan.shape((first + u) % plan.strips)):
        plane, strip = divmod(first + u, plan.strips)
        slot = u % plan.buffers
        row0 = strip * plan.rows
        rows = min(plan.rows, plan.out[0] - row0)
        top = row0 * plan.stride[0] - plan.before[0]
        low, high = max(top, 0), min(top + plan.rows_in(rows), plan.size[0])
        pipe.load(slot)
        at = ((plane * plan.size[0] + low) * plan.size[1]) * C0
        inside = ((low - top) * plan.pitch_in + plan.before[1]) * C0
        params = asc.DataCopyParams(high - low, plan.size[1], 0, plan.pitch_in - plan.size[1])
        asc.data_copy(ins[slot][inside:], source[at:], params)
        pipe.compute(slot)
        for begin, end in ((0, low - top), (high - top, plan.rows_in(rows))):
            if end > begin:  # rows of padding: an earlier tile left data here
                asc.duplicate(ins[slot][begin * plan.pitch_in * C0 :], fill, count=(end - begin) * plan.pitch_in * C0)
        if plan.average:
            n = plan.rows_in(rows) * plan.pitch_in + slack
            asc.cast(wide[slot], ins[slot], asc.RoundMode.CAST_NONE, count=min(n, tile_in + slack) * C0)
            _rows_pass(plan, wide[slot], column, rows)
            _columns_pass(plan, column if plan.kernel[0] > 1 else wide[slot], result, rows)
            _divide(plan, result, shares, row0, rows)
            asc.cast(outs[slot], result, asc.RoundMode.CAST_NONE, count=rows * plan.pitch_out * C0)
        else:
            _rows_pass(plan, wide[slot], column, rows)
            _columns_pass(plan, column if plan.kernel[0] > 1 else wide[slot], outs[slot], rows)
        pipe.store(slot)
        at = (plane * plan.out[0] + row0) * plan.out[1] * C0
        params = asc.DataCopyParams(rows, plan.out[1], plan.pitch_out - plan.out[1], 0)
        asc.data_copy(target[at:], outs[slot], params)
        pipe.done(slot)
    pipe.drain()


def _rows_pass(plan: PoolPlan, data: asc.LocalTensor, column: asc.LocalTensor, rows: int) -> None:
    """Combine the kernel's rows: data [rows_in, pitch_in] -> column [rows, pitch_in]."""
    taps = plan.kernel[0]
    if taps == 1:
        if plan.stride[0] > 1:
            raise NoKernel("one-row windows with a row stride")
        return
    combine = asc.add if plan.average else asc.max
    width = plan.pitch_in * C0
    step = plan.dilation[0] * width
    together = rows if plan.stride[0] == 1 else 1
    for tap in range(1, taps):
        for r in asc.steady(rows // together):
            line = column[r * width :]
            begin = r * plan.stride[0] * width
            other = data[begin:] if tap == 1 else line
            combine(line, other, data[begin + tap * step :], count=together * width)


def _columns_pass(plan: PoolPlan, column: asc.LocalTensor, result: asc.LocalTensor, rows: int) -> None:
    """Combine the kernel's columns: column [rows, pitch_in] -> result [rows, pitch_out]."""
    taps, stride = plan.kernel[1], plan.stride[1]
    combine = asc.add if plan.average else asc.max
    parts = 2 if plan.average else 1  # 32-byte blocks of a pixel
    lanes = REPEAT // (4 if plan.average else 2)
    half = C0 // parts
    repeats = rows * plan.pitch_out // 8
    for tap in range(min(1, taps - 1), taps):
        for part in range(parts):
            for first in range(0, repeats, MAX_REPEATS):
                n = min(MAX_REPEATS, repeats - first)
                dst = result[first * 8 * C0 + part * half :]
                begin = first * 8 * stride * C0 + part * half
                near = column[begin:]
                far = column[begin + tap * plan.dilation[1] * C0 :]
                if taps == 1:  # one column: a strided copy (max(x, x) or x + 0)
                    _strided(plan, dst, near, lanes, n, parts, stride)
                elif tap == 1:
                    params = asc.BinaryRepeatParams(
                        parts, parts * stride, parts * stride, 8 * parts, 8 * parts * stride, 8 * parts * stride
                    )
                    combine(dst, near, far, lanes, n, params)
                else:
                    params = asc.BinaryRepeatParams(
                        parts, parts, parts * stride, 8 * parts, 8 * parts, 8 * parts * stride
                    )
                    combine(dst, dst, far, lanes, n, params)


def _strided(
    plan: PoolPlan, dst: asc.LocalTensor, src: asc.LocalTensor, lanes: int, repeats: int, parts: int, stride: int
) -> None:
    if plan.average:
        params = asc.UnaryRepeatParams(parts, parts * stride, 8 * parts, 8 * parts * stride)
        asc.adds(dst, src, 0.0, lanes, repeats, params)
    else:
        pair = asc.BinaryRepeatParams(1, stride, stride, 8, 8 * stride, 8 * stride)
        asc.max(dst, src, src, lanes, repeats, pair)


def _fill_shares(plan: PoolPlan, shares: asc.LocalTensor) -> None:
    """1 / counted columns, per output column."""
    usual = max(set(plan.column_share), key=plan.column_share.count)
    asc.duplicate(shares, usual, count=plan.pitch_out * C0)
    for i, share in enumerate(plan.column_share):
        if share != usual:
            asc.duplicate(shares[i * C0 :], share, count=C0)


def _divide(
    plan: PoolPlan, result: asc.LocalTensor, shares: asc.LocalTensor | None, row0: int, rows: int
) -> None:
    """Sums to means."""
    width = plan.pitch_out * C0
    if shares is None:
        asc.muls(result, result, plan.row_share[0], count=rows * width)
        return
    for r in range(rows):
        line = result[r * width :]
        asc.mul(line, line, shares, count=width)
        if plan.row_share[row0 + r] != 1.0:
            asc.muls(line, line, plan.row_share[row0 + r], count=width)


def shares_of(
    sizes: tuple[int, int], out: tuple[int, int], window: Window, call: OpCall
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """(per output row, per column) reciprocals of how many elements a mean counts; no columns when all count alike."""
    divisor = int(call.attr("divisor_override", 0))
    if divisor:
        return (1.0 / divisor,), ()
    exclusive = bool(call.attr("exclusive", True))
    counts = []
    for axis in (0, 1):
        before, after = window.pads[2 * axis], window.pads[2 * axis + 1]
        size = sizes[axis]
        edge = (0, size) if exclusive else (before, size + after)
        starts = [o * window.strides[axis] - before for o in range(out[axis])]
        steps = [t * window.dilations[axis] for t in range(window.kernel[axis])]
        counts.append([max(sum(-edge[0] <= s + t < edge[1] for t in steps), 1) for s in starts])
    if len(set(counts[0])) == 1 and len(set(counts[1])) == 1:
        return (1.0 / (counts[0][0] * counts[1][0]),), ()
    return tuple(1.0 / c for c in counts[0]), tuple(1.0 / c for c in counts[1])


@kernel("MaxPoolV3", "MaxPool", "AvgPoolV2", "AvgPool")
def plan_pool(call: OpCall, soc: Soc) -> list[asc.Launch]:
    x, y = call.inputs[0], call.outputs[0]
    average = call.type.startswith("Avg")
    if plain_image(call, "NCHW" if call.type.endswith(("V2", "V3")) else "NHWC"):
        return around(call, soc, {0: "NC1HWC0"}, "NC1HWC0", plan_pool)
    if x is None or x.format != "NC1HWC0" or x.dtype != "float16" or x.shape[-1] != C0:
        raise NoKernel(f"{call.type} outside float16 NC1HWC0")
    n, c1, h, w, _ = x.shape
    window, _ = pool_window(call.attr, (h, w), "NCHW")
    oh, ow = y.shape[2], y.shape[3]
    pads = window.pads
    if window.kernel == (h, w) and (oh, ow) == (1, 1) and not any(pads):
        return [spatial_launch(x, y, "sum" if average else "max", average, soc)]
    (kh, kw), (sh, sw), (dh, dw) = window.kernel, window.strides, window.dilations
    if average and (sh, sw, dh, dw) == (1, 1, 1, 1) and kh * kw > 1 and not soc.chip.split_cores:
        launch = _by_the_cube(call, soc, window)
        if launch is not None:
            return [launch]
    if kh == 1 and sh > 1:
        raise NoKernel("one-row windows with a row stride")
    if 16 * sw > 255:
        raise NoKernel(f"column stride {sw}")
    span = max((ow - 1) * sw + dw * (kw - 1) + 1, pads[2] + w)
    pitch_out = align(ow, 8)
    while pitch_out * sw < span:
        pitch_out += 8
    kind, cores = vector_cores(soc)
    planes = n * c1
    base = PoolPlan(
        planes, (h, w), (oh, ow), (kh, kw), (sh, sw), (dh, dw), (pads[0], pads[2]), average, pitch_out * sw, pitch_out,
        1, 1, 1,
    )  # fmt: skip
    rows, buffers = _tile_rows(base, soc.buffers.ub_bytes)
    pieces = max(ceil_div(oh, rows), min(ceil_div(cores, planes), oh))
    rows = ceil_div(oh, pieces)
    units, blocks = deal(planes * ceil_div(oh, rows), cores)
    row_share, column_share = shares_of((h, w), (oh, ow), window, call) if average else ((), ())
    plan = PoolPlan(
        planes, base.size, base.out, base.kernel, base.stride, base.dilation, base.before, average, base.pitch_in,
        base.pitch_out, rows, units, buffers if units > 1 else 1, row_share, column_share,
    )  # fmt: skip
    return [
        asc.Launch(
            pool_kernel,
            block_dim=blocks,
            kind=kind,
            args=(("in", 0), ("out", 0)),
            gm=[("x", x.dtype, x.nbytes, "in"), ("y", y.dtype, y.nbytes, "out")],
            consts={"plan": plan},
            soc=soc,
            signature=plan.signature,
        )
    ]


def _by_the_cube(call: OpCall, soc: Soc, window: Window) -> asc.Launch | None:
    """Means over windows that all count alike, as products with equal weights; None for others."""
    x, y = call.inputs[0], call.outputs[0]
    assert x is not None
    n, c1, h, w, _ = x.shape
    rows, columns = shares_of((h, w), (y.shape[2], y.shape[3]), window, call)
    kh, kw = window.kernel
    if columns or rows != (1.0 / (kh * kw),):
        return None
    top, bottom, left, right = window.pads
    problem = DepthProblem(
        n, c1, h, w, y.shape[2], y.shape[3], kh, kw, 1, 1, (left, right, top, bottom), soc.chip.has_fixpipe
    )
    return average_launch(x, y, soc, problem)


def _tile_rows(plan: PoolPlan, ub_bytes: int) -> tuple[int, int]:
    """Output rows of a tile and number of buffer sets that fit UB. Raises `NoKernel` when one row does not fit."""
    wide = 4 if plan.average else 0
    slack = 8 * plan.stride[1] + plan.dilation[1] * (plan.kernel[1] - 1)

    def need(rows: int, buffers: int) -> int:
        data = plan.rows_in(rows) * plan.pitch_in + slack
        out = rows * plan.pitch_out
        column = rows * plan.pitch_in + slack
        total = buffers * (data + out) * BLOCK + data * C0 * wide + column * C0 * (wide or 2)
        return total + (out + plan.pitch_out) * C0 * wide

    for buffers in (2, 1):
        rows = plan.out[0]
        while rows > 1 and need(rows, buffers) > ub_bytes:
            rows -= max(rows // 8, 1)
        if need(rows, buffers) <= ub_bytes:
            return rows, buffers
    raise NoKernel(f"a row of {plan.size[1]} pixels does not fit the unified buffer")


@kernel("GlobalAveragePool", "GlobalMaxPool")
def plan_global_pool(call: OpCall, soc: Soc) -> list[asc.Launch]:
    x, y = call.inputs[0], call.outputs[0]
    if x is None:
        raise NoKernel("no input")
    if plain_image(call):
        return around(call, soc, {0: "NC1HWC0"}, "NC1HWC0", plan_global_pool)
    average = call.type == "GlobalAveragePool"
    return [spatial_launch(x, y, "sum" if average else "max", average, soc)]
