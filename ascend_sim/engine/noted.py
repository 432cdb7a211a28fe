"""An L2 whose findings are noted once and told again: what launches find does not depend on clocks and rates.

Sweeps time the same launches on many variants of a chip. While cores, cache and instruction set stay the same, so does
every `MemoryPlan`, and there is no need to walk the addresses again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ascend_sim.engine.memory import L2, MemoryPlan
from ascend_sim.soc import Soc

Note = MemoryPlan | int


class NotingL2(L2):
    """Notes in order what each launch finds (`notes`); empty the list to note from then on."""

    def __init__(self, soc: Soc) -> None:
        super().__init__(soc)
        self.notes: list[Note] = []
        self._planning = False

    def access(self, base: int, nbytes: int, write: bool) -> int:
        missed = super().access(base, nbytes, write)
        if not self._planning:
            self.notes.append(missed)
        return missed

    def planned(self, make: Callable[[], MemoryPlan]) -> MemoryPlan:
        self._planning = True
        try:
            plan = make()
        finally:
            self._planning = False
        self.notes.append(plan)
        return plan


class ToldL2(L2):
    """Answers the same launches in the same order from ``notes``; ``code``: their code is cached already."""

    def __init__(self, soc: Soc, notes: list[Note], code: bool) -> None:
        super().__init__(soc)
        self._next: Iterator[Note] = iter(notes)
        if code:
            self.warm_code()

    def access(self, base: int, nbytes: int, write: bool) -> int:
        note = next(self._next)
        assert isinstance(note, int)
        return note

    def planned(self, make: Callable[[], MemoryPlan]) -> MemoryPlan:
        note = next(self._next)
        assert isinstance(note, MemoryPlan)
        return note
