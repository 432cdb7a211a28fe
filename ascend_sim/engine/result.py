"""What a replay returns: one kernel's time, pipe by pipe."""

from __future__ import annotations

from dataclasses import dataclass, field

from ascend_sim.isa.instr import Pipe


@dataclass(frozen=True)
class Slice:
    """One executed instruction on a timeline (replay with ``timeline=True``); picoseconds from core start."""

    core: int
    kind: str
    pipe: Pipe
    start: int
    end: int
    work: int
    place: tuple[str, int] | None = None


@dataclass(frozen=True)
class BlockTiming:
    """Replay of one block. ``end`` is the makespan in ps; ``busy[k][pipe]`` the busy ps of program k."""

    end: int
    busy: tuple[tuple[int, ...], ...]
    instructions: int
    slices: tuple[Slice, ...] = ()


@dataclass(frozen=True)
class KernelTiming:
    """Time of one launch on an idle device.

    ``head_ps`` launch cost outside the cores; ``core_ps`` makespan of the slowest core (waves included);
    ``busy_ps`` per pipe: mean over the used cores of the kind that owns the pipe; ``mhz`` the clock that
    cycles are reported in. ``rests_on``: figures of the chip (``mte.paths.GM_L1``) that matter, each with the busy
    time of pipes that it decides, as a share of the makespan; ``confidence`` is that of the weakest of them.
    ``head_rests_on``: figures of the launch cost, each with its microseconds.
    """

    name: str
    kind: str
    blocks: int
    cores_used: int
    head_ps: int
    core_ps: int
    mean_core_ps: int
    busy_ps: dict[str, int]
    gm_read: int
    gm_write: int
    l2_hit: int
    hbm_bytes: int
    mhz: float
    instructions: int
    confidence: str
    rests_on: tuple[tuple[str, float], ...] = ()
    head_rests_on: tuple[tuple[str, float], ...] = ()
    slices: tuple[Slice, ...] = field(default=(), repr=False)

    @property
    def task_ps(self) -> int:
        return self.head_ps + self.core_ps

    @property
    def us(self) -> float:
        return self.task_ps / 1e6

    @property
    def cycles(self) -> int:
        return round(self.core_ps * self.mhz / 1e6)

    @property
    def bound(self) -> str:
        """The pipe with most busy time, as in DESIGN section 6."""
        return max(self.busy_ps, key=lambda p: (self.busy_ps[p], p)) if self.busy_ps else "scalar"
