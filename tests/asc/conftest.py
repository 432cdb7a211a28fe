"""Chips for the kernel language's tests."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pytest

from ascend_sim.soc import load_soc


@pytest.fixture(scope="session")
def soc() -> Callable[[str], Any]:
    return lru_cache(maxsize=None)(load_soc)
