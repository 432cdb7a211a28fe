"""Custom operators by family; `define` puts one into ``torch.ops.npu``."""
