"""Host-side scalars and small structures of the kernel language: integers with ``ceildiv``, arrays, shapes, named
constants of the chip. In this eager language they are plain Python values with the methods programs call on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ascend_sim.asc.machine import current
from ascend_sim.isa.dtypes import DataType, as_dtype
from ascend_sim.isa.enums import DataFormat


class Int(int):
    """An integer of a kernel: ``int`` with the methods the compiled language has."""

    def ceildiv(self, other: int) -> Int:
        """Quotient rounded up."""
        return Int(-(-self // int(other)))

    def cast(self, dtype: Any) -> Any:
        """This value as ``dtype`` stores it."""
        value = np.asarray(int(self)).astype(as_dtype(dtype).np).item()
        return Int(value) if isinstance(value, int) else value

    def logical_and(self, other: Any) -> bool:
        return bool(self) and bool(other)

    def logical_or(self, other: Any) -> bool:
        return bool(self) or bool(other)


class Array:
    """A small array on the scalar unit's stack."""

    def __init__(self, dtype: DataType, values: Sequence[Any]) -> None:
        self.dtype = dtype
        self._values = list(values)

    def __getitem__(self, index: int) -> Any:
        return self._values[index]

    def __setitem__(self, index: int, value: Any) -> None:
        self._values[index] = value

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __repr__(self) -> str:
        return f"array({self.dtype}, {self._values})"


def array(dtype: Any, length_or_values: int | Sequence[Any], fill_value: Any = None) -> Array:
    """``array(dtype, length, fill_value)`` or ``array(dtype, values)``."""
    kind = as_dtype(dtype)
    if isinstance(length_or_values, int):
        return Array(kind, [0 if fill_value is None else fill_value] * length_or_values)
    return Array(kind, length_or_values)


class ShapeInfo:
    """Shape, original shape and format of a tensor, as the high-level functions read them."""

    def __init__(
        self, shape: Any = None, original_shape: Any = None, data_format: DataFormat | None = None
    ) -> None:
        self._shape = tuple(int(x) for x in shape) if shape is not None else ()
        self._original = tuple(int(x) for x in original_shape) if original_shape is not None else self._shape
        self.data_format = DataFormat.ND if data_format is None else data_format
        self.shape_dim, self.original_shape_dim = len(self._shape), len(self._original)

    def shape(self, dim: int) -> Int:
        return Int(self._shape[dim])

    def original_shape(self, dim: int) -> Int:
        return Int(self._original[dim])

    @property
    def dims(self) -> tuple[int, ...]:
        return self._shape

    def __repr__(self) -> str:
        return f"ShapeInfo({self._shape}, {self._original}, {self.data_format.name})"


def get_shape_size(shape_info: ShapeInfo) -> Int:
    """Number of elements of a shape."""
    size = 1
    for dim in shape_info.dims:
        size *= dim
    return Int(size)


class Property:
    """A named constant of the chip; `property` gives its value inside a kernel."""

    def __init__(self, name: str, value: int | None = None, memory: str = "") -> None:
        self.name, self._value, self._memory = name, value, memory

    def value(self) -> Int:
        return Int(current().rules.sizes[self._memory] if self._value is None else self._value)

    def __repr__(self) -> str:
        return self.name


DEFAULT_C0_SIZE = Property("DEFAULT_C0_SIZE", 32)
ONE_BLK_SIZE = Property("ONE_BLK_SIZE", 32)
TOTAL_L1_SIZE = Property("TOTAL_L1_SIZE", memory="L1")
TOTAL_L0C_SIZE = Property("TOTAL_L0C_SIZE", memory="L0C")


def property(prop: Any) -> Any:
    """Value of a named constant such as ``DEFAULT_C0_SIZE`` or ``TOTAL_L1_SIZE``."""
    return prop.value() if isinstance(prop, Property) else prop


def number(value: Any, dtype: Any) -> Any:
    """A scalar of a type."""
    result = np.asarray(value).astype(as_dtype(dtype).np).item()
    return Int(result) if isinstance(result, int) else result
