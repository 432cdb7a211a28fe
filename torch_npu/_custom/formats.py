"""Storage formats: tensors keep the plain layout here, the format that a program asked for is remembered."""

from __future__ import annotations

import warnings
import weakref
from typing import Any

import torch

from torch_npu.npu.options import get_option
from torch_npu.utils.combine import npu_change_data_ptr

__all__ = [
    "copy_memory_",
    "empty_with_format",
    "empty_with_swapped_memory",
    "get_npu_format",
    "get_storage_size",
    "npu_change_data_ptr",
    "npu_dtype_cast",
    "npu_format_cast",
    "npu_format_cast_",
]  # fmt: skip

# aclFormat numbers
ND, NCHW, NHWC, NC1HWC0, FRACTAL_Z, FRACTAL_NZ = 2, 0, 1, 3, 4, 29
_KNOWN = {-1, 0, 1, 2, 3, 4, 12, 27, 29, 30, 32, 33}
_PLAIN = {-1, 0, 1, 2, 27, 30}
_by_id: dict[int, tuple[Any, int]] = {}


def _remember(tensor: torch.Tensor, number: int) -> None:
    key = id(tensor)
    _by_id[key] = (weakref.ref(tensor, lambda _: _by_id.pop(key, None)), number)


def get_npu_format(tensor: torch.Tensor) -> int:
    """The format number of a tensor (aclFormat): NCHW for four axes, else ND, unless it was cast."""
    found = _by_id.get(id(tensor))
    if found is not None and found[0]() is tensor:
        return found[1]
    return NCHW if tensor.dim() == 4 else ND


def _allowed(tensor: torch.Tensor, number: int) -> int:
    """Blocked formats need ``torch.npu.config.allow_internal_format``; without it a tensor keeps the plain one."""
    if number in _PLAIN or get_option("ALLOW_INTERNAL_FORMAT") == "enable":
        return number
    warnings.warn(
        "Cannot create tensor with internal format while allow_internel_format=False, "
        "tensor will be created with base format.",
        UserWarning,
        stacklevel=3,
    )
    return NCHW if tensor.dim() == 4 else ND


def npu_format_cast(tensor: torch.Tensor, acl_format: Any, customize_dtype: Any = None, **_: Any) -> torch.Tensor:
    """A tensor with the same values in another storage format. The storage stays plain: what a kernel would read in
    blocks is laid out when it runs."""
    number = int(acl_format) if not isinstance(acl_format, torch.Tensor) else get_npu_format(acl_format)
    if number not in _KNOWN:
        raise RuntimeError(f"unknown format {number}; expected one of {sorted(_KNOWN)}, error code is 100002")
    number = _allowed(tensor, number)
    result = tensor.clone() if not tensor.requires_grad else tensor * 1
    _remember(result, number)
    return result


def npu_format_cast_(tensor: torch.Tensor, acl_format: Any) -> torch.Tensor:
    number = int(acl_format) if not isinstance(acl_format, torch.Tensor) else get_npu_format(acl_format)
    _remember(tensor, _allowed(tensor, number))
    return tensor


def npu_dtype_cast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return tensor.to(dtype)


def empty_with_format(size: Any, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None,
                      acl_format: int = 2, **_: Any) -> torch.Tensor:  # fmt: skip
    result = torch.empty(size, dtype=dtype, device=device or "npu")
    _remember(result, acl_format)
    return result


def empty_with_swapped_memory(size: Any, *, dtype: Any = None, device: Any = None) -> torch.Tensor:
    """Memory of the host that the device reaches; here it is device memory."""
    return torch.empty(size, dtype=dtype, device=device or "npu")


def get_storage_size(tensor: torch.Tensor) -> int:
    """Elements of the storage."""
    return tensor.untyped_storage().nbytes() // max(tensor.element_size(), 1)


def copy_memory_(target: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    if target.dtype != source.dtype:
        raise RuntimeError("input tensors of copy_memory_ should have same dtype")
    return target.copy_(source, non_blocking)
