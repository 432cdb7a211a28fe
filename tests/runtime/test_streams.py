"""Streams on the device clock: order, overlap, stale values, waits, determinism."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ascend_sim.runtime.context import Context
from ascend_sim.runtime.events import DeviceEvent, Record
from ascend_sim.runtime.host import HostThread
from ascend_sim.runtime.observe import Event
from ascend_sim.runtime.scheduler import Wait
from ascend_sim.runtime.stream import TaskFailure
from ascend_sim.runtime.system import System
from ascend_sim.runtime.tasks import RecordTask, Task, WaitTask


class Delay(Task):
    """Takes ``duration`` ps, then writes its name into ``log``."""

    def __init__(self, name: str, duration: int, log: list[Any] | None = None, cores: int = 0) -> None:
        super().__init__(name)
        self.duration = duration
        self.log = log
        self.cores = cores
        self.start = -1

    def begin(self, device: Any, start: int) -> int:
        self.start = start
        if self.cores:
            self.start = device.cores.reserve("AIC", self.cores, start, self.duration)
        return self.start + self.duration

    def apply(self) -> None:
        if self.log is not None:
            self.log.append(self.name)


def context(system: System, device: int = 0) -> Context:
    return Context(system.devices[device], True, 0, 0)


def test_a_task_is_applied_when_the_device_passes_its_end(system: System) -> None:
    stream, host, log = context(system).default_stream, HostThread(), []
    host.now = 50
    stream.submit(Delay("a", 100, log), host)
    device = system.devices[0]
    system.scheduler.advance(device, 150)
    assert log == [] and not stream.idle
    system.scheduler.advance(device, 151)
    assert log == ["a"] and stream.idle
    assert stream.free_at == 150


def test_a_stream_is_in_order_and_streams_overlap(system: System) -> None:
    ctx, host, log = context(system), HostThread(), []
    first, second = ctx.add_stream(), ctx.add_stream()
    first.submit(Delay("a", 100, log), host)
    first.submit(Delay("b", 10, log), host)
    second.submit(Delay("c", 30, log), host)
    assert second.synchronize(host) is Wait.DONE
    assert (log, host.now) == (["c"], 30)
    assert first.synchronize(host) is Wait.DONE
    assert (log, host.now) == (["c", "a", "b"], 110)


def test_a_later_enqueue_starts_at_the_hosts_time(system: System) -> None:
    stream, host = context(system).default_stream, HostThread()
    early, late = Delay("a", 10), Delay("b", 10)
    stream.submit(early, host)
    host.now = 1000
    stream.submit(late, host)
    stream.synchronize(host)
    assert (early.start, late.start, host.now) == (0, 1000, 1010)


def test_a_device_that_ran_ahead_does_not_delay_an_idle_stream(system: System) -> None:
    ctx, main, other = context(system), HostThread(), HostThread()
    first, second = ctx.add_stream(), ctx.add_stream()
    first.submit(Delay("long", 10_000), main)
    first.synchronize(main)
    task = Delay("late", 10)
    other.now = 5
    second.submit(task, other)
    second.synchronize(other)
    assert (task.start, other.now) == (5, 15)


def test_cores_are_given_in_order_of_ready_time_then_stream(system: System) -> None:
    ctx, host = context(system), HostThread()
    streams = [ctx.add_stream() for _ in range(3)]
    everything = system.soc.cores.ai_core_count
    tasks = [Delay(str(i), 100, cores=everything) for i in range(3)]
    for i in (2, 0, 1):  # enqueued out of order at one instant
        streams[i].submit(tasks[i], host)
    for stream in streams:
        stream.synchronize(host)
    assert [t.start for t in tasks] == [0, 100, 200]


def test_failure_is_kept_until_asked_and_the_stream_goes_on(system: System) -> None:
    class Broken(Delay):
        def apply(self) -> None:
            raise TaskFailure("aicore", "it broke")

    class Surprise(Delay):
        def apply(self) -> None:
            raise ZeroDivisionError("oops")

    stream, host, log = context(system).default_stream, HostThread(), []
    stream.submit(Broken("x", 5), host)
    stream.submit(Surprise("y", 5), host)
    stream.submit(Delay("after", 5, log), host)
    assert stream.synchronize(host) is Wait.DONE
    failure = stream.take_failure()
    assert failure is not None and failure.kind == "aicore" and "it broke" in str(failure)
    assert log == ["after"] and stream.take_failure() is None


def test_timeout_is_decided_in_simulated_time(system: System) -> None:
    stream, host = context(system).default_stream, HostThread()
    stream.submit(Delay("a", 10**12), host)
    assert stream.synchronize(host, timeout=10**9) is Wait.TIMEOUT
    assert stream.synchronize(host, timeout=10**12) is Wait.DONE
    assert host.now == 10**12


def _event(ctx: Context) -> DeviceEvent:
    return DeviceEvent(ctx, 0, 0)


def _record(event: DeviceEvent, stream: Any, host: HostThread) -> Record:
    record = Record(stream.device, stream.id)
    event.bind(record)
    stream.submit(RecordTask(record), host)
    return record


def _wait(event: DeviceEvent, stream: Any, host: HostThread) -> None:
    task = WaitTask(event, event.record)
    event.waits += 1
    if event.record is None:
        event.unbound.append(task)
    stream.submit(task, host)


def test_an_event_orders_two_streams(system: System) -> None:
    ctx, host, log = context(system), HostThread(), []
    first, second = ctx.add_stream(), ctx.add_stream()
    event = _event(ctx)
    first.submit(Delay("slow", 1000, log), host)
    record = _record(event, first, host)
    _wait(event, second, host)
    after = Delay("after", 10, log)
    second.submit(after, host)
    second.synchronize(host)
    assert log == ["slow", "after"]
    assert (record.time, after.start, host.now) == (1000, 1000, 1010)


def test_an_event_orders_two_devices(system: System) -> None:
    here, there, host, log = context(system, 0), context(system, 1), HostThread(), []
    event = _event(there)
    there.default_stream.submit(Delay("far", 500, log), host)
    _record(event, there.default_stream, host)
    _wait(event, here.default_stream, host)
    here.default_stream.submit(Delay("near", 10, log), host)
    assert here.default_stream.synchronize(host) is Wait.DONE
    assert (log, host.now) == (["far", "near"], 510)
    assert not system.devices[0].foreign


def test_a_wait_before_the_record_waits_for_the_next_record(system: System) -> None:
    ctx, host = context(system), HostThread()
    first, second = ctx.add_stream(), ctx.add_stream()
    event = _event(ctx)
    _wait(event, second, host)
    after = Delay("after", 10)
    second.submit(after, host)
    host.now = 300
    _record(event, first, host)
    second.synchronize(host)
    assert after.start == 300


def test_a_wait_that_nothing_ends_is_a_deadlock_not_a_hang(system: System) -> None:
    if threading.active_count() > 1:
        pytest.skip("another thread could end it")
    ctx, host = context(system), HostThread()
    _wait(_event(ctx), ctx.default_stream, host)
    assert ctx.default_stream.synchronize(host) is Wait.DEADLOCK


def test_another_thread_can_end_a_wait(system: System) -> None:
    ctx, host, other = context(system), HostThread(), HostThread()
    first, second = ctx.add_stream(), ctx.add_stream()
    event = _event(ctx)
    _wait(event, second, host)
    other.now = 7_000
    timer = threading.Timer(0.05, lambda: _record(event, first, other))
    timer.start()
    assert second.synchronize(host) is Wait.DONE
    timer.join()
    assert host.now == 7_000


def test_a_full_queue_blocks_the_host(system: System) -> None:
    stream, host = context(system).default_stream, HostThread()
    depth = system.soc.limits.stream_depth
    for _ in range(depth):
        stream.submit(Delay("a", 10), host)
    assert host.now == 0
    stream.submit(Delay("b", 10), host)
    assert host.now == 10
    assert len(stream.queue) == depth


def test_abort_drops_what_has_not_begun(system: System) -> None:
    stream, host, log = context(system).default_stream, HostThread(), []
    for name in "abc":
        stream.submit(Delay(name, 10, log), host)
    system.scheduler.advance(system.devices[0], 5)
    stream.abort()
    stream.synchronize(host)
    assert log == ["a"] and stream.idle


def test_observers_see_records(system: System) -> None:
    seen: list[Event] = []
    system.observers.add(seen.append)
    try:
        ctx, host = context(system), HostThread()
        host.now = 40
        _record(_event(ctx), ctx.default_stream, host)
        ctx.default_stream.synchronize(host)
    finally:
        system.observers.remove(seen.append)
    assert [(e.kind, e.name, e.start, e.args["queued"]) for e in seen] == [("event", "record", 40, 40)]


Program = list[tuple[int, int, int]]


def _play(system: System, program: Program, look: list[bool]) -> list[tuple[str, int]]:
    """Run (stream, duration, cores) tasks; between them the host may look. Returns names and start times."""
    ctx, host = context(system), HostThread()
    streams = [ctx.add_stream() for _ in range(3)]
    tasks = []
    for i, (stream, duration, cores) in enumerate(program):
        task = Delay(str(i), duration, cores=cores)
        tasks.append(task)
        streams[stream].submit(task, host)
        host.now += 3
        if look[i % len(look)]:
            system.scheduler.advance(system.devices[0], host.now)
    for stream in streams:
        stream.synchronize(host)
    return [(t.name, t.start) for t in tasks]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 50), st.integers(0, 30)), min_size=1, max_size=25),
    st.lists(st.booleans(), min_size=1, max_size=5),
)
@example([(1, 9, 0), (0, 0, 0), (1, 0, 1), (0, 1, 24)], [True])  # the host looks at the time a task becomes ready
def test_looking_does_not_change_times(program: Program, look: list[bool]) -> None:
    machine = _fresh()
    assert _play(machine(), program, [False]) == _play(machine(), program, look)


def _fresh() -> Callable[[], System]:
    from ascend_sim.runtime.observe import Observers
    from ascend_sim.soc import load_soc

    return lambda: System(load_soc("Ascend910B2"), 1, Observers())
