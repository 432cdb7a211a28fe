"""Custom operators ``torch_npu.npu_*``, also as ``torch.ops.npu.*``: what models written for NPUs call.

Each has a schema, a meta kernel (through its composed body) and a row in the dispatch table where the chip has the
operator itself; without a row the body runs, made of ATen operators.
"""

from __future__ import annotations

from torch_npu._custom import attention, classic, formats, moe, norm, plain, quant

_MODULES = (attention, classic, formats, moe, norm, plain, quant)
__all__ = [name for module in _MODULES for name in module.__all__]

for _module in _MODULES:
    for _name in _module.__all__:
        globals()[_name] = getattr(_module, _name)
