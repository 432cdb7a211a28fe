"""acl.blas: matrix products by BLAS names. Not simulated yet: every function returns 207000 in its documented shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acl import _names

__all__ = list(_names.complete(globals(), "blas"))


def __dir__() -> list[str]:
    return list(__all__)


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
