"""Replay engines against each other and against times worked out by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_sim.engine import native, reference
from ascend_sim.engine.engines import engine_name, replay_cores
from ascend_sim.engine.machine import Core, DeadlockError, SyncTimes, TraceError, check
from ascend_sim.engine.replay import replay
from ascend_sim.engine.result import BlockTiming
from ascend_sim.engine.trace import Program, TraceBuilder
from ascend_sim.isa.instr import Op, Pipe, ScalarWork, channel

sys.path.insert(0, str(Path(__file__).parent))
from programs import launches, slower

FREE = SyncTimes(issue=0, set=0, wait=0, barrier=0, cross=0, queue_depth=32)
COSTLY = SyncTimes(issue=1, set=2, wait=3, barrier=5, cross=100, queue_depth=2)


def core(builder: TraceBuilder, occupancy: list[int], latency: list[int] | None = None, kind: str = "AICORE") -> Core:
    program = builder.build()
    order = [int(w.op) for w in program.works]  # works are named by their index into the given durations
    tails = latency or [0] * len(occupancy)
    return Core(
        program,
        kind,
        np.array([occupancy[i] for i in order], np.int64),
        np.array([tails[i] for i in order], np.int64),
    )


def outcome(run: object) -> tuple[int, tuple[tuple[int, ...], ...], int] | str:
    try:
        timing: BlockTiming = run()  # type: ignore[operator]
    except DeadlockError:
        return "deadlock"
    return timing.end, timing.busy, timing.instructions


def fast_outcomes(cores: list[Core], sync: SyncTimes) -> list[object]:
    """What every fast engine says, loops compressed and not."""
    engines = [replay, native.replay] if native.available() else [replay]
    return [outcome(lambda e=e, c=c: e(cores, sync, compress=c)) for e in engines for c in (True, False)]


def both(*cores: Core, sync: SyncTimes = FREE) -> int:
    """Makespan, the same from all engines."""
    expected = outcome(lambda: reference.replay(cores, sync))
    assert all(found == expected for found in fast_outcomes(list(cores), sync))
    return int(expected[0])


# -- by hand


def test_pipes_overlap_and_a_pipe_is_in_order() -> None:
    b = TraceBuilder()
    b.execute(Pipe.MTE2, ScalarWork("0"))
    b.execute(Pipe.V, ScalarWork("1"))
    b.execute(Pipe.MTE2, ScalarWork("0"))
    assert both(core(b, [10, 15])) == 20


def test_flag_waits_for_results_but_a_pipe_does_not() -> None:
    b = TraceBuilder()
    b.execute(Pipe.MTE2, ScalarWork("0"))
    b.set_flag(Pipe.MTE2, Pipe.V, 0)
    b.execute(Pipe.MTE2, ScalarWork("0"))  # starts at 10, not when the first one's data has arrived
    b.wait_flag(Pipe.MTE2, Pipe.V, 0)
    b.execute(Pipe.V, ScalarWork("1"))
    # V starts at 10 + 100 latency + set 2, + wait 3
    assert both(core(b, [10, 5], [100, 0]), sync=COSTLY) == max(1 + 10 + 100 + 2 + 3 + 5, 1 + 20 + 100)


def test_barrier_drains_one_pipe_and_barrier_all_stalls_dispatch() -> None:
    b = TraceBuilder()
    b.execute(Pipe.V, ScalarWork("0"))
    b.barrier(Pipe.V)
    b.execute(Pipe.V, ScalarWork("0"))
    b.execute(Pipe.MTE2, ScalarWork("1"))
    b.barrier(Pipe.ALL)
    b.execute(Pipe.MTE2, ScalarWork("1"))
    # V: 10 + 7 latency, barrier, 10 + 7; then everything waits for that
    assert both(core(b, [10, 1], [7, 0])) == 34 + 1


def test_a_full_queue_stalls_dispatch_of_everything() -> None:
    b = TraceBuilder()
    for _ in range(4):
        b.execute(Pipe.V, ScalarWork("0"))
    b.execute(Pipe.MTE2, ScalarWork("1"))
    sync = SyncTimes(0, 0, 0, 0, 0, queue_depth=2)
    # the 4th vector instruction enters when the 2nd starts (t = 10), only then is the move dispatched
    timing = replay([core(b, [10, 1])], sync, timeline=True)
    assert [s.start for s in timing.slices if s.pipe == Pipe.MTE2] == [10]
    assert both(core(b, [10, 1]), sync=sync) == 40


def test_wait_may_stand_before_its_set_in_the_program() -> None:
    b = TraceBuilder()
    b.wait_flag(Pipe.MTE2, Pipe.V, 0)
    b.execute(Pipe.V, ScalarWork("0"))
    b.execute(Pipe.MTE2, ScalarWork("1"))
    b.set_flag(Pipe.MTE2, Pipe.V, 0)
    assert both(core(b, [10, 5])) == 15


def test_scalar_work_blocks_dispatch() -> None:
    b = TraceBuilder()
    b.execute(Pipe.S, ScalarWork("0"))
    b.execute(Pipe.V, ScalarWork("1"))
    assert both(core(b, [30, 5]), sync=COSTLY) == 1 + 30 + 1 + 5


def test_cross_core_flag_reaches_both_vector_cores_and_needs_both() -> None:
    cube, vectors = TraceBuilder(), [TraceBuilder(), TraceBuilder()]
    cube.execute(Pipe.FIX, ScalarWork("0"))
    cube.cross_set(0, 2, Pipe.FIX)
    cube.cross_wait(1, Pipe.M)
    cube.execute(Pipe.M, ScalarWork("0"))
    for v, cost in zip(vectors, ("1", "2"), strict=True):
        v.cross_wait(0, Pipe.V)
        v.execute(Pipe.V, ScalarWork(cost))
        v.cross_set(1, 2, Pipe.V)
    times = [50, 7, 9]
    cores = [core(cube, times, kind="AIC"), *(core(v, times, kind="AIV") for v in vectors)]
    sync = SyncTimes(0, 0, 0, 0, cross=100, queue_depth=32)
    assert both(*cores, sync=sync) == 50 + 100 + 9 + 100 + 50


def test_long_loops_are_multiplied() -> None:
    b = TraceBuilder()
    b.set_flag(Pipe.V, Pipe.MTE2, 0)
    b.set_flag(Pipe.V, Pipe.MTE2, 1)
    for i in b.steady(range(10_000_000)):
        b.wait_flag(Pipe.V, Pipe.MTE2, i % 2)
        b.execute(Pipe.MTE2, ScalarWork("0"))
        b.set_flag(Pipe.MTE2, Pipe.V, i % 2)
        b.wait_flag(Pipe.MTE2, Pipe.V, i % 2)
        b.execute(Pipe.V, ScalarWork("1"))
        b.set_flag(Pipe.V, Pipe.MTE2, i % 2)
    timing = replay([core(b, [10, 25])], FREE)
    assert timing.end == 10 + 25 * 10_000_000  # double buffered: the first load shows, then V is always busy
    assert timing.busy[0][Pipe.MTE2] == 10 * 10_000_000


# -- engines agree


@settings(max_examples=250, deadline=None)
@given(launches())
def test_engines_agree_on_legal_programs(launch: tuple[list[Core], SyncTimes]) -> None:
    cores, sync = launch
    expected = outcome(lambda: reference.replay(cores, sync))
    assert expected != "deadlock"
    assert all(found == expected for found in fast_outcomes(cores, sync))


@settings(max_examples=150, deadline=None)
@given(launches(legal=False))
def test_engines_agree_when_waits_move_before_their_sets(launch: tuple[list[Core], SyncTimes]) -> None:
    cores, sync = launch
    expected = outcome(lambda: reference.replay(cores, sync))
    assert all(found == expected for found in fast_outcomes(cores, sync))


@settings(max_examples=150, deadline=None)
@given(launches(max_count=400))
def test_compression_changes_nothing(launch: tuple[list[Core], SyncTimes]) -> None:
    cores, sync = launch
    assert len(set(fast_outcomes(cores, sync))) == 1


@pytest.mark.slow
@settings(max_examples=20_000, deadline=None)
@given(launches(legal=False, max_count=60))
def test_engines_agree_on_many_programs(launch: tuple[list[Core], SyncTimes]) -> None:
    cores, sync = launch
    expected = outcome(lambda: reference.replay(cores, sync))
    assert all(found == expected for found in fast_outcomes(cores, sync))


# -- invariants


@settings(max_examples=150, deadline=None)
@given(launches(), st.integers(0), st.integers(0), st.integers(1, 500), st.booleans())
def test_monotone_in_every_duration(
    launch: tuple[list[Core], SyncTimes], which: int, work: int, extra: int, latency: bool
) -> None:
    cores, sync = launch
    which %= len(cores)
    if not cores[which].program.works:
        return
    work %= len(cores[which].program.works)
    assert replay(slower(cores, which, work, extra, latency), sync).end >= replay(cores, sync).end


@settings(max_examples=100, deadline=None)
@given(launches(), st.sampled_from(("issue", "set", "wait", "barrier", "cross")), st.integers(1, 50))
def test_monotone_in_synchronisation_costs(launch: tuple[list[Core], SyncTimes], name: str, extra: int) -> None:
    cores, sync = launch
    costs = {**vars(sync), name: getattr(sync, name) + extra}
    assert replay(cores, SyncTimes(**costs)).end >= replay(cores, sync).end


@settings(max_examples=100, deadline=None)
@given(launches())
def test_busy_time_is_the_sum_of_slices_which_do_not_overlap(launch: tuple[list[Core], SyncTimes]) -> None:
    cores, sync = launch
    timing = replay(cores, sync, timeline=True)
    assert sorted(timing.slices, key=repr) == sorted(reference.replay(cores, sync, timeline=True).slices, key=repr)
    spent: dict[tuple[int, int], int] = {}
    last: dict[tuple[int, int], int] = {}
    for s in timing.slices:
        key = (s.core, s.pipe)
        spent[key] = spent.get(key, 0) + s.end - s.start
        assert s.start >= last.get(key, 0)
        last[key] = s.end
    for k, busy in enumerate(timing.busy):
        for pipe, ps in enumerate(busy):
            assert spent.get((k, pipe), 0) == ps <= timing.end


# -- failures


def deadlock_text(*cores: Core, sync: SyncTimes = FREE) -> str:
    texts = set()
    for run in (replay, reference.replay, replay_cores):
        with pytest.raises(DeadlockError) as error:
            run(cores, sync)
        texts.add(str(error.value))
    assert len(texts) == 1
    return texts.pop()


def test_deadlock_names_the_wait_that_no_set_answers() -> None:
    b = TraceBuilder()
    b.execute(Pipe.MTE2, ScalarWork("0"))
    b.wait_flag(Pipe.MTE2, Pipe.V, 3, ("kernel.py", 12))
    b.execute(Pipe.V, ScalarWork("0"))
    text = deadlock_text(core(b, [1]))
    assert "AICORE pipe V (kernel.py:12) waits for flag MTE2->V id 3" in text
    assert "no further set_flag(MTE2, V, 3)" in text


def test_deadlock_names_the_set_that_is_not_reached() -> None:
    b = TraceBuilder()
    b.wait_flag(Pipe.MTE2, Pipe.S, 0, ("kernel.py", 5))
    b.set_flag(Pipe.MTE2, Pipe.S, 0, ("kernel.py", 9))
    text = deadlock_text(core(b, [1]))
    assert "missing set: set_flag(MTE2, S, 0) (kernel.py:9) is not reached" in text
    assert "pipe S (kernel.py:5)" in text


def test_deadlock_across_cores_names_the_core_that_owes_the_set() -> None:
    cube, first, second = TraceBuilder(), TraceBuilder(), TraceBuilder()
    cube.cross_wait(1, Pipe.FIX)
    first.cross_set(1, 2, Pipe.MTE3)
    second.execute(Pipe.V, ScalarWork("0"))
    cores = [core(cube, [1], kind="AIC"), core(first, [1], kind="AIV"), core(second, [1], kind="AIV")]
    assert "AIC pipe FIX waits for cross-core flag 1, missing its set by AIV1" in deadlock_text(*cores)


def test_one_cross_core_flag_in_two_modes_is_refused() -> None:
    a, b = TraceBuilder(), TraceBuilder()
    for builder in (a, b):
        builder.cross_set(0, 1, Pipe.V)
        builder.cross_set(0, 0, Pipe.V)
        builder.cross_wait(0, Pipe.V)
    with pytest.raises(TraceError, match="flag 0: set in modes"):
        replay([core(a, [1], kind="AIV"), core(b, [1], kind="AIV")], FREE)


def test_reference_unrolls_loops_in_program_order() -> None:
    b = TraceBuilder()
    b.code += [(Op.LOOP, 0, 2, -1), (Op.EXEC, 1, 0, -1), (Op.LOOP, 0, 3, -1), (Op.EXEC, 2, 0, -1)]
    b.code += [(Op.END, 0, 3, -1), (Op.END, 0, 2, -1)]
    assert [p for _, _, p, _ in reference.in_order(b.build())] == [1, 2, 2, 2] * 2


# -- well-formed programs, choice of engine


def raw(*code: tuple[int, int, int, int]) -> Core:
    columns = np.array(code, np.int32).reshape(-1, 4)
    op, pipe, arg = columns[:, 0].astype(np.uint8), columns[:, 1].astype(np.uint8), columns[:, 2].copy()
    return Core(Program(op, pipe, arg, ()), "AICORE", np.zeros(0, np.int64), np.zeros(0, np.int64))


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ([(Op.EXEC, Pipe.V, 0, -1)], "op 0, pipe 1, argument 0 is not a legal instruction"),
        ([(Op.EXEC, Pipe.ALL, 0, -1)], "not a legal instruction"),
        ([(Op.SET, Pipe.V, 5000, -1)], "not a legal instruction"),
        ([(Op.SET, Pipe.V, channel(Pipe.M, Pipe.V, 0), -1)], "not a legal instruction"),
        ([(Op.CROSS_SET, Pipe.V, 3, -1)], "not a legal instruction"),
        ([(Op.CROSS_WAIT, Pipe.V, 16, -1)], "not a legal instruction"),
        ([(Op.LOOP, 0, 0, -1), (Op.END, 0, 0, -1)], "not a legal instruction"),
        ([(Op.LOOP, 0, 2, -1)], "LOOP is never closed"),
        ([(Op.END, 0, 0, -1)], "END does not close the innermost LOOP"),
        ([(9, 0, 0, -1)], "not a legal instruction"),
    ],
)
def test_malformed_programs_are_refused_by_every_engine(code: list[tuple[int, int, int, int]], message: str) -> None:
    bad = raw(*code)
    for run in (replay, reference.replay, replay_cores):
        with pytest.raises(TraceError, match=message):
            run([bad], FREE)


def test_prices_must_fit_the_program() -> None:
    b = TraceBuilder()
    b.execute(Pipe.V, ScalarWork("0"))
    good = core(b, [1])
    with pytest.raises(TraceError, match="occupancy must be 1 times >= 0"):
        check([Core(good.program, "AIV", np.zeros(2, np.int64), good.latency)], FREE)
    with pytest.raises(TraceError, match="latency must be 1 times >= 0"):
        check([Core(good.program, "AIV", good.occupancy, np.array([-1], np.int64))], FREE)
    with pytest.raises(TraceError, match="queue depth"):
        check([good], SyncTimes(0, 0, 0, 0, 0, 0))
    with pytest.raises(TraceError, match="at least one program"):
        check([], FREE)


def test_the_engine_is_chosen_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASCEND_SIM_ENGINE", raising=False)
    assert engine_name() == ("native" if native.available() else "python")
    b = TraceBuilder()
    b.execute(Pipe.V, ScalarWork("0"))
    for name in ("python", "reference"):
        monkeypatch.setenv("ASCEND_SIM_ENGINE", name)
        assert engine_name() == name
        assert replay_cores([core(b, [7])], FREE).end == 7
    monkeypatch.setenv("ASCEND_SIM_ENGINE", "fpga")
    with pytest.raises(ValueError, match="ASCEND_SIM_ENGINE='fpga'"):
        engine_name()
    monkeypatch.setattr(native, "_native", None)
    monkeypatch.setenv("ASCEND_SIM_ENGINE", "native")
    with pytest.raises(ValueError, match="not built"):
        engine_name()
