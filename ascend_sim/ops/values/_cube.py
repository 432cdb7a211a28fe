"""What matrix products share: the BLAS type that keeps them right, and bias + epilogue + the final rounding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.ops import epilogue
from ascend_sim.ops.dtypes import INTEGER
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, text
from ascend_sim.ops.values._blocks import elementwise
from ascend_sim.ops.values._numeric import float32

Array = NDArray[Any]

_BITS = {"int4": 4, "int8": 8, "uint8": 8}
CUBE_TYPES = frozenset(("float16", "bfloat16", "float32", "int8", "uint8", "int4"))


def output_dtype(x: TensorSpec, w: TensorSpec, names: tuple[str, str]) -> str:
    """Type of the accumulated result: int32 for 4- and 8-bit integers, else the inputs' own."""
    for spec, name in ((x, names[0]), (w, names[1])):
        if spec.dtype not in CUBE_TYPES and spec.dtype not in ("int32", "float64", "uint32", "int64", "uint64"):
            raise ShapeError(f"{name} is {text(spec)}; the cube does not multiply {spec.dtype}")
    if x.dtype in _BITS and w.dtype in _BITS:
        return "int32"
    if x.dtype != w.dtype:
        raise ShapeError(f"{names[1]} is {text(w)} but {names[0]} is {text(x)}; expected the same dtype")
    return x.dtype


def blas_type(a: str, b: str, depth: int) -> type[np.floating[Any]]:
    """float32 for floats and for integer sums that stay below 2**24, else float64 (exact up to 2**53)."""
    if a in _BITS and b in _BITS:
        exact = depth * 2 ** (_BITS[a] + _BITS[b] - (a != "uint8") - (b != "uint8")) <= 2**24
        return np.float32 if exact else np.float64
    return np.float64 if a in INTEGER or a == "float64" else np.float32


def finish(acc: Array, call: OpCall, bias: Array | None, extras: Sequence[Array | None], channel: int) -> Array:
    """Add the bias along axis ``channel``, run the epilogue on the accumulator, round once to the output type.

    ``acc`` is a float array that may be overwritten. Integer sums wrap to int32.
    """
    dtype = call.outputs[0].dtype
    steps = call.attr("epilogue", ())
    operands = [acc]
    if bias is not None:
        if bias.ndim == 1 and channel != acc.ndim - 1:
            bias = bias.reshape(-1, *(1,) * (acc.ndim - 1 - channel))
        operands.append(bias.astype(acc.dtype))
    operands.extend(epilogue.aligned(steps, [e for e in extras if e is not None], acc.ndim))

    def run(part: Array, *rest: Array) -> Array:
        others = iter(rest)
        if bias is not None:
            part += next(others)
        if steps:
            part = epilogue.apply(float32(part), steps, others)
        return part.astype(np.int64) if dtype in INTEGER else part

    return elementwise(run, operands, acc.shape, dtype)


def check_extras(inputs: Sequence[TensorSpec | None], attrs: dict[str, Any], declared: int) -> None:
    """The inputs behind the declared ones must be those the epilogue consumes."""
    try:
        epilogue.check(attrs.get("epilogue", ()), max(len(inputs) - declared, 0))
    except ValueError as error:
        raise ShapeError(f"attribute epilogue: {error}") from error
