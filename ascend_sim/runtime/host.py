"""Host threads: each has its own simulated clock and its own current context."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ascend_sim.runtime.context import Context
    from ascend_sim.runtime.stream import Stream

_MESSAGES = 64  # kept per thread until somebody reads them
_index = itertools.count()


class HostThread:
    """State of one host thread: ``now`` is its simulated time in ps, ``context`` its current context,
    ``messages`` what went wrong (newest first), ``index`` a number in order of first use, ``call`` the API
    function it is in, ``last_error`` and ``last_task`` the latest code and task number."""

    __slots__ = ("call", "context", "ident", "index", "last_error", "last_task", "limited_by", "messages", "now")

    def __init__(self) -> None:
        self.now = 0
        self.call = ""
        self.context: Context | None = None
        self.messages: deque[str] = deque(maxlen=_MESSAGES)
        self.ident = threading.get_ident()
        self.index = next(_index)
        self.last_error = 0
        self.last_task = 0
        self.limited_by: Stream | None = None  # whose limits of cores operators of this thread keep

    def join(self, time: int) -> None:
        """Something that happened at ``time`` (ps) is known to this thread from now on."""
        if time > self.now:  # noqa: PLR1730  # faster than max() in the hot path
            self.now = time


class _Local(threading.local):
    def __init__(self) -> None:
        self.thread = HostThread()


_local = _Local()


def host_thread() -> HostThread:
    """The state of the calling thread."""
    return _local.thread
