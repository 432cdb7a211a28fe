"""``ShardedGradScaler`` for FSDP, with device npu."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name in ("ShardedGradScaler", "_ShardedGradScaler"):
        from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

        class NpuShardedGradScaler(ShardedGradScaler):
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                kwargs.setdefault("device", "npu")
                super().__init__(*args, **kwargs)

        return NpuShardedGradScaler
    raise AttributeError(name)
