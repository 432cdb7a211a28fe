"""A fresh machine for every test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ascend_sim.runtime import system as machine
from ascend_sim.runtime.system import System


@pytest.fixture
def make_system(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., System]]:
    monkeypatch.setenv("ASCEND_SIM_QUIET", "1")

    def make(soc: str = "Ascend910B2", devices: int = 2) -> System:
        machine.discard()
        machine.configure(soc=soc, devices=devices)
        return machine.system()

    yield make
    machine.discard()


@pytest.fixture
def system(make_system: Callable[..., System]) -> System:
    return make_system()
