"""acl.prof: times of a model's operators, sent through a pipe while it runs.

Every operator is one record of a fixed size; the functions below read records from memory of the program.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import queue
import struct
import threading
from dataclasses import dataclass

from acl import _model, errors, handles
from acl._api import api
from acl._common import system
from ascend_sim.runtime.copies import BadAddress, locate
from ascend_sim.runtime.observe import Event
from ascend_sim.runtime.system import observers

_RECORD = struct.Struct("<IIQQQQHH64s200s")  # signature, model, thread, start, end, duration (ns), lengths, type, name
_SIGNATURE = 0x5A5A5A5A
_METRICS = {*range(9), 255}
_FLUSH_S = 1.0  # the longest that unsubscribing waits for a reader


@dataclass(frozen=True)
class SubscribeConfig:
    times: bool
    metrics: int
    fd: int


class Subscription:
    """Writes a model's operators to a pipe, from a thread of its own: a pipe that nobody reads holds nobody up."""

    def __init__(self, model_id: int, config: SubscribeConfig) -> None:
        self.model_id = model_id
        self.fd = config.fd
        self.times = config.times
        self._records: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="acl.prof subscription", daemon=True)
        self._thread.start()
        observers().add(self)

    def __call__(self, event: Event) -> None:
        if event.kind != "kernel" or event.args.get("model_id") != self.model_id or not self.times:
            return
        kind, name = str(event.args["op_type"]).encode()[:64], event.name.encode()[:200]
        start, end = event.start // 1000, event.end // 1000
        head = (_SIGNATURE, self.model_id, event.thread, start, end, end - start)
        self._records.put(_RECORD.pack(*head, len(kind), len(name), kind, name))

    def _write(self) -> None:
        with contextlib.suppress(OSError):  # the reader went away
            while (record := self._records.get()) is not None:
                view = memoryview(record)
                while view:
                    view = view[os.write(self.fd, view) :]

    def close(self) -> None:
        """Send what is left, then close the pipe."""
        observers().remove(self)
        self._records.put(None)
        self._thread.join(_FLUSH_S)
        with contextlib.suppress(OSError):
            os.close(self.fd)


subscriptions: dict[int, Subscription] = {}


def forget_all() -> None:
    """Tests: start over."""
    for subscription in list(subscriptions.values()):
        subscription.close()
    subscriptions.clear()


@api("acl.prof.create_subscribe_config", "aclprofCreateSubscribeConfig")
def create_subscribe_config(time_info_switch: int, aicore_metrics: int, pipe_write_fd: int, /) -> int:
    if aicore_metrics not in _METRICS:
        errors.bad("aicore_metrics", aicore_metrics, "0..8 or 255 (none)")
        return 0
    try:
        os.fstat(pipe_write_fd)
    except (OSError, OverflowError):
        errors.bad("fd", pipe_write_fd, "the writing end of a pipe")
        return 0
    return handles.new(SubscribeConfig(bool(time_info_switch), aicore_metrics, pipe_write_fd))


def _config(handle: int) -> SubscribeConfig | None:
    found = handles.get(handle, SubscribeConfig)
    if found is None:
        story = handles.story(handle, "SubscribeConfig", "acl.prof.create_subscribe_config")
        errors.fail(errors.INVALID_PARAM, story)
    return found


@api("acl.prof.destroy_subscribe_config", "aclprofDestroySubscribeConfig")
def destroy_subscribe_config(config: int, /) -> int:
    if _config(config) is None:
        return errors.INVALID_PARAM
    handles.drop(config)
    return 0


@api("acl.prof.model_subscribe", "aclprofModelSubscribe", "api")
def model_subscribe(model_id: int, config: int, /) -> int:
    from acl import prof

    found = _config(config)
    if found is None:
        return errors.INVALID_PARAM
    if prof.initialized():
        return errors.fail(
            errors.PROF_API_CONFLICT,
            "profiling into files is on: it does not go with subscriptions.",
            "acl.prof.finalize ends it.",
        )
    if _model.find(model_id) is None:
        return errors.GE_MODEL_ID
    if model_id in subscriptions:
        return errors.fail(
            errors.PROF_MODEL_SUBSCRIBED, f"model {model_id} is subscribed.", "acl.prof.model_unsubscribe ends that."
        )
    subscriptions[model_id] = Subscription(model_id, found)
    return 0


def _unsubscribe(model_id: int) -> int:
    found = subscriptions.pop(model_id, None)
    if found is None:
        known = ", ".join(map(str, subscriptions)) or "none"
        return errors.bad("model_id", model_id, f"a subscribed model: {known}")
    found.close()
    return 0


@api("acl.prof.model_un_subscribe", "aclprofModelUnSubscribe", "api")
def model_un_subscribe(model_id: int, /) -> int:
    return _unsubscribe(model_id)


@api("acl.prof.model_unsubscribe", "aclprofModelUnSubscribe", "api")
def model_unsubscribe(model_id: int, /) -> int:
    return _unsubscribe(model_id)


# -- reading records ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Operator:
    model: int
    start: int
    end: int
    type: str
    name: str


