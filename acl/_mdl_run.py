"""acl.mdl: executing models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

from acl import _model, _strict, errors, handles
from acl._api import api
from acl._common import caller, current, on_stream, system, task_failure
from acl._descs import DTYPE_NUMBERS, FORMAT_NUMBERS, DataBuffer, TensorDesc
from acl._mdl_desc import Dataset, dataset_of
from acl._mdl_dump import watcher
from acl._mdl_gears import variant_of
from acl._mdl_load import ready
from acl._model import SLACK, Model
from acl._rt_allocator import Allocator, allocator_of
from ascend_sim.runtime.copies import Place
from ascend_sim.runtime.host import host_thread
from ascend_sim.runtime.memory import OutOfMemory, rounded
from ascend_sim.runtime.scheduler import Wait
from ascend_sim.runtime.stream import TaskFailure
from ascend_sim.runtime.tasks import ModelTask, Step

if TYPE_CHECKING:
    from ascend_sim.graph.om.inout import IoDesc
    from ascend_sim.ops.schema import OpCall
    from ascend_sim.runtime.device import Device
    from ascend_sim.runtime.stream import Stream


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


def _bind(model: Model, dataset: Dataset, output: bool, synchronous: bool, variant: int) -> list[_Bound] | int:
    ports = model.ports(variant)[output]
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
        dims, needed = port.dims, port.size
        if output and buffer.address == 0 and synchronous:
            ret = _provide(model, buffer, needed)
            if ret:
                return ret
        elif buffer.size + SLACK < needed:
            return errors.fail(
                errors.GE_PARAM,
                f"{what} {index} ({port.name!r}): {buffer.size} B given, the model expects {needed} B = "
                f"{_shape_text(dims)} {port.dtype}.{_guess(buffer.size, needed, port)}",
                f"acl.mdl.get_{what}_size_by_index gives the size."
                if model.loaded.kind != "shape"
                else "an output buffer of address 0 and size 0 gets the memory it needs.",
            )
        place = _model.where(buffer.address, min(buffer.size, needed), f"{what} {index} ({port.name!r})", output)
        if isinstance(place, int):
            return place
        bound.append(_Bound(dims, port.dtype, place, buffer.size))
    return bound


def _describe(model: Model, dataset: Dataset, variant: int) -> None:
    """Say in the output dataset which shapes this execution gives."""
    for index, port in enumerate(model.ports(variant)[1]):
        desc = handles.get(dataset.descs.get(index, 0), TensorDesc)
        if desc is None:
            desc = TensorDesc(DTYPE_NUMBERS[port.dtype], [], FORMAT_NUMBERS.get(port.format, -1), port.name)
            dataset.descs[index] = handles.new(desc)
        desc.dims = list(port.dims)


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
    ret = ready()
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
    variant = variant_of(model, sources, context.device)
    if variant is None:
        return host_thread().last_error
    given = _bind(model, sources, False, synchronous, variant)
    if isinstance(given, int):
        return given
    wanted = _bind(model, targets, True, synchronous, variant)
    if isinstance(wanted, int):
        return wanted
    if model.loaded.kind == "shape":
        _describe(model, targets, variant)
    return model, _model_task(model, given, wanted, variant, synchronous, targets)


def _describe_one(dataset: Dataset, index: int, dtype: str, dims: Sequence[int]) -> None:
    """Say how large an output became whose size depends on values."""
    desc = handles.get(dataset.descs.get(index, 0), TensorDesc)
    if desc is None:
        desc = TensorDesc(DTYPE_NUMBERS[dtype], [], FORMAT_NUMBERS["ND"], "")
        dataset.descs[index] = handles.new(desc)
    desc.dims = list(dims)


def _model_task(
    model: Model, given: list[_Bound], wanted: list[_Bound], variant: int, synchronous: bool, targets: Dataset
) -> ModelTask:
    loaded = model.loaded
    in_addresses = [b.place.address for b in given]
    out_addresses = [b.place.address for b in wanted]
    mode = system().values

    def plan(device: Device) -> Iterable[Step]:
        return loaded.plan(device, in_addresses, out_addresses, variant)

    def compute() -> None:
        for bound in (*given, *wanted):
            if bound.place.block is not None and not bound.place.block.alive:
                raise TaskFailure("model", f"a buffer of {loaded.name!r} was freed before the model ran")
        if mode != "none":
            arrays = [_model.read(b.place, b.size, b.dims, b.dtype) for b in given]
            watch = watcher(model, variant, model.stream.id) if model.dump is not None else None
            results = loaded.run_values(arrays, variant, mode, watch)
            for index, (target, array) in enumerate(zip(wanted, results, strict=True)):
                _model.write(target.place, target.size, array)
                if array.size != prod(target.dims) or index in targets.descs:
                    dims = target.dims if array.size == prod(target.dims) else array.shape
                    _describe_one(targets, index, target.dtype, dims)

    key = (model.id, variant, *in_addresses, -1, *out_addresses)
    task = ModelTask(loaded.name, model.id, plan, compute, exclusive=synchronous, key=key)
    task.where = caller()
    task.wrote = tuple(b.place.block for b in wanted if b.place.block is not None)

    def first() -> tuple[str, OpCall, Sequence[int]] | None:
        """The first operator that touches a buffer which is gone, else the first of all."""
        gone = {b.place.address for b in (*given, *wanted) if b.place.block is not None and not b.place.block.alive}
        table = loaded.operator_addresses(in_addresses, out_addresses, variant)
        for node, addresses in table:
            if gone.intersection(addresses) or not gone:
                return node.name, node.call, addresses
        return None

    task.first = first
    loaded.explain(task, variant)
    return task


@api("acl.mdl.execute", "aclmdlExecute", "launch")
def execute(model_id: int, input_dataset: int, output_dataset: int, /) -> int:
    made = _task(model_id, input_dataset, output_dataset, True)
    if isinstance(made, int):
        return made
    model, task = made
    thread = host_thread()
    model.stream.submit(task, thread)
    if model.stream.synchronize(thread) is not Wait.DONE:
        return errors.fail(errors.RT_STREAM_SYNC_TIMEOUT, f"the stream of model {model_id} never finishes.")
    return task_failure(model.stream)


def _execute_async(model_id: int, inputs: int, outputs: int, stream: int) -> int:
    made = _task(model_id, inputs, outputs, False)
    if isinstance(made, int):
        return made
    found, ret = on_stream(stream)
    if found is None:
        return ret
    model, task = made
    allocator = allocator_of(found) if model.loaded.kind == "shape" else None
    if allocator is None:
        _submit(found, task)
        return 0
    block, ret = _borrow(allocator, model)
    if ret:
        return ret
    _submit(found, task)
    assert allocator.free is not None
    allocator.free(allocator.object, block)  # given back in the order of the stream
    return 0


def _submit(stream: Stream, task: ModelTask) -> None:
    stream.submit(task, host_thread())
    if _strict.watch is not None:
        _strict.watch.enqueued(task.wrote, stream, f"model {task.name}")


def _borrow(allocator: Allocator, model: Model) -> tuple[Any, int]:
    """A block of the program's allocator for the work area of a model, and a return code."""
    assert allocator.alloc is not None and allocator.address is not None
    size = model.loaded.work_size
    block = allocator.alloc(allocator.object, size)
    address = allocator.address(block) if block else 0
    if not isinstance(address, int) or address == 0:
        return block, errors.fail(errors.RT_MEMORY_ALLOCATION, f"the program's allocator gave no memory for {size} B.")
    place = _model.where(address, size, "memory of the program's allocator", True)
    return block, place if isinstance(place, int) else 0


