"""Several tensors in one storage, so that one operator works on all of them."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def npu_change_data_ptr(dst: torch.Tensor, src: torch.Tensor, index: int) -> int:
    """``dst`` lies in the memory of ``src`` from element ``index`` on; its values there are what ``src`` holds."""
    size = dst.untyped_storage().nbytes()
    start = index * src.element_size()
    if start < 0 or start + size > src.untyped_storage().nbytes():
        raise RuntimeError(f"{size} bytes from byte {start} on are not within the storage of src")
    storage = src.untyped_storage()[start : start + size]
    dst.data = torch.empty(0, dtype=dst.dtype, device=dst.device).set_(storage, 0, dst.shape, dst.stride())
    return 0


def npu_combine_tensors(list_of_tensor: Sequence[torch.Tensor], require_copy_value: bool = True) -> torch.Tensor | None:
    """One flat tensor of which those given become parts, one after the other; None for none. RuntimeError when they are
    not of one type and on device npu."""
    if not list_of_tensor:
        return None
    first = list_of_tensor[0]
    for tensor in list_of_tensor:
        if tensor.device.type != "npu" or tensor.dtype != first.dtype:
            raise RuntimeError(
                f"tensors to combine must be of one type on device npu; got {tensor.dtype} on {tensor.device} "
                f"beside {first.dtype} on {first.device}"
            )
    sizes = [tensor.untyped_storage().nbytes() // tensor.element_size() for tensor in list_of_tensor]
    combined = torch.zeros(sum(sizes), dtype=first.dtype, device=first.device)
    start = 0
    for tensor, size in zip(list_of_tensor, sizes, strict=True):
        kept = tensor.detach().clone() if require_copy_value else None
        npu_change_data_ptr(tensor, combined, start)
        if kept is not None:
            tensor.data.copy_(kept)
        start += size
    return combined


def get_part_combined_tensor(combined_tensor: torch.Tensor | None, index: int, size: int) -> torch.Tensor | None:
    """``size`` elements from ``index`` on, in the same memory. RuntimeError when there are not so many."""
    if combined_tensor is None:
        return None
    if index + size > combined_tensor.numel():
        there = combined_tensor.numel()
        raise RuntimeError(f"(index + size) is {index + size}, more than the {there} elements there are")
    return combined_tensor.as_strided((size,), (1,), combined_tensor.storage_offset() + index)


def is_combined_tensor_valid(combined_tensor: torch.Tensor | None, list_of_tensor: Sequence[torch.Tensor]) -> bool:
    """Whether every tensor still lies in the memory of ``combined_tensor`` (None: of no tensors)."""
    if combined_tensor is None or combined_tensor.numel() == 0:
        return not list_of_tensor
    low = combined_tensor.data_ptr()
    high = low + combined_tensor.numel() * combined_tensor.element_size()
    return all(t is not None and low <= t.data_ptr() < high for t in list_of_tensor)
