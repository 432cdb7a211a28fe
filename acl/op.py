"""acl.op: single operators.

Operators are compiled when they are called, unless the program names a directory of compiled operator models: then
those are the ones there are (`acl._op_store`).
"""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Any

from acl import _names, _op_attr, _op_custom, _op_dump, _op_store, errors, handles
from acl._api import api
from acl._common import current, on_stream, system
from acl._descs import desc_of
from acl._op_attr import OpAttr
from acl._op_call import buffers, descs, infer
from acl._op_run import OpHandle, create, launch, no_wait, submit
from acl._op_store import store
from ascend_sim.runtime.copies import BadAddress, locate

for _part in (_op_attr, _op_custom, _op_dump):
    for _name, _value in vars(_part).items():
        if getattr(_value, "acl_name", "") == f"acl.op.{_name}":
            globals()[_name] = _value


def forget_all() -> None:
    """Tests: start over."""
    _op_store.forget_all()
    _op_dump.forget_all()
    _op_custom.forget_all()


@api("acl.op.set_model_dir", "aclopSetModelDir", "api")
def set_model_dir(path: str, /) -> int:
    if not os.path.isdir(path):
        return errors.bad("dir", path, "a directory with compiled operator models")
    if store.path:
        return errors.fail(errors.REPEAT_INITIALIZE, f"the model directory is {store.path!r} already: it is set once.")
    store.path = path
    _op_store.load_folder(path)
    return 0


@api("acl.op.load", "aclopLoad", "api")
def load(model_ptr: int, size: int, /) -> int:
    from ascend_sim.graph.errors import OmError

    if model_ptr == 0 or size <= 0:
        return errors.bad("model_ptr, size", (model_ptr, size), "the address and size of a compiled operator model")
    try:
        locate(system(), model_ptr, size, False, "model_ptr")
        entry = _op_store.read(ctypes.string_at(model_ptr, size), f"memory at {model_ptr:#x}")
    except BadAddress as error:
        return errors.fail(errors.INVALID_PARAM, f"{error}.")
    except OmError as error:
        return errors.fail(errors.OP_LOAD_FAILED, f"the bytes at {model_ptr:#x} are no operator model: {error}.")
    if entry is None:
        return errors.fail(errors.OP_LOAD_FAILED, f"the model at {model_ptr:#x} is not that of a single operator.")
    store.add(entry)
    return 0


@api("acl.op.set_max_op_queue_num", "aclopSetMaxOpQueueNum")
def set_max_op_queue_num(num: int, /) -> int:
    if num <= 0:
        return errors.bad("num", num, "at least 1")
    store.queue_limit = num
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
    if _op_custom.brought(op_type):
        return _op_custom.run(op_type, input_descs, ins, output_descs, outs, attr, found)
    return launch(op_type, wanted_in, ins, wanted_out, outs, attr, found)


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


@api("acl.op.create_handle", "aclopCreateHandle", "api")
def create_handle(op_type: str, input_descs: list[int], output_descs: list[int], attr: int, /) -> tuple[int, int]:
    if current() is None:
        return 0, errors.RT_CONTEXT_NULL
    wanted_in, wanted_out = descs(input_descs, "input_descs"), descs(output_descs, "output_descs")
    if isinstance(wanted_in, int):
        return 0, wanted_in
    if isinstance(wanted_out, int):
        return 0, wanted_out
    return create(op_type, wanted_in, wanted_out, attr)


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
    return submit(op.prepared, op.inputs, ins, outs, found)


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
        return create("Cast", [source], [target], attr)
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
    inferred = infer(op_type, wanted_in, ins, attr, no_wait)
    if isinstance(inferred, int):
        return inferred
    if len(inferred[1]) != num_outputs:
        return errors.fail(errors.OP_OUTPUT_NOT_MATCH, f"{op_type} has {len(inferred[1])} outputs, not {num_outputs}.")
    for desc, spec in zip(wanted_out, inferred[1], strict=True):
        desc.dims = list(spec.logical_shape)
    return 0


__all__ = list(_names.complete(globals(), "op"))


def __dir__() -> list[str]:
    return list(__all__)


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
