"""Shape arithmetic shared by the operators' inference functions, with errors that name the culprit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ascend_sim.ops.dtypes import numpy_dtype
from ascend_sim.ops.schema import TensorSpec

Shape = tuple[int, ...]


class ShapeError(ValueError):
    """Inputs or attributes of an operator do not fit together."""


def text(spec: TensorSpec | None) -> str:
    """``float16[1,3,224,224]``, for messages."""
    return "absent" if spec is None else f"{spec.dtype}[{','.join(map(str, spec.logical_shape))}]"


def need(inputs: Sequence[TensorSpec | None], index: int, name: str) -> TensorSpec:
    """The required input ``index``."""
    if index >= len(inputs) or inputs[index] is None:
        raise ShapeError(f"input {index} ({name}) is missing")
    spec = inputs[index]
    assert spec is not None
    return spec


def optional(inputs: Sequence[TensorSpec | None], index: int) -> TensorSpec | None:
    return inputs[index] if index < len(inputs) else None


def rank(spec: TensorSpec, name: str, low: int, high: int | None = None) -> Shape:
    """Logical shape after checking that its rank is in [low, high]."""
    shape = spec.logical_shape
    if len(shape) < low or (high is not None and len(shape) > high):
        wanted = f"rank {low}" if low == high else f"rank {low}..{high if high is not None else ''}"
        raise ShapeError(f"{name} is {text(spec)}; expected {wanted}")
    return shape


def const_array(spec: TensorSpec | None, name: str) -> NDArray[Any]:
    """Value of a compile-time constant input."""
    if spec is None:
        raise ShapeError(f"input {name} is missing")
    if spec.const is None:
        raise ShapeError(f"input {name} ({text(spec)}) must be a constant: the output shape depends on its value")
    return np.frombuffer(spec.const, numpy_dtype(spec.dtype)).reshape(spec.logical_shape)


def const_ints(spec: TensorSpec | None, name: str) -> list[int]:
    """Constant input as a flat list of ints."""
    return [int(v) for v in const_array(spec, name).reshape(-1)]


def ints(value: Any, name: str, count: int | None = None) -> list[int]:
    """Attribute as a list of ints (a scalar counts as a list of one)."""
    if value is None:
        raise ShapeError(f"attribute {name} is missing")
    items = [value] if isinstance(value, int | np.integer) else list(value)
    if count is not None and len(items) != count:
        raise ShapeError(f"attribute {name} is {items}; expected {count} values")
    return [int(v) for v in items]


def axis_of(axis: int, ndim: int, name: str = "axis") -> int:
    """Axis counted from the front. A 0-d tensor accepts 0 and -1."""
    room = max(ndim, 1)
    if not -room <= axis < room:
        raise ShapeError(f"{name} {axis} is out of range for rank {ndim}; expected {-room}..{room - 1}")
    return axis % room


def axes_of(axes: Iterable[int], ndim: int, name: str = "axes") -> tuple[int, ...]:
    """Axes counted from the front, sorted; duplicates are an error. Empty for a 0-d tensor."""
    out = [axis_of(a, ndim, name) for a in axes]
    if len(set(out)) != len(out):
        raise ShapeError(f"{name} {list(axes)} names an axis twice")
    return tuple(sorted(out)) if ndim else ()


def broadcast(*shapes: Shape, names: Sequence[str] = ("x1", "x2")) -> Shape:
    """NumPy broadcasting of shapes."""
    ndim = max((len(s) for s in shapes), default=0)
    out = [1] * ndim
    for index, shape in enumerate(shapes):
        for i, size in enumerate(shape, ndim - len(shape)):
            if size in (1, out[i]):
                continue
            if out[i] != 1:
                who = names[index] if index < len(names) else f"input {index}"
                others = ", ".join(str(list(s)) for s in shapes)
                raise ShapeError(f"{who} {list(shape)} does not broadcast with the others ({others}) at axis {i}")
            out[i] = size
    return tuple(out)


def same_dtype(specs: Sequence[TensorSpec | None], names: Sequence[str]) -> str:
    """The dtype that all present inputs share."""
    present = [(n, s) for n, s in zip(names, specs, strict=False) if s is not None]
    for name, spec in present[1:]:
        if spec.dtype != present[0][1].dtype:
            raise ShapeError(
                f"{name} is {text(spec)} but {present[0][0]} is {text(present[0][1])}; expected the same dtype"
            )
    return present[0][1].dtype


def format_of(spec: TensorSpec) -> str:
    """Format of the logical shape."""
    return spec.origin_format or (spec.format if spec.origin_shape is None else "ND")


def data_format(attrs: dict[str, Any], spec: TensorSpec, default: str) -> str:
    """``data_format`` attribute, else the format the tensor is described with, else the IR default."""
    value = attrs.get("data_format")
    if value is None:
        own = format_of(spec)
        value = own if own in ("NCHW", "NHWC", "NCDHW", "NDHWC") else default
    return str(value)


def like(spec: TensorSpec, shape: Shape | None = None, dtype: str | None = None) -> TensorSpec:
    """Output described as ``spec`` (logical format kept when the rank is kept)."""
    new = spec.logical_shape if shape is None else tuple(int(v) for v in shape)
    fmt = format_of(spec)
    return TensorSpec(new, dtype or spec.dtype, fmt if len(new) == len(spec.logical_shape) else "ND")


class _Windowed(Protocol):
    @property
    def kernel(self) -> Sequence[int]: ...
    @property
    def strides(self) -> Sequence[int]: ...
    @property
    def dilations(self) -> Sequence[int]: ...
    @property
    def pads(self) -> Sequence[int]: ...


def window_output(size: int, window: _Windowed, axis: int, *, ceil: bool = False) -> int:
    """Output length of a convolution or pooling window along spatial axis ``axis``.

    With ``ceil`` the last window may hang over the padded end but must start inside input + leading padding.
    """
    kernel, stride, dilation = window.kernel[axis], window.strides[axis], window.dilations[axis]
    before, after = window.pads[2 * axis : 2 * axis + 2]
    if min(kernel, stride, dilation) < 1 or min(before, after) < 0:
        raise ShapeError(
            f"window along spatial axis {axis}: kernel {kernel}, stride {stride}, dilation {dilation} must be at "
            f"least 1 and pads {before}, {after} at least 0"
        )
    span = dilation * (kernel - 1) + 1
    room = size + before + after - span
    if room < 0:
        raise ShapeError(
            f"window of {span} along spatial axis {axis} does not fit into the input's {size} "
            f"with padding {before} and {after}"
        )
    out = (-(-room // stride) if ceil else room // stride) + 1
    if ceil and (out - 1) * stride >= size + before:
        out -= 1
    return out


def same_padding(size: int, kernel: int, stride: int, dilation: int = 1) -> tuple[int, int]:
    """Padding (before, after) that gives ceil(size / stride) outputs; the odd one goes to the end."""
    span = dilation * (kernel - 1) + 1
    total = max((-(-size // stride) - 1) * stride + span - size, 0)
    return total // 2, total - total // 2


def reduced(shape: Shape, axes: Sequence[int], keep_dims: bool) -> Shape:
    """Shape after reducing ``axes`` (already counted from the front)."""
    if keep_dims:
        return tuple(1 if i in axes else v for i, v in enumerate(shape))
    return tuple(v for i, v in enumerate(shape) if i not in axes)


def reshape(shape: Shape, target: Sequence[int], *, allow_zero: bool = False) -> Shape:
    """Resolve 0 (copy) and -1 (infer) in a Reshape target."""
    out = []
    for i, v in enumerate(target):
        if v == 0 and not allow_zero:
            if i >= len(shape):
                raise ShapeError(f"shape {list(target)} copies axis {i}, which {list(shape)} does not have")
            out.append(shape[i])
        elif v < -1:
            raise ShapeError(f"shape {list(target)} has the negative size {v}")
        else:
            out.append(int(v))
    if out.count(-1) > 1:
        raise ShapeError(f"shape {list(target)} has more than one -1")
    total = prod(shape)
    if -1 in out:
        known = prod(v for v in out if v != -1)
        if known == 0 or total % known:
            raise ShapeError(f"cannot reshape {list(shape)} ({total} elements) to {list(target)}")
        out[out.index(-1)] = total // known
    if prod(out) != total:
        raise ShapeError(f"cannot reshape {list(shape)} ({total} elements) to {list(target)} ({prod(out)} elements)")
    return tuple(out)
