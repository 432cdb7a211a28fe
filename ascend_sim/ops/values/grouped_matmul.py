"""GroupedMatmul: consecutive rows of x, one group per expert, each times its own weight.

One tensor for x, weight and bias (the single-tensor form of hicann/ops-transformer's operator); groups split M.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascend_sim.ops.dtypes import dtype_name
from ascend_sim.ops.registry import Array
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, const_ints, need, optional, rank, text
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._numeric import float32, narrow
from ascend_sim.ops.values.matmul import product


def group_sizes(listed: Sequence[int], kind: int) -> list[int]:
    """Rows of each group. ``kind`` 0: ``listed`` are running totals, 1: counts. Raises `ShapeError`."""
    sizes = [int(v) for v in listed]
    if kind == 0:
        sizes = [b - a for a, b in zip([0, *sizes], sizes, strict=False)]
    elif kind != 1:
        raise ShapeError(f"attribute group_list_type is {kind}; expected 0 (running totals) or 1 (counts)")
    if min(sizes, default=0) < 0:
        raise ShapeError(f"group_list is {list(listed)}; expected totals that do not fall, or counts of at least 0")
    return sizes


def _infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x, w = need(inputs, 0, "x"), need(inputs, 1, "weight")
    m, k = rank(x, "x", 2, 2)
    groups, kw, n = rank(w, "weight", 3, 3)
    if attrs.get("transpose_weight", False):
        kw, n = n, kw
    if int(attrs.get("group_type", 0)) != 0:
        raise ShapeError(f"attribute group_type is {attrs['group_type']}; expected 0 (groups split the rows of x)")
    if kw != k:
        raise ShapeError(f"weight is {text(w)} (K = {kw}) but x is {text(x)} (K = {k}); expected equal K")
    if x.dtype != w.dtype or x.dtype not in ("float16", "bfloat16", "float32"):
        raise ShapeError(f"weight is {text(w)} and x {text(x)}; expected one floating type")
    bias = optional(inputs, 2)
    if bias is not None and bias.logical_shape != (groups, n):
        raise ShapeError(f"bias is {text(bias)}; expected [{groups},{n}]")
    listed = need(inputs, 3, "group_list")
    if listed.logical_shape != (groups,):
        raise ShapeError(f"group_list is {text(listed)}; expected [{groups}]")
    kind = int(attrs.get("group_list_type", 0))
    if listed.const is not None and sum(group_sizes(const_ints(listed, "group_list"), kind)) > m:
        raise ShapeError(f"group_list {const_ints(listed, 'group_list')} asks for more than the {m} rows of x")
    return [TensorSpec((m, n), dtype_name(attrs["dtype"]) if attrs.get("dtype", -1) not in (-1, None) else x.dtype)]


def _values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x, w, bias, listed = arrays[:4]
    assert x is not None and w is not None and listed is not None
    y = call.outputs[0]
    out = np.zeros(y.logical_shape, narrow(np.zeros(1, np.float32), y.dtype).dtype)
    at = 0
    for g, rows in enumerate(group_sizes(listed.tolist(), int(call.attr("group_list_type", 0)))):
        acc = product(x[at : at + rows], w[g], transpose_b=bool(call.attr("transpose_weight", False)))
        if bias is not None:
            acc = acc + float32(bias[g])
        out[at : at + rows] = narrow(acc, y.dtype)
        at += rows
    return [out]


define("GroupedMatmul", "matmul", "x weight bias? group_list", _infer, _values)
