"""The benchmark of pyACL's cost runs; its limits are looked at on a quiet machine, not here."""

from __future__ import annotations

import pytest

from acl import _sim
from benchmarks import acl_calls


def test_every_figure_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_calls, "ROUNDS", 1)
    monkeypatch.setattr(acl_calls, "CALLS", 20)
    monkeypatch.setattr(acl_calls, "OPERATORS", 10)
    monkeypatch.setenv("ASCEND_SIM_QUIET", "1")
    _sim.reset()
    try:
        found = acl_calls.measure()
    finally:
        _sim.reset()
    assert set(acl_calls.LIMITS) <= set(found)
    assert found["operators of the model"] >= 10
    assert all(us < 1e6 for us in found.values())
