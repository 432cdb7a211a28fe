"""pyACL: the Python interface of AscendCL, on a simulated Ascend NPU.

Functions, argument order, result shapes and return codes are those of pyACL; `dir` of each sub-module lists its
functions. Which chip is simulated comes from ``ASCEND_SIM_SOC`` or the ``soc`` key of the acl.init file (else
Ascend910B2), how many devices from ``ASCEND_SIM_DEVICES`` (else 8).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acl import _descs, _init, _names, _rt_options
from acl import blas as blas
from acl import fv as fv
from acl import himpi as himpi
from acl import mdl as mdl
from acl import media as media
from acl import op as op
from acl import prof as prof
from acl import rt as rt
from acl import util as util

for _part in (_init, _descs, _rt_options):
    for _name, _value in vars(_part).items():
        if getattr(_value, "acl_name", "") == f"acl.{_name}":
            globals()[_name] = _value

__all__ = list(_names.complete(globals(), ""))
__all__ += ["blas", "fv", "himpi", "mdl", "media", "op", "prof", "rt", "util"]


def __dir__() -> list[str]:
    return [*__all__, "__doc__", "__file__", "__name__", "__path__"]


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
