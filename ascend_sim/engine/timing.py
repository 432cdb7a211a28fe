"""Turns the works of a trace into durations. The only place where instructions become picoseconds.

Every figure comes from the chip description; sums and quotients are exact rationals, rounded once per instruction.

Rules (cycles of the core's clock unless said):

========== =====================================================================================================
work       occupancy of its pipe
========== =====================================================================================================
cube       head + fractals x cycles per fractal of the input type, at least the floor
vector     (the longest of the first-repeat cost, repeats x slope, and access to the unified buffer: a cycle a
           repeat and ``conflict_cycles`` per conflict) x scale + issue overhead + counter mode
on chip    fixed + bursts x burst + bytes / rate, at least the floor
GM         the longest of three stages that overlap: requests (fixed + bursts x burst, more where rows miss), port
           (bytes / rate) and the core's share of the memory system; at least the floor. Hit bytes move at min(core
           cap, L2 rate / active cores), missed bytes at min(core cap, miss cap, memory rate / active cores); the two
           parts add, less what ``miss_overlap`` lets pass at once.
load3d     as a path ``:3d``; ``:3d_c04`` for four-channel input; when the column stride is above 1 ``:3d_stride2``
           (or 3, ...), else ``:3d_strided``, else at most the L1_L0A rate over the stride: the wanted part of each line
scalar     count x cycles of the routine, or of the issue of an instruction
========== =====================================================================================================

A single core streams at its port's rate, and at the cap of ``memory.core_*_bytes_per_cycle`` when all cores
stream; between the two, time per byte is interpolated linearly in the number of active cores. Reads and writes of a
launch share the L2: the busier direction moves as if it carried both. Cap and memory rate fall by
``short_burst_factor`` for bursts below ``short_burst_bytes``, and the cap to ``unaligned_bytes_per_cycle`` when the GM
pitch or start is not a multiple of 32 bytes. GM bursts move whole 32-byte blocks; one of a line (512 bytes) or more
that does not start on a line moves ``partial_line_bytes`` more; a transfer of such bursts out of UB that starts inside
a block takes ``odd_write_cycles`` more. A transfer (not the L0C exit) of the same addresses as the one before it waits
until that one has arrived: its latency more, ``miss_replay_cycles`` on top for the part that misses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ascend_sim.engine.machine import SyncTimes
from ascend_sim.engine.trace import Program
from ascend_sim.engine.variants import core_key
from ascend_sim.isa.instr import CubeWork, Load3dWork, MoveWork, VectorWork, Work
from ascend_sim.soc import Soc, SocError

GM_BLOCK_BYTES = 32  # smallest GM transaction
BLOCK_BYTES = 32  # a pixel of one channel block, the unit of on-chip buffers
LINE_BYTES = 512
SHARED_ROW_BYTES = 256  # rows below this share their lines with neighbours that are read soon
KNOWN_TRANSFERS = 4096  # laws kept per chip and kind of core
KNOWN_VARIANTS = 32  # prices kept per program
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
    written. ``write_only``: no read misses, so write-backs run at the rate of write-only streams. ``mix`` (1 to
    2): bytes both ways per byte of the busier direction; L2 carries both. ``pure`` (0 to 1): how far the launch only
    reads. ``sparse``: arguments of which less than half is read: neighbours do not share the lines of short rows.
    """

    active_cores: int
    miss: Mapping[int, Fraction] = field(default_factory=dict)
    read_back: Mapping[int, Fraction] = field(default_factory=dict)
    write_back: Mapping[int, Fraction] = field(default_factory=dict)
    write_only: bool = False
    mix: Fraction = Fraction(1)
    pure: Fraction = Fraction(0)
    sparse: frozenset[int] = frozenset()

    @property
    def key(self) -> tuple[object, ...]:
        """Hashable identity: equal keys give equal prices."""
        tables = (self.miss, self.read_back, self.write_back)
        return (
            self.active_cores,
            self.write_only,
            self.mix,
            self.pure,
            self.sparse,
            *(tuple(sorted(t.items())) for t in tables),
        )


class Prices(NamedTuple):
    """Occupancy and latency of each work in ps (int64), and the config keys each occupancy rests on."""

    occupancy: NDArray[np.int64]
    latency: NDArray[np.int64]
    figures: tuple[tuple[str, ...], ...]


