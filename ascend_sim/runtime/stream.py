"""Streams: in-order queues of tasks, each a SimPy process on its device's clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from simpy.events import Event as SimEvent

from ascend_sim.runtime.host import HostThread
from ascend_sim.runtime.scheduler import Wait

if TYPE_CHECKING:
    from ascend_sim.runtime.context import Context
    from ascend_sim.runtime.device import Device
    from ascend_sim.runtime.memory import Block
    from ascend_sim.runtime.reports import Reporter
    from ascend_sim.runtime.tasks import Task


class TaskFailure(Exception):
    """A task went wrong on the device. ``kind`` is ``model``, ``aicore``, ``copy``, ``timeout`` or ``inner``; ``task``
    is the number of the task in its stream, ``thread`` and ``where`` say who submitted it."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.task = 0
        self.thread = 0
        self.where: tuple[str, int] | None = None


failure_listeners: list[Callable[[Stream, Task, TaskFailure], None]] = []  # told of every failed task


class Stream:
    """``submitted`` and ``completed`` are sequence numbers of tasks; ``free_at`` (ps) is when the last finished
    task ended; ``failure`` the first failed task since somebody asked."""

    def __init__(self, device: Device, context: Context | None, stream_id: int, priority: int, flags: int) -> None:
        self.device = device
        self.context = context
        self.id = stream_id
        self.priority = priority
        self.flags = flags
        self.attributes: dict[int, int] = {}
        self.limits: dict[int, int] = {}  # cores its operators may use, as `Device.limits`
        self.handle = 0  # what a face calls it
        self.alive = True
        self.queue: deque[Task] = deque()
        self.submitted = 0
        self.completed = 0
        self.free_at = 0
        self.failure: TaskFailure | None = None
        self.stops_on_failure = False  # drop the rest of the queue when a task fails, and what comes later
        self.stopped = False
        self.reporter: Reporter | None = None
        self.held: list[Block] = []  # memory that goes when the stream goes
        self.callbacks = 0  # callback tasks not yet handed to their thread
        self._wake: SimEvent | None = None
        self._started = False

    @property
    def idle(self) -> bool:
        return self.completed == self.submitted

    def submit(self, task: Task, thread: HostThread) -> None:
        """Enqueue at the host thread's time. A full queue blocks the host until a task ended."""
        scheduler = self.device.scheduler
        with scheduler.lock:
            depth = self.device.soc.limits.stream_depth
            if depth and len(self.queue) >= depth:
                scheduler.wait(self.device, lambda: len(self.queue) < depth, None, lambda: self.stuck(thread.ident))
                thread.join(self.free_at)
            if self.stopped:
                task.cancel(self)
                return
            self.submitted += 1
            task.sequence = self.submitted
            task.ready = thread.now
            task.thread = thread.index
            thread.last_task = task.sequence
            if not self.queue:
                self.device.busy_streams += 1
            self.queue.append(task)
            if self._wake is not None:
                self._wake.succeed()
                self._wake = None
            elif not self._started:
                self._started = True
                self.device.env.process(self._run())
            scheduler.changed.notify_all()

    def _run(self) -> Generator[SimEvent, Any, None]:
        device, env, queue = self.device, self.device.env, self.queue
        while self.alive or queue:
            if not queue:
                self._wake = env.event()
                yield self._wake
                continue
            task = queue[0]
            begin = max(task.ready, self.free_at)
            if begin > env.now:
                yield env.timeout(begin - int(env.now))
            if device.busy_streams > 1:
                yield device.turn(begin, self.id)
            try:
                self.free_at = max(self.free_at, (yield from task.run(self, begin)))
                if device.system.conditions.waiting and task.writes:
                    device.system.conditions.poke(self.free_at)
            except TaskFailure as failure:
                self._fail(task, failure)
            except Exception as error:  # a task must never take the device down
                self._fail(task, TaskFailure("inner", f"task {task.name!r} failed: {type(error).__name__}: {error}"))
            except KeyboardInterrupt as stop:  # raised where the host steps the device; the task is dropped
                device.scheduler.interrupt = stop
            if queue and queue[0] is task:  # not closed meanwhile
                queue.popleft()
                if not queue:
                    device.busy_streams -= 1
                self.completed = task.sequence

    def _fail(self, task: Task, failure: TaskFailure) -> None:
        """Note the failure; a stream that stops on failure drops what else it holds."""
        failure.task, failure.thread, failure.where = task.sequence, task.thread, task.where
        if self.failure is None:
            self.failure = failure
        self.free_at = max(self.free_at, int(self.device.env.now))
        if self.stops_on_failure:
            self.stopped = True
            while len(self.queue) > 1:
                self.queue.pop().cancel(self)
            if self.queue:
                self.queue[0].sequence = self.submitted
        for listener in failure_listeners:
            listener(self, task, failure)

    def take_failure(self) -> TaskFailure | None:
        failure = self.failure
        if not self.stopped:
            self.failure = None
        return failure

    def stuck(self, ident: int) -> bool:
        """Whether a callback holds the stream that cannot return while the thread ``ident`` waits."""
        return bool(self.queue) and self.queue[0].stuck(ident)

    def synchronize(self, thread: HostThread, timeout: int | None = None) -> Wait:
        """Block until every task enqueued so far has ended; ``timeout`` in ps."""
        goal = self.submitted
        if self.completed >= goal:
            thread.join(self.free_at)
            return Wait.DONE
        limit = None if timeout is None else thread.now + timeout
        result = self.device.scheduler.wait(
            self.device, lambda: self.completed >= goal, limit, lambda: self.stuck(thread.ident)
        )
        if result is Wait.DONE:
            thread.join(self.free_at)
        return result

    def drain(self) -> None:
        """Let everything enqueued happen, without a host thread's clock (destruction)."""
        scheduler = self.device.scheduler
        with scheduler.lock:
            scheduler.drive(self.device, lambda: self.idle)

    def abort(self) -> None:
        """Drop what has not begun; the task under way ends as it would."""
        with self.device.scheduler.lock:
            while len(self.queue) > 1:
                self.queue.pop().cancel(self)
            if self.queue:
                self.queue[0].sequence = self.submitted

    def close(self) -> None:
        with self.device.scheduler.lock:
            if not self.alive:
                return
            self.alive = False
            if self.queue:
                self.device.busy_streams -= 1
                for task in self.queue:
                    task.cancel(self)
                self.queue.clear()
                self.completed = self.submitted
            if self._wake is not None:
                self._wake.succeed()
                self._wake = None
            self.device.streams.pop(self.id, None)
            for block in self.held:
                self.device.arena.release(block)
            if self.reporter is not None:
                self.reporter.streams.discard(self)
                self.reporter = None
            if self.context is not None and self in self.context.streams:
                self.context.streams.remove(self)
