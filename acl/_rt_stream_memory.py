"""acl.rt: what streams do with memory besides copies: values written and awaited, reductions, cache hints, copies
described in memory."""

from __future__ import annotations

import ctypes
import struct
from typing import TYPE_CHECKING

from acl import _model, errors
from acl._api import api
from acl._common import on_stream
from acl._descs import DTYPES
from ascend_sim.runtime.conditions import ConditionTask
from ascend_sim.runtime.copies import Place
from ascend_sim.runtime.host import host_thread
from ascend_sim.runtime.stream_memory import CacheTask, DescribedCopyTask, ReduceTask, StoreTask

if TYPE_CHECKING:
    from ascend_sim.runtime.stream import Stream

_MASK = (1 << 64) - 1
_GEQ, _EQ, _AND, _NOR = range(4)
_INNER_D2D = 6  # the only kind of copy that a descriptor may describe
DESC_BYTES = 64


def _on_device(address: int, size: int, what: str, write: bool, stream: int) -> tuple[Stream, Place] | int:
    found, ret = on_stream(stream)
    if found is None:
        return ret
    if address == 0:
        return errors.bad(what, 0, "an address of acl.rt.malloc")
    place = _model.where(address, size, what, write)
    return place if isinstance(place, int) else (found, place)


@api("acl.rt.value_write", "aclrtValueWrite", "event")
def value_write(dev_addr: int, value: int, flag: int, stream: int, /) -> int:
    if dev_addr % 8:
        return errors.bad("dev_addr", dev_addr, "a multiple of 8", code=errors.RT_PARAM_INVALID)
    if flag != 0:
        return errors.bad("flag", flag, "0 (reserved)", code=errors.RT_PARAM_INVALID)
    made = _on_device(dev_addr, 8, "dev_addr", True, stream)
    if isinstance(made, int):
        return made
    found, place = made
    data = struct.pack("<Q", value & _MASK)
    found.submit(StoreTask("value write", dev_addr, lambda: data, place.block), host_thread())
    return 0


def _holds(address: int, value: int, flag: int) -> bool:
    now = int(ctypes.c_uint64.from_address(address).value)
    if flag == _EQ:
        return now == value
    if flag == _AND:
        return now & value != 0
    if flag == _NOR:
        return ~(now | value) & _MASK != 0
    return (now - value) & _MASK < 1 << 63


@api("acl.rt.value_wait", "aclrtValueWait", "event")
def value_wait(dev_addr: int, value: int, flag: int, stream: int, /) -> int:
    if dev_addr % 8:
        return errors.bad("dev_addr", dev_addr, "a multiple of 8", code=errors.RT_PARAM_INVALID)
    if flag not in (_GEQ, _EQ, _AND, _NOR):
        return errors.bad("flag", flag, "0 (at least), 1 (equal), 2 (and) or 3 (nor)", code=errors.RT_PARAM_INVALID)
    made = _on_device(dev_addr, 8, "dev_addr", False, stream)
    if isinstance(made, int):
        return made
    found, place = made
    block, wanted = place.block, value & _MASK

    def holds() -> bool:
        return block is not None and (not block.alive or _holds(dev_addr, wanted, flag))

    found.submit(ConditionTask("value wait", holds, f"the value at {dev_addr:#x}"), host_thread())
    return 0


@api("acl.rt.cmo_async", "aclrtCmoAsync", "event")
def cmo_async(src: int, size: int, cmo_type: int, stream: int, /) -> int:
    if not 0 <= cmo_type <= 3:
        return errors.bad("cmo_type", cmo_type, "0 (prefetch)", code=errors.RT_PARAM_INVALID)
    if size <= 0:
        return errors.bad("size", size, "at least 1 byte", code=errors.RT_PARAM_INVALID)
    if cmo_type != 0:
        return errors.fail(errors.RT_FEATURE_NOT_SUPPORT, f"cmo_type is {cmo_type}: only 0 (prefetch) is supported.")
    made = _on_device(src, size, "src", False, stream)
    if isinstance(made, int):
        return made
    found, place = made
    found.submit(CacheTask(src, size, place.block), host_thread())
    return 0


# -- reductions --------------------------------------------------------------------------------------------

_KINDS = {10: "add", 11: "maximum", 12: "minimum"}  # 13, equal, is in no product's list
# data types by architecture ("hicann/runtime" api_ref/12_execution_control)
_TYPES = {
    "c220": ("int8", "int16", "int32", "float16", "float32", "bfloat16"),
    "m300": ("int8", "int16", "int32", "float16", "float32"),
    "m200": ("float32", "float16", "int16"),
    "c100": ("float32",),
}


