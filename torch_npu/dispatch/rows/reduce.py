"""Reductions, scans, softmax, sorting."""

from __future__ import annotations

import math
from typing import Any

import torch

from torch_npu.dispatch.plan import FLOATS, INTEGERS, REALS, NoPlan, Plan, T
from torch_npu.dispatch.rows._common import axes, axis, float_type
from torch_npu.dispatch.rows.elementwise import as_bool, number
from torch_npu.dispatch.table import ROWS, Row, row


def reduce(plan: Plan, op_type: str, x: T, dims: list[int], keepdim: bool) -> T:
    if x.dtype not in REALS:
        raise NoPlan(f"type {x.dtype}")
    if x.ndim == 0:
        return plan.flat(plan.op(op_type, [plan.flat(x, (1,))], axes=[0], keep_dims=False), ())
    return plan.op(op_type, [x], axes=dims, keep_dims=bool(keepdim))


def sum_type(x: T, dtype: Any) -> torch.dtype:
    if dtype is not None:
        return dtype
    return torch.int64 if x.dtype in INTEGERS | {torch.bool} else x.dtype


@row("sum", takes_out=True)
def _sum(plan: Plan, self: T, dim: Any = None, keepdim: bool = False, dtype: Any = None, out: Any = ()) -> Any:
    if dtype is None and out:
        dtype = out[0].dtype
    x = plan.cast(self, sum_type(self, dtype))
    return reduce(plan, "ReduceSumD", x, axes(dim, x.ndim), keepdim)


@row("nansum", takes_out=True)
def nansum(plan: Plan, self: T, dim: Any = None, keepdim: bool = False, dtype: Any = None, out: Any = ()) -> Any:
    if self.dtype in FLOATS:
        zero = plan.fill((), 0, self.dtype)
        self = plan.op("SelectV2", [plan.op("IsNan", [self]), zero, self])
    return _sum(plan, self, dim, keepdim, dtype, out)


@row("mean", takes_out=True)
def mean(plan: Plan, self: T, dim: Any = None, keepdim: bool = False, dtype: Any = None, out: Any = ()) -> Any:
    dtype = dtype or (out[0].dtype if out else self.dtype)
    if dtype not in FLOATS:
        raise NoPlan("type")
    return reduce(plan, "ReduceMeanD", plan.cast(self, dtype), axes(dim, self.ndim), keepdim)


@row("prod", takes_out=True)
def prod(plan: Plan, self: T, dim: Any = None, keepdim: bool = False, dtype: Any = None, out: Any = ()) -> Any:
    if dtype is None and out:
        dtype = out[0].dtype
    x = plan.cast(self, sum_type(self, dtype))
    return reduce(plan, "ReduceProdD", x, axes(dim, x.ndim), keepdim)


def _extreme(op_type: str) -> Any:
    def build(plan: Plan, self: T, dim: Any = None, keepdim: bool = False) -> Any:
        if self.numel == 0 or self.dtype == torch.bool:
            raise NoPlan("empty or bool")
        return reduce(plan, op_type, self, axes(dim, self.ndim), keepdim)

    return build


for _name, _type in (("amax", "ReduceMaxD"), ("amin", "ReduceMinD")):
    row(_name)(_extreme(_type))


for _name, _type in (("max", "ReduceMaxD"), ("min", "ReduceMinD")):
    ROWS[_name] = Row(_extreme(_type), frozenset(("", "unary_out")))


def _with_index(op_type: str) -> Any:
    def build(plan: Plan, self: T, dim: int, keepdim: bool = False) -> Any:
        if self.numel == 0 or self.dtype not in FLOATS | INTEGERS:
            raise NoPlan("empty or type")
        x = self if self.ndim else plan.flat(self, (1,))
        index, value = plan.op(op_type, [x], dimension=axis(dim, x.ndim), keep_dims=bool(keepdim))
        if self.ndim == 0:
            index, value = plan.flat(index, ()), plan.flat(value, ())
        return value, plan.cast(index, torch.int64)

    return build


for _base, _type in (("max", "ArgMaxWithValue"), ("min", "ArgMinWithValue")):
    for _overload in ("dim", f"dim_{_base}"):
        row(f"{_base}.{_overload}")(_with_index(_type))


@row("aminmax")
def aminmax(plan: Plan, self: T, dim: Any = None, keepdim: bool = False) -> Any:
    if self.numel == 0 or self.dtype == torch.bool:
        raise NoPlan("empty or bool")
    dims = axes(dim, self.ndim)
    return reduce(plan, "ReduceMinD", self, dims, keepdim), reduce(plan, "ReduceMaxD", self, dims, keepdim)