@lru_cache(maxsize=8192)
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


def memory_read(soc: Soc, pure: Fraction) -> Fraction:
    """ps per byte that all cores together take to fetch from memory. Streams that only read spare the bus its turns."""
    mixed = 1000 / exact(soc.memory.read_gbps)
    return mixed * (1 - pure + pure / exact(soc.memory.read_only_factor)) if pure else mixed


@lru_cache(maxsize=256)
def sync_times(soc: Soc, kind: str, code: str = "") -> SyncTimes:
    """Issue and synchronisation costs of a core of this kind in kernels of class ``code`` (`scalar.operands`)."""
    ps, s = cycle_ps(soc, kind), soc.sync
    issue, flag_set, wait, barrier, cross = (
        round_ps(c * ps)
        for c in (
            exact(s.issue_cycles) + exact(soc.scalar.operands.get(code, 0)),
            *map(exact, (s.set_cycles, s.wait_cycles, s.barrier_cycles, s.cross_core_cycles)),
        )
    )
    return SyncTimes(issue, flag_set, wait, barrier, cross, s.queue_depth)


def price(works: Sequence[Work], soc: Soc, kind: str, memory: MemoryShares) -> Prices:
    """Occupancy and latency of each work on a core of ``kind`` (AICORE, AIC, AIV, VECTOR_CORE).

    Raises `SocError` when the chip has no figure for a work (an instruction, type or path it does not have).
    """
    return Pricing(soc, kind, memory).price(works)


class Pricing:
    """Prices on the cores of one launch; see `price`."""

    def __init__(self, soc: Soc, kind: str, memory: MemoryShares) -> None:
        self._soc, self._kind = soc, kind
        self._transfers = _Transfers(_pricer(soc, kind), memory)

    def program(self, program: Program) -> Prices:
        """Prices of a program's works; those of works that stay on the core are kept for other variants of the chip."""
        known = _on_core.setdefault(program, {})
        key = core_key(self._soc), self._kind
        found = known.get(key)
        if found is None:
            if len(known) >= KNOWN_VARIANTS:
                known.pop(next(iter(known)))
            found = known[key] = self._own(program.works)
        return self._complete(found)

    def price(self, works: Sequence[Work]) -> Prices:
        return self._complete(self._own(works))

    def _own(self, works: Sequence[Work]) -> _Own:
        """Prices of what stays on the core; what does not is free for now."""
        pricer = self._transfers.pricer
        laws = [pricer.own(work) for work in works]
        away = tuple((i, w) for i, w in enumerate(works) if isinstance(w, MoveWork) and w.gm >= 0)
        return _Own(
            np.array([time for time, _, _ in laws], np.int64),
            np.array([latency for _, latency, _ in laws], np.int64),
            [keys for _, _, keys in laws],
            away,
        )

    def _complete(self, own: _Own) -> Prices:
        """With the prices of transfers to and from global memory."""
        occupancy, latency, figures = own.occupancy.copy(), own.latency.copy(), own.figures.copy()
        transfers = self._transfers
        for index, work in own.away:
            law = transfers.law(work)
            occupancy[index] = law.at(work.bursts, work.bursts * transfers.burst_bytes(work))
            latency[index] = law.latency
            figures[index] = law.keys
        return Prices(occupancy, latency, tuple(figures))


class _Own(NamedTuple):
    """As `Prices`, with zeros for works ``away`` from the core: index and work."""

    occupancy: NDArray[np.int64]
    latency: NDArray[np.int64]
    figures: list[tuple[str, ...]]
    away: tuple[tuple[int, MoveWork], ...]


_on_core: WeakKeyDictionary[Program, dict[tuple[str, str], _Own]] = WeakKeyDictionary()


