"""Which replay engine runs: the fastest available, or the one that ``ASCEND_SIM_ENGINE`` names."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ascend_sim.engine.machine import Core, SyncTimes
from ascend_sim.engine.result import BlockTiming

ENGINES = ("native", "python", "reference")


def engine_name() -> str:
    """``native``, ``python`` or ``reference``; raises ValueError for another value of ``ASCEND_SIM_ENGINE``."""
    chosen = os.environ.get("ASCEND_SIM_ENGINE", "").strip().lower()
    if chosen and chosen not in ENGINES:
        raise ValueError(f"ASCEND_SIM_ENGINE={chosen!r}: expected one of {', '.join(ENGINES)}")
    return chosen or "python"


def replay_cores(
    cores: Sequence[Core], sync: SyncTimes, *, compress: bool = True, timeline: bool = False
) -> BlockTiming:
    """Replay the programs of ``cores`` together on the chosen engine; all engines give identical times."""
    name = engine_name()
    if name == "reference":
        from ascend_sim.engine.reference import replay as run_reference

        return run_reference(cores, sync, timeline=timeline)
    from ascend_sim.engine.replay import replay as run_python

    return run_python(cores, sync, compress=compress, timeline=timeline)
