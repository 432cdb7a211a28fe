"""Times in files: decimal rounding, the same in tables and timelines also at half a nanosecond."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.profiling import digits, msprof_tables, msprof_timeline
from ascend_sim.profiling.store import EventStore
from ascend_sim.runtime.observe import Event


@given(st.integers(0, 10**16))
def test_times_are_rounded_as_decimals(ps: int) -> None:
    exact = (Decimal(ps) / 10**6).quantize(Decimal("0.001"), ROUND_HALF_UP)
    assert digits.us(ps) == str(exact) and digits.when(ps) == f"{exact}\t"
    assert digits.ns(ps) == int(exact * 1000)
    assert digits.us(-ps - 501) == f"-{digits.us(ps + 500)}"


@given(st.integers(0, 10**9).map(lambda n: 1000 * n + 500))
def test_tables_and_timelines_have_the_same_times(start: int) -> None:
    store = EventStore()
    store(Event("memset", "memset", 0, 1, 2, start, start + 7000, 0, {"queued": 0}))
    ((*_, begin, end),) = msprof_tables.task_time(store)
    (shown,) = (e for e in msprof_timeline.trace_events(store) if e["ph"] == "X")
    assert shown["ts"] == begin.strip()
    assert Decimal(begin.strip()) + Decimal(str(shown["dur"])) == Decimal(end.strip())
