"""Indexing as frameworks do it: several index tensors at once, elements added or filled along an axis, embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ascend_sim.ops.registry import Array
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, axis_of, broadcast, ints, like, need, text
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._numeric import narrow, widen

_INDEX = ("int32", "int64", "bool")


def _places(x: TensorSpec, attrs: dict[str, Any], count: int) -> list[bool]:
    """Which axes of ``x`` have an index tensor (attribute ``indexed_sizes``, one 0 or 1 an axis)."""
    flags = [bool(v) for v in ints(attrs.get("indexed_sizes"), "indexed_sizes")]
    flags += [False] * (len(x.logical_shape) - len(flags))
    if len(flags) > len(x.logical_shape) or sum(flags) != count:
        raise ShapeError(f"indexed_sizes {flags} must name {count} axes of x {text(x)}")
    return flags


def _selected(x: TensorSpec, indices: Specs, flags: list[bool]) -> tuple[int, ...]:
    """Shape of ``x[...]`` by the rules of advanced indexing."""
    for i, spec in enumerate(indices):
        if spec is None or spec.dtype not in _INDEX:
            raise ShapeError(f"index {i} is {text(spec)}; expected int32 or int64")
    common = broadcast(*(s.logical_shape for s in indices if s is not None))
    axes = [i for i, f in enumerate(flags) if f]
    shape = x.logical_shape
    rest = [n for i, n in enumerate(shape) if not flags[i]]
    together = axes == list(range(axes[0], axes[-1] + 1))
    at = axes[0] if together else 0
    return (*rest[:at], *common, *rest[at:])


def _infer_index(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    return [TensorSpec(_selected(x, inputs[1:], _places(x, attrs, len(inputs) - 1)), x.dtype)]


def _key(x: Array, flags: list[bool], indices: Sequence[Array]) -> tuple[Any, ...]:
    left = iter(indices)
    key: list[Any] = []
    for axis, flag in enumerate(flags):
        if not flag:
            key.append(slice(None))
            continue
        index, size = next(left), x.shape[axis]
        if index.size and (int(index.min()) < -size or int(index.max()) >= size):
            bad = int(index.min()) if int(index.min()) < -size else int(index.max())
            raise ValueError(f"index {bad} is out of bounds for axis {axis} with size {size}")
        key.append(index)
    return tuple(key)


def _index(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x, *indices = [a for a in arrays if a is not None]
    spec = call.inputs[0]
    assert spec is not None
    flags = _places(spec, dict(call.attrs), len(indices))
    return [np.ascontiguousarray(x[_key(x, flags, indices)]).reshape(call.outputs[0].logical_shape)]


define("Index", "gather", "x indices*", _infer_index, _index)


def _infer_put(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x, values = need(inputs, 0, "x"), need(inputs, 1, "value")
    shape = _selected(x, inputs[2:], _places(x, attrs, len(inputs) - 2))
    if values.dtype != x.dtype or broadcast(values.logical_shape, shape) != shape:
        raise ShapeError(f"value is {text(values)}; expected {x.dtype}{list(shape)}")
    return [like(x)]


def _put(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """``x`` with values written (or added) where the indices say."""
    x, values, *indices = [a for a in arrays if a is not None]
    spec = call.inputs[0]
    assert spec is not None
    flags = _places(spec, dict(call.attrs), len(indices))
    if call.attr("accumulate", False):
        wide = np.array(widen(x))
        np.add.at(wide, _key(x, flags, indices), widen(values))
        return [narrow(wide, call.outputs[0].dtype)]
    out = np.array(x)
    out[_key(x, flags, indices)] = values
    return [out]


define("IndexPutV2", "gather", "x value indices*", _infer_put, _put)


# ---- along one axis


def _axis(x: TensorSpec, attrs: dict[str, Any]) -> int:
    return axis_of(int(attrs.get("dim", 0)), len(x.logical_shape), "dim")


def _infer_along(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x, index = need(inputs, 0, "x"), need(inputs, 1, "index")
    _axis(x, attrs)
    if index.dtype not in _INDEX:
        raise ShapeError(f"index is {text(index)}; expected int32 or int64")
    return [like(x)]


def _bounded(index: Array, size: int) -> Array:
    flat = index.reshape(-1)
    if flat.size and (int(flat.min()) < -size or int(flat.max()) >= size):
        raise ValueError(f"index out of range for size {size}: {int(flat.min())}..{int(flat.max())}")
    return flat


def _index_add(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x, index, source = (a for a in arrays if a is not None)
    spec = call.inputs[0]
    assert spec is not None
    axis = _axis(spec, dict(call.attrs))
    wide = np.array(widen(x))
    moved = np.moveaxis(wide, axis, 0)
    alpha = call.attr("alpha", 1)
    add = np.moveaxis(widen(source).reshape(source.shape or (1,)), axis, 0)
    np.add.at(moved, _bounded(index, x.shape[axis]), add if alpha == 1 else add * add.dtype.type(alpha))
    return [narrow(wide, call.outputs[0].dtype)]


def _index_copy(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x, index, source = (a for a in arrays if a is not None)
    spec = call.inputs[0]
    assert spec is not None
    axis = _axis(spec, dict(call.attrs))
    out = np.array(x)
    np.moveaxis(out, axis, 0)[_bounded(index, x.shape[axis])] = np.moveaxis(
        source.reshape(source.shape or (1,)), axis, 0
    )
    return [out]


def _index_fill(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x, index, value = (a for a in arrays if a is not None)
    spec = call.inputs[0]
    assert spec is not None
    out = np.array(x)
    axis = _axis(spec, dict(call.attrs))
    np.moveaxis(out, axis, 0)[_bounded(index, x.shape[axis])] = value.reshape(())
    return [out]


define("InplaceIndexAdd", "gather", "var indices updates", _infer_along, _index_add)
define("IndexCopy", "gather", "var indices updates", _infer_along, _index_copy)
define("IndexFill", "gather", "x indices value", _infer_along, _index_fill)


def _infer_scatter(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x, index, updates = need(inputs, 0, "var"), need(inputs, 1, "indices"), need(inputs, 2, "updates")
    _axis(x, attrs)
    if index.dtype not in _INDEX or updates.dtype != x.dtype:
        raise ShapeError(f"indices is {text(index)}, updates {text(updates)}; expected integers and {x.dtype}")
    if len(index.logical_shape) != len(x.logical_shape):
        raise ShapeError(f"indices is {text(index)}; expected the rank of var {text(x)}")
    return [like(x)]


def _scatter(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """``var`` with updates set, added, multiplied, or compared (attribute ``reduction``) at indices along ``dim``."""
    x, index, updates = (a for a in arrays if a is not None)
    spec = call.inputs[0]
    assert spec is not None
    axis = _axis(spec, dict(call.attrs))
    how = str(call.attr("reduction", "none"))
    size = x.shape[axis] if x.ndim else 1
    _bounded(index, size)
    if x.ndim == 0:
        x, index, updates = x.reshape(1), index.reshape(1), updates.reshape(1)
    grid: list[Array] = list(np.ix_(*(np.arange(n) for n in index.shape)))
    grid[axis] = index
    part = updates if updates.ndim == 0 else updates[tuple(slice(n) for n in index.shape)]
    key = tuple(grid)
    if how == "none":
        out = np.array(x)
        out[key] = part
        return [out.reshape(call.outputs[0].logical_shape)]
    wide = np.array(widen(x))
    add = np.broadcast_to(widen(part), index.shape)
    function = {"add": np.add, "mul": np.multiply, "multiply": np.multiply, "max": np.maximum, "min": np.minimum}[how]
    function.at(wide, key, add)
    return [narrow(wide.reshape(call.outputs[0].logical_shape), call.outputs[0].dtype)]


define("ScatterElementsV2", "gather", "var indices updates", _infer_scatter, _scatter)


def _infer_take(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x, index = need(inputs, 0, "x"), need(inputs, 1, "index")
    return [TensorSpec(index.logical_shape, x.dtype)]


def _take(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x, index = (a for a in arrays if a is not None)
    flat = _bounded(index, x.size)
    return [x.reshape(-1)[flat].reshape(call.outputs[0].logical_shape)]


define("Take", "gather", "x index", _infer_take, _take)


# ---- embeddings


def _infer_embedding_grad(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    grad, index = need(inputs, 0, "grad"), need(inputs, 1, "indices")
    width = grad.logical_shape[-1]
    if prod(grad.logical_shape[:-1]) != index.size:
        raise ShapeError(f"grad is {text(grad)}; expected one row for every index of {text(index)}")
    return [TensorSpec((int(attrs["num_weights"]), width), grad.dtype)]


def _embedding_grad(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """Rows of the gradient added up by index; those of ``padding_idx`` are dropped."""
    grad, index = (a for a in arrays if a is not None)
    rows, flat = widen(grad).reshape(-1, grad.shape[-1]), index.reshape(-1)
    out = np.zeros(call.outputs[0].logical_shape, rows.dtype)
    kept = flat != int(call.attr("padding_idx", -1))
    np.add.at(out, flat[kept], rows[kept])
    if call.attr("scale_grad_by_freq", False):
        count = np.bincount(flat, minlength=len(out)).astype(rows.dtype)
        out /= np.maximum(count, 1)[:, None]
    return [narrow(out, call.outputs[0].dtype)]


define("EmbeddingDenseGrad", "gather", "grad indices", _infer_embedding_grad, _embedding_grad)


def _infer_search(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    values = need(inputs, 1, "values")
    return [TensorSpec(values.logical_shape, "int32" if attrs.get("out_int32", False) else "int64")]


def _search(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """Where values would be inserted into sorted rows."""
    rows, values = (widen(a) for a in arrays if a is not None)
    side: Any = "right" if call.attr("right", False) else "left"
    if rows.ndim == 1:
        found = np.searchsorted(rows, values, side)
    else:
        flat, wanted = rows.reshape(-1, rows.shape[-1]), values.reshape(-1, values.shape[-1])
        found = np.stack([np.searchsorted(r, v, side) for r, v in zip(flat, wanted, strict=True)])
    return [np.asarray(found).reshape(call.outputs[0].logical_shape).astype(call.outputs[0].dtype)]


define("SearchSorted", "gather", "sorted_sequence values", _infer_search, _search)
