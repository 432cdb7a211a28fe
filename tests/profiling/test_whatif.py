"""Advice from replays, and device memory over time."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim import simulate_op
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.profiling import optable, whatif
from ascend_sim.profiling.memory_use import memory_use, thinned
from ascend_sim.profiling.store import EventStore
from ascend_sim.runtime.observe import Event
from ascend_sim.soc import Soc, load_soc

Recorded = Callable[[str], tuple[EventStore, Soc]]
COPY = OpCall("Add", (TensorSpec((8192, 8192), "float16"),) * 2, (TensorSpec((8192, 8192), "float16"),))
PRODUCT = OpCall(
    "MatMulV2", (*(TensorSpec((4096, 4096), "float16"),) * 2, None), (TensorSpec((4096, 4096), "float16"),)
)


@pytest.mark.parametrize("chip", ["Ascend910B2", "Ascend310P3"])
def test_what_helps_is_what_bounds(chip: str) -> None:
    """A large sum waits for memory, a large product for the cube."""
    soc = load_soc(chip)
    us, gains = whatif.gains(COPY, soc, cold=True)
    assert gains[0].change == "twice the memory bandwidth" and gains[0].us < 0.75 * us
    us, gains = whatif.gains(PRODUCT, soc, cold=False)
    (clock,) = (g for g in gains[:2] if g.change == "a core clock 20 % higher")
    assert clock.us == pytest.approx(us / 1.2, rel=0.08)
    assert us == simulate_op(PRODUCT, soc=soc).us
    assert all(g.us <= us * (1 + 1e-5) for g in gains)


def test_advice_is_for_the_busiest(recorded: Recorded) -> None:
    store, soc = recorded("Ascend910B4")
    rows = optable.rows(store)
    found = whatif.advice(rows, soc)
    chosen = [rows[entry["op"]] for entry in found]
    assert chosen and len(chosen) <= whatif.MOST and not any(row.estimated for row in chosen)
    assert [row.ps for row in chosen] == sorted((row.ps for row in chosen), reverse=True)
    for entry in found:
        saved = [share for _, share in entry["gains"]]
        assert saved == sorted(saved, reverse=True) and all(0 <= s < 1 for s in saved)


def change(us: int, name: str, address: int, nbytes: int, total: int, device: int = 0) -> Event:
    facts = {"component": "APP", "address": address, "nbytes": nbytes, "allocated": total}
    return Event("memory", name, device, -1, 0, us * 10**6, us * 10**6, 0, facts)


def test_the_holders_are_those_of_the_peak() -> None:
    store = EventStore()
    for event in (
        change(1, "weights", 0, 100, 100), change(2, "input", 100, 50, 150), change(3, "input", 200, 70, 220),
        change(4, "input", 100, -50, 170), change(5, "late", 300, 10, 180), change(1, "other", 0, 5, 5, device=1),
    ):  # fmt: skip
        store(event)
    first, second = memory_use(store, 1000)
    assert (first["peak"], first["peak_us"], first["holders"]) == (220, 3.0, [["input", 2, 120], ["weights", 1, 100]])
    assert first["points"][-1] == [5.0, 180] and second["peak"] == 5


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), max_size=300))
def test_thinning_keeps_the_peak_and_the_ends(curve: list[tuple[int, int]]) -> None:
    curve.sort()
    found = thinned(curve, 30)
    assert len(found) <= max(33, 30) or len(curve) <= 30
    if curve:
        assert found[0] == curve[0] and found[-1] == curve[-1]
        assert max(n for _, n in found) == max(n for _, n in curve)
