"""Turns the works of a trace into durations. The only place where instructions become picoseconds.

Every figure comes from the chip description; sums and quotients are exact rationals, rounded once per instruction.

Rules (cycles of the core's clock unless said):

========== =====================================================================================================
work       occupancy of its pipe
========== =====================================================================================================
cube       head + fractals x cycles per fractal of the input type
vector     (first + (repeats - 1) x slope) x scale + issue overhead + counter mode + conflicts x conflict cycles
on chip    fixed + bursts x burst + bytes / rate
GM         the longer of the port time (fixed + bursts x burst + bytes / rate) and the core's share of the memory
           system: hit bytes at min(port, core cap, L2 rate / active cores) plus missed bytes at
           min(port, core cap, memory rate / active cores). The two parts add; fixed costs overlap with them.
load3d     as a path ``:3d``; ``:3d_strided`` when the column stride is above 1; ``:3d_c04`` for four-channel input
scalar     count x issue cycles
========== =====================================================================================================

A single core streams at its port's rate, and at the cap of ``memory.core_*_bytes_per_cycle`` when all cores
stream; between the two, time per byte is interpolated linearly in the number of active cores. The cap falls by
``short_burst_factor`` for bursts below ``short_burst_bytes``, and to ``unaligned_bytes_per_cycle`` when the GM
pitch or start is not a multiple of 32 bytes. GM bursts move whole 32-byte blocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ascend_sim.engine.machine import SyncTimes
from ascend_sim.isa.instr import CubeWork, Load3dWork, MoveWork, VectorWork, Work
from ascend_sim.soc import Soc, SocError

GM_BLOCK_BYTES = 32  # smallest GM transaction
_NONE = Fraction(0)
KINDS = ("AICORE", "AIC", "AIV", "VECTOR_CORE")

_CUBE_KEYS = {
    "float16": "fp16_cycles_per_fractal",
    "bfloat16": "fp16_cycles_per_fractal",
    "int8": "int8_cycles_per_fractal",
    "uint8": "int8_cycles_per_fractal",
    "float32": "fp32_cycles_per_fractal",
    "hf32": "hf32_cycles_per_fractal",
    "int4": "int4_cycles_per_fractal",
    "depthwise": "depthwise_cycles_per_fractal",
}


@dataclass(frozen=True)
class MemoryShares:
    """How one launch shares the memory system, decided before replay.

    ``active_cores`` cores of the kind stream at once. ``miss[arg]`` is the missed fraction of all bytes read of a
    kernel argument, ``read_back[arg]`` and ``write_back[arg]`` the bytes of dirty data evicted per byte read or
    written. ``write_only``: no read misses, so write-backs run at the rate of write-only streams.
    """

    active_cores: int
    miss: Mapping[int, Fraction] = field(default_factory=dict)
    read_back: Mapping[int, Fraction] = field(default_factory=dict)
    write_back: Mapping[int, Fraction] = field(default_factory=dict)
    write_only: bool = False

    @property
    def key(self) -> tuple[object, ...]:
        """Hashable identity: equal keys give equal prices."""
        tables = (self.miss, self.read_back, self.write_back)
        return (self.active_cores, self.write_only, *(tuple(sorted(t.items())) for t in tables))


class Prices(NamedTuple):
    """Occupancy and latency of each work in ps (int64), and the config keys each price rests on."""

    occupancy: NDArray[np.int64]
    latency: NDArray[np.int64]
    figures: tuple[tuple[str, ...], ...]


def exact(value: float | int) -> Fraction:
    """The decimal number a config file wrote, not its binary approximation."""
    return Fraction(value) if isinstance(value, int) else Fraction(repr(value))


def round_ps(value: Fraction) -> int:
    """Nearest integer, halves up: monotone, the one rounding of a duration (values are never negative)."""
    return (2 * value.numerator + value.denominator) // (2 * value.denominator)


def clock_mhz(soc: Soc, kind: str) -> float:
    if kind not in KINDS:
        raise ValueError(f"core kind {kind!r}: expected one of {', '.join(KINDS)}")
    return soc.cores.vector_core_clock_mhz if kind == "VECTOR_CORE" else soc.cores.clock_mhz


def cycle_ps(soc: Soc, kind: str) -> Fraction:
    """Length of one cycle in ps: 1850 MHz is 20000/37."""
    return 1_000_000 / exact(clock_mhz(soc, kind))


def core_count(soc: Soc, kind: str) -> int:
    """Cores of a kind that can stream at the same time."""
    if kind == "AIV":
        return max(soc.cores.vector_core_count, 1)
    if kind == "VECTOR_CORE":
        return soc.cores.ai_core_count + soc.cores.vector_core_count
    return soc.cores.ai_core_count


@lru_cache(maxsize=256)
def sync_times(soc: Soc, kind: str) -> SyncTimes:
    """Issue and synchronisation costs of a core of this kind."""
    ps, s = cycle_ps(soc, kind), soc.sync
    issue, flag_set, wait, barrier, cross = (
        round_ps(exact(c) * ps)
        for c in (s.issue_cycles, s.set_cycles, s.wait_cycles, s.barrier_cycles, s.cross_core_cycles)
    )
    return SyncTimes(issue, flag_set, wait, barrier, cross, s.queue_depth)


def price(works: Sequence[Work], soc: Soc, kind: str, memory: MemoryShares) -> Prices:
    """Occupancy and latency of each work on a core of ``kind`` (AICORE, AIC, AIV, VECTOR_CORE).

    Raises `SocError` when the chip has no figure for a work (an instruction, type or path it does not have).
    """
    pricer = _pricer(soc, kind)
    shares = _Shares(soc, kind, memory)
    n = len(works)
    occupancy, latency = np.zeros(n, np.int64), np.zeros(n, np.int64)
    figures: list[tuple[str, ...]] = []
    for i, work in enumerate(works):
        occupancy[i], latency[i], keys = pricer.work(work, shares)
        figures.append(keys)
    return Prices(occupancy, latency, tuple(figures))


_Priced = tuple[int, int, tuple[str, ...]]


class _Path(NamedTuple):
    """A data path in ps: what `soc.Path` says in cycles."""

    fixed: Fraction
    burst: Fraction
    byte: Fraction
    latency: Fraction
    key: str


class _Shares:
    """The memory system as one core of a launch sees it: ps per byte, by direction and cap."""

    def __init__(self, soc: Soc, kind: str, memory: MemoryShares) -> None:
        self.memory = memory
        m, total = soc.memory, core_count(soc, kind)
        active = min(max(memory.active_cores, 1), total)
        self.crowd = Fraction(1) if total == 1 else Fraction(active - 1, total - 1)
        per_byte = {
            name: active * 1000 / exact(rate)  # 1 GB/s is 1/1000 byte per ps
            for name, rate in (
                ("l2_read", m.l2_read_gbps),
                ("l2_write", m.l2_write_gbps),
                ("read", m.read_gbps),
                ("back", max(m.write_gbps, m.read_gbps) if memory.write_only else m.read_gbps),
            )
        }
        self.l2_read, self.l2_write = per_byte["l2_read"], per_byte["l2_write"]
        self.read, self.back = per_byte["read"], per_byte["back"]
        self.cache: dict[Work, _Priced] = {}


class _Pricer:
    """Prices of one chip and core kind, the parts that do not depend on a launch computed once."""

    def __init__(self, soc: Soc, kind: str) -> None:
        self.soc, self.kind, self.ps = soc, kind, cycle_ps(soc, kind)
        self.paths: dict[tuple[str, str, str], _Path] = {}
        self.fixed: dict[Work, _Priced] = {}  # works whose price does not depend on memory shares
        m = soc.memory
        self.core_byte = {
            "L1": self.ps / exact(m.core_l1_bytes_per_cycle),
            "UB": self.ps / exact(m.core_ub_bytes_per_cycle),
        }
        self.unaligned = self.ps / exact(m.unaligned_bytes_per_cycle)
        self.short = 1 / exact(m.short_burst_factor)
        self.miss_latency = exact(m.miss_latency_cycles) * self.ps

    def work(self, work: Work, shares: _Shares) -> _Priced:
        if isinstance(work, MoveWork) and work.gm >= 0:
            found = shares.cache.get(work)
            if found is None:
                found = shares.cache[work] = self._transfer(work, shares)
            return found
        found = self.fixed.get(work)
        if found is None:
            found = self.fixed[work] = self._on_core(work)
        return found

    def _on_core(self, work: Work) -> _Priced:
        if isinstance(work, MoveWork):
            return self._move(work, self._path(work.path, work.mode, work.dtype))
        if isinstance(work, VectorWork):
            return self._vector(work)
        if isinstance(work, CubeWork):
            return self._cube(work)
        if isinstance(work, Load3dWork):
            mode = "3d_c04" if work.c0_small else "3d_strided" if work.stride_w > 1 else "3d"
            path = self._path(work.path, mode if f"{work.path}:{mode}" in self.soc.mte.paths else "3d", "")
            occupancy = path.fixed + path.burst + work.nbytes * path.byte
            return round_ps(occupancy), round_ps(path.latency), (path.key,)
        occupancy = work.count * exact(self.soc.sync.issue_cycles) * self.ps
        return round_ps(occupancy), 0, ("sync.issue_cycles",)

    def _cube(self, work: CubeWork) -> _Priced:
        cube = self.soc.cube
        name = _CUBE_KEYS.get(work.dtype)
        cycles = getattr(cube, name) if name else 0
        if name is None or not cycles:
            raise SocError(f"{self.soc.name} has no cube rate for input type {work.dtype!r} (cube.{name or '?'})")
        occupancy = exact(cube.head_cycles) + work.m * work.k * work.n * exact(cycles)
        keys = ("cube.head_cycles", f"cube.{name}")
        return round_ps(occupancy * self.ps), round_ps(exact(cube.tail_cycles) * self.ps), keys

    def _vector(self, work: VectorWork) -> _Priced:
        v = self.soc.vector
        for name in (f"{work.op}:{work.dtype}", f"{work.op}:{work.dtype.split('_')[0]}", work.op, "default"):
            row = v.cycles.get(name)
            if row is not None:
                break
        else:
            raise SocError(f"{self.soc.name} has no cycles for instruction {work.op!r} (vector.cycles.{work.op})")
        first, slope, tail = (exact(c) for c in row)
        scale = exact(v.scale)
        cycles = (first + max(work.repeats - 1, 0) * slope) * scale + exact(v.instruction_cycles)
        keys = [f"vector.cycles.{name}", "vector.scale", "vector.instruction_cycles"]
        if work.counter:
            cycles += exact(v.counter_mode_cycles)
            keys.append("vector.counter_mode_cycles")
        if work.bank_conflicts:
            cycles += work.bank_conflicts * exact(v.conflict_cycles)
            keys.append("vector.conflict_cycles")
        return round_ps(cycles * self.ps), round_ps(tail * scale * self.ps), tuple(keys)

    def _move(self, work: MoveWork, path: _Path) -> _Priced:
        occupancy = path.fixed + work.bursts * path.burst + work.bursts * work.burst_bytes * path.byte
        return round_ps(occupancy), round_ps(path.latency), (path.key,)

    def _transfer(self, work: MoveWork, shares: _Shares) -> _Priced:
        path = self._path(work.path, work.mode, work.dtype)
        nbytes = work.bursts * -(-work.burst_bytes // GM_BLOCK_BYTES) * GM_BLOCK_BYTES
        port = path.fixed + work.bursts * path.burst + nbytes * path.byte
        memory, source = shares.memory, work.path.partition("_")
        keys = [path.key]
        if source[2] == "GM":
            back = memory.write_back.get(work.gm, _NONE)
            hit = max(path.byte, shares.l2_write)
            keys.append("memory.l2_write_gbps")
            if work.align < GM_BLOCK_BYTES:
                hit = max(hit, self.unaligned)
                keys.append("memory.unaligned_bytes_per_cycle")
            share = nbytes * (max(1 - back, _NONE) * hit + back * max(path.byte, shares.back))
            if back:
                keys.append("memory.write_gbps" if memory.write_only else "memory.read_gbps")
            return round_ps(max(port, share)), round_ps(path.latency), tuple(keys)
        cap_name = "UB" if source[2] == "UB" else "L1"
        cap = path.byte + max(self.core_byte[cap_name] - path.byte, _NONE) * shares.crowd
        keys += [f"memory.core_{cap_name.lower()}_bytes_per_cycle", "memory.l2_read_gbps"]
        if work.burst_bytes < self.soc.memory.short_burst_bytes:
            cap *= self.short
            keys.append("memory.short_burst_factor")
        if work.align < GM_BLOCK_BYTES:
            cap = max(cap, self.unaligned)
            keys.append("memory.unaligned_bytes_per_cycle")
        miss, back = memory.miss.get(work.gm, _NONE), memory.read_back.get(work.gm, _NONE)
        share = nbytes * ((1 - miss) * max(cap, shares.l2_read) + miss * max(cap, shares.read) + back * shares.back)
        latency = path.latency
        if miss:
            latency += miss * self.miss_latency
            keys += ["memory.read_gbps", "memory.miss_latency_cycles"]
        return round_ps(max(port, share)), round_ps(latency), tuple(keys)

    def _path(self, name: str, mode: str, dtype: str) -> _Path:
        key = (name, mode, dtype)
        path = self.paths.get(key)
        if path is None:
            table = self.soc.mte.paths
            for choice in (f"{name}:{mode}:{dtype}", f"{name}:{mode}", f"{name}:{dtype}", name):
                if choice in table:
                    break
            else:
                raise SocError(f"{self.soc.name} has no data path {name} (mte.paths.{name})")
            p = table[choice]
            path = self.paths[key] = _Path(
                exact(p.fixed_cycles) * self.ps,
                exact(p.burst_cycles) * self.ps,
                self.ps / exact(p.bytes_per_cycle),
                exact(p.latency_cycles) * self.ps,
                f"mte.paths.{choice}",
            )
        return path


@lru_cache(maxsize=64)
def _pricer(soc: Soc, kind: str) -> _Pricer:
    return _Pricer(soc, kind)
