"""The one event record of the product: everything any profile, trace or report shows was an `Event` here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Event:
    """A span on the simulated clock.

    ``kind`` is ``kernel``, ``memcpy``, ``memset``, ``event``, ``callback``, ``model``, ``api`` (host call),
    ``host`` (host work), ``aicpu``, ``collective``, ``op`` (an operator of a framework on the host), ``step`` (an
    iteration that a framework marked) or ``memory`` (an allocation or release, without duration). Times are integer
    picoseconds since the process's simulated epoch. Events of the host have ``stream`` -1.

    ``args`` holds what the kind needs. Kernels: ``op_type``, ``call`` (`ascend_sim.ops.schema.OpCall`), ``timing``
    (`ascend_sim.engine.result.KernelTiming`, or None when ``estimated``), ``estimated`` (bool), ``model_id``,
    ``task_type``. Models: ``model_id``, ``memory`` (called, gives the bytes of the work area and what operators hold of
    it: `ascend_sim.graph.plan.lifetimes`), ``fused`` (called, gives operators that stand for several of the source:
    name, sources, bytes of inputs, outputs, weights). Copies: ``nbytes``, ``direction``. Tasks of a stream: ``queued``
    (ps when the host enqueued it). API calls: ``module``, ``ret``. Collectives: ``nbytes`` sent by this rank, ``wait``
    (ps), ``link``, ``group``, ``rank``, ``ranks`` (the members, or how many they are). Framework operators, as far as
    known: ``shapes`` (tuples), ``types``, ``stack``, ``sequence``, ``fwd_thread``, ``backward`` (bool). Steps: ``step``
    (its number). Memory: ``component`` (``PTA``, ``GE``, ``APP``, ``WORKSPACE``), ``address``, ``nbytes`` (negative:
    released) and the totals after it, ``allocated``, ``reserved``, ``active`` (B). Marks of the program (``host``):
    ``mark``, ``event`` (``marker``, ``push/pop``, ``start/end``).
    """

    kind: str
    name: str
    device: int
    stream: int
    task: int
    start: int
    end: int
    thread: int = 0
    args: dict[str, Any] = field(default_factory=dict)

    @property
    def duration(self) -> int:
        return self.end - self.start


Observer = Callable[[Event], None]


class Observers:
    """Fan-out of events to whoever listens; nothing is built when nobody does (`active` is False)."""

    def __init__(self) -> None:
        self._observers: list[Observer] = []

    @property
    def active(self) -> bool:
        return bool(self._observers)

    def add(self, observer: Observer) -> Observer:
        self._observers.append(observer)
        return observer

    def remove(self, observer: Observer) -> None:
        self._observers.remove(observer)

    def emit(self, event: Event) -> None:
        for observer in self._observers:
            observer(event)
