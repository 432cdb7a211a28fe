"""``torch_npu.profiler``: torch's profiler interface, written as ``*_ascend_pt`` from the simulator's events."""

from torch_npu.profiler import dynamic_profile
from torch_npu.profiler.config import (
    AiCMetrics,
    ExportType,
    HostSystem,
    ProfilerActivity,
    ProfilerLevel,
    _ExperimentalConfig,
    supported_ai_core_metrics,
    supported_export_type,
    supported_profiler_level,
)
from torch_npu.profiler.profiler import analyse, profile, supported_activities, tensorboard_trace_handler
from torch_npu.profiler.schedule import ProfilerAction, schedule

ProfilerActivities = ProfilerActivity
__all__ = ["AiCMetrics", "ExportType", "HostSystem", "ProfilerAction", "ProfilerActivity", "ProfilerLevel",
           "_ExperimentalConfig", "analyse", "dynamic_profile", "profile", "schedule", "supported_activities",
           "supported_ai_core_metrics", "supported_export_type", "supported_profiler_level",
           "tensorboard_trace_handler"]  # fmt: skip
