"""Custom operators ``torch_npu.npu_*``, also as ``torch.ops.npu.*``: what models written for NPUs call.

Each has a schema, a meta kernel (through its composed body) and a row in the dispatch table where the chip has the
operator itself; without a row the body runs, made of ATen operators.
"""

from __future__ import annotations

from torch_npu._custom import attention, formats, moe, norm, plain, quant

__all__ = [*attention.__all__, *formats.__all__, *moe.__all__, *norm.__all__, *plain.__all__, *quant.__all__]

for _module in (attention, formats, moe, norm, plain, quant):
    for _name in _module.__all__:
        globals()[_name] = getattr(_module, _name)
