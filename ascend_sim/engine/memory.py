"""The L2 cache of a device, and what a launch finds in it.

Residency is kept per 64 KiB chunk of device address, in least-recently-used order. A read miss fetches the chunk,
a write allocates without fetching, and a dirty chunk costs memory traffic only when it is evicted. Whether a
transfer hits is decided once per launch and kernel argument, before replay: `plan_memory` walks the arguments in the
order the trace first touches them, all at the same relative pace (kernels stream through their tensors together).

Data that a launch reads again hits, unless the cores move more than the L2 holds between the two reads: several
passes over a large tensor miss each time. That is known from the trace (`Program.rereads`) and believed for arguments
that the cores divide among themselves; what several cores read (the operands of a matrix product) another core has
touched in the meantime. Transfers that ask to bypass the L2 neither allocate nor stay in it.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ascend_sim.engine.timing import MemoryShares, core_count
from ascend_sim.engine.trace import KernelTrace, Program
from ascend_sim.isa.instr import MoveWork, Op
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
        self._dirty: OrderedDict[int, bool] = OrderedDict()  # chunk -> dirty, least recently used first
        self._kernels: set[str] = set()  # kernels whose code has run since the last flush
        self._all_code = False

    def access(self, base: int, nbytes: int, write: bool) -> int:
        """Touch [base, base + nbytes); returns the bytes that were not resident (0 for writes: no fetch)."""
        if nbytes <= 0:
            return 0
        lines, capacity = self._dirty, self.capacity
        if not capacity:
            self.written_back += nbytes if write else 0
            return 0 if write else nbytes
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

    def flush_cold(self) -> None:
        """What a benchmark does between runs: L2 filled with clean foreign lines, instruction caches lost."""
        self._dirty.clear()
        self._kernels.clear()
        self._all_code = False

    def warm_code(self) -> None:
        """Treat every kernel's code as cached already (a device in the middle of a long run)."""
        self._all_code = True

    def first_run(self, kernel: str) -> bool:
        """Whether this kernel's code has to be fetched; it is cached from now on."""
        if self._all_code or kernel in self._kernels:
            return False
        self._kernels.add(kernel)
        return True

    def state(self) -> Hashable:
        """Everything the next launches depend on, for `restore` and as a key of what they did."""
        lines = self._dirty
        return array("q", lines).tobytes(), bytes(lines.values()), frozenset(self._kernels), self._all_code

    def restore(self, state: Any) -> None:
        """Return to an earlier `state`; ``written_back`` goes on counting."""
        chunks, dirty, kernels, all_code = state
        self._dirty = OrderedDict(zip(array("q", chunks), map(bool, dirty), strict=True))
        self._kernels = set(kernels)
        self._all_code = all_code

    @property
    def resident_bytes(self) -> int:
        return len(self._dirty) * CHUNK_BYTES

    @property
    def dirty_bytes(self) -> int:
        return sum(self._dirty.values()) * CHUNK_BYTES


@dataclass(frozen=True)
class MemoryPlan:
    """Traffic of one launch. ``missed`` bytes fetched from memory, ``written_back`` bytes written to it; the
    fractions are those of `MemoryShares`, by kernel argument."""

    read: int
    write: int
    missed: int
    written_back: int
    miss: dict[int, Fraction]
    read_back: dict[int, Fraction]
    write_back: dict[int, Fraction]

    @property
    def hbm_bytes(self) -> int:
        return self.missed + self.written_back

    @property
    def l2_hit(self) -> int:
        """Bytes read that hit."""
        return max(self.read - self.missed, 0)

    @property
    def pure(self) -> Fraction:
        """1 when the launch writes nothing, 0 from one byte written per two fetched on (binary operators)."""
        return max(1 - Fraction(2 * self.write, self.missed), Fraction(0)) if self.missed else Fraction(0)

    def shares(self, active_cores: int) -> MemoryShares:
        busier = max(self.read, self.write)
        mix = Fraction(self.read + self.write, busier) if busier else Fraction(1)
        write_only = self.missed == 0
        return MemoryShares(active_cores, self.miss, self.read_back, self.write_back, write_only, mix, self.pure)


