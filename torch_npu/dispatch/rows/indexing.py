"""Gathers, scatters, embeddings, losses over classes."""

from __future__ import annotations

from typing import Any

import torch

from torch_npu.dispatch.plan import FLOATS, INTEGERS, REALS, NoPlan, Plan, T
from torch_npu.dispatch.rows._common import axis
from torch_npu.dispatch.rows.elementwise import number
from torch_npu.dispatch.table import row

_INDEX = frozenset((torch.int32, torch.int64))


def _index(x: Any) -> T:
    if not isinstance(x, T) or x.dtype not in _INDEX:
        raise NoPlan("index")
    return x


@row("index_select")
def index_select(plan: Plan, self: T, dim: int, index: T) -> Any:
    index = _index(index)
    if self.ndim == 0 or not self.numel:
        raise NoPlan("scalar")
    flat = plan.flat(index, (index.numel,))
    return plan.op("GatherV2D", [self, flat], axis=axis(dim, self.ndim))


@row("embedding")
def embedding(plan: Plan, weight: T, indices: T, **_: Any) -> Any:
    if weight.ndim != 2:
        raise NoPlan("an error is due")
    return plan.op("GatherV2D", [weight, _index(indices)], axis=0)


@row("embedding_dense_backward")
def embedding_backward(plan: Plan, grad_output: T, indices: T, num_weights: int, padding_idx: int,
                       scale_grad_by_freq: bool) -> Any:  # fmt: skip
    if not grad_output.numel:
        return plan.fill((num_weights, grad_output.shape[-1]), 0, grad_output.dtype)
    return plan.op("EmbeddingDenseGrad", [grad_output, _index(indices)], num_weights=num_weights,
                   padding_idx=padding_idx, scale_grad_by_freq=bool(scale_grad_by_freq))  # fmt: skip


@row("gather")
def gather(plan: Plan, self: T, dim: int, index: T, sparse_grad: bool = False) -> Any:
    index = _index(index)
    if self.ndim == 0 or index.ndim != self.ndim:
        raise NoPlan("scalar")
    at = axis(dim, self.ndim)
    cut = self
    if any(n != m for i, (n, m) in enumerate(zip(self.shape, index.shape, strict=True)) if i != at):
        if any(m > n for i, (n, m) in enumerate(zip(self.shape, index.shape, strict=True)) if i != at):
            raise NoPlan("an error is due")
        sizes = [n if i == at else m for i, (n, m) in enumerate(zip(self.shape, index.shape, strict=True))]
        cut = plan.op("SliceD", [self], offsets=[0] * self.ndim, size=sizes)
    return plan.op("GatherElements", [cut, index], dim=at)


@row("_nonzero")
def nonzero(plan: Plan, self: T) -> Any:
    """Room for as many rows as there are elements, and how many of them count."""
    if not self.numel or not self.ndim or self.dtype not in REALS:
        raise NoPlan("empty")
    return plan.op("NonZero", [self], padded=True)


@row("take")
def take(plan: Plan, self: T, index: T) -> Any:
    if not self.numel:
        raise NoPlan("empty")
    return plan.op("Take", [self, _index(index)])


def _indices(plan: Plan, self: T, indices: list[Any]) -> tuple[list[int], list[T]]:
    flags, tensors = [], []
    for item in indices:
        if item is None:
            flags.append(0)
            continue
        flags.append(1)
        tensors.append(_index(item))
    if not tensors or len({t.dtype for t in tensors}) > 1:
        raise NoPlan("indices")
    return flags, tensors


@row("index", "_unsafe_index", overloads="Tensor Tensor_out")
def index(plan: Plan, self: T, indices: list[Any]) -> Any:
    if self.dtype not in REALS:
        raise NoPlan("type")
    flags, tensors = _indices(plan, self, indices)
    if not self.numel:
        raise NoPlan("empty")
    return plan.op("Index", [self, *tensors], indexed_sizes=flags)


