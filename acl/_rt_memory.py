"""acl.rt: device and host memory, copies and fills."""

from __future__ import annotations

import warnings
from typing import Any

from acl import _strict, errors
from acl._api import api
from acl._common import System, current, current_device, on_stream, system
from ascend_sim.runtime.copies import BadAddress, Place, copy_now, direction, fill_now, locate
from ascend_sim.runtime.host import host_thread
from ascend_sim.runtime.memory import GRAIN, HUGE_PAGE, OutOfMemory, rounded
from ascend_sim.runtime.tasks import CopyTask, FillTask

HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, DEFAULT = range(5)
_KINDS = {0: ("h2h",), 1: ("h2d",), 2: ("d2h",), 3: ("d2d", "p2p"), 5: ("h2d",), 6: ("d2d",), 7: ("p2p",)}
_HUGE1G = (6, 7)  # malloc policies without padding
_SIZE_MAX = 1 << 64

Refusal = tuple[int, int]


def allocate(owner: str, size: int, padding: int | None, align: int = GRAIN) -> tuple[int, int]:
    """(address, ret) of device memory in the current context."""
    if size == 0:
        return 0, errors.bad("size", 0, "at least 1 byte")
    device = current_device()
    if device is None:
        return 0, errors.RT_CONTEXT_NULL
    if size < 0:
        size += _SIZE_MAX  # as the C interface sees it
    if padding is None:
        padding = device.soc.limits.malloc_padding_bytes
    try:
        block = device.arena.allocate(size, rounded(size, padding), owner, align)
    except OutOfMemory as error:
        return 0, errors.fail(errors.RT_MEMORY_ALLOCATION, f"{error}.")
    if _strict.watch is not None:
        _strict.watch.allocated(block)
    return block.address, 0


def release(address: int, name: str) -> int:
    """Free device memory."""
    if address == 0:
        return errors.bad("dev_ptr", 0, "an address of acl.rt.malloc")
    machine = system()
    arena = machine.memory.arena_of(address)
    block = arena.blocks.get(address) if arena is not None else None
    if arena is None or block is None or arena is machine.host:
        return errors.fail(errors.RT_PARAM_INVALID, *_not_freeable(address, "device", name))
    arena.release(block)
    return 0


def _not_freeable(address: int, space: str, name: str) -> tuple[str, str]:
    machine = system()
    arena = machine.memory.arena_of(address)
    if arena is None:
        return f"{address:#x} is no {space} memory of this simulator: foreign memory cannot be freed.", ""
    if (arena is machine.host) != (space == "host"):
        other = "acl.rt.free_host" if arena is machine.host else "acl.rt.free"
        return f"{address:#x} is {arena.name} memory.", f"it is freed with {other}."
    block = arena.find(address)
    if block is not None:
        inside = address - block.address
        return f"{address:#x} lies {inside} B inside a block; its address is {block.address:#x}.", ""
    freed = arena.freed.get(address)
    if freed is not None:
        how = "its device was reset, which frees all memory" if freed.reset else f"{name} called twice for it"
        return (
            f"the block at {address:#x} ({freed.size} B) was freed before: {how}.",
            f"{freed.owner} allocated it.",
        )
    return f"{address:#x} was never allocated.", ""


@api("acl.rt.malloc", "aclrtMalloc", "malloc")
def malloc(size: int, policy: int, /) -> tuple[int, int]:
    align = HUGE_PAGE if size >= HUGE_PAGE and policy in _HUGE1G else GRAIN
    return allocate("acl.rt.malloc", size, 0 if policy in _HUGE1G else None, align)


@api("acl.rt.malloc_align32", "aclrtMallocAlign32", "malloc")
def malloc_align32(size: int, policy: int, /) -> tuple[int, int]:
    return allocate("acl.rt.malloc_align32", size, 0)


@api("acl.rt.malloc_cached", "aclrtMallocCached", "malloc")
def malloc_cached(size: int, policy: int, /) -> tuple[int, int]:
    return allocate("acl.rt.malloc_cached", size, None)


