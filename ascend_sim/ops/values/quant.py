"""Quantisation: float to 8-bit integers and back. Scales are per tensor or per channel of the last axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ascend_sim.ops.dtypes import dtype_name, numpy_dtype
from ascend_sim.ops.registry import Array, Infer
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, axis_of, like, need, optional, text
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._numeric import float32, narrow

_ROUND: dict[str, Callable[[Array], Array]] = {
    "round": np.rint,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
}
_LIMITS = {
    "int4": (-8, 7), "int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "uint16": (0, 65535),
}  # fmt: skip


def saturate(x: Array, dtype: str) -> Array:
    """Clamp to an integer type's range and convert; NaN gives 0."""
    low, high = _LIMITS[dtype]
    result: Array = np.clip(np.nan_to_num(x, nan=0.0), low, high).astype(numpy_dtype(dtype))
    return result


def _round(x: Array, call: OpCall) -> Array:
    return _ROUND[str(call.attr("round_mode", "Round")).lower()](x)


def _target(attrs: dict[str, Any], name: str, default: Any) -> str:
    try:
        return dtype_name(attrs.get(name, default))
    except ValueError as error:
        raise ShapeError(f"attribute {name}: {error}") from error


def _infer_to_int(attr: str) -> Infer:
    def infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
        x = need(inputs, 0, "x")
        dtype = _target(attrs, attr, "int8")
        if dtype not in _LIMITS:
            raise ShapeError(f"attribute {attr} is {dtype}; expected one of {', '.join(_LIMITS)}")
        mode = str(attrs.get("round_mode", "Round")).lower()
        if mode not in _ROUND:
            raise ShapeError(f"attribute round_mode is {mode!r}; expected Round, Floor, Ceil or Trunc")
        return [like(x, dtype=dtype)]

    return infer


