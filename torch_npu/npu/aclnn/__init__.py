"""``torch.npu.aclnn``: the library of operators' host interfaces."""

from torch_npu.npu.aclnn import backends
from torch_npu.npu.aclnn.backends import version

__all__ = ["backends", "version"]
