"""``torch_npu.profiler``: torch's profiler interface, written as ``*_ascend_pt`` from the simulator's events."""

from torch_npu.profiler.config import (
    AiCMetrics,
    ExportType,
    HostSystem,
    ProfilerActivity,
    ProfilerLevel,
    _ExperimentalConfig,
)
from torch_npu.profiler.profiler import analyse, profile, supported_activities, tensorboard_trace_handler
from torch_npu.profiler.schedule import ProfilerAction, schedule

ProfilerActivities = ProfilerActivity
supported_profiler_level = lambda: list(ProfilerLevel)  # noqa: E731
supported_ai_core_metrics = lambda: list(AiCMetrics)  # noqa: E731
supported_export_type = lambda: list(ExportType)  # noqa: E731

__all__ = ["AiCMetrics", "ExportType", "HostSystem", "ProfilerAction", "ProfilerActivity", "ProfilerLevel",
           "_ExperimentalConfig", "analyse", "profile", "schedule", "supported_activities",
           "tensorboard_trace_handler"]  # fmt: skip
