"""A fresh process state for every test."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import acl
from acl import _sim
from ascend_sim.runtime import system as machine

sys.path.insert(0, str(Path(__file__).parent))

from acl_program import Program


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("ASCEND_SIM_QUIET", "1")
    monkeypatch.delenv("ASCEND_SIM_VALUES", raising=False)
    _sim.reset()
    machine.configure(soc="Ascend910B2", devices=2)
    yield
    _sim.reset()


@pytest.fixture
def device() -> int:
    """acl.init and set_device(0)."""
    assert acl.init() == 0
    assert acl.rt.set_device(0) == 0
    return 0


@pytest.fixture
def program(device: int) -> Program:
    return Program()


@pytest.fixture
def fails() -> Callable[..., str]:
    """Check a code and that the stored message holds some words; returns the message."""

    def check(result: Any, code: int, *words: str) -> str:
        ret = result[-1] if isinstance(result, tuple) else result
        assert ret == code
        message = acl.get_recent_err_msg()
        assert message is not None
        for word in words:
            assert word in message, (word, message)
        assert acl.get_recent_err_msg() is None
        return str(message)

    return check