@api("acl.mdl.execute_async", "aclmdlExecuteAsync", "launch")
def execute_async(model_id: int, input_dataset: int, output_dataset: int, stream: int, /) -> int:
    return _execute_async(model_id, input_dataset, output_dataset, stream)


_STREAM_TIMEOUT, _EVENT_TIMEOUT = 0, 1  # ("hicann/runtime", aclmdlExecConfigAttr)
_MS = 1_000_000_000  # ps


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
    if attr in (_STREAM_TIMEOUT, _EVENT_TIMEOUT):
        if not isinstance(value, int) or value < -1 or value == 0:
            return errors.bad("value", value, "-1 (no limit) or at least 1 ms")
    elif not 0 <= attr <= 7:
        return errors.bad("attr", attr, "0 (time-out of streams) or 1 (of events)")
    found.options[attr] = value
    return 0


@api("acl.mdl.execute_v2", "aclmdlExecuteV2", "launch")
def execute_v2(model_id: int, input_dataset: int, output_dataset: int, stream: int, exec_config: int, /) -> int:
    config = _exec_config(exec_config)
    if config is None:
        return errors.INVALID_PARAM
    timeout = config.options.get(_STREAM_TIMEOUT, -1)
    ret = _execute_async(model_id, input_dataset, output_dataset, stream)
    if ret:
        return ret
    found, ret = on_stream(stream)
    if found is None:
        return ret
    done = found.synchronize(host_thread(), None if timeout == -1 else timeout * _MS)
    if done is not Wait.DONE:
        limit = "ever" if timeout == -1 else f"within {timeout} ms"
        return errors.fail(errors.RT_STREAM_SYNC_TIMEOUT, f"stream {found.id} does not finish {limit}.")
    if _strict.watch is not None:
        _strict.watch.synchronized(found)
    return task_failure(found)
