"""Operators on their way to a stream, from descriptions and buffers or from a handle."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from acl import _op_dump, _op_store, _strict, errors, handles
from acl._common import caller
from acl._descs import DataBuffer, TensorDesc
from acl._op_attr import OpAttr
from acl._op_call import Prepared, bind, compute, known, prepare
from acl._rt_limits import cores_of_thread
from ascend_sim.runtime.host import host_thread
from ascend_sim.runtime.stream import Stream
from ascend_sim.runtime.tasks import OpTask


@dataclass
class OpHandle:
    """An operator prepared by create_handle. ``prepared`` is None when shapes depend on values."""

    type: str
    inputs: list[TensorDesc]
    outputs: list[TensorDesc]
    attr: dict[str, Any]
    prepared: Prepared | None


def no_wait() -> None:
    """Nothing to wait for: the shapes are asked for, not the values."""


def _waiter(stream: Stream) -> Callable[[], None]:
    def wait() -> None:
        stream.synchronize(host_thread())

    return wait


def submit(
    prepared: Prepared, inputs: list[TensorDesc], ins: list[DataBuffer], outs: list[DataBuffer], stream: Stream
) -> int:
    """Enqueue a prepared call on the memory of its buffers."""
    bound = bind(prepared, inputs, ins, outs)
    if isinstance(bound, int):
        return bound
    sources, targets = bound.addresses()
    device = stream.device

    def apply() -> None:
        compute(bound, device, prepared.outputs)
        _op_dump.executed(bound, device)

    _op_dump.called(bound.call)
    task = OpTask(bound.call, sources, targets, apply, cores=cores_of_thread(device))
    task.where = caller()
    stream.submit(task, host_thread())
    if _strict.watch is not None:
        _strict.watch.enqueued((p.block for p in bound.outputs if p is not None), stream, bound.call.type)
    return 0


def launch(
    op_type: str,
    inputs: list[TensorDesc],
    ins: list[DataBuffer],
    outputs: list[TensorDesc],
    outs: list[DataBuffer],
    attr: int,
    stream: Stream,
) -> int:
    """Prepare a call and enqueue it; shapes that were left open in ``outputs`` are filled in."""
    prepared = prepare(op_type, inputs, ins, outputs, attr, _waiter(stream))
    if isinstance(prepared, int):
        return prepared
    ret = _op_store.refusal(prepared.call)
    if ret:
        return ret
    ret = submit(prepared, inputs, ins, outs, stream)
    if ret == 0:
        for desc, spec in zip(outputs, prepared.call.outputs, strict=True):
            if any(d < 0 for d in desc.dims):
                desc.dims = list(spec.logical_shape)
    return ret


def create(op_type: str, inputs: list[TensorDesc], outputs: list[TensorDesc], attr: int) -> tuple[int, int]:
    """(handle, ret) of an operator that is prepared once and executed often."""
    ret = known(op_type)
    if ret:
        return 0, ret
    values: dict[str, Any] = {}
    if attr:
        found = handles.get(attr, OpAttr)
        if found is None:
            return 0, errors.fail(errors.INVALID_PARAM, handles.story(attr, "OpAttr", "acl.op.create_attr"))
        values = dict(found.values)
    prepared = prepare(op_type, inputs, None, outputs, attr, no_wait)
    if isinstance(prepared, int):
        return 0, prepared
    ret = _op_store.refusal(prepared.call)
    if ret:
        return 0, ret
    return handles.new(OpHandle(op_type, deepcopy(inputs), deepcopy(outputs), values, prepared)), 0
