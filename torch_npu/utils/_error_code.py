"""Error suffixes as torch_npu writes them: ``[ERROR] time (PID:, Device:, RankID:) ERRmmccc MODULE text``."""

from __future__ import annotations

import os
import sys
import time
from enum import Enum


class ErrCode(Enum):
    """Codes and texts (public: Ascend/pytorch, torch_npu/utils/_error_code.py)."""

    SUC = (0, "success")
    PARAM = (1, "invalid parameter")
    TYPE = (2, "invalid type")
    VALUE = (3, "invalid value")
    PTR = (4, "invalid pointer")
    INTERNAL = (5, "internal error")
    MEMORY = (6, "memory error")
    NOT_SUPPORT = (7, "feature not supported")
    NOT_FOUND = (8, "resource not found")
    UNAVAIL = (9, "resource unavailable")
    SYSCALL = (10, "system call failed")
    TIMEOUT = (11, "timeout error")
    PERMISSION = (12, "permission error")
    ACL = (100, "call acl api failed")
    HCCL = (200, "call hccl api failed")
    GE = (300, "call ge api failed")
    EXCEPT = (999, "unknown application exception")

    @property
    def code(self) -> int:
        return int(self.value[0])

    @property
    def msg(self) -> str:
        return str(self.value[1])


def _suffix(module: int, name: str, code: ErrCode) -> str:
    if os.environ.get("TORCH_NPU_COMPACT_ERROR_OUTPUT") == "1" or hasattr(sys, "ps1"):
        return ""
    from torch_npu._backend import backend

    device, rank = 0, os.environ.get("RANK", "-1")
    try:
        from torch_npu import _setup

        device = _setup.ext.current_device()
    except (ImportError, AttributeError):
        pass
    assert backend is not None
    now = time.strftime("%Y-%m-%d-%H:%M:%S")
    return (
        f"\n[ERROR] {now} (PID:{os.getpid()}, Device:{device}, RankID:{rank}) "
        f"ERR{module:02d}{code.code:03d} {name} {code.msg}"
    )


def pta_error(code: ErrCode) -> str:
    return _suffix(0, "PTA", code)


def ops_error(code: ErrCode) -> str:
    return _suffix(1, "OPS", code)


def dist_error(code: ErrCode) -> str:
    return _suffix(2, "DIST", code)


def graph_error(code: ErrCode) -> str:
    return _suffix(3, "GRAPH", code)


def prof_error(code: ErrCode) -> str:
    return _suffix(4, "PROF", code)
