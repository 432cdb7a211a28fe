"""Media work as a task of a stream: waits for a unit, takes its time, then makes the values."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any

from simpy.events import Event as SimEvent

from ascend_sim.dvpp.errors import BadStream
from ascend_sim.dvpp.units import units_of
from ascend_sim.runtime.link import picoseconds
from ascend_sim.runtime.stream import TaskFailure
from ascend_sim.runtime.tasks import Task

if TYPE_CHECKING:
    from ascend_sim.runtime.memory import Block
    from ascend_sim.runtime.stream import Stream


class MediaTask(Task):
    """``unit`` works on pictures of ``pixels``; ``work`` then makes the values and ``failed`` is told why it could not
    (`BadStream`, or a buffer that was freed meanwhile). ``blocks`` are the buffers that must still be there.

    ``look`` runs when the stream reaches the task and gives ``pixels`` and whether software does the work, for tasks
    whose input says so. ``light`` stands for ``work`` where no values are computed (``ASCEND_SIM_VALUES=none``)."""

    kind = "dvpp"

    def __init__(
        self,
        name: str,
        unit: str,
        pixels: Sequence[int],
        work: Callable[[], None],
        blocks: Sequence[Block | None] = (),
        failed: Callable[[str], None] | None = None,
        look: Callable[[], tuple[Sequence[int], bool]] | None = None,
        light: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(name)
        self.unit = unit
        self.pixels = tuple(pixels)
        self.blocks = tuple(blocks)
        self._look = look
        self._work = work
        self._light = light
        self._failed = failed

    def run(self, stream: Stream, begin: int) -> Generator[SimEvent, Any, int]:
        device = stream.device
        ready = begin + picoseconds(device.soc.dvpp.task_us)
        start = end = ready
        software = False
        problem = self._lost()
        if not problem and self._look is not None:
            try:
                pixels, software = self._look()
                self.pixels = tuple(pixels)
            except BadStream as error:
                problem = str(error)
        if not problem:
            start, end = units_of(device).reserve(self.unit, ready, self.pixels, software)
        if end > device.env.now:
            yield device.env.timeout(end - int(device.env.now))
        problem = problem or self._perform(device.system.values == "none")
        self.emit(
            stream, start, end, op_type=self.unit.upper(), task_type="DVPP", pixels=sum(self.pixels),
            pictures=len(self.pixels), estimated=False,
        )  # fmt: skip
        if problem:
            if self._failed is not None:
                self._failed(problem)
            raise TaskFailure("dvpp", f"{self.name}: {problem}")
        return end

    def _lost(self) -> str:
        gone = next((block for block in self.blocks if block is not None and not block.alive), None)
        return "" if gone is None else f"the buffer at {gone.address:#x} ({gone.owner}) was freed before the task ran"

    def _perform(self, without_values: bool) -> str:
        """Make the values; says what went wrong."""
        problem = self._lost()
        if not problem:
            try:
                (self._light if without_values and self._light is not None else self._work)()
            except BadStream as error:
                problem = str(error)
        return problem