@row("_index_put_impl", "index_put")
def index_put(
    plan: Plan, self: T, indices: list[Any], values: Any, accumulate: bool = False, unsafe: bool = False
) -> Any:
    if self.dtype not in REALS or not isinstance(values, T):
        raise NoPlan("type")
    flags, tensors = _indices(plan, self, indices)
    if not self.numel:
        raise NoPlan("empty")
    return plan.op("IndexPutV2", [self, plan.cast(values, self.dtype), *tensors], indexed_sizes=flags,
                   accumulate=bool(accumulate))  # fmt: skip


def _axis_of(self: T, dim: int, *others: Any) -> int:
    if self.ndim == 0 or self.dtype not in REALS:
        raise NoPlan("scalar")
    return axis(dim, self.ndim)


@row("index_add")
def index_add(plan: Plan, self: T, dim: int, index: T, source: T, alpha: Any = 1) -> Any:
    at = _axis_of(self, dim)
    if source.dtype != self.dtype or self.dtype == torch.bool or source.ndim != self.ndim:
        raise NoPlan("type")
    flat = plan.flat(_index(index), (index.numel,))
    return plan.op("InplaceIndexAdd", [self, flat, source], dim=at, alpha=number(alpha))


@row("index_copy")
def index_copy(plan: Plan, self: T, dim: int, index: T, source: T) -> Any:
    at = _axis_of(self, dim)
    if source.dtype != self.dtype or source.ndim != self.ndim:
        raise NoPlan("type")
    return plan.op("IndexCopy", [self, plan.flat(_index(index), (index.numel,)), source], dim=at)


@row("index_fill")
def index_fill(plan: Plan, self: T, dim: int, index: T, value: Any) -> Any:
    at = _axis_of(self, dim)
    filled = plan.cast(value, self.dtype) if isinstance(value, T) else plan.fill((), number(value), self.dtype)
    return plan.op("IndexFill", [self, plan.flat(_index(index), (index.numel,)), filled], dim=at)


_REDUCTIONS = {None: "none", "add": "add", "multiply": "mul", "sum": "add", "prod": "mul", "amax": "max", "amin": "min"}


@row("scatter")
def scatter(plan: Plan, self: T, dim: int, index: T, src: Any = None, value: Any = None, reduce: Any = None) -> Any:
    at = _axis_of(self, dim)
    index = _index(index)
    if not index.numel:
        return self
    if index.ndim != self.ndim:
        raise NoPlan("rank")
    if isinstance(src, T):
        if src.dtype != self.dtype:
            raise NoPlan("type")
        updates = src
    else:
        updates = plan.fill((), number(src if value is None else value), self.dtype)
    return plan.op("ScatterElementsV2", [self, index, updates], dim=at, reduction=_REDUCTIONS[reduce])


@row("scatter_add")
def scatter_add(plan: Plan, self: T, dim: int, index: T, src: T) -> Any:
    return scatter(plan, self, dim, index, src, None, "add")


@row("scatter_reduce")
def scatter_reduce(plan: Plan, self: T, dim: int, index: T, src: T, reduce: str, include_self: bool = True) -> Any:
    if reduce == "mean" or not include_self or self.dtype == torch.bool:
        raise NoPlan("mean")
    return scatter(plan, self, dim, index, src, None, reduce)


@row("searchsorted", "bucketize", takes_out=True)
def searchsorted(plan: Plan, sorted_sequence: Any = None, self: Any = None, out_int32: bool = False,
                 right: bool = False, side: Any = None, sorter: Any = None, boundaries: Any = None,
                 out: Any = ()) -> Any:  # fmt: skip
    rows_ = sorted_sequence if boundaries is None else boundaries
    if sorter is not None or not isinstance(rows_, T) or rows_.dtype not in FLOATS | INTEGERS:
        raise NoPlan("sorter")
    values = plan.cast(self, rows_.dtype) if isinstance(self, T) else plan.fill((), number(self), rows_.dtype)
    if isinstance(self, T) and self.dtype != rows_.dtype:
        raise NoPlan("types")
    fits = boundaries is None and rows_.ndim == values.ndim and rows_.shape[:-1] == values.shape[:-1]
    if rows_.ndim != 1 and not fits:
        raise NoPlan("an error is due")
    if side not in ((None, "right") if right else (None, "left", "right")):
        raise NoPlan("an error is due")
    if out and out[0].dtype != (torch.int32 if out_int32 else torch.int64):
        raise NoPlan("an error is due")
    return plan.op("SearchSorted", [rows_, values], out_int32=bool(out_int32), right=bool(right) or side == "right")


