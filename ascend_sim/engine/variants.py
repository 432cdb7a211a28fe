"""What variants of a chip have in common: keys of the figures that instructions on the cores and replays depend on.

Sweeps change a few figures at a time. Where two variants agree in everything that a result depends on, one serves both:
a launch that finds all its data in L2 takes the same time whatever the memory behind it does.
"""

from __future__ import annotations

import dataclasses
from functools import lru_cache

from ascend_sim.soc import Soc

_CORE = ("chip", "cores", "cube", "vector", "mte", "scalar", "sync")
# Figures of ``memory`` that only data matters to which misses L2 or leaves it for memory.
BEHIND_L2 = frozenset(
    {
        *("capacity_bytes", "kind", "peak_gbps"),
        *("read_gbps", "write_gbps", "read_only_factor", "core_miss_bytes_per_cycle"),
        *("miss_latency_cycles", "miss_burst_cycles", "miss_replay_cycles", "miss_overlap"),
    }
)


@lru_cache(maxsize=1024)
def core_key(soc: Soc) -> str:
    """Equal for chips on which every instruction that stays on the core takes the same time."""
    return "|".join(soc.texts[name] for name in _CORE)


@lru_cache(maxsize=2048)
def replay_key(soc: Soc, misses: bool) -> str:
    """Equal for chips on which a launch keeps its cores busy for the same time. ``misses``: some of its data comes
    from memory or goes there."""
    memory = soc.memory
    names = (f.name for f in dataclasses.fields(memory) if misses or f.name not in BEHIND_L2)
    figures = "" if soc.figures else "no sources"
    return "|".join((core_key(soc), figures, *(f"{name}={getattr(memory, name)!r}" for name in names)))
