"""What the switches of msprof, of acl.json's ``profiler`` and of acl.prof's configurations ask to be written.

Everything is recorded in any case. Names and values: the msprof documentation (hicann/oam-tools, docs/zh/profiling) and
acl_prof.h (hicann/runtime).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ascend_sim.profiling.msprof import DEFAULT_METRICS, Contents

WITH_COUNTERS = ("on", "l1", "l2", "l3")  # of task_time: l0 has times only
# aclprofAicoreMetrics and aclprofDataTypeConfig
METRICS = {0: "ArithmeticUtilization", 1: "PipeUtilization", 2: "Memory", 3: "MemoryL0", 4: "ResourceConflictRatio",
           5: "MemoryUB", 6: "L2Cache", 7: "PipelineExecuteUtilization", 8: "MemoryAccess"}  # fmt: skip
AICORE_METRICS, AICPU, L2CACHE, MSPROFTX, TASK_MEMORY = 0x4, 0x8, 0x10, 0x80, 0x1000
SYS_HARDWARE_MEM_FREQ = 3  # of aclprofSetConfig


def of_options(options: Mapping[str, Any]) -> Contents:
    """Of msprof's options or the keys of acl.json, whose names differ in ``-`` and ``_`` only; values are words."""
    words = {name.replace("-", "_"): value for name, value in options.items()}
    counters = words.get("ai_core", "on") == "on" and words.get("task_time", "on") in WITH_COUNTERS
    return Contents(
        counters=counters, metrics=words.get("aic_metrics") or DEFAULT_METRICS,
        task_memory=words.get("task_memory") == "on", aicpu=words.get("aicpu") == "on", l2=words.get("l2") == "on",
        marks=words.get("msproftx") == "on",
        device_memory=words.get("sys_hardware_mem") == "on" or ("sys_hardware_mem" not in words
                                                                and "sys_hardware_mem_freq" in words),
        database=words.get("type") == "db",
    )  # fmt: skip


def of_config(metrics: int, mask: int, options: Mapping[int, str]) -> Contents:
    """Of ``acl.prof.create_config(devices, metrics, events, mask)`` and what `acl.prof.set_config` set before."""
    return Contents(
        counters=bool(mask & AICORE_METRICS) and metrics in METRICS, metrics=METRICS.get(metrics, DEFAULT_METRICS),
        task_memory=bool(mask & TASK_MEMORY), aicpu=bool(mask & AICPU), l2=bool(mask & L2CACHE),
        marks=bool(mask & MSPROFTX), device_memory=SYS_HARDWARE_MEM_FREQ in options,
    )  # fmt: skip
