"""Gathering and scattering by index. Indices below zero count from the end; others out of range are clamped for
gathers (the device reads within bounds) and rejected for scatters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ascend_sim.ops.dtypes import dtype_name
from ascend_sim.ops.registry import Array, Values
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import (
    ShapeError,
    axis_of,
    const_array,
    const_ints,
    like,
    need,
    optional,
    rank,
    same_dtype,
    text,
)
from ascend_sim.ops.values._define import Specs, define, infer_same
from ascend_sim.ops.values._numeric import narrow, widen

_INDEX_TYPES = ("int32", "int64")


def _index(spec: TensorSpec, name: str) -> TensorSpec:
    if spec.dtype not in _INDEX_TYPES:
        raise ShapeError(f"{name} is {text(spec)}; expected int32 or int64")
    return spec


def wrapped(index: Array, size: int) -> Array:
    """Indices counted from the front and clamped to [0, size)."""
    result: Array = np.clip(np.where(index < 0, index + size, index), 0, max(size - 1, 0))
    return result


def _gather_plan(inputs: Specs, attrs: dict[str, Any]) -> tuple[int, int]:
    """Axis and number of batch dimensions."""
    x, index = need(inputs, 0, "x"), _index(need(inputs, 1, "indices"), "indices")
    batch = int(attrs.get("batch_dims", 0))
    if "axis" in attrs:
        axis = int(attrs["axis"])
    else:
        spec = optional(inputs, 2)
        axis = batch if spec is None else const_ints(spec, "axis")[0]
    axis = axis_of(axis, len(x.logical_shape))
    if not x.logical_shape:
        raise ShapeError(f"x is {text(x)}; a 0-d tensor has nothing to gather from")
    batch += len(index.logical_shape) if batch < 0 else 0
    if batch > axis or x.logical_shape[:batch] != index.logical_shape[:batch]:
        raise ShapeError(f"batch_dims={batch} does not fit x {text(x)} and indices {text(index)} with axis {axis}")
    return axis, batch


def _infer_gather(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x, index = need(inputs, 0, "x"), need(inputs, 1, "indices")
    axis, batch = _gather_plan(inputs, attrs)
    shape = x.logical_shape
    out = (*shape[:axis], *index.logical_shape[batch:], *shape[axis + 1 :])
    if shape[axis] == 0 and index.size:
        raise ShapeError(f"x is {text(x)}; axis {axis} is empty")
    return [TensorSpec(out, x.dtype)]


def _gather(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x, index = arrays[0], arrays[1]
    assert x is not None and index is not None
    axis, batch = _gather_plan(call.inputs, dict(call.attrs))
    index = wrapped(index, x.shape[axis])
    if not batch:
        return [np.take(x, index, axis=axis)]
    lead = x.shape[:batch]
    flat_x, flat_i = x.reshape(-1, *x.shape[batch:]), index.reshape(-1, *index.shape[batch:])
    parts = [np.take(a, i, axis=axis - batch) for a, i in zip(flat_x, flat_i, strict=True)]
    return [np.stack(parts).reshape(*lead, *parts[0].shape) if parts else np.empty(call.outputs[0].shape, x.dtype)]


define("GatherV2", "gather", "x indices axis?", _infer_gather, _gather)
define("GatherV2D", "gather", "x indices", _infer_gather, _gather)
define("Gather", "gather", "x indices", _infer_gather, _gather)
define("EmbeddingLookup", "gather", "x indices", _infer_gather, _gather)


def _infer_elements(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x, index = need(inputs, 0, "x"), _index(need(inputs, 1, "index"), "index")
    shape = rank(x, "x", 1)
    axis = axis_of(int(attrs.get("dim", 0)), len(shape), "dim")
    other = index.logical_shape
    if len(other) != len(shape) or any(o > s for i, (o, s) in enumerate(zip(other, shape, strict=True)) if i != axis):
        raise ShapeError(f"index is {text(index)}; expected the shape of x {text(x)} but along axis {axis}")
    return [TensorSpec(other, x.dtype)]


def _elements(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x, index = arrays[0], arrays[1]
    assert x is not None and index is not None
    axis = axis_of(int(call.attr("dim", 0)), x.ndim)
    cut = tuple(slice(None) if i == axis else slice(s) for i, s in enumerate(index.shape))
    return [np.take_along_axis(x[cut], wrapped(index, x.shape[axis]), axis)]


define("GatherElements", "gather", "x index", _infer_elements, _elements)
define("GatherD", "gather", "x index", _infer_elements, _elements)


def _along(vector: Array, axis: int, ndim: int) -> Array:
    """A vector shaped to broadcast along ``axis`` of ``ndim`` axes."""
    return vector.reshape([-1 if i == axis else 1 for i in range(ndim)])


def _infer_gather_nd(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x, index = need(inputs, 0, "x"), _index(need(inputs, 1, "indices"), "indices")
    batch = int(attrs.get("batch_dims", 0))
    places = rank(index, "indices", 1)
    depth = places[-1]
    if batch + depth > len(x.logical_shape) or x.logical_shape[:batch] != places[:batch]:
        raise ShapeError(f"indices is {text(index)}, which does not address x {text(x)} with batch_dims={batch}")
    return [TensorSpec((*places[:-1], *x.logical_shape[batch + depth :]), x.dtype)]


def _gather_nd(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x, index = arrays[0], arrays[1]
    assert x is not None and index is not None
    batch = int(call.attr("batch_dims", 0))
    sizes = x.shape[batch : batch + index.shape[-1]]
    places = [wrapped(index[..., i], s) for i, s in enumerate(sizes)]
    lead = [_along(np.arange(s), i, index.ndim - 1) for i, s in enumerate(x.shape[:batch])]
    return [np.ascontiguousarray(x[(*lead, *places)]).reshape(call.outputs[0].logical_shape)]


define("GatherNd", "gather", "x indices", _infer_gather_nd, _gather_nd)


# ---- scattering


def _assign(out: Array, at: Any, values: Array) -> None:
    out[at] = values


_UPDATES: dict[str, Callable[[Array, Any, Array], None]] = {
    "none": _assign,
    "update": _assign,
    "add": np.add.at,
    "mul": np.multiply.at,
    "max": np.maximum.at,
    "min": np.minimum.at,
}


def _apply(x: Array, at: Any, updates: Array, how: str) -> Array:
    out = np.array(widen(x))
    with np.errstate(all="ignore"):
        _UPDATES[how](out, at, widen(updates))
    return out


def _checked(index: Array, size: int, name: str) -> Array:
    if index.size and (index.min() < -size or index.max() >= size):
        raise ValueError(f"{name}: index {int(index.max())} or {int(index.min())} is out of range for size {size}")
    result: Array = np.where(index < 0, index + size, index)
    return result


def _infer_scatter_nd_update(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x, index, updates = (need(inputs, i, n) for i, n in enumerate(("var", "indices", "updates")))
    _index(index, "indices")
    same_dtype((x, updates), ("var", "updates"))
    places = rank(index, "indices", 1)
    wanted = (*places[:-1], *x.logical_shape[places[-1] :])
    if places[-1] > len(x.logical_shape) or updates.logical_shape != wanted:
        raise ShapeError(
            f"updates is {text(updates)}; expected {list(wanted)} for var {text(x)}, indices {text(index)}"
        )
    return [like(x)]


def _scatter_nd(how: str) -> Values:
    def values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
        x, index, updates = arrays[:3]
        assert x is not None and index is not None and updates is not None
        mode = str(call.attr("reduction", how))
        at = tuple(_checked(index[..., i], x.shape[i], call.type) for i in range(index.shape[-1]))
        return [narrow(_apply(x, at, updates, mode), call.outputs[0].dtype)]

    return values


for _name, _how in (
    ("ScatterNdUpdate", "update"), ("TensorScatterUpdate", "update"), ("ScatterNdAdd", "add"),
    ("TensorScatterAdd", "add"), ("TensorScatterMax", "max"), ("TensorScatterMin", "min"), ("ScatterNdMul", "mul"),
):  # fmt: skip
    define(_name, "gather", "var indices updates", _infer_scatter_nd_update, _scatter_nd(_how))


def _infer_scatter_nd(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    index, x = _index(need(inputs, 0, "indices"), "indices"), need(inputs, 1, "x")
    shape = tuple(int(v) for v in attrs["shape"]) if "shape" in attrs else tuple(const_ints(inputs[2], "shape"))
    places = rank(index, "indices", 1)
    wanted = (*places[:-1], *shape[places[-1] :])
    if places[-1] > len(shape) or x.logical_shape != wanted:
        raise ShapeError(f"x is {text(x)}; expected {list(wanted)} for indices {text(index)} into {list(shape)}")
    return [TensorSpec(shape, x.dtype)]


def _scatter_zeros(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """ScatterNd: values of equal indices add up, into zeros."""
    index, x = arrays[0], arrays[1]
    assert index is not None and x is not None
    shape = call.outputs[0].logical_shape
    at = tuple(_checked(index[..., i], shape[i], call.type) for i in range(index.shape[-1]))
    return [narrow(_apply(np.zeros(shape, x.dtype), at, x, "add"), call.outputs[0].dtype)]


define("ScatterNd", "gather", "indices x shape", _infer_scatter_nd, _scatter_zeros)


def _infer_scatter_elements(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x, index, updates = (need(inputs, i, n) for i, n in enumerate(("data", "indices", "updates")))
    _index(index, "indices")
    same_dtype((x, updates), ("data", "updates"))
    shape = rank(x, "data", 1)
    axis_of(int(attrs.get("axis", 0)), len(shape))
    if index.logical_shape != updates.logical_shape or len(index.logical_shape) != len(shape):
        raise ShapeError(f"updates is {text(updates)}; expected the shape of indices {text(index)}, rank {len(shape)}")
    return [like(x)]


def _scatter_elements(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x, index, updates = arrays[:3]
    assert x is not None and index is not None and updates is not None
    axis = axis_of(int(call.attr("axis", 0)), x.ndim)
    at: list[Any] = list(np.indices(index.shape, sparse=True))
    at[axis] = _checked(index, x.shape[axis], call.type)
    return [narrow(_apply(x, tuple(at), updates, str(call.attr("reduction", "none"))), call.outputs[0].dtype)]


define("ScatterElements", "gather", "data indices updates", _infer_scatter_elements, _scatter_elements)


# ---- triangles and one-hot


def _triangle(lower: bool) -> Values:
    def values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
        x = arrays[0]
        assert x is not None
        diagonal = int(call.attr("diagonal", 0))
        keep = np.tri(x.shape[-2], x.shape[-1], k=diagonal if lower else diagonal - 1, dtype=bool)
        return [np.where(keep if lower else ~keep, x, np.zeros((), x.dtype))]

    return values


define("Tril", "gather", "x", infer_same, _triangle(True))
define("Triu", "gather", "x", infer_same, _triangle(False))


def _one_hot_depth(inputs: Specs, attrs: dict[str, Any]) -> int:
    return int(attrs["depth"]) if "depth" in attrs else const_ints(optional(inputs, 1), "depth")[0]


def _infer_one_hot(first_value: int) -> Any:
    def infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
        x, on = need(inputs, 0, "x"), need(inputs, first_value, "on_value")
        depth, shape = _one_hot_depth(inputs, attrs), x.logical_shape
        axis = axis_of(int(attrs.get("axis", -1)), len(shape) + 1)
        return [TensorSpec((*shape[:axis], depth, *shape[axis:]), on.dtype)]

    return infer


def _one_hot(first_value: int) -> Values:
    def values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
        x, on, off = arrays[0], arrays[first_value], arrays[first_value + 1]
        assert x is not None and on is not None and off is not None
        depth = _one_hot_depth(call.inputs, dict(call.attrs))
        axis = axis_of(int(call.attr("axis", -1)), x.ndim + 1)
        index = np.where(x < 0, x + depth, x)
        hot = np.expand_dims(index, axis) == _along(np.arange(depth), axis, x.ndim + 1)
        return [np.where(hot, on.reshape(()), off.reshape(()))]

    return values


define("OneHot", "gather", "x depth on_value off_value", _infer_one_hot(2), _one_hot(2))
define("OneHotD", "gather", "x on_value off_value", _infer_one_hot(1), _one_hot(1))


# ---- positions of what is not zero


def _infer_non_zero(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    """Room for every element when the values are not known yet: there may be fewer rows. With ``padded`` the rows
    that are missing are 0, and a second output (int64) counts the others, as aclnnNonzeroV2 has it."""
    x = need(inputs, 0, "x")
    padded = bool(attrs.get("padded", False))
    count = x.size if padded or x.const is None else int(np.count_nonzero(const_array(x, "x")))
    ndim = len(x.logical_shape)
    shape = (ndim, count) if attrs.get("transpose", False) else (count, ndim)
    places = TensorSpec(shape, dtype_name(attrs.get("dtype", "int64")))
    return [places, TensorSpec((1,), "int64")] if padded else [places]


def _non_zero(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    places = np.array(np.nonzero(x), call.outputs[0].dtype)
    if not call.attr("padded", False):
        return [places if call.attr("transpose", False) else np.ascontiguousarray(places.T)]
    room = np.zeros((x.ndim, x.size), places.dtype)
    room[:, : places.shape[1]] = places
    count = np.array([places.shape[1]], np.int64)
    return [room if call.attr("transpose", False) else np.ascontiguousarray(room.T), count]


define("NonZero", "aicpu", "x", _infer_non_zero, _non_zero)
define("Where", "aicpu", "x", _infer_non_zero, _non_zero)


def _infer_reverse_sequence(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x, lengths = need(inputs, 0, "x"), need(inputs, 1, "seq_lengths")
    shape = rank(x, "x", 2)
    axis_of(int(attrs.get("seq_dim", 0)), len(shape), "seq_dim")
    batch = axis_of(int(attrs.get("batch_dim", 0)), len(shape), "batch_dim")
    if lengths.logical_shape != (shape[batch],):
        raise ShapeError(f"seq_lengths is {text(lengths)}; expected [{shape[batch]}]")
    return [like(x)]


def _reverse_sequence(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x, lengths = arrays[0], arrays[1]
    assert x is not None and lengths is not None
    time, batch = int(call.attr("seq_dim", 0)) % x.ndim, int(call.attr("batch_dim", 0)) % x.ndim
    moved = np.moveaxis(x, (batch, time), (0, 1))
    out = moved.copy()
    for i, n in enumerate(lengths.tolist()):
        out[i, :n] = moved[i, :n][::-1]
    return [np.ascontiguousarray(np.moveaxis(out, (0, 1), (batch, time)))]


define("ReverseSequence", "gather", "x seq_lengths", _infer_reverse_sequence, _reverse_sequence)
