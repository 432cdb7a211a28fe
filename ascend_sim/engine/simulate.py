"""Time of one kernel launch on an idle device: prices, memory shares, replay of each distinct block, waves.

Names of pipes in `KernelTiming.busy_ps`: ``scalar vector mte1 mte2 mte3 cube fixpipe``. On a MIX kernel these are the
AIC's ``scalar mte1 mte2 cube fixpipe`` and the AIV's ``vector mte3``; its other pipes are ``aiv_scalar`` and
``aiv_mte2``, and ``aic_mte3`` for the AIC's rare writes from L1. ``scalar`` includes the issue of every instruction.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from weakref import WeakKeyDictionary

from ascend_sim.engine.engines import replay_cores
from ascend_sim.engine.machine import Core, SyncTimes
from ascend_sim.engine.memory import L2, MemoryPlan, plan_memory
from ascend_sim.engine.result import BlockTiming, KernelTiming, Slice
from ascend_sim.engine.timing import (
    Prices,
    Pricing,
    clock_mhz,
    core_count,
    cycle_ps,
    exact,
    memory_read,
    round_ps,
    sync_times,
)
from ascend_sim.engine.trace import Block, KernelTrace, Program
from ascend_sim.engine.variants import replay_key
from ascend_sim.isa.instr import PIPE_COUNT, Op, Pipe
from ascend_sim.soc import CONFIDENCES, Soc

PIPE_NAMES = {
    Pipe.S: "scalar",
    Pipe.V: "vector",
    Pipe.MTE1: "mte1",
    Pipe.MTE2: "mte2",
    Pipe.MTE3: "mte3",
    Pipe.M: "cube",
    Pipe.FIX: "fixpipe",
}
_MIX_NAMES = {
    ("AIC", Pipe.MTE3): "aic_mte3",
    ("AIC", Pipe.V): "aic_vector",
    ("AIV", Pipe.S): "aiv_scalar",
    ("AIV", Pipe.MTE1): "aiv_mte1",
    ("AIV", Pipe.MTE2): "aiv_mte2",
    ("AIV", Pipe.M): "aiv_cube",
    ("AIV", Pipe.FIX): "aiv_fixpipe",
}
NO_TIME = Fraction(0)
MATTERS = 0.02  # share of a kernel's time from which a figure counts for the confidence of the result
_MEMO_LIMIT = 32  # timings kept per trace

_memo: WeakKeyDictionary[KernelTrace, dict[object, _Replayed]] = WeakKeyDictionary()
_timings: WeakKeyDictionary[KernelTrace, dict[object, KernelTiming]] = WeakKeyDictionary()


class _Replayed:
    """The part of a timing that depends on trace, chip and shares only."""

    def __init__(
        self, core_ps: int, mean_ps: int, busy: dict[str, int], rests_on: tuple[tuple[str, float], ...],
        slices: tuple[Slice, ...],
    ):  # fmt: skip
        self.core_ps, self.mean_ps, self.busy = core_ps, mean_ps, busy
        self.rests_on, self.slices = rests_on, slices


def pipe_name(kind: str, pipe: Pipe, mix: bool) -> str:
    """Name of a pipe in results; see the module's text."""
    return _MIX_NAMES.get((kind, pipe), PIPE_NAMES[pipe]) if mix else PIPE_NAMES[pipe]


def simulate_kernel(
    trace: KernelTrace,
    soc: Soc,
    l2: L2 | None = None,
    addresses: Sequence[int] | None = None,
    *,
    timeline: bool = False,
    vector_cores: bool = False,
) -> KernelTiming:
    """Time of ``trace`` on an idle device.

    ``l2`` is the device's cache (changed by the launch) and ``addresses`` the device address of each kernel argument;
    with ``l2=None`` all transfers hit and the code is cached. ``timeline=True`` adds the slices of block 0 (slow for
    big kernels). ``vector_cores`` lets an AIV or AICORE kernel also use stand-alone vector cores (310P).

    Raises DeadlockError or TraceError for traces that cannot run, SocError for works the chip has no figure for.
    """
    kind = "VECTOR_CORE" if vector_cores and soc.cores.vector_core_count and not soc.chip.split_cores else trace.kind
    unit = "AIC" if kind == "MIX" else kind
    plan = plan_memory(trace, soc, l2, addresses)
    cores = core_count(soc, unit)
    used = min(trace.block_dim, cores)
    code_us = _code_us(trace, soc, l2, Fraction(used, cores))
    whole = (soc.digest, kind, plan.parts, code_us, timeline)  # all that the timing depends on
    known = _timings.setdefault(trace, {})
    timing = known.get(whole)
    if timing is None:
        timing = _timing(trace, soc, kind, plan, code_us, cores=cores, timeline=timeline)
        if len(known) >= _MEMO_LIMIT:
            known.pop(next(iter(known)))
        known[whole] = timing
    return timing


