"""Automatic buffers and flags: `LocalTensorAuto`, and the flags between instructions that use the same bytes.

Kernels launched with ``insert_sync`` name no addresses and no flags. Each place in the source that makes a tensor has a
buffer of its own, and a second one for the next time round while the first is still in use (by Python reference);
buffers nobody holds any more are handed on when the memory is full. Before an instruction whose operands overlap those
of an earlier one on another pipe, a flag from that pipe to this one is set and waited for, unless earlier flags already
order the two. Overlap is judged from the start of an operand to the end of its tensor.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Sequence
from types import CodeType
from typing import Any

from ascend_sim.asc.machine import Core, current
from ascend_sim.asc.tensor import GlobalTensor, LocalTensor
from ascend_sim.isa.buffers import BLOCK
from ascend_sim.isa.dtypes import as_dtype
from ascend_sim.isa.enums import EVENT_PIPES, HardEvent, TPosition
from ascend_sim.isa.instr import Pipe
from ascend_sim.isa.layout import ceil_div
from ascend_sim.isa.legality import InstructionError

_EVENT_OF = {pipes: event for event, pipes in EVENT_PIPES.items()}
MAX_USES = 256  # intervals remembered per memory
Place = tuple[tuple[CodeType, int], ...]


class _Access:
    """Last uses of an interval of one memory: per pipe the number of its latest reading and writing instruction."""

    __slots__ = ("end", "readers", "start", "writers")

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end
        self.readers: dict[int, int] = {}
        self.writers: dict[int, int] = {}


class AutoSync:
    """Buffers and orderings of one core."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.count = dict.fromkeys(Pipe, 0)  # instructions issued per pipe
        self.seen = {p: dict.fromkeys(Pipe, 0) for p in Pipe}  # seen[p][q]: instructions of q that p comes after
        self.uses: dict[Any, list[_Access]] = {}
        self.next_id: dict[int, int] = {}
        self.buffers: list[tuple[int, int, Place, weakref.ref[Any] | None]] = []  # start, bytes, place, holder
        self.bottom = core.rules.sizes["UB"]  # buffers are taken from the top downwards, queues from 0 upwards

    # -- flags -------------------------------------------------------------------------------------------------

    def before(self, pipe: int, dst: Any, srcs: Sequence[Any], nbytes: int = 0) -> None:
        """Called before an instruction is recorded: order it behind those it depends on. ``nbytes``: what it moves in
        global memory, when that is one piece."""
        writes = list(_tensors(dst))
        reads = [t for s in srcs for t in _tensors(s)]
        mine = Pipe(pipe)
        needed: dict[Pipe, int] = {}
        for tensor in writes:
            for use in self._overlapping(tensor, nbytes):
                _latest(needed, use.readers)
                _latest(needed, use.writers)
        for tensor in reads:
            for use in self._overlapping(tensor, nbytes):
                _latest(needed, use.writers)
        seen = self.seen[mine]
        for other in sorted(needed):
            # scalar work is done when it is issued, so nothing issued later overtakes it
            if other not in (mine, Pipe.S) and needed[other] > seen[other]:
                self._order(other, mine)
        self.count[mine] += 1
        number = self.count[mine]
        seen[mine] = number
        for tensor in writes:
            self._use(tensor, nbytes).writers[mine] = number
        for tensor in reads:
            self._use(tensor, nbytes).readers[mine] = number

    def _order(self, src: Pipe, dst: Pipe) -> None:
        from ascend_sim.asc.calls_sync import set_flag, wait_flag

        event = _EVENT_OF.get((src, dst))
        if event is None:
            raise InstructionError("insert_sync", "pipes", f"{src.name} to {dst.name}", "no flag joins these pipes")
        flag_id = self._id(event)
        set_flag(HardEvent(event), flag_id)
        wait_flag(HardEvent(event), flag_id)
        before, after = self.seen[src], self.seen[dst]
        after[src] = self.count[src]
        for p in Pipe:
            after[p] = max(after[p], before[p])

    def _id(self, event: int) -> int:
        """Ids from the top, two in turn: those of queues are taken from the bottom."""
        turn = self.next_id.get(event, 0)
        self.next_id[event] = turn ^ 1
        return self.core.rules.flag_ids - 1 - turn

    def _memory(self, tensor: Any) -> list[_Access]:
        return self.uses.setdefault(("GM", tensor.arg) if tensor.mem == "GM" else tensor.mem, [])

    def _overlapping(self, tensor: Any, nbytes: int) -> list[_Access]:
        start, end = _extent(tensor, nbytes)
        return [use for use in self._memory(tensor) if use.start < end and start < use.end]

    def _use(self, tensor: Any, nbytes: int) -> _Access:
        start, end = _extent(tensor, nbytes)
        uses = self._memory(tensor)
        for use in uses:
            if use.start == start and use.end == end:
                return use
        if len(uses) >= MAX_USES:  # forget details: one interval with the latest of everything
            whole = _Access(min(u.start for u in uses), max(u.end for u in uses))
            for use in uses:
                _merge(whole.readers, use.readers)
                _merge(whole.writers, use.writers)
            uses[:] = [whole]
        uses.append(_Access(start, end))
        return uses[-1]

    # -- buffers -----------------------------------------------------------------------------------------------

    def allocate(self, tensor: Any, nbytes: int, place: Place) -> int:
        """Address in the unified buffer for a tensor made at a place of the source."""
        size = ceil_div(nbytes, BLOCK) * BLOCK
        held = weakref.ref(tensor)
        mine = [i for i, b in enumerate(self.buffers) if b[2] == place and b[1] >= size]
        free = [i for i in mine if _idle(self.buffers[i])]
        room, base = self.core.rules.sizes["UB"], self._queues_end()
        if not (free and len(mine) >= 2) and self.bottom - size >= base:
            self.bottom -= size
            self.buffers.append((self.bottom, size, place, held))
            return self.bottom
        if not free:
            free = [i for i, b in enumerate(self.buffers) if b[1] >= size and _idle(b)]
        if not free:
            used = sum(b[1] for b in self.buffers)
            raise InstructionError(
                "LocalTensorAuto", "shape", f"{size} bytes",
                f"the unified buffer has {room} bytes, {used} in automatic buffers and {base} in queues",
            )  # fmt: skip
        i = free[0]
        start, capacity, _, _ = self.buffers.pop(i)
        self.buffers.append((start, capacity, place, held))  # oldest first: buffers of a place are used in turn
        return start

    def _queues_end(self) -> int:
        pipe = self.core.pipe_manager
        return pipe.used("UB") if pipe is not None else 0


