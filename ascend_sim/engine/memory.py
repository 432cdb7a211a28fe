"""The L2 cache of a device, and what a launch finds in it.

Residency is kept per 64 KiB chunk of device address; the least recently used one, or a random one, makes room. A read
miss fetches the chunk, a write allocates without fetching, and a dirty chunk costs memory traffic only when it is
evicted. Whether a transfer hits is decided once per launch and kernel argument, before replay: `plan_memory` walks the
arguments in the order the trace first touches them, all at the same relative pace (kernels stream through their
tensors together).

Data that a launch reads again hits, unless the cores move more than the L2 holds between the two reads: several
passes over a large tensor miss each time. That is known from the trace (`Program.rereads`) and believed for arguments
that the cores divide among themselves; what several cores read (the operands of a matrix product) another core has
touched in the meantime. Transfers that ask to bypass the L2 neither allocate nor stay in it.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from ascend_sim.engine.timing import MemoryShares, core_count
from ascend_sim.engine.trace import KernelTrace
from ascend_sim.soc import Soc

CHUNK_BYTES = 64 * 1024
PACE_STEPS = 32  # pieces each argument is cut into while arguments advance together
SHARED = Fraction(5, 4)  # bytes first reads of all cores may sum to before an argument counts as read by several


class L2:
    """L2 residency of one device; survives between kernels.

    An L2 full of clean foreign lines behaves as an empty one: nothing hits and evictions are free. So a new L2, and
    one after `flush_cold`, is what measurements call *cold*.
    """

    def __init__(self, soc: Soc) -> None:
        self.capacity = soc.memory.l2_bytes // CHUNK_BYTES  # chunks
        self.written_back = 0  # bytes of dirty data evicted so far
        self._kernels: set[str] = set()  # kernels whose code has run since the last flush
        self._all_code = False
        self.network = False  # whether other kernels run between any two of the launches, as in a network
        self._random = soc.memory.l2_policy == "random"
        # chunk -> dirty, least recently used first; a plain dictionary is quicker where no order is kept
        self._dirty: dict[int, bool] = {} if self._random else OrderedDict()
        self._slots: list[int] = []  # resident chunks, for random replacement
        self._draw = 1  # state of the generator

    def access(self, base: int, nbytes: int, write: bool) -> int:
        """Touch [base, base + nbytes); returns the bytes that were not resident (0 for writes: no fetch)."""
        if nbytes <= 0:
            return 0
        capacity = self.capacity
        if not capacity:
            self.written_back += nbytes if write else 0
            return 0 if write else nbytes
        if self._random:
            return self._access_random(base, nbytes, write)
        lines = self._dirty
        assert isinstance(lines, OrderedDict)
        end = base + nbytes
        missed = 0
        first, last = base // CHUNK_BYTES, (end - 1) // CHUNK_BYTES
        for chunk in range(first, last + 1):
            if chunk in lines:
                lines.move_to_end(chunk)
                if write:
                    lines[chunk] = True
                continue
            missed += CHUNK_BYTES
            if len(lines) >= capacity and lines.popitem(last=False)[1]:
                self.written_back += CHUNK_BYTES
            lines[chunk] = write
            if chunk == first:
                missed -= base - first * CHUNK_BYTES
            if chunk == last:
                missed -= (last + 1) * CHUNK_BYTES - end
        return 0 if write else missed

    def _access_random(self, base: int, nbytes: int, write: bool) -> int:
        """`access` where any resident chunk makes room for a new one, drawn by a fixed generator."""
        lines, slots, capacity = self._dirty, self._slots, self.capacity
        first, last = base // CHUNK_BYTES, (base + nbytes - 1) // CHUNK_BYTES
        draw, written, missed = self._draw, 0, 0
        for chunk in range(first, last + 1):
            if chunk in lines:
                if write:
                    lines[chunk] = True
                continue
            missed += CHUNK_BYTES
            if chunk == first:
                missed -= base - first * CHUNK_BYTES
            if chunk == last:
                missed -= (last + 1) * CHUNK_BYTES - base - nbytes
            if len(slots) < capacity:
                slots.append(chunk)
            else:
                draw = (draw * 1103515245 + 12345) & 0x7FFFFFFF
                place = (draw >> 8) % capacity
                written += lines.pop(slots[place])
                slots[place] = chunk
            lines[chunk] = write
        self._draw = draw
        self.written_back += written * CHUNK_BYTES
        return 0 if write else missed

    def bypass(self, base: int, nbytes: int, write: bool) -> int:
        """Touch a range without keeping it: reads return the bytes that are not resident, writes go to memory and
        displace resident copies."""
        if write:
            self.written_back += nbytes
            self.discard(base, nbytes)
            return 0
        missed = 0
        for chunk in range(base // CHUNK_BYTES, -(-(base + nbytes) // CHUNK_BYTES)):
            if chunk not in self._dirty:
                begin, end = chunk * CHUNK_BYTES, (chunk + 1) * CHUNK_BYTES
                missed += min(end, base + nbytes) - max(begin, base)
        return missed

    def discard(self, base: int, nbytes: int) -> None:
        """Forget a range (freed memory): dirty data in it is dropped without traffic."""
        first, last = -(-base // CHUNK_BYTES), (base + nbytes) // CHUNK_BYTES
        if last - first > len(self._dirty):
            for chunk in [c for c in self._dirty if first <= c < last]:
                del self._dirty[chunk]
        else:
            for chunk in range(first, last):
                self._dirty.pop(chunk, None)
        if self._random:
            self._slots = [c for c in self._slots if c in self._dirty]

    def flush_cold(self) -> None:
        """What a benchmark does between runs: L2 filled with clean foreign lines, instruction caches lost."""
        self._dirty.clear()
        self._slots.clear()
        self._draw = 1
        self._kernels.clear()
        self._all_code = False

    def fill_dirty(self) -> None:
        """What a training step leaves: L2 full of foreign lines that have to be written back."""
        self.flush_cold()
        for chunk in range(-self.capacity, 0):  # below any device address
            self._dirty[chunk] = True
        self._slots = list(self._dirty) if self._random else []

    def warm_code(self) -> None:
        """Treat every kernel's code as cached already (a device in the middle of a long run)."""
        self._all_code = True

    def first_run(self, kernel: str) -> bool:
        """Whether this kernel's code has to be fetched; it is cached from now on."""
        if self._all_code or kernel in self._kernels:
            return False
        self._kernels.add(kernel)
        return True

    def planned(self, make: Callable[[], MemoryPlan]) -> MemoryPlan:
        """What a launch finds; ``make`` walks its arguments through this cache."""
        return make()

    def state(self) -> Hashable:
        """Everything the next launches depend on, for `restore` and as a key of what they did."""
        lines = self._dirty
        slots = array("q", self._slots).tobytes()
        code = frozenset(self._kernels), self._all_code
        return array("q", lines).tobytes(), bytes(lines.values()), slots, self._draw, *code

    def restore(self, state: Any) -> None:
        """Return to an earlier `state`; ``written_back`` goes on counting."""
        chunks, dirty, slots, self._draw, kernels, all_code = state
        self._slots = list(array("q", slots))
        self._dirty.clear()
        self._dirty.update(zip(array("q", chunks), map(bool, dirty), strict=True))
        self._kernels = set(kernels)
        self._all_code = all_code

    @property
    def resident_bytes(self) -> int:
        return len(self._dirty) * CHUNK_BYTES

    @property
    def dirty_bytes(self) -> int:
        return sum(self._dirty.values()) * CHUNK_BYTES


