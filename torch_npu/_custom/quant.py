"""Quantised products: npu_dynamic_quant, npu_quant_matmul, npu_quantize, npu_grouped_matmul."""

from __future__ import annotations

from typing import Any

import torch

from torch_npu._custom._define import define

__all__ = ["npu_dynamic_quant", "npu_grouped_matmul", "npu_quant_matmul", "npu_quantize"]


def _dynamic(x: torch.Tensor, *, smooth_scales: Any = None) -> Any:
    wide = x.float() if smooth_scales is None else x.float() * smooth_scales.float()
    scale = wide.abs().amax(-1) / 127.0
    return torch.clamp(torch.round(wide / scale[..., None]), -128, 127).to(torch.int8), scale


def _quant_matmul(x1: torch.Tensor, x2: torch.Tensor, scale: torch.Tensor, *, offset: Any = None,
                  pertoken_scale: Any = None, bias: Any = None, output_dtype: Any = None) -> torch.Tensor:  # fmt: skip
    total = torch.matmul(x1.int(), x2.int())
    if bias is not None and bias.dtype == torch.int32:
        total = total + bias
    wide = total.float() * scale.float()
    if pertoken_scale is not None:
        wide = wide * pertoken_scale.float()[:, None]
    if bias is not None and bias.dtype != torch.int32:
        wide = wide + bias.float()
    dtype = torch.int8 if output_dtype is None else output_dtype
    if dtype == torch.int8:
        wide = torch.clamp(torch.round(wide + (0 if offset is None else offset.float())), -128, 127)
    return wide.to(dtype)


def _quantize(x: torch.Tensor, scales: torch.Tensor, zero_points: Any = None, dtype: Any = torch.int8, axis: int = 1,
              div_mode: bool = True) -> torch.Tensor:  # fmt: skip
    shape = [1] * x.dim()
    shape[axis] = -1
    factor = scales.float().reshape(shape)
    y = x.float() / factor if div_mode else x.float() * factor
    if zero_points is not None:
        y = y + zero_points.float().reshape(shape)
    return torch.clamp(torch.round(y), -128, 127).to(torch.int8)


def _grouped(
    x: list[torch.Tensor],
    weight: list[torch.Tensor],
    *,
    bias: Any = None,
    group_list: Any = None,
    split_item: Any = 0,
    group_type: Any = -1,
    group_list_type: Any = 0,
    output_dtype: Any = None,
) -> Any:
    def one(a: torch.Tensor, w: torch.Tensor, i: int) -> torch.Tensor:
        y = torch.matmul(a, w)
        return y if not bias else y + bias[i]

    if group_list is None:
        return [one(a, w, i) for i, (a, w) in enumerate(zip(x, weight, strict=True))]
    ends = group_list.tolist()
    if group_list_type == 1:
        total, sums = 0, []
        for n in ends:
            total += n
            sums.append(total)
        ends = sums
    whole = x[0] if len(x) == 1 else torch.cat(list(x))
    weights = list(weight[0]) if len(weight) == 1 and weight[0].dim() == 3 else list(weight)
    parts, begin = [], 0
    for i, end in enumerate(ends):
        parts.append(one(whole[begin:end], weights[i], i))
        begin = end
    return [torch.cat(parts)] if split_item in (2, 3) else parts


npu_dynamic_quant = define(
    "npu_dynamic_quant(Tensor input, *, Tensor? smooth_scales=None) -> (Tensor, Tensor)", _dynamic, gradient=False
)
npu_quant_matmul = define(
    "npu_quant_matmul(Tensor x1, Tensor x2, Tensor scale, *, Tensor? offset=None, Tensor? pertoken_scale=None, "
    "Tensor? bias=None, ScalarType? output_dtype=None) -> Tensor",
    _quant_matmul, gradient=False,
)  # fmt: skip
npu_quantize = _quantize
npu_grouped_matmul = _grouped