def _records(info_ptr: int, info_len: int) -> int:
    """How many records lie there; 0 (and the cause stored) when none does."""
    if info_ptr == 0:
        errors.bad("info_ptr", 0, "the address of records that were read from the pipe")
        return 0
    if info_len < _RECORD.size or info_len % _RECORD.size:
        errors.bad("info_len", info_len, f"a multiple of {_RECORD.size}", "acl.prof.get_op_desc_size tells it.")
        return 0
    try:
        locate(system(), info_ptr, info_len, False, "info_ptr")
    except BadAddress as error:
        errors.fail(errors.INVALID_PARAM, f"{error}.")
        return 0
    return info_len // _RECORD.size


def _at(info_ptr: int, info_len: int, index: int) -> _Operator | None:
    count = _records(info_ptr, info_len)
    if count == 0:
        return None
    if not 0 <= index < count:
        errors.bad("index", index, f"below {count}, the number of operators")
        return None
    fields = _RECORD.unpack(ctypes.string_at(info_ptr + index * _RECORD.size, _RECORD.size))
    signature, model, _, start, end, _, type_len, name_len, kind, name = fields
    if signature != _SIGNATURE:
        errors.fail(errors.INVALID_PARAM, f"record {index} is not one of acl.prof.model_subscribe.")
        return None
    text = (kind[:type_len].decode(errors="replace"), name[:name_len].decode(errors="replace"))
    return _Operator(model, start, end, *text)


@api("acl.prof.get_op_desc_size", "aclprofGetOpDescSize")
def get_op_desc_size() -> tuple[int, int]:
    return _RECORD.size, 0


@api("acl.prof.get_op_num", "aclprofGetOpNum")
def get_op_num(info_ptr: int, info_len: int, /) -> tuple[int, int]:
    count = _records(info_ptr, info_len)
    return count, 0 if count else errors.INVALID_PARAM


def _text(info_ptr: int, info_len: int, index: int, name: bool) -> str | None:
    found = _at(info_ptr, info_len, index)
    return None if found is None else found.name if name else found.type


def _cut(info_ptr: int, info_len: int, index: int, length: int, name: bool) -> tuple[str, int]:
    text = _text(info_ptr, info_len, index, name)
    if text is None:
        return "", errors.INVALID_PARAM
    if length <= len(text):
        return "", errors.bad("length", length, f"more than {len(text)}, the length of {text!r}")
    return text, 0


@api("acl.prof.get_op_type", "aclprofGetOpType")
def get_op_type(info_ptr: int, info_len: int, index: int, type_len: int, /) -> tuple[str, int]:
    return _cut(info_ptr, info_len, index, type_len, False)


@api("acl.prof.get_op_name", "aclprofGetOpName")
def get_op_name(info_ptr: int, info_len: int, index: int, name_len: int, /) -> tuple[str, int]:
    return _cut(info_ptr, info_len, index, name_len, True)


@api("acl.prof.get_op_type_v2", "aclprofGetOpType")
def get_op_type_v2(info_ptr: int, info_len: int, index: int, /) -> tuple[str | None, int]:
    text = _text(info_ptr, info_len, index, False)
    return text, errors.INVALID_PARAM if text is None else 0


@api("acl.prof.get_op_name_v2", "aclprofGetOpName")
def get_op_name_v2(info_ptr: int, info_len: int, index: int, /) -> tuple[str | None, int]:
    text = _text(info_ptr, info_len, index, True)
    return text, errors.INVALID_PARAM if text is None else 0


@api("acl.prof.get_op_type_len", "aclprofGetOpTypeLen")
def get_op_type_len(info_ptr: int, info_len: int, index: int, /) -> tuple[int, int]:
    """With the end of the text."""
    text = _text(info_ptr, info_len, index, False)
    return (0, errors.INVALID_PARAM) if text is None else (len(text) + 1, 0)


@api("acl.prof.get_op_name_len", "aclprofGetOpNameLen")
def get_op_name_len(info_ptr: int, info_len: int, index: int, /) -> tuple[int, int]:
    """With the end of the text."""
    text = _text(info_ptr, info_len, index, True)
    return (0, errors.INVALID_PARAM) if text is None else (len(text) + 1, 0)


@api("acl.prof.get_op_start", "aclprofGetOpStart")
def get_op_start(info_ptr: int, info_len: int, index: int, /) -> int:
    found = _at(info_ptr, info_len, index)
    return 0 if found is None else found.start


@api("acl.prof.get_op_end", "aclprofGetOpEnd")
def get_op_end(info_ptr: int, info_len: int, index: int, /) -> int:
    found = _at(info_ptr, info_len, index)
    return 0 if found is None else found.end


@api("acl.prof.get_op_duration", "aclprofGetOpDuration")
def get_op_duration(info_ptr: int, info_len: int, index: int, /) -> int:
    found = _at(info_ptr, info_len, index)
    return 0 if found is None else found.end - found.start


@api("acl.prof.get_model_id", "aclprofGetModelId")
def get_model_id(info_ptr: int, info_len: int, index: int, /) -> int:
    found = _at(info_ptr, info_len, index)
    return 0 if found is None else found.model
