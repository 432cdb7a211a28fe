"""``torch.distributed`` backend ``hccl``: values over gloo, time from the link model of the chip."""

from __future__ import annotations

import torch.distributed as dist

from torch_npu.distributed.rank_table import check_rank_table

_state = {"registered": False}


def is_hccl_available() -> bool:
    return dist.is_available()


def register() -> None:
    """Make ``init_process_group("hccl")`` work; once."""
    if _state["registered"] or not dist.is_available():
        return
    from torch_npu.distributed.process_group import ProcessGroupHCCL, create

    dist.Backend.register_backend("hccl", create, devices=["npu"])
    dist.ProcessGroupHCCL = ProcessGroupHCCL  # type: ignore[attr-defined]
    dist.is_hccl_available = is_hccl_available  # type: ignore[attr-defined]
    import torch.distributed.distributed_c10d as c10d

    c10d.ProcessGroupHCCL = ProcessGroupHCCL  # type: ignore[attr-defined]
    c10d.is_hccl_available = is_hccl_available  # type: ignore[attr-defined]
    _state["registered"] = True


def reinit_process_group(group: object = None, rebuild_link: bool = True) -> None:
    """Links of a simulated machine do not break: nothing has to be rebuilt."""


__all__ = ["check_rank_table", "is_hccl_available", "reinit_process_group"]
