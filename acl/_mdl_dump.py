"""acl.mdl: tensors of a model's operators, written while it runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from acl import _dump, errors
from acl._api import api
from acl._dump import Config, state

if TYPE_CHECKING:
    from acl._model import Model
    from ascend_sim.graph.executor import Watch
    from ascend_sim.graph.ir import Node
    from ascend_sim.ops.schema import OpCall


def _not_begun() -> int:
    return errors.fail(errors.UNINITIALIZE, "dumping is not initialized.", "acl.mdl.init_dump comes first.")


@api("acl.mdl.init_dump", "aclmdlInitDump", "api")
def init_dump() -> int:
    from acl._mdl_load import ready

    ret = ready()
    if ret:
        return errors.fail(errors.UNINITIALIZE, "pyACL is not initialized.", "acl.init comes first.")
    if state.begun:
        return errors.fail(errors.REPEAT_INITIALIZE, "dumping is initialized already: acl.mdl.finalize_dump ends it.")
    if state.config is not None:
        return errors.fail(errors.REPEAT_INITIALIZE, "the file of acl.init has a dump section already.")
    state.begun = True
    return 0


@api("acl.mdl.set_dump", "aclmdlSetDump", "api")
def set_dump(config_path: str | None = None, /) -> int:
    if config_path is not None and not isinstance(config_path, str):
        raise TypeError(f"set_dump() argument 1: expected str, got {type(config_path).__name__}")
    if not state.begun:
        return _not_begun()
    if not config_path:
        return errors.bad("config_path", config_path, "a JSON file with a dump section")
    try:
        with open(config_path, encoding="utf-8") as file:
            content = json.load(file)
    except (OSError, UnicodeDecodeError) as error:
        return errors.fail(errors.INVALID_FILE, f"config file {config_path!r} cannot be read: {error}.")
    except (ValueError, RecursionError) as error:
        return errors.fail(errors.PARSE_FILE, f"config file {config_path!r} is not JSON: {error}.")
    section = content.get("dump") if isinstance(content, dict) else None
    if not isinstance(section, dict):
        return errors.fail(errors.INVALID_DUMP_CONFIG, f'config file {config_path!r} has no object "dump".')
    config = _dump.parse(section)
    if isinstance(config, int):
        return config
    state.config = config
    return 0


@api("acl.mdl.finalize_dump", "aclmdlFinalizeDump", "api")
def finalize_dump() -> int:
    if not state.begun:
        return _not_begun()
    state.begun, state.config = False, None
    return 0


@api("acl.mdl.dump_reg_callback", "acldumpRegCallback")
def dump_reg_callback(function: object, flag: int, /) -> int:
    if not callable(function):
        return errors.bad("fn", function, "a function")
    if flag != 0:
        return errors.bad("flag", flag, "0 (no files besides)")
    state.callback = function
    return 0


@api("acl.mdl.dump_unreg_callback", "acldumpUnregCallback")
def dump_unreg_callback() -> None:
    state.callback = None


# -- while a model runs ------------------------------------------------------------------------------------


def chosen() -> Config | None:
    """What a model that is loaded now dumps: the configuration, or everything for a callback without one."""
    if state.config is not None:
        return None if state.config.failures else state.config
    if state.begun and state.callback is not None:
        return Config(path="", mode="all", models=None)
    return None


def watcher(model: Model, variant: int, stream: int) -> Watch | None:
    """What sees the operators of one execution; None when nothing is dumped."""
    config: Config | None = model.dump
    if config is None or (config.models is not None and model.loaded.name not in config.models and not config.watched):
        return None
    layers = (config.models or {}).get(model.loaded.name, ())
    index = state.counts.get(model.id, 0)
    state.counts[model.id] = index + 1
    folder = f"{_dump.now_us()}/{model.context.device.index}/{model.loaded.name}/{model.id}/{index}"
    watched: dict[str, tuple[OpCall, list[Any], list[Any]]] = {}
    tasks = {node.name: number for number, node in enumerate(model.loaded.variant_calls(variant), 1)}

    def watch(node: Node, call: OpCall, given: Sequence[Any], results: Sequence[Any]) -> None:
        assert config is not None
        if node.name not in tasks:
            return
        inputs = [(spec, a) for spec, a in zip(call.inputs, given, strict=False) if spec is not None and a is not None]
        outputs = list(zip(call.outputs, results, strict=False))
        task = tasks[node.name]
        if not config.watched:
            if not layers or {node.name, *node.origin} & set(layers):
                _dump.operator(config, folder, node.name, call, task, stream, inputs, outputs)
            return
        if node.name in config.watched:
            watched[node.name] = (call, inputs, outputs)
        if node.name in config.watched or not config.after or node.name in config.after:
            for name, (other, ins, outs) in watched.items():
                _dump.operator(config, folder, f"{name}_after_{node.name}", other, task, stream, ins, outs)

    return watch
