"""Waits that only a callback could end which cannot return: 507046 or 507047 instead of a wait without end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from acl_program import Program

import acl


class Server:
    """A thread that serves the callbacks of one stream."""

    def __init__(self, stream: int) -> None:
        self.stream, self.running = stream, True
        context, _ = acl.rt.get_context()
        self.thread, _ = acl.util.start_thread(self.loop, context)
        assert acl.rt.subscribe_report(self.thread, stream) == 0

    def loop(self, context: int) -> None:
        acl.rt.set_context(context)
        while self.running:
            acl.rt.process_report(20)

    def stop(self) -> None:
        self.running = False
        acl.util.stop_thread(self.thread)


@pytest.fixture
def other() -> Iterator[None]:
    """Another living thread, which has nothing to do with the device."""
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    yield
    end.set()
    thread.join()


WAITS: dict[str, tuple[int, Callable[[int, int], Any]]] = {
    "stream": (507046, lambda stream, event: acl.rt.synchronize_stream(stream)),
    "device": (507046, lambda stream, event: acl.rt.synchronize_device()),
    "event": (507047, lambda stream, event: acl.rt.synchronize_event(event)),
    "destroy": (0, lambda stream, event: acl.rt.destroy_stream(stream)),
}


@pytest.mark.parametrize("wait", WAITS)
def test_a_callback_that_waits_for_its_own_stream(program: Program, wait: str) -> None:
    stream, event = program.stream(), program.event()
    code, call = WAITS[wait]
    server = Server(stream)
    seen: list[tuple[int, str]] = []

    def function(_: object) -> None:
        ret = call(stream, event)
        seen.append((ret, acl.get_recent_err_msg() or ""))

    assert acl.rt.launch_callback(function, 0, 1, stream) == 0
    assert acl.rt.record_event(event, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    server.stop()
    assert seen[0][0] == code
    assert not code or "nothing will bring it" in seen[0][1] or "callback cannot wait for its own" in seen[0][1]


@pytest.mark.parametrize("wait", WAITS)
def test_a_callback_of_the_thread_that_waits(program: Program, other: None, wait: str) -> None:
    """One thread subscribed itself, and waits instead of processing reports."""
    stream, event = program.stream(), program.event()
    code, call = WAITS[wait]
    ran: list[object] = []
    assert acl.rt.subscribe_report(threading.get_ident(), stream) == 0
    assert acl.rt.launch_callback(ran.append, 7, 1, stream) == 0
    assert acl.rt.record_event(event, stream) == 0
    assert call(stream, event) == code
    if wait != "destroy":
        assert acl.rt.process_report(100) == 0 and ran == [7]
        assert acl.rt.synchronize_stream(stream) == 0


@pytest.mark.parametrize("wait", WAITS)
def test_a_callback_of_a_thread_that_ended(program: Program, other: None, wait: str) -> None:
    stream, event = program.stream(), program.event()
    code, call = WAITS[wait]
    server = Server(stream)
    server.stop()
    assert acl.rt.launch_callback(print, 7, 1, stream) == 0
    assert acl.rt.record_event(event, stream) == 0
    assert call(stream, event) == code


def test_freeing_what_a_reset_freed_says_so(program: Program) -> None:
    pointer = program.empty(64)
    assert acl.rt.reset_device(0) == 0 and acl.rt.free(pointer) == 107000
    message = acl.get_recent_err_msg()
    assert message is not None and "reset" in message and "twice" not in message
