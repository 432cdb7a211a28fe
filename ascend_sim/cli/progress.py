"""Progress of long work on stderr: share done and time left. Silent when stderr is no terminal."""

from __future__ import annotations

import importlib
import os
import sys
import time
from types import TracebackType
from typing import Any, TextIO

INTERVAL_S = 0.1
BAR = 24


def colored(stream: TextIO) -> bool:
    """Whether to use colours: on a terminal, unless ``NO_COLOR`` says not to."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class Progress:
    """``with Progress("sweep", total) as bar: bar.advance()``; drawn by rich when it is installed."""

    def __init__(self, what: str, total: int, stream: TextIO | None = None) -> None:
        self.what, self.total, self.done = what, total, 0
        self._stream = stream or sys.stderr
        self._shown = self._stream.isatty() and total > 1
        self._began = self._last = time.monotonic()
        self._rich = _rich_bar(what, total) if self._shown and colored(self._stream) else None

    def advance(self, count: int = 1) -> None:
        self.done += count
        if self._rich is not None:
            self._rich.update(0, advance=count)
        elif self._shown and time.monotonic() - self._last >= INTERVAL_S:
            self._draw()

    def _draw(self) -> None:
        self._last = time.monotonic()
        passed = self._last - self._began
        left = passed / self.done * (self.total - self.done) if self.done else 0.0
        filled = BAR * self.done // self.total
        text = f"{self.what} [{'#' * filled}{'.' * (BAR - filled)}] {self.done}/{self.total}, {clock(left)} left"
        self._stream.write(f"\r{text}\x1b[K")
        self._stream.flush()

    def __enter__(self) -> Progress:
        if self._rich is not None:
            self._rich.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._rich is not None:
            self._rich.stop()
        elif self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def clock(seconds: float) -> str:
    """``1:05`` or ``1:02:03``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _rich_bar(what: str, total: int) -> Any:
    """A started-when-entered bar of rich; None when rich is not installed."""
    try:
        progress, console = importlib.import_module("rich.progress"), importlib.import_module("rich.console")
    except ImportError:
        return None
    columns = (progress.TextColumn("{task.description}"), progress.BarColumn(), progress.MofNCompleteColumn(),
               progress.TimeRemainingColumn())  # fmt: skip
    bar = progress.Progress(*columns, console=console.Console(stderr=True), transient=True)
    bar.add_task(what, total=total)
    return bar
