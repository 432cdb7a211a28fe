"""Copies, fills, views that need memory, joining and splitting."""

from __future__ import annotations

from typing import Any

import torch

from torch_npu.dispatch.plan import FLOATS, REALS, NoPlan, Plan, T
from torch_npu.dispatch.rows._common import axes, axis
from torch_npu.dispatch.rows.elementwise import number
from torch_npu.dispatch.table import row


@row("_copy_from", writes=True)
def copy_from(plan: Plan, self: T, dst: T, non_blocking: bool = False) -> Any:
    plan.store(plan.cast(self, dst.dtype), dst)
    return [dst]


@row("fill")
def fill(plan: Plan, self: T, value: Any) -> Any:
    if isinstance(value, T):
        return plan.broadcast(plan.cast(value, self.dtype), self.shape)
    if self.dtype not in REALS:
        raise NoPlan("type")
    return plan.fill(self.shape, number(value), self.dtype)


@row("zero")
def zero(plan: Plan, self: T) -> Any:
    return plan.fill(self.shape, 0, self.dtype)


@row("masked_fill")
def masked_fill(plan: Plan, self: T, mask: T, value: Any) -> Any:
    if not isinstance(mask, T) or mask.dtype != torch.bool:
        raise NoPlan("mask")
    shape = torch.broadcast_shapes(self.shape, mask.shape)
    filled = plan.cast(value, self.dtype) if isinstance(value, T) else plan.fill((), number(value), self.dtype)
    if shape != self.shape:
        return plan.op("SelectV2", [mask, filled, plan.broadcast(self, shape)])
    return plan.op("MaskedFill", [self, mask, filled])


@row("cat")
def cat(plan: Plan, tensors: list[T], dim: int = 0) -> Any:
    kept = [t for t in tensors if t.shape != (0,)]
    if not kept:
        raise NoPlan("nothing to join")
    dtype = kept[0].dtype
    for t in tensors:
        dtype = torch.promote_types(dtype, t.dtype)
    kept = [plan.cast(t, dtype) for t in kept if t.numel]
    if not kept:
        raise NoPlan("nothing to join")
    if len(kept) == 1:
        return kept[0]
    return plan.op("ConcatD", kept, concat_dim=axis(dim, kept[0].ndim))


@row("_stack", "stack")
def stack(plan: Plan, tensors: list[T], dim: int = 0) -> Any:
    dtype = tensors[0].dtype
    for t in tensors:
        dtype = torch.promote_types(dtype, t.dtype)
    if not tensors[0].numel:
        raise NoPlan("empty")
    return plan.op("Pack", [plan.cast(t, dtype) for t in tensors], axis=dim % (tensors[0].ndim + 1))


@row("split_with_sizes_copy", overloads="")
def split_with_sizes_copy(plan: Plan, self: T, split_sizes: list[int], dim: int = 0) -> Any:
    return list(plan.op("SplitVD", [self], size_splits=list(split_sizes), split_dim=axis(dim, self.ndim)))


@row("flip")
def flip(plan: Plan, self: T, dims: list[int]) -> Any:
    if not dims:
        return self
    return plan.op("ReverseV2D", [self], axis=axes(dims, self.ndim))


@row("roll")
def roll(plan: Plan, self: T, shifts: list[int], dims: Any = ()) -> Any:
    if not self.numel or self.ndim == 0:
        return self
    return plan.op("Roll", [self], shifts=list(shifts), dims=[axis(d, self.ndim) for d in dims])


@row("repeat")
def repeat(plan: Plan, self: T, repeats: list[int]) -> Any:
    if not repeats:
        return self
    return plan.op("TileD", [self], multiples=list(repeats))


def _triangular(op_type: str) -> Any:
    def build(plan: Plan, self: T, diagonal: int = 0) -> Any:
        return plan.op(op_type, [self], diagonal=diagonal)

    return build


