"""NumPy types of the dtype names used in `TensorSpec`, and GE's numbers for them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

# GE's runtime DataType numbers (the same as aclDataType), as attributes such as Cast.dst_type carry them.
GE_NUMBER = {
    "float32": 0, "float16": 1, "int8": 2, "int32": 3, "uint8": 4, "int16": 6, "uint16": 7, "uint32": 8, "int64": 9,
    "uint64": 10, "float64": 11, "bool": 12, "string": 13, "complex64": 16, "complex128": 17, "bfloat16": 27,
    "int4": 29, "uint1": 30,
}  # fmt: skip
GE_NAME = {number: name for name, number in GE_NUMBER.items()}

HALF = frozenset(("float16", "bfloat16"))
FLOATING = frozenset(("float16", "bfloat16", "float32", "float64"))
INTEGER = frozenset(("int4", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"))
COMPLEX = frozenset(("complex64", "complex128"))


@cache
def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of a name; bfloat16 and int4 are those of ml_dtypes. Raises ValueError for others."""
    if name in ("bfloat16", "int4"):
        import ml_dtypes

        half: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return half
    if name == "string":
        return np.dtype(object)
    if name == "uint1":
        return np.dtype(np.bool_)
    if name not in GE_NUMBER:
        raise ValueError(f"unknown dtype {name!r}; expected one of {', '.join(GE_NUMBER)}")
    return np.dtype(name)


def dtype_name(value: Any) -> str:
    """Dtype attribute in any spelling (GE number, name, NumPy dtype) as a name. Raises ValueError."""
    if isinstance(value, bool):
        raise ValueError(f"dtype {value!r} is a bool; expected a GE DataType number or a name")
    if isinstance(value, int | np.integer):
        if int(value) not in GE_NAME:
            raise ValueError(f"dtype number {int(value)} is not a GE DataType")
        return GE_NAME[int(value)]
    text = {"float": "float32", "half": "float16", "double": "float64", "bf16": "bfloat16"}.get(str(value), str(value))
    if text not in GE_NUMBER:
        raise ValueError(f"unknown dtype {value!r}; expected a GE DataType number or one of {', '.join(GE_NUMBER)}")
    return text
