"""Extensions of torch_npu: functions and modules, and ``transfer_to_npu``, which runs scripts written for CUDA."""

from torch_npu.contrib import function, module
from torch_npu.contrib.function import fuse_add_softmax_dropout, matmul_transpose, npu_fast_condition_index_put, roll
from torch_npu.contrib.module import (
    BiLSTM,
    Focus,
    LabelSmoothingCrossEntropy,
    Mish,
    NpuCachedDropout,
    NpuDropPath,
    NpuFairseqDropout,
    Prefetcher,
    SiLU,
    Swish,
)

__all__ = ["BiLSTM", "Focus", "LabelSmoothingCrossEntropy", "Mish", "NpuCachedDropout", "NpuDropPath",
           "NpuFairseqDropout", "Prefetcher", "SiLU", "Swish", "function", "fuse_add_softmax_dropout",
           "matmul_transpose", "module", "npu_fast_condition_index_put", "roll"]  # fmt: skip
