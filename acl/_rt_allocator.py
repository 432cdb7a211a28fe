"""acl.rt: allocators of the program that the executor takes its working memory from.

A registered allocator serves the work area of models that are executed asynchronously on its stream.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from acl import errors, handles
from acl._api import api
from acl._common import on_stream

if TYPE_CHECKING:
    from ascend_sim.runtime.stream import Stream


@dataclass
class Allocator:
    """``alloc(object, size)`` gives a block, ``address(block)`` its place, ``free(object, block)`` takes it back."""

    object: int = 0
    alloc: Callable[..., Any] | None = None
    free: Callable[..., Any] | None = None
    advise: Callable[..., Any] | None = None
    address: Callable[..., Any] | None = None


_registered: dict[Stream, Allocator] = {}


def forget_all() -> None:
    """Tests: start over."""
    _registered.clear()


def allocator_of(stream: Stream) -> Allocator | None:
    return _registered.get(stream)


def _desc(handle: int) -> Allocator | None:
    found = handles.get(handle, Allocator)
    if found is None:
        errors.fail(errors.INVALID_PARAM, handles.story(handle, "Allocator", "acl.rt.allocator_create_desc"))
    return found


@api("acl.rt.allocator_create_desc", "aclrtAllocatorCreateDesc")
def allocator_create_desc() -> int:
    return handles.new(Allocator())


@api("acl.rt.allocator_destroy_desc", "aclrtAllocatorDestroyDesc")
def allocator_destroy_desc(desc: int, /) -> int:
    if _desc(desc) is None:
        return errors.INVALID_PARAM
    handles.drop(desc)
    return 0


def _set(desc: int, name: str, value: Any) -> int:
    found = _desc(desc)
    if found is None:
        return errors.INVALID_PARAM
    setattr(found, name, value)
    return 0


@api("acl.rt.allocator_set_obj_to_desc", "aclrtAllocatorSetObjToDesc")
def allocator_set_obj_to_desc(desc: int, allocator: int, /) -> int:
    return _set(desc, "object", allocator)


@api("acl.rt.allocator_set_alloc_func_to_desc", "aclrtAllocatorSetAllocFuncToDesc")
def allocator_set_alloc_func_to_desc(desc: int, function: object, /) -> int:
    return _set_function(desc, "alloc", function)


@api("acl.rt.allocator_set_free_func_to_desc", "aclrtAllocatorSetFreeFuncToDesc")
def allocator_set_free_func_to_desc(desc: int, function: object, /) -> int:
    return _set_function(desc, "free", function)


@api("acl.rt.allocator_set_alloc_advise_func_to_desc", "aclrtAllocatorSetAllocAdviseFuncToDesc")
def allocator_set_alloc_advise_func_to_desc(desc: int, function: object, /) -> int:
    return _set_function(desc, "advise", function)


@api("acl.rt.allocator_set_get_addr_from_block_func_to_desc", "aclrtAllocatorSetGetAddrFromBlockFuncToDesc")
def allocator_set_get_addr_from_block_func_to_desc(desc: int, function: object, /) -> int:
    return _set_function(desc, "address", function)


def _set_function(desc: int, name: str, function: object) -> int:
    if not callable(function):
        return errors.bad("func", function, "a function")
    return _set(desc, name, function)


@api("acl.rt.allocator_register", "aclrtAllocatorRegister", "api")
def allocator_register(stream: int, desc: int, /) -> int:
    if stream == 0:
        return errors.bad("stream", 0, "a stream of acl.rt.create_stream")
    found, ret = on_stream(stream)
    if found is None:
        return ret
    allocator = _desc(desc)
    if allocator is None:
        return errors.INVALID_PARAM
    missing = [n for n in ("alloc", "free", "address") if getattr(allocator, n) is None]
    if missing:
        return errors.fail(
            errors.INVALID_PARAM,
            f"the description has no function for {', '.join(missing)}.",
            "acl.rt.allocator_set_*_func_to_desc set them.",
        )
    _registered[found] = Allocator(**vars(allocator))
    return 0


@api("acl.rt.allocator_unregister", "aclrtAllocatorUnregister", "api")
def allocator_unregister(stream: int, /) -> int:
    from ascend_sim.runtime.stream import Stream

    found = handles.get(stream, Stream)
    if found is not None:
        _registered.pop(found, None)
    return 0  # nothing registered: nothing to do
