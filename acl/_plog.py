"""Logs of the application as CANN lays them out.

Lines are ``[LEVEL] MODULE(pid,program):time [file:line]thread text``. They go to the screen with
ASCEND_LOG_PRINT_TO_STDOUT=1 (or the older ASCEND_SLOG_PRINT_TO_STDOUT=1), else to ``debug/plog/plog-PID_TIME.log`` (and
``run/plog`` for the life of the process) below ASCEND_PROCESS_LOG_PATH or ``log`` below ASCEND_WORK_PATH. Where none of
these is set nothing is written: the home directory stays as it is. ASCEND_GLOBAL_LOG_LEVEL (0 debug to 4 none,
default 3) and ASCEND_MODULE_LOG_LEVEL (``MODULE=level:...``) choose what is kept; a file that grows beyond 20 MB is
followed by a new one, and ASCEND_HOST_LOG_FILE_NUM (10) of them stay. Source: "hicann/runtime" docs/zh/env_vars.
"""

from __future__ import annotations

import os
import sys
import threading
from datetime import datetime
from pathlib import Path
from typing import Final

from ascend_sim.runtime.host import host_thread

DEBUG, INFO, WARNING, ERROR, NONE = range(5)
_NAMES: Final = ("DEBUG", "INFO", "WARNING", "ERROR")
_LARGEST = 20 << 20  # bytes of a log file
_FILES = 10  # log files of a process that are kept

_lock = threading.Lock()
_open: dict[str, Path] = {}


def forget_all() -> None:
    """Tests: start over."""
    _open.clear()


def _number(text: str | None, default: int, most: int) -> int:
    return int(text) if text is not None and text.isdigit() and int(text) <= most else default


def level(module: str) -> int:
    """The lowest level of this module that is kept."""
    for part in os.environ.get("ASCEND_MODULE_LOG_LEVEL", "").split(":"):
        name, _, value = part.partition("=")
        if name == module and value.isdigit() and int(value) <= NONE:
            return int(value)
    return _number(os.environ.get("ASCEND_GLOBAL_LOG_LEVEL"), ERROR, NONE)


def on_screen() -> bool:
    """Whether lines are printed instead of stored."""
    newer = os.environ.get("ASCEND_LOG_PRINT_TO_STDOUT")
    chosen = newer if newer in ("0", "1") else os.environ.get("ASCEND_SLOG_PRINT_TO_STDOUT")
    return chosen == "1"


def _folder() -> Path | None:
    chosen = os.environ.get("ASCEND_PROCESS_LOG_PATH")
    if chosen:
        return Path(chosen)
    work = os.environ.get("ASCEND_WORK_PATH")
    return Path(work) / "log" if work else None


def _program() -> str:
    return os.path.basename(sys.argv[0]) or "python" if getattr(sys, "argv", None) else "python"


def write(at: int, module: str, text: str, place: tuple[str, int] = ("", 0), kind: str = "debug") -> None:
    """Keep a line of ``module`` at level ``at``; ``kind`` run is for the life of the process, whatever the level."""
    if kind == "debug" and at < level(module):
        return
    screen, folder = on_screen(), _folder()
    if at < level(module) if screen else folder is None:  # the life of the process is for files
        return
    now = datetime.now()
    stamp = f"{now:%Y-%m-%d-%H:%M:%S}.{now.microsecond // 1000:03d}.{now.microsecond % 1000:03d}"
    where = f"[{os.path.basename(place[0])}:{place[1]}]" if place[0] else "[acl:0]"
    thread = host_thread().index
    line = f"[{_NAMES[min(at, ERROR)]}] {module}({os.getpid()},{_program()}):{stamp} {where}{thread} {text}\n"
    if screen:
        sys.stdout.write(line)
        sys.stdout.flush()
        return
    assert folder is not None
    with _lock:
        try:
            with _file(folder, kind, now).open("a", encoding="utf-8") as file:
                file.write(line)
        except OSError:  # a log never stops a program
            return


def _file(folder: Path, kind: str, now: datetime) -> Path:
    """The file that is written to now."""
    place = folder / kind / "plog"
    path = _open.get(str(place))
    if path is None or not path.exists() or path.stat().st_size > _LARGEST:
        place.mkdir(parents=True, exist_ok=True)
        path = place / f"plog-{os.getpid()}_{now:%Y%m%d%H%M%S}{now.microsecond // 1000:03d}.log"
        path.touch()
        _open[str(place)] = path
        most = max(1, _number(os.environ.get("ASCEND_HOST_LOG_FILE_NUM"), _FILES, 1000))
        for old in sorted(place.glob(f"plog-{os.getpid()}_*.log"))[:-most]:
            old.unlink(missing_ok=True)
    return path
