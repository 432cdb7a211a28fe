"""Which cores the process runs on, and saving a checkpoint while the program goes on."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Sequence
from typing import Any

import torch

_cores = set(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else set()


def set_thread_affinity(core_range: Sequence[int] | Sequence[Sequence[int]] | None = None) -> None:
    """Keep this thread on the cores from ``core_range[0]`` to ``core_range[1]`` (or on several such ranges); without
    one, on those it may use now. ValueError for a range that does not exist."""
    if core_range is None:
        return
    ranges = [core_range] if core_range and isinstance(core_range[0], int) else list(core_range)
    chosen: set[int] = set()
    for item in ranges:
        if len(item) != 2 or item[0] > item[1]:  # type: ignore[arg-type, index]
            raise ValueError(f"core_range holds {item!r}; expected [first, last]")
        chosen.update(range(item[0], item[1] + 1))  # type: ignore[index]
    if not chosen & _cores:
        raise ValueError(f"core_range is {core_range!r}; there are cores {sorted(_cores)}")
    os.sched_setaffinity(0, chosen & _cores)


def reset_thread_affinity() -> None:
    """Back to the cores the process started with."""
    if _cores:
        os.sched_setaffinity(0, _cores)


def _on_cpu(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().clone()
    if isinstance(value, dict):
        return type(value)((k, _on_cpu(v)) for k, v in value.items())
    if isinstance(value, list | tuple):
        return type(value)(_on_cpu(v) for v in value)
    return value


def save_async(obj: Any, f: Any, pickle_module: Any = pickle, pickle_protocol: int = 2,
               _use_new_zipfile_serialization: bool = True, _disable_byteorder_record: bool = False,
               model: Any = None) -> None:  # fmt: skip
    """`torch.save` in another thread: values are those of now, ``model`` may go on training."""
    kept = _on_cpu(obj)
    options = {"_use_new_zipfile_serialization": _use_new_zipfile_serialization}
    threading.Thread(target=torch.save, args=(kept, f, pickle_module, pickle_protocol), kwargs=options).start()
