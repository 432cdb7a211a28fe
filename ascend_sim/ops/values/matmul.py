"""Matrix products: MatMul, BatchMatMul, FullyConnection and GEMM."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ascend_sim.ops.dtypes import HALF
from ascend_sim.ops.registry import Array
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, broadcast, like, need, optional, rank, text
from ascend_sim.ops.values._cache import prepared
from ascend_sim.ops.values._cube import blas_type, check_extras, finish, output_dtype
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._numeric import narrow, widen

_DECLARED = 3  # x1, x2, bias: what an epilogue adds comes after these


def _infer(transposes: tuple[str, str], *, batch: bool) -> Any:
    """``y_dtype`` "float32": the sums of a product of half types leave the cube as they are, unrounded."""

    def infer(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
        a, b = need(inputs, 0, "x1"), need(inputs, 1, "x2")
        high = None if batch else 2
        sa, sb = rank(a, "x1", 2, high), rank(b, "x2", 2, high)
        m, k = sa[-2:][::-1] if attrs.get(transposes[0], False) else sa[-2:]
        kb, n = sb[-2:][::-1] if attrs.get(transposes[1], False) else sb[-2:]
        if k != kb:
            raise ShapeError(
                f"x2 is {text(b)} (K = {kb}) but x1 is {text(a)} (K = {k}); expected equal K "
                f"({', '.join(f'{t}={bool(attrs.get(t, False))}' for t in transposes)})"
            )
        bias = optional(inputs, 2)
        if bias is not None and bias.logical_shape[-1:] not in ((n,), (1,)):
            raise ShapeError(f"bias is {text(bias)}; expected [{n}]")
        check_extras(inputs, attrs, _DECLARED)
        lead = broadcast(sa[:-2], sb[:-2])
        dtype = output_dtype(a, b, ("x1", "x2"))
        wanted = attrs.get("y_dtype", dtype)
        if wanted != dtype and (wanted != "float32" or dtype not in HALF):
            raise ShapeError(f"attribute y_dtype is {wanted!r}; expected {dtype!r} for products of {text(a)}")
        fmt = like(a, (*lead, m, n), wanted)
        return [TensorSpec(fmt.shape, fmt.dtype)]

    return infer


def _operand(array: Array, kind: Any, transpose: bool) -> Array:
    wide = prepared(array, ("wide", np.dtype(kind).name), lambda a: a.astype(kind)) if array.dtype != kind else array
    return wide.swapaxes(-1, -2) if transpose else wide


def product(a: Array, b: Array, transpose_a: bool = False, transpose_b: bool = False) -> Array:
    """Matrix product in the BLAS type (not rounded); batch axes broadcast."""
    depth = a.shape[-2] if transpose_a else a.shape[-1]
    kind = blas_type(a.dtype.name, b.dtype.name, depth)
    x, y = _operand(a, kind, transpose_a), _operand(b, kind, transpose_b)
    if x.ndim > 2 and y.ndim == 2:  # one big product instead of a batch of small ones
        flat = x.reshape(-1, x.shape[-1]) @ y
        return flat.reshape(*x.shape[:-1], y.shape[-1])
    with np.errstate(all="ignore"):
        result: Array = np.matmul(x, y)
    return result


def _values(transposes: tuple[str, str]) -> Any:
    def values(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
        a, b = arrays[0], arrays[1]
        assert a is not None and b is not None
        bias = arrays[2] if len(arrays) > 2 else None
        acc = product(a, b, bool(call.attr(transposes[0], False)), bool(call.attr(transposes[1], False)))
        return [finish(acc, call, bias, arrays[_DECLARED:], acc.ndim - 1)]

    return values


for _name in ("MatMul", "MatMulV2", "MatMulV3"):
    _flags = ("transpose_x1", "transpose_x2")
    define(_name, "matmul", "x1 x2 bias?", _infer(_flags, batch=False), _values(_flags))
for _name in ("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"):
    _flags = ("adj_x1", "adj_x2")
    define(_name, "matmul", "x1 x2 bias?", _infer(_flags, batch=True), _values(_flags))


def _infer_fully_connection(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x, w = need(inputs, 0, "x"), need(inputs, 1, "w")
    axis = int(attrs.get("axis", 1))
    shape = rank(x, "x", 2)
    wo, wk = rank(w, "w", 2, 2) if not attrs.get("transpose", False) else w.logical_shape[::-1]
    k = prod(shape[axis:])
    if wk != k:
        raise ShapeError(f"w is {text(w)}; expected {k} columns for x {text(x)} from axis {axis}")
    check_extras(inputs, attrs, _DECLARED)
    return [TensorSpec((*shape[:axis], wo), output_dtype(x, w, ("x", "w")))]


def _fully_connection(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x, w = arrays[0], arrays[1]
    assert x is not None and w is not None
    axis = int(call.attr("axis", 1))
    flat = x.reshape(*x.shape[:axis], -1)
    acc = product(flat, w, transpose_b=not call.attr("transpose", False))
    bias = arrays[2] if len(arrays) > 2 else None
    return [finish(acc, call, None if bias is None else bias.reshape(-1), arrays[_DECLARED:], acc.ndim - 1)]


define("FullyConnection", "matmul", "x w b?", _infer_fully_connection, _fully_connection)


def _infer_gemm(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    a, b = need(inputs, 0, "a"), need(inputs, 1, "b")
    m, k = rank(a, "a", 2, 2)[:: -1 if attrs.get("transpose_a", False) else 1]
    kb, n = rank(b, "b", 2, 2)[:: -1 if attrs.get("transpose_b", False) else 1]
    if k != kb:
        raise ShapeError(f"b is {text(b)} (K = {kb}) but a is {text(a)} (K = {k}); expected equal K")
    c = optional(inputs, 2)
    if c is not None and broadcast((m, n), c.logical_shape, names=("a x b", "c")) != (m, n):
        raise ShapeError(f"c is {text(c)}; expected a shape that broadcasts to [{m},{n}]")
    dtype = output_dtype(a, b, ("a", "b"))
    return [TensorSpec((m, n), c.dtype if c is not None else dtype)]


def _gemm(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    a, b, c, alpha, beta = [*arrays, None, None, None][:5]
    assert a is not None and b is not None
    acc = product(a, b, bool(call.attr("transpose_a", False)), bool(call.attr("transpose_b", False)))
    scale = call.attr("alpha", 1.0) if alpha is None else float(alpha.reshape(-1)[0])
    if scale != 1.0:
        acc *= acc.dtype.type(scale)
    if c is not None:
        factor = call.attr("beta", 1.0) if beta is None else float(beta.reshape(-1)[0])
        if factor != 0.0:  # as in BLAS, c is not read then
            acc += widen(c) * acc.dtype.type(factor)
    return [narrow(acc, call.outputs[0].dtype)]


define("GEMM", "matmul", "a b c? alpha? beta?", _infer_gemm, _gemm)
