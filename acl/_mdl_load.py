"""acl.mdl: loading and unloading models."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass, field
from typing import Any

from acl import _model, errors, handles
from acl._api import api
from acl._common import current, system
from acl._init import state
from acl._mdl_desc import fill_desc
from ascend_sim.runtime.copies import BadAddress, locate


def ready() -> int:
    """0, or 145001: models need acl.init."""
    if state.count:
        return 0
    return errors.fail(errors.GE_NOT_INIT, "the model executor is not initialized.", "acl.init comes first.")


def _file(path: str) -> bytes | int:
    if not os.path.exists(path):
        return errors.fail(errors.GE_MODEL_PATH, f"model file {path!r} does not exist.")
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        return errors.fail(errors.GE_MODEL_PATH, f"model file {path!r} cannot be read: {error}.")


def _memory(model_ptr: int, model_size: int) -> bytes | int:
    if model_ptr == 0:
        return errors.bad("model_ptr", 0, "the address of a model in memory")
    if model_size <= 0:
        return errors.bad("model_size", model_size, "at least 1 byte")
    try:
        locate(system(), model_ptr, model_size, False, "model_ptr")
    except BadAddress as error:
        return errors.fail(errors.INVALID_PARAM, f"{error}.")
    return ctypes.string_at(model_ptr, model_size)


@dataclass(frozen=True)
class Given:
    """Memory of the program for a model: address and size of the work area and of the weights; 0: none is given."""

    work: tuple[int, int] = (0, 0)
    weight: tuple[int, int] = (0, 0)


def _load(data: bytes | int, path: str, given: Given | None = None, priority: int = 0) -> tuple[int, int]:
    if isinstance(data, int):
        return 0, data
    context = current()
    if context is None:
        return 0, errors.RT_CONTEXT_NULL
    given = given or Given()
    for (address, size), what in ((given.work, "work_ptr"), (given.weight, "weight_ptr")):
        if address:
            place = _model.where(address, max(size, 1), what, True)
            if isinstance(place, int):
                return 0, place
    return _model.load(data, path, context, given.work, given.weight, priority)


@api("acl.mdl.load_from_file", "aclmdlLoadFromFile", "api")
def load_from_file(model_path: str, /) -> tuple[int, int]:
    ret = ready()
    return (0, ret) if ret else _load(_file(model_path), model_path)


@api("acl.mdl.load_from_mem", "aclmdlLoadFromMem", "api")
def load_from_mem(model_ptr: int, model_size: int, /) -> tuple[int, int]:
    ret = ready()
    return (0, ret) if ret else _load(_memory(model_ptr, model_size), "model in memory")


@api("acl.mdl.load_from_file_with_mem", "aclmdlLoadFromFileWithMem", "api")
def load_from_file_with_mem(
    model_path: str, work_ptr: int, work_size: int, weight_ptr: int, weight_size: int, /
) -> tuple[int, int]:
    ret = ready()
    given = Given((work_ptr, work_size), (weight_ptr, weight_size))
    return (0, ret) if ret else _load(_file(model_path), model_path, given)


@api("acl.mdl.load_from_mem_with_mem", "aclmdlLoadFromMemWithMem", "api")
def load_from_mem_with_mem(
    model_ptr: int, model_size: int, work_ptr: int, work_size: int, weight_ptr: int, weight_size: int, /
) -> tuple[int, int]:
    ret = ready()
    given = Given((work_ptr, work_size), (weight_ptr, weight_size))
    return (0, ret) if ret else _load(_memory(model_ptr, model_size), "model in memory", given)


_QUEUES = "models that take their data from queues are not simulated: acl.mdl.load_from_file loads one for datasets."


@api("acl.mdl.load_from_file_with_q", "aclmdlLoadFromFileWithQ", supported=False)
def load_from_file_with_q(
    model_path: str, inq_ptr: int, inq_num: int, outq_ptr: int, outq_num: int, /
) -> tuple[int, int]:
    return 0, errors.fail(errors.RT_FEATURE_NOT_SUPPORT, _QUEUES)


@api("acl.mdl.load_from_mem_with_q", "aclmdlLoadFromMemWithQ", supported=False)
def load_from_mem_with_q(
    model_ptr: int, model_size: int, inq_ptr: int, inq_num: int, outq_ptr: int, outq_num: int, /
) -> tuple[int, int]:
    return 0, errors.fail(errors.RT_FEATURE_NOT_SUPPORT, _QUEUES)


@dataclass
class LoadConfig:
    options: dict[int, Any] = field(default_factory=dict)


# attributes of set_config_opt and ways to load ("hicann/runtime", aclmdlConfigAttr)
_PRIORITY, _LOAD_TYPE, _PATH, _MEM, _MEM_SIZE, _WEIGHT, _WEIGHT_SIZE, _WORK, _WORK_SIZE = range(9)
_ATTRIBUTES = 17
_FILE, _FILE_WITH_MEM, _MEMORY, _MEMORY_WITH_MEM, _FILE_WITH_QUEUE, _MEMORY_WITH_QUEUE = range(1, 7)
_NEEDS = {
    _FILE: (_PATH,),
    _FILE_WITH_MEM: (_PATH, _WEIGHT, _WEIGHT_SIZE, _WORK, _WORK_SIZE),
    _MEMORY: (_MEM, _MEM_SIZE),
    _MEMORY_WITH_MEM: (_MEM, _MEM_SIZE, _WEIGHT, _WEIGHT_SIZE, _WORK, _WORK_SIZE),
}


@api("acl.mdl.create_config_handle", "aclmdlCreateConfigHandle")
def create_config_handle() -> int:
    return handles.new(LoadConfig())


@api("acl.mdl.destroy_config_handle", "aclmdlDestroyConfigHandle")
def destroy_config_handle(handle: int, /) -> int:
    if _load_config(handle) is None:
        return errors.INVALID_PARAM
    handles.drop(handle)
    return 0


def _load_config(handle: int) -> LoadConfig | None:
    found = handles.get(handle, LoadConfig)
    if found is None:
        errors.fail(errors.INVALID_PARAM, handles.story(handle, "config handle", "acl.mdl.create_config_handle"))
    return found


@api("acl.mdl.set_config_opt", "aclmdlSetConfigOpt")
def set_config_opt(handle: int, attr: int, value: object, /) -> int:
    found = _load_config(handle)
    if found is None:
        return errors.INVALID_PARAM
    if not 0 <= attr < _ATTRIBUTES:
        return errors.bad("attr", attr, f"a model configuration attribute, 0..{_ATTRIBUTES - 1}")
    kind = str if attr in (_PATH, 14) else int
    if not isinstance(value, kind):
        return errors.bad("value", value, f"{kind.__name__} for attribute {attr}")
    if attr == _PRIORITY and value not in range(8):
        return errors.bad("value", value, "a priority 0 (highest) to 7")
    if attr == _LOAD_TYPE and value not in (*_NEEDS, _FILE_WITH_QUEUE, _MEMORY_WITH_QUEUE):
        return errors.bad("value", value, "a way to load, 1 (file) to 6 (memory, with queues)")
    found.options[attr] = value
    return 0


@api("acl.mdl.load_with_config", "aclmdlLoadWithConfig", "api")
def load_with_config(handle: int, /) -> tuple[int, int]:
    ret = ready()
    if ret:
        return 0, ret
    found = _load_config(handle)
    if found is None:
        return 0, errors.INVALID_PARAM
    options = found.options
    way = options.get(_LOAD_TYPE)
    if way in (_FILE_WITH_QUEUE, _MEMORY_WITH_QUEUE):
        return 0, errors.fail(errors.RT_FEATURE_NOT_SUPPORT, _QUEUES)
    if way is None:
        return 0, errors.fail(
            errors.INVALID_PARAM,
            f"the config does not say how to load the model: attribute {_LOAD_TYPE} is missing.",
            f"acl.mdl.set_config_opt(handle, {_LOAD_TYPE}, 1) is from a file, 3 from memory.",
        )
    missing = [a for a in _NEEDS[way] if a not in options]
    if missing:
        return 0, errors.fail(
            errors.INVALID_PARAM,
            f"load type {way} needs attributes {', '.join(map(str, _NEEDS[way]))}; missing: "
            f"{', '.join(map(str, missing))}.",
            "acl.mdl.set_config_opt sets them.",
        )
    given = Given(
        (options.get(_WORK, 0), options.get(_WORK_SIZE, 0)), (options.get(_WEIGHT, 0), options.get(_WEIGHT_SIZE, 0))
    )
    priority = options.get(_PRIORITY, 0)
    if way in (_FILE, _FILE_WITH_MEM):
        return _load(_file(options[_PATH]), options[_PATH], given, priority)
    return _load(_memory(options[_MEM], options[_MEM_SIZE]), "model in memory", given, priority)


@api("acl.mdl.unload", "aclmdlUnload", "api")
def unload(model_id: int, /) -> int:
    ret = ready()
    if ret:
        return ret
    model = _model.find(model_id)
    if model is None:
        return errors.GE_MODEL_ID
    if model.bundle:
        return errors.fail(
            errors.INVALID_PARAM,
            f"model {model_id} belongs to bundle {model.bundle}.",
            "acl.mdl.bundle_unload unloads a bundle as a whole.",
        )
    _model.unload(model)
    return 0


def _sizes(data: bytes | int, path: str) -> tuple[int, int, int]:
    if isinstance(data, int):
        return 0, 0, data
    loaded = _model.parse(data, path)
    if isinstance(loaded, int):
        return 0, 0, loaded
    return loaded.work_size, loaded.weight_size, 0


@api("acl.mdl.query_size", "aclmdlQuerySize", "api")
def query_size(model_path: str, /) -> tuple[int, int, int]:
    return _sizes(_file(model_path), model_path)


@api("acl.mdl.query_size_from_mem", "aclmdlQuerySizeFromMem", "api")
def query_size_from_mem(model_ptr: int, model_size: int, /) -> tuple[int, int, int]:
    return _sizes(_memory(model_ptr, model_size), "model in memory")


@api("acl.mdl.get_desc_from_file", "aclmdlGetDescFromFile")
def get_desc_from_file(desc_ptr: int, model_path: str, /) -> int:
    data = _file(model_path)
    return data if isinstance(data, int) else fill_desc(desc_ptr, data, model_path)


@api("acl.mdl.get_desc_from_mem", "aclmdlGetDescFromMem")
def get_desc_from_mem(desc_ptr: int, model_ptr: int, model_size: int, /) -> int:
    data = _memory(model_ptr, model_size)
    return data if isinstance(data, int) else fill_desc(desc_ptr, data, "model in memory")


# -- bundles: a file with one model is a bundle of one ------------------------------------------------------

_bundles: dict[int, list[int]] = {}


def forget_all() -> None:
    """Tests: start over."""
    _bundles.clear()


def _bundle(loaded: tuple[int, int]) -> tuple[int, int]:
    model_id, ret = loaded
    if ret:
        return 0, ret
    bundle_id = max(_bundles, default=0) + 1
    _bundles[bundle_id] = [model_id]
    model = _model.find(model_id)
    if model is not None:
        model.bundle = bundle_id
    return bundle_id, 0


def _members(bundle_id: int) -> list[int] | None:
    found = _bundles.get(bundle_id)
    if found is None:
        known = ", ".join(map(str, _bundles)) or "none"
        errors.fail(errors.BUNDLE_ID, f"there is no bundle {bundle_id}; loaded bundles: {known}.")
    return found


@api("acl.mdl.bundle_load_from_file", "aclmdlBundleLoadFromFile", "api")
def bundle_load_from_file(model_path: str, /) -> tuple[int, int]:
    ret = ready()
    return (0, ret) if ret else _bundle(_load(_file(model_path), model_path))


@api("acl.mdl.bundle_load_from_mem", "aclmdlBundleLoadFromMem", "api")
def bundle_load_from_mem(model_ptr: int, model_size: int, /) -> tuple[int, int]:
    ret = ready()
    return (0, ret) if ret else _bundle(_load(_memory(model_ptr, model_size), "model in memory"))


@api("acl.mdl.bundle_unload", "aclmdlBundleUnload", "api")
def bundle_unload(bundle_id: int, /) -> int:
    members = _members(bundle_id)
    if members is None:
        return errors.BUNDLE_ID
    for model_id in members:
        model = _model.find(model_id)
        if model is not None:
            _model.unload(model)
    del _bundles[bundle_id]
    return 0


@api("acl.mdl.bundle_get_model_num", "aclmdlBundleGetModelNum")
def bundle_get_model_num(bundle_id: int, /) -> tuple[int, int]:
    members = _members(bundle_id)
    return (0, errors.BUNDLE_ID) if members is None else (len(members), 0)


@api("acl.mdl.bundle_get_model_id", "aclmdlBundleGetModelId")
def bundle_get_model_id(bundle_id: int, index: int, /) -> tuple[int, int]:
    members = _members(bundle_id)
    if members is None:
        return 0, errors.BUNDLE_ID
    if not 0 <= index < len(members):
        return 0, errors.bad("index", index, f"below {len(members)}, the number of models in the bundle")
    return members[index], 0
