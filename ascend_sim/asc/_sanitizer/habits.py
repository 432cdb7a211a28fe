"""What costs time without being wrong: bank conflicts, short bursts, unaligned transfers, single-repeat loops."""

from __future__ import annotations

from collections import Counter

from ascend_sim.asc._sanitizer.clocks import Instr, Place
from ascend_sim.asc._sanitizer.report import Report, Site
from ascend_sim.isa.instr import Load3dWork, MoveWork, Pipe, VectorWork, Work

SHORT_BURST = 512  # bytes: shorter rows do not fill a request to the memory (asc-devkit, data copy practice)
MANY = 32  # repetitions from which a loop of small instructions is worth a remark
MTE1_QUEUE = 32  # instructions the MTE1 queue holds before the scalar unit stalls (asc-devkit matmul example)


class Habits:
    """Counts per source line."""

    def __init__(self) -> None:
        self.conflicts: Counter[Place | None] = Counter()
        self.conflict_repeats: Counter[Place | None] = Counter()
        self.short: Counter[Place | None] = Counter()
        self.unaligned: Counter[Place | None] = Counter()
        self.single: Counter[Place | None] = Counter()
        self.loads: Counter[Place | None] = Counter()
        self.total_conflicts = 0
        self._mte1 = 0

    def issued(self, me: Instr, work: Work) -> None:
        if isinstance(work, VectorWork):
            self.total_conflicts += work.bank_conflicts
            if work.bank_conflicts:
                self.conflicts[me.place] += work.bank_conflicts
                self.conflict_repeats[me.place] += work.repeats
            if work.repeats == 1:
                self.single[me.place] += 1
        elif isinstance(work, MoveWork) and work.gm >= 0:
            if work.burst_bytes < SHORT_BURST and work.bursts > 1:
                self.short[me.place] += work.bursts
            if work.align < 32:
                self.unaligned[me.place] += 1
        self._mte1 = self._mte1 + 1 if me.pipe == Pipe.MTE1 and isinstance(work, MoveWork | Load3dWork) else 0
        if self._mte1 > MTE1_QUEUE:
            self.loads[me.place] += 1

    def tell(self, report: Report) -> None:
        """Add hints to a report."""
        for place, n in self.conflicts.items():
            repeats = self.conflict_repeats[place]
            report.add("BankConflict", "hint", f"{n} of {repeats} repeats pay one cycle for operands in the same banks",
                       (Site("vector instruction", place),))  # fmt: skip
        for place, n in self.short.items():
            if n >= MANY:
                report.add("Habit", "hint", f"{n} rows of less than {SHORT_BURST} bytes: longer rows move faster",
                           (Site("transfer", place),))  # fmt: skip
        for place, n in self.unaligned.items():
            report.add("Habit", "hint", f"{n} transfers start or step off 32-byte boundaries of global memory",
                       (Site("transfer", place),))  # fmt: skip
        for place, n in self.single.items():
            if n >= MANY:
                report.add("Habit", "hint", f"{n} vector instructions of one repeat: raise repeat_times instead",
                           (Site("vector instruction", place),))  # fmt: skip
        for place, n in self.loads.items():
            report.add("Habit", "hint", f"more than {MTE1_QUEUE} loads in a row fill the queue of MTE1 ({n} beyond)",
                       (Site("load", place),))  # fmt: skip
