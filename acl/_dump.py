"""What is dumped and where to: the ``dump`` part of acl.json or of a file of its own, and writing it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acl import errors
from ascend_sim.runtime.host import host_thread

if TYPE_CHECKING:
    from ascend_sim.ops.schema import OpCall

_MODES = ("input", "output", "all")
_SWITCH = ("on", "off")
_DATA = ("tensor", "stats")
_LEVELS = ("op", "kernel", "all")
_SCENES = ("watcher", "lite_exception", "aic_err_brief_dump", "aic_err_norm_dump", "aic_err_detail_dump")


@dataclass(frozen=True)
class Config:
    """``models`` maps names to the operators that are dumped (empty: all); None means every model."""

    path: str
    mode: str = "output"
    data: str = "tensor"
    operators: bool = False  # single operators as well
    models: dict[str, tuple[str, ...]] | None = None
    overflow: bool = False  # only operators whose results overflow
    failures: bool = False  # only operators that fail
    watched: tuple[str, ...] = ()  # written again after each operator of ``after``
    after: tuple[str, ...] = ()


@dataclass
class State:
    """``config`` from acl.json or set_dump; ``begun`` by init_dump."""

    config: Config | None = None
    begun: bool = False
    callback: Callable[[dict[str, Any]], Any] | None = None
    counts: dict[int, int] = field(default_factory=dict)  # executions of each model


state = State()


def forget_all() -> None:
    """Tests: start over."""
    state.config, state.begun, state.callback = None, False, None
    state.counts.clear()


def _wrong(name: str, value: Any, expected: str) -> int:
    return errors.bad(f"dump {name}", value, expected, code=errors.INVALID_DUMP_CONFIG)


def parse(content: dict[str, Any]) -> Config | int:
    """The configuration of a ``dump`` object; a return code (100009) when it is wrong."""
    choices = {"dump_mode": _MODES, "dump_op_switch": _SWITCH, "dump_data": _DATA, "dump_level": _LEVELS,
               "dump_debug": _SWITCH, "dump_scene": _SCENES}  # fmt: skip
    for name, allowed in choices.items():
        value = content.get(name)
        if value not in (None, "") and value not in allowed:
            return _wrong(name, value, f"one of {', '.join(allowed)}")
    listed = content.get("dump_list", [])
    if not isinstance(listed, list) or any(not isinstance(item, dict) for item in listed):
        return _wrong("dump_list", listed, "a list of objects")
    for item in listed:
        if not isinstance(item.get("model_name") or "", str):
            return _wrong("dump_list model_name", item["model_name"], "the name of a model")
        for name in ("layer", "watcher_nodes"):
            names = item.get(name) or []
            if not isinstance(names, list) or any(not isinstance(v, str) for v in names):
                return _wrong(f"dump_list {name}", names, "a list of operator names")
    debug, scene = content.get("dump_debug") == "on", content.get("dump_scene") or ""
    single = content.get("dump_op_switch") == "on"
    watching = scene == "watcher"
    if debug and (listed or single):
        return _wrong("dump_debug", "on", "off: it does not go with dump_list or dump_op_switch")
    if scene and not watching and (listed or single):
        return _wrong("dump_scene", scene, "nothing: it does not go with dump_list or dump_op_switch")
    if watching and (debug or single):
        return _wrong("dump_scene", scene, "nothing: it does not go with dump_debug or dump_op_switch")
    path = os.environ.get("ASCEND_DUMP_PATH") or os.environ.get("ASCEND_WORK_PATH") or content.get("dump_path") or ""
    if not path and scene and not watching:
        path = "."
    if not isinstance(path, str) or not path:
        return _wrong("dump_path", content.get("dump_path"), "a directory")
    if not os.path.isdir(path) or not os.access(path, os.W_OK):
        return _wrong("dump_path", path, "a directory that exists and can be written")
    models: dict[str, tuple[str, ...]] = {}
    watched: list[str] = []
    after: list[str] = []
    for item in listed:
        layers = tuple(item.get("layer") or ())
        if watching:
            watched += item.get("watcher_nodes") or ()
            after += layers
        elif item.get("model_name"):
            models[item["model_name"]] = layers
    every = any(not item.get("model_name") for item in listed) or debug or bool(scene)
    return Config(
        path=path,
        mode=content.get("dump_mode") or "output",
        data=content.get("dump_data") or "tensor",
        operators=single or debug,
        models=None if every else models,
        overflow=debug,
        failures=bool(scene) and not watching,
        watched=tuple(watched),
        after=tuple(after),
    )


def now_us() -> int:
    """Simulated time of the calling thread, in us."""
    return host_thread().now // 1_000_000


def write(config: Config | None, folder: str, name: str, data: bytes, text: str = "") -> None:
    """Hand a dump to the program's callback, else store it; ``text`` is a table that goes beside it as csv."""
    if state.callback is not None:
        room = ctypes.create_string_buffer(data, len(data))
        chunk = {
            "file_name": f"{folder}/{name}",
            "data_buf": ctypes.addressof(room),
            "buf_len": len(data),
            "is_last_chunk": 1,
            "offset": 0,
            "flag": 0,
        }
        state.callback(chunk)
        return
    if config is None:
        return
    place = Path(config.path) / folder
    place.mkdir(parents=True, exist_ok=True)
    if config.data == "stats":
        (place / f"{name}.csv").write_text(text)
    else:
        (place / name).write_bytes(data)


Tensors = Sequence[tuple[Any, Any]]


def overflowed(inputs: Tensors, outputs: Tensors) -> bool:
    """Whether finite inputs gave infinities or NaN."""
    return all(finite(a) for _, a in inputs) and not all(finite(a) for _, a in outputs)


def finite(array: Any) -> bool:
    import numpy as np

    if array is None or array.dtype.kind not in "fV":
        return True
    return bool(np.isfinite(array.astype(np.float32) if array.dtype.itemsize < 4 else array).all())


def operator(
    config: Config, folder: str, name: str, call: OpCall, task: int, stream: int, inputs: Tensors, outputs: Tensors
) -> None:
    """Write one operator as the configuration says."""
    from acl._dump_file import content, file_name, statistics

    if config.overflow and not overflowed(inputs, outputs):
        return
    ins = list(inputs) if config.mode in ("input", "all") or config.overflow else []
    outs = list(outputs) if config.mode in ("output", "all") or config.overflow else []
    us = now_us()
    text = statistics(ins, outs) if config.data == "stats" else ""
    write(config, folder, file_name(call.type, name, task, stream, us), content(name, us, ins, outs), text)
