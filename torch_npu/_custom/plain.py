"""Products, transposes and small helpers: npu_linear, npu_bmmV2, npu_transpose, npu_one_hot, float status."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from torch_npu._custom._define import define

__all__ = ["npu_alloc_float_status", "npu_bmmV2", "npu_broadcast", "npu_clear_float_status", "npu_confusion_transpose",
           "npu_get_float_status", "npu_linear", "npu_max", "npu_min", "npu_one_hot", "npu_reshape", "npu_slice",
           "npu_sort_v2", "npu_transpose"]  # fmt: skip


def _confusion(x: torch.Tensor, perm: Any, shape: Any, transpose_first: bool) -> torch.Tensor:
    if transpose_first:
        return x.permute(perm).contiguous().reshape(shape)
    return x.reshape(shape).permute(perm).contiguous()


def _one_hot(
    x: torch.Tensor, num_classes: int = -1, depth: int = 1, on_value: Any = 1, off_value: Any = 0
) -> torch.Tensor:
    classes = depth if num_classes < 0 else num_classes
    hot = functional.one_hot(x.long(), max(classes, int(x.max()) + 1 if classes < 1 else classes))
    return torch.where(
        hot.bool(), torch.full((), float(on_value)).to(x.device), torch.full((), float(off_value)).to(x.device)
    )


npu_linear = define("npu_linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
                    lambda x, w, b=None: functional.linear(x, w, b))  # fmt: skip
npu_bmmV2 = define("npu_bmmV2(Tensor self, Tensor mat2, int[] output_sizes) -> Tensor",
                   lambda a, b, s: torch.matmul(a, b).reshape(s) if s else torch.matmul(a, b))  # fmt: skip
npu_confusion_transpose = define(
    "npu_confusion_transpose(Tensor self, int[] perm, int[] shape, bool transpose_first) -> Tensor", _confusion
)
npu_transpose = define(
    "npu_transpose(Tensor self, int[] perm, bool require_contiguous=True) -> Tensor",
    lambda x, perm, require_contiguous=True: x.permute(perm).clone(memory_format=torch.contiguous_format),
)
npu_one_hot = define(
    "npu_one_hot(Tensor self, int num_classes=-1, int depth=1, Scalar on_value=1, Scalar off_value=0) -> Tensor",
    _one_hot, gradient=False,
)  # fmt: skip
npu_reshape = define(
    "npu_reshape(Tensor self, int[] shape, bool can_refresh=False) -> Tensor",
    lambda x, s, r=False: x.reshape(s).clone(),
)
npu_broadcast = define("npu_broadcast(Tensor self, int[] size) -> Tensor", lambda x, s: x.expand(s).clone())
npu_slice = define(
    "npu_slice(Tensor self, int[] offsets, int[] size) -> Tensor",
    lambda x, o, s: x[tuple(slice(a, a + n) for a, n in zip(o, s, strict=True))].clone(),
)
npu_max = define("npu_max(Tensor self, int dim, bool keepdim=False) -> (Tensor, Tensor)",
                 lambda x, dim, keepdim=False: _pair(torch.max(x, dim, keepdim)), gradient=False)  # fmt: skip
npu_min = define("npu_min(Tensor self, int dim, bool keepdim=False) -> (Tensor, Tensor)",
                 lambda x, dim, keepdim=False: _pair(torch.min(x, dim, keepdim)), gradient=False)  # fmt: skip
npu_sort_v2 = define("npu_sort_v2(Tensor self, int dim=-1, bool descending=False) -> Tensor",
                     lambda x, dim=-1, descending=False: torch.sort(x, dim, descending)[0], gradient=False)  # fmt: skip


def _pair(result: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return result[0], result[1].int()


def npu_alloc_float_status(tensor: torch.Tensor) -> torch.Tensor:
    """Eight zeros: no operator reports an overflow; gradients are checked by value."""
    return torch.zeros(8, device=tensor.device)


npu_get_float_status = npu_clear_float_status = npu_alloc_float_status
