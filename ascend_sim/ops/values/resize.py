"""Image resizing: nearest, linear and cubic, axis by axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import Any

import numpy as np

from ascend_sim.ops.registry import Array, Infer, Values
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, const_array, const_ints, data_format, like, need, optional, rank, text
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._numeric import narrow, widen
from ascend_sim.ops.values.layout import pick


@dataclass(frozen=True)
class Mapping:
    """How output positions fall on input positions.

    ``mode`` is nearest, linear or cubic; ``coordinates`` and ``rounding`` have the ONNX names
    (coordinate_transformation_mode, nearest_mode); ``cubic_a`` is the cubic coefficient; ``antialias`` widens the
    kernel when shrinking.
    """

    mode: str
    coordinates: str
    rounding: str = "floor"
    cubic_a: float = -0.75
    exclude_outside: bool = False
    extrapolation: float = 0.0
    antialias: bool = False


_ROUND: dict[str, Callable[[Array], Array]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
}


def positions(how: Mapping, size: int, out: int, scale: float, roi: tuple[float, float] = (0.0, 1.0)) -> Array:
    """Input coordinate of every output position along an axis (float32 arithmetic, as devices do)."""
    i = np.arange(out, dtype=np.float32)
    s = np.float32(scale)
    kind = how.coordinates
    if kind in ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric"):
        if kind == "pytorch_half_pixel" and out == 1:
            return np.zeros(1, np.float32)
        x = (i + np.float32(0.5)) / s - np.float32(0.5)
        if kind == "half_pixel_symmetric":
            exact = scale * size
            x += np.float32(size / 2 * (1 - out / exact))
        return x
    if kind == "align_corners":
        return i * np.float32((size - 1) / (out - 1)) if out > 1 else np.zeros(1, np.float32)
    if kind == "asymmetric":
        return i / s
    if kind == "tf_half_pixel_for_nn":
        return (i + np.float32(0.5)) / s
    if kind == "tf_crop_and_resize":
        first, last = roi
        if out == 1:
            return np.array([0.5 * (first + last) * (size - 1)], np.float32)
        return (first * (size - 1) + i * ((last - first) * (size - 1) / (out - 1))).astype(np.float32)
    raise ShapeError(f"attribute coordinate_transformation_mode is {kind!r}, which is unknown")


def cubic_weights(t: Array, a: float) -> list[Array]:
    """Keys' cubic convolution weights of the taps at -1, 0, 1, 2 for a fraction ``t``."""

    def near(d: Array) -> Array:
        result: Array = ((a + 2) * d - (a + 3)) * d * d + 1
        return result

    def far(d: Array) -> Array:
        result: Array = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        return result

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _stretched(x: Array, axis: int, where: Array, scale: float, how: Mapping) -> Array:
    """Shrink one axis with a kernel stretched by 1 / scale (antialiasing), as one matrix product.

    Weights add up to 1; those of taps outside the image go to its edge, or are left out (``exclude_outside``)."""
    size = x.shape[axis]
    reach = ceil({"linear": 1.0, "cubic": 2.0}[how.mode] / scale)
    taps = np.arange(-reach, size + reach)
    d = np.abs(taps[None, :] - where[:, None].astype(np.float64)) * scale
    if how.mode == "linear":
        weights = np.maximum(1 - d, 0)
    else:
        near, far = cubic_weights(d, how.cubic_a)[1], cubic_weights(d - 1, how.cubic_a)[0]
        weights = np.where(d <= 1, near, np.where(d < 2, far, 0))
    if how.exclude_outside:
        weights *= (taps >= 0) & (taps < size)
    weights /= weights.sum(axis=1, keepdims=True)
    table = np.zeros((len(where), size))
    for column, tap in enumerate(np.clip(taps, 0, size - 1).tolist()):
        table[:, tap] += weights[:, column]
    moved = np.tensordot(x, table.astype(x.dtype), axes=([axis], [1]))
    return np.ascontiguousarray(np.moveaxis(moved, -1, axis))