def _idle(buffer: tuple[int, int, Place, weakref.ref[Any] | None]) -> bool:
    return buffer[3] is None or buffer[3]() is None


def _latest(into: dict[Pipe, int], numbers: dict[int, int]) -> None:
    for pipe, number in numbers.items():
        into[Pipe(pipe)] = max(into.get(Pipe(pipe), 0), number)


def _merge(into: dict[int, int], numbers: dict[int, int]) -> None:
    for pipe, number in numbers.items():
        into[pipe] = max(into.get(pipe, 0), number)


def _extent(tensor: Any, nbytes: int) -> tuple[int, int]:
    if nbytes and tensor.mem == "GM":
        return tensor.addr, tensor.addr + nbytes
    return tensor.addr, max(tensor.end, tensor.addr + 1)


def _tensors(operand: Any) -> list[Any]:
    if isinstance(operand, LocalTensor | GlobalTensor):
        return [operand]
    if isinstance(operand, list | tuple):
        return [t for t in operand if isinstance(t, LocalTensor | GlobalTensor)]
    return []


def _place() -> Place:
    """Where in the kernel the caller's tensor is made: code and instruction of every frame up to the launcher."""
    frame = sys._getframe(2)
    place: list[tuple[CodeType, int]] = []
    while frame is not None and frame.f_globals.get("__name__") != "ascend_sim.asc.machine":
        if not frame.f_globals.get("__name__", "").startswith("ascend_sim.asc"):
            place.append((frame.f_code, frame.f_lasti))
        if frame.f_back is None:
            break
        frame = frame.f_back
    return tuple(place)


class LocalTensorAuto(LocalTensor):
    """A tensor of the unified buffer whose address is found automatically. ``shape`` is a count or a tuple."""

    __slots__ = ("__weakref__", "owner", "shape")

    def __init__(self, dtype: Any, shape: Any) -> None:
        core = current()
        if core.auto is None:
            core.auto = AutoSync(core)
        sizes = tuple(int(x) for x in shape) if isinstance(shape, tuple | list) else (int(shape),)
        count = 1
        for n in sizes:
            if n < 1:
                raise InstructionError("LocalTensorAuto", "shape", sizes, "every size must be positive")
            count *= n
        kind = as_dtype(dtype)
        addr = core.auto.allocate(self, (count * kind.bits + 7) // 8, _place())
        super().__init__(kind, TPosition.VECCALC, addr, count)
        self.shape = sizes
        self.owner: Any = None

    def _moved(self, addr: int) -> LocalTensor:
        moved = LocalTensorAuto.__new__(LocalTensorAuto)
        moved.dtype, moved.pos, moved.mem, moved.end = self.dtype, self.pos, self.mem, self.end
        moved.slot, moved.tag, moved.addr, moved.shape = self.slot, self.tag, addr, self.shape
        moved.owner = self if self.owner is None else self.owner  # a slice keeps the buffer in use
        moved.shape_info = self.shape_info
        return moved
