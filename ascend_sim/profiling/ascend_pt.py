"""The ``*_ascend_pt`` tree of ``torch_npu.profiler``, as msprof-analyze, TensorBoard plug-ins and scripts read it.

A framework records its side as events of kinds ``op``, ``step`` and ``memory`` (`ascend_sim.runtime.observe.Event`);
calls, kernels, copies and collectives are those of the runtime. Source: Ascend/pytorch, torch_npu/profiler/analysis.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from ascend_sim import __version__
from ascend_sim.profiling import ascend_pt_memory as memory
from ascend_sim.profiling import ascend_pt_tables as tables
from ascend_sim.profiling import communication, msprof
from ascend_sim.profiling import msprof_tables as common
from ascend_sim.profiling.ascend_pt_trace import trace_events
from ascend_sim.profiling.store import EventStore
from ascend_sim.soc import Soc

OUTPUT, FRAMEWORK = "ASCEND_PROFILER_OUTPUT", "FRAMEWORK"
LEVELS = ("Level_none", "Level0", "Level1", "Level2")
NO_METRICS = "AiCoreNone"


@dataclass(frozen=True)
class Options:
    """What ``torch_npu.profiler.profile`` was asked for; names as in its arguments.

    ``profiler_level`` ``Level0`` and `NO_METRICS` leave the counters out of kernel_details. ``activities`` are the
    texts that torch_npu writes. ``extra`` are further keys of the experimental configuration.
    """

    profiler_level: str = "Level1"
    aic_metrics: str = "PipeUtilization"
    record_shapes: bool = False
    profile_memory: bool = False
    with_stack: bool = False
    with_flops: bool = False
    with_modules: bool = False
    activities: tuple[str, ...] = ("ProfilerActivity.CPU", "ProfilerActivity.NPU")
    schedule: Mapping[str, int] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def counters(self) -> bool:
        return self.profiler_level in LEVELS[2:] and self.aic_metrics != NO_METRICS


def write(
    store: EventStore, soc: Soc, parent: Path, *, worker: str | None = None, now: datetime | None = None,
    rank: int = -1, options: Options | None = None, metadata: Mapping[str, Any] | None = None,
) -> Path:  # fmt: skip
    """Write a new ``<worker>_<time>_ascend_pt`` directory below ``parent`` (made when missing) and return it.

    ``worker`` defaults to ``<host name>_<process id>``; ``rank`` is -1 without distributed training; ``metadata`` goes
    into ``profiler_metadata.json``. Only names depend on ``now``.
    """
    options, moment = options or Options(), now or datetime.now()
    stamp = f"{moment:%Y%m%d%H%M%S}{moment.microsecond // 1000:03d}"
    folder = parent / f"{worker or f'{socket.gethostname()}_{os.getpid()}'}_{stamp}_ascend_pt"
    output = folder / OUTPUT
    output.mkdir(parents=True)
    (folder / FRAMEWORK).mkdir()
    msprof.write(store, soc, folder, moment, msprof.Contents(rank=rank))
    for name, (header, rows) in {
        "kernel_details": tables.kernel_details(store, soc, options.aic_metrics if options.counters else ""),
        "operator_details": tables.operator_details(store),
        "step_trace_time": tables.step_trace_time(store),
        "op_statistic": (common.OP_STATISTIC, common.op_statistic(store)),
        "api_statistic": (common.API_STATISTIC, common.api_statistic(store)),
    }.items():
        common.write_csv(output / f"{name}.csv", header, rows)
    common.write_csv(output / "operator_memory.csv", memory.OPERATOR_MEMORY, memory.operator_memory(store))
    common.write_csv(output / "memory_record.csv", memory.MEMORY_RECORD, memory.memory_record(store))
    _json(output / "communication.json", communication.communication(store))
    _json(output / "communication_matrix.json", communication.matrix(store))
    _json(output / "trace_view.json", trace_events(store, soc.memory.kind))
    _json(folder / f"profiler_info{'' if rank < 0 else f'_{rank}'}.json", _info(options, rank, soc))
    facts: dict[str, Any] = {"rank_id": max(rank, 0), "simulated": True}
    if groups := communication.groups(store):
        facts["parallel_group_info"] = groups
    _json(folder / "profiler_metadata.json", facts | dict(metadata or {}))
    return folder


def _json(path: Path, content: Any) -> None:
    """Written whole or not at all: readers may look while the program runs."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(content))
    part.replace(path)


def _info(options: Options, rank: int, soc: Soc) -> dict[str, Any]:
    return {
        "config": {
            "common_config": {
                "activities": list(options.activities), "schedule": options.schedule,
                "record_shapes": options.record_shapes, "profile_memory": options.profile_memory,
                "with_stack": options.with_stack, "with_flops": options.with_flops,
                "with_modules": options.with_modules,
            },
            "experimental_config": {
                "_profiler_level": options.profiler_level, "_aic_metrics": f"ACL_AICORE_{_metrics(options)}",
                "_export_type": ["text"], "_data_simplification": True, **options.extra,
            },
        },
        "rank_id": rank, "platform": soc.name, "cann_version": f"ascend-sim {__version__}",
        "torch_npu_version": f"ascend-sim {__version__}",
    }  # fmt: skip


def _metrics(options: Options) -> str:
    return {"PipeUtilization": "PIPE_UTILIZATION", NO_METRICS: "NONE"}.get(
        options.aic_metrics if options.counters else NO_METRICS, options.aic_metrics.upper()
    )
