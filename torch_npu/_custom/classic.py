"""Operators that networks written for the first NPUs call: padding, slices, losses, gated units, packed signs."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from torch_npu._custom._define import define

__all__ = ["npu_bounding_box_decode", "npu_bounding_box_encode", "npu_conv3d", "npu_geglu", "npu_group_norm_silu",
           "npu_indexing", "npu_pad", "npu_sign_bits_pack", "npu_sign_bits_unpack", "npu_silu_",
           "npu_softmax_cross_entropy_with_logits", "scatter_update", "scatter_update_"]  # fmt: skip


def _pad(x: torch.Tensor, paddings: list[int]) -> torch.Tensor:
    """Zeros around ``x``: (before, after) of the first axis first."""
    pairs = [paddings[i : i + 2] for i in range(0, len(paddings), 2)]
    return functional.pad(x, [n for pair in reversed(pairs) for n in pair])


def _indexing(x: torch.Tensor, begin: list[int], end: list[int], strides: list[int], begin_mask: int = 0,
              end_mask: int = 0, ellipsis_mask: int = 0, new_axis_mask: int = 0,
              shrink_axis_mask: int = 0) -> torch.Tensor:  # fmt: skip
    """Strided slice of the leading axes; bits of the masks leave out a begin or an end, or drop the axis."""
    if ellipsis_mask or new_axis_mask:
        raise RuntimeError("npu_indexing: ellipsis_mask and new_axis_mask are not supported")
    chosen: list[Any] = []
    for i, (first, last, step) in enumerate(zip(begin, end, strides, strict=True)):
        if shrink_axis_mask >> i & 1:
            chosen.append(first)
        else:
            chosen.append(slice(None if begin_mask >> i & 1 else first, None if end_mask >> i & 1 else last, step))
    return x[tuple(chosen)].clone()


def _geglu(x: torch.Tensor, dim: int = -1, approximate: int = 1, activate_left: bool = False) -> Any:
    """One half of ``x`` times the gelu of the other, and that gelu; ``approximate`` 1 is the tanh form."""
    left, right = x.chunk(2, dim)
    gated, other = (left, right) if activate_left else (right, left)
    gelu = functional.gelu(gated, approximate="tanh" if approximate else "none")
    return other * gelu, gelu


def _group_norm_silu(x: torch.Tensor, weight: Any, bias: Any, group: int, eps: float = 1e-5) -> Any:
    """silu(group_norm(x)), and mean and reciprocal deviation of every group."""
    n, c = x.shape[:2]
    y, mean, deviation = torch.native_group_norm(x, weight, bias, n, c, x.numel() // max(n * c, 1), group, eps)
    return functional.silu(y), mean, deviation


def _pack(x: torch.Tensor, size: int) -> torch.Tensor:
    """Eight signs (not negative: 1) a byte, the first in the lowest bit; ``size`` rows."""
    bits = (x >= 0).to(torch.int32)
    bits = functional.pad(bits, (0, -bits.numel() % 8)).reshape(-1, 8)
    weights = torch.tensor([1 << i for i in range(8)], dtype=torch.int32, device=x.device)
    return (bits * weights).sum(-1).to(torch.uint8).reshape(size, -1)


def _unpack(x: torch.Tensor, size: int, dtype: Any) -> torch.Tensor:
    """1 or -1 for every bit of the bytes of ``x``, lowest first; ``size`` rows."""
    weights = torch.tensor([1 << i for i in range(8)], dtype=torch.uint8, device=x.device)
    bits = torch.bitwise_and(x.reshape(-1, 1), weights).ne(0).to(dtype)
    return (bits * 2 - 1).reshape(size, -1)


def _cross_entropy(features: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Cross entropy of every row with a distribution over the classes."""
    return -(labels * functional.log_softmax(features, dim=1)).sum(1)


def _scattered(x: torch.Tensor, indices: torch.Tensor, updates: torch.Tensor, axis: int) -> torch.Tensor:
    """``x`` with ``updates`` from position ``indices[i]`` of ``axis`` on, for every entry i of the first axis."""
    at = axis % x.dim()
    places = indices.reshape(-1, 1) + torch.arange(updates.shape[at], device=x.device)
    shape = [1] * x.dim()
    shape[0], shape[at] = places.shape
    return x.scatter(at, places.reshape(shape).expand(updates.shape).long(), updates)