def plan_memory(trace: KernelTrace, soc: Soc, l2: L2 | None, addresses: Sequence[int] | None) -> MemoryPlan:
    """Run a launch's arguments through the L2 (which remembers them) and say what each one costs.

    ``l2`` None: everything hits. ``addresses`` are the device addresses of ``trace.args``, in order; None places the
    arguments one after the other at address 0 upwards. Raises ValueError when the number of addresses is wrong.
    """
    if addresses is not None and len(addresses) != len(trace.args):
        raise ValueError(f"addresses: {len(addresses)} given, kernel {trace.name} has {len(trace.args)} arguments")
    moved = trace.gm_bytes
    read = sum(n for (_, write), n in moved.items() if not write)
    write = sum(n for (_, is_write), n in moved.items() if is_write)
    if l2 is None:
        return MemoryPlan(read, write, 0, 0, {}, {}, {})
    if addresses is None:
        addresses, top = [], 0
        for arg in trace.args:
            addresses.append(top)
            top += -(-arg.nbytes // CHUNK_BYTES) * CHUNK_BYTES
    order = [key for key in _first_touches(trace) if moved.get(key)]
    span = {key: min(trace.args[key[0]].nbytes, moved[key]) for key in order}
    missed = dict.fromkeys(order, 0)
    back = dict.fromkeys(order, 0)
    steps = 1 if max(span.values(), default=0) <= CHUNK_BYTES else PACE_STEPS
    for step in range(steps):
        for key in order:
            base, n = addresses[key[0]], span[key]
            begin, end = _cut(base, n, step, steps), _cut(base, n, step + 1, steps)
            before = l2.written_back
            touch = l2.bypass if key in trace.bypassed else l2.access
            missed[key] += touch(begin, end - begin, key[1])
            back[key] += l2.written_back - before
    for key, nbytes in _missed_again(trace, soc, moved, span).items():
        missed[key] = min(missed[key] + nbytes, moved[key])
    for key in trace.bypassed.intersection(order):
        if not key[1]:  # every pass over it finds as little of it
            missed[key] = missed[key] * moved[key] // span[key]
    return MemoryPlan(
        read,
        write,
        sum(missed.values()),
        sum(back.values()),
        {arg: Fraction(missed[arg, w], moved[arg, w]) for arg, w in order if not w and missed[arg, w]},
        {arg: Fraction(back[arg, w], moved[arg, w]) for arg, w in order if not w and back[arg, w]},
        {arg: Fraction(back[arg, w], moved[arg, w]) for arg, w in order if w and back[arg, w]},
    )


def _missed_again(
    trace: KernelTrace, soc: Soc, moved: Mapping[tuple[int, bool], int], span: Mapping[tuple[int, bool], int]
) -> dict[tuple[int, bool], int]:
    """Bytes of repeated reads that find their data evicted."""
    if all(moved[key] <= span[key] for key in span):
        return {}
    unit = "AIC" if trace.kind == "MIX" else trace.kind
    active = min(trace.block_dim, core_count(soc, unit))
    again, far = trace.reread_bytes(), trace.reread_bytes(soc.memory.l2_bytes // active)
    result = {}
    for arg, nbytes in far.items():
        key = (arg, False)
        if key in span and key not in trace.bypassed and moved[key] - again[arg] <= SHARED * span[key]:
            result[key] = nbytes
    return result


def _cut(base: int, nbytes: int, step: int, steps: int) -> int:
    """End of piece ``step`` of a range: on chunk borders, so that no chunk is touched in two steps."""
    if step in (0, steps):
        return base + (nbytes if step else 0)
    at = base + nbytes * step // steps
    return min(max(at // CHUNK_BYTES * CHUNK_BYTES, base), base + nbytes)


def _first_touches(trace: KernelTrace) -> list[tuple[int, bool]]:
    """(argument, is_write) in the order block 0, then the others, first touch them."""
    order: dict[tuple[int, bool], None] = {}
    for block in trace.blocks:
        for program in block.programs:
            for key in _program_touches(program):
                order.setdefault(key)
    return list(order)


def _program_touches(program: Program) -> list[tuple[int, bool]]:
    first = program.arg[program.op == Op.EXEC]
    touched: dict[tuple[int, bool], None] = {}
    for index in dict.fromkeys(first.tolist()):
        work = program.works[index]
        if isinstance(work, MoveWork) and work.gm >= 0:
            touched.setdefault((work.gm, work.path.endswith("_GM")))
    return list(touched)
