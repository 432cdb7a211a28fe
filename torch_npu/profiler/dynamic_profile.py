"""Profiling that a file switches on while a training runs: ``init(path)``, then ``step()`` once a step.

``path`` is a directory with ``profiler_config.json``; whenever that file changes, the steps it names are profiled.
"""

from __future__ import annotations

import json
import os
from typing import Any

from torch_npu.profiler.profiler import profile, tensorboard_trace_handler

_DEFAULT = {"activities": ["CPU", "NPU"], "prof_dir": "./", "start_step": 0, "active": 1, "record_shapes": False,
            "profile_memory": False, "with_stack": False, "with_flops": False, "with_modules": False}  # fmt: skip
_state: dict[str, Any] = {"file": None, "seen": None, "step": 0, "profile": None, "until": 0, "wanted": None}


def init(path: str) -> None:
    """Watch ``profiler_config.json`` in the directory ``path`` (made with defaults when it is not there)."""
    os.makedirs(path, exist_ok=True)
    file = os.path.join(path, "profiler_config.json")
    if not os.path.exists(file):
        with open(file, "w", encoding="utf-8") as out:
            json.dump(_DEFAULT, out, indent=4)
    _state.update(file=file, seen=_mark(file), step=0, wanted=None)


def start(config_path: str | None = None) -> None:
    """Profile from the next step on, as the file says."""
    _state["wanted"] = _read(config_path or _state["file"])


def set_state(state_step: dict[str, Any]) -> None:
    """Continue at the step of a checkpoint: ``{"cur_step": n}``."""
    _state["step"] = int(state_step.get("cur_step", _state["step"]))


def step() -> None:
    """The next step begins."""
    _state["step"] += 1
    if _state["profile"] is not None:
        _state["profile"].step()
        if _state["step"] >= _state["until"]:
            _state["profile"].stop()
            _state["profile"] = None
    file = _state["file"]
    if file is not None and _mark(file) != _state["seen"]:
        _state.update(seen=_mark(file), wanted=_read(file))
    wanted = _state["wanted"]
    if wanted is not None and _state["profile"] is None and _state["step"] >= wanted["start_step"]:
        _state["wanted"] = None
        flags = {k: bool(wanted[k]) for k in ("record_shapes", "profile_memory", "with_stack", "with_flops")}
        made = profile(on_trace_ready=tensorboard_trace_handler(str(wanted["prof_dir"])), **flags)
        made.start()
        _state.update(profile=made, until=_state["step"] + int(wanted["active"]))


def _mark(file: str) -> tuple[int, int]:
    found = os.stat(file)
    return found.st_mtime_ns, found.st_size


def _read(file: str | None) -> dict[str, Any]:
    if file is None:
        return dict(_DEFAULT)
    with open(file, encoding="utf-8") as given:
        return {**_DEFAULT, **json.load(given)}