def _arg(op_type: str) -> Any:
    def build(plan: Plan, self: T, dim: Any = None, keepdim: bool = False) -> Any:
        if self.numel == 0 or self.dtype not in FLOATS | INTEGERS:
            raise NoPlan("empty or type")
        if dim is None:
            index = plan.op(op_type, [plan.flat(self, (self.numel,))], dimension=0, dtype="int64")
            return plan.flat(index, (1,) * self.ndim if keepdim else ())
        x = self if self.ndim else plan.flat(self, (1,))
        at = axis(dim, x.ndim)
        index = plan.op(op_type, [x], dimension=at, dtype="int64")
        shape = [n for i, n in enumerate(x.shape) if i != at]
        if keepdim:
            shape.insert(at, 1)
        return plan.flat(index, shape if self.ndim else ())

    return build


for _name, _type in (("argmax", "ArgMaxD"), ("argmin", "ArgMinD")):
    row(_name)(_arg(_type))


def _logic(op_type: str) -> Any:
    def build(plan: Plan, self: T, dim: Any = None, keepdim: bool = False) -> Any:
        if dim is not None and not isinstance(dim, int) and len(dim) == 0:
            dims: list[int] = []
        else:
            dims = axes(dim, self.ndim)
        result = as_bool(plan, self)
        if dims or self.ndim == 0:
            result = reduce(plan, op_type, result, dims, keepdim)
        return plan.cast(result, torch.uint8) if self.dtype == torch.uint8 else result

    return build


for _name, _type in (("all", "ReduceAllD"), ("any", "ReduceAnyD")):
    row(_name)(_logic(_type))


# ---- variance and norms


def _variance(plan: Plan, x: T, dim: Any, correction: Any, keepdim: bool) -> tuple[T, T]:
    if x.dtype not in FLOATS or x.ndim == 0 or x.numel == 0:
        raise NoPlan("type")
    dims = axes(dim, x.ndim)
    value = 1.0 if correction is None else float(number(correction))
    if value >= math.prod(x.shape[d] for d in dims):
        raise NoPlan("a warning is due: no degrees of freedom are left")
    return plan.op("ReduceVar", [x], axes=dims, correction=value, keep_dims=bool(keepdim))


def _moments(root: bool, both: bool) -> Any:
    def build(plan: Plan, self: T, dim: Any = None, unbiased: bool = True, correction: Any = None,
              keepdim: bool = False, **_: Any) -> Any:  # fmt: skip
        if not unbiased:
            correction = 0
        variance, average = _variance(plan, self, dim, correction, keepdim)
        first = plan.op("Sqrt", [variance]) if root else variance
        return (first, average) if both else first

    return build


for _name, _root, _b in (
    ("var", False, False),
    ("std", True, False),
    ("var_mean", False, True),
    ("std_mean", True, True),
):
    row(_name)(_moments(_root, _b))


@row("norm", takes_out=True)
def norm(
    plan: Plan, self: T, p: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None, out: Any = ()
) -> Any:
    return vector_norm(plan, self, 2 if p is None else p, dim, keepdim, dtype, out)


@row("linalg_vector_norm", takes_out=True)
def vector_norm(plan: Plan, self: T, ord: Any = 2, dim: Any = None, keepdim: bool = False,
                dtype: Any = None, out: Any = ()) -> Any:  # fmt: skip
    if self.dtype not in FLOATS or self.numel == 0:
        raise NoPlan("type")
    order = float(number(ord))
    kind = dtype or self.dtype
    return reduce_norm(plan, plan.cast(self, kind), order, axes(dim, self.ndim), keepdim)


def reduce_norm(plan: Plan, x: T, order: float, dims: list[int], keepdim: bool) -> T:
    if order == math.inf:
        return reduce(plan, "ReduceMaxD", plan.op("Abs", [x]), dims, keepdim)
    if order == -math.inf:
        return reduce(plan, "ReduceMinD", plan.op("Abs", [x]), dims, keepdim)
    squeezed = x.ndim == 0
    if squeezed:
        x, dims = plan.flat(x, (1,)), [0]
    result = plan.op("LpNormV2", [x], p=order, axes=dims, keepdim=bool(keepdim))
    return plan.flat(result, ()) if squeezed else result


@row("_foreach_norm")
def foreach_norm(plan: Plan, self: list[T], ord: Any = 2, dtype: Any = None) -> Any:
    if any(x.dtype not in FLOATS or not x.numel for x in self):
        raise NoPlan("type")
    return [reduce_norm(plan, plan.cast(x, dtype or x.dtype), float(number(ord)), list(range(x.ndim)), False)
            for x in self]  # fmt: skip


@row("logsumexp")
def logsumexp(plan: Plan, self: T, dim: Any, keepdim: bool = False) -> Any:
    x = plan.cast(self, float_type(self))
    if not x.numel:
        raise NoPlan("empty")
    return reduce(plan, "ReduceLogSumExpD", x, axes(dim, x.ndim), keepdim)


# ---- scans


