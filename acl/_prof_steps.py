"""acl.prof: marks of iterations, and marks that show in a stream."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from acl import errors, handles
from acl._api import api
from acl._common import on_stream, system
from ascend_sim.runtime.host import host_thread
from ascend_sim.runtime.observe import Event
from ascend_sim.runtime.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

    from simpy.events import Event as SimEvent

    from ascend_sim.runtime.stream import Stream

_START, _END = 0, 1
_MESSAGE = 127  # characters of a mark

_steps = itertools.count(1)


@dataclass
class StepInfo:
    number: int = 0
    start: int = -1


class MarkTask(Task):
    """A mark on the time line of a stream; ``info`` begins (or ends) an iteration there."""

    kind = "event"
    writes = False

    def __init__(self, name: str, info: StepInfo | None = None, begins: bool = False) -> None:
        super().__init__(name)
        self.info, self.begins = info, begins

    def run(self, stream: Stream, begin: int) -> Generator[SimEvent, Any, int]:
        if self.info is None:
            self.emit(stream, begin, begin, mark=True)
        elif self.begins:
            self.info.start = begin
        else:
            start = self.info.start if self.info.start >= 0 else begin
            self.emit(stream, start, begin, f"step {self.info.number}", step=self.info.number, mark=True)
        return begin
        yield  # pragma: no cover  # makes this a generator


@api("acl.prof.create_step_info", "aclprofCreateStepInfo")
def create_step_info() -> int:
    return handles.new(StepInfo())


def _info(handle: int) -> StepInfo | None:
    found = handles.get(handle, StepInfo)
    if found is None:
        errors.fail(errors.INVALID_PARAM, handles.story(handle, "StepInfo", "acl.prof.create_step_info"))
    return found


@api("acl.prof.destroy_step_info", "aclprofDestroyStepInfo")
def destroy_step_info(step_info: int, /) -> None:
    if _info(step_info) is not None:
        handles.drop(step_info)


@api("acl.prof.get_step_timestamp", "aclprofGetStepTimestamp", "api")
def get_step_timestamp(step_info: int, tag: int, stream: int, /) -> int:
    found = _info(step_info)
    if found is None:
        return errors.INVALID_PARAM
    if tag not in (_START, _END):
        return errors.bad("tag", tag, "0 (start of an iteration) or 1 (its end)")
    target, ret = on_stream(stream)
    if target is None:
        return ret
    if tag == _START:
        found.number = next(_steps)
    elif found.number == 0:
        return errors.fail(errors.INVALID_PARAM, "the iteration was not started.", "tag 0 starts one.")
    target.submit(MarkTask("step", found, tag == _START), host_thread())
    return 0


@api("acl.prof.mark_ex", "aclprofMarkEx", "api")
def mark_ex(msg: str, stream: int, /) -> int:
    if not 0 < len(msg) <= _MESSAGE:
        return errors.bad("msg", msg, f"1..{_MESSAGE} characters")
    target, ret = on_stream(stream)
    if target is None:
        return ret
    machine, thread = system(), host_thread()
    if machine.observers.active:
        machine.observers.emit(Event("host", msg, -1, -1, 0, thread.now, thread.now, thread.index, {"mark": True}))
    target.submit(MarkTask(msg), thread)
    return 0
