"""Which replay engine runs: the native one where it was built, else Python, or the one ``ASCEND_SIM_ENGINE`` names."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ascend_sim.engine import native
from ascend_sim.engine.machine import Core, SyncTimes
from ascend_sim.engine.result import BlockTiming

ENGINES = ("native", "python", "reference")


def engine_name() -> str:
    """``native``, ``python`` or ``reference``.

    Raises ValueError for another value of ``ASCEND_SIM_ENGINE``, or for ``native`` where it was not built.
    """
    chosen = os.environ.get("ASCEND_SIM_ENGINE", "").strip().lower()
    if not chosen:
        return "native" if native.available() else "python"
    if chosen not in ENGINES:
        raise ValueError(f"ASCEND_SIM_ENGINE={chosen!r}: expected one of {', '.join(ENGINES)}")
    if chosen == "native" and not native.available():
        raise ValueError("ASCEND_SIM_ENGINE=native: the native engine is not built (no C compiler at install)")
    return chosen


def replay_cores(
    cores: Sequence[Core], sync: SyncTimes, *, compress: bool = True, timeline: bool = False
) -> BlockTiming:
    """Replay the programs of ``cores`` together on the chosen engine; all engines give identical times.

    Timelines are made by the Python engines. Raises DeadlockError and TraceError.
    """
    name = engine_name()
    if name == "reference":
        from ascend_sim.engine.reference import replay as run_reference

        return run_reference(cores, sync, timeline=timeline)
    if name == "native" and not timeline:
        return native.replay(cores, sync, compress=compress)
    from ascend_sim.engine.replay import replay as run_python

    return run_python(cores, sync, compress=compress, timeline=timeline)
