"""acl.media: image and video processing V1. Its memory functions work; the rest returns 207000 in its documented
shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acl import _names
from acl._api import api
from acl._rt_memory import allocate, release


@api("acl.media.dvpp_malloc", "acldvppMalloc", "malloc")
def dvpp_malloc(size: int, /) -> tuple[int, int]:
    return allocate("acl.media.dvpp_malloc", size, 0)


@api("acl.media.dvpp_malloc_with_cfg", "acldvppMallocWithCfg", "malloc")
def dvpp_malloc_with_cfg(size: int, cfg: dict[str, Any], /) -> tuple[int, int]:
    return allocate("acl.media.dvpp_malloc_with_cfg", size, 0)


@api("acl.media.dvpp_free", "acldvppFree", "malloc")
def dvpp_free(dev_ptr: int, /) -> int:
    return release(dev_ptr, "acl.media.dvpp_free")


__all__ = list(_names.complete(globals(), "media"))


def __dir__() -> list[str]:
    return list(__all__)


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
