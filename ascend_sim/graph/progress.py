"""Progress of a conversion: a bar of one line on a terminal."""

from __future__ import annotations

import shutil
from typing import TextIO

WIDTH = 24


class Progress:
    """Counts steps and shows nothing."""

    total = 0
    done = 0

    def begin(self, total: int) -> None:
        """``total`` steps follow."""
        self.total, self.done = total, 0

    def step(self, name: str) -> None:
        """The step that begins."""
        self.done += 1
        self.show(name)

    def show(self, name: str) -> None:
        """Called when a step begins."""

    def end(self) -> None:
        """The conversion is over, whatever came of it."""


class Bar(Progress):
    """``[######------]  50 % passes: formats`` on one line of a terminal, wiped out at the end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def show(self, name: str) -> None:
        share = min(max(self.done - 1, 0) / max(self.total, 1), 1.0)
        full = round(share * WIDTH)
        line = f"[{'#' * full}{'-' * (WIDTH - full)}] {share:4.0%} {name}"
        self._write(line[: shutil.get_terminal_size().columns - 1])

    def end(self) -> None:
        self._write("")

    def _write(self, line: str) -> None:
        self._stream.write(f"\r\x1b[K{line}")
        self._stream.flush()
