"""acl.mdl: models, datasets, descriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acl import _mdl_aipp, _mdl_desc, _mdl_dump, _mdl_failed, _mdl_gears, _mdl_load, _mdl_run, _names

for _part in (_mdl_load, _mdl_desc, _mdl_run, _mdl_gears, _mdl_aipp, _mdl_dump, _mdl_failed):
    for _name, _value in vars(_part).items():
        if getattr(_value, "acl_name", "") == f"acl.mdl.{_name}":
            globals()[_name] = _value

__all__ = list(_names.complete(globals(), "mdl"))


def __dir__() -> list[str]:
    return list(__all__)


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
