"""Tensors with arbitrary strides: reading from them, writing to them; and sequences made from nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascend_sim.ops.dtypes import dtype_name, numpy_dtype
from ascend_sim.ops.registry import Array
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, ints, like, need, text
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._numeric import convert, narrow, widen


def _span(size: Sequence[int], stride: Sequence[int], offset: int) -> int:
    """Elements that a strided view reaches."""
    return offset + 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if all(size) else 0


def _infer_as_strided(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    size, stride = ints(attrs.get("size"), "size"), ints(attrs.get("stride"), "stride")
    if len(size) != len(stride) or min([*size, *stride], default=0) < 0:
        raise ShapeError(f"size {size} and stride {stride} must have equal lengths and no negative value")
    if _span(size, stride, int(attrs.get("storage_offset", 0))) > x.size:
        raise ShapeError(f"size {size} with stride {stride} passes the end of x {text(x)}")
    return [TensorSpec(tuple(size), x.dtype)]


def _view(flat: Array, size: Sequence[int], stride: Sequence[int], offset: int) -> Array:
    step = flat.itemsize
    return np.lib.stride_tricks.as_strided(flat.reshape(-1)[offset:], tuple(size), [s * step for s in stride])


def _as_strided(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    size = call.outputs[0].logical_shape
    if not all(size):
        return [np.zeros(size, x.dtype)]
    stride = ints(call.attr("stride"), "stride")
    return [np.ascontiguousarray(_view(x, size, stride, int(call.attr("storage_offset", 0)))).reshape(size)]


define("AsStrided", "movement", "x", _infer_as_strided, _as_strided)


def _infer_view_copy(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    dst, src = need(inputs, 0, "dst"), need(inputs, 1, "src")
    size, stride = ints(attrs.get("dst_size"), "dst_size"), ints(attrs.get("dst_stride"), "dst_stride")
    if src.logical_shape != tuple(size) or src.dtype != dst.dtype:
        raise ShapeError(f"src is {text(src)}; expected {dst.dtype}{size}")
    if _span(size, stride, int(attrs.get("dst_storage_offset", 0))) > dst.size:
        raise ShapeError(f"dst_size {size} with dst_stride {stride} passes the end of dst {text(dst)}")
    return [like(dst)]


def _view_copy(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """``dst`` with ``src`` written into a strided view of it."""
    dst, src = arrays[0], arrays[1]
    assert dst is not None and src is not None
    out = np.array(dst)
    size, stride = ints(call.attr("dst_size"), "dst_size"), ints(call.attr("dst_stride"), "dst_stride")
    if all(size):
        _view(out, size, stride, int(call.attr("dst_storage_offset", 0)))[...] = src
    return [out]


define("ViewCopy", "movement", "dst src", _infer_view_copy, _view_copy)


# ---- gradients of padding


def _infer_pad_grad(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    dy = need(inputs, 0, "x")
    shape = ints(attrs.get("shape"), "shape")
    pads = np.asarray(attrs.get("paddings"), np.int64).reshape(-1, 2)
    if len(pads) != len(shape) or tuple(pads.sum(1) + shape) != dy.logical_shape:
        raise ShapeError(f"paddings {pads.tolist()} and shape {shape} do not give x {text(dy)}")
    return [like(dy, tuple(shape))]


def _pad_grad(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """Adds every padded element to the one it was copied from."""
    dy = arrays[0]
    assert dy is not None
    mode = {"edge": "edge", "reflect": "reflect", "symmetric": "symmetric"}[str(call.attr("mode", "reflect"))]
    total = widen(dy)
    pads = np.asarray(call.attr("paddings"), np.int64).reshape(-1, 2)
    for axis, (before, after) in enumerate(pads):
        size = total.shape[axis] - before - after
        if before == after == 0:
            continue
        source = np.pad(np.arange(size), (int(before), int(after)), mode=mode)  # type: ignore[call-overload]
        moved = np.moveaxis(total, axis, 0)
        out = np.zeros((int(size), *moved.shape[1:]), total.dtype)
        np.add.at(out, source, moved)
        total = np.moveaxis(out, 0, axis)
    return [narrow(np.ascontiguousarray(total), call.outputs[0].dtype)]


define("PadV3Grad", "movement", "x", _infer_pad_grad, _pad_grad)


# ---- sequences


def _named(attrs: dict[str, Any]) -> str:
    return dtype_name(attrs.get("dtype", "float32"))


def _arange(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    start, step, count = call.attr("start", 0), call.attr("step", 1), int(call.attr("count"))
    index = np.arange(count)
    wide = start + index * step if isinstance(start, int) and isinstance(step, int) else start + index * float(step)
    return [convert(np.asarray(wide), call.outputs[0].dtype)]


define("ArangeD", "creation", "", lambda i, a: [TensorSpec((int(a["count"]),), _named(a))], _arange)


def _lin_space(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """Equal steps, from both ends to the middle."""
    start, end, steps = call.attr("start"), call.attr("end"), int(call.attr("num"))
    kind = np.float64 if call.outputs[0].dtype == "float64" else np.float32
    if steps == 1:
        return [narrow(np.asarray([start], kind), call.outputs[0].dtype)]
    step: Any = kind((end - start) / max(steps - 1, 1))
    index: Any = np.arange(steps)
    low = kind(start) + step * index.astype(kind)
    high = kind(end) - step * (steps - 1 - index).astype(kind)
    return [narrow(np.where(index < steps // 2, low, high).astype(kind), call.outputs[0].dtype)]


def _log_space(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    exponents = np.linspace(call.attr("start"), call.attr("end"), int(call.attr("num")))
    return [narrow(np.power(float(call.attr("base", 10.0)), exponents), call.outputs[0].dtype)]


define("LinSpaceD", "creation", "", lambda i, a: [TensorSpec((int(a["num"]),), _named(a))], _lin_space)
define("LogSpaceD", "creation", "", lambda i, a: [TensorSpec((int(a["num"]),), _named(a))], _log_space)


def _eye(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    rows, columns = call.outputs[0].logical_shape
    return [np.eye(rows, columns).astype(numpy_dtype(call.outputs[0].dtype))]


def _infer_eye(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    return [TensorSpec((int(attrs["num_rows"]), int(attrs["num_columns"])), _named(attrs))]


define("EyeD", "creation", "", _infer_eye, _eye)
