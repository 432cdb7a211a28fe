"""What the rows share: type promotion, layouts, axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from torch_npu.dispatch.plan import FLOATS, NoPlan, Plan, Scalar, T


def compute_type(*operands: Any) -> torch.dtype:
    """The type torch computes in: its promotion of tensors, 0-d tensors and numbers."""
    reals = [x.real if isinstance(x, T | Scalar) else x for x in operands]
    if len(reals) == 1:
        return reals[0].dtype if isinstance(reals[0], torch.Tensor) else torch.result_type(torch.empty(0), reals[0])
    if not any(isinstance(x, torch.Tensor) for x in reals[:2]):
        reals[0] = torch.tensor(reals[0])
    dtype = torch.result_type(reals[0], reals[1])
    if len(reals) > 2:
        tensors = [x for x in reals if isinstance(x, torch.Tensor) and x.dim() > 0] or reals
        dtype = tensors[0].dtype if isinstance(tensors[0], torch.Tensor) else dtype
        for x in tensors[1:]:
            if isinstance(x, torch.Tensor):
                dtype = torch.promote_types(dtype, x.dtype)
    return dtype


def float_type(x: T) -> torch.dtype:
    """Type of functions that give real numbers for integers too."""
    return x.dtype if x.dtype in FLOATS else torch.get_default_dtype()


def same_layout(plan: Plan, x: T) -> tuple[T, Callable[[T], T]]:
    """A dense permuted tensor as the contiguous one its memory holds, and how to turn a result back."""
    order = None if x.is_contiguous else x.dense_order()
    if order is None or x.maker >= 0:
        return x, lambda y: y
    return _stored(plan, x, order), lambda y: plan.seen_as(y, x.shape, x.strides)


def _stored(plan: Plan, x: T, order: tuple[int, ...]) -> T:
    return plan.seen_as(x, [x.shape[i] for i in order])


def binary_operands(plan: Plan, a: Any, b: Any, dtype: torch.dtype) -> tuple[Any, Any, Callable[[T], T]]:
    """Operands of a type; two tensors of the same permuted layout as what their memory holds."""
    a = plan.cast(a, dtype) if isinstance(a, T) else a
    b = plan.cast(b, dtype) if isinstance(b, T) else b
    tensors = [x for x in (a, b) if isinstance(x, T)]
    first = tensors[0]
    if not first.is_contiguous and all(x.shape == first.shape and x.strides == first.strides for x in tensors):
        order = first.dense_order()
        if order is not None:
            shape, strides = first.shape, first.strides
            a, b = (_stored(plan, x, order) if isinstance(x, T) else x for x in (a, b))
            return a, b, lambda y: plan.seen_as(y, shape, strides)
    return a, b, lambda y: y


def axis(dim: int, ndim: int) -> int:
    """An axis counted from the front; one that does not exist is for torch to complain about."""
    span = max(ndim, 1)
    if not -span <= dim < span:
        raise NoPlan("an error is due")
    return dim % span


def axes(dims: Any, ndim: int) -> list[int]:
    """Axes counted from the front; None or nothing means all."""
    if dims is None:
        return list(range(ndim))
    listed = [dims] if isinstance(dims, int) else list(dims)
    found = {axis(d, ndim) for d in listed}
    if len(found) < len(listed):
        raise NoPlan("an error is due")
    return sorted(found) if listed else list(range(ndim))
