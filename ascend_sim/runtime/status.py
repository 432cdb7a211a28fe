"""What other processes may know of a simulation: a small file per process, written while it runs.

``ascend-sim smi`` reads these files. They lie in ``ASCEND_SIM_STATUS_DIR``, else in a folder of the user's own below
``XDG_RUNTIME_DIR`` or the folder for temporary files. The file of a finished process stays until the next one starts.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import threading
from pathlib import Path
from typing import Any

from ascend_sim.runtime.system import running

INTERVAL_S = 0.5


def folder() -> Path:
    chosen = os.environ.get("ASCEND_SIM_STATUS_DIR")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()) / f"ascend-sim-{os.getuid()}"


def snapshot(program: str, alive: bool) -> dict[str, Any] | None:
    """State of this process's machine: chip, and memory and use of every device that was touched. None: no machine."""
    machine = running()
    if machine is None:
        return None
    devices = [
        {"id": d.index, "used": d.arena.used, "peak": d.arena.peak, "aicore": d.cores.utilization(), "us": d.now / 1e6}
        for d in machine.devices.active()
    ]
    return {"pid": os.getpid(), "program": program, "alive": alive, "soc": machine.soc.name,
            "count": len(machine.devices), "devices": devices}  # fmt: skip


class Reporter:
    """Keeps this process's file up to date until `close`. Never fails: without a place to write nothing is told."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ascend-sim status", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._done.wait(INTERVAL_S):
            self._write(True)

    def close(self) -> None:
        self._done.set()
        self._thread.join()
        self._write(False)

    def _write(self, alive: bool) -> None:
        with contextlib.suppress(OSError, RuntimeError):  # RuntimeError: a device was added while we looked
            state = snapshot(self._program, alive)
            if state is None:
                return
            place = folder()
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            if place.stat().st_uid != os.getuid():
                return
            part = place / f".{os.getpid()}"
            part.write_text(json.dumps(state))
            part.replace(place / f"{os.getpid()}.json")
            if not alive:
                _forget_others(place)


def _forget_others(place: Path) -> None:
    """Files of earlier finished processes go when a later one has finished."""
    for path in place.glob("*.json"):
        if path.stem != str(os.getpid()) and not _alive(int(path.stem) if path.stem.isdigit() else -1):
            path.unlink(missing_ok=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return pid > 0


def processes() -> list[dict[str, Any]]:
    """States of running simulations by pid; when none runs, that of the last one (``alive`` False), if any."""
    states: list[tuple[float, dict[str, Any]]] = []
    with contextlib.suppress(OSError):
        for path in sorted(folder().glob("*.json")):
            with contextlib.suppress(OSError, ValueError, KeyError):
                state = json.loads(path.read_text())
                state["alive"] = bool(state["alive"]) and _alive(int(state["pid"]))
                states.append((path.stat().st_mtime, state))
    live = [state for _, state in states if state["alive"]]
    if live:
        return sorted(live, key=lambda state: int(state["pid"]))
    return [max(states, key=lambda found: found[0])[1]] if states else []
