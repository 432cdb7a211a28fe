"""Kernel times: waves, heads, memory state, reporting."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ascend_sim.engine.machine import DeadlockError
from ascend_sim.engine.memory import L2
from ascend_sim.engine.simulate import head_ps, simulate_kernel
from ascend_sim.engine.trace import Block, GmArg, KernelTrace, Program, TraceBuilder
from ascend_sim.isa.instr import CubeWork, MoveWork, Pipe, ScalarWork, VectorWork
from ascend_sim.soc import Soc, load_soc, soc_names


def gemm_program(k_tiles: int, tiles: int, k_step: int = 4) -> Program:
    """Double-buffered 128 x 256 base tiles: 256 deep in L1, 64 deep in L0."""
    b = TraceBuilder()
    for i in (0, 1):
        b.set_flag(Pipe.MTE1, Pipe.MTE2, i)
        b.set_flag(Pipe.M, Pipe.MTE1, i)
    for _ in b.steady(range(tiles)):
        for k in b.steady(range(k_tiles)):
            s = k % 2
            b.wait_flag(Pipe.MTE1, Pipe.MTE2, s)
            b.execute(Pipe.MTE2, MoveWork("GM_L1", 128, 512, gm=0, mode="nd2nz"))
            b.execute(Pipe.MTE2, MoveWork("GM_L1", 256, 512, gm=1, mode="nd2nz"))
            b.set_flag(Pipe.MTE2, Pipe.MTE1, s)
            b.wait_flag(Pipe.MTE2, Pipe.MTE1, s)
            for j in range(k_step):
                u = j % 2
                b.wait_flag(Pipe.M, Pipe.MTE1, u)
                b.execute(Pipe.MTE1, MoveWork("L1_L0A", 1, 128 * 64 * 2))
                b.execute(Pipe.MTE1, MoveWork("L1_L0B", 1, 256 * 64 * 2))
                b.set_flag(Pipe.MTE1, Pipe.M, u)
                b.wait_flag(Pipe.MTE1, Pipe.M, u)
                b.execute(Pipe.M, CubeWork("float16", 8, 4, 16))
                b.set_flag(Pipe.M, Pipe.MTE1, u)
            b.set_flag(Pipe.MTE1, Pipe.MTE2, s)
        b.set_flag(Pipe.M, Pipe.FIX, 0)
        b.wait_flag(Pipe.M, Pipe.FIX, 0)
        b.execute(Pipe.FIX, MoveWork("L0C_GM", 1, 128 * 256 * 2, gm=2, mode="nz2nd"))
        b.set_flag(Pipe.FIX, Pipe.M, 0)
        b.wait_flag(Pipe.FIX, Pipe.M, 0)
    return b.build()


def gemm(size: int, cores: int = 24) -> KernelTrace:
    """size^3 in fp16 on the busiest core's share of 128 x 256 tiles."""
    tiles = -(-(size // 128) * (size // 256) // cores)
    nbytes = size * size * 2
    args = (GmArg("a", nbytes, "in"), GmArg("b", nbytes, "in"), GmArg("c", nbytes, "out"))
    block = Block((gemm_program(size // 256, tiles),), ("AIC",))
    return KernelTrace("gemm", "AIC", (block,), (0,) * cores, args)


def vector_trace(lengths: list[int], kind: str = "AIV") -> KernelTrace:
    """Blocks of one vector instruction repeated; equal lengths share a block."""
    distinct = sorted(set(lengths))
    blocks = []
    for n in distinct:
        b = TraceBuilder()
        for _ in b.steady(range(n)):
            b.execute(Pipe.V, VectorWork("vadd", "float32", 100))
        blocks.append(Block((b.build(),), (kind,)))
    return KernelTrace("vec", kind, tuple(blocks), tuple(distinct.index(n) for n in lengths), ())


@pytest.fixture(scope="module")
def b2() -> Soc:
    return load_soc("Ascend910B2")


@pytest.mark.parametrize(("size", "measured_us"), [(4096, 526.0), (8192, 4038.4)])
def test_large_gemm_against_public_times(b2: Soc, size: int, measured_us: float) -> None:
    """cann-bench, 910B2, fp16, L2 flushed before each run; same tile as the stock kernel's."""
    timing = simulate_kernel(gemm(size), b2, L2(b2))
    assert timing.us == pytest.approx(measured_us, rel=0.10)
    assert timing.bound == "mte2"
    assert timing.confidence in ("derived", "guess")


def test_results_respect_rooflines_and_report_traffic(b2: Soc) -> None:
    timing = simulate_kernel(gemm(4096), b2, L2(b2))
    assert timing.core_ps >= 4096**3 * 2 / (24 * 4096 * 2 * 1800e6) * 1e12 * (512 / (24 * 22))
    assert timing.core_ps >= timing.hbm_bytes / b2.memory.read_gbps * 1000
    assert timing.hbm_bytes == 2 * 4096 * 4096 * 2
    assert timing.gm_read == timing.l2_hit + 2 * 4096 * 4096 * 2
    assert set(timing.busy_ps) == {"scalar", "mte1", "mte2", "cube", "fixpipe"}


def test_cold_costs_more_than_warm_and_state_survives(b2: Soc) -> None:
    l2, trace = L2(b2), gemm(1024)
    cold = simulate_kernel(trace, b2, l2)
    warm = simulate_kernel(trace, b2, l2)
    assert cold.us > warm.us
    assert warm.hbm_bytes == 0
    assert simulate_kernel(trace, b2).core_ps == warm.core_ps
    assert 0 < cold.head_ps - warm.head_ps <= round(b2.launch.cold_icache_us * 1e6)


def test_blocks_beyond_the_cores_form_waves(b2: Soc) -> None:
    one = simulate_kernel(vector_trace([50]), b2)
    assert simulate_kernel(vector_trace([50] * 48), b2).core_ps == one.core_ps
    assert simulate_kernel(vector_trace([50] * 49), b2).core_ps == 2 * one.core_ps
    # a free core takes the next block: 47 cores do 100, one does 10 and then another 100
    uneven = simulate_kernel(vector_trace([100] * 47 + [10] + [100]), b2)
    assert uneven.core_ps == pytest.approx(simulate_kernel(vector_trace([110]), b2).core_ps, rel=0.02)


def test_mean_over_cores_and_makespan_differ(b2: Soc) -> None:
    timing = simulate_kernel(vector_trace([100] + [50] * 3), b2)
    assert timing.mean_core_ps == pytest.approx(timing.core_ps * 2.5 / 4, rel=0.02)
    assert timing.cores_used == 4


def test_head_grows_with_blocks_and_mix(b2: Soc) -> None:
    assert head_ps(b2, "AIV", 48) > head_ps(b2, "AIV", 1)
    assert head_ps(b2, "MIX", 24) > head_ps(b2, "AIC", 24)
    # public profiles: 0.51 to 0.54 us with one block, 1.8 to 2.6 with 25 to 48
    assert 0.4e6 < head_ps(b2, "AIV", 1) < 0.6e6
    assert 1.6e6 < head_ps(b2, "AIV", 40) < 2.8e6


def mix_trace(sets: int = 1) -> KernelTrace:
    cube, programs = TraceBuilder(), []
    cube.execute(Pipe.M, CubeWork("float16", 8, 8, 8))
    cube.execute(Pipe.MTE2, MoveWork("GM_L1", 1, 4096, gm=0))
    for _ in range(sets):
        cube.cross_set(0, 2, Pipe.FIX)
    for _ in range(2):
        v = TraceBuilder()
        v.cross_wait(0, Pipe.MTE2)
        v.execute(Pipe.MTE2, MoveWork("GM_UB", 1, 4096, gm=0))
        v.execute(Pipe.V, VectorWork("vadd", "float32", 100))
        programs.append(v.build())
    block = Block((cube.build(), *programs), ("AIC", "AIV", "AIV"))
    return KernelTrace("mix", "MIX", (block,), (0,) * 4, (GmArg("x", 4096, "in"),))


def test_mix_kernels_report_both_kinds_of_core(b2: Soc) -> None:
    timing = simulate_kernel(mix_trace(), b2)
    assert {"cube", "mte2", "vector", "aiv_mte2", "scalar", "aiv_scalar"} == set(timing.busy_ps)
    with pytest.raises(DeadlockError, match="AIV0 pipe MTE2 waits for cross-core flag 0, missing its set by AIC"):
        simulate_kernel(mix_trace(0), b2)


def test_a_flag_for_all_cores_joins_different_blocks(b2: Soc) -> None:
    blocks = []
    for n in (10, 1000):
        b = TraceBuilder()
        for _ in b.steady(range(n)):
            b.execute(Pipe.V, VectorWork("vadd", "float32", 100))
        b.cross_set(5, 0, Pipe.V)
        b.cross_wait(5, Pipe.V)
        b.execute(Pipe.V, VectorWork("vadd", "float32", 100))
        blocks.append(Block((b.build(),), ("AIV",)))
    trace = KernelTrace("sync", "AIV", tuple(blocks), (0, 0, 1), ())
    joined = simulate_kernel(trace, b2)
    assert joined.mean_core_ps == joined.core_ps
    assert joined.core_ps > simulate_kernel(vector_trace([1000]), b2).core_ps


def test_timeline_holds_every_instruction_of_a_block(b2: Soc) -> None:
    timing = simulate_kernel(gemm(1024, 24), b2, timeline=True)
    assert sum(1 for s in timing.slices if s.pipe == Pipe.M) == 2 * 4 * 4
    assert max(s.end for s in timing.slices) <= timing.core_ps


def test_stand_alone_vector_cores_are_used_on_request() -> None:
    soc = load_soc("Ascend310P3")
    trace = vector_trace([100] * 15, "AICORE")
    assert simulate_kernel(trace, soc).cores_used == 8
    assert simulate_kernel(trace, soc, vector_cores=True).cores_used == 15


@pytest.mark.parametrize("name", soc_names())
def test_faster_chips_are_never_slower(name: str) -> None:
    soc = load_soc(name)
    kind = "AIV" if soc.chip.split_cores else "AICORE"
    trace = vector_trace([30] * 8, kind)
    faster = soc.override({"cores.clock_mhz": soc.cores.clock_mhz * 1.37, "memory.read_gbps": soc.memory.read_gbps * 3})
    assert simulate_kernel(trace, faster).core_ps <= simulate_kernel(trace, soc).core_ps


def test_same_inputs_same_times(b2: Soc) -> None:
    first, second = (simulate_kernel(gemm(2048), b2, L2(b2)) for _ in range(2))
    assert first == second


def test_scalar_work_by_class_of_kernel(b2: Soc) -> None:
    """A start delays a whole kernel and counts as scalar time; operands slow every instruction; routines have a price
    of their own."""
    trace = vector_trace([10])
    plain, marked = (replace(trace, code=code) for code in ("", "norm"))
    chip = b2.override({"scalar.start.norm": 1800, "scalar.operands.norm": 0})
    base, later = simulate_kernel(plain, chip), simulate_kernel(marked, chip, timeline=True)
    assert later.core_ps - base.core_ps == 1_000_000  # 1800 cycles at 1800 MHz
    assert later.busy_ps["scalar"] - base.busy_ps["scalar"] == 1_000_000
    assert later.busy_ps["vector"] == base.busy_ps["vector"]
    assert min(s.start for s in later.slices) >= 1_000_000
    assert "scalar.start.norm" in dict(later.rests_on)
    slow = simulate_kernel(marked, b2.override({"scalar.start.norm": 0, "scalar.operands.norm": 1800}))
    assert slow.busy_ps["scalar"] - base.busy_ps["scalar"] == 1_000_000 * marked.executed

    b = TraceBuilder()
    b.execute(Pipe.S, ScalarWork("root", 3))
    b.execute(Pipe.S, ScalarWork("unknown", 2))
    block = KernelTrace("s", "AIV", (Block((b.build(),), ("AIV",)),), (0,), ())
    chip = b2.override({"scalar.work.root": 90})
    cycles = round(simulate_kernel(block, chip).busy_ps["scalar"] * 1800 / 1e6)
    assert cycles == 3 * 90 + 2 * 3 + 2 * 3  # routines, plain instructions, the issue of both
