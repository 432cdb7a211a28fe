"""A profiling session of acl.prof: records events and writes the reports when it ends."""

from __future__ import annotations

import os
from pathlib import Path

from ascend_sim.profiling.store import EventStore
from ascend_sim.runtime.system import observers, system


class Session:
    """``path`` is the directory given to `acl.prof.init`; each session writes its own directory below it. A
    child that was forked meanwhile writes nothing: the session is its parent's."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.process = os.getpid()
        self.store = EventStore()
        observers().add(self.store)

    def close(self) -> None:
        from ascend_sim.profiling import msprof, summary

        observers().remove(self.store)
        if os.getpid() != self.process:
            return
        folder = msprof.write(self.store, system().soc, self.path)
        summary.write_plain(self.store, system().soc, folder)