@api("acl.rt.reduce_async", "aclrtReduceAsync", "memcpy_async")
def reduce_async(dst: int, src: int, count: int, kind: int, data_type: int, stream: int, reserve: object, /) -> int:
    from ascend_sim.ops.dtypes import numpy_dtype

    if dst == 0 or src == 0:
        return errors.bad("dst" if dst == 0 else "src", 0, "an address of acl.rt.malloc")
    found, ret = on_stream(stream)
    if found is None:
        return ret
    if count <= 0:
        return errors.bad("count", count, "at least 1 byte", code=errors.RT_PARAM_INVALID)
    arch = found.device.soc.chip.arch
    allowed = {10} if arch in ("m200", "c100") else set(_KINDS)
    if kind not in allowed:
        return errors.bad("kind", kind, f"one of {sorted(allowed)} (10 sum, 11 maximum, 12 minimum)")
    types = _TYPES.get(arch, _TYPES["m200"])
    name = DTYPES[data_type][0] if data_type in DTYPES else ""
    if name not in types:
        return errors.bad("data_type", data_type, f"one of {', '.join(types)}", code=errors.RT_FEATURE_NOT_SUPPORT)
    if count * 8 % DTYPES[data_type][1]:
        return errors.bad("count", count, f"whole elements of {name}", code=errors.RT_PARAM_INVALID)
    target = _model.where(dst, count, "dst", True)
    if isinstance(target, int):
        return target
    source = _model.where(src, count, "src", False)
    if isinstance(source, int):
        return source
    if {target.device, source.device} != {found.device.index}:
        return errors.fail(
            errors.RT_PARAM_INVALID, f"dst and src must lie on device {found.device.index}, that of the stream."
        )
    operation, dtype = _KINDS[kind], numpy_dtype(name)

    def reduce() -> None:
        import numpy as np

        into = _model.view(target, count).view(dtype)
        with np.errstate(all="ignore"):
            getattr(np, operation)(into, _model.view(source, count).view(dtype), out=into)

    found.submit(ReduceTask(count, reduce, (target.block, source.block)), host_thread())
    return 0


# -- copies described in memory ----------------------------------------------------------------------------


def _kind(kind: int) -> int:
    if kind == _INNER_D2D:
        return 0
    if 0 <= kind <= 7:
        return errors.fail(errors.RT_FEATURE_NOT_SUPPORT, f"kind is {kind}: only 6 (inside a device) is supported.")
    return errors.bad("kind", kind, "6 (inside a device)", code=errors.RT_PARAM_INVALID)


@api("acl.rt.get_memcpy_desc_size", "aclrtGetMemcpyDescSize", "api")
def get_memcpy_desc_size(kind: int, /) -> tuple[int, int]:
    ret = _kind(kind)
    return (0, ret) if ret else (DESC_BYTES, 0)


@api("acl.rt.set_memcpy_desc", "aclrtSetMemcpyDesc", "memcpy")
def set_memcpy_desc(desc: int, kind: int, src: int, dst: int, count: int, config: object, /) -> tuple[int, int]:
    ret = _kind(kind)
    if ret:
        return desc, ret
    if desc == 0 or src == 0 or dst == 0:
        return desc, errors.bad("desc, src, dst", (desc, src, dst), "addresses of acl.rt.malloc")
    if count <= 0:
        return desc, errors.bad("count", count, "at least 1 byte", code=errors.RT_PARAM_INVALID)
    target = _model.where(desc, DESC_BYTES, "desc", True)
    if isinstance(target, int):
        return desc, target
    ctypes.memmove(desc, struct.pack("<QQQ", src, dst, count), 24)
    return desc, 0


@api("acl.rt.memcpy_async_with_desc", "aclrtMemcpyAsyncWithDesc", "memcpy_async")
def memcpy_async_with_desc(desc: int, kind: int, stream: int, /) -> int:
    ret = _kind(kind)
    if ret:
        return ret
    made = _on_device(desc, DESC_BYTES, "desc", False, stream)
    if isinstance(made, int):
        return made
    found, place = made

    def read() -> tuple[int, int, int]:
        src, dst, count = struct.unpack("<QQQ", ctypes.string_at(desc, 24))
        return src, dst, count

    found.submit(DescribedCopyTask(read, place.block), host_thread())
    return 0
