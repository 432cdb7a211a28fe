"""Helpers: tensors joined in one storage, affinity of threads, saving in the background, versions."""

from torch_npu.utils.collect_env import get_cann_version
from torch_npu.utils.combine import get_part_combined_tensor, is_combined_tensor_valid, npu_combine_tensors
from torch_npu.utils.threads import reset_thread_affinity, save_async, set_thread_affinity

__all__ = ["get_cann_version", "get_part_combined_tensor", "is_combined_tensor_valid", "npu_combine_tensors",
           "reset_thread_affinity", "save_async", "set_thread_affinity"]  # fmt: skip