for _name, _type in (("tril", "Tril"), ("triu", "Triu")):
    row(_name)(_triangular(_type))


@row("constant_pad_nd")
def constant_pad_nd(plan: Plan, self: T, pad: list[int], value: Any = 0) -> Any:
    pads = [[0, 0] for _ in self.shape]
    for i in range(len(pad) // 2):
        pads[self.ndim - 1 - i] = [pad[2 * i], pad[2 * i + 1]]
    return plan.op("PadV3D", [self], paddings=pads, mode="constant", constant_values=number(value))


def _pad(mode: str) -> Any:
    def build(plan: Plan, self: T, padding: list[int]) -> Any:
        pads = [[0, 0] for _ in self.shape]
        for i in range(len(padding) // 2):
            pads[self.ndim - 1 - i] = [padding[2 * i], padding[2 * i + 1]]
        if any(p < 0 for pair in pads for p in pair):
            raise NoPlan("negative padding")
        return plan.op("PadV3D", [self], paddings=pads, mode=mode)

    return build


for _n in (1, 2, 3):
    row(f"reflection_pad{_n}d")(_pad("reflect"))
    row(f"replication_pad{_n}d")(_pad("edge"))


def _pad_backward(mode: str) -> Any:
    def build(plan: Plan, grad_output: T, self: T, padding: list[int]) -> Any:
        pads = [[0, 0] for _ in self.shape]
        for i in range(len(padding) // 2):
            pads[self.ndim - 1 - i] = [padding[2 * i], padding[2 * i + 1]]
        if any(p < 0 for pair in pads for p in pair):
            raise NoPlan("negative padding")
        return plan.op("PadV3Grad", [grad_output], paddings=pads, mode=mode, shape=list(self.shape))

    return build


for _n in (1, 2, 3):
    row(f"reflection_pad{_n}d_backward")(_pad_backward("reflect"))
    row(f"replication_pad{_n}d_backward")(_pad_backward("edge"))


# ---- made from nothing: the target says shape and type


@row("arange", overloads="start_out", takes_out=True)
def arange(plan: Plan, start: Any, end: Any, step: Any = 1, out: Any = ()) -> Any:
    target = out[0]
    start, end, step = number(start), number(end), number(step)
    if any(isinstance(v, complex) for v in (start, end, step)) or step == 0:
        raise NoPlan("complex")
    import math

    integers = all(isinstance(v, int) for v in (start, end, step))
    count = -((start - end) // step) if integers else math.ceil((end - start) / step)
    if count < 0:
        raise NoPlan("an error is due")
    if target.dtype not in REALS or target.dtype == torch.bool:
        raise NoPlan("type")
    return plan.op("ArangeD", [], start=start, step=step, count=int(count), dtype=_name(target.dtype))


@row("linspace", overloads="out", takes_out=True)
def linspace(plan: Plan, start: Any, end: Any, steps: int, out: Any = ()) -> Any:
    if out[0].dtype not in FLOATS:
        raise NoPlan("type")
    return plan.op("LinSpaceD", [], start=number(start), end=number(end), num=steps, dtype=_name(out[0].dtype))


@row("logspace", overloads="out", takes_out=True)
def logspace(plan: Plan, start: Any, end: Any, steps: int, base: float = 10.0, out: Any = ()) -> Any:
    if out[0].dtype not in FLOATS:
        raise NoPlan("type")
    return plan.op("LogSpaceD", [], start=number(start), end=number(end), num=steps, base=base,
                   dtype=_name(out[0].dtype))  # fmt: skip


@row("eye", overloads="out m_out", takes_out=True)
def eye(plan: Plan, n: int, m: int | None = None, out: Any = ()) -> Any:
    return plan.op("EyeD", [], num_rows=n, num_columns=n if m is None else m, dtype=_name(out[0].dtype))


def _name(dtype: torch.dtype) -> str:
    from torch_npu.dispatch.plan import DTYPES

    return DTYPES[dtype]
