"""The sanitizer: runs a launch instruction by instruction and tells what is wrong with it.

It watches every access byte by byte: races between pipes and cores (vector clocks over flags and barriers), flags that
do not pair up, deadlocks, accesses out of bounds or unaligned, use of bytes that were never written (pad lanes
included) or are left over from an earlier tile, freed queue slots, results with holes, and slow habits as hints. Names
of errors are npu_check's where it has one (`ascend_sim.asc._sanitizer.report.CODES`).

User launches (``kernel[cores, stream](...)``) run under it unless ``ASCEND_SIM_SANITIZER=off``; by default findings
become one `SanitizerWarning`, with ``error`` a `SanitizerError` is raised. Operator replay does not use it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.asc._sanitizer import flow
from ascend_sim.asc._sanitizer.clocks import Instr, Place
from ascend_sim.asc._sanitizer.gm import GlobalMemory
from ascend_sim.asc._sanitizer.habits import Habits
from ascend_sim.asc._sanitizer.local import LocalMemory
from ascend_sim.asc._sanitizer.report import CODES, Finding, Report, Site
from ascend_sim.asc._sanitizer.rules import tell_broken_rule
from ascend_sim.asc._sanitizer.together import WatchedBaton
from ascend_sim.asc._sanitizer.watch import CoreWatch
from ascend_sim.asc.interleave import CoreDeadlockError
from ascend_sim.asc.launch import Launch
from ascend_sim.asc.machine import Core
from ascend_sim.engine.trace import Block, GmArg, KernelTrace, TraceBuilder
from ascend_sim.isa.legality import InstructionError, source_place
from ascend_sim.isa.rows import observer

Bytes = NDArray[np.uint8]
MODES = ("off", "warn", "error")
_STALE, _PAD = "stale", "pad"


class SanitizerWarning(UserWarning):
    """Findings of a user launch."""


class SanitizerError(RuntimeError):
    """Findings of a user launch when ``ASCEND_SIM_SANITIZER=error``."""


def sanitizer_mode() -> str:
    """``off``, ``warn`` or ``error``, from the environment variable ASCEND_SIM_SANITIZER. Raises ValueError."""
    mode = os.environ.get("ASCEND_SIM_SANITIZER", "warn").lower() or "warn"
    mode = {"0": "off", "1": "warn", "on": "warn"}.get(mode, mode)
    if mode not in MODES:
        raise ValueError(f"ASCEND_SIM_SANITIZER = {mode!r}: expected one of {', '.join(MODES)}")
    return mode


@dataclass
class Origin:
    """Where undefined bytes came from: ``kind`` virgin (never written), pad (tail of a padded row) or stale (left over
    from an earlier execution of the same line)."""

    kind: str
    instr: Instr
    near: Instr | None
    memory: str
    low: int
    count: int
    elsewhere: Place | None = None
    reported: bool = False

    def used(self, report: Report, what: str, place: Place | None, core: str) -> None:
        """Report that such bytes are used."""
        self.reported = True
        me = self.instr
        sites = [Site(what, place)]
        if self.kind == _STALE:
            text = (
                f"{me.name} replaces only part of {self.memory}: {self.count} bytes from byte {self.low} are left over "
                f"from before and what is computed from them {what}"
            )
            report.add("ErrorWrite3", "suspicious", text, [Site("short write", me.place), *sites], core)
            return
        if self.kind == _PAD:
            text = f"the tail lanes of rows padded by {me.name} (contents undefined) {what}"
            report.add("ErrorRead2", "error", text, [Site("padded copy", me.place), *sites], core)
            return
        text = (
            f"{me.name} reads {self.count} bytes of {self.memory} from byte {self.low} that were never written, and "
            f"what is computed from them {what}"
        )
        near = [Site("nearest write", self.near.place)] if self.near is not None else []
        if self.elsewhere is not None:
            near.append(Site("what other cores read there is written", self.elsewhere))
        report.add("ErrorRead2", "error", text, [Site("reads", me.place), *near, *sites], core)


class History:
    """What earlier launches of an operator left in memory: which bytes of their results are defined."""

    def __init__(self) -> None:
        self._tags: dict[tuple[int, int], Bytes] = {}

    def recall(self, data: Bytes) -> Bytes | None:
        return self._tags.get((data.ctypes.data, len(data)))

    def keep(self, data: Bytes, tags: Bytes) -> None:
        self._tags[data.ctypes.data, len(data)] = np.where(tags == 0, 0, flow.VIRGIN).astype(np.uint8)


class Sanitizer:
    """Checks one launch. `run` executes it and leaves a `Report`. Launches that hand results to each other in memory
    share a ``history``."""

    def __init__(self, launch: Launch, history: History | None = None) -> None:
        self.launch, self.history = launch, history
        self.report = Report(launch.name, launch.soc.name)
        self.instrs: list[Instr] = []
        self.watches: list[CoreWatch] = []
        self.gm: dict[int, GlobalMemory] = {}
        self.habits = Habits()
        self.origins: dict[int, Origin] = {}
        self._origin_of: dict[tuple[Any, ...], int] = {}
        self._groups = 0

    def run(self, buffers: Sequence[Bytes], expected: Sequence[Bytes | None] | None = None) -> Report:
        """Execute on the bytes of each argument, in place, like `Launch.execute`. ``expected`` bytes of arguments
        (None: do not care) are compared with the outcome.

        Broken restrictions and deadlocks are findings; `Report.stopped` says that they ended the run.
        """
        self.watched = _WatchedLaunch(self.launch, self)
        try:
            self.watched.execute(buffers)
        except InstructionError as error:
            tell_broken_rule(self.report, error)
            self.report.stopped = str(error)
            self.failure: BaseException | None = error
        except CoreDeadlockError as error:
            self.report.stopped = str(error)
            self.failure = error
        else:
            self.failure = None
            for memory in self.gm.values() if self.history is not None else ():
                assert self.history is not None
                self.history.keep(memory.data, memory.tags)
            if expected is not None:
                self._compare(buffers, expected)
        self._finish()
        return self.report

    def _compare(self, buffers: Sequence[Bytes], expected: Sequence[Bytes | None]) -> None:
        for memory, data, values in zip(self.gm.values(), buffers, expected, strict=True):
            if values is None:
                continue
            wrong = np.flatnonzero(data.reshape(-1)[: memory.size] != values.reshape(-1)[: memory.size])
            if not len(wrong):
                continue
            first = int(wrong[0])
            writer = int(memory.writes[first])
            site = [Site("written", self.instrs[writer - 1].place)] if writer else []
            self.report.add(
                "WrongValue", "error", f"{len(wrong)} bytes of {memory.name} are not as expected, the first at byte "
                f"{first}", site,
            )  # fmt: skip

    def group(self, cores: int) -> list[CoreWatch]:
        """Watches of cores that run at the same time."""
        self._groups += 1
        start = len(self.watches)
        made = [CoreWatch(self, start + i, self._groups, i, cores) for i in range(cores)]
        self.watches += made
        return made

    def arguments(self, buffers: Sequence[Bytes]) -> None:
        """The global memory of the launch."""
        for i, ((name, _, nbytes, role), data) in enumerate(zip(self.launch.gm, buffers, strict=True)):
            between = role == "out" and i < len(self.launch.args) and self.launch.args[i][0] == "workspace"
            if id(data) not in self.gm:
                known = self.history.recall(data) if self.history is not None else None
                own = "workspace" if between else role  # an intermediate result of an operator is no result yet
                self.gm[id(data)] = GlobalMemory(f"argument {name}", own, data, nbytes, known)

    def writer_elsewhere(self, watch: CoreWatch, memory: Any, address: int) -> Place | None:
        """The line that writes the same bytes of this memory on another core of the same kind."""
        for other in self.watches:
            if other is watch or not hasattr(other, "core") or other.core.kind != watch.core.kind:
                continue
            for mine in other.memories.values():
                if isinstance(mine, LocalMemory) and mine.name == memory.name and mine.last_write[address]:
                    return self.instrs[int(mine.last_write[address]) - 1].place
        return None

    def origin(
        self, kind: str, instr: Instr, near: Instr | None, memory: str, low: int, count: int,
        elsewhere: Place | None = None,
    ) -> int:  # fmt: skip
        """Tag of undefined bytes that ``instr`` brought into play; the same line has one tag per kind and memory."""
        key = (kind, instr.place, memory)
        tag = self._origin_of.get(key)
        if tag is None:
            tag = self._origin_of[key] = min(len(self.origins) + 1, flow.VIRGIN - 1)
            self.origins.setdefault(tag, Origin(kind, instr, near, memory, low, count, elsewhere))
        return tag

    def _finish(self) -> None:
        for watch in self.watches:
            if hasattr(watch, "core"):
                watch.flags.finish(not self.report.stopped)
            if not self.report.stopped:
                watch.queues_finished()
                watch.walks.tell(self.report, watch.name)
        if not self.report.stopped:
            for memory in self.gm.values():
                if memory.role in ("out", "inout"):
                    self._result(memory)
                self._misplaced(memory)
        for origin in self.origins.values():
            if not origin.reported and origin.kind == "virgin":
                me = origin.instr
                self.report.add(
                    "ErrorRead2", "info", f"{me.name} reads bytes of {origin.memory} that were never written (from "
                    f"byte {origin.low}); no result depends on them", (Site("reads", me.place),),
                )  # fmt: skip
        self.habits.tell(self.report)

    def _result(self, memory: GlobalMemory) -> None:
        """Undefined bytes of a result."""
        for tag, where in memory.undefined().items():
            first = int(where[0])
            span = f"{len(where)} bytes of {memory.name}, from byte {first},"
            if tag == flow.VIRGIN:
                near = memory.writer_near(first, self.instrs)
                site = [Site("nearest write", near.place)] if near is not None else []
                self.report.add("ErrorWrite3", "suspicious", f"{span} are a result and were never written", site)
                continue
            writer = int(memory.writes[first])
            place = self.instrs[writer - 1].place if writer else None
            self.origins[tag].used(self.report, f"reaches {memory.name} (byte {first})", place, "")

    def _misplaced(self, memory: GlobalMemory) -> None:
        found = memory.misplaced_read()
        if found is None:
            return
        number, off, displaced = found
        me = self.instrs[number - 1]
        if displaced:
            text = f"{me.name} reads {memory.name} {off:+d} bytes from its place: {abs(off)} bytes are read by nobody"
            text += " and as many are read again by a neighbour"
        else:
            text = f"{me.name} stops {off} bytes short of the next read of {memory.name}: they are read by nobody"
            text += ", though all other reads meet"
        self.report.add("Irregular", "suspicious", text, (Site("reads", me.place),), self.watches[me.core].name)

    def trace(self) -> KernelTrace:
        """The trace of what was executed, data-dependent branches as they were taken. Instructions know their source
        lines."""
        blocks: list[Block] = []
        known: dict[tuple[Any, ...], int] = {}
        block_of = []
        layout = self.watched.kinds()
        for first in range(0, len(self.watches), len(layout)):
            programs = tuple(w.recorder.build() for w in self.watches[first : first + len(layout)])
            key = tuple((p.op.tobytes(), p.pipe.tobytes(), p.arg.tobytes(), p.works) for p in programs)
            if key not in known:
                known[key] = len(blocks)
                blocks.append(Block(programs, tuple(layout)))
            block_of.append(known[key])
        args = tuple(GmArg(name, nbytes, role) for name, _, nbytes, role in self.launch.gm)
        dependent = any(w.core.value_dependent for w in self.watches)
        rest = {f.name for f in fields(KernelTrace)} & {"code", "serial"}  # what a launch says of its code as a whole
        return KernelTrace(
            self.launch.name, self.launch.kind, tuple(blocks), tuple(block_of), args, dependent,
            **{name: getattr(self.launch, name) for name in rest},
        )  # fmt: skip


class _WatchedLaunch(Launch):
    """The same launch with every core under watch."""

    def __init__(self, launch: Launch, sanitizer: Sanitizer) -> None:
        self.__dict__.update(launch.__dict__)
        self.sanitizer = sanitizer
        self._free: list[CoreWatch] = []
        self._watch_of: dict[int, CoreWatch] = {}
        self._kinds: dict[int, list[str]] = {}

    def kinds(self) -> list[str]:
        """Kinds of the programs of one block."""
        return next(iter(self._kinds.values()), [self.kind])

    def _core(self, block: int, kind: str, sub: int, trace: TraceBuilder | None, gm: Sequence[Bytes] | None) -> Core:
        if gm is not None and not self.sanitizer.gm:
            self.sanitizer.arguments(gm)
        if not self._free:
            self._free = self.sanitizer.group(1)
        watch = self._free.pop(0)
        core = super()._core(block, kind, sub, watch.recorder, gm)
        core.debug = True
        watch.attach(core)
        self._watch_of[id(core)] = watch
        self._kinds.setdefault(block, []).append(kind)
        return core

    def _run(self, core: Core) -> None:
        before = observer.call
        observer.call = self._watch_of[id(core)]
        try:
            super()._run(core)
        finally:
            observer.call = before

    def _together(self, blocks: Sequence[int] | range, gm: Sequence[Bytes]) -> None:
        count = len(blocks) * self._programs_per_block()
        self._free = self.sanitizer.group(count)
        cores = [core for block in blocks for core in self._cores(block, None, gm)]
        watches = [self._watch_of[id(core)] for core in cores]

        def program(core: Core) -> Callable[[], None]:
            return lambda: self._run(core)

        WatchedBaton(cores, watches).run([program(core) for core in cores])

    def _programs_per_block(self) -> int:
        return 1 + self.ratio if self.kind == "MIX" else 1


def check(
    launch: Launch, buffers: Sequence[Bytes], expected: Sequence[Bytes | None] | None = None,
    history: History | None = None,
) -> Report:  # fmt: skip
    """Run a launch on the bytes of its arguments (in place) under the sanitizer; its `Report`."""
    return Sanitizer(launch, history).run(buffers, expected)


def run_user_launch(launch: Launch, buffers: Sequence[Bytes]) -> None:
    """Run a user's launch under the sanitizer and tell what it found as `sanitizer_mode` says. Broken restrictions and
    deadlocks are raised as without it."""
    mode = sanitizer_mode()
    if mode == "off" and not _LISTENERS:
        launch.execute(buffers)
        return
    sanitizer = Sanitizer(launch)
    report = sanitizer.run(buffers)
    for listener in list(_LISTENERS):
        listener(sanitizer)
    if sanitizer.failure is not None:
        raise sanitizer.failure
    if report.faults and mode == "error":
        raise SanitizerError(report.text(hints=False))
    if report.faults and mode == "warn" and not _LISTENERS:
        path, line = source_place() or ("<kernel>", 1)
        warnings.warn_explicit(report.text(hints=False), SanitizerWarning, path, line)


_LISTENERS: list[Callable[[Sanitizer], None]] = []


class listen:
    """``with listen(callback):`` hands every sanitized user launch of this process to ``callback`` instead of warning.
    """

    def __init__(self, callback: Callable[[Sanitizer], None]) -> None:
        self.callback = callback

    def __enter__(self) -> None:
        _LISTENERS.append(self.callback)

    def __exit__(self, *exc: object) -> None:
        _LISTENERS.remove(self.callback)


__all__ = [
    "CODES", "Finding", "History", "Report", "Sanitizer", "SanitizerError", "SanitizerWarning", "check", "listen",
    "run_user_launch", "sanitizer_mode",
]  # fmt: skip
