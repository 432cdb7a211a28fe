"""QuantBatchMatmulV3: int8 x int8 products, dequantised per channel and per token, or requantised to int8.

Sources: operator pages of hicann/ops-nn (aclnnQuantMatmulV4, quant_batch_matmul_v3), restated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascend_sim.ops.dtypes import dtype_name, numpy_dtype
from ascend_sim.ops.registry import Array
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, broadcast, need, optional, rank, text
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._numeric import float32, narrow
from ascend_sim.ops.values.matmul import product
from ascend_sim.ops.values.quant import saturate, scale_of

OUTPUTS = ("float16", "bfloat16", "int8", "int32")


def _infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    a, b, scale = need(inputs, 0, "x1"), need(inputs, 1, "x2"), need(inputs, 2, "scale")
    sa, sb = rank(a, "x1", 2, 6), rank(b, "x2", 2, 6)
    for spec, name in ((a, "x1"), (b, "x2")):
        if spec.dtype != "int8":
            raise ShapeError(f"{name} is {text(spec)}; expected int8")
    m, k = sa[-2:][::-1] if attrs.get("transpose_x1", False) else sa[-2:]
    kb, n = sb[-2:][::-1] if attrs.get("transpose_x2", False) else sb[-2:]
    if k != kb:
        raise ShapeError(f"x2 is {text(b)} (K = {kb}) but x1 is {text(a)} (K = {k}); expected equal K")
    _per_channel(scale, "scale", n)
    _per_channel(optional(inputs, 3), "offset", n)
    bias = optional(inputs, 4)
    if bias is not None and bias.logical_shape[-1:] != (n,):
        raise ShapeError(f"bias is {text(bias)}; expected [{n}]")
    token = optional(inputs, 5)
    if token is not None and token.logical_shape != (m,):
        raise ShapeError(f"pertoken_scale is {text(token)}; expected [{m}]")
    try:
        dtype = dtype_name(attrs.get("dtype", "float16"))
    except ValueError as error:
        raise ShapeError(f"attribute dtype: {error}") from error
    if dtype not in OUTPUTS:
        raise ShapeError(f"attribute dtype is {dtype}; expected one of {', '.join(OUTPUTS)}")
    return [TensorSpec((*broadcast(sa[:-2], sb[:-2]), m, n), dtype)]


def _per_channel(spec: TensorSpec | None, name: str, n: int) -> None:
    if spec is not None and spec.logical_shape not in ((n,), (1,), (1, n), ()):
        raise ShapeError(f"{name} is {text(spec)}; expected [1] or [{n}]")


def _values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """Integer sums exact, bias in int32 before or in float after the scale, one rounding at the end."""
    a, b, scale, offset, bias, token = [*arrays, None, None, None][:6]
    assert a is not None and b is not None and scale is not None
    acc = product(a, b, bool(call.attr("transpose_x1", False)), bool(call.attr("transpose_x2", False)))
    dtype = call.outputs[0].dtype
    whole = bias is not None and bias.dtype == np.int32
    total = acc.astype(np.int64)
    if whole:
        assert bias is not None
        total = total + bias.astype(np.int64)
    total = total.astype(np.int32)  # wraps like the accumulator
    if dtype == "int32":
        return [total]
    y = total.astype(np.float32) * scale_of(scale).reshape(-1)
    if token is not None:
        y = y * float32(token)[:, None]
    if bias is not None and not whole:
        y = y + float32(bias)
    if dtype == "int8":
        if offset is not None:
            y = np.rint(y) + float32(offset).reshape(-1)
        return [saturate(np.rint(y), "int8")]
    return [narrow(y.astype(np.float32), dtype).astype(numpy_dtype(dtype), copy=False)]


define("QuantBatchMatmulV3", "matmul", "x1 x2 scale offset? bias? pertoken_scale?", _infer, _values)
