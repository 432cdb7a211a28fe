"""trace.json: every event is a slice, those of a row nest, nothing is rounded away."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.profiling import perfetto
from ascend_sim.profiling.store import EventStore
from ascend_sim.runtime.observe import Event
from ascend_sim.soc import Soc

Recorded = Callable[[str], tuple[EventStore, Soc]]
spans = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)).map(lambda p: (p[0], p[0] + p[1])), max_size=30)


def nests(row: list[tuple[int, int]]) -> bool:
    """Whether any two are disjoint or one inside the other."""
    return all(
        b[0] >= a[1] or b[1] <= a[1] or (b[0] <= a[0] and b[1] >= a[1]) for i, a in enumerate(row) for b in row[i:]
    )


@given(spans)
def test_rows_nest_and_hold_everything(found: list[tuple[int, int]]) -> None:
    found.sort(key=lambda s: (s[0], -s[1]))
    rows = perfetto.lanes(found)
    assert sorted(i for row in rows for i in row) == list(range(len(found)))
    for row in rows:
        assert nests([found[i] for i in row])
    if nests(found):
        assert len(rows) <= 1


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**7)), max_size=20))
def test_neighbours_stay_neighbours_in_nanoseconds(parts: list[tuple[int, int]]) -> None:
    events, now = [], 0
    for gap, length in parts:
        now += gap
        events.append(Event("kernel", "k", 0, 1, 0, now, now + length, 0, {"op_type": "k"}))
        now += length
    rows = [r for r in perfetto._trace_events(events) if r["ph"] == "X"]
    assert len(rows) == len(events) and len({r["tid"] for r in rows}) <= 1
    shown = [(round(r["ts"] * 1000), round((r["ts"] + r["dur"]) * 1000)) for r in rows]
    assert all(after[0] >= end or after == (start, start) for (start, end), after in pairwise(shown))  # or of no length


def test_a_run_becomes_slices_and_counters(recorded: Recorded, tmp_path: Path) -> None:
    store, _ = recorded("Ascend910B4")
    held = Event("memory", "x", 0, -1, 0, 5, 5, 0, {"component": "APP", "nbytes": 2048, "allocated": 2048})
    assert perfetto.write([*store.events, held], tmp_path / "t.json") == len(store.events)
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    by_kind: dict[str, int] = defaultdict(int)
    for event in events:
        by_kind[event["ph"]] += 1
        assert not isinstance(event.get("ts", 0), str)
    assert (by_kind["X"], by_kind["C"]) == (len(store.events), 1)
    (counter,) = (e for e in events if e["ph"] == "C")
    assert counter["args"] == {"KiB": 2.0} and counter["name"] == "memory APP"
