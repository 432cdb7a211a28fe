"""Counters of one kernel by Huawei's formulas: times, ratios, cube utilisation, memory bound.

Sources: column formulas of the msprof documentation and of Ascend/msprof's calculators. N blocks, C cores of the
kernel's kind, f MHz: ``aicore_time = total_cycles / f / N x ceil(N / C)``, ``X_ratio = busy_X / total_cycles``,
``X_time = aicore_time x X_ratio``, ``cube_utilization = 100 x total_cycles / (f x C x task_duration)``,
``memory_bound = mte2_ratio / max(mac_ratio, vec_ratio)``.
"""

from __future__ import annotations

from dataclasses import dataclass

from ascend_sim.engine.result import KernelTiming
from ascend_sim.soc import Soc

COUPLED = {"vec": "vector", "mac": "cube", "scalar": "scalar", "mte1": "mte1", "mte2": "mte2", "mte3": "mte3"}
AIC = {"mac": "cube", "scalar": "scalar", "mte1": "mte1", "mte2": "mte2", "fixpipe": "fixpipe"}
AIV = {"vec": "vector", "scalar": "scalar", "mte2": "mte2", "mte3": "mte3"}


@dataclass(frozen=True)
class CoreCounters:
    """One kind of core: mean time in the core (us), summed cycles, and (time us, ratio) per pipe."""

    time_us: float
    total_cycles: int
    pipes: dict[str, tuple[float, float]]


def counters(timing: KernelTiming, kind: str) -> CoreCounters:
    """Counters of the cores of ``kind`` (``AICORE``, ``AIC`` or ``AIV``); all zero when the kernel used none.

    Busy times of a timing are means over the used cores, so ratios are taken to the mean time in the core.
    """
    names = {"AICORE": COUPLED, "AIC": AIC, "AIV": AIV}[kind]
    mix = timing.kind == "MIX"
    if timing.kind != kind and not (mix and kind in ("AIC", "AIV")):
        return CoreCounters(0.0, 0, dict.fromkeys(names, (0.0, 0.0)))
    mean_us = timing.mean_core_ps / 1e6
    cores = timing.cores_used * 2 if mix and kind == "AIV" else timing.cores_used
    total = round(mean_us * timing.mhz) * cores
    pipes = {}
    for column, pipe in names.items():
        name = f"aiv_{pipe}" if mix and kind == "AIV" and pipe in ("scalar", "mte2") else pipe
        busy = timing.busy_ps.get(name, 0) / 1e6
        pipes[column] = (busy, min(1.0, busy / mean_us) if mean_us else 0.0)
    return CoreCounters(mean_us, total, pipes)


def cube_utilization(timing: KernelTiming, soc: Soc) -> float:
    """Share of all AI cores' cycles during the task that belong to this kernel, in percent."""
    core = counters(timing, "AICORE" if not soc.chip.split_cores else "AIC")
    if not core.total_cycles:
        return 0.0
    return 100 * core.total_cycles / (timing.mhz * soc.cores.ai_core_count * timing.us)


def memory_bound(core: CoreCounters) -> float:
    busiest = max(core.pipes["mac"][1], core.pipes["vec"][1])
    return core.pipes["mte2"][1] / busiest if busiest else 0.0