@api("acl.rt.malloc_with_cfg", "aclrtMallocWithCfg", "malloc")
def malloc_with_cfg(size: int, policy: int, cfg: dict[str, Any], /) -> tuple[int, int]:
    return allocate("acl.rt.malloc_with_cfg", size, None)


@api("acl.rt.malloc_for_task_scheduler", "aclrtMallocForTaskScheduler", "malloc")
def malloc_for_task_scheduler(size: int, policy: int, cfg: dict[str, Any], /) -> tuple[int, int]:
    return allocate("acl.rt.malloc_for_task_scheduler", size, None)


@api("acl.rt.free", "aclrtFree", "malloc")
def free(dev_ptr: int, /) -> int:
    return release(dev_ptr, "acl.rt.free")


def _malloc_host(owner: str, size: int) -> tuple[int, int]:
    if size == 0:
        return 0, errors.bad("size", 0, "at least 1 byte")
    if current() is None:
        return 0, errors.RT_CONTEXT_NULL
    if size < 0:
        size += _SIZE_MAX
    try:
        block = system().host.allocate(size, rounded(size, 0), owner)
    except OutOfMemory as error:
        return 0, errors.fail(errors.RT_MEMORY_ALLOCATION, f"{error}.")
    if _strict.watch is not None:
        _strict.watch.allocated(block)
    return block.address, 0


@api("acl.rt.malloc_host", "aclrtMallocHost", "malloc")
def malloc_host(size: int, /) -> tuple[int, int]:
    return _malloc_host("acl.rt.malloc_host", size)


@api("acl.rt.malloc_host_with_cfg", "aclrtMallocHostWithCfg", "malloc")
def malloc_host_with_cfg(size: int, cfg: dict[str, Any], /) -> tuple[int, int]:
    return _malloc_host("acl.rt.malloc_host_with_cfg", size)


@api("acl.rt.free_host", "aclrtFreeHost", "malloc")
def free_host(host_ptr: int, /) -> int:
    if host_ptr == 0:
        return errors.bad("host_ptr", 0, "an address of acl.rt.malloc_host")
    arena = system().host
    block = arena.blocks.get(host_ptr)
    if block is None:
        return errors.fail(errors.RT_PARAM_INVALID, *_not_freeable(host_ptr, "host", "acl.rt.free_host"))
    arena.release(block)
    return 0


@api("acl.rt.mem_flush", "aclrtMemFlush", "api")
def mem_flush(dev_ptr: int, size: int, /) -> int:
    return _cache_op(dev_ptr, size)


@api("acl.rt.mem_invalidate", "aclrtMemInvalidate", "api")
def mem_invalidate(dev_ptr: int, size: int, /) -> int:
    return _cache_op(dev_ptr, size)


def _cache_op(dev_ptr: int, size: int) -> int:
    if dev_ptr == 0:
        return errors.bad("dev_ptr", 0, "an address of acl.rt.malloc_cached")
    if size <= 0:
        return errors.bad("size", size, "at least 1 byte")
    try:
        locate(system(), dev_ptr, size, False, "address")
    except BadAddress as error:
        return errors.fail(errors.RT_PARAM_INVALID, f"{error}.")
    return 0


# -- copies ------------------------------------------------------------------------------------------------


def _check(dst: int, dst_max: int, src: int, count: int, kind: int) -> int:
    if dst == 0:
        return errors.bad("dst", 0, "a mapped address")
    if src == 0:
        return errors.bad("src", 0, "a mapped address")
    if not 0 <= kind <= 7:
        return errors.bad("kind", kind, "0..7 (0 host to host, 1 host to device, 2 device to host, 3 device to device)")
    if count < 0 or count > dst_max:
        expected = f"at most dst_max = {dst_max} bytes"
        return errors.bad("count", count, expected, "dst_max is the second argument.", errors.RT_PARAM_INVALID)
    return 0


