"""Legacy constructors: ``torch.npu.FloatTensor(2, 3)``, ``torch.npu.FloatStorage(4)``."""

from __future__ import annotations

from typing import Any

import torch

_TYPES = {
    "Bool": torch.bool, "Byte": torch.uint8, "Char": torch.int8, "Double": torch.float64, "Float": torch.float32,
    "Half": torch.float16, "Int": torch.int32, "Long": torch.int64, "Short": torch.int16, "BFloat16": torch.bfloat16,
}  # fmt: skip


class _Meta(type):
    dtype: torch.dtype

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, torch.Tensor) and value.device.type == "npu" and value.dtype == cls.dtype

    def __call__(cls, *args: Any, **_: Any) -> Any:
        if len(args) == 1 and not isinstance(args[0], int):
            data = args[0]
            if isinstance(data, torch.Size):
                return torch.empty(data, dtype=cls.dtype, device="npu")
            return torch.as_tensor(data).to(device="npu", dtype=cls.dtype)
        return torch.empty(args if args else (0,), dtype=cls.dtype, device="npu")


class _StorageMeta(type):
    dtype: torch.dtype

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, torch.TypedStorage) and value.device.type == "npu" and value.dtype == cls.dtype

    def __call__(cls, *args: Any, **_: Any) -> Any:
        size = args[0] if args and isinstance(args[0], int) else 0
        data = torch.empty(size, dtype=cls.dtype, device="npu")
        if args and not isinstance(args[0], int):
            data = torch.as_tensor(args[0]).to(device="npu", dtype=cls.dtype)
        return torch.TypedStorage(wrap_storage=data.untyped_storage(), dtype=cls.dtype, _internal=True)


for _name, _dtype in _TYPES.items():
    globals()[f"{_name}Tensor"] = _Meta(f"{_name}Tensor", (), {"dtype": _dtype, "__module__": "torch.npu"})
    globals()[f"{_name}Storage"] = _StorageMeta(
        f"{_name}Storage", (), {"dtype": _dtype, "__module__": "torch.npu"}
    )

__all__ = [f"{n}{kind}" for n in _TYPES for kind in ("Tensor", "Storage")]
