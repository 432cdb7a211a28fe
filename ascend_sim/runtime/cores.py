"""The cores of a device as servers that kernels of all streams share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ascend_sim.soc import Soc


class CorePool:
    """Free times of the cores by kind.

    A kernel takes its cores together, the earliest free ones; kernels reserve in the order of (ready time,
    stream, sequence), which the caller keeps. A MIX kernel takes one AIC and two AIV per core it uses.
    """

    def __init__(self, soc: Soc) -> None:
        split = soc.chip.split_cores
        cube, vector = soc.cores.ai_core_count, soc.cores.vector_core_count
        self._free: dict[str, list[int]] = {"AIC" if split else "AICORE": [0] * cube}
        if vector:
            self._free["AIV" if split else "VECTOR_CORE"] = [0] * vector
        self._main = "AIC" if split else "AICORE"
        self.used_ps = dict.fromkeys(self._free, 0)  # time that kernels held cores, summed over cores

    def _needs(self, kind: str, cores: int) -> tuple[tuple[str, int], ...]:
        if kind == "MIX":
            needs: tuple[tuple[str, int], ...] = (("AIC", cores), ("AIV", 2 * cores))
        else:
            needs = ((kind if kind in self._free else self._main, cores),)
        return tuple((k, max(1, min(n, len(self._free[k])))) for k, n in needs if k in self._free)

    def reserve(self, kind: str, cores: int, ready: int, duration: int) -> int:
        """Take ``cores`` cores of ``kind`` for ``duration`` ps, not before ``ready``; returns the start."""
        needs = self._needs(kind, cores)
        start = max([ready, *(self._free[k][n - 1] for k, n in needs)])
        for k, n in needs:
            free = self._free[k]
            free[:n] = [start + duration] * n
            free.sort()
            self.used_ps[k] += n * duration
        return start

    def utilization(self) -> float:
        """Share of the time until the last kernel's end that kernels held the AI cores."""
        cores = self._free[self._main]
        return self.used_ps[self._main] / (len(cores) * cores[-1]) if cores[-1] else 0.0

    def busy_until(self) -> int:
        return max(times[-1] for times in self._free.values())
