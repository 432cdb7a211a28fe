"""Other Python threads run while a call waits: the calls that release the interpreter lock in pyACL."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import acl


class Counter:
    """A plain Python thread that counts as long as it gets to run."""

    def __init__(self) -> None:
        self.value = 0
        self._running = True
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while self._running:
            self.value += 1
            time.sleep(0)

    def stop(self) -> None:
        self._running = False
        self._thread.join()


class Slow:
    """A stream with a blocking callback that takes ``seconds`` in a thread of its own."""

    def __init__(self, seconds: float = 0.15) -> None:
        context, _ = acl.rt.get_context()
        self.stream, ret = acl.rt.create_stream()
        assert ret == 0
        self._running = True
        self.thread, ret = acl.util.start_thread(self._listen, context)
        assert ret == 0
        assert acl.rt.subscribe_report(self.thread, self.stream) == 0
        assert acl.rt.launch_callback(lambda _: time.sleep(seconds), None, 1, self.stream) == 0

    def _listen(self, context: int) -> None:
        assert acl.rt.set_context(context) == 0
        while self._running:
            acl.rt.process_report(10)

    def stop(self) -> None:
        self._running = False
        acl.util.stop_thread(self.thread)


@pytest.fixture
def counter(device: int) -> Iterator[Counter]:
    counter = Counter()
    yield counter
    counter.stop()


WAITS: dict[str, Callable[[Slow, Any], int]] = {
    "synchronize_stream": lambda slow, _: acl.rt.synchronize_stream(slow.stream),
    "synchronize_stream_with_timeout": lambda slow, _: acl.rt.synchronize_stream_with_timeout(slow.stream, 60_000),
    "synchronize_device": lambda *_: acl.rt.synchronize_device(),
    "synchronize_event": lambda _, event: acl.rt.synchronize_event(event),
}


@pytest.mark.parametrize("name", sorted(WAITS))
def test_waiting_lets_other_threads_run(counter: Counter, name: str) -> None:
    slow = Slow()
    event, ret = acl.rt.create_event()
    assert ret == 0 and acl.rt.record_event(event, slow.stream) == 0
    before, start = counter.value, time.monotonic()
    assert WAITS[name](slow, event) == 0
    assert time.monotonic() - start > 0.1  # it really waited for the callback
    assert counter.value - before > 20
    slow.stop()


def test_process_report_and_stop_thread_let_other_threads_run(counter: Counter) -> None:
    stream, ret = acl.rt.create_stream()
    assert ret == 0
    assert acl.rt.subscribe_report(threading.get_ident(), stream) == 0
    before = counter.value
    assert acl.rt.process_report(100) == 507012
    assert counter.value - before > 20
    thread, ret = acl.util.start_thread(lambda _: time.sleep(0.1), 0)
    assert ret == 0
    before = counter.value
    acl.util.stop_thread(thread)
    assert counter.value - before > 20