class Part(NamedTuple):
    """Traffic of one kernel argument in one direction: bytes ``moved`` by the cores, ``missed`` in L2 (reads), dirty
    bytes ``evicted`` by it."""

    arg: int
    is_write: bool
    moved: int
    missed: int
    evicted: int


@dataclass(frozen=True)
class MemoryPlan:
    """Traffic of one launch: bytes read and written by the cores, and what the L2 made of each argument's part of it
    (none when everything hits)."""

    read: int
    write: int
    parts: tuple[Part, ...] = ()
    sparse: frozenset[int] = frozenset()  # arguments of which less than half is read

    @cached_property
    def missed(self) -> int:
        """Bytes fetched from memory."""
        return sum(p.missed for p in self.parts)

    @cached_property
    def written_back(self) -> int:
        """Bytes written to memory: dirty data evicted, and writes that bypass the L2."""
        return sum(p.evicted for p in self.parts)

    @cached_property
    def miss(self) -> dict[int, Fraction]:
        """Missed share of the bytes read, by kernel argument; as in `MemoryShares`."""
        return {p.arg: Fraction(p.missed, p.moved) for p in self.parts if not p.is_write and p.missed}

    @cached_property
    def read_back(self) -> dict[int, Fraction]:
        return {p.arg: Fraction(p.evicted, p.moved) for p in self.parts if not p.is_write and p.evicted}

    @cached_property
    def write_back(self) -> dict[int, Fraction]:
        return {p.arg: Fraction(p.evicted, p.moved) for p in self.parts if p.is_write and p.evicted}

    @property
    def hbm_bytes(self) -> int:
        return self.missed + self.written_back

    @property
    def l2_hit(self) -> int:
        """Bytes read that hit."""
        return max(self.read - self.missed, 0)

    @cached_property
    def pure(self) -> Fraction:
        """1 when the launch writes nothing, 0 from one byte written per two fetched on (binary operators)."""
        return max(1 - Fraction(2 * self.write, self.missed), Fraction(0)) if self.missed else Fraction(0)

    def shares(self, active_cores: int) -> MemoryShares:
        busier = max(self.read, self.write)
        mix = Fraction(self.read + self.write, busier) if busier else Fraction(1)
        write_only = self.missed == 0
        return MemoryShares(
            active_cores, self.miss, self.read_back, self.write_back, write_only, mix, self.pure, self.sparse
        )  # fmt: skip


