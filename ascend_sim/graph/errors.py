"""Errors of the offline-model room: what ATC prints and what a model load returns."""

from __future__ import annotations

# Return codes of a model load, by cause (ACL error table: 145xxx parameter, 545xxx internal).
PARAM_INVALID = 145000
PATH_INVALID = 145002
SIZE_INVALID = 145006
GEAR_INVALID = 145013
SHAPE_INVALID = 145022
LOAD_MODEL_FAILED = 545001
MODEL_PARTITION_FAILED = 545002
WEIGHT_PARTITION_FAILED = 545003
TASK_PARTITION_FAILED = 545004
UNSUPPORTED = 207000


class AtcError(Exception):
    """A conversion error with ATC's code (``E10001``, ``E16002`` ...), a plain cause and what to try."""

    def __init__(self, code: str, cause: str, hint: str = "") -> None:
        self.code = code
        self.cause = cause
        self.hint = hint
        super().__init__(str(self))

    def __str__(self) -> str:
        text = f"{self.code}: {self.cause}"
        return f"{text}\n        Solution: {self.hint}" if self.hint else text


class OmError(Exception):
    """A model file that cannot be loaded or run. ``ret`` is the code that pyACL returns for it."""

    def __init__(self, message: str, ret: int = PARAM_INVALID) -> None:
        self.ret = ret
        super().__init__(message)
