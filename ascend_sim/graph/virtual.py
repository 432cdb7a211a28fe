"""Weights that are shapes only: for times, a network needs no values.

A virtual array has its full shape and one element in memory. `ascend_sim.graph.strip` copies an ONNX file without the
data of its weights; what is left of them is read as virtual arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
LIMIT = 16384  # bytes; smaller tensors keep their values: scalars, biases, batch norms
MARK = "\1shape only"  # location of the data of a stripped tensor


def virtual(shape: tuple[int, ...], dtype: Any) -> Array:
    """Zeros of a shape that take no memory."""
    found: Array = np.broadcast_to(np.zeros((), dtype), shape)
    return found


def is_virtual(array: Array | None) -> bool:
    return array is not None and array.ndim > 0 and array.nbytes > LIMIT and not any(array.strides)


def stripped(tensor: Any) -> bool:
    """Whether a TensorProto lost its data to `strip`."""
    return bool(tensor.data_location) and any(entry.value == MARK for entry in tensor.external_data)


def array_of(tensor: Any) -> Array:
    """The virtual array of a stripped TensorProto."""
    from onnx import helper

    return virtual(tuple(tensor.dims), helper.tensor_dtype_to_np_dtype(tensor.data_type))
