"""Operators that copy data about: joining, splitting, slicing, padding, repeating."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascend_sim.ops.registry import Array, Infer, Values
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import (
    ShapeError,
    axis_of,
    broadcast,
    const_ints,
    ints,
    like,
    need,
    optional,
    same_dtype,
    text,
)
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values.layout import pick

# ---- joining


def _concat_parts(inputs: Specs, attrs: dict[str, Any], place: str) -> tuple[list[Any], int]:
    """The tensors to join, and the axis: attribute ``concat_dim`` (place "attr"), first or last input."""
    items = list(inputs)
    if place == "attr" or "concat_dim" in attrs:
        dim = int(attrs.get("concat_dim", 0))
    elif place == "first":
        dim = const_ints(items.pop(0), "concat_dim")[0]
    else:
        dim = const_ints(items.pop(), "concat_dim")[0]
    return items, dim


def _infer_concat(place: str) -> Infer:
    def infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
        need(inputs, 0, "x0")
        items, dim = _concat_parts(inputs, attrs, place)
        specs = [need(items, i, f"x{i}") for i in range(len(items))]
        names = [f"x{i}" for i in range(len(specs))]
        first = specs[0].logical_shape
        axis = axis_of(dim, len(first), "concat_dim")
        for name, spec in zip(names, specs, strict=True):
            shape = spec.logical_shape
            if (*shape[:axis], *shape[axis + 1 :]) != (*first[:axis], *first[axis + 1 :]) or len(shape) != len(first):
                raise ShapeError(
                    f"{name} is {text(spec)} but x0 is {text(specs[0])}; expected equal shapes but at axis {axis}"
                )
        total = sum(s.logical_shape[axis] for s in specs)
        dtype = same_dtype(specs, names)
        return [like(specs[0], (*first[:axis], total, *first[axis + 1 :]), dtype)]

    return infer


def _concat(place: str) -> Values:
    def values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
        _, dim = _concat_parts(call.inputs, dict(call.attrs), place)
        given = "concat_dim" in dict(call.attrs) or place == "attr"
        parts = list(arrays) if given else list(arrays[1:] if place == "first" else arrays[:-1])
        return [np.concatenate([p for p in parts if p is not None], axis=dim)]

    return values


for _name in ("ConcatD", "ConcatV2D"):
    define(_name, "movement", "x*", _infer_concat("attr"), _concat("attr"))
define("Concat", "movement", "concat_dim x*", _infer_concat("first"), _concat("first"))
define("ConcatV2", "movement", "x*", _infer_concat("last"), _concat("last"))


def _infer_pack(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    first = need(inputs, 0, "x0")
    names = [f"x{i}" for i in range(len(inputs))]
    same_dtype(inputs, names)
    for name, spec in zip(names, inputs, strict=True):
        if spec is None or spec.logical_shape != first.logical_shape:
            raise ShapeError(f"{name} is {text(spec)} but x0 is {text(first)}; expected the same shape")
    shape = first.logical_shape
    axis = axis_of(int(attrs.get("axis", 0)), len(shape) + 1)
    return [TensorSpec((*shape[:axis], len(inputs), *shape[axis:]), first.dtype)]


def _pack(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    return [np.stack([a for a in arrays if a is not None], axis=int(call.attr("axis", 0)))]


define("Pack", "movement", "x*", _infer_pack, _pack)


# ---- splitting


def _split_plan(inputs: Specs, attrs: dict[str, Any], x_index: int, sizes_index: int, dim_index: int) -> Any:
    """(spec of x, axis, sizes); an index of -1 means "attribute only"."""
    x = need(inputs, x_index, "x")
    shape = x.logical_shape
    dim = attrs.get("split_dim")
    if dim is None:
        dim = const_ints(optional(inputs, dim_index) if dim_index >= 0 else None, "split_dim")[0]
    axis = axis_of(int(dim), len(shape), "split_dim")
    sizes = attrs.get("size_splits")
    if sizes is None and sizes_index >= 0 and optional(inputs, sizes_index) is not None:
        sizes = const_ints(inputs[sizes_index], "size_splits")
    if sizes is None:
        count = int(attrs.get("num_split", 0))
        if count < 1 or shape[axis] % count:
            raise ShapeError(f"x is {text(x)}; axis {axis} does not divide into num_split={count} equal parts")
        return x, axis, [shape[axis] // count] * count
    sizes = ints(sizes, "size_splits")
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = shape[axis] - sum(s for s in sizes if s != -1)
    if sum(sizes) != shape[axis] or min(sizes, default=-1) < 0:
        raise ShapeError(f"size_splits {sizes} do not add up to {shape[axis]}, axis {axis} of x {text(x)}")
    return x, axis, sizes


def _infer_split(places: tuple[int, int, int]) -> Infer:
    def infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
        x, axis, sizes = _split_plan(inputs, attrs, *places)
        shape = x.logical_shape
        return [like(x, (*shape[:axis], s, *shape[axis + 1 :])) for s in sizes]

    return infer


def _split(places: tuple[int, int, int]) -> Values:
    def values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
        _, axis, sizes = _split_plan(call.inputs, dict(call.attrs), *places)
        x = arrays[places[0]]
        assert x is not None
        return [np.ascontiguousarray(p) for p in np.split(x, np.cumsum(sizes)[:-1], axis=axis)]

    return values


for _name, _inputs, _places in (
    ("SplitD", "x", (0, -1, -1)),
    ("SplitVD", "x", (0, -1, -1)),
    ("Split", "split_dim x", (1, -1, 0)),
    ("SplitV", "x size_splits? split_dim?", (0, 1, 2)),
):
    define(_name, "movement", _inputs, _infer_split(_places), _split(_places))


def _infer_unpack(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    shape = x.logical_shape
    axis = axis_of(int(attrs.get("axis", 0)), len(shape))
    return [TensorSpec(shape[:axis] + shape[axis + 1 :], x.dtype)] * shape[axis]


def _unpack(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    return [np.ascontiguousarray(p) for p in np.moveaxis(x, int(call.attr("axis", 0)), 0)]


define("Unpack", "movement", "x", _infer_unpack, _unpack)


# ---- slicing

Slices = tuple[slice, ...]


def _length(item: slice, size: int) -> int:
    return len(range(*item.indices(size)))


def _slice_plan(inputs: Specs, attrs: dict[str, Any]) -> Slices:
    """Slice(D): offsets and sizes per axis; size -1 means up to the end."""
    x = need(inputs, 0, "x")
    shape = x.logical_shape
    offsets = pick(inputs, 1, attrs, "offsets")
    sizes = pick(inputs, 2, attrs, "size")
    if len(offsets) != len(shape) or len(sizes) != len(shape):
        raise ShapeError(f"offsets {offsets} and size {sizes} must have one value per axis of x {text(x)}")
    out = []
    for axis, (start, count, full) in enumerate(zip(offsets, sizes, shape, strict=True)):
        stop = full if count == -1 else start + count
        if not (0 <= start <= stop <= full):
            raise ShapeError(f"offset {start} and size {count} leave axis {axis} of x {text(x)}")
        out.append(slice(start, stop))
    return tuple(out)


def _strided_plan(inputs: Specs, attrs: dict[str, Any]) -> Slices:
    """StridedSlice(D/V2): begin, end, strides (optional axes), masks by bit; the rules of Python slices."""
    x = need(inputs, 0, "x")
    shape = x.logical_shape
    if "begin" in attrs:
        begin, end = ints(attrs["begin"], "begin"), ints(attrs.get("end"), "end")
        strides = ints(attrs.get("strides", [1] * len(begin)), "strides")
        axes = ints(attrs.get("axes", list(range(len(begin)))), "axes")
    else:
        begin, end = const_ints(optional(inputs, 1), "begin"), const_ints(optional(inputs, 2), "end")
        # StridedSlice has strides third; StridedSliceV2 has axes third and strides fourth
        v2 = len(inputs) > 4
        steps, places = (optional(inputs, 4), optional(inputs, 3)) if v2 else (optional(inputs, 3), None)
        strides = [1] * len(begin) if steps is None else const_ints(steps, "strides")
        axes = list(range(len(begin))) if places is None else const_ints(places, "axes")
    if not len(begin) == len(end) == len(strides) == len(axes):
        raise ShapeError(f"begin {begin}, end {end}, strides {strides} and axes {axes} must have equal lengths")
    for mask in ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask"):
        if attrs.get(mask, 0):
            raise ShapeError(f"attribute {mask} is {attrs[mask]}; only 0 is supported")
    out = [slice(None)] * len(shape)
    for i, (axis, b, e, s) in enumerate(zip(axes, begin, end, strides, strict=True)):
        if s == 0:
            raise ShapeError(f"strides {strides} contain 0")
        first = None if attrs.get("begin_mask", 0) >> i & 1 else b
        last = None if attrs.get("end_mask", 0) >> i & 1 else e
        out[axis_of(axis, len(shape))] = slice(first, last, s)
    return tuple(out)


def _slicing(plan: Any) -> tuple[Infer, Values]:
    def infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
        x = need(inputs, 0, "x")
        shape = tuple(_length(s, v) for s, v in zip(plan(inputs, attrs), x.logical_shape, strict=True))
        return [like(x, shape)]

    def values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
        x = arrays[0]
        assert x is not None
        return [np.ascontiguousarray(x[plan(call.inputs, dict(call.attrs))])]

    return infer, values


for _name, _inputs, _plan in (
    ("SliceD", "x", _slice_plan),
    ("Slice", "x offsets? size?", _slice_plan),
    ("StridedSliceD", "x", _strided_plan),
    ("StridedSlice", "x begin? end? strides?", _strided_plan),
    ("StridedSliceV2", "x begin? end? axes? strides?", _strided_plan),
):
    define(_name, "movement", _inputs, *_slicing(_plan))


# ---- padding


def _pad_plan(inputs: Specs, attrs: dict[str, Any]) -> list[tuple[int, int]]:
    """(before, after) per axis; negative values crop."""
    x = need(inputs, 0, "x")
    ndim = len(x.logical_shape)
    raw = attrs.get("paddings")
    flat = (
        const_ints(optional(inputs, 1), "paddings")
        if raw is None
        else [int(v) for v in np.asarray(raw, np.int64).reshape(-1)]
    )
    if len(flat) != 2 * ndim:
        raise ShapeError(f"paddings {flat} must have two values per axis of x {text(x)}")
    if attrs.get("paddings_contiguous", True):
        return [(flat[2 * i], flat[2 * i + 1]) for i in range(ndim)]
    return [(flat[i], flat[ndim + i]) for i in range(ndim)]


def _infer_pad(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    pads = _pad_plan(inputs, attrs)
    shape = tuple(s + b + a for s, (b, a) in zip(x.logical_shape, pads, strict=True))
    if min(shape, default=0) < 0:
        raise ShapeError(f"paddings {pads} leave a negative size for x {text(x)}")
    mode = str(attrs.get("mode", "constant")).lower()
    limit = {"reflect": 1, "symmetric": 0}.get(mode)
    if mode not in ("constant", "edge", "reflect", "symmetric", "wrap", "circular"):
        raise ShapeError(f"attribute mode is {mode!r}; expected constant, edge, reflect, symmetric or wrap")
    if limit is not None and any(max(p) > s - limit for s, p in zip(x.logical_shape, pads, strict=True)):
        raise ShapeError(f"paddings {pads} are larger than {mode} padding of x {text(x)} allows")
    return [like(x, shape)]


def _pad(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    attrs = dict(call.attrs)
    pads = _pad_plan(call.inputs, attrs)
    crop = tuple(slice(max(-b, 0), s - max(-a, 0)) for s, (b, a) in zip(x.shape, pads, strict=True))
    grow = [(max(b, 0), max(a, 0)) for b, a in pads]
    mode = {"circular": "wrap"}.get(
        str(attrs.get("mode", "constant")).lower(), str(attrs.get("mode", "constant")).lower()
    )
    if mode != "constant":
        return [np.pad(x[crop], grow, mode=mode)]  # type: ignore[call-overload]
    given = arrays[2] if len(arrays) > 2 else None
    fill = attrs.get("constant_values", attrs.get("constant_value", 0)) if given is None else given.reshape(-1)[0]
    out = np.full(call.outputs[0].logical_shape, fill, x.dtype)
    out[tuple(slice(b, b + s.stop - s.start) for (b, _), s in zip(grow, crop, strict=True))] = x[crop]
    return [out]


for _name, _inputs in (
    ("PadV3", "x paddings? constant_values?"),
    ("PadV2", "x paddings? constant_values?"),
    ("Pad", "x paddings?"),
    ("MirrorPad", "x paddings?"),
    ("PadD", "x"),
    ("PadV3D", "x"),
):
    define(_name, "movement", _inputs, _infer_pad, _pad)


# ---- repeating


def _infer_tile(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    times = pick(inputs, 1, attrs, "multiples")
    shape = x.logical_shape
    if len(times) < len(shape) or min(times, default=0) < 0:
        raise ShapeError(f"multiples {times} must have at least one value >= 0 per axis of x {text(x)}")
    padded = (1,) * (len(times) - len(shape)) + shape
    return [like(x, tuple(t * s for t, s in zip(times, padded, strict=True)))]


def _tile(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    return [np.tile(x, pick(call.inputs, 1, dict(call.attrs), "multiples"))]


define("Tile", "movement", "x multiples?", _infer_tile, _tile)
define("TileD", "movement", "x", _infer_tile, _tile)


def _infer_expand(both_ways: bool) -> Infer:
    def infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
        x = need(inputs, 0, "x")
        target = tuple(pick(inputs, 1, attrs, "shape"))
        own = (1,) * (len(target) - len(x.logical_shape)) + x.logical_shape
        target = tuple(s if t == -1 else t for s, t in zip(own[-len(target) :] if target else (), target, strict=True))
        shape = broadcast(x.logical_shape, target, names=("x", "shape"))
        if not both_ways and shape != target:
            raise ShapeError(f"x is {text(x)}; it does not broadcast to {list(target)}")
        return [like(x, shape)]

    return infer


def _expand(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    return [np.ascontiguousarray(np.broadcast_to(x, call.outputs[0].logical_shape))]


define("BroadcastTo", "movement", "x shape?", _infer_expand(False), _expand)
define("BroadcastToD", "movement", "x", _infer_expand(False), _expand)
define("Expand", "movement", "x shape?", _infer_expand(True), _expand)
define("ExpandD", "movement", "x", _infer_expand(True), _expand)