class _Law(NamedTuple):
    """Occupancy in ps as an exact rational, of n pieces with m units of work in all; every field is over ``scale``:

    ``base + max(floor, a + b, m x share)`` with a = fixed + n x step and b = n x also + m x unit; where the two
    overlap, ``base + max(floor, max(a, b) + wait, m x share)``. ``latency`` is already rounded.
    """

    base: int
    floor: int
    fixed: int
    step: int
    also: int
    unit: int
    share: int
    wait: int
    overlap: bool
    scale: int
    latency: int
    keys: tuple[str, ...]

    def at(self, n: int, m: int) -> int:
        a, b = self.fixed + n * self.step, n * self.also + m * self.unit
        own = max(a, b) + self.wait if self.overlap else a + b
        exactly = self.base + max(self.floor, own, m * self.share)
        return (2 * exactly + self.scale) // (2 * self.scale)  # as round_ps


def _law(
    *keys: str, latency: Fraction = _NONE, base: Fraction = _NONE, floor: Fraction = _NONE, fixed: Fraction = _NONE,
    step: Fraction = _NONE, also: Fraction = _NONE, unit: Fraction = _NONE, share: Fraction = _NONE,
    wait: Fraction = _NONE, overlap: bool = False,
) -> _Law:  # fmt: skip
    parts = (base, floor, fixed, step, also, unit, share, wait)
    scale = math.lcm(*(part.denominator for part in parts))
    a, b, c, d, e, f, g, h = (part.numerator * (scale // part.denominator) for part in parts)
    return _Law(a, b, c, d, e, f, g, h, overlap, scale, round_ps(latency), keys)


class _Path(NamedTuple):
    """A data path in ps: what `ascend_sim.soc.Path` says in cycles."""

    fixed: Fraction
    burst: Fraction
    byte: Fraction
    latency: Fraction
    floor: Fraction
    key: str


class _Pricer:
    """The laws of one chip and core kind that do not depend on a launch."""

    def __init__(self, soc: Soc, kind: str) -> None:
        self.soc, self.kind, self.ps = soc, kind, cycle_ps(soc, kind)
        self._laws: dict[tuple[object, ...], _Law] = {}
        self._paths: dict[tuple[str, str, str], _Path] = {}
        self._caps: dict[tuple[object, ...], Fraction] = {}
        self.transfers: dict[tuple[object, ...], _Law] = {}  # of launches so far, by all that decides them

    def own(self, work: Work) -> tuple[int, int, tuple[str, ...]]:
        """Occupancy, latency and keys of a work that stays on the core (zeros for one that does not)."""
        law: _Law
        if isinstance(work, MoveWork):
            if work.gm >= 0:
                return 0, 0, ()
            law = self.move(work.path, work.mode, work.dtype)
            time = law.at(work.bursts, work.bursts * work.burst_bytes)
        elif isinstance(work, VectorWork):
            law = self.vector(work.op, work.dtype, work.counter, work.bank_conflicts > 0)
            time = law.at(max(work.repeats, 1), work.bank_conflicts)
        elif isinstance(work, CubeWork):
            law = self.cube(work.dtype)
            time = law.at(1, work.m * work.k * work.n)
        elif isinstance(work, Load3dWork):
            law = self.load3d(work.path, work.stride_w, work.c0_small)
            time = law.at(1, work.nbytes)
        else:
            law = self.scalar(work.op)
            time = law.at(work.times, 0)
        return time, law.latency, law.keys

    def cube(self, dtype: str) -> _Law:
        law = self._laws.get((dtype,))
        if law is None:
            cube, name = self.soc.cube, _CUBE_KEYS.get(dtype)
            cycles = getattr(cube, name) if name else 0
            if name is None or not cycles:
                raise SocError(f"{self.soc.name} has no cube rate for input type {dtype!r} (cube.{name or '?'})")
            head, tail, floor, each = (
                exact(c) * self.ps for c in (cube.head_cycles, cube.tail_cycles, cube.floor_cycles, cycles)
            )
            keys = ("cube.head_cycles", f"cube.{name}")
            law = self._laws[dtype,] = _law(*keys, latency=tail, floor=floor, fixed=head, unit=each)
        return law

    def vector(self, op: str, dtype: str, counter: bool, conflicts: bool) -> _Law:
        key = (op, dtype, counter, conflicts)
        law = self._laws.get(key)
        if law is None:
            v = self.soc.vector
            name = self._vector_row(op, dtype)
            first, slope, tail = (exact(c) * exact(v.scale) * self.ps for c in v.cycles[name])
            base = exact(v.instruction_cycles)
            keys = [f"vector.cycles.{name}", "vector.scale", "vector.instruction_cycles"]
            if counter:
                base += exact(v.counter_mode_cycles)
                keys.append("vector.counter_mode_cycles")
            if conflicts:
                access, wait = (exact(v.scale) * c * self.ps for c in (Fraction(1), exact(v.conflict_cycles)))
                law = _law(
                    *keys, "vector.conflict_cycles", latency=tail, base=base * self.ps, floor=first, step=slope,
                    also=min(access, slope), unit=wait, overlap=True,
                )  # fmt: skip
            else:
                law = _law(*keys, latency=tail, base=base * self.ps, floor=first, step=slope)
            self._laws[key] = law
        return law

    def _vector_row(self, op: str, dtype: str) -> str:
        for name in (f"{op}:{dtype}", f"{op}:{dtype.partition('_')[0]}", op, "default"):
            if name in self.soc.vector.cycles:
                return name
        raise SocError(f"{self.soc.name} has no cycles for instruction {op!r} (vector.cycles.{op})")

    def move(self, name: str, mode: str, dtype: str) -> _Law:
        key = (name, mode, dtype)
        law = self._laws.get(key)
        if law is None:
            path = self.path(name, mode, dtype)
            law = self._laws[key] = _law(
                path.key, latency=path.latency, floor=path.floor, fixed=path.fixed, step=path.burst, unit=path.byte
            )
        return law

    def load3d(self, name: str, stride: int, small: bool) -> _Law:
        modes = ("3d_c04",) if small else (f"3d_stride{stride}", "3d_strided") if stride > 1 else ()
        mode = next((m for m in modes if f"{name}:{m}" in self.soc.mte.paths), "3d")
        return self._sparse(name, stride) if mode == "3d" and stride > 1 else self.move(name, mode, "")

    def _sparse(self, name: str, stride: int) -> _Law:
        """im2col that skips columns. A cycle brings one line of L1, as wide as its port to L0A; of the pixels side by
        side in it one in ``stride`` is wanted, at least one block of 32 bytes."""
        key = (name, stride)
        law = self._laws.get(key)
        if law is None:
            path, line = self.path(name, "3d", ""), self.path("L1_L0A", "", "")
            unit = max(path.byte, min(line.byte * stride, self.ps / BLOCK_BYTES))
            law = self._laws[key] = _law(
                path.key, line.key, latency=path.latency, floor=path.floor, fixed=path.fixed, step=path.burst, unit=unit
            )
        return law

    def scalar(self, op: str) -> _Law:
        op = op if op in self.soc.scalar.work else ""
        law = self._laws.get(("scalar", op))
        if law is None:
            cycles = self.soc.scalar.work[op] if op else self.soc.sync.issue_cycles
            law = _law(f"scalar.work.{op}" if op else "sync.issue_cycles", step=exact(cycles) * self.ps)
            self._laws["scalar", op] = law
        return law

    def per_byte(self, bytes_per_cycle: float) -> Fraction:
        return self.ps / exact(bytes_per_cycle)

    def cap(self, path: _Path, name: str, short: bool, odd: bool, active: int, crowd: Fraction) -> Fraction:
        """ps per byte that the port to buffer ``name`` (``ub`` or ``l1``) takes while ``active`` cores stream."""
        key = (path.key, name, short, odd, active)
        cap = self._caps.get(key)
        if cap is None:
            m = self.soc.memory
            crowded = self.per_byte(m.core_ub_bytes_per_cycle if name == "ub" else m.core_l1_bytes_per_cycle)
            cap = path.byte + max(crowded - path.byte, _NONE) * crowd
            if short:
                cap /= exact(m.short_burst_factor)
            if odd:
                cap = max(cap, self.per_byte(m.unaligned_bytes_per_cycle))
            self._caps[key] = cap
        return cap

    def path(self, name: str, mode: str, dtype: str) -> _Path:
        key = (name, mode, dtype)
        path = self._paths.get(key)
        if path is None:
            table = self.soc.mte.paths
            for choice in (f"{name}:{mode}:{dtype}", f"{name}:{mode}", f"{name}:{dtype}", name):
                if choice in table:
                    break
            else:
                raise SocError(f"{self.soc.name} has no data path {name} (mte.paths.{name})")
            p, ps = table[choice], self.ps
            path = self._paths[key] = _Path(
                exact(p.fixed_cycles) * ps,
                exact(p.burst_cycles) * ps,
                ps / exact(p.bytes_per_cycle),
                exact(p.latency_cycles) * ps,
                exact(p.floor_cycles) * ps,
                f"mte.paths.{choice}",
            )
        return path


class _Stream(NamedTuple):
    """How an argument comes from global memory: ps per byte, latency, further ps of a replay and of a row."""

    share: Fraction
    latency: Fraction
    wait: Fraction
    row: Fraction
    keys: tuple[str, ...]


class _Transfers:
    """The laws of transfers to and from GM, as one core of a launch sees the memory system."""

    def __init__(self, pricer: _Pricer, memory: MemoryShares) -> None:
        self.pricer, self.memory = pricer, memory
        # of this launch, by all of a work that decides them
        self._met: dict[tuple[object, ...], _Law] = {}
        self._streams: dict[tuple[object, ...], _Stream] = {}
        total = core_count(pricer.soc, pricer.kind)
        self.active = min(max(memory.active_cores, 1), total)
        self.crowd = Fraction(1) if total == 1 else Fraction(self.active - 1, total - 1)

    @cached_property
    def back(self) -> Fraction:
        """ps per byte written back."""
        m = self.pricer.soc.memory
        return self._shared(max(m.write_gbps, m.read_gbps) if self.memory.write_only else m.read_gbps)

    def burst_bytes(self, work: MoveWork) -> int:
        """Bytes that one burst of a transfer moves: whole blocks, and what a burst of whole lines adds by cutting two.

        Shorter bursts pay by their own rate (``short_burst_factor``), wherever they begin."""
        size = -(-work.burst_bytes // GM_BLOCK_BYTES) * GM_BLOCK_BYTES
        cut = GM_BLOCK_BYTES <= work.align < LINE_BYTES <= size
        return size + self.pricer.soc.memory.partial_line_bytes if cut else size

    def law(self, work: MoveWork) -> _Law:
        short = work.burst_bytes < self.pricer.soc.memory.short_burst_bytes
        odd, row = work.align < GM_BLOCK_BYTES, min(work.burst_bytes, SHARED_ROW_BYTES)
        alike = work.path, work.mode, work.dtype, short, odd, work.again, work.bypass, work.gm, row
        law = self._met.get(alike)
        if law is None:
            law = self._met[alike] = self._find(work, short, odd)
        return law

    def _find(self, work: MoveWork, short: bool, odd: bool) -> _Law:
        written, memory = work.path.endswith("_GM"), self.memory
        make = self._write if written else self._read
        back = (memory.write_back if written else memory.read_back).get(work.gm)
        if back or (not written and memory.miss.get(work.gm)):
            return make(work, short, odd)
        rate = work.bypass and memory.write_only
        key = work.path, work.mode, work.dtype, short, odd, work.again, work.bypass, self.active, memory.mix, rate
        known = self.pricer.transfers
        law = known.get(key)
        if law is None:
            if len(known) >= KNOWN_TRANSFERS:
                known.clear()
            law = known[key] = make(work, short, odd)
        return law

    def _fetched(self, work: MoveWork) -> Fraction:
        """Share of its lines that a missing row fetches itself: short rows share theirs with neighbours."""
        if work.gm in self.memory.sparse:
            return Fraction(1)
        return min(Fraction(work.burst_bytes, SHARED_ROW_BYTES), Fraction(1))

    def _law(self, path: _Path, share: Fraction, latency: Fraction, wait: Fraction, *keys: str) -> _Law:
        return _law(
            path.key, *keys, latency=latency, floor=path.floor, fixed=path.fixed, step=path.burst, unit=path.byte,
            share=share, wait=wait, overlap=True,
        )  # fmt: skip

    def _shared(self, gbps: float) -> Fraction:
        """ps per byte of one core when all active ones share a rate; 1 GB/s is 1/1000 byte per ps."""
        return self.active * 1000 / exact(gbps)

    @cached_property
    def _l2_read(self) -> Fraction:
        """ps per byte of one core that L2 takes to bring data."""
        return self._shared(self.pricer.soc.memory.l2_read_gbps) * self.memory.mix

    @cached_property
    def _fetch(self) -> Fraction:
        """ps per byte of one core that memory takes to bring data."""
        return self.active * memory_read(self.pricer.soc, self.memory.pure)

    def _write(self, work: MoveWork, short: bool, odd: bool) -> _Law:
        m, path = self.pricer.soc.memory, self.pricer.path(work.path, work.mode, work.dtype)
        back = Fraction(1) if work.bypass else self.memory.write_back.get(work.gm, _NONE)
        keys = ["memory.l2_write_gbps"]
        absorbed = max(path.byte, self._shared(m.l2_write_gbps) * self.memory.mix)
        if work.path == "UB_GM":
            absorbed = max(absorbed, self.pricer.per_byte(m.core_ub_write_bytes_per_cycle))
            keys.append("memory.core_ub_write_bytes_per_cycle")
            if odd and not short and m.odd_write_cycles:
                path = path._replace(fixed=path.fixed + exact(m.odd_write_cycles) * self.pricer.ps)
                keys.append("memory.odd_write_cycles")
        if odd and work.path == "L1_GM":
            absorbed = max(absorbed, self.pricer.per_byte(m.unaligned_bytes_per_cycle))
            keys.append("memory.unaligned_bytes_per_cycle")
        if back:
            keys.append("memory.write_gbps" if self.memory.write_only else "memory.read_gbps")
        share = absorbed
        if back:
            share = max(1 - back, _NONE) * absorbed + back * max(absorbed if work.bypass else path.byte, self.back)
        wait = path.latency if work.again and not work.path.startswith("L0C") else _NONE
        return self._law(path, share, path.latency, wait, *keys)

    def _read(self, work: MoveWork, short: bool, odd: bool) -> _Law:
        path = self.pricer.path(work.path, work.mode, work.dtype)
        key = path.key, work.path, short, odd, work.again, work.gm
        stream = self._streams.get(key)
        if stream is None:
            stream = self._streams[key] = self._stream(path, work, short, odd)
        if stream.row:
            path = path._replace(burst=path.burst + stream.row * self._fetched(work))
        return self._law(path, stream.share, stream.latency, stream.wait, *stream.keys)

    def _stream(self, path: _Path, work: MoveWork, short: bool, odd: bool) -> _Stream:
        m, ps = self.pricer.soc.memory, self.pricer.ps
        name = "ub" if work.path.endswith("_UB") else "l1"
        cap = self.pricer.cap(path, name, short, odd and name == "l1", self.active, self.crowd)
        keys = [f"memory.core_{name}_bytes_per_cycle", "memory.l2_read_gbps"]
        if short:
            keys.append("memory.short_burst_factor")
        if odd and name == "l1":
            keys.append("memory.unaligned_bytes_per_cycle")
        miss, back = self.memory.miss.get(work.gm, _NONE), self.memory.read_back.get(work.gm, _NONE)
        latency, wait, row = path.latency, path.latency if work.again else _NONE, _NONE
        share = max(cap, self._l2_read)
        if miss:
            latency += miss * exact(m.miss_latency_cycles) * ps
            row = (miss + back) * exact(m.miss_burst_cycles) * ps  # a dirty victim leaves first
            wait += miss * exact(m.miss_replay_cycles) * ps if work.again else _NONE
            keys.extend(("memory.read_gbps", "memory.core_miss_bytes_per_cycle", "memory.miss_burst_cycles"))
            fetched = self._fetch
            if short:  # half of a 512-byte line is fetched in vain, unless a neighbour wants it soon
                fetched /= exact(m.short_burst_factor)
            missed = max(cap, fetched, self.pricer.per_byte(m.core_miss_bytes_per_cycle))
            hits, missing = share, miss * missed + back * self.back
            share = (1 - miss) * hits + missing
            if m.miss_overlap:
                share -= exact(m.miss_overlap) * (share - max(hits, missing))
        elif back:
            share += back * self.back
        return _Stream(share, latency, wait, row, tuple(keys))


@lru_cache(maxsize=1024)  # variants of a sweep, met again with each batch
def _pricer(soc: Soc, kind: str) -> _Pricer:
    return _Pricer(soc, kind)
