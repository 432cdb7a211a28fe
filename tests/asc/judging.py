"""Judges mutants: are their values or their order wrong, does the sanitizer say so, and where?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from interception import Call, Mutation, Stream
from mutants import intercepted
from reordering import Stuck, differing_order
from shipped import Bytes, Ready

from ascend_sim import asc
from ascend_sim.asc.interleave import CoreDeadlockError
from ascend_sim.asc.sanitizer import History, Report, Sanitizer
from ascend_sim.isa.legality import InstructionError


class Verdict(NamedTuple):
    """``wrong`` says how ("values", "order", "stopped") or is empty; ``reported`` the codes found; ``placed`` whether a
    finding names the mutated line, its partner, or the accesses a lost flag had ordered; ``alone`` whether it was found
    without comparing values."""

    mutation: Mutation
    call: Call
    wrong: str
    reported: tuple[str, ...]
    placed: bool
    alone: bool
    reports: tuple[str, ...]


class Subject:
    """One launch of a kernel on given memory (``known``: what of it earlier launches defined), and its original run.
    ``after_it`` are the launches of the operator that follow, with the position of each of their buffers among all."""

    def __init__(
        self, launch: asc.Launch, keys: list[Any], memory: dict[Any, Bytes], known: dict[Any, Bytes | None],
        after_it: list[asc.Launch],
    ) -> None:  # fmt: skip
        self.launch, self.known, self.after_it, self.keys = launch, known, after_it, keys
        self.memory = {key: data.copy() for key, data in memory.items()}
        buffers = [memory[key] for key in keys]
        self.buffers = [b.copy() for b in buffers]
        self.outputs = [i for i, entry in enumerate(launch.gm) if entry[3] in ("out", "inout")]
        stream = Stream()
        self.after = self.fresh()
        with intercepted(stream):
            launch.execute(self.after)
        self.calls = stream.calls

    def fresh(self) -> list[Bytes]:
        return [b.copy() for b in self.buffers]

    def judge(self, mutation: Mutation) -> Verdict:
        call = self.calls[mutation.number]
        memory, history = {key: data.copy() for key, data in self.memory.items()}, History()
        for key, tags in self.known.items():
            if tags is not None:
                history.keep(memory[key], tags)
        expected = [b if i in self.outputs else None for i, b in enumerate(self.after)]
        with intercepted(Stream(mutation, self.calls)):
            report = Sanitizer(self.launch, history).run([memory[key] for key in self.keys], expected)
        for launch in self.after_it if not report.stopped else ():  # what it left undefined shows where it is used
            later = Sanitizer(launch, history).run([memory[key] for key in launch.args])
            report.findings += later.findings
        wrong = self._wrong(mutation)
        codes = tuple(f.code for f in report.faults) or (("stopped",) if report.stopped else ())
        alone = any(code != "WrongValue" for code in codes)
        texts = tuple(map(str, report.faults))
        return Verdict(mutation, call, wrong, codes, self._placed(report, call), alone, texts)

    def _wrong(self, mutation: Mutation) -> str:
        buffers = self.fresh()
        try:
            with intercepted(Stream(mutation, self.calls)):
                order = differing_order(self.launch, buffers, self.outputs)
        except (InstructionError, CoreDeadlockError, Stuck):
            return "stopped"
        if any((buffers[k] != self.after[k]).any() for k in self.outputs):
            return "values"
        return f"order ({order})" if order else ""

    def _placed(self, report: Report, call: Call) -> bool:
        partners = {call.place}
        pair = ""
        if call.flag is not None:
            partners |= {c.place for c in self.calls if c.flag == call.flag and c.name != call.name}
            pair = "_".join(call.flag[:2])
        for finding in report.faults:
            if any(site.place in partners for site in finding.sites):
                return True
            if pair and f" {pair} " in finding.message:  # names the very flag that orders the two accesses
                return True
        return False


def subjects(ready: Ready) -> list[Subject]:
    """The launches of a case, each with the memory it finds."""
    memory = {key: data.copy() for key, data in ready.memory.items()}
    history = History()
    found: list[Subject] = []
    for i, launch in enumerate(ready.launches):
        known = {key: history.recall(data) for key, data in memory.items()}
        found.append(Subject(launch, list(launch.args), memory, known, ready.launches[i + 1 :]))
        Sanitizer(launch, history).run([memory[key] for key in launch.args])
    return found


def tally(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Counts for a report."""
    wrong = [v for v in verdicts if v.wrong]
    caught = [v for v in wrong if v.reported]
    return {
        "mutants": len(verdicts), "wrong": len(wrong), "reported": len(caught),
        "without comparing values": sum(v.alone for v in caught),
        "placed": sum(v.placed for v in caught),
        "harmless but reported": sum(bool(v.reported) for v in verdicts if not v.wrong),
    }  # fmt: skip
