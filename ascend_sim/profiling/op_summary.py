"""``op_summary.csv`` as msprof writes it: one row a kernel, columns of the core family of the chip.

Counters are 0 where there are none (the other half of split cores, operators whose time is only estimated):
msprof-analyze warns of every N/A."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from ascend_sim.engine.result import KernelTiming
from ascend_sim.ops.cost import OpTiming
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.profiling import pmu, pmu_groups
from ascend_sim.profiling.digits import us, when
from ascend_sim.profiling.store import EventStore
from ascend_sim.runtime.observe import Event
from ascend_sim.soc import Soc

BASE = ("Device_id", "Model ID", "Task ID", "Stream ID", "Op Name", "OP Type", "OP State", "Task Type",
        "Task Start Time(us)", "Task Duration(us)", "Task Wait Time(us)")  # fmt: skip
TENSORS = ("Block Num", "Mix Block Num", "HF32 Eligible", "Input Shapes", "Input Data Types", "Input Formats",
           "Output Shapes", "Output Data Types", "Output Formats", "Context ID")  # fmt: skip
OLD_NAMES = ("Block Dim", "Mix Block Dim")  # of Block Num and Mix Block Num until CANN 8: some readers know only these
DEFAULT_METRICS = "PipeUtilization"
NOT_A_MODEL = 4294967295
TASK_TYPES = {"AICORE": "AI_CORE", "AIC": "AI_CORE", "AIV": "AI_VECTOR_CORE", "MIX": "MIX_AIC"}
DTYPES = {"float32": "FLOAT", "bfloat16": "DT_BF16", "float64": "DOUBLE"}


def write(store: EventStore, soc: Soc, path: Path, metrics: str = DEFAULT_METRICS) -> int:
    """Write the table; returns the number of rows."""
    header, rows = table(store, soc, metrics)
    with path.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(header)
        writer.writerows(rows)
    return len(rows)


def table(store: EventStore, soc: Soc, metrics: str = DEFAULT_METRICS) -> tuple[list[str], list[list[object]]]:
    """Header and one row per kernel, in the order of `EventStore.kernels`, with the counters of a group (or none: "").

    Groups without columns here (``PipelineExecuteUtilization``, ``Custom:...``) are taken as `DEFAULT_METRICS`."""
    if metrics and metrics not in pmu_groups.GROUPS:
        metrics = DEFAULT_METRICS
    split = soc.chip.split_cores
    rows: list[list[object]] = []
    previous: dict[int, int] = {}
    known: dict[tuple[int, ...], list[object]] = {}  # executions of one operator share call and timing
    for event in store.kernels():
        wait = max(0, event.start - previous.get(event.device, event.start))
        previous[event.device] = event.end
        key = tuple(id(event.args.get(part)) for part in ("call", "op", "timing"))
        fixed = known.get(key)
        if fixed is None:
            fixed = known[key] = _tensors(event)
            if metrics in pmu_groups.GROUPS:
                fixed += pmu_groups.values(metrics, event, soc)
            elif metrics:
                fixed += _split(event, soc) if split else _coupled(event, soc)
        rows.append([*_base(event, wait), *fixed, *fixed[:2]])
    named = [*pmu_groups.times(split), *pmu_groups.header(metrics, split)] if metrics in pmu_groups.GROUPS else (
        _pmu_header(split) if metrics else [])  # fmt: skip
    return [*BASE, *TENSORS, *named, *OLD_NAMES], rows


def _base(event: Event, wait: int) -> list[object]:
    return [
        event.device, event.args.get("model_id", NOT_A_MODEL), event.task, event.stream, event.name,
        event.args["op_type"], "static", core_type(event), when(event.start), us(event.duration),
        us(wait),
    ]  # fmt: skip


def core_type(event: Event) -> str:
    """Task type of a kernel: ``AI_CORE``, ``AI_VECTOR_CORE``, ``MIX_AIC`` or ``AI_CPU``."""
    kind = event.args.get("task_type", "AICORE")
    return "AI_CPU" if event.kind == "aicpu" else TASK_TYPES.get(kind, kind)


def _tensors(event: Event) -> list[object]:
    call: OpCall | None = event.args.get("call")
    timing: KernelTiming | None = event.args.get("timing")
    estimate: OpTiming | None = event.args.get("op")
    blocks = timing.blocks if timing else estimate.blocks if estimate else 0
    mix = 2 * blocks if timing and timing.kind == "MIX" else 0
    columns = [*_specs(call.inputs), *_specs(call.outputs)] if call else ["N/A"] * 6
    return [blocks, mix, "NO", *columns, "N/A"]


def _specs(specs: Sequence[TensorSpec | None]) -> list[str]:
    present = [s for s in specs if s is not None]
    shapes = ";".join(",".join(map(str, s.shape)) for s in present)
    return [
        f'"{shapes}"',
        ";".join(DTYPES.get(s.dtype, s.dtype.upper()) for s in present),
        ";".join(s.format for s in present),
    ]


def _pmu_header(split: bool) -> list[str]:
    if not split:
        pipes = [f"{p}_{what}" for p in pmu.COUPLED for what in ("time(us)", "ratio")]
        return ["aicore_time(us)", "total_cycles", *pipes, "icache_miss_rate", "memory_bound"]
    aic = [f"aic_{p}_{what}" for p in pmu.AIC for what in ("time(us)", "ratio")]
    aiv = [f"aiv_{p}_{what}" for p in pmu.AIV for what in ("time(us)", "ratio")]
    return ["aicore_time(us)", "aic_total_cycles", *aic, "aic_icache_miss_rate", "aiv_time(us)", "aiv_total_cycles",
            *aiv, "aiv_icache_miss_rate", "cube_utilization(%)"]  # fmt: skip


def _core(core: pmu.CoreCounters) -> list[object]:
    pipes = [f"{v:.3f}" for pair in core.pipes.values() for v in pair]
    return [f"{core.time_us:.3f}", core.total_cycles, *pipes]


def _coupled(event: Event, soc: Soc) -> list[object]:
    timing = event.args.get("timing")
    if timing is None:
        return [0] * len(_pmu_header(False))
    core = pmu.counters(timing, "AICORE", soc)
    return [*_core(core), 0, f"{core.memory_bound:.4f}"]


def _split(event: Event, soc: Soc) -> list[object]:
    timing = event.args.get("timing")
    if timing is None:
        return [0] * len(_pmu_header(True))
    aic, aiv = pmu.counters(timing, "AIC", soc), pmu.counters(timing, "AIV", soc)
    return [*_core(aic), 0, *_core(aiv), 0, f"{pmu.kernel_cube_utilization(timing, soc):.3f}"]
