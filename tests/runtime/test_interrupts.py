"""Ctrl-C while the device model is being stepped: the interrupted task is dropped, everything else goes on."""

from __future__ import annotations

from typing import Any

import pytest

from ascend_sim.runtime.context import Context
from ascend_sim.runtime.host import HostThread
from ascend_sim.runtime.scheduler import Wait
from ascend_sim.runtime.system import System
from ascend_sim.runtime.tasks import Task


class Step(Task):
    """Takes 10 ps and notes its name; named ``cut`` it is interrupted at its begin or at its end."""

    def __init__(self, name: str, log: list[str], at_begin: bool = False) -> None:
        super().__init__(name)
        self.log = log
        self.at_begin = at_begin

    def begin(self, device: Any, start: int) -> int:
        if self.name == "cut" and self.at_begin:
            raise KeyboardInterrupt
        return start + 10

    def apply(self) -> None:
        if self.name == "cut":
            raise KeyboardInterrupt
        self.log.append(self.name)


@pytest.mark.parametrize("at_begin", [False, True])
@pytest.mark.parametrize("queued", [["cut"], ["cut", "b"], ["a", "cut", "b", "cut"]])
def test_an_interrupted_task_is_dropped_and_the_stream_goes_on(
    system: System, queued: list[str], at_begin: bool
) -> None:
    ctx, host, log = Context(system.devices[0], True, 0, 0), HostThread(), []
    stream, other = ctx.add_stream(), ctx.add_stream()
    for name in queued:
        stream.submit(Step(name, log, at_begin), host)
    for _ in range(queued.count("cut")):
        with pytest.raises(KeyboardInterrupt):
            stream.synchronize(host)
    assert stream.synchronize(host) is Wait.DONE
    stream.submit(Step("c", log), host)
    other.submit(Step("d", log), host)
    assert stream.synchronize(host) is Wait.DONE and other.synchronize(host) is Wait.DONE
    assert sorted(log) == sorted([*(n for n in queued if n != "cut"), "c", "d"])
    assert stream.idle and not stream.queue and stream.take_failure() is None
    assert system.devices[0].busy_streams == 0
