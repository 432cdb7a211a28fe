"""Drives the devices' discrete-event models: who may step them, how far, and how host threads wait.

Each device has its own SimPy environment with integer picoseconds, so devices that share nothing do not
influence each other's times. A device is stepped only while the scheduler's lock is held, by whichever host
thread looks at it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ascend_sim.runtime.device import Device

_RECHECK_S = 0.2  # how often a thread that waits for another thread looks whether any is left


class Wait(Enum):
    DONE = "done"
    TIMEOUT = "timeout"
    DEADLOCK = "deadlock"


class Scheduler:
    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.interrupt: KeyboardInterrupt | None = None  # came while a task ran, and belongs to who stepped it

    def _next(self, device: Device, limit: int | None) -> Device | None:
        """The device to step: the target, or one whose event it waits for; earliest next event first."""
        if not device.foreign and not device.watching:
            when = device.env.peek()
            return device if when != _INFINITY and (limit is None or when <= limit) else None
        seen, todo, best, best_when = {device.index}, [device], None, _INFINITY
        while todo:
            current = todo.pop()
            when = current.env.peek()
            if when < best_when and (limit is None or when <= limit):
                best, best_when = current, when
            others = [record.device for record in current.foreign]
            if current.watching:
                others += device.system.devices.active()
            for other in others:
                if other is not None and other.index not in seen:
                    seen.add(other.index)
                    todo.append(other)
        return best

    def advance(self, device: Device, until: int) -> None:
        """Let everything happen on ``device`` that happens before the time ``until`` (ps).

        What falls on ``until`` itself waits: the host may still submit work at this very time, and equal times go by
        stream, not by who came first.
        """
        if device.env.peek() < until:
            with self.lock:
                while (target := self._next(device, until - 1)) is not None:
                    self._step(target)

    def drive(self, device: Device, goal: Callable[[], bool], limit: int | None = None) -> bool:
        """Step until ``goal()``; False when nothing is left to happen (up to ``limit``) before that."""
        while not goal():
            target = self._next(device, limit)
            if target is None:
                return False
            self._step(target)
        return True

    def _step(self, device: Device) -> None:
        device.env.step()
        if self.interrupt is not None:
            interrupt, self.interrupt = self.interrupt, None
            raise interrupt

    def wait(
        self,
        device: Device,
        goal: Callable[[], bool],
        limit: int | None = None,
        hopeless: Callable[[], bool] | None = None,
    ) -> Wait:
        """Block the calling host thread until ``goal()``.

        ``limit`` (ps) is a time-out: decided in simulated time when the awaited work exists, else by wall clock.
        Where only another host thread could bring the goal about and none is alive, or ``hopeless()`` says that none
        will, the answer is DEADLOCK.
        """
        waited = 0.0
        with self.changed:
            while not self.drive(device, goal, limit):
                if limit is not None and device.env.peek() != _INFINITY:
                    return Wait.TIMEOUT
                if threading.active_count() <= 1 or (hopeless is not None and hopeless()):
                    return Wait.DEADLOCK if limit is None else Wait.TIMEOUT
                patience = _RECHECK_S if limit is None else min(_RECHECK_S, max(0.0, limit / 1e12 - waited))
                if limit is not None and patience == 0.0:
                    return Wait.TIMEOUT
                if not self.changed.wait(patience):
                    waited += patience
        return Wait.DONE


_INFINITY = float("inf")