def _cumulative(op_type: str) -> Any:
    def build(plan: Plan, self: T, dim: int, dtype: Any = None, out: Any = ()) -> Any:
        kind = sum_type(self, dtype or (out[0].dtype if out else None))
        x = plan.cast(self, kind)
        if x.dtype not in REALS or x.dtype == torch.bool:
            raise NoPlan("type")
        if x.ndim == 0:
            return x
        return plan.op(op_type, [x], axis=axis(dim, x.ndim))

    return build


for _name, _type in (("cumsum", "CumsumD"), ("cumprod", "CumprodD")):
    row(_name, takes_out=True)(_cumulative(_type))


@row("logcumsumexp", "_logcumsumexp")
def logcumsumexp(plan: Plan, self: T, dim: int) -> Any:
    if self.ndim == 0 or self.dtype not in FLOATS:
        raise NoPlan("scalar")
    return plan.op("LogCumsumExp", [self], axis=axis(dim, self.ndim))


def _running(op_type: str) -> Any:
    def build(plan: Plan, self: T, dim: int) -> Any:
        if self.ndim == 0 or self.dtype not in FLOATS | INTEGERS:
            raise NoPlan("type")
        value, index = plan.op(op_type, [self], dim=axis(dim, self.ndim))
        return value, index

    return build


row("cummax")(_running("Cummax"))
row("cummin")(_running("Cummin"))


def _running_into(op_type: str) -> Any:
    def build(plan: Plan, self: T, values: T, indices: T, dim: int) -> Any:
        if self.ndim == 0 or self.dtype not in FLOATS | INTEGERS:
            raise NoPlan("type")
        value, index = plan.op(op_type, [self], dim=axis(dim, self.ndim))
        plan.store(value, values)
        plan.store(index, indices)
        return []

    return build


for _name, _type in (("_cummax_helper", "Cummax"), ("_cummin_helper", "Cummin")):
    row(_name, writes=True)(_running_into(_type))


# ---- softmax


def _softmax(op_type: str) -> Any:
    def build(plan: Plan, self: T, dim: int, half_to_float: bool = False) -> Any:
        x = self
        if half_to_float:
            x = plan.cast(x, torch.float32)
        if x.dtype not in FLOATS:
            raise NoPlan("type")
        if x.ndim == 0:
            return plan.flat(plan.op(op_type, [plan.flat(x, (1,))], axes=[0]), ())
        return plan.op(op_type, [x], axes=[axis(dim, x.ndim)])

    return build


row("_softmax")(_softmax("SoftmaxV2"))
row("_log_softmax")(_softmax("LogSoftmaxV2"))


@row("_softmax_backward_data")
def softmax_backward(plan: Plan, grad_output: T, output: T, dim: int, input_dtype: Any = None) -> Any:
    if output.ndim == 0:
        raise NoPlan("scalar")
    result = plan.op("SoftmaxGrad", [output, grad_output], axes=[axis(dim, output.ndim)])
    return plan.cast(result, input_dtype) if input_dtype in FLOATS else result


@row("_log_softmax_backward_data")
def log_softmax_backward(plan: Plan, grad_output: T, output: T, dim: int, input_dtype: Any = None) -> Any:
    if output.ndim == 0:
        raise NoPlan("scalar")
    result = plan.op("LogSoftmaxGrad", [grad_output, output], axes=[axis(dim, output.ndim)])
    return plan.cast(result, input_dtype) if input_dtype in FLOATS else result


# ---- sorting


@row("topk")
def topk(plan: Plan, self: T, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    if self.ndim == 0 or self.dtype not in FLOATS | INTEGERS:
        raise NoPlan("type")
    value, index = plan.op("TopKD", [self], k=k, dim=axis(dim, self.ndim), largest=bool(largest),
                           indices_dtype="int64")  # fmt: skip
    return value, index


@row("sort")
def sort(plan: Plan, self: T, dim: int = -1, descending: bool = False, stable: Any = None) -> Any:
    if self.ndim == 0 or self.dtype not in FLOATS | INTEGERS:
        raise NoPlan("type")
    value, index = plan.op("Sort", [self], axis=axis(dim, self.ndim), descending=bool(descending))
    return value, plan.cast(index, torch.int64)


@row("argsort")
def argsort(plan: Plan, self: T, dim: int = -1, descending: bool = False, stable: Any = None) -> Any:
    return sort(plan, self, dim, descending, stable)[1]


@row("trace")
def trace(plan: Plan, self: T) -> Any:
    if self.dtype not in REALS:
        raise NoPlan("type")
    return plan.op("Trace", [plan.cast(self, sum_type(self, None))])


@row("count_nonzero")
def count_nonzero(plan: Plan, self: T, dim: Any = None) -> Any:
    mask = plan.cast(as_bool(plan, self), torch.int64)
    return reduce(plan, "ReduceSumD", mask, axes(dim, self.ndim), False)