def resize_axis(x: Array, axis: int, out: int, scale: float, how: Mapping, *, roi: tuple[float, float]) -> Array:
    """Resize one axis (x is float32/float64 unless ``mode`` is nearest)."""
    size = x.shape[axis]
    where = positions(how, size, out, scale, roi)
    if how.mode == "nearest":
        index = np.clip(_ROUND[how.rounding](where), 0, size - 1).astype(np.int64)
        return np.take(x, index, axis=axis)
    if how.antialias and scale < 1:
        return _stretched(x, axis, where, scale, how)
    if how.coordinates != "tf_crop_and_resize" and how.mode == "linear":
        where = np.clip(where, 0, size - 1)
    base = np.floor(where).astype(np.int64)
    t = where - base
    if how.mode == "linear":
        taps, weights = [base, base + 1], [1 - t, t]
    elif how.mode == "cubic":
        taps, weights = [base + d for d in (-1, 0, 1, 2)], cubic_weights(t, how.cubic_a)
    else:
        raise ShapeError(f"attribute mode is {how.mode!r}; expected nearest, linear or cubic")
    if how.exclude_outside:
        weights = [np.where((i >= 0) & (i < size), w, 0) for i, w in zip(taps, weights, strict=True)]
        total = np.sum(weights, axis=0)
        weights = [w / total for w in weights]
    shape = [1] * x.ndim
    shape[axis] = out
    result: Array | None = None
    for i, w in zip(taps, weights, strict=True):
        part = np.take(x, np.clip(i, 0, size - 1), axis=axis) * w.astype(x.dtype).reshape(shape)
        result = part if result is None else result + part
    assert result is not None
    return result


def resize(x: Array, out: Sequence[int], scales: Sequence[float], how: Mapping, roi: Sequence[float] = ()) -> Array:
    """Resize every axis whose size or scale changes."""
    half = len(roi) // 2
    spans = [(roi[i], roi[half + i]) if half else (0.0, 1.0) for i in range(x.ndim)]
    work = x if how.mode == "nearest" else widen(x)
    if work.dtype.kind in "iu" and how.mode != "nearest":
        work = work.astype(np.float32)
    for axis, (o, s) in enumerate(zip(out, scales, strict=True)):
        crop = how.coordinates == "tf_crop_and_resize" and spans[axis] != (0.0, 1.0)
        if o != x.shape[axis] or s != 1.0 or crop:
            work = resize_axis(work, axis, o, s, how, roi=spans[axis])
    if how.coordinates == "tf_crop_and_resize":
        for axis, o in enumerate(out):
            where = positions(how, x.shape[axis], o, scales[axis], spans[axis])
            outside = (where < 0) | (where > x.shape[axis] - 1)
            if outside.any():
                shape = [1] * x.ndim
                shape[axis] = o
                work = np.where(outside.reshape(shape), work.dtype.type(how.extrapolation), work)
    return work


# ---- ResizeNearestNeighborV2(D), ResizeBilinearV2(D): x, size = (height, width)


def _image_out(inputs: Specs, attrs: dict[str, Any]) -> tuple[TensorSpec, tuple[int, ...]]:
    x = need(inputs, 0, "x")
    shape = rank(x, "x", 4, 4)
    size = pick(inputs, 1, attrs, "size")
    if len(size) != 2 or min(size) < 1:
        raise ShapeError(f"size is {size}; expected positive height and width")
    fmt = data_format(attrs, x, "NHWC" if x.format == "NHWC" else "NCHW")
    named = dict(zip(fmt, shape, strict=True)) | {"H": size[0], "W": size[1]}
    return x, tuple(named[letter] for letter in fmt)


def _infer_image(half_to_float: bool) -> Infer:
    def infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
        x, out = _image_out(inputs, attrs)
        dtype = attrs.get("dtype")
        if half_to_float and dtype is not None:
            from ascend_sim.ops.dtypes import dtype_name

            return [like(x, out, dtype_name(dtype))]
        return [like(x, out)]

    return infer


