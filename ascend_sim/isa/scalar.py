"""Semantics of the scalar unit's accesses to memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from ascend_sim.isa.buffers import View
from ascend_sim.isa.rows import observed


@observed
def run_get(src: View) -> Any:
    """The element at the start of a view as a Python number."""
    raw = src.data[src.start : src.start + src.dtype.size]
    return raw.copy().view(src.dtype.np)[0].item()


@observed
def run_set(dst: View, value: Any) -> None:
    """Write a number, converted to the view's type."""
    dst.data[dst.start : dst.start + dst.dtype.size] = np.asarray([value]).astype(dst.dtype.np).view(np.uint8)
