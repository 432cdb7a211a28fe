"""Counters by Huawei's formulas: real rows of public profiles, and what must hold for any kernel."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.engine.result import KernelTiming
from ascend_sim.profiling import pmu
from ascend_sim.soc import load_soc

# Rows of kernel_details.csv in msprof-analyze's test data (910B, 1800 MHz, 20 AIC):
# blocks, aic_total_cycles, duration us, aicore_time us, cube_utilization %
MATMULS = [(16, 5295467, 185.504, 183.87, 79.295), (20, 17233251, 501.17, 478.701, 95.517)]


@pytest.mark.parametrize(("blocks", "cycles", "task_us", "core_us", "utilization"), MATMULS)
def test_times_of_real_matmul_rows(
    blocks: int, cycles: int, task_us: float, core_us: float, utilization: float
) -> None:
    assert pmu.aicore_time(cycles, 1800, blocks, 20) == pytest.approx(core_us, abs=0.005)
    assert pmu.cube_utilization(cycles, 1800, 20, task_us) == pytest.approx(utilization, abs=0.001)


def test_the_real_row_of_add_custom() -> None:
    """910A, from the tests of Ascend/mskpp: 8 blocks, 78923 cycles, 9.87 us, mte2 .3887, vec .0229."""
    assert pmu.aicore_time(78923, 1000, 8, 32) == pytest.approx(9.87, abs=0.005)
    assert pmu.memory_bound(0.3887, 0.0, 0.0229) == pytest.approx(16.97, abs=0.005)


PIPES = ("scalar", "vector", "mte1", "mte2", "mte3", "cube", "fixpipe", "aiv_scalar", "aiv_mte2")


@st.composite
def kernels(draw: st.DrawFn, kind: str, cores: int) -> KernelTiming:
    """A timing that a replay could return: no pipe busier than the mean core, none of those above the slowest."""
    blocks = draw(st.integers(1, 4 * cores))
    core = draw(st.integers(1_000, 10**9))
    mean = draw(st.integers(core // 2, core))
    busy = {p: draw(st.integers(0, mean)) for p in PIPES}
    return KernelTiming(
        name="k", kind=kind, blocks=blocks, cores_used=min(blocks, cores), head_ps=draw(st.integers(0, 10**7)),
        core_ps=core, mean_core_ps=mean, busy_ps=busy, gm_read=0, gm_write=0, l2_hit=0, hbm_bytes=0, mhz=1650.0,
        instructions=1, confidence="derived",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("chip", "kind", "core"),
    [("Ascend910B4", "AIC", "AIC"), ("Ascend910B4", "AIV", "AIV"), ("Ascend910B4", "MIX", "AIC"),
     ("Ascend910B4", "MIX", "AIV"), ("Ascend310P3", "AICORE", "AICORE"), ("Ascend910A", "AICORE", "AICORE")],
)  # fmt: skip
@given(st.data())
def test_what_holds_for_every_kernel(chip: str, kind: str, core: str, data: st.DataObject) -> None:
    soc = load_soc(chip)
    cores = soc.cores.vector_core_count if kind == "AIV" else soc.cores.ai_core_count
    timing = data.draw(kernels(kind, cores))
    found = pmu.counters(timing, core, soc)
    assert 0 < found.time_us <= timing.us
    for us, ratio in found.pipes.values():
        assert 0 <= ratio <= 1
        assert us == pytest.approx(found.time_us * ratio)
    whole = timing.mean_core_ps * timing.mhz / 1e6  # cycles of a core, which the counter rounds to a whole number
    assert 0 <= pmu.kernel_cube_utilization(timing, soc) <= 100 * (1 + 0.5 / max(whole, 0.5)) + 1e-3
    if core == "AICORE":
        assert found.memory_bound >= 0


def test_the_other_half_of_split_cores_counts_nothing() -> None:
    soc = load_soc("Ascend910B4")
    timing = KernelTiming("k", "AIV", 8, 8, 0, 10**6, 10**6, {"vector": 10**5, "mte2": 10**5}, 0, 0, 0, 0, 1650.0, 1,
                          "derived")  # fmt: skip
    cube = pmu.counters(timing, "AIC", soc)
    assert (cube.time_us, cube.total_cycles) == (0, 0)
    assert set(cube.pipes.values()) == {(0, 0)}