@row("isin")
def isin(plan: Plan, elements: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False) -> Any:
    if not isinstance(elements, T) or not isinstance(test_elements, T) or not elements.numel or not test_elements.numel:
        raise NoPlan("numbers")
    if elements.dtype != test_elements.dtype or elements.dtype not in FLOATS | INTEGERS:
        raise NoPlan("types")
    n, m = elements.numel, test_elements.numel
    equal = plan.op("Equal", [plan.flat(elements, (n, 1)), plan.flat(test_elements, (1, m))])
    found = plan.flat(plan.op("ReduceAnyD", [equal], axes=[1], keep_dims=False), elements.shape)
    return plan.op("LogicalNot", [found]) if invert else found


# ---- losses

_HOW = ("none", "mean", "sum")


def _loss(op_type: str, parameter: str | None = None, given: str | None = None) -> Any:
    def build(plan: Plan, self: T, target: T, reduction: int = 1, **extra: Any) -> Any:
        if self.dtype not in FLOATS or target.dtype != self.dtype or not self.numel:
            raise NoPlan("types")
        attrs = {parameter: float(extra[given])} if parameter and given in extra else {}
        return plan.op(op_type, [self, target], reduction=_HOW[reduction], **attrs)

    return build


def _loss_backward(op_type: str, parameter: str | None = None, given: str | None = None) -> Any:
    def build(plan: Plan, grad_output: T, self: T, target: T, reduction: int = 1, **extra: Any) -> Any:
        if self.dtype not in FLOATS or target.dtype != self.dtype or not self.numel:
            raise NoPlan("types")
        attrs = {parameter: float(extra[given])} if parameter and given in extra else {}
        return plan.op(op_type, [self, target, grad_output], reduction=_HOW[reduction], **attrs)

    return build


for _name, _type, _parameter, _given in (
    ("mse_loss", "MseLoss", None, None), ("smooth_l1_loss", "SmoothL1LossV2", "sigma", "beta"),
    ("huber_loss", "HuberLoss", "delta", "delta"), ("soft_margin_loss", "SoftMarginLoss", None, None),
):  # fmt: skip
    row(_name)(_loss(_type, _parameter, _given))
    row(f"{_name}_backward")(_loss_backward(f"{_type}Grad", _parameter, _given))


@row("binary_cross_entropy")
def binary_cross_entropy(plan: Plan, self: T, target: T, weight: Any = None, reduction: int = 1) -> Any:
    if self.dtype not in FLOATS or target.dtype != self.dtype or not self.numel:
        raise NoPlan("types")
    return plan.op("BinaryCrossEntropy", [self, target, weight], reduction=_HOW[reduction])


@row("binary_cross_entropy_backward")
def binary_cross_entropy_backward(plan: Plan, grad_output: T, self: T, target: T, weight: Any = None,
                                  reduction: int = 1) -> Any:  # fmt: skip
    if self.dtype not in FLOATS or target.dtype != self.dtype or not self.numel:
        raise NoPlan("types")
    return plan.op("BinaryCrossEntropyGrad", [self, target, grad_output, weight], reduction=_HOW[reduction])


@row("nll_loss_forward", "nll_loss2d_forward")
def nll_loss(plan: Plan, self: T, target: T, weight: Any, reduction: int, ignore_index: int) -> Any:
    if self.dtype not in FLOATS or not self.numel or (self.ndim > 1 and not target.numel):
        raise NoPlan("types")
    return plan.op("NLLLoss", [self, _index(target), weight], reduction=_HOW[reduction], ignore_index=ignore_index)


@row("nll_loss_backward", "nll_loss2d_backward")
def nll_loss_backward(plan: Plan, grad_output: T, self: T, target: T, weight: Any, reduction: int, ignore_index: int,
                      total_weight: T) -> Any:  # fmt: skip
    if self.dtype not in FLOATS or not self.numel:
        raise NoPlan("types")
    return plan.op("NLLLossGrad", [self, grad_output, _index(target), weight, total_weight],
                   reduction=_HOW[reduction], ignore_index=ignore_index)  # fmt: skip
