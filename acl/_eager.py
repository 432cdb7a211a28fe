"""The private door for frameworks that launch operators one by one, thousands a second. Not part of pyACL.

What an `acl.op.execute_v2` call checks every time is checked here once, when a `Kernel` is made; launching it then
costs only its place in the stream. The tasks, their times and their values are those of ``acl.op``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ascend_sim.runtime.events import DeviceEvent, Record
from ascend_sim.runtime.host import HostThread, _local, host_thread
from ascend_sim.runtime.observe import Event
from ascend_sim.runtime.stream import Stream, TaskFailure
from ascend_sim.runtime.system import device_count as _device_count
from ascend_sim.runtime.system import system
from ascend_sim.runtime.tasks import CopyTask, OpTask, RecordTask, Task, WaitTask

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ascend_sim.ops.registry import OpDef
    from ascend_sim.ops.schema import OpCall, TensorSpec
    from ascend_sim.runtime.context import Context
    from ascend_sim.runtime.device import Device

_KINDS = {1: "h2d", 2: "d2h", 3: "d2d", 4: "p2p"}
# bytes of numbers that a program may read when no values are computed; integers and masks: below `_SKIPPED`
_NUMBERS = 1 << 12
_POSITIONS = frozenset({"bool", "int8", "int16", "int32", "int64", "uint8"})
_SKIPPED = 1 << 20  # bytes from which a copy moves nothing when no values are computed


class OperatorFailure(RuntimeError):
    """A task of a stream failed; raised where the host waits."""


# -- host threads ------------------------------------------------------------------------------------------

_clock: dict[str, HostThread] = {}


def host() -> HostThread:
    """The calling thread's clock. Threads that Python did not start (autograd's workers) work while the thread that
    started them waits: they share the clock of the thread that launched last."""
    thread = host_thread()
    fresh = thread.context is None and thread.now == 0
    if fresh and "last" in _clock and not any(t.ident == thread.ident for t in threading.enumerate()):
        _local.thread = thread = _clock["last"]
        return thread
    _clock["last"] = thread
    return thread


def device_count() -> int:
    return _device_count()


def open_device(index: int) -> Context:
    """The default context of a device, made on first use (``acl.init``, ``acl.rt.set_device``)."""
    device = system().devices[index]
    context = device.default_context
    if context is None or not context.alive:
        import acl

        acl.init()
        mine = host()
        before = mine.context
        acl.rt.set_device(index)
        if before is not None:
            mine.context = before
        context = device.default_context
        assert context is not None
    return context


# -- operators ---------------------------------------------------------------------------------------------


class Kernel:
    """One operator with the places of its tensors in an address list: ``inputs``, ``outputs`` are indices (-1: absent,
    empty or constant). ``timed`` is the call that is charged, where it may differ in the values of scalars only;
    ``silent``: the values are there already."""

    __slots__ = ("_op", "_readers", "_writers", "call", "inputs", "outputs", "silent", "small", "timed")

    def __init__(
        self,
        call: OpCall,
        inputs: Sequence[int],
        outputs: Sequence[int],
        timed: OpCall | None = None,
        silent: bool = False,
    ) -> None:
        from ascend_sim import ops

        ops.load(kernels=False)
        op = ops.find(call.type)
        if op is None:
            raise ops.UnknownOpError(f"operator {call.type!r} is not in the registry")
        self.call = call
        self.timed = timed or call
        self.inputs = tuple(-1 if s is None or s.nbytes == 0 else i for i, s in zip(inputs, call.inputs, strict=True))
        self.outputs = tuple(-1 if s.nbytes == 0 else i for i, s in zip(outputs, call.outputs, strict=True))
        self.silent = silent
        self.small = all(s is None or s.nbytes <= _NUMBERS for s in (*call.inputs, *call.outputs))
        self._op: OpDef = op
        self._readers = tuple(_reader(i, s) for i, s in zip(self.inputs, call.inputs, strict=True))
        self._writers = tuple(_reader(i, s) for i, s in zip(self.outputs, call.outputs, strict=True))

    def compute(self, device: Device, addresses: Sequence[int]) -> None:
        """Read the inputs, run the operator, write the outputs."""
        import numpy as np

        from ascend_sim.ops.values._threads import limited

        arena = device.arena
        arrays = [read(arena.view, addresses) for read in self._readers]
        try:
            with limited(self.call), np.errstate(all="ignore"):
                results = self._op.values(arrays, self.call)
        except Exception as error:
            raise TaskFailure("aicore", f"{self.call.type} failed: {type(error).__name__}: {error}") from error
        for write, place, result in zip(self._writers, self.outputs, results, strict=True):
            if place >= 0:
                write(arena.view, addresses)[...] = result

    def blank(self, device: Device, addresses: Sequence[int]) -> None:
        """Without values, small results are 0 rather than what was in memory: programs read numbers, and CPU kernels
        take integers as positions."""
        for place, spec in zip(self.outputs, self.call.outputs, strict=True):
            if place >= 0 and spec.nbytes < (_SKIPPED if spec.dtype in _POSITIONS else _NUMBERS):
                device.arena.view(addresses[place], spec.nbytes)[...] = 0


_View = Callable[[int, int], "NDArray[Any]"]


def _reader(place: int, spec: TensorSpec | None) -> Callable[[_View, Sequence[int]], Any]:
    """How a tensor is found: ``(arena view, addresses) -> array``."""
    if spec is None:
        return lambda view, addresses: None
    import numpy as np

    from ascend_sim.ops.dtypes import numpy_dtype

    dtype, shape, nbytes = numpy_dtype(spec.dtype), spec.logical_shape, spec.nbytes
    if place < 0:
        fixed = np.zeros(shape, dtype) if spec.const is None else np.frombuffer(spec.const, dtype).reshape(shape)
        return lambda view, addresses: fixed
    return lambda view, addresses: view(addresses[place], nbytes).view(dtype).reshape(shape)


class _EagerTask(OpTask):
    """A launched `Kernel`."""

    def __init__(self, kernel: Kernel, device: Device, addresses: Sequence[int]) -> None:
        super().__init__(
            kernel.timed,
            [addresses[i] if i >= 0 else 0 for i in kernel.inputs],
            [addresses[i] if i >= 0 else 0 for i in kernel.outputs],
            self._values,
        )
        self._kernel, self._device, self._places = kernel, device, addresses

    def _values(self) -> None:
        mode = self._device.system.values
        if mode == "none":
            self._without_values()
            return
        if self._kernel.silent:
            return
        if mode == "operator" or (mode == "instruction" and not self._by_instruction()):
            self._kernel.compute(self._device, self._places)

    def _without_values(self) -> None:
        """What decides how a program goes on (has it ended, is there an overflow) is small and computed all the same,
        as far as what it is made from allows."""
        kernel = self._kernel
        if kernel.small and not kernel.silent:
            with suppress(TaskFailure):
                kernel.compute(self._device, self._places)
                return
        kernel.blank(self._device, self._places)

    def _by_instruction(self) -> bool:
        from acl._op_call import Bound, _by_instruction
        from ascend_sim.runtime.copies import Place

        def place(index: int) -> Place | None:
            if index < 0:
                return None
            address = self._places[index]
            return Place(address, self._device.index, self._device.arena.find(address))

        kernel = self._kernel
        return _by_instruction(Bound(kernel.call, tuple(map(place, kernel.inputs)), tuple(map(place, kernel.outputs))))


def launch(kernels: Sequence[Kernel], stream: Stream, addresses: Sequence[int]) -> None:
    """Enqueue the operators of one call of the framework: its own share of host time once, then each as a call of
    ``acl.op``."""
    thread = host()
    device = stream.device
    machine = device.system
    thread.now += machine.costs["framework"]
    cost = machine.costs["launch"]
    for kernel in kernels:
        start = thread.now
        thread.now = start + cost
        stream.submit(_EagerTask(kernel, device, addresses), thread)
        if machine.observers.active:
            facts = {"module": "acl.op", "ret": 0, "op_type": kernel.call.type}
            machine.observers.emit(
                Event("api", "aclopExecuteV2", device.index, -1, 0, start, thread.now, thread.index, facts)
            )


class _GraphTask(_EagerTask):
    """A kernel of a captured graph: it follows the one before it as in a model."""

    gap = "model_gap_us"


def replay(kernels: Sequence[tuple[Kernel, Sequence[int]]], stream: Stream, charge: bool = True) -> None:
    """Enqueue captured operators with one call of the host for all of them (``charge``: it is made now)."""
    thread = host()
    if charge:
        thread.now += stream.device.system.costs["launch"]
    for kernel, addresses in kernels:
        stream.submit(_GraphTask(kernel, stream.device, addresses), thread)


# -- waiting -----------------------------------------------------------------------------------------------


def _raise(stream: Stream) -> None:
    failure = stream.take_failure()
    if failure is not None:
        raise OperatorFailure(f"{failure}, error code is 507015")


def synchronize(stream: Stream) -> None:
    """Block until the stream is empty, and charge the call."""
    thread = host()
    thread.now += stream.device.system.costs["sync"]
    stream.synchronize(thread)
    _raise(stream)


def synchronize_device(index: int) -> None:
    context = open_device(index)
    thread = host()
    thread.now += context.device.system.costs["sync"]
    for stream in sorted(context.device.streams.values(), key=lambda s: s.id):
        stream.synchronize(thread)
    for stream in list(context.device.streams.values()):
        _raise(stream)


def query(stream: Stream) -> bool:
    thread = host()
    thread.now += stream.device.system.costs["api"]
    stream.device.scheduler.advance(stream.device, thread.now)
    return stream.idle


def settle(index: int) -> None:
    """Let everything enqueued happen without a host waiting for it: no clock of a thread moves."""
    device = system().devices[index]
    with device.scheduler.lock:
        for stream in list(device.streams.values()):
            device.scheduler.drive(device, lambda stream=stream: stream.idle)  # type: ignore[misc]
    for stream in list(device.streams.values()):
        _raise(stream)


# -- events ------------------------------------------------------------------------------------------------


def new_event(index: int) -> DeviceEvent:
    context = open_device(index)
    return DeviceEvent(context, context.device.next_event(), 0)


def record(event: DeviceEvent, stream: Stream) -> None:
    thread = host()
    thread.now += stream.device.system.costs["event"]
    with stream.device.scheduler.lock:
        mark = Record(stream.device, stream.id)
        event.bind(mark)
        stream.submit(RecordTask(mark), thread)


def wait(event: DeviceEvent, stream: Stream) -> None:
    """Hold the stream until the event's latest record is reached."""
    thread = host()
    thread.now += stream.device.system.costs["event"]
    if event.record is None:
        return
    with stream.device.scheduler.lock:
        event.waits += 1
        stream.submit(WaitTask(event, event.record), thread)