def _places(dst: int, src: int, nbytes_dst: int, nbytes_src: int, kind: int) -> tuple[Place, Place] | int:
    machine = system()
    try:
        target = locate(machine, dst, nbytes_dst, True, "dst")
        source = locate(machine, src, nbytes_src, False, "src")
    except BadAddress as error:
        return errors.fail(errors.RT_PARAM_INVALID, f"{error}.")
    if _strict.watch is not None:
        _strict.watch.touched((target, nbytes_dst), (source, nbytes_src))
    if kind != DEFAULT:
        way = direction(target, source)
        if way not in _KINDS[kind]:
            _wrong_kind(machine, kind, way, 5)
    return target, source


def _wrong_kind(machine: System, kind: int, way: str, level: int) -> None:
    """Say that a copy's kind and its addresses disagree; where host and device are one, they cannot."""
    if machine.soc.chip.run_mode != 1:
        return
    if _strict.watch is not None:
        _strict.watch.wrong_kind(kind, way)
    else:
        warnings.warn(
            f"memcpy kind {kind} was given, but the addresses say {way}; the addresses decide",
            RuntimeWarning,
            stacklevel=level,
        )


@api("acl.rt.memcpy", "aclrtMemcpy", "memcpy")
def memcpy(dst: int, dst_max: int, src: int, count: int, kind: int, /) -> int:
    if count == 0:
        return 0
    if dst == 0 or src == 0 or not 0 <= kind <= 7 or not 0 <= count <= dst_max:
        return _check(dst, dst_max, src, count, kind)
    context = current()
    if context is None:
        return errors.RT_CONTEXT_NULL
    if dst == src:
        return 0
    device = context.device
    try:
        target = locate(device.system, dst, count, True, "dst")
        source = locate(device.system, src, count, False, "src")
    except BadAddress as error:
        return errors.fail(errors.RT_PARAM_INVALID, f"{error}.")
    way = direction(target, source)
    if kind != DEFAULT and way not in _KINDS[kind]:
        _wrong_kind(device.system, kind, way, 4)
    if _strict.watch is not None:
        _strict.watch.touched((target, count), (source, count))
        _strict.watch.read(source.block)
    copy_now(device, host_thread(), target, source, count, way=way)
    return 0


def _copy_async(stream: int, target: Place, source: Place, task: CopyTask) -> int:
    """Enqueue; with pageable host memory the call returns only after the copy."""
    found, ret = on_stream(stream)
    if found is None:
        return ret
    thread = host_thread()
    found.submit(task, thread)
    if _strict.watch is not None:
        _strict.watch.enqueued((target.block,), found, "the copy")
    if not task.pinned:
        found.synchronize(thread)
        if _strict.watch is not None:
            _strict.watch.synchronized(found)
    return 0


def _copy_task(target: Place, source: Place, width: int, *pitches: int) -> CopyTask:
    way = direction(target, source)
    host = {"h2d": source, "d2h": target}.get(way)
    pinned = host is None or host.pinned
    return CopyTask(target.address, source.address, width, way, pinned, (target.block, source.block), *pitches)


@api("acl.rt.memcpy_async", "aclrtMemcpyAsync", "memcpy_async")
def memcpy_async(dst: int, dst_max: int, src: int, count: int, kind: int, stream: int, /) -> int:
    if count == 0:
        return 0
    ret = _check(dst, dst_max, src, count, kind)
    if ret:
        return ret
    if current() is None:
        return errors.RT_CONTEXT_NULL
    places = _places(dst, src, count, count, kind)
    if isinstance(places, int):
        return places
    if direction(*places) == "h2h" and system().soc.chip.run_mode == 1:
        return errors.fail(
            errors.RT_FEATURE_NOT_SUPPORT,
            "both dst and src are host memory: an asynchronous copy needs device memory on one side.",
            "acl.rt.memcpy copies between host addresses.",
        )
    return _copy_async(stream, *places, _copy_task(*places, count))


