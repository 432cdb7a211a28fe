"""Lets a program that times itself see the simulated clock of its host thread.

``time.time``, ``monotonic``, ``perf_counter``, ``process_time``, ``thread_time``, their ``_ns`` forms and ``sleep`` of
the module ``time`` are replaced. Python's own work takes no time; calls of acl, copies and kernels do. Modules of the
standard library that wait for threads and processes keep the real clock, and so does ``datetime``.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable

from ascend_sim.runtime.host import host_thread

PS, NS = 10**12, 10**9
# what waits by the clock of ``time`` has to keep the real one: imported before it changes
REAL = ("threading", "queue", "subprocess", "selectors", "asyncio", "multiprocessing.pool", "concurrent.futures",
        "logging", "random", "tempfile", "uuid", "sched")  # fmt: skip
_EPOCH = ("time",)  # counts from 1970, the others from the start of the simulation
_originals: dict[str, Callable[..., object]] = {}


def install() -> None:
    """Replace the clocks of the module ``time``; `uninstall` brings them back."""
    if _originals:
        return
    for name in REAL:
        importlib.import_module(name)
    started = time.time_ns()
    for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time"):
        since = started if name in _EPOCH else 0
        _replace(name, lambda since=since: (since + host_thread().now // 1000) / NS)
        _replace(f"{name}_ns", lambda since=since: since + host_thread().now // 1000)
    _replace("sleep", _sleep)


def uninstall() -> None:
    for name, function in _originals.items():
        setattr(time, name, function)
    _originals.clear()


def _replace(name: str, function: Callable[..., object]) -> None:
    _originals[name] = getattr(time, name)
    setattr(time, name, function)


def _sleep(seconds: float, /) -> None:
    """The thread's simulated clock goes on; nothing waits."""
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    host_thread().now += round(seconds * PS)