def _image(mode: str) -> Values:
    def values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
        x = arrays[0]
        assert x is not None
        if call.attr("align_corners", False):
            how = Mapping(mode, "align_corners", "round_prefer_ceil")
        elif call.attr("half_pixel_centers", False):
            how = Mapping(mode, "tf_half_pixel_for_nn" if mode == "nearest" else "half_pixel")
        else:
            how = Mapping(mode, "asymmetric")
        out = call.outputs[0].logical_shape
        return [narrow(resize(x, out, [o / s for o, s in zip(out, x.shape, strict=True)], how), call.outputs[0].dtype)]

    return values


for _suffix, _inputs in (("", "x size?"), ("D", "x")):
    define(f"ResizeNearestNeighborV2{_suffix}", "resize", _inputs, _infer_image(False), _image("nearest"))
    define(f"ResizeBilinearV2{_suffix}", "resize", _inputs, _infer_image(True), _image("linear"))


# ---- Resize(x, roi, scales, sizes) with the ONNX attributes


def _resize_plan(inputs: Specs, attrs: dict[str, Any]) -> tuple[tuple[int, ...], list[float], list[float]]:
    """Output shape, scales and region of interest."""
    x = need(inputs, 0, "x")
    shape = x.logical_shape
    axes = [int(a) % len(shape) for a in attrs.get("axes", range(len(shape)))]

    def numbers(name: str, index: int) -> list[float]:
        if name in attrs:
            return [float(v) for v in attrs[name]]
        spec = optional(inputs, index)
        return [] if spec is None or spec.size == 0 else [float(v) for v in const_array(spec, name).reshape(-1)]

    sizes_spec = optional(inputs, 3)
    sizes = [int(v) for v in attrs["sizes"]] if attrs.get("sizes") else (
        const_ints(sizes_spec, "sizes") if sizes_spec is not None and sizes_spec.size else []
    )  # fmt: skip
    scales = numbers("scales", 2)
    for name, given in (("sizes", sizes), ("scales", scales)):
        if given and len(given) != len(axes):
            raise ShapeError(f"{name} {given} must have one value per axis of x {text(x)}")
    if not sizes and not scales:
        raise ShapeError("neither scales nor sizes is given")
    out, factors = list(shape), [1.0] * len(shape)
    policy = attrs.get("keep_aspect_ratio_policy", "stretch")
    if sizes and policy != "stretch":
        ratios = [s / shape[a] for s, a in zip(sizes, axes, strict=True)]
        common = min(ratios) if policy == "not_larger" else max(ratios)
        for a in axes:
            out[a], factors[a] = floor(common * shape[a] + 0.5), common
    else:
        for i, a in enumerate(axes):
            out[a] = sizes[i] if sizes else floor(scales[i] * shape[a])
            factors[a] = scales[i] if scales else sizes[i] / max(shape[a], 1)
    roi = numbers("roi", 1)
    if roi and len(axes) != len(shape):
        first, last = [0.0] * len(shape), [1.0] * len(shape)
        for i, a in enumerate(axes):
            first[a], last[a] = roi[i], roi[len(axes) + i]
        roi = first + last
    return tuple(out), factors, roi


def _infer_resize(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    return [like(need(inputs, 0, "x"), _resize_plan(inputs, attrs)[0])]


def _resize(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x = arrays[0]
    assert x is not None
    out, scales, roi = _resize_plan(call.inputs, dict(call.attrs))
    how = Mapping(
        call.attr("mode", "nearest"),
        call.attr("coordinate_transformation_mode", "half_pixel"),
        call.attr("nearest_mode", "round_prefer_floor"),
        float(call.attr("cubic_coeff_a", -0.75)),
        bool(call.attr("exclude_outside", 0)),
        float(call.attr("extrapolation_value", 0.0)),
        bool(call.attr("antialias", 0)),
    )
    crop = how.coordinates == "tf_crop_and_resize"
    return [narrow(resize(x, out, scales, how, roi if crop else ()), call.outputs[0].dtype)]


define("Resize", "resize", "x roi? scales? sizes?", _infer_resize, _resize)
