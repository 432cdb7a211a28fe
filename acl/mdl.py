"""acl.mdl: loading and executing models."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

from acl import _mdl_desc, _model, _names, errors, handles
from acl._api import api
from acl._common import current, on_stream, system, task_failure
from acl._descs import DTYPE_NUMBERS, DTYPES, DataBuffer
from acl._init import state
from acl._mdl_desc import Dataset, dataset_of, fill_desc
from acl._model import SLACK, Model
from ascend_sim.runtime.copies import BadAddress, Place, locate
from ascend_sim.runtime.host import host_thread
from ascend_sim.runtime.memory import OutOfMemory, rounded
from ascend_sim.runtime.scheduler import Wait
from ascend_sim.runtime.stream import TaskFailure
from ascend_sim.runtime.tasks import ModelTask, Step

if TYPE_CHECKING:
    from ascend_sim.graph.om.inout import IoDesc
    from ascend_sim.runtime.device import Device

for _name, _value in vars(_mdl_desc).items():
    if getattr(_value, "acl_name", "") == f"acl.mdl.{_name}":
        globals()[_name] = _value


def _ready() -> int:
    """Models need acl.init."""
    if state.count:
        return 0
    return errors.fail(errors.GE_NOT_INIT, "the model executor is not initialized.", "acl.init comes first.")


# -- loading -----------------------------------------------------------------------------------------------


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


def _load(data: bytes | int, path: str) -> tuple[int, int]:
    if isinstance(data, int):
        return 0, data
    context = current()
    if context is None:
        return 0, errors.RT_CONTEXT_NULL
    return _model.load(data, path, context)


@api("acl.mdl.load_from_file", "aclmdlLoadFromFile", "api")
def load_from_file(model_path: str, /) -> tuple[int, int]:
    ret = _ready()
    return (0, ret) if ret else _load(_file(model_path), model_path)


@api("acl.mdl.load_from_mem", "aclmdlLoadFromMem", "api")
def load_from_mem(model_ptr: int, model_size: int, /) -> tuple[int, int]:
    ret = _ready()
    return (0, ret) if ret else _load(_memory(model_ptr, model_size), "model in memory")


@api("acl.mdl.load_from_file_with_mem", "aclmdlLoadFromFileWithMem", "api")
def load_from_file_with_mem(
    model_path: str, work_ptr: int, work_size: int, weight_ptr: int, weight_size: int, /
) -> tuple[int, int]:
    ret = _ready()
    return (0, ret) if ret else _load(_file(model_path), model_path)


@api("acl.mdl.load_from_mem_with_mem", "aclmdlLoadFromMemWithMem", "api")
def load_from_mem_with_mem(  # noqa: PLR0917
    model_ptr: int, model_size: int, work_ptr: int, work_size: int, weight_ptr: int, weight_size: int, /
) -> tuple[int, int]:
    ret = _ready()
    return (0, ret) if ret else _load(_memory(model_ptr, model_size), "model in memory")


@dataclass
class LoadConfig:
    options: dict[int, Any] = field(default_factory=dict)


# attributes of set_config_opt ("hicann/runtime", aclmdlConfigAttr)
_LOAD_TYPE, _PATH, _MEM, _MEM_SIZE = 1, 2, 3, 4
_FROM_FILE = (1, 2, 5)  # load types whose model is a file; 3, 4 and 6 are in memory


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
    if attr < 0:
        return errors.bad("attr", attr, "a model configuration attribute, at least 0")
    found.options[attr] = value
    return 0


@api("acl.mdl.load_with_config", "aclmdlLoadWithConfig", "api")
def load_with_config(handle: int, /) -> tuple[int, int]:
    ret = _ready()
    if ret:
        return 0, ret
    found = _load_config(handle)
    if found is None:
        return 0, errors.INVALID_PARAM
    options = found.options
    path, pointer, size = options.get(_PATH), options.get(_MEM), options.get(_MEM_SIZE)
    if isinstance(path, str):
        return _load(_file(path), path)
    if isinstance(pointer, int) and isinstance(size, int):
        return _load(_memory(pointer, size), "model in memory")
    return 0, errors.fail(
        errors.INVALID_PARAM,
        f"the config names no model: load type {options.get(_LOAD_TYPE)!r} needs attribute {_PATH} (path) "
        f"or {_MEM} and {_MEM_SIZE} (address and size).",
        "acl.mdl.set_config_opt sets them.",
    )


@api("acl.mdl.unload", "aclmdlUnload", "api")
def unload(model_id: int, /) -> int:
    ret = _ready()
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
    ret = _ready()
    return (0, ret) if ret else _bundle(_load(_file(model_path), model_path))


@api("acl.mdl.bundle_load_from_mem", "aclmdlBundleLoadFromMem", "api")
def bundle_load_from_mem(model_ptr: int, model_size: int, /) -> tuple[int, int]:
    ret = _ready()
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


# -- execution ---------------------------------------------------------------------------------------------


@dataclass
class _Bound:
    """A port of the model, in the shape of this execution, with the memory that the program gave for it."""

    dims: tuple[int, ...]
    dtype: str
    place: Place
    size: int


def _shape_text(dims: Sequence[int]) -> str:
    return "x".join(map(str, dims)) or "scalar"


def _guess(size: int, needed: int, port: IoDesc) -> str:
    """What a wrong size could be: another batch or another type."""
    if port.dims and needed and port.dims[0] > 0:
        row = needed // port.dims[0]
        if row and size and size % row == 0:
            return f" {size} B would be {_shape_text((size // row, *port.dims[1:]))} {port.dtype}: the batch differs."
    for factor, text in ((2, "twice"), (4, "four times")):
        if size * factor == needed:
            return f" The model wants {text} as much: the data type or the batch differs."
    return ""


def _variant(model: Model, dataset: Dataset) -> tuple[int, int] | int:
    """(index of the compiled variant, batch in place of -1) that this execution runs."""
    gears = model.loaded.dynamic_batch
    if not gears:
        return 0, 0
    chosen = [v for v in dataset.dynamic.values() if len(v) == 1]
    if not chosen:
        return errors.fail(
            errors.GE_PARAM,
            f"model {model.id} has batch gears {', '.join(map(str, gears))}, but none was chosen for this dataset.",
            "acl.mdl.set_dynamic_batch_size chooses one.",
        )
    return gears.index(chosen[-1][0]), chosen[-1][0]


def _bind(model: Model, dataset: Dataset, output: bool, synchronous: bool, batch: int) -> list[_Bound] | int:
    ports = model.outputs if output else model.inputs
    what = "output" if output else "input"
    if len(dataset.buffers) != len(ports):
        listed = "; ".join(f"{p.name} {_shape_text(p.dims)} {p.dtype} {p.size} B" for p in ports)
        return errors.fail(
            errors.GE_PARAM,
            f"the {what} dataset holds {len(dataset.buffers)} buffers, model {model.id} has {len(ports)} {what}s: "
            f"{listed}.",
            "a buffer of an earlier run may still be in the dataset." if len(dataset.buffers) > len(ports) else "",
        )
    bound = []
    for index, (handle, port) in enumerate(zip(dataset.buffers, ports, strict=True)):
        buffer = handles.get(handle, DataBuffer)
        if buffer is None:
            return errors.fail(errors.INVALID_PARAM, handles.story(handle, "DataBuffer", "acl.create_data_buffer"))
        dims = tuple(batch if d == -1 else d for d in port.dims)
        needed = port.size if dims == port.dims else _nbytes(dims, port.dtype)
        if output and buffer.address == 0 and synchronous:
            ret = _provide(model, buffer, needed)
            if ret:
                return ret
        elif buffer.size + SLACK < needed:
            return errors.fail(
                errors.GE_PARAM,
                f"{what} {index} ({port.name!r}): {buffer.size} B given, the model expects {needed} B = "
                f"{_shape_text(dims)} {port.dtype}.{_guess(buffer.size, needed, port)}",
                f"acl.mdl.get_{what}_size_by_index gives the size.",
            )
        place = _model.where(buffer.address, min(buffer.size, needed), f"{what} {index} ({port.name!r})", output)
        if isinstance(place, int):
            return place
        bound.append(_Bound(dims, port.dtype, place, buffer.size))
    return bound


def _nbytes(dims: Sequence[int], dtype: str) -> int:
    return (prod(dims) * DTYPES[DTYPE_NUMBERS[dtype]][1] + 7) // 8


def _provide(model: Model, buffer: DataBuffer, size: int) -> int:
    """Allocate an output that the program left to the executor; the program frees it."""
    device = model.context.device
    try:
        block = device.arena.allocate(size, rounded(size, 0), "acl.mdl.execute (output)")
    except OutOfMemory as error:
        return errors.fail(errors.RT_MEMORY_ALLOCATION, f"{error}.")
    buffer.address, buffer.size = block.address, size
    return 0


def _task(model_id: int, inputs: int, outputs: int, synchronous: bool) -> tuple[Model, ModelTask] | int:
    ret = _ready()
    if ret:
        return ret
    model = _model.find(model_id)
    if model is None:
        return errors.GE_MODEL_ID
    sources, targets = dataset_of(inputs), dataset_of(outputs)
    if sources is None or targets is None:
        return errors.INVALID_PARAM
    context = current()
    if context is None:
        return errors.RT_CONTEXT_NULL
    if model.context is not context:
        return errors.fail(
            errors.RT_MODEL_CONTEXT,
            f"model {model_id} was loaded in context {model.context.handle:#x} on device {model.context.device.index}; "
            f"the current context is {context.handle:#x} on device {context.device.index}.",
            "acl.rt.set_context changes it.",
        )
    if not model.loaded.executable:
        return errors.fail(
            errors.RT_FEATURE_NOT_SUPPORT,
            f"{model.path!r} was made by another converter: its kernels run on hardware only. Convert it with this "
            "simulator's atc.",
        )
    chosen = _variant(model, sources)
    if isinstance(chosen, int):
        return chosen
    variant, batch = chosen
    given = _bind(model, sources, False, synchronous, batch)
    if isinstance(given, int):
        return given
    wanted = _bind(model, targets, True, synchronous, batch)
    if isinstance(wanted, int):
        return wanted
    return model, _model_task(model, given, wanted, variant, synchronous)


def _model_task(model: Model, given: list[_Bound], wanted: list[_Bound], variant: int, synchronous: bool) -> ModelTask:
    loaded = model.loaded
    in_addresses = [b.place.address for b in given]
    out_addresses = [b.place.address for b in wanted]
    values = system().values != "none"

    def plan(device: Device) -> Iterable[Step]:
        return loaded.plan(device, in_addresses, out_addresses, variant)

    def compute() -> None:
        for bound in (*given, *wanted):
            if bound.place.block is not None and not bound.place.block.alive:
                raise TaskFailure("model", f"a buffer of {loaded.name!r} was freed before the model ran")
        if values:
            arrays = [_model.read(b.place, b.size, b.dims, b.dtype) for b in given]
            for target, array in zip(wanted, loaded.run_values(arrays, variant), strict=True):
                _model.write(target.place, target.size, array)

    return ModelTask(loaded.name, model.id, plan, compute, exclusive=synchronous)


@api("acl.mdl.execute", "aclmdlExecute", "launch")
def execute(model_id: int, input_dataset: int, output_dataset: int, /) -> int:
    made = _task(model_id, input_dataset, output_dataset, True)
    if isinstance(made, int):
        return made
    model, task = made
    thread = host_thread()
    model.stream.submit(task, thread)
    model.stream.synchronize(thread)
    return task_failure(model.stream)


def _execute_async(model_id: int, inputs: int, outputs: int, stream: int) -> int:
    made = _task(model_id, inputs, outputs, False)
    if isinstance(made, int):
        return made
    found, ret = on_stream(stream)
    if found is None:
        return ret
    found.submit(made[1], host_thread())
    return 0


@api("acl.mdl.execute_async", "aclmdlExecuteAsync", "launch")
def execute_async(model_id: int, input_dataset: int, output_dataset: int, stream: int, /) -> int:
    return _execute_async(model_id, input_dataset, output_dataset, stream)


@dataclass
class ExecConfig:
    options: dict[int, Any] = field(default_factory=dict)


@api("acl.mdl.create_exec_config_handle", "aclmdlCreateExecConfigHandle")
def create_exec_config_handle() -> int:
    return handles.new(ExecConfig())


def _exec_config(handle: int) -> ExecConfig | None:
    found = handles.get(handle, ExecConfig)
    if found is None:
        errors.fail(errors.INVALID_PARAM, handles.story(handle, "config", "acl.mdl.create_exec_config_handle"))
    return found


@api("acl.mdl.destroy_exec_config_handle", "aclmdlDestroyExecConfigHandle")
def destroy_exec_config_handle(handle: int, /) -> int:
    if _exec_config(handle) is None:
        return errors.INVALID_PARAM
    handles.drop(handle)
    return 0


@api("acl.mdl.set_exec_config_opt", "aclmdlSetExecConfigOpt")
def set_exec_config_opt(handle: int, attr: int, value: object, /) -> int:
    found = _exec_config(handle)
    if found is None:
        return errors.INVALID_PARAM
    found.options[attr] = value
    return 0


@api("acl.mdl.execute_v2", "aclmdlExecuteV2", "launch")
def execute_v2(model_id: int, input_dataset: int, output_dataset: int, stream: int, exec_config: int, /) -> int:
    if _exec_config(exec_config) is None:
        return errors.INVALID_PARAM
    ret = _execute_async(model_id, input_dataset, output_dataset, stream)
    if ret:
        return ret
    found, ret = on_stream(stream)
    if found is None:
        return ret
    if found.synchronize(host_thread()) is not Wait.DONE:
        return errors.fail(errors.RT_STREAM_SYNC_TIMEOUT, f"stream {found.id} never finishes.")
    return task_failure(found)


# -- gears of dynamic models -------------------------------------------------------------------------------


def _gear(model_id: int, dataset: int, index: int) -> tuple[Model, Dataset] | int:
    found = dataset_of(dataset)
    if found is None:
        return errors.INVALID_PARAM
    model = _model.find(model_id)
    if model is None:
        return errors.GE_MODEL_ID
    if not 0 <= index < len(found.buffers):
        return errors.bad("index", index, f"below {len(found.buffers)}, the number of buffers in the dataset")
    return model, found


def _choose(made: tuple[Model, Dataset] | int, index: int, kind: str, value: list[int]) -> int:
    if isinstance(made, int):
        return made
    model, dataset = made
    gears = [list(g) if isinstance(g, list | tuple) else [g] for g in getattr(model.loaded, kind, ()) or ()]
    if value not in gears:
        listed = ", ".join(map(str, gears)) or "none: it was converted with a fixed shape"
        return errors.fail(errors.GE_BATCH_NAME, f"{value} is no gear of model {model.id}; its gears: {listed}.")
    dataset.dynamic[index] = value
    return 0


@api("acl.mdl.set_dynamic_batch_size", "aclmdlSetDynamicBatchSize")
def set_dynamic_batch_size(model_id: int, dataset: int, index: int, batch: int, /) -> int:
    if batch == 0:
        return errors.bad("batch", batch, "at least 1")
    return _choose(_gear(model_id, dataset, index), index, "dynamic_batch", [batch])


@api("acl.mdl.set_dynamic_hw_size", "aclmdlSetDynamicHWSize")
def set_dynamic_hw_size(model_id: int, dataset: int, index: int, height: int, width: int, /) -> int:
    if height == 0 or width == 0:
        return errors.bad("height, width", (height, width), "both at least 1")
    return _choose(_gear(model_id, dataset, index), index, "dynamic_hw", [height, width])


@api("acl.mdl.set_input_dynamic_dims", "aclmdlSetInputDynamicDims")
def set_input_dynamic_dims(model_id: int, dataset: int, index: int, dims: dict[str, Any], /) -> int:
    count, values = dims.get("dimCount"), dims.get("dims")
    if not isinstance(count, int) or not isinstance(values, list):
        return errors.bad("dims", dims, 'a dict with "dimCount" and "dims"')
    return _choose(_gear(model_id, dataset, index), index, "dynamic_dims", list(values[:count]))


__all__ = list(_names.complete(globals(), "mdl"))


def __dir__() -> list[str]:
    return list(__all__)


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
