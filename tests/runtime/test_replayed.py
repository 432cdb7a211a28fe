"""Model executions remembered by cache state give what looking again would give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_sim.engine.memory import CHUNK_BYTES, L2
from ascend_sim.runtime.device import Device
from ascend_sim.runtime.observe import Observers
from ascend_sim.runtime.system import System
from ascend_sim.soc import load_soc

Accesses = list[tuple[int, int, bool]]
SOC = load_soc("Ascend310P3")
accesses = st.lists(st.tuples(st.integers(0, 300), st.integers(1, 40), st.booleans()), max_size=30)


def touch(l2: L2, what: Accesses) -> list[int]:
    return [l2.access(chunk * CHUNK_BYTES // 2, size * CHUNK_BYTES // 2, write) for chunk, size, write in what]


@settings(max_examples=50, deadline=None)
@given(accesses, accesses)
def test_a_restored_cache_behaves_as_before(first: Accesses, second: Accesses) -> None:
    l2 = L2(SOC)
    touch(l2, first)
    l2.first_run("kernel")
    state = l2.state()
    missed, after = touch(l2, second), l2.state()
    l2.restore(state)
    assert l2.state() == state
    assert (touch(l2, second), l2.state()) == (missed, after)
    assert not l2.first_run("kernel")


@dataclass
class Fake:
    """Stands for an operator and its time."""

    missed: int


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), accesses), min_size=1, max_size=8), st.lists(accesses, min_size=3, max_size=3)
)
def test_remembered_executions_equal_looking_again(runs: list[tuple[int, Accesses]], models: list[Accesses]) -> None:
    def play(replayed: Callable[[Device, Any, Callable[[], Any]], Any]) -> tuple[list[list[int]], int]:
        device = System(SOC, 1, Observers()).devices[0]
        seen = []
        for model, between in runs:
            for _ in range(2):
                steps = replayed(device, model, lambda m=model: [Fake(n) for n in touch(device.l2, models[m])])
                seen.append([s.missed for s in steps])
            touch(device.l2, between)
        return seen, device.l2.written_back

    assert play(Device.replayed) == play(lambda device, key, plan: plan())