def _timing(
    trace: KernelTrace, soc: Soc, kind: str, plan: MemoryPlan, code_us: Fraction, *, cores: int, timeline: bool
) -> KernelTiming:
    """Timing of a launch whose memory plan and fetch of code are known."""
    unit = "AIC" if kind == "MIX" else kind
    used = min(trace.block_dim, cores)
    key = (replay_key(soc, plan.hbm_bytes > 0), kind, plan.parts, timeline)
    memo = _memo.setdefault(trace, {})
    found = memo.get(key)
    if found is None:
        found = _replay_waves(trace, soc, kind, plan, cores=cores, timeline=timeline)
        if len(memo) >= _MEMO_LIMIT:
            memo.pop(next(iter(memo)))
        memo[key] = found
    floor = _memory_floor(plan, soc)
    rests_on = found.rests_on if floor <= found.core_ps else (*found.rests_on, ("memory.read_gbps", 1.0))
    return KernelTiming(
        name=trace.name,
        kind=trace.kind,
        blocks=trace.block_dim,
        cores_used=used,
        head_ps=head_ps(soc, trace.kind, trace.block_dim, code_us) - _early(soc, used, plan),
        core_ps=max(found.core_ps, floor),
        mean_core_ps=max(found.mean_ps, floor),
        busy_ps=dict(found.busy),
        gm_read=plan.read,
        gm_write=plan.write,
        l2_hit=plan.l2_hit,
        hbm_bytes=plan.hbm_bytes,
        mhz=clock_mhz(soc, unit),
        instructions=trace.executed,
        confidence=weakest(soc, [key for key, _ in rests_on]),
        rests_on=rests_on,
        head_rests_on=_head_rests_on(soc, trace.kind, trace.block_dim, trace.code, code_us),
        slices=found.slices,
    )


@lru_cache(maxsize=1024)
def head_ps(soc: Soc, kind: str, blocks: int, code_us: Fraction = NO_TIME) -> int:
    """Launch cost outside the cores: head + blocks x per block, more for MIX kernels, and ``code_us`` to fetch code and
    tiling data that are not cached."""
    launch = soc.launch
    us = exact(launch.head_us) + blocks * exact(launch.per_block_us) + code_us
    if kind == "MIX":
        share = min(blocks, soc.cores.ai_core_count)
        us += exact(launch.mix_head_us) + exact(launch.mix_full_us) * share / soc.cores.ai_core_count
    return round_ps(us * 1_000_000)


def _early(soc: Soc, used: int, plan: MemoryPlan) -> int:
    """What streaming kernels gain because cores start one after the other: while the late ones wait for their launch
    the early ones have the memory to themselves, half of the stagger on average, for the part of the traffic that is
    the memory's. (Traffic, not time: a share of time would shrink with a faster memory, which never may cost time.)"""
    moved = plan.read + plan.write
    if not moved:
        return 0
    stagger = exact(soc.launch.per_block_us) * 1_000_000 * max(used - 1, 0)
    return round_ps(stagger / 2 * min(Fraction(plan.hbm_bytes, moved), Fraction(1)))


def _code_us(trace: KernelTrace, soc: Soc, l2: L2 | None, busy: Fraction) -> Fraction:
    """Fetch of code and tiling data by the class of the code: after a flush, in a network, nothing in a repetition.

    After a flush all cores in use (``busy`` of the chip's) fetch the same code from memory, one after the other."""
    if l2 is None:
        return Fraction(0)
    first, launch = l2.first_run(trace.name), soc.launch
    flushed, network = launch.code.get(trace.code, (launch.cold_icache_us, 0.0))
    if l2.network:
        return exact(network)
    return exact(flushed) * busy if first else Fraction(0)


