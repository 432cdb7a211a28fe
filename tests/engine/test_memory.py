"""The L2 model: residency, write-back, and what a launch pays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_sim.engine.memory import CHUNK_BYTES, L2, plan_memory
from ascend_sim.engine.trace import Block, GmArg, KernelTrace, TraceBuilder
from ascend_sim.isa.instr import MoveWork, Pipe
from ascend_sim.soc import Soc, load_soc

MB = 1 << 20


@pytest.fixture(scope="module")
def soc() -> Soc:
    """The chip with the replacement whose outcome can be worked out by hand."""
    return load_soc("Ascend910B2").override({"memory.l2_policy": "lru"})


def copy_trace(read: int, write: int, passes: int = 1) -> KernelTrace:
    """A kernel that reads argument 0 ``passes`` times and writes argument 1 once, in 16 KiB moves."""
    b = TraceBuilder()
    for _ in b.steady(range(passes * (read >> 14))):
        b.execute(Pipe.MTE2, MoveWork("GM_UB", 1, 1 << 14, gm=0))
    for _ in b.steady(range(write >> 14)):
        b.execute(Pipe.MTE3, MoveWork("UB_GM", 1, 1 << 14, gm=1))
    block = Block((b.build(),), ("AIV",))
    return KernelTrace("copy", "AIV", (block,), (0,), (GmArg("x", read, "in"), GmArg("y", write, "out")))


def test_reads_miss_once_and_writes_never_fetch(soc: Soc) -> None:
    l2 = L2(soc)
    assert l2.access(0, MB, False) == MB
    assert l2.access(0, MB, False) == 0
    assert l2.access(8 * MB, MB, True) == 0
    assert l2.access(8 * MB, MB, False) == 0
    assert l2.written_back == 0
    assert l2.dirty_bytes == MB


def test_dirty_data_costs_traffic_when_it_is_evicted(soc: Soc) -> None:
    l2 = L2(soc)
    l2.access(0, 16 * MB, True)
    l2.access(1 << 30, soc.memory.l2_bytes - 8 * MB, False)
    assert l2.written_back == 8 * MB
    l2.discard(8 * MB, 8 * MB)
    l2.access(1 << 31, soc.memory.l2_bytes, False)
    assert l2.written_back == 8 * MB


def test_flush_leaves_nothing(soc: Soc) -> None:
    l2 = L2(soc)
    l2.access(0, MB, True)
    assert l2.first_run("k")
    assert not l2.first_run("k")
    l2.flush_cold()
    assert l2.access(0, MB, False) == MB
    assert l2.first_run("k")


@pytest.mark.parametrize(("read", "write"), [(32, 32), (192, 192), (400, 100), (64, 512)])
def test_write_back_follows_the_closed_form_fitted_to_cold_kernels(soc: Soc, read: int, write: int) -> None:
    """wb = W - W min(1, L2 / (R + W)), which reproduces 43 public elementwise times measured after a flush."""
    plan = plan_memory(copy_trace(read * MB, write * MB), soc, L2(soc), [0, 1 << 32])
    r, w, size = read * MB, write * MB, soc.memory.l2_bytes
    assert plan.missed == r
    assert plan.written_back == pytest.approx(w - w * min(1, size / (r + w)), abs=0.05 * w)


def test_second_run_hits_and_repeated_passes_miss_once(soc: Soc) -> None:
    l2, trace = L2(soc), copy_trace(16 * MB, 16 * MB, passes=4)
    first = plan_memory(trace, soc, l2, None)
    assert (first.missed, first.read, first.l2_hit) == (16 * MB, 64 * MB, 48 * MB)
    assert first.miss == {0: first.miss[0]}
    assert float(first.miss[0]) == 0.25
    second = plan_memory(trace, soc, l2, None)
    assert (second.missed, second.hbm_bytes) == (0, 0)


def test_without_a_cache_everything_hits(soc: Soc) -> None:
    plan = plan_memory(copy_trace(MB, MB), soc, None, None)
    assert (plan.l2_hit, plan.hbm_bytes, plan.miss) == (MB, 0, {})


def test_wrong_number_of_addresses_is_refused(soc: Soc) -> None:
    with pytest.raises(ValueError, match="addresses: 1 given, kernel copy has 2"):
        plan_memory(copy_trace(MB, MB), soc, L2(soc), [0])


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40 * CHUNK_BYTES), st.integers(1, 9 * CHUNK_BYTES), st.booleans()), max_size=40)
)
def test_against_a_list_of_chunks(accesses: list[tuple[int, int, bool]]) -> None:
    """The same cache with a plain list and a per-byte count of misses."""
    soc = load_soc("Ascend910B2").override({"memory.l2_bytes": 6 * CHUNK_BYTES, "memory.l2_policy": "lru"})
    l2, recent, dirty, back = L2(soc), [], set(), 0
    for base, nbytes, write in accesses:
        missed = 0
        for chunk in range(base // CHUNK_BYTES, (base + nbytes - 1) // CHUNK_BYTES + 1):
            if chunk in recent:
                recent.remove(chunk)
            else:
                inside = np.clip([base, base + nbytes], chunk * CHUNK_BYTES, (chunk + 1) * CHUNK_BYTES)
                missed += int(inside[1] - inside[0])
                if len(recent) == 6:
                    gone = recent.pop(0)
                    back += CHUNK_BYTES * (gone in dirty)
                    dirty.discard(gone)
            recent.append(chunk)
            if write:
                dirty.add(chunk)
        assert l2.access(base, nbytes, write) == (0 if write else missed)
    assert l2.written_back == back


@pytest.mark.parametrize("share", [1.25, 1.5, 2.0, 4.0])
def test_random_replacement_keeps_a_part_of_a_stream_longer_than_the_cache(share: float) -> None:
    """Misses m of a stream read over and over, in the long run: m = 1 - exp(-m d) for d cache sizes."""
    random = load_soc("Ascend910B2").override({"memory.l2_bytes": 2048 * CHUNK_BYTES, "memory.l2_policy": "random"})
    l2, nbytes = L2(random), int(share * 2048) * CHUNK_BYTES
    for _ in range(20):
        l2.access(0, nbytes, False)
    missed = sum(l2.access(0, nbytes, False) for _ in range(10)) / nbytes / 10
    assert missed == pytest.approx(1 - np.exp(-missed * share), abs=0.03)
    assert l2.resident_bytes == 2048 * CHUNK_BYTES
