"""Operators that only describe data anew: reshapes (no copy), layout conversion, transposition, constants."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ascend_sim.ops.registry import Array
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import (
    ShapeError,
    axes_of,
    axis_of,
    const_ints,
    ints,
    like,
    need,
    optional,
    reshape,
    text,
)
from ascend_sim.ops.values._define import Specs, define, infer_same


def pick(inputs: Specs, index: int, attrs: dict[str, Any], *names: str) -> list[int]:
    """A list of ints that comes as attribute (the D form of an operator) or as constant input ``index``."""
    for name in names:
        if name in attrs:
            return ints(attrs[name], name)
    return const_ints(optional(inputs, index), names[0])


def _reshaped(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    return [np.ascontiguousarray(x).reshape(call.outputs[0].logical_shape)]


def _infer_reshape(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    target = pick(inputs, 1, attrs, "shape")
    shape = reshape(x.logical_shape, target, allow_zero=bool(attrs.get("allowzero", 0)))
    return [TensorSpec(shape, x.dtype)]


def _infer_squeeze(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    shape = x.logical_shape
    given = attrs.get("axis", attrs.get("axes"))
    if given is None and optional(inputs, 1) is not None:
        given = const_ints(inputs[1], "axes")
    axes = [i for i, v in enumerate(shape) if v == 1] if given is None or list(ints(given, "axis")) == [] else (
        axes_of(ints(given, "axis"), len(shape), "axis")
    )  # fmt: skip
    wrong = [i for i in axes if shape[i] != 1]
    if wrong:
        raise ShapeError(f"x is {text(x)}; expected size 1 at axis {wrong[0]} to squeeze")
    return [TensorSpec(tuple(v for i, v in enumerate(shape) if i not in axes), x.dtype)]


def _infer_unsqueeze(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    given = pick(inputs, 1, attrs, "axes", "axis")
    ndim = len(x.logical_shape) + len(given)
    axes = axes_of(given, ndim, "axes")
    rest = iter(x.logical_shape)
    return [TensorSpec(tuple(1 if i in axes else next(rest) for i in range(ndim)), x.dtype)]


def _infer_flatten(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    shape = x.logical_shape
    axis = int(attrs.get("axis", 1))
    if not -len(shape) <= axis <= len(shape):
        raise ShapeError(f"axis {axis} is out of range for x {text(x)}")
    axis += len(shape) if axis < 0 else 0
    return [TensorSpec((prod(shape[:axis]), prod(shape[axis:])), x.dtype)]


def _infer_flatten_v2(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    shape = x.logical_shape
    first = axis_of(int(attrs.get("axis", 1)), len(shape))
    last = axis_of(int(attrs.get("end_axis", -1)), len(shape), "end_axis")
    if first > last:
        raise ShapeError(f"axis {first} lies behind end_axis {last}")
    return [TensorSpec((*shape[:first], prod(shape[first : last + 1]), *shape[last + 1 :]), x.dtype)]


define("Reshape", "layout", "x shape?", _infer_reshape, _reshaped, host=True)
define("Squeeze", "layout", "x axes?", _infer_squeeze, _reshaped, host=True)
define("SqueezeV2", "layout", "x axes?", _infer_squeeze, _reshaped, host=True)
define("Unsqueeze", "layout", "x axes?", _infer_unsqueeze, _reshaped, host=True)
define("UnsqueezeV2", "layout", "x axes?", _infer_unsqueeze, _reshaped, host=True)
define("ExpandDims", "layout", "x axis?", _infer_unsqueeze, _reshaped, host=True)
define("Flatten", "layout", "x", _infer_flatten, _reshaped, host=True)
define("FlattenV2", "layout", "x", _infer_flatten_v2, _reshaped, host=True)


def _same(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    return [x]


for _name in ("Identity", "Data", "NetOutput", "StopGradient"):
    define(_name, "layout", "x", infer_same, _same, host=True)


def _infer_const(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    value = attrs.get("value")
    if isinstance(value, TensorSpec):
        return [value]
    raise ShapeError("attribute value is missing; expected a TensorSpec with const bytes")


def _const(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    from ascend_sim.ops.shapes import const_array

    return [const_array(call.outputs[0], "value")]


define("Const", "layout", "", _infer_const, _const, host=True)
define("Constant", "layout", "", _infer_const, _const, host=True)


# ---- transposition


def _infer_transpose(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    shape = x.logical_shape
    perm = pick(inputs, 1, attrs, "perm")
    if sorted(p % max(len(shape), 1) for p in perm) != list(range(len(shape))):
        raise ShapeError(f"perm {perm} is no permutation of the axes of x {text(x)}")
    return [TensorSpec(tuple(shape[p] for p in perm), x.dtype)]


def _transpose(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    perm = pick(call.inputs, 1, dict(call.attrs), "perm")
    return [np.ascontiguousarray(x.transpose(perm)).reshape(call.outputs[0].logical_shape)]


define("Transpose", "layout", "x perm?", _infer_transpose, _transpose)
define("TransposeD", "layout", "x", _infer_transpose, _transpose)


# ---- storage formats


def storage_shape(
    logical: Sequence[int], fmt: str, dtype: str, logical_format: str, groups: int = 1
) -> tuple[int, ...]:
    """Shape of a tensor stored in a fractal format (kernels.md-style names: N1 = ceil(N / 16), C1 = ceil(C / C0),
    C0 = 32 for 8-bit types, 64 for int4, else 16).

    Raises ShapeError for a pair of formats that does not exist.
    """
    c0 = {"int8": 32, "uint8": 32, "int4": 64}.get(dtype, 16)
    if fmt in ("ND", "NCHW", "NHWC", "HWCN", "NCDHW", "NDHWC", "DHWCN") or not logical:
        return tuple(logical)
    if fmt == "FRACTAL_NZ":
        lead, (m, n) = tuple(logical[:-2]), (1, *logical)[-2:]
        return (*lead, -(-n // c0), -(-m // 16), 16, c0)
    named = dict(zip(logical_format, logical, strict=False))
    if len(logical_format) != len(logical) or "C" not in named:
        raise ShapeError(f"{fmt} needs a logical format with channels; got {logical_format} {list(logical)}")
    n, c, d, h, w = (named.get(letter, 1) for letter in "NCDHW")
    c1 = -(-c // c0)
    if fmt == "NC1HWC0":
        return (n, c1, h, w, c0)
    if fmt == "NDC1HWC0":
        return (n, d, c1, h, w, c0)
    if fmt == "FRACTAL_Z":
        return (groups * c1 * h * w, -(-(n // groups) // 16), 16, c0)
    if fmt == "FRACTAL_Z_3D":
        return (groups * d * c1 * h * w, -(-(n // groups) // 16), 16, c0)
    raise ShapeError(f"format {fmt!r} is not known")


def _infer_transdata(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "src")
    target = str(attrs.get("dst_format", ""))
    if not target:
        raise ShapeError("attribute dst_format is missing")
    own = x.origin_format or x.format
    logical = x.logical_shape
    storage = storage_shape(logical, target, x.dtype, own, int(attrs.get("groups", 1)))
    return [TensorSpec(storage, x.dtype, target, logical, own)]


def _transdata(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """Logical arrays stay as they are, except between NCHW and NHWC."""
    x, source, target = arrays[0], call.inputs[0], call.outputs[0]
    assert x is not None and source is not None
    pair = source.origin_format or source.format, target.origin_format or target.format
    perm = {("NHWC", "NCHW"): (0, 3, 1, 2), ("NCHW", "NHWC"): (0, 2, 3, 1)}.get(pair)
    if perm is None or x.ndim != 4 or x.shape == target.logical_shape:
        return [x]
    return [np.ascontiguousarray(x.transpose(perm))]


define("TransData", "layout", "src", _infer_transdata, _transdata)


def _infer_shape(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    from ascend_sim.ops.dtypes import dtype_name

    x = need(inputs, 0, "x")
    return [TensorSpec((len(x.logical_shape),), dtype_name(attrs.get("dtype", "int32")))]


def _shape(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    return [np.array(x.shape, call.outputs[0].dtype)]


define("Shape", "layout", "x", _infer_shape, _shape, host=True)


def _infer_size(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    return [like(_infer_shape(inputs, attrs)[0], ())]


def _size(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    return [np.array(x.size, call.outputs[0].dtype)]


define("Size", "layout", "x", _infer_size, _size, host=True)
