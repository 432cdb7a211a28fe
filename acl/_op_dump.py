"""acl.op: what is written about single operators: their arguments (start_dump_args) and their tensors (acl.json)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acl import _dump, errors
from acl._api import api

if TYPE_CHECKING:
    from acl._op_call import Bound
    from ascend_sim.ops.schema import OpCall, TensorSpec
    from ascend_sim.runtime.device import Device
    from ascend_sim.runtime.stream import Stream
    from ascend_sim.runtime.tasks import Task

_AICORE_ARGS = 1  # the only kind of information there is


class _Args:
    """Operators called since start_dump_args, each once per shape."""

    def __init__(self) -> None:
        self.path = ""
        self.calls: dict[OpCall, int] = {}


_args = _Args()
_counts: dict[str, int] = {}


def forget_all() -> None:
    """Tests: start over."""
    _args.path = ""
    _args.calls.clear()
    _counts.clear()


@api("acl.op.start_dump_args", "aclopStartDumpArgs", "api")
def start_dump_args(dump_type: int, path: str, /) -> int:
    if dump_type != _AICORE_ARGS:
        return errors.bad("dump_type", dump_type, f"{_AICORE_ARGS} (arguments of operators)")
    if not path:
        return errors.bad("path", path, "a directory")
    if _args.path:
        return errors.fail(errors.DUMP_ALREADY_RUN, f"arguments are collected for {_args.path!r} already.")
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        return errors.fail(errors.INVALID_PARAM, f"directory {path!r} cannot be made: {error}.")
    _args.path = path
    _args.calls.clear()
    return 0


@api("acl.op.stop_dump_args", "aclopStopDumpArgs", "api")
def stop_dump_args(dump_type: int, /) -> int:
    if dump_type != _AICORE_ARGS:
        return errors.bad("dump_type", dump_type, f"{_AICORE_ARGS} (arguments of operators)")
    if not _args.path:
        return errors.fail(errors.DUMP_NOT_RUN, "nothing is collected.", "acl.op.start_dump_args begins it.")
    folder, _args.path = Path(_args.path), ""
    for index, (call, count) in enumerate(_args.calls.items()):
        (folder / f"{call.type}_{index}.json").write_text(json.dumps(_described(call, count), indent=2, default=str))
    _args.calls.clear()
    return 0


def _tensor(spec: TensorSpec | None) -> dict[str, Any]:
    if spec is None:
        return {"data_type": "UNDEFINED", "format": "RESERVED"}
    return {
        "format": spec.format,
        "ori_format": spec.origin_format or spec.format,
        "data_type": spec.dtype,
        "shape": list(spec.shape),
        "ori_shape": list(spec.logical_shape),
    }


def _described(call: OpCall, count: int) -> dict[str, Any]:
    return {
        "op": call.type,
        "count": count,
        "inputs": [_tensor(s) for s in call.inputs],
        "outputs": [_tensor(s) for s in call.outputs],
        "attrs": dict(call.attrs),
    }


def called(call: OpCall) -> None:
    """Note an operator that is enqueued."""
    if _args.path:
        _args.calls[call] = _args.calls.get(call, 0) + 1


def executed(bound: Bound, device: Device) -> None:
    """Write the tensors of an operator that ran, where the configuration wants single operators."""
    config = _dump.state.config
    if config is None or not config.operators:
        return
    from acl import _model
    from ascend_sim.graph.storage import from_storage

    def tensors(specs: Any, places: Any) -> list[tuple[Any, Any]]:
        found = []
        for spec, place in zip(specs, places, strict=True):
            if spec is not None and place is not None:
                found.append((spec, from_storage(_model.view(place, spec.nbytes).data, spec)))
        return found

    call = bound.call
    index = _counts[call.type] = _counts.get(call.type, 0) + 1
    name = f"{call.type}_{index}"
    folder = f"{_dump.now_us()}/{device.index}"
    _dump.operator(
        config, folder, name, call, index, 0, tensors(call.inputs, bound.inputs), tensors(call.outputs, bound.outputs)
    )


def failed(config: _dump.Config, stream: Stream, task: Task) -> None:
    """Write the tensors of an operator that failed; those whose memory is gone stay out."""
    import numpy as np

    from acl import _dump_file
    from ascend_sim.graph.storage import from_storage

    operator = task.operator()
    if operator is None:
        return
    name, call, addresses = operator
    memory = stream.device.system.memory

    def tensors(specs: Any, places: Any) -> list[tuple[Any, Any]]:
        found = []
        for spec, address in zip(specs, places, strict=False):
            block = memory.find(address) if address else None
            if spec is None or block is None or address + spec.nbytes > block.address + block.size:
                continue
            data = np.array(block.arena.view(address, spec.nbytes))
            try:
                found.append((spec, from_storage(data.data, spec)))
            except (ValueError, KeyError):  # a layout that only its operator understands
                found.append((spec, data))
        return found

    split, us = len(call.inputs), _dump.now_us()
    ins, outs = tensors(call.inputs, addresses[:split]), tensors(call.outputs, addresses[split:])
    file = _dump_file.file_name(call.type, name, task.sequence, stream.id, us)
    folder = f"extra-info/data-dump/{stream.device.index}"
    text = _dump_file.statistics(ins, outs) if config.data == "stats" else ""
    _dump.write(config, folder, file, _dump_file.content(name, us, ins, outs), text)