@api("acl.rt.memcpy_async_with_condition", "aclrtMemcpyAsyncWithCondition", "memcpy_async")
def memcpy_async_with_condition(dst: int, dst_max: int, src: int, count: int, kind: int, stream: int, /) -> int:
    if count == 0:
        return 0
    ret = _check(dst, dst_max, src, count, kind)
    if ret:
        return ret
    places = _places(dst, src, count, count, kind)
    if isinstance(places, int):
        return places
    return _copy_async(stream, *places, _copy_task(*places, count))


def _check2d(dst: int, dpitch: int, src: int, spitch: int, width: int, height: int, kind: int) -> int:
    if dst == 0 or src == 0:
        return errors.bad("dst" if dst == 0 else "src", 0, "a mapped address")
    if kind not in (HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, DEFAULT):
        return errors.bad("kind", kind, "1 (host to device), 2 (device to host) or 4 (default)")
    if width <= 0 or height <= 0:
        return errors.bad("width, height", (width, height), "both at least 1")
    if width > dpitch or width > spitch:
        return errors.bad("width", width, f"at most the pitches, dpitch = {dpitch} and spitch = {spitch}")
    return 0


@api("acl.rt.memcpy2d", "aclrtMemcpy2d", "memcpy")
def memcpy2d(dst: int, dpitch: int, src: int, spitch: int, width: int, height: int, kind: int, /) -> int:
    ret = _check2d(dst, dpitch, src, spitch, width, height, kind)
    if ret:
        return ret
    device = current_device()
    if device is None:
        return errors.RT_CONTEXT_NULL
    span = height - 1
    places = _places(dst, src, span * dpitch + width, span * spitch + width, kind)
    if isinstance(places, int):
        return places
    copy_now(device, host_thread(), *places, width, height, dpitch, spitch)
    return 0


@api("acl.rt.memcpy2d_async", "aclrtMemcpy2dAsync", "memcpy_async")
def memcpy2d_async(
    dst: int, dpitch: int, src: int, spitch: int, width: int, height: int, kind: int, stream: int, /
) -> int:
    ret = _check2d(dst, dpitch, src, spitch, width, height, kind)
    if ret:
        return ret
    if current() is None:
        return errors.RT_CONTEXT_NULL
    span = height - 1
    places = _places(dst, src, span * dpitch + width, span * spitch + width, kind)
    if isinstance(places, int):
        return places
    return _copy_async(stream, *places, _copy_task(*places, width, height, dpitch, spitch))


def _check_fill(dev_ptr: int, max_count: int, count: int) -> Place | int:
    if dev_ptr == 0:
        return errors.bad("dev_ptr", 0, "a mapped address")
    if count < 0 or count > max_count:
        return errors.bad("count", count, f"at most max_count = {max_count} bytes", "", errors.RT_PARAM_INVALID)
    if current() is None:
        return errors.RT_CONTEXT_NULL
    try:
        place = locate(system(), dev_ptr, count, True, "dev_ptr")
    except BadAddress as error:
        return errors.fail(errors.RT_PARAM_INVALID, f"{error}.")
    if _strict.watch is not None:
        _strict.watch.touched((place, count))
    return place


@api("acl.rt.memset", "aclrtMemset", "memcpy")
def memset(dev_ptr: int, max_count: int, value: int, count: int, /) -> int:
    if count == 0:
        return 0
    place = _check_fill(dev_ptr, max_count, count)
    if isinstance(place, int):
        return place
    device = current_device()
    if device is None:
        return errors.RT_CONTEXT_NULL
    fill_now(device, host_thread(), place, value & 0xFF, count)
    return 0


