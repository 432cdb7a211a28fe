"""acl.rt: physical device memory, reserved addresses, and mappings between them."""

from __future__ import annotations

import os
from typing import Any

from acl import errors, handles
from acl._api import api
from acl._common import current_device, system
from acl._rt_limits import device_at
from acl._rt_notify import new_key
from ascend_sim.runtime import virtual
from ascend_sim.runtime.host import host_thread
from ascend_sim.runtime.memory import HUGE_PAGE, Block, OutOfMemory
from ascend_sim.runtime.virtual import NotHere, Piece

_HUGE_1G = 1 << 30
# attributes of memory that a device's physical memory may have ("hicann/runtime", aclrtMemAttr): name -> granularity, B
_ATTRIBUTES = {1: HUGE_PAGE, 4: HUGE_PAGE, 5: HUGE_PAGE, 10: _HUGE_1G, 11: _HUGE_1G}
_PLAIN = (2, 3, 6, 7, 8, 9)  # further kinds, all in pages of 2 MiB here
_HOST, _DEVICE = 0, 1  # kinds of places
_NO_PID_CHECK = 1

_keys: dict[str, tuple[Block, set[int] | None]] = {}
_imports: dict[str, int] = {}


def forget_all() -> None:
    """Tests: start over."""
    _keys.clear()
    _imports.clear()


def _not_here(error: NotHere) -> int:
    return errors.fail(errors.RT_FEATURE_NOT_SUPPORT, f"{error}.")


def _property(prop: dict[str, Any]) -> tuple[int, int] | int:
    """(device, granularity) of a description of physical memory; a return code when a field is wrong."""
    kind, allocation, attr = prop.get("handleType", 0), prop.get("allocationType", 0), prop.get("memAttr", 1)
    if kind not in (0, 2):
        return errors.bad("prop handleType", kind, "0 (none) or 2 (POSIX)")
    if allocation != 0:
        return errors.bad("prop allocationType", allocation, "0 (pinned)")
    if attr not in _ATTRIBUTES and attr not in _PLAIN:
        return errors.bad("prop memAttr", attr, f"one of {sorted({*_ATTRIBUTES, *_PLAIN})}")
    place = prop.get("location", {})
    if not isinstance(place, dict) or place.get("type", _DEVICE) not in (_HOST, _DEVICE):
        return errors.bad("prop location", place, 'a dict with "id" and "type" 0 (host) or 1 (device)')
    if place.get("type", _DEVICE) == _HOST:
        return errors.fail(errors.RT_FEATURE_NOT_SUPPORT, "physical memory of the host is not simulated.")
    device = device_at(int(place.get("id", 0)))
    if device is None:
        return errors.RT_INVALID_DEVICE
    return device.index, _ATTRIBUTES.get(attr, HUGE_PAGE)


@api("acl.rt.mem_get_allocation_granularity", "aclrtMemGetAllocationGranularity", "api")
def mem_get_allocation_granularity(prop: dict[str, Any], option: int, /) -> tuple[int, int]:
    found = _property(prop)
    if isinstance(found, int):
        return 0, found
    if option not in (0, 1):
        return 0, errors.bad("option", option, "0 (minimum) or 1 (recommended)")
    return found[1], 0


