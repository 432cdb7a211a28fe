"""Resize of NC1HWC0 images (float16), nearest and bilinear.

A pixel is one 32-byte block, so nearest neighbour is movement: a strip of input rows comes to UB, its columns are
repeated or picked by block copies, and each output row is stored from the row it maps to. Bilinear widens to float32,
blends two rows with scalar weights, picks the two neighbours of every output column by block copies and blends them
with weight vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ascend_sim import asc
from ascend_sim.ops.registry import NoKernel, kernel
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.values import resize as values

from ._flat import global_tensor, vector_copy
from ._layouts import around, plain_image
from ._sync import Pipeline, walk
from ._vector import BLOCK, ceil_div, deal, vector_cores

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

C0 = 16
_MOST_BURSTS = 4095


@dataclass(frozen=True)
class ResizePlan:
    """``planes`` planes of ``size`` to ``out``. Per output row and column: ``row``/``column`` the (lower) source,
    ``row_weight``/``column_weight`` the share of the next one (bilinear). Strips have ``rows`` output rows, at most
    ``rows_in`` input rows; ``factor`` > 0: columns repeat that many times."""

    planes: int
    size: tuple[int, int]
    out: tuple[int, int]
    row: tuple[int, ...]
    column: tuple[int, ...]
    row_weight: tuple[float, ...]
    column_weight: tuple[float, ...]
    rows: int
    rows_in: int
    factor: int
    units: int
    buffers: int

    @property
    def strips(self) -> int:
        return ceil_div(self.out[0], self.rows)

    def count(self, block: int) -> int:
        return min(self.units, self.planes * self.strips - block * self.units)

    def signature(self, block: int) -> object:
        return self.count(block), block * self.units % self.strips

    def shape(self, strip: int, reach: int) -> object:
        """What a strip issues: output rows, input rows, and where the output rows come from."""
        first = strip * self.rows
        rows = min(self.rows, self.out[0] - first)
        low, high = self.span(first, rows, reach)
        return rows, high - low, tuple(r - low for r in self.row[first : first + rows])

    def span(self, first: int, rows: int, reach: int) -> tuple[int, int]:
        """Input rows [low, high) that output rows [first, first + rows) need."""
        used = self.row[first : first + rows]
        return min(used), min(max(used) + reach, self.size[0] - 1) + 1


def _spread(
    dst: asc.LocalTensor, src: asc.LocalTensor, rows: int, plan: ResizePlan, column: Sequence[int], blocks: int
) -> None:
    """Pick columns: src [rows, W] -> dst [rows, Wo] pixels of ``blocks`` blocks."""
    width, out = plan.size[1], plan.out[1]
    item = C0 * blocks if dst.dtype.size == 2 else C0 // 2 * blocks  # elements of a pixel
    if plan.factor == 1:
        vector_copy(dst, src, rows * width * item)
        return
    if plan.factor:
        for first in range(0, rows * width, _MOST_BURSTS):
            n = min(_MOST_BURSTS, rows * width - first)
            for j in range(plan.factor):
                params = asc.DataCopyParams(n, blocks, 0, (plan.factor - 1) * blocks)
                asc.data_copy(dst[(first * plan.factor + j) * item :], src[first * item :], params)
        return
    for x, at in enumerate(column):
        params = asc.DataCopyParams(rows, blocks, (width - 1) * blocks, (out - 1) * blocks)
        asc.data_copy(dst[x * item :], src[at * item :], params)


@asc.jit
def nearest_kernel(src: asc.GlobalAddress, dst: asc.GlobalAddress, plan: ResizePlan) -> None:
    """Copy this core's strips."""
    source, target = global_tensor(src), global_tensor(dst)
    in_bytes, out_bytes = plan.rows_in * plan.size[1] * BLOCK, plan.rows_in * plan.out[1] * BLOCK
    sets = [
        (
            asc.LocalTensor("float16", asc.TPosition.VECCALC, s * (in_bytes + out_bytes), in_bytes // 2),
            asc.LocalTensor("float16", asc.TPosition.VECCALC, s * (in_bytes + out_bytes) + in_bytes, out_bytes // 2),
        )
        for s in range(plan.buffers)
    ]
    pipe = Pipeline(plan.buffers)
    first = asc.get_block_idx() * plan.units
    for u in walk(plan.count(asc.get_block_idx()), lambda u: plan.shape((first + u) % plan.strips, 0)):
        plane, strip = divmod(first + u, plan.strips)
        slot = u % plan.buffers
        row0 = strip * plan.rows
        rows = min(plan.rows, plan.out[0] - row0)
        low, high = plan.span(row0, rows, 0)
        taken, spread = sets[slot]
        pipe.load(slot)
        asc.data_copy(taken, source[(plane * plan.size[0] + low) * plan.size[1] * C0 :],
                      (high - low) * plan.size[1] * C0)  # fmt: skip
        pipe.compute(slot)
        _spread(spread, taken, high - low, plan, plan.column, 1)
        pipe.store(slot)
        _store_rows(plan, target[(plane * plan.out[0] + row0) * plan.out[1] * C0 :], spread, row0, rows, low)
        pipe.done(slot)
    pipe.drain()


def _store_rows(
    plan: ResizePlan, target: asc.GlobalTensor, spread: asc.LocalTensor, row0: int, rows: int, low: int
) -> None:
    """Output rows from the rows they map to, several at once where they map evenly."""
    wide = plan.out[1]
    used = [r - low for r in plan.row[row0 : row0 + rows]]
    times = used.count(used[0])
    if rows % times == 0 and used == [used[0] + i // times for i in range(rows)] and (times - 1) * wide <= 65535:
        for j in range(times):
            params = asc.DataCopyParams(rows // times, wide, 0, (times - 1) * wide)
            asc.data_copy(target[j * wide * C0 :], spread[used[0] * wide * C0 :], params)
        return
    for i in asc.steady(rows):
        asc.data_copy(target[i * wide * C0 :], spread[used[i] * wide * C0 :], wide * C0)


@asc.jit
def bilinear_kernel(src: asc.GlobalAddress, dst: asc.GlobalAddress, plan: ResizePlan) -> None:
    """Blend this core's strips."""
    source, target = global_tensor(src), global_tensor(dst)
    width, wide = plan.size[1], plan.out[1]
    sizes = (plan.rows_in * width * BLOCK, plan.rows * wide * BLOCK)
    at = 0
    sets: list[list[Any]] = []
    for _ in range(plan.buffers):
        pair = []
        for nbytes in sizes:
            pair.append(asc.LocalTensor("float16", asc.TPosition.VECCALC, at, nbytes // 2))
            at += nbytes
        sets.append(pair)

    def area(pixels: int) -> asc.LocalTensor:
        nonlocal at
        tensor = asc.LocalTensor("float32", asc.TPosition.VECCALC, at, pixels * C0)
        at += pixels * C0 * 4
        return tensor

    wide_in, blended, scratch = area(plan.rows_in * width), area(plan.rows * width), area(width)
    left, right, share = area(plan.rows * wide), area(plan.rows * wide), area(wide)
    for x, weight in enumerate(plan.column_weight):
        asc.duplicate(share[x * C0 :], weight, count=C0)
    pipe = Pipeline(plan.buffers)
    first = asc.get_block_idx() * plan.units
    following = [min(c + 1, width - 1) for c in plan.column]
    for u in walk(plan.count(asc.get_block_idx()), lambda u: plan.shape((first + u) % plan.strips, 1)):
        plane, strip = divmod(first + u, plan.strips)
        slot = u % plan.buffers
        row0 = strip * plan.rows
        rows = min(plan.rows, plan.out[0] - row0)
        low, high = plan.span(row0, rows, 1)
        taken, result = sets[slot]
        pipe.load(slot)
        asc.data_copy(taken, source[(plane * plan.size[0] + low) * width * C0 :], (high - low) * width * C0)
        pipe.compute(slot)
        asc.cast(wide_in, taken, asc.RoundMode.CAST_NONE, count=(high - low) * width * C0)
        for i in range(rows):
            upper, lower = plan.row[row0 + i] - low, min(plan.row[row0 + i] + 1, plan.size[0] - 1) - low
            weight, line = plan.row_weight[row0 + i], blended[i * width * C0 :]
            asc.muls(line, wide_in[upper * width * C0 :], 1.0 - weight, count=width * C0)
            asc.muls(scratch, wide_in[lower * width * C0 :], weight, count=width * C0)
            asc.add(line, line, scratch, count=width * C0)
        _spread(left, blended, rows, plan, plan.column, 2)
        _spread(right, blended, rows, plan, following, 2)
        asc.sub(right, right, left, count=rows * wide * C0)
        for i in asc.steady(rows):
            line = right[i * wide * C0 :]
            asc.mul(line, line, share, count=wide * C0)
        asc.add(left, left, right, count=rows * wide * C0)
        asc.cast(result, left, asc.RoundMode.CAST_NONE, count=rows * wide * C0)
        pipe.store(slot)
        asc.data_copy(target[(plane * plan.out[0] + row0) * wide * C0 :], result, rows * wide * C0)
        pipe.done(slot)
    pipe.drain()


def _axis(size: int, out: int, scale: float, how: values.Mapping) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """(source, weight of the next one) of every output position."""
    if size == out and scale == 1.0:
        return tuple(range(size)), (0.0,) * size
    if how.mode == "nearest":
        picked = values.resize_axis(np.arange(size), 0, out, scale, how, roi=(0.0, 1.0))
        return tuple(int(v) for v in picked), ()
    where = np.clip(values.positions(how, size, out, scale), 0, size - 1)
    base = np.floor(where).astype(np.int64)
    return tuple(int(v) for v in base), tuple(float(v) for v in where - base)


def resize_launch(
    x: TensorSpec, y: TensorSpec, scales: tuple[float, float], how: values.Mapping, soc: Soc
) -> asc.Launch:
    """Launch of a resize of H and W. Raises `NoKernel` outside float16 NC1HWC0 and for rows that do not fit UB."""
    if x.format != "NC1HWC0" or y.format != "NC1HWC0" or x.dtype != "float16" or y.dtype != "float16":
        raise NoKernel(f"resize of {x.dtype} in {x.format}")
    if how.coordinates == "tf_crop_and_resize" or how.mode not in ("nearest", "linear") or how.exclude_outside:
        raise NoKernel(f"resize mode {how.mode} {how.coordinates}")
    n, c1, h, w, _ = x.shape
    oh, ow = y.shape[2], y.shape[3]
    row, row_weight = _axis(h, oh, scales[0], how)
    column, column_weight = _axis(w, ow, scales[1], how)
    linear = how.mode == "linear"
    factor = ow // w if not linear and ow % w == 0 and column == tuple(i // (ow // w) for i in range(ow)) else 0
    kind, cores = vector_cores(soc)
    planes = n * c1

    def rows_in(rows: int) -> int:
        most = 0
        for first in range(0, oh, rows):
            used = row[first : first + rows]
            most = max(most, min(max(used) + (1 if linear else 0), h - 1) + 1 - min(used))
        return most

    def need(rows: int, buffers: int) -> int:
        inside = rows_in(rows)
        if not linear:
            return buffers * inside * (w + ow) * BLOCK
        pixels = inside * w + rows * w + w + 2 * rows * ow + ow
        return buffers * (inside * w + rows * ow) * BLOCK + pixels * C0 * 4

    pieces = min(ceil_div(cores, planes), oh)
    rows, buffers = ceil_div(oh, pieces), 2
    if not linear and row_repeats(row) > 1:
        rows = max(rows // row_repeats(row), 1) * row_repeats(row)
    while rows > 1 and need(rows, 2) > soc.buffers.ub_bytes:
        step = row_repeats(row) if not linear else 1
        rows = max((rows - max(rows // 8, 1)) // step * step, 1 if rows <= step else step)
    if need(rows, 2) > soc.buffers.ub_bytes:
        rows, buffers = 1, 1
        if need(1, 1) > soc.buffers.ub_bytes:
            raise NoKernel(f"a row of {ow} pixels does not fit the unified buffer")
    units, blocks = deal(planes * ceil_div(oh, rows), cores)
    plan = ResizePlan(
        planes, (h, w), (oh, ow), row, column, row_weight, column_weight, rows, rows_in(rows), factor, units,
        buffers if units > 1 else 1,
    )  # fmt: skip
    return asc.Launch(
        bilinear_kernel if linear else nearest_kernel,
        block_dim=blocks,
        kind=kind,
        args=(("in", 0), ("out", 0)),
        gm=[("x", x.dtype, x.nbytes, "in"), ("y", y.dtype, y.nbytes, "out")],
        consts={"plan": plan},
        soc=soc,
        signature=plan.signature,
    )


def row_repeats(row: tuple[int, ...]) -> int:
    """How often each source row is used when all are used alike in order, else 1."""
    times = row.count(row[0])
    return times if row == tuple(row[0] + i // times for i in range(len(row))) else 1


@kernel("ResizeNearestNeighborV2", "ResizeNearestNeighborV2D", "ResizeBilinearV2", "ResizeBilinearV2D")
def plan_image(call: OpCall, soc: Soc) -> list[asc.Launch]:
    if plain_image(call):
        return around(call, soc, {0: "NC1HWC0"}, "NC1HWC0", plan_image)
    x, y = call.inputs[0], call.outputs[0]
    if x is None:
        raise NoKernel("no input")
    mode = "nearest" if "Nearest" in call.type else "linear"
    if call.attr("align_corners", False):
        how = values.Mapping(mode, "align_corners", "round_prefer_ceil")
    elif call.attr("half_pixel_centers", False):
        how = values.Mapping(mode, "tf_half_pixel_for_nn" if mode == "nearest" else "half_pixel")
    else:
        how = values.Mapping(mode, "asymmetric")
    a, b = x.logical_shape, y.logical_shape
    return [resize_launch(x, y, (b[2] / a[2], b[3] / a[3]), how, soc)]


@kernel("Resize")
def plan_resize(call: OpCall, soc: Soc) -> list[asc.Launch]:
    if plain_image(call):
        return around(call, soc, {0: "NC1HWC0"}, "NC1HWC0", plan_resize)
    x, y = call.inputs[0], call.outputs[0]
    if x is None or len(x.logical_shape) != 4:
        raise NoKernel("Resize of other than images")
    out, scales, _ = values._resize_plan(call.inputs, dict(call.attrs))
    if out[:2] != x.logical_shape[:2]:
        raise NoKernel("Resize of batch or channels")
    how = values.Mapping(
        call.attr("mode", "nearest"),
        call.attr("coordinate_transformation_mode", "half_pixel"),
        call.attr("nearest_mode", "round_prefer_floor"),
        exclude_outside=bool(call.attr("exclude_outside", 0)),
    )
    return [resize_launch(x, y, (scales[2], scales[3]), how, soc)]
