"""Variants of a chip share replays and prices only where they agree in all that those depend on."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest

from ascend_sim.engine.memory import L2
from ascend_sim.engine.result import KernelTiming
from ascend_sim.engine.simulate import simulate_kernel
from ascend_sim.engine.trace import Block, GmArg, KernelTrace, TraceBuilder
from ascend_sim.engine.variants import BEHIND_L2, core_key, replay_key
from ascend_sim.isa.instr import CubeWork, MoveWork, Pipe, ScalarWork, VectorWork
from ascend_sim.soc import Soc, SocError, load_soc

PLACES = (1 << 30, 1 << 31, 1 << 32)
SIZE = 1 << 20


def launch() -> KernelTrace:
    """Six blocks that read two arguments, one of them in short rows and twice, compute on all units and write one."""
    b = TraceBuilder()
    for i in b.steady(range(6)):
        b.execute(Pipe.MTE2, MoveWork("GM_UB", 64, 64, gm=0), offset=i % 3 * 4096)
        b.execute(Pipe.MTE2, MoveWork("GM_L1", 8, 1024, gm=1), offset=i * 8192)
        b.execute(Pipe.S, ScalarWork("", 3))
        b.execute(Pipe.MTE1, MoveWork("L1_L0A", 4, 4096))
        b.execute(Pipe.M, CubeWork("float16", 4, 4, 4))
        b.execute(Pipe.V, VectorWork("vadd", "float16", 16, bank_conflicts=2))
        b.execute(Pipe.MTE3, MoveWork("UB_GM", 16, 256, gm=2), offset=i * 4096)
    args = (GmArg("a", SIZE, "in"), GmArg("b", SIZE, "in"), GmArg("c", SIZE, "out"))
    return KernelTrace("all", "AICORE", (Block((b.build(),), ("AICORE",)),), (0,) * 6, args)


def variants(soc: Soc) -> Iterator[tuple[str, Soc]]:
    """The chip with one figure changed, for every figure that is a number and may change."""
    for key, figure in soc.figures.items():
        value = figure.value
        keys = [f"{key}.bytes_per_cycle", f"{key}.latency_cycles"] if key.startswith("mte.paths.") else [key]
        for name in keys:
            changed: object = None
            if name != key:
                changed = 7.0
            elif isinstance(value, tuple):
                changed = [v + 1 for v in value]
            elif isinstance(value, int | float) and not isinstance(value, bool):
                changed = value + 1 if isinstance(value, int) else value * 1.25 + 0.125
            if changed is None:
                continue
            try:
                yield name, soc.override({name: changed})
            except SocError:
                continue


def times(trace: KernelTrace, soc: Soc) -> list[KernelTiming]:
    """With everything in L2, from a cold one, and from one full of data that has to leave."""
    found = [simulate_kernel(trace, soc)]
    for full in (False, True):
        l2 = L2(soc)
        if full:
            l2.fill_dirty()
        found += [simulate_kernel(trace, soc, l2, PLACES) for _ in range(2)]
    return found


@pytest.mark.parametrize("name", ["Ascend310P3", "Ascend310"])
def test_shared_replays_are_those_of_a_launch_seen_for_the_first_time(name: str) -> None:
    soc, shared = load_soc(name), launch()
    before = times(shared, soc)
    changed = set()
    for key, variant in variants(soc):
        found = times(shared, variant)
        assert found == times(copy.deepcopy(shared), variant), key
        if [t.busy_ps for t in found] != [t.busy_ps for t in before]:
            changed.add(key)
    assert {"cores.clock_mhz", "memory.read_gbps", "cube.fp16_cycles_per_fractal", "sync.issue_cycles"} <= changed


def test_memory_matters_only_to_launches_that_miss() -> None:
    soc = load_soc("Ascend910B2")
    slow = soc.override({"memory.hbm_gbps": 100.0})
    assert replay_key(soc, misses=False) == replay_key(slow, misses=False)
    assert replay_key(soc, misses=True) != replay_key(slow, misses=True)
    assert core_key(soc) == core_key(slow) != core_key(soc.override({"cores.clock_mhz": 1000.0}))


def test_figures_behind_l2_exist() -> None:
    figures = {key.removeprefix("memory.") for key in load_soc("Ascend910B2").figures if key.startswith("memory.")}
    assert figures >= BEHIND_L2
