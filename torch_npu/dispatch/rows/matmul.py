"""Products of matrices: a transposed operand is a flag of the operator, not a copy."""

from __future__ import annotations

from typing import Any

import torch

from torch_npu.dispatch.plan import FLOATS, HALVES, INTEGERS, NoPlan, Plan, T
from torch_npu.dispatch.rows.elementwise import number
from torch_npu.dispatch.table import row

_TYPES = FLOATS | INTEGERS


def operand(plan: Plan, x: T) -> tuple[T, bool]:
    """The matrix as it lies in memory, and whether it is transposed there."""
    if x.ndim >= 2 and not x.is_contiguous:
        swapped = T((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype, (*x.strides[:-2], x.strides[-1], x.strides[-2]))
        if swapped.is_contiguous:
            return plan.seen_as(x, swapped.shape), True
    return plan.contiguous(x), False


def product(plan: Plan, a: T, b: T, bias: T | None = None) -> T:
    if a.dtype != b.dtype or a.dtype not in _TYPES:
        raise NoPlan("types")
    if 0 in a.shape or 0 in b.shape:
        shape = (*a.shape[:-1], b.shape[-1])
        return plan.fill(shape, 0, a.dtype)
    left, ta = operand(plan, a)
    right, tb = operand(plan, b)
    dtype = a.dtype
    if dtype in INTEGERS or dtype == torch.float64:
        # the cube unit has no such types: the products go through the vector units
        result = plan.op("MatMulWide", [left, right], transpose_x1=ta, transpose_x2=tb)
    elif a.ndim == 2:
        result = plan.op("MatMulV2", [left, right, bias], transpose_x1=ta, transpose_x2=tb)
    else:
        result = plan.op("BatchMatMulV2", [left, right, bias], adj_x1=ta, adj_x2=tb)
    return result


@row("mm")
def mm(plan: Plan, self: T, mat2: T, out_dtype: Any = None) -> Any:
    if out_dtype is not None:
        raise NoPlan("out_dtype")
    return product(plan, self, mat2)


@row("bmm")
def bmm(plan: Plan, self: T, mat2: T, out_dtype: Any = None) -> Any:
    if out_dtype is not None:
        raise NoPlan("out_dtype")
    return product(plan, self, mat2)


def scaled(plan: Plan, x: T, factor: Any) -> T:
    return x if factor == 1 else plan.op("Muls", [x], loose=("value",), value=factor)


def _added(plan: Plan, self: T, result: T, alpha: Any, beta: Any) -> T:
    result = scaled(plan, result, alpha)
    if beta == 0:
        return result
    return plan.op("Add", [result, plan.cast(scaled(plan, self, beta), result.dtype)])


@row("addmm")
def addmm(plan: Plan, self: T, mat1: T, mat2: T, beta: Any = 1, alpha: Any = 1, out_dtype: Any = None) -> Any:
    if out_dtype is not None:
        raise NoPlan("out_dtype")
    alpha, beta = number(alpha), number(beta)
    n = mat2.shape[1]
    simple = alpha == 1 and beta == 1 and self.dtype == mat1.dtype and mat1.dtype in FLOATS - {torch.float64}
    if simple and self.shape in ((n,), (1, n)) and 0 not in mat1.shape and 0 not in mat2.shape:
        return product(plan, mat1, mat2, plan.flat(self, (n,)))
    if mat1.dtype in HALVES and self.dtype == mat1.dtype == mat2.dtype and beta != 0 and mat1.numel and mat2.numel:
        left, ta = operand(plan, mat1)
        right, tb = operand(plan, mat2)
        added = plan.broadcast(self, (mat1.shape[0], n))
        return plan.op(
            "GEMM", [left, right, added], transpose_a=ta, transpose_b=tb, alpha=float(alpha), beta=float(beta)
        )
    return _added(plan, self, product(plan, mat1, mat2), alpha, beta)


@row("_addmm_activation")
def addmm_activation(
    plan: Plan, self: T, mat1: T, mat2: T, beta: Any = 1, alpha: Any = 1, use_gelu: bool = False
) -> Any:
    x = addmm(plan, self, mat1, mat2, beta, alpha)
    return plan.op("GeluV2", [x], approximate="none") if use_gelu else plan.op("Relu", [x])


@row("baddbmm")
def baddbmm(plan: Plan, self: T, batch1: T, batch2: T, beta: Any = 1, alpha: Any = 1, out_dtype: Any = None) -> Any:
    if out_dtype is not None:
        raise NoPlan("out_dtype")
    return _added(plan, self, product(plan, batch1, batch2), number(alpha), number(beta))


@row("addbmm")
def addbmm(plan: Plan, self: T, batch1: T, batch2: T, beta: Any = 1, alpha: Any = 1) -> Any:
    total = plan.op("ReduceSumD", [product(plan, batch1, batch2)], axes=[0], keep_dims=False)
    return _added(plan, self, total, number(alpha), number(beta))


@row("mv")
def mv(plan: Plan, self: T, vec: T) -> Any:
    column = plan.flat(vec, (vec.shape[0], 1))
    return plan.flat(product(plan, self, column), (self.shape[0],))


@row("addmv")
def addmv(plan: Plan, self: T, mat: T, vec: T, beta: Any = 1, alpha: Any = 1) -> Any:
    return _added(plan, self, mv(plan, mat, vec), number(alpha), number(beta))


@row("dot", "vdot")
def dot(plan: Plan, self: T, tensor: T | None = None, other: T | None = None) -> Any:
    right = tensor if tensor is not None else other
    assert right is not None
    n = self.shape[0]
    if self.shape != right.shape:
        raise NoPlan("an error is due")
    return plan.flat(product(plan, plan.flat(self, (1, n)), plan.flat(right, (n, 1))), ())


@row("addr")
def addr(plan: Plan, self: T, vec1: T, vec2: T, beta: Any = 1, alpha: Any = 1) -> Any:
    n, m = vec1.shape[0], vec2.shape[0]
    dtype = torch.promote_types(vec1.dtype, vec2.dtype)
    if dtype not in _TYPES:
        raise NoPlan("type")
    outer = plan.op("Mul", [plan.flat(plan.cast(vec1, dtype), (n, 1)), plan.flat(plan.cast(vec2, dtype), (1, m))])
    return _added(plan, self, outer, number(alpha), number(beta))
