"""Modules of ``torch_npu.contrib``, composed of ATen operators."""

from torch_npu.contrib.module.dropout import (
    DropoutWithByteMask,
    NpuCachedDropout,
    NpuDropPath,
    NpuFairseqDropout,
)
from torch_npu.contrib.module.layers import (
    BiLSTM,
    Conv,
    Focus,
    LabelSmoothingCrossEntropy,
    Mish,
    SiLU,
    Swish,
    autopad,
    fast_slice,
)
from torch_npu.contrib.module.loading import Prefetcher

__all__ = ["BiLSTM", "Conv", "DropoutWithByteMask", "Focus", "LabelSmoothingCrossEntropy", "Mish",
           "NpuCachedDropout", "NpuDropPath", "NpuFairseqDropout", "Prefetcher", "SiLU", "Swish", "autopad",
           "fast_slice"]  # fmt: skip
