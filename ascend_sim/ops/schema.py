"""Tensors and operator calls as values: hashable, so traces and times can be cached by them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

ITEM_BITS = {
    "float32": 32, "float16": 16, "bfloat16": 16, "float64": 64, "int8": 8, "uint8": 8, "int16": 16, "uint16": 16,
    "int32": 32, "uint32": 32, "int64": 64, "uint64": 64, "bool": 8, "int4": 4, "uint1": 1,
    "complex64": 64, "complex128": 128, "string": 2048,
}  # fmt: skip


@dataclass(frozen=True)
class TensorSpec:
    """Shape, dtype and format of a tensor.

    ``shape`` is the *storage* shape in ``format``; ``origin_shape``/``origin_format`` are what the user wrote
    (equal to the storage ones for ND, NCHW and NHWC). ``const`` holds the bytes of a compile-time constant
    when shape inference or tiling depends on its value (axes, pads, sizes), else None.
    """

    shape: tuple[int, ...]
    dtype: str
    format: str = "ND"
    origin_shape: tuple[int, ...] | None = None
    origin_format: str | None = None
    const: bytes | None = None

    @property
    def logical_shape(self) -> tuple[int, ...]:
        return self.shape if self.origin_shape is None else self.origin_shape

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return (self.size * ITEM_BITS[self.dtype] + 7) // 8


@dataclass(frozen=True)
class OpCall:
    """One operator applied to concrete tensor specs. ``attrs`` is a sorted tuple of (name, value) with
    hashable values; missing optional inputs are None."""

    type: str
    inputs: tuple[TensorSpec | None, ...]
    outputs: tuple[TensorSpec, ...]
    attrs: tuple[tuple[str, Any], ...] = ()

    def attr(self, name: str, default: Any = None) -> Any:
        for key, value in self.attrs:
            if key == name:
                return value
        return default


def freeze(value: Any) -> Any:
    """Lists become tuples, dicts sorted tuples of pairs: attribute values as `OpCall` wants them."""
    if isinstance(value, list | tuple):
        return tuple(freeze(v) for v in value)
    if isinstance(value, Mapping):
        return tuple(sorted((k, freeze(v)) for k, v in value.items()))
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    if hasattr(value, "tolist"):
        return freeze(value.tolist())
    return value


def freeze_attrs(attrs: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted((k, freeze(v)) for k, v in attrs.items()))
