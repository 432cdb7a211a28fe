"""Operators that only move data: concat, split, slice, pad, tile, broadcast, gather.

All but gather are lists of strided boxes moved by DMA (`_copy`). Blocked formats move as their storage axes, which
is right as long as channel blocks stay whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from ascend_sim import asc
from ascend_sim.ops.registry import NoKernel, kernel
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import axis_of, const_ints
from ascend_sim.ops.values.layout import pick
from ascend_sim.ops.values.movement import _concat_parts, _pad_plan, _slice_plan, _split_plan, _strided_plan

from ._copy import Box, copy_launch
from ._flat import global_tensor
from ._gather_short import short_gather, short_gather_plan
from ._map import Operand, plan_map
from ._program import Builder, Reg
from ._rows import Rows, rows_of
from ._sync import Mover, walk
from ._vector import BLOCK, align, ceil_div, deal, item_bytes, vector_cores

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

PLAIN = ("ND", "NCHW", "NHWC", "NCDHW", "NDHWC")


def strides(shape: Sequence[int]) -> list[int]:
    """Element strides of a contiguous tensor."""
    return [prod(shape[i + 1 :]) for i in range(len(shape))]


def need(spec: TensorSpec | None) -> TensorSpec:
    if spec is None:
        raise NoKernel("no input")
    return spec


def storage_axis(spec: TensorSpec, axis: int) -> int:
    """Storage axis of a logical axis. Raises `NoKernel` for formats without a matching one."""
    if spec.format in PLAIN:
        return axis_of(axis, len(spec.shape))
    if spec.format == "NC1HWC0":
        return axis_of(axis, 4)
    raise NoKernel(f"movement along an axis of {spec.format}")


def _whole_blocks(spec: TensorSpec, logical: int, last: bool) -> None:
    """Joining along C of NC1HWC0 is a matter of whole blocks only when C fills them (the last part may not)."""
    if spec.format == "NC1HWC0" and logical == 1 and not last and spec.logical_shape[1] % spec.shape[-1]:
        raise NoKernel(f"{spec.logical_shape[1]} channels do not fill blocks of {spec.shape[-1]}")


Axes = tuple[tuple[int, int, int], ...]


def _joins(parts: Sequence[TensorSpec], whole: TensorSpec, axis: int) -> list[tuple[int, Axes]]:
    """(first element in the whole, axes as (size, stride in the part, stride in the whole)) of every part."""
    outer = strides(whole.shape)
    at, found = 0, []
    for part in parts:
        inner = strides(part.shape)
        axes = tuple(zip(part.shape, inner, outer, strict=True))
        found.append((at * outer[axis], axes))
        at += part.shape[axis]
    return found


@kernel("ConcatD", "ConcatV2D", "Concat", "ConcatV2")
def plan_concat(call: OpCall, soc: Soc) -> list[asc.Launch]:
    place = {"Concat": "first", "ConcatV2": "last"}.get(call.type, "attr")
    items, dim = _concat_parts(call.inputs, dict(call.attrs), place)
    numbers = [i for i, s in enumerate(call.inputs) if any(s is t for t in items)]
    parts, y = [need(s) for s in items], call.outputs[0]
    axis = storage_axis(y, dim)
    logical = axis_of(dim, len(y.logical_shape))
    if any(p.format != y.format and p.format not in PLAIN for p in parts):
        raise NoKernel("parts in different formats")
    for i, p in enumerate(parts):
        _whole_blocks(p, logical, i + 1 == len(parts))
    n = len(parts)
    boxes = [Box(i, n, 0, at, axes) for i, (at, axes) in enumerate(_joins(parts, y, axis))]
    return [copy_launch(boxes, [(("in", numbers[i]), p) for i, p in enumerate(parts)], [(("out", 0), y)], soc)]


@kernel("Pack")
def plan_pack(call: OpCall, soc: Soc) -> list[asc.Launch]:
    y = call.outputs[0]
    axis = axis_of(int(call.attr("axis", 0)), len(y.shape))
    parts = []
    for s in call.inputs:
        p = need(s)
        parts.append(TensorSpec((*p.shape[:axis], 1, *p.shape[axis:]), p.dtype))
    boxes = [Box(i, len(parts), 0, at, axes) for i, (at, axes) in enumerate(_joins(parts, y, axis))]
    return [copy_launch(boxes, [(("in", i), p) for i, p in enumerate(parts)], [(("out", 0), y)], soc)]


def _split_boxes(x: TensorSpec, parts: Sequence[TensorSpec], axis: int) -> list[Box]:
    return [
        Box(0, 1 + i, at, 0, tuple((n, big, small) for n, small, big in axes))
        for i, (at, axes) in enumerate(_joins(parts, x, axis))
        if parts[i].size
    ]


@kernel("SplitD", "SplitVD", "Split", "SplitV")
def plan_split(call: OpCall, soc: Soc) -> list[asc.Launch]:
    places = {"Split": (1, -1, 0), "SplitV": (0, 1, 2)}.get(call.type, (0, -1, -1))
    x = need(call.inputs[places[0]])
    _, dim, _ = _split_plan(call.inputs, dict(call.attrs), *places)
    for i, p in enumerate(call.outputs):
        _whole_blocks(p, dim, i + 1 == len(call.outputs))
    boxes = _split_boxes(x, call.outputs, storage_axis(x, dim))
    outs = [(("out", i), s) for i, s in enumerate(call.outputs)]
    return [copy_launch(boxes, [(("in", places[0]), x)], outs, soc)]


@kernel("Unpack")
def plan_unpack(call: OpCall, soc: Soc) -> list[asc.Launch]:
    x = need(call.inputs[0])
    axis = axis_of(int(call.attr("axis", 0)), len(x.shape))
    parts = [TensorSpec((*s.shape[:axis], 1, *s.shape[axis:]), s.dtype) for s in call.outputs]
    outs = [(("out", i), s) for i, s in enumerate(parts)]
    return [copy_launch(_split_boxes(x, parts, axis), [(("in", 0), x)], outs, soc)]


@kernel("Slice", "SliceD", "StridedSlice", "StridedSliceD", "StridedSliceV2")
def plan_slice(call: OpCall, soc: Soc) -> list[asc.Launch]:
    x, y = need(call.inputs[0]), call.outputs[0]
    plan = _slice_plan if call.type.startswith("Slice") else _strided_plan
    slices = plan(call.inputs, dict(call.attrs))
    shape = x.shape
    if x.format == "NC1HWC0":
        c0 = x.shape[-1]
        first, last, step = slices[1].indices(x.logical_shape[1])
        if step != 1 or first % c0 or (last % c0 and last != x.logical_shape[1]):
            raise NoKernel("slice inside channel blocks")
        slices = (slices[0], slice(first // c0, ceil_div(last, c0)), *slices[2:], slice(None))
    elif x.format not in PLAIN:
        raise NoKernel(f"slice of {x.format}")
    at, axes = 0, []
    for size, item, a, b in zip(shape, slices, strides(shape), strides(y.shape), strict=True):
        span = range(*item.indices(size))
        at += (span.start if span else 0) * a
        axes.append((len(span), a * span.step, b))
    return [copy_launch([Box(0, 1, at, 0, tuple(axes))], [(("in", 0), x)], [(("out", 0), y)], soc)]


@kernel("Tile", "TileD")
def plan_tile(call: OpCall, soc: Soc) -> list[asc.Launch]:
    x, y = need(call.inputs[0]), call.outputs[0]
    if x.format not in PLAIN:
        raise NoKernel(f"tile of {x.format}")
    times = pick(call.inputs, 1, dict(call.attrs), "multiples")
    shape = (1,) * (len(times) - len(x.shape)) + x.shape
    axes: list[tuple[int, int, int]] = []
    for n, size, a, b in zip(times, shape, strides(shape), strides(y.shape), strict=True):
        axes += [(n, 0, size * b), (size, a, b)]
    return [copy_launch([Box(0, 1, 0, 0, tuple(axes))], [(("in", 0), x)], [(("out", 0), y)], soc)]


@kernel("BroadcastTo", "BroadcastToD", "Expand", "ExpandD")
def plan_broadcast_to(call: OpCall, soc: Soc) -> list[asc.Launch]:
    """By DMA when the last axis is kept, else through the vector unit (16- and 32-bit types)."""
    x, y = need(call.inputs[0]), call.outputs[0]
    if x.format not in PLAIN:
        raise NoKernel(f"broadcast of {x.format}")
    shape = (1,) * (len(y.shape) - len(x.shape)) + x.shape
    if x.size == 1 or (shape[-1] == 1 and y.shape[-1] > 1):
        if item_bytes(x.dtype) not in (2, 4):
            raise NoKernel(f"broadcast of {x.dtype} along the last axis")
        seen = OpCall(call.type, (TensorSpec(shape, x.dtype, x.format),), call.outputs, ())

        def make(b: Builder, operands: Sequence[Operand]) -> list[Reg]:
            return [b.copy(operands[0].as_type(b, x.dtype))]

        return plan_map(seen, soc, make)
    own = [0 if n == 1 else s for n, s in zip(shape, strides(shape), strict=True)]
    axes = tuple(zip(y.shape, own, strides(y.shape), strict=True))
    return [copy_launch([Box(0, 1, 0, 0, axes)], [(("in", 0), x)], [(("out", 0), y)], soc)]


@kernel("PadV3", "PadV3D", "PadV2", "Pad", "PadD")
def plan_pad(call: OpCall, soc: Soc) -> list[asc.Launch]:
    """Constant padding: the border is stored from a filled buffer, slab by slab; the input is moved between."""
    x, y = need(call.inputs[0]), call.outputs[0]
    if str(call.attr("mode", "constant")).lower() != "constant":
        raise NoKernel("padding other than constant")
    fill = call.attr("constant_values", call.attr("constant_value", 0))
    given = call.inputs[2] if len(call.inputs) > 2 else None
    if given is not None:
        from ._map import constant

        value = constant(given)
        if value is None:
            raise NoKernel("padding value known at run time only")
        fill = value
    pads = _pad_plan(call.inputs, dict(call.attrs))
    if any(p < 0 for pair in pads for p in pair):
        raise NoKernel("negative padding")
    if x.format == "NC1HWC0":
        if any(pads[1]):
            raise NoKernel("padding of channels in blocks")
        pads = [*pads, (0, 0)]
    elif x.format not in PLAIN:
        raise NoKernel(f"padding of {x.format}")
    out = strides(y.shape)
    inner = tuple(zip(x.shape, strides(x.shape), out, strict=True))
    boxes = [Box(0, 1, 0, sum(b * s for (b, _), s in zip(pads, out, strict=True)), inner)]
    for axis, (before, after) in enumerate(pads):
        for n, at in ((before, 0), (after, y.shape[axis] - after)):
            if not n:
                continue
            first = at * out[axis] + sum(pads[k][0] * out[k] for k in range(axis))
            sizes = [*x.shape[:axis], n, *y.shape[axis + 1 :]]
            boxes.append(Box(-1, 1, 0, first, tuple((size, s, s) for size, s in zip(sizes, out, strict=True))))
    return [copy_launch(boxes, [(("in", 0), x)], [(("out", 0), y)], soc, fill=float(fill))]


# ---- gather


@dataclass(frozen=True)
class GatherPlan:
    """``outer`` slices of ``rows`` source rows of ``length``; ``indices`` indices; tiles of ``tile`` indices. Long
    rows go in pieces of ``io.length``, the last of which steps back to end with the row."""

    outer: int
    rows: int
    length: int
    indices: int
    tile: int
    io: Rows
    units: int
    buffers: int
    slot_bytes: int
    dtype: str

    @property
    def groups(self) -> int:
        return ceil_div(self.indices, self.tile)

    @property
    def pieces(self) -> int:
        return ceil_div(self.length, self.io.length)

    def count(self, block: int) -> int:
        return min(self.units, self.outer * self.groups * self.pieces - block * self.units)

    def signature(self, block: int) -> object:
        first = block * self.units // self.pieces
        return self.count(block), first % self.groups if self.indices % self.tile else 0


@asc.jit
def gather_kernel(x: asc.GlobalAddress, index: asc.GlobalAddress, y: asc.GlobalAddress, plan: GatherPlan) -> None:
    """Rows of x picked by index: the scalar unit reads each index, one DMA brings its row."""
    source, which, target = global_tensor(x), global_tensor(index), global_tensor(y)
    elements = plan.slot_bytes // source.dtype.size
    slots = [
        asc.LocalTensor(plan.dtype, asc.TPosition.VECCALC, s * plan.slot_bytes, elements) for s in range(plan.buffers)
    ]
    mover = Mover(plan.buffers)
    first = asc.get_block_idx() * plan.units
    length = plan.length
    for u in walk(plan.count(asc.get_block_idx()), lambda u: ((first + u) // plan.pieces + 1) % plan.groups == 0):
        unit, piece = divmod(first + u, plan.pieces)
        outer, group = divmod(unit, plan.groups)
        begin = min(piece * plan.io.length, length - plan.io.length)
        slot = u % plan.buffers
        at = group * plan.tile
        n = min(plan.tile, plan.indices - at)
        mover.load(slot)
        for i in asc.steady(n):
            row = int(which.get_value(at + i))
            row = min(max(row + (plan.rows if row < 0 else 0), 0), plan.rows - 1)
            place = (outer * plan.rows + row) * length + begin
            plan.io.load(slots[slot][i * plan.io.pitch :], source[place:], 1)
        mover.store(slot)
        plan.io.store(target[(outer * plan.indices + at) * length + begin :], slots[slot], n, length)
        mover.done(slot)
    mover.drain()


@kernel("GatherV2", "Gather", "GatherV2D")
def plan_gather(call: OpCall, soc: Soc) -> list[asc.Launch]:
    x, index, y = need(call.inputs[0]), need(call.inputs[1]), call.outputs[0]
    if x.format not in PLAIN or index.dtype not in ("int32", "int64"):
        raise NoKernel(f"gather of {x.format} by {index.dtype}")
    given = call.inputs[2] if len(call.inputs) > 2 else None
    axis = const_ints(given, "axis")[0] if given is not None else int(call.attr("axis", 0))
    axis = axis_of(axis, len(x.shape))
    if int(call.attr("batch_dims", 0)) or (call.type == "Gather" and axis):
        raise NoKernel("gather with batch dimensions")
    item = item_bytes(x.dtype)
    words = 2 if item == 8 else 1
    item = min(item, 4)
    outer, rows, length = prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :]) * words
    indices = index.size
    slot = soc.buffers.ub_bytes // 2 // BLOCK * BLOCK
    _, cores = vector_cores(soc)
    pieces = ceil_div(length, slot // item - 2 * BLOCK)
    if pieces > 1:  # as many as keep all cores at work
        pieces = ceil_div(max(outer * indices * pieces, cores), outer * indices)
    io = rows_of(soc, align(ceil_div(length, pieces), BLOCK) if pieces > 1 else length, [item])
    dtype = {1: "uint8", 2: "uint16", 4: "uint32"}[item]
    if io.mode == "scalar" and outer * indices * length > 4096:
        short = short_gather_plan((outer, rows, length, indices), item, (dtype, index.dtype), soc)
        if short is None:
            raise NoKernel(f"rows of {length} elements are shorter than a block")
        return [_gather_launch(short_gather, short[0], short[1], (x, index, y), dtype, soc)]
    most = slot // (io.pitch * item)
    tile = max(min(most, ceil_div(indices * outer, cores), indices), 1)
    units, blocks = deal(outer * ceil_div(indices, tile) * ceil_div(length, io.length), cores)
    plan = GatherPlan(outer, rows, length, indices, tile, io, units, 2 if units > 1 else 1, slot, dtype)
    return [_gather_launch(gather_kernel, plan, blocks, (x, index, y), dtype, soc)]


def _gather_launch(
    function: Any, plan: Any, blocks: int, specs: tuple[TensorSpec, TensorSpec, TensorSpec], dtype: str, soc: Soc
) -> asc.Launch:
    x, index, y = specs
    return asc.Launch(
        function,
        block_dim=blocks,
        kind=vector_cores(soc)[0],
        args=(("in", 0), ("in", 1), ("out", 0)),
        gm=[("x", dtype, x.nbytes, "in"), ("indices", index.dtype, index.nbytes, "in"),
            ("y", dtype, y.nbytes, "out")],
        consts={"plan": plan},
        soc=soc,
        signature=getattr(plan, "signature", plan.count),
    )  # fmt: skip
