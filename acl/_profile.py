"""A profiling session of acl.prof: records events and writes the reports when it ends."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ascend_sim.profiling.store import EventStore
from ascend_sim.runtime.system import observers, system

if TYPE_CHECKING:
    from ascend_sim.profiling.msprof import Contents


class Session:
    """``path`` is the directory given to `acl.prof.init`; each session writes its own directory below it. A
    child that was forked meanwhile writes nothing: the session is its parent's. ``contents`` says what of msprof's
    tables is written (default: all)."""

    def __init__(self, path: str, contents: Contents | None = None) -> None:
        self.path = Path(path)
        self.contents = contents
        self.process = os.getpid()
        self.store = EventStore()
        observers().add(self.store)

    def close(self) -> None:
        from ascend_sim.profiling import msprof, summary

        observers().remove(self.store)
        if os.getpid() != self.process:
            return
        folder = msprof.write(self.store, system().soc, self.path, contents=self.contents)
        summary.write_plain(self.store, system().soc, folder)
