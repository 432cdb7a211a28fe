"""Times of a micro-kernel body: back to back in a stream, or alone until its result is visible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ascend_sim import asc
from ascend_sim.engine.memory import L2
from ascend_sim.engine.simulate import simulate_kernel
from ascend_sim.soc import Soc

Gm = tuple[str, str, int, str]
Body = Callable[..., None]
SHORT, LONG = 64, 1088  # issues of the two streams whose difference is taken


def core_cycles(body: Body, soc: Soc, kind: str, gm: tuple[Gm, ...] = (), *, cold: bool = False) -> float:
    """Cycles of one core that runs ``body`` once. ``cold``: with an L2 that holds nothing of it."""
    launch = asc.Launch(body, 1, kind, gm=gm, soc=soc)
    timing = simulate_kernel(launch.trace(), soc, L2(soc) if cold else None)
    return timing.core_ps * timing.mhz / 1e6


def stream(
    prepare: Callable[..., Callable[[], None]], soc: Soc, kind: str, gm: tuple[Gm, ...] = (), *, cold: bool = False
) -> float:
    """Cycles per issue of what ``prepare(*addresses)`` returns, in a long stream of it."""

    def run(times: int) -> float:
        def body(*addresses: Any) -> None:
            issue = prepare(*addresses)
            for _ in asc.steady(times):
                issue()

        return core_cycles(body, soc, kind, gm, cold=cold)

    return (run(LONG) - run(SHORT)) / (LONG - SHORT)


def isolated(
    prepare: Callable[..., Callable[[], None]], soc: Soc, kind: str, pipe: asc.PipeID, gm: tuple[Gm, ...] = ()
) -> float:
    """Cycles from the start of one issue on an idle core until its result is visible to a barrier of its pipe."""

    def run(times: int) -> float:
        def body(*addresses: Any) -> None:
            issue = prepare(*addresses)
            for _ in range(times):
                issue()
            asc.pipe_barrier(pipe)

        return core_cycles(body, soc, kind, gm)

    return run(1) - run(0)
