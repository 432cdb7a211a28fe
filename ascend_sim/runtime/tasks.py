"""What a stream executes: operator kernels, models, copies, fills, event records and waits.

A task asks for its time when it begins, so that cache state and shared resources are taken in device order; its
values are applied when the device clock passes its end.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simpy.events import Event as SimEvent

from ascend_sim.runtime.link import picoseconds
from ascend_sim.runtime.observe import Event
from ascend_sim.runtime.stream import TaskFailure

if TYPE_CHECKING:
    from ascend_sim.engine.result import KernelTiming
    from ascend_sim.ops.schema import OpCall
    from ascend_sim.runtime.device import Device
    from ascend_sim.runtime.events import DeviceEvent, Record
    from ascend_sim.runtime.memory import Block
    from ascend_sim.runtime.stream import Stream


class Task:
    """Base of all tasks. ``ready`` is the host time (ps) of the enqueueing call; `begin` decides the end time,
    `apply` makes the values. Tasks that wait for something override `run`."""

    kind = "task"
    where: tuple[str, int] | None = None  # file and line that submitted it, if somebody noted them
    wrote: tuple[Block, ...] = ()  # blocks it writes, where somebody wants to know
    writes = True  # memory that another task may be waiting for

    def __init__(self, name: str) -> None:
        self.name = name
        self.sequence = 0
        self.ready = 0
        self.thread = 0

    def begin(self, device: Device, start: int) -> int:
        """Called when the stream reaches the task at ``start`` (ps); returns its end."""
        return start

    def apply(self) -> None:
        """Values become visible."""

    def cancel(self, stream: Stream) -> None:
        """The stream was closed or aborted before the task ended."""

    def stuck(self, ident: int) -> bool:
        """Whether the task can never end while the thread ``ident`` waits for it."""
        return False

    def operator(self) -> tuple[str, OpCall, Sequence[int]] | None:
        """Name, call and addresses (inputs, then outputs) of the operator that this task is, or that a model failed
        at."""
        return None

    def run(self, stream: Stream, begin: int) -> Generator[SimEvent, Any, int]:
        env = stream.device.env
        end = self.begin(stream.device, begin)
        if end > env.now:
            yield env.timeout(end - int(env.now))
        self.apply()
        return end

    def emit(self, stream: Stream, start: int, end: int, name: str = "", kind: str = "", **args: Any) -> None:
        """Tell the observers about a span of this task."""
        observers = stream.device.system.observers
        if observers.active:
            args["queued"] = self.ready
            observers.emit(
                Event(
                    kind=kind or self.kind,
                    name=name or self.name,
                    device=stream.device.index,
                    stream=stream.id,
                    task=self.sequence,
                    start=start,
                    end=end,
                    thread=self.thread,
                    args=args,
                )
            )


class LaunchTask(Task):
    """A task that is one launch of a kernel program."""

    kind = "kernel"
    call: OpCall

    def occupy(self, stream: Stream, timing: KernelTiming, start: int) -> Generator[SimEvent, Any, int]:
        """Tell the observers of the launch from ``start`` on, wait for its end and return it."""
        end = start + timing.task_ps
        self.emit(
            stream, start, end, op_type=self.name, call=self.call, estimated=False, op=None, timing=timing,
            task_type=timing.kind, part=0,
        )  # fmt: skip
        now = int(stream.device.env.now)
        if end > now:
            yield stream.device.env.timeout(end - now)
        return end


# -- kernels -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """One operator of a kernel sequence: what it is and its `ascend_sim.ops.cost.OpTiming`."""

    name: str
    call: OpCall
    timing: Any


def _run_step(task: Task, stream: Stream, step: Step, start: int, **args: Any) -> int:
    """Reserve cores for the kernels of one operator, one after the other; returns the end (ps)."""
    device, timing = stream.device, step.timing
    common = {"op_type": step.call.type, "call": step.call, "estimated": timing.estimated, "op": timing, **args}
    if timing.estimated or not timing.kernels:
        duration: int = timing.task_ps
        if duration <= 0:
            return start
        kind, cores = "AICORE", device.soc.cores.ai_core_count
        begin = device.cores.reserve(kind, cores, start, duration)
        task.emit(stream, begin, begin + duration, step.name, "kernel", timing=None, task_type=kind, **common)
        return begin + duration
    end = start
    for index, kernel in enumerate(timing.kernels):
        duration = kernel.task_ps
        begin = device.cores.reserve(kernel.kind, kernel.cores_used, end, duration)
        end = begin + duration
        task.emit(stream, begin, end, step.name, "kernel", timing=kernel, task_type=kernel.kind, part=index, **common)
    return end


class OpTask(Task):
    """One eagerly launched operator. ``addresses`` are those of its inputs, then of its outputs (device
    memory); ``apply`` reads and writes the buffers; ``cores`` is how many it may use, None for all."""

    kind = "kernel"
    gap = "stream_gap_us"  # figure of ``[launch]``: the least time behind the task before

    def __init__(
        self,
        call: OpCall,
        in_addresses: Sequence[int],
        out_addresses: Sequence[int],
        apply: Callable[[], None] | None,
        name: str = "",
        cores: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(name or call.type)
        self.call = call
        self.cores = cores
        self.addresses = (*in_addresses, *out_addresses)
        self._apply = apply

    def operator(self) -> tuple[str, OpCall, Sequence[int]] | None:
        return self.name, self.call, self.addresses

    def run(self, stream: Stream, begin: int) -> Generator[SimEvent, Any, int]:
        from ascend_sim.ops.cost import op_timing

        device = stream.device
        env = device.env
        if stream.free_at:
            begin = max(begin, stream.free_at + picoseconds(getattr(device.soc.launch, self.gap)))
        offsets = [device.offset(a) if a else 0 for a in self.addresses]
        soc = device.soc if self.cores is None else device.narrowed(self.cores)
        timing = op_timing(self.call, soc, device.l2, offsets)
        limit = device.system.op_timeout
        if limit and timing.task_ps > limit:
            yield env.timeout(begin + limit - int(env.now))
            raise TaskFailure("aicore timeout", f"{self.name} ran longer than {limit / 1e12:g} s")
        end = _run_step(self, stream, Step(self.name, self.call, timing), begin)
        if end > env.now:
            yield env.timeout(end - int(env.now))
        if self._apply is not None:
            self._apply()
        return end


class ModelTask(Task):
    """One execution of a loaded model.

    ``plan(device)`` yields its operators as `Step` in order, each timed when its turn comes; ``compute`` makes the
    outputs. ``exclusive``: the host waits for this task and nobody else uses the device, so nothing can come in
    between and the operators need no event of their own on the device clock. ``key`` names model, variant and
    buffers, so that such an execution is remembered by the state of the cache.
    """

    kind = "model"

    def __init__(
        self,
        name: str,
        model_id: int,
        plan: Callable[[Device], Iterable[Step]],
        compute: Callable[[], None],
        exclusive: bool = False,
        key: Hashable = None,
    ) -> None:
        super().__init__(name)
        self.model_id = model_id
        self._plan = plan
        self._compute = compute
        self.exclusive = exclusive
        self.key = key
        self.first: Callable[[], tuple[str, OpCall, Sequence[int]] | None] = lambda: None
        self.memory: Callable[[], tuple[int, Sequence[tuple[str, int, int, int]]]] = lambda: (0, ())
        self.fused: Callable[[], Sequence[tuple[str, Sequence[str], int, int, int]]] = tuple

    def operator(self) -> tuple[str, OpCall, Sequence[int]] | None:
        return self.first()

    def run(self, stream: Stream, begin: int) -> Generator[SimEvent, Any, int]:
        device = stream.device
        env, launch = device.env, device.soc.launch
        gap = picoseconds(launch.model_gap_us)
        end = begin + picoseconds(launch.model_execute_us)
        alone = self.exclusive and device.busy_streams <= 1
        first = True
        steps = self._plan(device)
        if alone and self.key is not None:
            steps = device.replayed(self.key, lambda: self._plan(device))
        for step in steps:
            ready = end if first else end + gap
            first = False
            if not alone:
                if ready > env.now:
                    yield env.timeout(ready - int(env.now))
                if device.busy_streams > 1:
                    yield device.turn(ready, stream.id)
            end = _run_step(self, stream, step, ready, model_id=self.model_id)
        if end > env.now:
            yield env.timeout(end - int(env.now))
        try:
            self._compute()
        except TaskFailure:
            raise
        except Exception as error:
            raise TaskFailure("model", f"model {self.name!r} failed: {type(error).__name__}: {error}") from error
        self.emit(stream, begin, end, model_id=self.model_id, memory=self.memory, fused=self.fused)
        return end


# -- memory ------------------------------------------------------------------------------------------------


def alive(blocks: Iterable[Block | None], what: str) -> None:
    for block in blocks:
        if block is not None and not block.alive:
            raise TaskFailure("copy", f"{what}: the block at {block.address:#x} was freed before the task ran")


class CopyTask(Task):
    """An asynchronous copy of ``rows`` x ``width`` bytes with the pitches given."""

    kind = "memcpy"

    def __init__(
        self,
        dst: int,
        src: int,
        width: int,
        direction: str,
        pinned: bool,
        blocks: tuple[Block | None, Block | None] = (None, None),
        rows: int = 1,
        dst_pitch: int = 0,
        src_pitch: int = 0,
    ) -> None:
        super().__init__("memcpy")
        self.dst, self.src, self.width = dst, src, width
        self.direction, self.pinned, self.blocks = direction, pinned, blocks
        self.rows, self.dst_pitch, self.src_pitch = rows, dst_pitch, src_pitch

    def run(self, stream: Stream, begin: int) -> Generator[SimEvent, Any, int]:
        device, nbytes = stream.device, self.width * self.rows
        duration = 0 if self.direction == "h2h" else device.link.ps(self.direction, nbytes, self.pinned)
        start = begin if self.direction == "h2h" else device.reserve_channel(self.direction, begin, duration)
        end = start + duration
        if end > device.env.now:
            yield device.env.timeout(end - int(device.env.now))
        alive(self.blocks, "asynchronous copy")
        move(self.dst, self.src, self.width, self.rows, self.dst_pitch, self.src_pitch)
        self.emit(stream, start, end, direction=self.direction, nbytes=nbytes, pinned=self.pinned)
        return end


def move(dst: int, src: int, width: int, rows: int = 1, dst_pitch: int = 0, src_pitch: int = 0) -> None:
    """Move bytes between checked addresses."""
    for row in range(rows):
        ctypes.memmove(dst + row * dst_pitch, src + row * src_pitch, width)


class FillTask(Task):
    """Sets ``nbytes`` of device memory to a byte value."""

    kind = "memset"

    def __init__(self, address: int, value: int, nbytes: int, block: Block | None) -> None:
        super().__init__("memset")
        self.address, self.value, self.nbytes, self.block = address, value, nbytes, block

    def run(self, stream: Stream, begin: int) -> Generator[SimEvent, Any, int]:
        device = stream.device
        duration = device.link.ps("set", self.nbytes)
        start = device.reserve_channel("set", begin, duration)
        end = start + duration
        if end > device.env.now:
            yield device.env.timeout(end - int(device.env.now))
        alive((self.block,), "asynchronous fill")
        ctypes.memset(self.address, self.value, self.nbytes)
        self.emit(stream, start, end, nbytes=self.nbytes)
        return end


# -- events ------------------------------------------------------------------------------------------------


class RecordTask(Task):
    """Marks an event as reached."""

    kind = "event"

    def __init__(self, record: Record) -> None:
        super().__init__("record")
        self.record = record

    def cancel(self, stream: Stream) -> None:
        if not self.record.done:
            self.record.finish(stream.device.now)

    def run(self, stream: Stream, begin: int) -> Generator[SimEvent, Any, int]:
        self.record.finish(begin)
        stream.device.scheduler.changed.notify_all()
        self.emit(stream, begin, begin)
        return begin
        yield  # pragma: no cover  # makes this a generator


class WaitTask(Task):
    """Holds its stream until a record is done: the latest one at the time of the call, or the next."""

    kind = "event"

    def __init__(self, event: DeviceEvent, record: Record | None) -> None:
        super().__init__("wait")
        self.event = event
        self.record = record
        self._bound: SimEvent | None = None

    def cancel(self, stream: Stream) -> None:
        self.event.waits -= 1
        if self in self.event.unbound:
            self.event.unbound.remove(self)

    def bind(self, record: Record) -> None:
        self.record = record
        if self._bound is not None and not self._bound.triggered:
            self._bound.succeed()

    def run(self, stream: Stream, begin: int) -> Generator[SimEvent, Any, int]:
        device = stream.device
        if self.record is None:
            self._bound = device.env.event()
            yield self._bound
        record = self.record
        assert record is not None
        if not record.done:
            waiter = device.env.event()
            record.waiters.append(waiter)
            if record.device is not device:
                device.foreign[record] = None
            limit = device.system.wait_timeout
            if limit:
                yield waiter | device.env.timeout(limit)
            else:
                yield waiter
            device.foreign.pop(record, None)
            if not record.done:
                record.waiters.remove(waiter)
                self.event.waits -= 1
                raise TaskFailure("timeout", f"event {self.event.id} was not recorded within {limit / 1e12:g} s")
        end = max(begin, record.time)
        if end > device.env.now:
            yield device.env.timeout(end - int(device.env.now))
        self.event.waits -= 1
        self.emit(stream, begin, end)
        return end
