"""One core under watch: its recorder sees what is issued, its observer what is executed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.asc._sanitizer import cube_footprints, flow, transfer_footprints, vector_footprints
from ascend_sim.asc._sanitizer.clocks import Clocks, Instr, Place
from ascend_sim.asc._sanitizer.flags import Flags
from ascend_sim.asc._sanitizer.footprints import FOOTPRINTS, Touch, spied
from ascend_sim.asc._sanitizer.gm import GlobalMemory
from ascend_sim.asc._sanitizer.local import UNORDERED_PIPES, Hazard, LocalMemory
from ascend_sim.asc._sanitizer.report import Site
from ascend_sim.asc._sanitizer.spans import Span
from ascend_sim.asc._sanitizer.walks import Walks
from ascend_sim.asc.machine import Core, current
from ascend_sim.engine.trace import TraceBuilder
from ascend_sim.isa.buffers import Bytes
from ascend_sim.isa.enums import EVENT_PIPES
from ascend_sim.isa.instr import PIPE_COUNT, CubeWork, Load3dWork, MoveWork, Pipe, ScalarWork, VectorWork, Work
from ascend_sim.isa.legality import source_place
from ascend_sim.isa.rows import observer

if TYPE_CHECKING:
    from ascend_sim.asc.sanitizer import Sanitizer

Array = NDArray[Any]
REGISTERED = (cube_footprints, transfer_footprints, vector_footprints)  # each fills FOOTPRINTS when imported
Memory = LocalMemory | GlobalMemory
EVENT_OF = {pair: event for event, pair in EVENT_PIPES.items()}


def work_name(work: Work) -> str:
    """An instruction as reports call it."""
    if isinstance(work, MoveWork):
        return f"{work.path.replace('_', ' to ')} transfer" + (f" ({work.mode})" if work.mode else "")
    if isinstance(work, Load3dWork):
        return f"load3d {work.path.replace('_', ' to ')}"
    if isinstance(work, CubeWork):
        return "mmad"
    return work.op if isinstance(work, VectorWork | ScalarWork) else type(work).__name__


class Recorder(TraceBuilder):
    """A trace builder that tells a watch about every instruction."""

    def __init__(self, watch: CoreWatch) -> None:
        super().__init__()
        self.watch = watch

    def execute(self, pipe: int, work: Work, place: Place | None = None, *rest: Any) -> None:
        super().execute(pipe, work, place, *rest)
        self.watch.issued(Pipe(pipe), work, place)

    def set_flag(self, src: Pipe, dst: Pipe, flag_id: int, place: Place | None = None) -> None:
        super().set_flag(src, dst, flag_id, place)
        self.watch.flags.set(src, dst, flag_id, place, len(self.code))

    def wait_flag(self, src: Pipe, dst: Pipe, flag_id: int, place: Place | None = None) -> None:
        super().wait_flag(src, dst, flag_id, place)
        if self.watch.flags.wait(src, dst, flag_id, place):
            return
        # go on as if it had been set: the rest of the kernel is worth checking
        key = (int(EVENT_OF[src, dst]), flag_id)
        self.watch.core.flags[key] = self.watch.core.flags.get(key, 0) + 1

    def barrier(self, pipe: Pipe, place: Place | None = None) -> None:
        super().barrier(pipe, place)
        self.watch.flags.issued(pipe, "pipe_barrier", place)
        self.watch.clocks.barrier(pipe)

    def cross_set(self, flag_id: int, mode: int, pipe: Pipe, place: Place | None = None) -> None:
        super().cross_set(flag_id, mode, pipe, place)
        self.watch.cross = (pipe, place)

    def cross_wait(self, flag_id: int, pipe: Pipe, place: Place | None = None) -> None:
        super().cross_wait(flag_id, pipe, place)
        self.watch.cross = (pipe, place)


class CoreWatch:
    """Everything known of one core while its program runs. ``index`` numbers it in the launch, ``slot`` among the
    cores that run at the same time (``group``)."""

    def __init__(self, sanitizer: Sanitizer, index: int, group: int, slot: int, together: int) -> None:
        self.sanitizer = sanitizer
        self.index, self.group, self.slot = index, group, slot
        self.clocks = Clocks(slot, together)
        self.recorder = Recorder(self)
        self.table: list[list[Instr]] = [[] for _ in range(PIPE_COUNT)]
        self.cross: tuple[Pipe, Place | None] = (Pipe.S, None)
        self.memories: dict[int, Memory | None] = {}
        self.slots: dict[tuple[str, int], Place | None] = {}
        self.walks = Walks()
        self.unnamed: dict[int, tuple[Bytes, Bytes]] = {}
        self.shadow = flow.Shadow(self._tags)
        self.core: Core
        self.name = ""

    def attach(self, core: Core) -> None:
        self.core = core
        sub = str(core.sub_block_idx) if core.sub_block_num > 1 and core.kind == "AIV" else ""
        self.name = f"block {core.block_idx} {core.kind}{sub}"
        self.flags = Flags(self.sanitizer.report, self.clocks, self.name)

    # ---- what is issued

    def issued(self, pipe: Pipe, work: Work, place: Place | None) -> None:
        instrs = self.sanitizer.instrs
        argument = work.gm if isinstance(work, MoveWork) else -1
        me = Instr(len(instrs) + 1, self.index, pipe, self.clocks.issue(pipe), work_name(work), place, argument)
        instrs.append(me)
        self.table[pipe].append(me)
        self.last = me
        self.flags.issued(pipe, me.name, place)
        self.sanitizer.habits.issued(me, work)

    # ---- what is executed

    def memory(self, data: Bytes) -> Memory | None:
        """The memory an array of bytes belongs to; None for registers."""
        key = id(data)
        if key in self.memories:
            return self.memories[key]
        found: Memory | None = self.sanitizer.gm.get(key)
        if found is None and self.core.memory is not None:
            for name, array in self.core.memory.arrays():
                if array is data:
                    found = LocalMemory(name, data)
        self.memories[key] = found
        return found

    def named(self, name: str) -> LocalMemory:
        """A local memory by name."""
        assert self.core.memory is not None
        memory = self.memory(self.core.memory[name])
        assert isinstance(memory, LocalMemory)
        return memory

    def _tags(self, data: Bytes) -> Bytes:
        memory = self.memory(data)
        if memory is not None:
            return memory.tags
        held = self.unnamed.get(id(data))
        if held is None or held[0] is not data:
            held = self.unnamed[id(data)] = (data, np.zeros(len(data), np.uint8))
        return held[1]

    def __call__(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the semantics of the instruction issued last, and check it."""
        if current() is not self.core:  # work another core does for this one
            return self._elsewhere(function, args, kwargs)
        observer.call = None
        try:
            key = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
            footprint = FOOTPRINTS.get(key)
            if footprint is None:
                result, touch = spied(function, args, kwargs)
                self._check(touch)
            else:
                touch = footprint(*args, **kwargs)
                doubtful = self._check(touch)
                result = function(*args, **kwargs)
                self._settle(doubtful)
            self._carry(key, function, args, kwargs, touch)
            self._record(touch)
            return result
        finally:
            observer.call = self

    def _elsewhere(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Work carried out on another core's memories: what it writes to global memory counts as defined."""
        observer.call = None
        try:
            result, touch = spied(function, args, kwargs)
            for s in touch.writes:
                memory = self.sanitizer.gm.get(id(s.data))
                if memory is not None:
                    s.fill(memory.tags, 0)
            return result
        finally:
            observer.call = self

    def _by_memory(self, spans: list[Span]) -> list[tuple[Memory, list[Span]]]:
        groups: dict[int, tuple[Memory, list[Span]]] = {}
        for s in spans:
            memory = self.memory(s.data)
            if memory is not None:
                groups.setdefault(id(memory), (memory, []))[1].append(s)
        return list(groups.values())

    # ---- order

    def _check(self, touch: Touch) -> list[tuple[Memory, list[Span], Hazard, list[Array]]]:
        """Report accesses without order. Writes that may not be ordered with an earlier write, but may put the same
        bytes there, are returned with the bytes before."""
        me = self.last
        if touch.atomic and not me.atomic:
            me = self.last = me._replace(atomic=True)
            self.sanitizer.instrs[me.number - 1] = me
            self.table[me.pipe][me.seq - 1] = me
        doubtful = []
        for write, spans in ((False, touch.reads), (True, touch.writes)):
            for memory, mine in self._by_memory(spans):
                if isinstance(memory, LocalMemory):
                    found = memory.conflicts(mine, me.pipe, write, self.clocks, self.table)
                    if memory.freed(mine):
                        self._freed(memory, write)
                else:
                    found = self._global_conflicts(memory, mine, write)
                for hazard in found:
                    if hazard.same_pipe or (hazard.kind == "write after write" and hazard.first.core != me.core):
                        doubtful.append((memory, mine, hazard, [s.of(s.data).copy() for s in mine]))
                    else:
                        self._hazard(memory, hazard)
        return doubtful

    def _global_conflicts(self, memory: GlobalMemory, spans: list[Span], write: bool) -> list[Hazard]:
        me, instrs = self.last, self.sanitizer.instrs
        found = []
        for kind, number in memory.earlier(spans, write):
            other = instrs[number - 1]
            if number == me.number or (me.atomic and other.atomic):
                continue
            same = other.core == me.core and other.pipe == me.pipe
            if same and not (write and kind == "write" and me.pipe in UNORDERED_PIPES):
                continue
            if not self._ordered(other):
                name = f"{'write' if write else 'read'} after {kind}"
                found.append(Hazard(name, other, min(s.low for s in spans), same))
        return found

    def _ordered(self, other: Instr) -> bool:
        if other.core == self.index:
            return self.clocks.ordered(other, self.last.pipe, self.slot)
        watch = self.sanitizer.watches[other.core]
        return watch.group == self.group and self.clocks.ordered(other, self.last.pipe, watch.slot)

    def _settle(self, doubtful: list[tuple[Memory, list[Span], Hazard, list[Array]]]) -> None:
        for memory, spans, hazard, before in doubtful:
            low, changed = self._changed(memory, spans, hazard, before)
            if changed:
                self._hazard(memory, hazard._replace(low=low))
            elif hazard.first.core != self.index:
                self.sanitizer.report.add(
                    "ErrorWrite3", "hint", f"two cores write the same bytes of {memory.name}, with the same values",
                    (Site("write", self.last.place), Site("other write", hazard.first.place)), self.name,
                )  # fmt: skip

    def _changed(
        self, memory: Memory, spans: list[Span], hazard: Hazard, before: list[Array]
    ) -> tuple[int, bool]:
        """First byte that both writes touch and whether any such byte has another value now."""
        for s, old in zip(spans, before, strict=True):
            if isinstance(memory, LocalMemory):
                both = s.of(memory.writers[hazard.first.pipe]) > self.clocks.known[self.last.pipe][hazard.first.pipe]
            else:
                both = s.of(memory.writes) == hazard.first.number
            if (both & (s.of(s.data) != old)).any():
                return s.low, True
        return hazard.low, False

    def _hazard(self, memory: Memory, hazard: Hazard) -> None:
        me, other = self.last, hazard.first
        write = hazard.kind.startswith("write")
        verb = "writes" if write else "reads"
        done = "written" if hazard.kind.endswith("write") else "read"
        where = f"{memory.name} byte {hazard.low}"
        if other.core != me.core:
            rival = self.sanitizer.watches[other.core].name
            text = (f"{hazard.kind} between cores: {me.name} on {self.name} {verb} {where}, {done} by {other.name} on "
                    f"{rival}, and nothing orders the two cores")  # fmt: skip
        elif hazard.same_pipe:
            text = (f"{hazard.kind} on pipe {me.pipe.name}: two transfers to {where} may finish in either order; "
                    f"pipe_barrier(PIPE_{me.pipe.name}) is missing between them")  # fmt: skip
        else:
            flag = f"{other.pipe.name}_{me.pipe.name}"
            text = (
                f"{hazard.kind} race between pipes: {me.name} on {me.pipe.name} {verb} {where} while {other.name} on "
                f"{other.pipe.name} may not have {done} it yet; no {flag} flag or barrier orders them"
            )
        self.sanitizer.report.add(
            "ErrorSync1" if write else "ErrorSync2", "error", text,
            (Site(verb, me.place), Site(done, other.place)), self.name, (memory.name, hazard.kind),
        )  # fmt: skip

    def _freed(self, memory: LocalMemory, write: bool) -> None:
        code, verb = ("ErrorWrite1", "writes") if write else ("ErrorRead1", "reads")
        self.sanitizer.report.add(
            code, "error", f"{self.last.name} {verb} a queue slot of {memory.name} after free_tensor or before "
            "alloc_tensor", (Site(verb, self.last.place),), self.name,
        )  # fmt: skip

    # ---- definedness

    def _carry(self, key: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
               touch: Touch) -> None:  # fmt: skip
        top = flow.tagged(touch.reads, self.shadow)
        if top:
            flow.spread(key, function, args, kwargs, touch, self.shadow)
            if top == flow.VIRGIN:
                self._name_origin(touch)
            if key == "scalar.run_get":
                self._scalar_use(touch, top)
        else:
            flow.define(touch, self.shadow)
        if key == "mte.run_pad_in":
            pad = self.sanitizer.origin("pad", self.last, None, "the tail of a padded row", 0, 0)
            flow.pad_tail(self.shadow, pad, *args, **kwargs)

    def _name_origin(self, touch: Touch) -> None:
        """Give what was computed from never-written bytes the tag of this instruction."""
        for memory, spans in self._by_memory(touch.reads):
            for s in spans:
                virgin = s.of(memory.tags) == flow.VIRGIN
                if not virgin.any():
                    continue
                low = self._first_virgin(memory, s)
                near = self._writer_near(memory, low)
                elsewhere = self.sanitizer.writer_elsewhere(self, memory, low)
                tag = self.sanitizer.origin(
                    "virgin", self.last, near, memory.name, low, int(virgin.sum()), elsewhere
                )
                for w in touch.writes:
                    tags = self.shadow(w.data)
                    seen = w.of(tags)
                    if (seen == flow.VIRGIN).any():
                        w.fill(tags, np.where(seen == flow.VIRGIN, tag, seen))

    @staticmethod
    def _first_virgin(memory: Memory, s: Span) -> int:
        if s.at is not None:
            return int(s.at[memory.tags[s.at] == flow.VIRGIN].min())
        where = np.flatnonzero(memory.tags[s.low : s.high] == flow.VIRGIN)
        return s.low + int(where[0])

    def _writer_near(self, memory: Memory, address: int) -> Instr | None:
        instrs = self.sanitizer.instrs
        if isinstance(memory, GlobalMemory):
            return memory.writer_near(address, instrs)
        for part in (memory.last_write[:address][::-1], memory.last_write[address:]):
            if part.any():
                return instrs[int(part[np.argmax(part > 0)]) - 1]
        return None

    def _scalar_use(self, touch: Touch, tag: int) -> None:
        origin = self.sanitizer.origins.get(tag)
        if origin is None:
            memory = self.memory(touch.reads[0].data)
            name = memory.name if memory is not None else "a register"
            self.sanitizer.report.add(
                "ErrorRead2", "error", f"the scalar unit reads {name} byte {touch.reads[0].low}, which was never "
                "written", (Site("reads", self.last.place),), self.name,
            )  # fmt: skip
            return
        origin.used(self.sanitizer.report, "is read by the scalar unit", self.last.place, self.name)

    def _record(self, touch: Touch) -> None:
        me, instrs = self.last, self.sanitizer.instrs
        for memory, spans in self._by_memory(touch.reads):
            self.walks.step(me, memory.name, spans, False)
            if isinstance(memory, LocalMemory):
                memory.record(spans, me.pipe, me.seq, me.number, False)
            else:
                memory.record(spans, me, instrs, False)
        for memory, spans in self._by_memory(touch.writes):
            if isinstance(memory, LocalMemory):
                self._leave_over(memory, spans)
                memory.record(spans, me.pipe, me.seq, me.number, True)
            else:
                memory.record(spans, me, instrs, True)

    def _leave_over(self, memory: LocalMemory, spans: list[Span]) -> None:
        me = self.last
        if me.pipe not in (Pipe.MTE1, Pipe.MTE2):
            return
        for before, where in memory.left_over(spans, self.sanitizer.instrs, me.number).items():
            old = self.sanitizer.instrs[before - 1]
            tag = self.sanitizer.origin("stale", me, old, memory.name, int(where[0]), len(where))
            defined = where[memory.tags[where] == 0]
            memory.tags[defined] = tag

    # ---- queues

    def allocated(self, mem: str, addr: int, nbytes: int) -> None:
        """A queue slot is handed out: its contents are undefined."""
        memory = self.named(mem)
        memory.owned(addr, nbytes, 1)
        memory.tags[addr : addr + nbytes] = flow.VIRGIN
        self.slots[mem, addr] = source_place()

    def freed(self, mem: str, addr: int, nbytes: int) -> None:
        """A queue slot is given back."""
        self.named(mem).owned(addr, nbytes, 2)
        self.slots.pop((mem, addr), None)

    def queues_finished(self) -> None:
        """End of the program: slots still in use."""
        for (mem, addr), place in self.slots.items():
            self.sanitizer.report.add(
                "ErrorLeak", "suspicious", f"the queue slot at {mem} byte {addr} was allocated and not freed",
                (Site("alloc_tensor", place),), self.name,
            )  # fmt: skip
