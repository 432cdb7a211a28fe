"""acl.op: single operators.

Any operator of the registry runs, whether or not a compiled operator model of it lies in the model directory:
operators are compiled when they are called.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from acl import _names, _op_attr, errors, handles
from acl._api import api
from acl._common import caller, current, on_stream
from acl._descs import DataBuffer, TensorDesc, desc_of
from acl._op_attr import OpAttr
from acl._op_call import Prepared, bind, buffers, compute, descs, infer, known, prepare
from acl._rt_limits import cores_of_thread
from ascend_sim.runtime.host import host_thread
from ascend_sim.runtime.stream import Stream
from ascend_sim.runtime.tasks import OpTask

for _name, _value in vars(_op_attr).items():
    if getattr(_value, "acl_name", "") == f"acl.op.{_name}":
        globals()[_name] = _value


@dataclass
class _Store:
    """Where compiled operator models lie; they are looked at only to tell the program what is wrong."""

    path: str = ""
    queue_limit: int = 0


_store = _Store()


def forget_all() -> None:
    """Tests: start over."""
    _store.path, _store.queue_limit = "", 0


@dataclass
class OpHandle:
    """An operator prepared by create_handle. ``prepared`` is None when shapes depend on values."""

    type: str
    inputs: list[TensorDesc]
    outputs: list[TensorDesc]
    attr: dict[str, Any]
    prepared: Prepared | None


@api("acl.op.set_model_dir", "aclopSetModelDir", "api")
def set_model_dir(path: str, /) -> int:
    if not os.path.isdir(path):
        return errors.bad("dir", path, "a directory with compiled operator models")
    if _store.path:
        return errors.fail(errors.REPEAT_INITIALIZE, f"the model directory is {_store.path!r} already: it is set once.")
    _store.path = path
    return 0


@api("acl.op.load", "aclopLoad", "api")
def load(model_ptr: int, size: int, /) -> int:
    if model_ptr == 0 or size <= 0:
        return errors.bad("model_ptr, size", (model_ptr, size), "the address and size of a compiled operator model")
    return 0


@api("acl.op.set_max_op_queue_num", "aclopSetMaxOpQueueNum")
def set_max_op_queue_num(num: int, /) -> int:
    if num <= 0:
        return errors.bad("num", num, "at least 1")
    _store.queue_limit = num
    return 0


def _no_wait() -> None:
    """Nothing to wait for: the shapes are asked for, not the values."""


def _waiter(stream: Stream) -> Callable[[], None]:
    def wait() -> None:
        stream.synchronize(host_thread())

    return wait


def _launch(
    prepared: Prepared, inputs: list[TensorDesc], ins: list[DataBuffer], outs: list[DataBuffer], stream: Stream
) -> int:
    bound = bind(prepared, inputs, ins, outs)
    if isinstance(bound, int):
        return bound
    sources, targets = bound.addresses()
    device = stream.device
    task = OpTask(bound.call, sources, targets, lambda: compute(bound, device), cores=cores_of_thread(device))
    task.where = caller()
    stream.submit(task, host_thread())
    return 0


def _execute(
    op_type: str,
    input_descs: list[Any],
    inputs: list[Any],
    output_descs: list[Any],
    outputs: list[Any],
    attr: int,
    stream: int,
) -> int:
    found, ret = on_stream(stream)
    if found is None:
        return ret
    wanted_in, wanted_out = descs(input_descs, "input_descs"), descs(output_descs, "output_descs")
    if isinstance(wanted_in, int):
        return wanted_in
    if isinstance(wanted_out, int):
        return wanted_out
    ins, outs = buffers(inputs, len(wanted_in), "input"), buffers(outputs, len(wanted_out), "output")
    if isinstance(ins, int):
        return ins
    if isinstance(outs, int):
        return outs
    prepared = prepare(op_type, wanted_in, ins, wanted_out, attr, _waiter(found))
    if isinstance(prepared, int):
        return prepared
    ret = _launch(prepared, wanted_in, ins, outs, found)
    if ret == 0:
        _fill(wanted_out, prepared)
    return ret


def _fill(outputs: list[TensorDesc], prepared: Prepared) -> None:
    """Write inferred shapes into descriptions that left them open."""
    for desc, spec in zip(outputs, prepared.call.outputs, strict=True):
        if any(d < 0 for d in desc.dims):
            desc.dims = list(spec.logical_shape)


@api("acl.op.execute", "aclopExecute", "launch")
def execute(
    op_type: str,
    input_descs: list[int],
    inputs: list[int],
    output_descs: list[int],
    outputs: list[int],
    attr: int,
    stream: int,
    /,
) -> int:
    return _execute(op_type, input_descs, inputs, output_descs, outputs, attr, stream)


@api("acl.op.execute_v2", "aclopExecuteV2", "launch")
def execute_v2(
    op_type: str,
    input_descs: list[int],
    inputs: list[int],
    output_descs: list[int],
    outputs: list[int],
    attr: int,
    stream: int,
    /,
) -> int:
    return _execute(op_type, input_descs, inputs, output_descs, outputs, attr, stream)


# -- handles -----------------------------------------------------------------------------------------------


def _create(op_type: str, inputs: list[TensorDesc], outputs: list[TensorDesc], attr: int) -> tuple[int, int]:
    from copy import deepcopy

    ret = known(op_type)
    if ret:
        return 0, ret
    values: dict[str, Any] = {}
    if attr:
        found = handles.get(attr, OpAttr)
        if found is None:
            return 0, errors.fail(errors.INVALID_PARAM, handles.story(attr, "OpAttr", "acl.op.create_attr"))
        values = dict(found.values)
    prepared = prepare(op_type, inputs, None, outputs, attr, _no_wait)
    if isinstance(prepared, int):
        return 0, prepared
    return handles.new(OpHandle(op_type, deepcopy(inputs), deepcopy(outputs), values, prepared)), 0


@api("acl.op.create_handle", "aclopCreateHandle", "api")
def create_handle(op_type: str, input_descs: list[int], output_descs: list[int], attr: int, /) -> tuple[int, int]:
    if current() is None:
        return 0, errors.RT_CONTEXT_NULL
    wanted_in, wanted_out = descs(input_descs, "input_descs"), descs(output_descs, "output_descs")
    if isinstance(wanted_in, int):
        return 0, wanted_in
    if isinstance(wanted_out, int):
        return 0, wanted_out
    return _create(op_type, wanted_in, wanted_out, attr)


@api("acl.op.destroy_handle", "aclopDestroyHandle")
def destroy_handle(handle: int, /) -> None:
    if handles.get(handle, OpHandle) is None:
        errors.fail(errors.INVALID_PARAM, handles.story(handle, "OpHandle", "acl.op.create_handle"))
        return
    handles.drop(handle)


@api("acl.op.execute_with_handle", "aclopExecWithHandle", "launch")
def execute_with_handle(handle: int, inputs: list[int], outputs: list[int], stream: int, /) -> int:
    op = handles.get(handle, OpHandle)
    if op is None or op.prepared is None:
        return errors.fail(errors.INVALID_PARAM, handles.story(handle, "OpHandle", "acl.op.create_handle"))
    found, ret = on_stream(stream)
    if found is None:
        return ret
    ins, outs = buffers(inputs, len(op.inputs), "input"), buffers(outputs, len(op.outputs), "output")
    if isinstance(ins, int):
        return ins
    if isinstance(outs, int):
        return outs
    return _launch(op.prepared, op.inputs, ins, outs, found)


# -- cast --------------------------------------------------------------------------------------------------


def _cast_attr(dst_desc: int, truncate: int) -> int:
    desc = desc_of(dst_desc)
    return 0 if desc is None else handles.new(OpAttr({"dst_type": desc.dtype, "truncate": bool(truncate)}))


@api("acl.op.cast", "aclopCast", "launch")
def cast(src_desc: int, src_buf: int, dst_desc: int, dst_buf: int, truncate: int, stream: int, /) -> int:
    attr = _cast_attr(dst_desc, truncate)
    if not attr:
        return errors.INVALID_PARAM
    try:
        return _execute("Cast", [src_desc], [src_buf], [dst_desc], [dst_buf], attr, stream)
    finally:
        handles.drop(attr)


@api("acl.op.create_handle_for_cast", "aclopCreateHandleForCast", "api")
def create_handle_for_cast(src_desc: int, dst_desc: int, truncate: int, /) -> tuple[int, int]:
    if current() is None:
        return 0, errors.RT_CONTEXT_NULL
    source, target = desc_of(src_desc), desc_of(dst_desc)
    if source is None or target is None:
        return 0, errors.INVALID_PARAM
    attr = _cast_attr(dst_desc, truncate)
    try:
        return _create("Cast", [source], [target], attr)
    finally:
        handles.drop(attr)


# -- shapes ------------------------------------------------------------------------------------------------


@api("acl.op.infer_shape", "aclopInferShape", "api")
def infer_shape(
    op_type: str, input_descs: list[int], inputs: list[int], num_outputs: int, output_descs: list[int], attr: int, /
) -> int:
    wanted_in, wanted_out = descs(input_descs, "input_descs"), descs(output_descs, "output_descs")
    if isinstance(wanted_in, int):
        return wanted_in
    if isinstance(wanted_out, int):
        return wanted_out
    if num_outputs != len(wanted_out):
        return errors.bad("num_outputs", num_outputs, f"the number of output descriptions, {len(wanted_out)}")
    ins = buffers(inputs, len(wanted_in), "input")
    if isinstance(ins, int):
        return ins
    inferred = infer(op_type, wanted_in, ins, attr, _no_wait)
    if isinstance(inferred, int):
        return inferred
    if len(inferred[1]) != num_outputs:
        return errors.fail(errors.OP_OUTPUT_NOT_MATCH, f"{op_type} has {len(inferred[1])} outputs, not {num_outputs}.")
    for desc, spec in zip(wanted_out, inferred[1], strict=True):
        desc.dims = list(spec.logical_shape)
    return 0


@api("acl.op.update_params", "aclopUpdateParams", "api")
def update_params(op_type: str, input_descs: list[int], output_descs: list[int], attr: int, /) -> int:
    return known(op_type)


__all__ = list(_names.complete(globals(), "op"))


def __dir__() -> list[str]:
    return list(__all__)


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
