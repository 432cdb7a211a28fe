"""Random programs against a small model of the rules: codes, contents, no crash, no hang, nothing left behind."""

from __future__ import annotations

import gc
import random
import threading
import time
from collections.abc import Iterator

import pytest
from acl_rules import Rules
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

import acl
from acl import _sim, handles
from ascend_sim.runtime import system as machine


def fresh() -> None:
    _sim.reset()
    machine.configure(soc="Ascend910B2", devices=2)
    assert acl.init() == 0


class Machine(RuleBasedStateMachine):
    """Each rule makes a few random calls; hypothesis chooses and shrinks seeds and numbers."""

    total = 0

    def __init__(self) -> None:
        super().__init__()
        fresh()
        self.rules = Rules()

    @rule(seed=st.integers(0, 2**32 - 1), calls=st.integers(1, 40))
    def work(self, seed: int, calls: int) -> None:
        rng = random.Random(seed)
        for _ in range(calls):
            self.rules.step(rng)

    @rule()
    def look(self) -> None:
        self.rules.check_memory()

    def teardown(self) -> None:
        Machine.total += self.rules.steps
        self.rules.check_memory()
        self.rules.close()
        _sim.reset()


@pytest.fixture
def counted() -> Iterator[None]:
    Machine.total = 0
    yield


def _run(examples: int, steps: int) -> int:
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            derandomize=True,
            database=None,
        ),
    )
    return Machine.total


def test_random_programs(counted: None) -> None:
    assert _run(8, 15) > 500


@pytest.mark.slow
def test_200_000_calls(counted: None) -> None:
    total = 0
    while total < 200_000:
        total = _run(60, 60)
    assert total >= 200_000


def _long(steps: int, seed: int) -> tuple[int, int]:
    """(handles alive, threads) after a long random program that gives everything back."""
    fresh()
    rules, rng = Rules(), random.Random(seed)
    while rules.steps < steps:
        rules.step(rng)
    rules.check_memory()
    rules.close()
    for device in (0, 1):
        acl.rt.reset_device_force(device)
    for event, known in rules.events.items():
        if known.alive:
            assert acl.rt.destroy_event(event) == 0
    arenas = [a.used for a in _sim.system().memory.arenas if a.space == "device"]
    assert not any(arenas)
    return len(handles.alive(object)), threading.active_count()


def test_nothing_is_left_behind() -> None:
    first = _long(1500, 1)
    assert _long(1500, 2)[1] == first[1]
    assert first[0] == 0


@pytest.mark.slow
def test_a_long_program_keeps_memory_flat() -> None:
    import resource

    _long(20_000, 3)
    gc.collect()
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    _long(60_000, 4)
    gc.collect()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 30 << 10, grown  # KiB
    assert time.monotonic() - started < 600
