"""Counters of one kernel by Huawei's formulas: times, ratios, cube utilisation, memory bound.

Sources: column descriptions of the msprof documentation and the calculators of Ascend/msprof. N blocks, C cores of
the kernel's kind, f MHz; total cycles are summed over blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from ascend_sim.engine.result import KernelTiming
from ascend_sim.engine.timing import core_count
from ascend_sim.soc import Soc

COUPLED = {"vec": "vector", "mac": "cube", "scalar": "scalar", "mte1": "mte1", "mte2": "mte2", "mte3": "mte3"}
AIC = {"mac": "cube", "scalar": "scalar", "mte1": "mte1", "mte2": "mte2", "fixpipe": "fixpipe"}
AIV = {"vec": "vector", "scalar": "scalar", "mte2": "mte2", "mte3": "mte3"}


def aicore_time(total_cycles: int, mhz: float, blocks: int, cores: int) -> float:
    """Microseconds: ``total_cycles / f / N x ceil(N / C)``."""
    return total_cycles / mhz / blocks * ceil(blocks / cores) if blocks else 0.0


def cube_utilization(total_cycles: int, mhz: float, cores: int, task_us: float) -> float:
    """Percent of all AI cores' cycles during the task that kernels spent in them: ``100 x total / (f x C x task)``."""
    return 100 * total_cycles / (mhz * cores * task_us) if task_us else 0.0


def memory_bound(mte2_ratio: float, mac_ratio: float, vec_ratio: float) -> float:
    """``mte2_ratio / max(mac_ratio, vec_ratio)``: above 1 transfers dominate. 0 when nothing is computed."""
    busiest = max(mac_ratio, vec_ratio)
    return mte2_ratio / busiest if busiest else 0.0


@dataclass(frozen=True)
class CoreCounters:
    """One kind of core: time in the core (us), cycles summed over blocks, and (time us, ratio) per pipe."""

    time_us: float
    total_cycles: int
    pipes: dict[str, tuple[float, float]]

    @property
    def memory_bound(self) -> float:
        return memory_bound(self.pipes["mte2"][1], self.pipes["mac"][1], self.pipes["vec"][1])


def counters(timing: KernelTiming, kind: str, soc: Soc) -> CoreCounters:
    """Counters of the cores of ``kind`` (``AICORE``, ``AIC`` or ``AIV``); all zero when the kernel used none.

    The core time of unequal blocks in several waves, which the formula overstates, is at most that of the slowest core.
    """
    names = {"AICORE": COUPLED, "AIC": AIC, "AIV": AIV}[kind]
    mix = timing.kind == "MIX"
    if not timing.mean_core_ps or (timing.kind != kind and not (mix and kind in ("AIC", "AIV"))):
        return CoreCounters(0.0, 0, dict.fromkeys(names, (0.0, 0.0)))
    per_block = 2 if mix and kind == "AIV" else 1
    used, blocks = timing.cores_used * per_block, timing.blocks * per_block
    cores = max(core_count(soc, kind), used)  # more than AI cores: stand-alone vector cores took part
    total = round(timing.mean_core_ps * used * timing.mhz / 1e6)
    time_us = min(aicore_time(total, timing.mhz, blocks, cores), timing.core_ps / 1e6)
    pipes = {}
    for column, pipe in names.items():
        name = f"aiv_{pipe}" if mix and kind == "AIV" and pipe in ("scalar", "mte2") else pipe
        ratio = min(1.0, timing.busy_ps.get(name, 0) / timing.mean_core_ps)
        pipes[column] = (time_us * ratio, ratio)
    return CoreCounters(time_us, total, pipes)


def kernel_cube_utilization(timing: KernelTiming, soc: Soc) -> float:
    """`cube_utilization` of one launch."""
    kind = "AIC" if soc.chip.split_cores else "AICORE"
    return cube_utilization(
        counters(timing, kind, soc).total_cycles, timing.mhz, soc.cores.ai_core_count, timing.task_ps / 1e6
    )