def _quant(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """round(x * scale + offset); ``sqrt_mode`` applies the scale twice."""
    x = arrays[0]
    assert x is not None
    scale = np.float32(call.attr("scale", 1.0))
    y = float32(x) * scale
    if call.attr("sqrt_mode", False):
        y = y * scale
    y = y + np.float32(call.attr("offset", 0.0))
    return [saturate(_round(y, call), call.outputs[0].dtype)]


define("AscendQuant", "quant", "x", _infer_to_int("dst_type"), _quant)


def _per_channel(vector: Array, ndim: int, axis: int) -> Array:
    if vector.size == 1:
        return float32(vector).reshape(())
    shape = [1] * ndim
    shape[axis] = -1
    return float32(vector).reshape(shape)


def _quant_v2(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x, scale, offset = [*arrays, None][:3]
    assert x is not None and scale is not None
    axis = axis_of(int(call.attr("axis", -1)), x.ndim)
    factor = _per_channel(scale, x.ndim, axis)
    y = float32(x) * factor
    if call.attr("sqrt_mode", False):
        y = y * factor
    if offset is not None:
        y = y + _per_channel(offset, x.ndim, axis)
    return [saturate(_round(y, call), call.outputs[0].dtype)]


define("AscendQuantV2", "quant", "x scale offset?", _infer_to_int("dst_type"), _quant_v2)


def _quantize(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """round(x / scale) + zero_point along ``axis``."""
    x, scale, zero = [*arrays, None][:3]
    assert x is not None and scale is not None
    axis = axis_of(int(call.attr("axis", 1)), max(x.ndim, 2)) % max(x.ndim, 1)
    y = np.rint(float32(x) / _per_channel(scale, x.ndim, axis))
    if zero is not None:
        y = y + _per_channel(zero, x.ndim, axis)
    return [saturate(y, call.outputs[0].dtype)]


define("Quantize", "quant", "x scales zero_points?", _infer_to_int("dtype"), _quantize)


def _infer_to_float(default: str) -> Infer:
    def infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
        x = need(inputs, 0, "x")
        return [like(x, dtype=_target(attrs, "dst_type" if "dst_type" in attrs else "dtype", default))]

    return infer


def scale_of(word: Array) -> Array:
    """The float32 multiplier of a quantisation parameter: a float, or a 64-bit word with it in the low half."""
    if word.dtype.kind in "iu" and word.dtype.itemsize == 8:
        return (word.astype(np.uint64) & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(np.float32)
    return float32(word)


def _dequant(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """x (int32) * deq_scale along the channels, ReLU when ``relu_flag``."""
    x, scale = arrays[0], arrays[1]
    assert x is not None and scale is not None
    spec = call.inputs[0]
    channels_first = spec is not None and (spec.origin_format or spec.format) == "NCHW"
    factor = _per_channel(scale_of(scale), x.ndim, 1 if channels_first else x.ndim - 1)
    y = float32(x) * factor
    if call.attr("sqrt_mode", False):
        y = y * factor
    if call.attr("relu_flag", False):
        y = np.maximum(y, 0)
    return [narrow(y, call.outputs[0].dtype)]


define("AscendDequant", "quant", "x deq_scale", _infer_to_float("float16"), _dequant)


def _anti_quant(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    scale = np.float32(call.attr("scale", 1.0))
    y = (float32(x) + np.float32(call.attr("offset", 0.0))) * scale
    if call.attr("sqrt_mode", False):
        y = y * scale
    return [narrow(y, call.outputs[0].dtype)]


define("AscendAntiQuant", "quant", "x", _infer_to_float("float16"), _anti_quant)


def _anti_quant_v2(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """(x + offset) * scale along ``axis`` (default: the last one)."""
    x, scale, offset = [*arrays, None][:3]
    assert x is not None and scale is not None
    axis = axis_of(int(call.attr("axis", -1)), x.ndim)
    y = float32(x)
    if offset is not None:
        y = y + _per_channel(offset, x.ndim, axis)
    return [narrow(y * _per_channel(scale, x.ndim, axis), call.outputs[0].dtype)]


define("AscendAntiQuantV2", "quant", "x scale offset?", _infer_to_float("float16"), _anti_quant_v2)


def _infer_requant(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    if x.dtype != "int32":
        raise ShapeError(f"x is {text(x)}; expected int32")
    return [like(x, dtype="int8")]


def _requant(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x, scale = arrays[0], arrays[1]
    assert x is not None and scale is not None
    spec = call.inputs[0]
    channels_first = spec is not None and (spec.origin_format or spec.format) == "NCHW"
    y = float32(x) * _per_channel(scale_of(scale), x.ndim, 1 if channels_first else x.ndim - 1)
    if call.attr("relu_flag", False):
        y = np.maximum(y, 0)
    return [saturate(np.rint(y), "int8")]


define("AscendRequant", "quant", "x req_scale", _infer_requant, _requant)


def _infer_dynamic(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    if not x.logical_shape:
        raise ShapeError(f"x is {text(x)}; expected at least one axis")
    smooth = optional(inputs, 1)
    if smooth is not None and smooth.logical_shape != x.logical_shape[-1:]:
        raise ShapeError(f"smooth_scales is {text(smooth)}; expected [{x.logical_shape[-1]}]")
    return [like(x, dtype="int8"), TensorSpec(x.logical_shape[:-1], "float32")]


def _dynamic(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """Per row of the last axis: scale = max |x| / 127, y = round(x / scale)."""
    x, smooth = [*arrays, None][:2]
    assert x is not None
    wide = float32(x)
    if smooth is not None:
        wide = wide * float32(smooth)
    scale = np.max(np.abs(wide), axis=-1, initial=0) / np.float32(127)
    safe = np.where(scale == 0, np.float32(1), scale)
    return [saturate(np.rint(wide / safe[..., None]), "int8"), scale.astype(np.float32)]


define("DynamicQuant", "quant", "x smooth_scales?", _infer_dynamic, _dynamic)
