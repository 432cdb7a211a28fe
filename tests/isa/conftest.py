"""A core to issue instructions on, one at a time, with memories the test can fill and read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ascend_sim.asc.machine import Core, on_core
from ascend_sim.soc import load_soc

sys.path.insert(0, str(Path(__file__).parent))  # the tests share strength.py


@cache
def _soc(name: str) -> Any:
    return load_soc(name)


class Bench:
    """One core of a chip outside any launch."""

    def __init__(self, chip: str, kind: str | None = None, gm: Sequence[np.ndarray] = ()) -> None:
        soc = _soc(chip)
        kind = kind or ("AIV" if soc.chip.split_cores else "AICORE")
        self.core = Core(soc, kind, 0, 1, gm=[g.reshape(-1).view(np.uint8) for g in gm])

    def put(self, memory: str, values: np.ndarray, at: int = 0) -> None:
        raw = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        self.core.memory[memory][at : at + len(raw)] = raw

    def get(self, memory: str, dtype: Any, n: int, at: int = 0) -> np.ndarray:
        size = np.dtype(dtype).itemsize
        return self.core.memory[memory][at : at + n * size].copy().view(dtype)

    def run(self, program: Callable[[], Any]) -> Any:
        with on_core(self.core):
            return program()


@pytest.fixture(scope="session")
def bench() -> type[Bench]:
    return Bench
