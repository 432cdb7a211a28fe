"""Choices of the profiler (public names and values of torch_npu)."""

from __future__ import annotations

from enum import Enum
from typing import Any


class ProfilerActivity(Enum):
    CPU = 0
    NPU = 1
    CUDA = 1


class ProfilerLevel:
    Level_none = "Level_none"
    Level0 = "Level0"
    Level1 = "Level1"
    Level2 = "Level2"


class AiCMetrics:
    PipeUtilization = "PipeUtilization"
    ArithmeticUtilization = "ArithmeticUtilization"
    Memory = "Memory"
    MemoryL0 = "MemoryL0"
    MemoryUB = "MemoryUB"
    ResourceConflictRatio = "ResourceConflictRatio"
    L2Cache = "L2Cache"
    MemoryAccess = "MemoryAccess"
    AiCoreNone = "AiCoreNone"


class ExportType:
    Text = "text"
    Db = "db"


class HostSystem:
    CPU = "cpu"
    MEM = "mem"
    DISK = "disk"
    NETWORK = "network"
    OSRT = "osrt"


def _values(names: type) -> set[str]:
    return {value for name, value in vars(names).items() if not name.startswith("__")}


def supported_profiler_level() -> set[str]:
    return _values(ProfilerLevel)


def supported_ai_core_metrics() -> set[str]:
    return _values(AiCMetrics)


def supported_export_type() -> set[str]:
    return _values(ExportType)


class _ExperimentalConfig:
    """Level, counters and exports; arguments as in torch_npu."""

    def __init__(
        self, profiler_level: str = ProfilerLevel.Level0, aic_metrics: str = "", l2_cache: bool = False,
        msprof_tx: bool = False, mstx: bool = False, data_simplification: bool = True, record_op_args: bool = False,
        op_attr: bool = False, gc_detect_threshold: float | None = None, export_type: Any = ExportType.Text,
        host_sys: Any = None, mstx_domain_include: Any = None, mstx_domain_exclude: Any = None, sys_io: bool = False,
        sys_interconnection: bool = False, **_: Any,
    ) -> None:  # fmt: skip
        default = AiCMetrics.AiCoreNone if profiler_level in ("Level0", "Level_none") else AiCMetrics.PipeUtilization
        self.profiler_level = profiler_level
        self.aic_metrics = aic_metrics or default
        self.l2_cache = l2_cache
        self.msprof_tx, self.mstx = msprof_tx, mstx
        self.data_simplification, self.record_op_args, self.op_attr = data_simplification, record_op_args, op_attr
        self.gc_detect_threshold = gc_detect_threshold
        self.export_type = export_type
        self.host_sys = host_sys or []
        self.sys_io, self.sys_interconnection = sys_io, sys_interconnection
