"""``torch.npu.aclnn``: the library of operators' host interfaces."""

from __future__ import annotations


def version() -> None:
    """The library does not say its version."""
