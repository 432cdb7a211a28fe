"""acl.media: image and video processing V1 (DVPP)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acl import _media_channel, _media_codec, _media_descs, _media_video, _media_vpc, _names

for _part in (_media_descs, _media_channel, _media_vpc, _media_codec, _media_video):
    for _name, _value in vars(_part).items():
        if getattr(_value, "acl_name", "") == f"acl.media.{_name}":
            globals()[_name] = _value

__all__ = list(_names.complete(globals(), "media"))


def __dir__() -> list[str]:
    return list(__all__)


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