def reached(event: DeviceEvent) -> bool:
    mark = event.record
    if mark is None or mark.device is None:
        return True
    thread = host()
    thread.now += mark.device.system.costs["api"]
    if not mark.done:
        mark.device.scheduler.advance(mark.device, thread.now)
    return mark.done


def synchronize_event(event: DeviceEvent) -> None:
    mark = event.record
    if mark is None or mark.device is None:
        return
    thread = host()
    thread.now += mark.device.system.costs["sync"]
    mark.device.scheduler.wait(mark.device, lambda: mark.done)
    thread.join(mark.time)


def time_ps(event: DeviceEvent) -> int | None:
    """When the event was reached; None when it was not."""
    return None if event.record is None or not event.record.done else event.record.time


# -- copies and other work ---------------------------------------------------------------------------------


class _EagerCopy(CopyTask):
    """A copy that moves large buffers only when values are computed."""

    def __init__(self, dst: int, src: int, nbytes: int, direction: str, pinned: bool, idle: bool) -> None:
        super().__init__(dst, src, nbytes, direction, pinned, rows=0 if idle else 1)
        self._nbytes = nbytes

    def run(self, stream: Stream, begin: int) -> Any:
        if self.rows:
            return (yield from super().run(stream, begin))
        device = stream.device
        duration = device.link.ps(self.direction, self._nbytes, self.pinned)
        start = device.reserve_channel(self.direction, begin, duration)
        end = start + duration
        if end > device.env.now:
            yield device.env.timeout(end - int(device.env.now))
        self.emit(stream, start, end, direction=self.direction, nbytes=self._nbytes, pinned=self.pinned)
        return end