def _memory_floor(plan: MemoryPlan, soc: Soc) -> int:
    """No kernel moves its memory traffic faster than the memory: matters where AIC and AIV stream together."""
    if not plan.hbm_bytes:
        return 0
    if plan.missed:
        return round_ps(plan.hbm_bytes * memory_read(soc, plan.pure))
    return round_ps(plan.hbm_bytes * 1000 / exact(max(soc.memory.read_gbps, soc.memory.write_gbps)))


def _replay_waves(
    trace: KernelTrace, soc: Soc, kind: str, plan: MemoryPlan, *, cores: int, timeline: bool
) -> _Replayed:
    """Replay every distinct block as often as its number of active cores differs, and deal blocks to cores."""
    dim = trace.block_dim
    full = dim // cores * cores
    groups = [(0, full, cores), (full, dim, dim - full)] if full else [(0, dim, dim)]
    loads = [0] * min(dim, cores)  # end of each core's work so far, as a heap
    totals: dict[tuple[str, Pipe], int] = {}
    weights: dict[str, int] = {}
    slices: tuple[Slice, ...] = ()
    for begin, end, active in groups:
        if begin == end:
            continue
        wave = _Wave(trace, soc, kind, plan, active=active, timeline=timeline)
        times = [trace.block_of[i] for i in range(begin, end)]
        timings = wave.replay(times)
        for index in times:
            heapq.heapreplace(loads, loads[0] + timings[index].end)
        for index in dict.fromkeys(times):
            wave.account(index, timings[index], times.count(index), totals, weights)
        if begin == 0:
            slices = timings[times[0]].slices
    count = len(loads)
    mix = kind == "MIX"
    busy: dict[str, int] = {}
    for (owner, pipe), total in totals.items():
        per_block = 2 if owner == "AIV" and mix else 1
        if total:
            busy[pipe_name(owner, pipe, mix)] = total // (count * per_block)
    return _Replayed(max(loads), sum(loads) // count, busy, _rests_on(soc, weights, max(loads) * count), slices)


class _Wave:
    """Blocks that run at the same time, so share the memory system alike."""

    def __init__(
        self, trace: KernelTrace, soc: Soc, kind: str, plan: MemoryPlan, *, active: int, timeline: bool
    ) -> None:
        self.trace, self.soc, self.kind, self.timeline = trace, soc, kind, timeline
        self.plan, self.active = plan, active
        self.pricing: dict[str, Pricing] = {}
        self.prices: dict[tuple[int, str], Prices] = {}
        self.code = trace.code
        unit = "AIC" if kind == "MIX" else kind
        self.sync: SyncTimes = sync_times(soc, unit, self.code)
        self.start = round_ps(exact(soc.scalar.start.get(self.code, 0)) * cycle_ps(soc, unit))

    def replay(self, indices: Sequence[int]) -> dict[int, BlockTiming]:
        """Timing of each distinct block, all of which begins when its scalar units have started."""
        return {i: _later(timing, self.start) for i, timing in self._replay(indices).items()}

    def _replay(self, indices: Sequence[int]) -> dict[int, BlockTiming]:
        """Timing of the programs; blocks that synchronise with each other run together."""
        blocks = self.trace.blocks
        distinct = list(dict.fromkeys(indices))
        if not any(_syncs_across_blocks(blocks[i]) for i in distinct):
            return {
                i: replay_cores(self._cores(blocks[i], 0), self.sync, timeline=self.timeline and i == distinct[0])
                for i in distinct
            }
        cores = [core for n, i in enumerate(distinct) for core in self._cores(blocks[i], n)]
        together = replay_cores(cores, self.sync, timeline=self.timeline)
        result, at = {}, 0
        for i in distinct:
            size = len(blocks[i].programs)
            result[i] = BlockTiming(
                together.end,
                together.busy[at : at + size],
                sum(p.executed for p in blocks[i].programs),
                together.slices if at == 0 else (),
            )
            at += size
        return result

    def account(
        self,
        index: int,
        timing: BlockTiming,
        times: int,
        totals: dict[tuple[str, Pipe], int],
        weights: dict[str, int],
    ) -> None:
        """Add a block that ran ``times`` times to the busy time per pipe and to the time resting on each figure."""
        block = self.trace.blocks[index]
        for program, kind, busy in zip(block.programs, block.kinds, timing.busy, strict=True):
            for pipe in range(PIPE_COUNT):
                key = (kind, Pipe(pipe))
                totals[key] = totals.get(key, 0) + busy[pipe] * times
            issued = self.sync.issue * program.executed * times
            totals[kind, Pipe.S] += issued + self.start * times
            prices = self._prices(program, kind)
            spent = prices.occupancy * program.counts * times
            for keys, ps in zip(prices.figures, spent.tolist(), strict=True):
                for key_name in keys:
                    weights[key_name] = weights.get(key_name, 0) + ps
            for key_name, ps in (
                ("sync.issue_cycles", issued),
                (f"scalar.operands.{self.code}", issued if self.code in self.soc.scalar.operands else 0),
                (f"scalar.start.{self.code}", self.start * times),
            ):
                if ps:
                    weights[key_name] = weights.get(key_name, 0) + ps

    def _cores(self, block: Block, number: int) -> list[Core]:
        cores = []
        for program, kind in zip(block.programs, block.kinds, strict=True):
            prices = self._prices(program, kind)
            cores.append(Core(program, kind, prices.occupancy, prices.latency, number))
        return cores

    def _prices(self, program: Program, kind: str) -> Prices:
        key = (id(program), kind)
        found = self.prices.get(key)
        if found is None:
            pricing = self.pricing.get(kind)
            if pricing is None:
                priced_as = self.kind if self.kind != "MIX" else kind
                per_block = 2 if kind == "AIV" and self.kind == "MIX" else 1
                # Cores that compute between their transfers meet few others at the memory; its rate bounds the kernel.
                sharing = 1 if self.trace.serial else self.active * per_block
                pricing = self.pricing[kind] = Pricing(self.soc, priced_as, self.plan.shares(sharing))
            found = self.prices[key] = pricing.program(program)
        return found


def _later(timing: BlockTiming, ps: int) -> BlockTiming:
    """The same block, begun ``ps`` later: a replay is a recurrence in max and plus, so all of it moves."""
    if not ps:
        return timing
    slices = tuple(replace(s, start=s.start + ps, end=s.end + ps) for s in timing.slices)
    return replace(timing, end=timing.end + ps, slices=slices)


def _syncs_across_blocks(block: Block) -> bool:
    """Whether a program sets a flag for all cores of its kind (mode 0)."""
    return any(bool(((p.op == Op.CROSS_SET) & (p.arg % 4 == 0)).any()) for p in block.programs)


def _rests_on(soc: Soc, weights: dict[str, int], total: int) -> tuple[tuple[str, float], ...]:
    """Figures that decide at least `MATTERS` of the cores' time, each with its share of it."""
    matter = sorted((key, ps / total) for key, ps in weights.items() if total and ps >= MATTERS * total)
    return tuple((k, s) for k, s in matter if k not in soc.figures or not _neutral(k, soc.figures[k].value))


def weakest(soc: Soc, keys: Iterable[str]) -> str:
    """Worst confidence among figures of a chip; keys that it does not have count for nothing."""
    if not soc.figures:
        return "guess"
    ranks = soc.ranks
    return CONFIDENCES[max([ranks.get(key, 0) for key in keys], default=0)]


@lru_cache(maxsize=1024)
def _head_rests_on(soc: Soc, kind: str, blocks: int, code: str, code_us: float) -> tuple[tuple[str, float], ...]:
    """Figures behind `head_ps`, each with the microseconds it adds."""
    launch = soc.launch
    parts = {"launch.head_us": launch.head_us, "launch.per_block_us": launch.per_block_us * blocks}
    parts[f"launch.code.{code}" if code in launch.code else "launch.cold_icache_us"] = code_us
    if kind == "MIX":
        parts["launch.mix_head_us"] = launch.mix_head_us
        parts["launch.mix_full_us"] = launch.mix_full_us * min(blocks / soc.cores.ai_core_count, 1)
    return tuple((key, us) for key, us in parts.items() if us)


@lru_cache(maxsize=4096)
def _neutral(key: str, value: object) -> bool:
    """A figure that changes nothing at this value (scale 1, overhead 0) casts no doubt."""
    return (key.endswith(".scale") and value == 1) or value == 0