def _box(box: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Centre, width and height of boxes (x1, y1, x2, y2), whose last pixel belongs to them."""
    x1, y1, x2, y2 = box.unbind(-1)
    return (x1 + x2) * 0.5, (y1 + y2) * 0.5, x2 - x1 + 1, y2 - y1 + 1


def _encode(anchor: torch.Tensor, truth: torch.Tensor, *numbers: float) -> torch.Tensor:
    """Distances of boxes from anchors, as detectors learn them: less the means, over the deviations."""
    px, py, pw, ph = _box(anchor.float())
    gx, gy, gw, gh = _box(truth.float())
    deltas = torch.stack(((gx - px) / pw, (gy - py) / ph, torch.log(gw / pw), torch.log(gh / ph)), -1)
    return _scaled(deltas, numbers, encode=True).to(anchor.dtype)


def _scaled(deltas: torch.Tensor, numbers: Any, encode: bool) -> torch.Tensor:
    means = torch.tensor(numbers[:4], device=deltas.device)
    deviations = torch.tensor(numbers[4:8], device=deltas.device)
    return (deltas - means) / deviations if encode else deltas * deviations + means


def _decode(rois: torch.Tensor, deltas: torch.Tensor, *rest: Any) -> torch.Tensor:
    """Boxes from anchors and distances, inside of an image of ``max_shape`` (height, width)."""
    *numbers, shape, clip = rest
    px, py, pw, ph = _box(rois.float())
    dx, dy, dw, dh = _scaled(deltas.float(), numbers, encode=False).unbind(-1)
    ratio = abs(torch.log(torch.tensor(clip)).item())
    gw, gh = pw * dw.clamp(-ratio, ratio).exp(), ph * dh.clamp(-ratio, ratio).exp()
    gx, gy = px + pw * dx, py + ph * dy
    high, wide = (n - 1 for n in shape)
    x1, x2 = (gx + s * (gw - 1) * 0.5 for s in (-1, 1))
    y1, y2 = (gy + s * (gh - 1) * 0.5 for s in (-1, 1))
    return torch.stack((x1.clamp(0, wide), y1.clamp(0, high), x2.clamp(0, wide), y2.clamp(0, high)), -1).to(rois.dtype)


npu_pad = define("npu_pad(Tensor self, int[] paddings) -> Tensor", _pad)
npu_indexing = define(
    "npu_indexing(Tensor self, int[] begin, int[] end, int[] strides, int begin_mask=0, int end_mask=0, "
    "int ellipsis_mask=0, int new_axis_mask=0, int shrink_axis_mask=0) -> Tensor", _indexing,
)  # fmt: skip
npu_geglu = define(
    "npu_geglu(Tensor self, int dim=-1, int approximate=1, bool activate_left=False) -> (Tensor, Tensor)", _geglu
)
npu_group_norm_silu = define(
    "npu_group_norm_silu(Tensor input, Tensor? weight, Tensor? bias, int group, float eps=1e-05) "
    "-> (Tensor, Tensor, Tensor)", _group_norm_silu,
)  # fmt: skip
npu_sign_bits_pack = define("npu_sign_bits_pack(Tensor self, int size) -> Tensor", _pack, gradient=False)
npu_sign_bits_unpack = define(
    "npu_sign_bits_unpack(Tensor input, int size, ScalarType dtype) -> Tensor", _unpack, gradient=False
)
npu_softmax_cross_entropy_with_logits = define(
    "npu_softmax_cross_entropy_with_logits(Tensor self, Tensor labels) -> Tensor", _cross_entropy
)
npu_conv3d = define(
    "npu_conv3d(Tensor input, Tensor weight, Tensor? bias, int[3] stride, int[3] padding, int[3] dilation, int groups) "
    "-> Tensor", functional.conv3d,
)  # fmt: skip
scatter_update = define(
    "scatter_update(Tensor self, Tensor indices, Tensor updates, int axis) -> Tensor", _scattered, gradient=False
)
_MEANS = ", ".join(f"float {name}{i}" for name in ("means", "stds") for i in range(4))
npu_bounding_box_encode = define(
    f"npu_bounding_box_encode(Tensor anchor_box, Tensor ground_truth_box, {_MEANS}) -> Tensor", _encode,
    gradient=False,
)  # fmt: skip
npu_bounding_box_decode = define(
    f"npu_bounding_box_decode(Tensor rois, Tensor deltas, {_MEANS}, int[2] max_shape, "
    "float wh_ratio_clip) -> Tensor", _decode, gradient=False,
)  # fmt: skip


def npu_silu_(x: torch.Tensor) -> torch.Tensor:
    """`torch.nn.functional.silu` in place."""
    return functional.silu(x, inplace=True)


def scatter_update_(x: torch.Tensor, indices: torch.Tensor, updates: torch.Tensor, axis: int) -> torch.Tensor:
    """`scatter_update` in place."""
    return x.copy_(_scattered(x, indices, updates, axis))