class _SleepTask(Task):
    """Holds its stream for a time (ps)."""

    kind = "event"

    def __init__(self, duration: int) -> None:
        super().__init__("sleep")
        self._duration = duration

    def run(self, stream: Stream, begin: int) -> Any:
        end = begin + self._duration
        now = int(stream.device.env.now)
        if end > now:
            yield stream.device.env.timeout(end - now)
        return end


def sleep(stream: Stream, duration: int) -> None:
    """Keep a stream busy for ``duration`` ps."""
    thread = host()
    thread.now += stream.device.system.costs["launch"]
    stream.submit(_SleepTask(duration), thread)


def copy(stream: Stream, dst: int, src: int, nbytes: int, kind: int, pinned: bool, wait_for: bool) -> None:
    """Copy bytes in stream order (kinds of ``acl.rt.memcpy``; 4 is to another device)."""
    thread = host()
    machine = stream.device.system
    start = thread.now
    thread.now = start + machine.costs["memcpy_async"]
    idle = machine.values == "none" and nbytes >= _SKIPPED
    stream.submit(_EagerCopy(dst, src, nbytes, _KINDS[kind], pinned, idle), thread)
    if wait_for:
        thread.now += machine.costs["sync"]
        stream.synchronize(thread)
        _raise(stream)
    if machine.observers.active:
        facts = {"module": "acl.rt", "ret": 0}
        machine.observers.emit(
            Event("api", "aclrtMemcpyAsync", stream.device.index, -1, 0, start, thread.now, thread.index, facts)
        )


