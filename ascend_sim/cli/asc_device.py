"""Launches of kernel programs on the simulated machine: what ``ascend-sim run`` puts under ``ascend_sim.asc``.

Values are computed when the kernel is launched, as on a device of its own; besides, the launch takes its place in a
stream of the machine, so that profiles show it with its time, between the copies and models of the same program.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ascend_sim.asc.device import HostDevice, use
from ascend_sim.asc.kernel import user_launch
from ascend_sim.asc.sanitizer import run_user_launch
from ascend_sim.engine.simulate import simulate_kernel
from ascend_sim.engine.trace import KernelTrace
from ascend_sim.isa.dtypes import as_dtype
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.runtime.link import picoseconds
from ascend_sim.runtime.memory import Block, rounded
from ascend_sim.runtime.stream import Stream, TaskFailure
from ascend_sim.runtime.system import configure, system
from ascend_sim.runtime.tasks import LaunchTask
from ascend_sim.soc import Soc

if TYPE_CHECKING:
    from simpy.events import Event as SimEvent

    from ascend_sim.asc.kernel import Kernel
    from ascend_sim.asc.launch import Bytes, Launch
    from ascend_sim.runtime.device import Device


class KernelTask(LaunchTask):
    """One launch of a user's kernel; ``addresses`` of its arguments as the cache sees them."""

    def __init__(self, trace: KernelTrace, soc: Soc, call: OpCall, addresses: Sequence[int]) -> None:
        super().__init__(trace.name)
        self.trace, self.soc, self.call, self.addresses = trace, soc, call, addresses

    def run(self, stream: Stream, begin: int) -> Generator[SimEvent, Any, int]:
        device = stream.device
        if stream.free_at:
            begin = max(begin, stream.free_at + picoseconds(device.soc.launch.stream_gap_us))
        try:
            timing = simulate_kernel(self.trace, self.soc, device.l2, self.addresses)
        except RuntimeError as error:  # a deadlock of the kernel's flags
            raise TaskFailure("aicore", str(error)) from error
        start = begin
        if self.soc.chip.split_cores == device.soc.chip.split_cores:
            start = device.cores.reserve(timing.kind, timing.cores_used, begin, timing.task_ps)
        return (yield from self.occupy(stream, timing, start))


class MachineDevice(HostDevice):
    """Devices, streams and memory of the machine. A chip named by the program decides how its kernels run; without one
    it is the machine's."""

    def __init__(self) -> None:
        super().__init__()
        self._queues: dict[int, Stream] = {}
        self._held: dict[int, Block] = {}

    @property
    def _machine(self) -> Device:
        return system().devices[self._index]

    def soc(self) -> Soc:
        return self._soc or system().soc

    def set_platform(self, name: str | None) -> None:
        self._soc = None
        if name is None:
            return
        try:
            configure(soc=name)
        except ValueError:  # the machine is another chip already
            super().set_platform(name)

    def device_count(self) -> int:
        return len(system().devices)

    def create_stream(self, priority: int) -> Any:
        return self._machine.add_stream(None, priority)

    def destroy_stream(self, stream: Any) -> None:
        if isinstance(stream, Stream):
            stream.drain()
            stream.close()

    def current_stream(self) -> Any:
        queue = self._queues.get(self._index)
        if queue is None:
            queue = self._queues[self._index] = self._machine.add_stream(None)
        return queue

    def synchronize(self, stream: Any) -> None:
        streams = [stream] if isinstance(stream, Stream) else list(self._machine.streams.values())
        for queue in streams:
            queue.synchronize(system().thread)
            failure = queue.take_failure()
            if failure is not None:
                raise RuntimeError(str(failure))

    def malloc(self, nbytes: int) -> int:
        if nbytes <= 0:
            raise ValueError(f"malloc: size = {nbytes}: must be positive")
        block = self._machine.arena.allocate(nbytes, rounded(nbytes, 32), "asc")
        self._held[block.address] = block
        return block.address

    def free(self, address: int) -> None:
        block = self._held.pop(address, None)
        if block is None:
            raise ValueError(f"free: address {address:#x} was not allocated or is already free")
        self._machine.arena.release(block)

    def memory(self, address: int) -> Bytes:
        arena = system().memory.arena_of(address)
        block = arena.find(address) if arena is not None else None
        if arena is None or block is None:
            raise ValueError(f"address {address:#x} lies in no allocation of this device")
        return arena.view(address, block.address + block.size - address)

    def tick(self) -> int | None:
        """Cycles of the core clock since the machine was started."""
        return self._machine.now * int(self.soc().cores.clock_mhz) // 10**6

    def launch(
        self, kernel: Kernel, cores: int, stream: Any, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> None:
        queue = stream if isinstance(stream, Stream) else self.current_stream()
        thread = system().thread
        queue.synchronize(thread)  # what the kernel reads may still be on its way
        description, buffers = user_launch(kernel, cores, args, kwargs, self.soc(), self.memory)
        run_user_launch(description, buffers)
        try:
            trace = description.trace()
        except Exception as error:
            warnings.warn(f"kernel {kernel.__name__} has no time: without values it fails ({error})", stacklevel=2)
            return
        addresses = [b.ctypes.data for b in buffers]
        call = OpCall(kernel.__name__, tuple(_specs(description, buffers)), ())
        thread.now += system().costs["launch"]
        queue.submit(KernelTask(trace, self.soc(), call, addresses), thread)
        if any(system().memory.find(a) is None for a in addresses):  # arrays of the host come back with the call
            self.synchronize(queue)


def _specs(description: Launch, buffers: Sequence[Bytes]) -> Iterator[TensorSpec]:
    """The arrays of a launch, flat."""
    for (_, dtype, _, role), data in zip(description.gm, buffers, strict=True):
        if role != "workspace":
            kind = as_dtype(dtype)
            yield TensorSpec((len(data) // kind.size,), kind.name)


def install() -> None:
    """Launch kernels on the simulated machine from now on."""
    use(MachineDevice())
