"""Products of matrices: a transposed operand is a flag of the operator, not a copy.

Sums of a product and a scaled tensor are composed as the stock library composes them (hicann/ops-nn, hicann/ops-math,
op_api of each operator), so that half types are rounded where hardware rounds them.
"""

from __future__ import annotations

from typing import Any

import torch

from acl import _sim
from torch_npu.dispatch.plan import FLOATS, HALVES, INTEGERS, NoPlan, Plan, T, scalar_of
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


def product(plan: Plan, a: T, b: T, bias: T | None = None, wide: bool = False) -> T:
    """``wide``: a product of half types leaves the cube in float32."""
    if a.dtype != b.dtype or a.dtype not in _TYPES:
        raise NoPlan("types")
    if 0 in a.shape or 0 in b.shape:
        shape = (*a.shape[:-1], b.shape[-1])
        return plan.fill(shape, 0, torch.float32 if wide and a.dtype in HALVES else a.dtype)
    left, ta = operand(plan, a)
    right, tb = operand(plan, b)
    dtype = a.dtype
    kind = {"y_dtype": "float32"} if wide and dtype in HALVES else {}
    if dtype in INTEGERS or dtype == torch.float64:
        # the cube unit has no such types: the products go through the vector units
        result = plan.op("MatMulWide", [left, right], transpose_x1=ta, transpose_x2=tb)
    elif a.ndim == 2:
        result = plan.op("MatMulV2", [left, right, bias], transpose_x1=ta, transpose_x2=tb, **kind)
    else:
        result = plan.op("BatchMatMulV2", [left, right, bias], adj_x1=ta, adj_x2=tb, **kind)
    return result


def _into(a: T, out_dtype: Any) -> bool:
    """Whether sums leave the cube in float32 because the caller wants them so."""
    if out_dtype is None or out_dtype == a.dtype:
        return False
    if out_dtype != torch.float32 or a.dtype not in HALVES or not _sim.soc().chip.split_cores:
        raise NoPlan("out_dtype")
    return True


@row("mm")
def mm(plan: Plan, self: T, mat2: T, out_dtype: Any = None) -> Any:
    return product(plan, self, mat2, wide=_into(self, out_dtype))


@row("bmm")
def bmm(plan: Plan, self: T, mat2: T, out_dtype: Any = None) -> Any:
    return product(plan, self, mat2, wide=_into(self, out_dtype))


def scaled(plan: Plan, x: T, factor: Any) -> T:
    return x if factor == 1 else plan.op("Muls", [x], loose=("value",), value=factor)


def _added(plan: Plan, self: T, result: T, alpha: Any, beta: Any) -> T:
    """``beta * self + alpha * result`` in the wider type of both: ``self`` is scaled in its own type, the factor of the
    product goes into an Axpy."""
    if beta == 0:
        return scaled(plan, result, alpha)
    first = scaled(plan, self, beta)
    dtype = torch.promote_types(first.dtype, result.dtype)
    first, result = plan.cast(first, dtype), plan.cast(result, dtype)
    if alpha == 1 or dtype not in FLOATS - {torch.float64}:
        return plan.op("Add", [scaled(plan, result, alpha), first])
    return plan.op("Axpy", [first, result], loose=("alpha",), alpha=float(alpha))


@row("addmm")
def addmm(plan: Plan, self: T, mat1: T, mat2: T, beta: Any = 1, alpha: Any = 1, out_dtype: Any = None) -> Any:
    if out_dtype is not None:
        raise NoPlan("out_dtype")
    alpha, beta = number(alpha), number(beta)
    n = mat2.shape[1]
    simple = alpha == 1 and beta == 1 and self.dtype == mat1.dtype and mat1.dtype in FLOATS - {torch.float64}
    if simple and self.shape in ((n,), (1, n)) and 0 not in mat1.shape and 0 not in mat2.shape:
        return product(plan, mat1, mat2, plan.flat(self, (n,)))
    made = product(plan, mat1, mat2, wide=bool(_sim.soc().chip.split_cores))
    return plan.cast(_added(plan, self, made, alpha, beta), mat1.dtype)


@row("_addmm_activation")
def addmm_activation(
    plan: Plan, self: T, mat1: T, mat2: T, beta: Any = 1, alpha: Any = 1, use_gelu: bool = False
) -> Any:
    x = addmm(plan, self, mat1, mat2, beta, alpha)
    return plan.op("GeluV2", [x], approximate="none") if use_gelu else plan.op("Relu", [x])


@row("baddbmm")
def baddbmm(plan: Plan, self: T, batch1: T, batch2: T, beta: Any = 1, alpha: Any = 1, out_dtype: Any = None) -> Any:
    """Chips with separate cube and vector cores add half types to the product's float32 sums and round then."""
    if out_dtype is not None:
        raise NoPlan("out_dtype")
    made = product(plan, batch1, batch2, wide=bool(_sim.soc().chip.split_cores))
    return plan.cast(_added(plan, self, made, number(alpha), number(beta)), batch1.dtype)


@row("addbmm")
def addbmm(plan: Plan, self: T, batch1: T, batch2: T, beta: Any = 1, alpha: Any = 1) -> Any:
    """The products of the batch are rounded before they are summed; bfloat16 is added in float32."""
    total = plan.op("ReduceSumD", [product(plan, batch1, batch2)], axes=[0], keep_dims=False)
    kind = total.dtype
    if kind == torch.bfloat16:
        self = plan.cast(self, torch.float32)
    return plan.cast(_added(plan, self, total, number(alpha), number(beta)), kind)


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
    """``alpha`` scales the first vector, not the outer product; both factors are rounded to the type."""
    n, m = vec1.shape[0], vec2.shape[0]
    dtype = torch.promote_types(torch.promote_types(vec1.dtype, vec2.dtype), self.dtype)
    if dtype not in _TYPES:
        raise NoPlan("type")
    alpha, beta = number(alpha), number(beta)
    column = plan.flat(plan.cast(vec1, dtype), (n, 1))
    if alpha != 1:
        column = plan.op("Mul", [column, scalar_of(alpha)])
    outer = plan.op("Mul", [column, plan.flat(plan.cast(vec2, dtype), (1, m))])
    if beta == 0:
        return outer
    first = plan.cast(self, dtype)
    return plan.op("Add", [first if beta == 1 else plan.op("Mul", [first, scalar_of(beta)]), outer])