@api("acl.rt.memset_async", "aclrtMemsetAsync", "memcpy_async")
def memset_async(dev_ptr: int, max_count: int, value: int, count: int, stream: int, /) -> int:
    if count == 0:
        return 0
    place = _check_fill(dev_ptr, max_count, count)
    if isinstance(place, int):
        return place
    found, ret = on_stream(stream)
    if found is None:
        return ret
    found.submit(FillTask(dev_ptr, value & 0xFF, count, place.block), host_thread())
    if _strict.watch is not None:
        _strict.watch.enqueued((place.block,), found, "the fill")
    return 0


# -- queries -----------------------------------------------------------------------------------------------

_DDR = (0, 2, 3, 6, 7)
_HBM = (1, 4, 5, 8, 9, 10, 11)


@api("acl.rt.get_mem_info", "aclrtGetMemInfo", "api")
def get_mem_info(attr: int, /) -> tuple[int, int, int]:
    device = current_device()
    if device is None:
        return 0, 0, errors.RT_CONTEXT_NULL
    if not 0 <= attr <= 11:
        return 0, 0, errors.bad("attr", attr, "0 (DDR), 1 (HBM) or another memory attribute up to 11")
    if attr in _DDR and device.soc.memory.kind == "HBM":
        return 0, 0, 0
    arena = device.arena
    return arena.capacity - arena.used, arena.capacity, 0


@api("acl.rt.pointer_get_attributes", "aclrtPointerGetAttributes", "api")
def pointer_get_attributes(ptr: int, /) -> tuple[dict[str, Any], int]:
    if ptr == 0:
        return {}, errors.bad("ptr", 0, "a mapped address")
    try:
        place = locate(system(), ptr, 1, False, "ptr")
    except BadAddress as error:
        return {}, errors.fail(errors.RT_PARAM_INVALID, f"{error}.")
    on_device = place.device >= 0
    kind = 1 if on_device else (0 if place.pinned else 2)  # host pinned 0, device 1, unregistered 2
    return {"location": {"id": max(0, place.device), "type": kind}, "page_size": 4096, "rsv": [0, 0, 0, 0]}, 0


def _register(ptr: int, size: int) -> int:
    if ptr == 0 or size <= 0:
        return errors.bad("ptr, size", (ptr, size), "a mapped host address and at least 1 byte")
    if current() is None:
        return errors.RT_CONTEXT_NULL
    machine = system()
    try:
        place = locate(machine, ptr, size, True, "ptr")
    except BadAddress as error:
        return errors.fail(errors.RT_PARAM_INVALID, f"{error}.")
    if place.device >= 0 or place.pinned:
        return errors.fail(errors.RT_PARAM_INVALID, f"{ptr:#x} is device memory or pinned already.")
    machine.register(ptr, size)
    return 0


@api("acl.rt.host_register", "aclrtHostRegister", "api")
def host_register(ptr: int, size: int, type_: int, /) -> tuple[int, int]:
    ret = _register(ptr, size)
    return (0, ret) if ret else (ptr, 0)


@api("acl.rt.host_register_v2", "aclrtHostRegisterV2", "api")
def host_register_v2(ptr: int, size: int, flag: int, /) -> int:
    return _register(ptr, size)


@api("acl.rt.host_unregister", "aclrtHostUnregister", "api")
def host_unregister(ptr: int, /) -> int:
    if current() is None:
        return errors.RT_CONTEXT_NULL
    if system().registered.pop(ptr, None) is None:
        return errors.fail(errors.RT_PARAM_INVALID, f"{ptr:#x} was not registered with acl.rt.host_register.")
    return 0


@api("acl.rt.host_get_device_pointer", "aclrtHostGetDevicePointer", "api")
def host_get_device_pointer(host_ptr: int, flag: int, /) -> tuple[int, int]:
    if current() is None:
        return 0, errors.RT_CONTEXT_NULL
    machine = system()
    block = machine.host.find(host_ptr) or machine.registered.get(host_ptr)
    if block is None:
        return 0, errors.fail(errors.RT_PARAM_INVALID, f"{host_ptr:#x} is not pinned host memory.")
    return host_ptr, 0