def charge_copy(stream: Stream, direction: str, nbytes: int, name: str) -> None:
    """A synchronous copy whose bytes need not move: the host works on the device's memory directly."""
    if nbytes == 0:
        return
    thread, device = host(), stream.device
    start = device.reserve_channel(direction, thread.now, device.link.ps(direction, nbytes, False))
    thread.now = start + device.link.ps(direction, nbytes, False)
    if device.system.observers.active:
        args = {"direction": direction, "nbytes": nbytes, "pinned": False, "queued": start, "fallback": name}
        device.system.observers.emit(
            Event("memcpy", "memcpy", device.index, -1, 0, start, thread.now, thread.index, args)
        )


def emit(kind: str, name: str, device: int, start: int, **facts: Any) -> None:
    """Tell the observers about host work that began at ``start`` (ps) and ends now."""
    observers = system().observers
    if observers.active:
        thread = host()
        observers.emit(Event(kind, name, device, -1, 0, start, thread.now, thread.index, facts))


# -- memory ------------------------------------------------------------------------------------------------


def segment_alloc(index: int, nbytes: int) -> int:
    """Device memory as ``acl.rt.malloc`` gives it; 0 when there is no room."""
    from ascend_sim.runtime.memory import OutOfMemory

    context = open_device(index)
    host().now += context.device.system.costs["malloc"]
    try:
        return context.device.arena.allocate(nbytes, nbytes, "torch_npu").address
    except OutOfMemory:
        return 0


def segment_free(index: int, address: int) -> None:
    arena = system().devices[index].arena
    block = arena.blocks.get(address)
    if block is not None:
        arena.release(block)


def memory_info(index: int) -> tuple[int, int]:
    """Free and total bytes."""
    arena = system().devices[index].arena
    return arena.capacity - arena.used, arena.capacity


def host_alloc(nbytes: int) -> int:
    from ascend_sim.runtime.memory import OutOfMemory

    try:
        return system().host.allocate(nbytes, nbytes, "torch_npu (pinned)").address
    except OutOfMemory:
        return 0


def host_free(address: int) -> None:
    block = system().host.blocks.get(address)
    if block is not None:
        system().host.release(block)


# -- making calls ------------------------------------------------------------------------------------------


def tensor_spec(shape: Sequence[int], dtype: str, const: bytes | None = None) -> TensorSpec:
    from ascend_sim.ops.schema import TensorSpec

    return TensorSpec(tuple(shape), dtype, const=const)


def operator_call(
    op_type: str, inputs: Sequence[TensorSpec | None], attrs: dict[str, Any], loose: Sequence[str | int] = ()
) -> tuple[OpCall, OpCall]:
    """A call with inferred outputs, and the call that is charged: in it the attributes and constant inputs in ``loose``
    (scalars that change from step to step) have no value. ValueError when inputs or attributes do not fit."""
    from dataclasses import replace

    from ascend_sim import ops

    call = ops.call(op_type, inputs, attrs)
    if not loose:
        return call, call
    fixed = tuple((k, 1.0 if k in loose and isinstance(v, float | int) else v) for k, v in call.attrs)
    sources = tuple(replace(s, const=None) if s is not None and i in loose else s for i, s in enumerate(call.inputs))
    return call, replace(call, attrs=fixed, inputs=sources)


def known_operator(op_type: str) -> bool:
    from ascend_sim import ops

    ops.load(kernels=False)
    return ops.find(op_type) is not None


# -- communication -----------------------------------------------------------------------------------------


class _Collective(OpTask):
    """A collective on a stream: it begins when all ranks are there (``start``, ps)."""

    kind = "collective"

    def __init__(self, name: str, start: int, duration: int, facts: dict[str, Any]) -> None:
        super().__init__(_NOTHING, (), (), None, name)
        self.start, self.duration, self.facts = start, duration, facts

    def run(self, stream: Stream, begin: int) -> Any:
        env = stream.device.env
        start = max(begin, self.start)
        end = start + self.duration
        if end > env.now:
            yield env.timeout(end - int(env.now))
        self.emit(stream, begin, end, wait=start - begin, **self.facts)
        return end


class _Nothing:
    type = "Collective"


_NOTHING: Any = _Nothing()


def ready_ps(stream: Stream) -> int:
    """When work enqueued now could begin: after everything enqueued so far, which happens for that."""
    settle(stream.device.index)
    return max(stream.free_at, host().now)


def collective(stream: Stream, name: str, nbytes: int, ranks: int, start: int, **facts: Any) -> None:
    """Enqueue a collective of ``nbytes`` (see `ascend_sim.runtime.collective.steps`) that begins at ``start`` ps."""
    from ascend_sim.runtime.collective import collective_ps

    thread = host()
    thread.now += stream.device.system.costs["launch"]
    duration = collective_ps(stream.device.soc, name, nbytes, ranks)
    known = {"nbytes": nbytes, "ranks": ranks, "link": "HCCS", **facts}
    stream.submit(_Collective(f"hcom_{name}_", start, duration, known), thread)
