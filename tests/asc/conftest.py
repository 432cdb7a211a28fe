"""Chips for the kernel language's tests."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from ascend_sim.soc import load_soc

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def soc() -> Callable[[str], Any]:
    return lru_cache(maxsize=None)(load_soc)