@api("acl.rt.malloc_physical", "aclrtMallocPhysical", "malloc")
def malloc_physical(size: int, prop: dict[str, Any], flags: int, /) -> tuple[int, int]:
    if size <= 0:
        return 0, errors.bad("size", size, "at least 1 byte")
    if flags != 0:
        return 0, errors.bad("flags", flags, "0 (reserved)")
    found = _property(prop)
    if isinstance(found, int):
        return 0, found
    index, granularity = found
    room = -(-size // granularity) * granularity
    try:
        return handles.new(virtual.allocate(system().devices[index], room, "acl.rt.malloc_physical")), 0
    except OutOfMemory as error:
        return 0, errors.fail(errors.RT_MEMORY_ALLOCATION, f"{error}.")
    except NotHere as error:
        return 0, _not_here(error)


def _piece(handle: int) -> Piece | None:
    found = handles.get(handle, Piece)
    if found is None:
        errors.fail(errors.RT_PARAM_INVALID, handles.story(handle, "Piece", "acl.rt.malloc_physical"))
    return found


@api("acl.rt.free_physical", "aclrtFreePhysical", "malloc")
def free_physical(handle: int, /) -> int:
    if handle == 0:
        return errors.bad("handle", 0, "memory of acl.rt.malloc_physical")
    found = _piece(handle)
    if found is None:
        return errors.RT_PARAM_INVALID
    handles.drop(handle)
    found.release()
    return 0


@api("acl.rt.reserve_mem_address", "aclrtReserveMemAddress", "malloc")
def reserve_mem_address(size: int, alignment: int, expect_ptr: int, flags: int, /) -> tuple[int, int]:
    if size <= 0:
        return 0, errors.bad("size", size, "at least 1 byte")
    if alignment != 0:
        return 0, errors.bad("alignment", alignment, "0 (reserved)")
    if flags not in (0, 1):
        return 0, errors.bad("flags", flags, "0 or 1 (huge pages)")
    if expect_ptr != 0:
        return 0, errors.fail(
            errors.RT_FEATURE_NOT_SUPPORT, f"expect_ptr is {expect_ptr:#x}: addresses cannot be chosen, only 0 works."
        )
    if current_device() is None:
        return 0, errors.RT_CONTEXT_NULL
    try:
        return system().virtual.reserve(-(-size // HUGE_PAGE) * HUGE_PAGE), 0
    except NotHere as error:
        return 0, _not_here(error)
    except MemoryError as error:
        return 0, errors.fail(errors.RT_MEMORY_ALLOCATION, f"{error}.")


def _reserved(address: int, size: int = 1) -> int | None:
    return system().virtual.holder(address, size)


@api("acl.rt.release_mem_address", "aclrtReleaseMemAddress", "malloc")
def release_mem_address(vir_ptr: int, /) -> int:
    if vir_ptr == 0:
        return errors.bad("vir_ptr", 0, "an address of acl.rt.reserve_mem_address")
    arena = system().virtual
    size = arena.ranges.get(vir_ptr)
    if size is None:
        return errors.fail(errors.RT_PARAM_INVALID, f"{vir_ptr:#x} was not returned by acl.rt.reserve_mem_address.")
    mapped = [a for a in arena.mapped if vir_ptr <= a < vir_ptr + size]
    if mapped:
        return errors.fail(
            errors.RT_PARAM_INVALID,
            f"{len(mapped)} pieces of memory are still mapped there, the first at {mapped[0]:#x}.",
            "acl.rt.unmap_mem comes first.",
        )
    del arena.ranges[vir_ptr]
    return 0


@api("acl.rt.map_mem", "aclrtMapMem", "malloc")
def map_mem(vir_ptr: int, size: int, offset: int, handle: int, flags: int, /) -> int:
    if vir_ptr == 0:
        return errors.bad("vir_ptr", 0, "an address of acl.rt.reserve_mem_address")
    if offset != 0 or flags != 0:
        return errors.bad("offset, flags", (offset, flags), "0 and 0 (reserved)")
    piece = _piece(handle)
    if piece is None:
        return errors.RT_PARAM_INVALID
    if size != piece.size:
        return errors.bad("size", size, f"{piece.size}, the size of the physical memory", code=errors.RT_PARAM_INVALID)
    arena = system().virtual
    if vir_ptr % HUGE_PAGE:
        return errors.bad("vir_ptr", vir_ptr, f"a multiple of {HUGE_PAGE}", code=errors.RT_PARAM_INVALID)
    start = _reserved(vir_ptr, size)
    if start is None:
        return errors.fail(
            errors.RT_PARAM_INVALID, f"{vir_ptr:#x} + {size} B is not inside a range of acl.rt.reserve_mem_address."
        )
    length = arena.ranges[start]
    for address, other in arena.mapped.items():
        if address < vir_ptr + size and vir_ptr < address + other.size:
            return errors.fail(errors.RT_PARAM_INVALID, f"memory is mapped at {address:#x} already.")
        if start <= address < start + length and other.device is not piece.device:
            return errors.fail(
                errors.RT_PARAM_INVALID,
                f"the range holds memory of device {other.device.index}, this is of device {piece.device.index}: "
                "one range shows one device.",
            )
    try:
        arena.map(vir_ptr, piece)
    except NotHere as error:
        return _not_here(error)
    return 0


@api("acl.rt.unmap_mem", "aclrtUnmapMem", "malloc")
def unmap_mem(vir_ptr: int, /) -> int:
    if vir_ptr == 0:
        return errors.bad("vir_ptr", 0, "an address of acl.rt.map_mem")
    arena = system().virtual
    piece = arena.mapped.get(vir_ptr)
    if piece is None:
        return errors.fail(errors.RT_PARAM_INVALID, f"nothing is mapped at {vir_ptr:#x}.")
    for stream in list(piece.device.streams.values()):
        stream.synchronize(host_thread())
    arena.unmap(vir_ptr)
    return 0


# -- sharing physical memory -------------------------------------------------------------------------------


@api("acl.rt.mem_export_to_shareable_handle", "aclrtMemExportToShareableHandle", "api")
def mem_export_to_shareable_handle(handle: int, handle_type: int, flags: int, /) -> tuple[int, int]:
    piece = _piece(handle)
    if piece is None:
        return 0, errors.RT_PARAM_INVALID
    if handle_type != 0:
        return 0, errors.bad("handle_type", handle_type, "0 (none)")
    if flags not in (0, _NO_PID_CHECK):
        return 0, errors.bad("flags", flags, "0 or 1 (no check of processes)")
    if piece.exported:
        return 0, errors.fail(errors.RT_PARAM_INVALID, "this memory was exported before: one handle, one share.")
    piece.exported = virtual.shareable(piece)
    piece.allowed = None if flags else set()
    return piece.exported, 0


@api("acl.rt.mem_set_pid_to_shareable_handle", "aclrtMemSetPidToShareableHandle", "api")
def mem_set_pid_to_shareable_handle(shareable: int, pids: list[int], /) -> int:
    if not pids:
        return errors.bad("pids", pids, "at least one process")
    for found in handles.alive(Piece):
        piece = handles.get(found, Piece)
        if piece is not None and piece.exported == shareable and shareable:
            if piece.allowed is not None:
                piece.allowed.update(int(p) for p in pids)
            return 0
    return errors.fail(
        errors.RT_PARAM_INVALID, f"{shareable:#x} was not returned by acl.rt.mem_export_to_shareable_handle."
    )


@api("acl.rt.mem_import_from_shareable_handle", "aclrtMemImportFromShareableHandle", "api")
def mem_import_from_shareable_handle(shareable: int, device_id: int, /) -> tuple[int, int]:
    device = device_at(device_id)
    if device is None:
        return 0, errors.RT_INVALID_DEVICE
    if shareable >> 32 == os.getpid():
        return 0, errors.fail(
            errors.RT_PARAM_INVALID, "this process exported the memory itself: only other processes import it."
        )
    try:
        return handles.new(virtual.adopt(shareable, device)), 0
    except (OSError, OverflowError) as error:
        return 0, errors.fail(errors.RT_PARAM_INVALID, f"{shareable:#x} cannot be imported: {error}.")


# -- sharing memory of acl.rt.malloc -----------------------------------------------------------------------


@api("acl.rt.ipc_mem_get_export_key", "aclrtIpcMemGetExportKey", "api")
def ipc_mem_get_export_key(dev_ptr: int, size: int, length: int, flag: int, /) -> tuple[str, int]:
    if length >= 1024:
        raise ValueError(f"len must be below 1024, got {length}")
    if dev_ptr == 0:
        return "", errors.bad("dev_ptr", 0, "an address of acl.rt.malloc")
    if length < 65:
        return "", errors.bad("len", length, "65", code=errors.RT_PARAM_INVALID)
    if flag not in (0, _NO_PID_CHECK):
        return "", errors.bad("flag", flag, "0 or 1 (no check of processes)", code=errors.RT_PARAM_INVALID)
    block = system().memory.find(dev_ptr)
    if block is None or block.device < 0 or size <= 0 or dev_ptr + size > block.end:
        return "", errors.fail(errors.RT_PARAM_INVALID, f"{dev_ptr:#x} + {size} B is no device memory of this process.")
    key = new_key()
    _keys[key] = (block, None if flag else set())
    return key, 0


def _shared(key: str) -> tuple[Block, set[int] | None] | None:
    from acl._rt_notify import foreign

    found = _keys.get(key)
    if found is None or not found[0].alive:
        errors.fail(errors.RT_PARAM_INVALID, f"key {key!r}: {foreign(key)}")
        return None
    return found


@api("acl.rt.ipc_mem_set_import_pid", "aclrtIpcMemSetImportPid", "api")
def ipc_mem_set_import_pid(key: str, pids: list[int], /) -> int:
    found = _shared(key)
    if found is None:
        return errors.RT_PARAM_INVALID
    if not pids:
        return errors.bad("pids", pids, "at least one process", code=errors.RT_PARAM_INVALID)
    if found[1] is not None:
        found[1].update(int(p) for p in pids)
    return 0


@api("acl.rt.ipc_mem_import_by_key", "aclrtIpcMemImportByKey", "api")
def ipc_mem_import_by_key(key: str, flag: int, /) -> tuple[int, int]:
    if current_device() is None:
        return 0, errors.RT_CONTEXT_NULL
    if flag not in (0, 1):
        return 0, errors.bad("flag", flag, "0 or 1 (open the link to the other device)", code=errors.RT_PARAM_INVALID)
    found = _shared(key)
    if found is None:
        return 0, errors.RT_PARAM_INVALID
    if found[1] is not None and os.getpid() not in found[1]:
        return 0, errors.fail(
            errors.RT_NO_PERMISSION,
            f"process {os.getpid()} may not import this memory.",
            "acl.rt.ipc_mem_set_import_pid of the exporting process names those that may.",
        )
    _imports[key] = _imports.get(key, 0) + 1
    return found[0].address, 0


@api("acl.rt.ipc_mem_close", "aclrtIpcMemClose", "api")
def ipc_mem_close(key: str, /) -> int:
    if _imports.get(key, 0):
        _imports[key] -= 1
        return 0
    if _keys.pop(key, None) is None:
        from acl._rt_notify import foreign

        return errors.fail(errors.RT_PARAM_INVALID, f"key {key!r}: {foreign(key)}")
    return 0