def plan_memory(trace: KernelTrace, soc: Soc, l2: L2 | None, addresses: Sequence[int] | None) -> MemoryPlan:
    """Run a launch's arguments through the L2 (which remembers them) and say what each one costs.

    ``l2`` None: everything hits. ``addresses`` are the device addresses of ``trace.args``, in order; None places the
    arguments one after the other at address 0 upwards. Raises ValueError when the number of addresses is wrong.
    """
    if addresses is not None and len(addresses) != len(trace.args):
        raise ValueError(f"addresses: {len(addresses)} given, kernel {trace.name} has {len(trace.args)} arguments")
    if l2 is None:
        return MemoryPlan(*_traffic(trace))
    return l2.planned(lambda: _plan(trace, soc, l2, addresses))


def _traffic(trace: KernelTrace) -> tuple[int, int]:
    """Bytes read and written."""
    moved = trace.gm_bytes
    read = sum(n for (_, write), n in moved.items() if not write)
    return read, sum(n for (_, write), n in moved.items() if write)


def _plan(trace: KernelTrace, soc: Soc, l2: L2, addresses: Sequence[int] | None) -> MemoryPlan:
    moved = trace.gm_bytes
    if addresses is None:
        addresses, top = [], 0
        for arg in trace.args:
            addresses.append(top)
            top += -(-arg.nbytes // CHUNK_BYTES) * CHUNK_BYTES
    streams = [
        _Stream(key, addresses[key[0]], min(trace.args[key[0]].nbytes, moved[key]), key in trace.bypassed)
        for key in trace.touches
        if moved.get(key)
    ]
    _advance_together(streams, l2)
    again = _missed_again(trace, soc, streams)
    parts = []
    for s in streams:
        total, missed = moved[s.key], s.missed
        if s.bypass and not s.key[1]:
            missed = missed * total // s.size  # every pass over it finds as little of it
        parts.append(Part(*s.key, total, min(missed + again.get(s.key, 0), total), s.evicted))
    sparse = frozenset(p.arg for p in parts if not p.is_write and 2 * p.moved < trace.args[p.arg].nbytes)
    return MemoryPlan(*_traffic(trace), tuple(parts), sparse)


class _Stream:
    """An argument on its way through the L2 in one direction."""

    __slots__ = ("at", "base", "bypass", "evicted", "key", "missed", "size")

    def __init__(self, key: tuple[int, bool], base: int, size: int, bypass: bool) -> None:
        self.key, self.base, self.size, self.bypass = key, base, size, bypass
        self.at = base
        self.missed = self.evicted = 0

    def advance(self, l2: L2, end: int) -> None:
        before = l2.written_back
        touch = l2.bypass if self.bypass else l2.access
        self.missed += touch(self.at, end - self.at, self.key[1])
        self.evicted += l2.written_back - before
        self.at = end


def _advance_together(streams: Sequence[_Stream], l2: L2) -> None:
    """All streams at the same relative pace, in up to `PACE_STEPS` pieces that end on chunk borders, so that no chunk
    is touched in two steps."""
    largest = max((s.size for s in streams), default=0)
    steps = max(min(-(-largest // CHUNK_BYTES), PACE_STEPS), 1)
    for step in range(1, steps):
        for s in streams:
            end = (s.base + s.size * step // steps) // CHUNK_BYTES * CHUNK_BYTES
            if end > s.at:
                s.advance(l2, end)
    for s in streams:
        s.advance(l2, s.base + s.size)


def _missed_again(trace: KernelTrace, soc: Soc, streams: Sequence[_Stream]) -> dict[tuple[int, bool], int]:
    """Bytes of repeated reads that find their data evicted."""
    moved = trace.gm_bytes
    repeated = [s for s in streams if not s.key[1] and not s.bypass and moved[s.key] > s.size]
    if not repeated:
        return {}
    unit = "AIC" if trace.kind == "MIX" else trace.kind
    active = min(trace.block_dim, core_count(soc, unit))
    own = soc.memory.l2_bytes // active
    far = trace.reread_bytes(own)
    if not far:
        return {}
    if soc.memory.l2_policy == "random":
        far = _evicted_at_random(trace, own, far)
    again = trace.reread_bytes()
    return {
        s.key: far[s.key[0]] for s in repeated if s.key[0] in far and moved[s.key] - again[s.key[0]] <= SHARED * s.size
    }


# Borders of classes of distance between two reads, in cache sizes, and the share of each class that is evicted in
# between when victims are random: m = 1 - exp(-m d), since m of the bytes moved in between displace something.
_DISTANCES = (1.0, 1.25, 1.5, 2.0, 3.0, 5.0)
_EVICTED = (0.21, 0.48, 0.71, 0.89, 0.98, 1.0)


def _evicted_at_random(trace: KernelTrace, own: int, far: dict[int, int]) -> dict[int, int]:
    """Evicted bytes of ``far``, which are read again after more than a core's part ``own`` of the cache."""
    total: dict[int, float] = {}
    beyond = [far, *(trace.reread_bytes(int(own * d)) for d in _DISTANCES[1:]), {}]
    for near, farther, share in zip(beyond, beyond[1:], _EVICTED, strict=False):
        for arg, nbytes in near.items():
            total[arg] = total.get(arg, 0.0) + share * (nbytes - farther.get(arg, 0))
    return {arg: int(nbytes) for arg, nbytes in total.items()}
