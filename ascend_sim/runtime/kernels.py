"""Launches of kernel programs as tasks of a stream."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any

from simpy.events import Event as SimEvent

from ascend_sim.runtime.link import picoseconds
from ascend_sim.runtime.stream import TaskFailure
from ascend_sim.runtime.tasks import LaunchTask, alive

if TYPE_CHECKING:
    from ascend_sim.engine.trace import KernelTrace
    from ascend_sim.ops.schema import OpCall
    from ascend_sim.runtime.memory import Block
    from ascend_sim.runtime.stream import Stream


class KernelTask(LaunchTask):
    """One launch. ``trace()`` is asked for when the kernel begins, ``compute`` makes its results at its end;
    ``addresses`` are those of its arguments in global memory."""

    def __init__(
        self,
        name: str,
        trace: Callable[[], KernelTrace],
        compute: Callable[[], None],
        call: OpCall,
        addresses: Sequence[int],
        blocks: Sequence[Block | None],
    ) -> None:
        super().__init__(name)
        self._trace, self._compute, self.call = trace, compute, call
        self.addresses, self.blocks = addresses, blocks

    def operator(self) -> tuple[str, OpCall, Sequence[int]] | None:
        return self.name, self.call, self.addresses

    def run(self, stream: Stream, begin: int) -> Generator[SimEvent, Any, int]:
        from ascend_sim.engine.simulate import simulate_kernel

        device = stream.device
        if stream.free_at:
            begin = max(begin, stream.free_at + picoseconds(device.soc.launch.stream_gap_us))
        try:
            offsets = [device.offset(a) if a else 0 for a in self.addresses]
            timing = simulate_kernel(self._trace(), device.soc, device.l2, offsets)
        except Exception as error:  # a deadlock, a broken restriction, a mistake of the program
            raise TaskFailure("aicore", f"kernel {self.name}: {error}") from error
        start = device.cores.reserve(timing.kind, timing.cores_used, begin, timing.task_ps)
        end = yield from self.occupy(stream, timing, start)
        alive(self.blocks, f"kernel {self.name}")
        try:
            self._compute()
        except Exception as error:  # a deadlock, a broken restriction, a mistake of the program
            raise TaskFailure("aicore", f"kernel {self.name}: {error}") from error
        return end
