"""Invariants of timed kernels over shapes and chips: rooflines, compulsory traffic, faster is never slower."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ascend_sim import ops
from ascend_sim.engine.memory import L2
from ascend_sim.engine.result import KernelTiming
from ascend_sim.engine.simulate import simulate_kernel
from ascend_sim.engine.trace import KernelTrace
from ascend_sim.ops.cost import traces
from ascend_sim.ops.registry import find
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.soc import Soc, load_soc, soc_names

FASTER = (
    "cores.clock_mhz", "memory.read_gbps", "memory.l2_read_gbps", "memory.l2_write_gbps",
    "memory.core_l1_bytes_per_cycle", "memory.core_ub_bytes_per_cycle", "memory.core_miss_bytes_per_cycle",
)  # fmt: skip
CHIPS = st.sampled_from(soc_names())


@pytest.fixture(scope="module", autouse=True)
def _registry() -> None:
    ops.load()


def call(op: str, *shapes: tuple[int, ...]) -> OpCall:
    inputs = tuple(TensorSpec(s, "float16") for s in shapes)
    definition = find(op)
    assert definition is not None
    return OpCall(op, inputs, tuple(definition.infer(inputs, {})))


SIZES = st.one_of(st.integers(1, 8).map(lambda n: 16 * n), st.sampled_from((128, 256, 496, 1024, 2048)))
CALLS = st.one_of(
    st.builds(lambda m, k, n: call("MatMulV2", (m, k), (k, n)), SIZES, SIZES, SIZES),
    st.builds(lambda m, n: call("Add", (m, n), (m, n)), SIZES, st.integers(1, 3000)),
    st.builds(lambda m, n: call("Exp", (m, n)), SIZES, st.integers(1, 3000)),
)


def rooflines_ps(op: OpCall, trace: KernelTrace, timing: KernelTiming, soc: Soc) -> dict[str, float]:
    """Lower bounds of the time inside the cores, stated without the engine."""
    cycle = 1e6 / soc.cores.clock_mhz
    cores = soc.cores.vector_core_count if trace.kind == "AIV" else soc.cores.ai_core_count
    bounds = {"memory": timing.hbm_bytes / max(soc.memory.read_gbps, soc.memory.write_gbps) * 1000}
    bounds["l2"] = (timing.gm_read - (timing.gm_read - timing.l2_hit)) / soc.memory.l2_read_gbps * 1000
    if op.type == "MatMulV2":
        (m, k), (_, n) = op.inputs[0].shape, op.inputs[1].shape  # type: ignore[union-attr]
        bounds["cube"] = m * k * n / 4096 * soc.cube.fp16_cycles_per_fractal * cycle / cores
    return bounds


def check_launches(op: OpCall, soc: Soc, key: str) -> None:
    launches = traces(op, soc)
    assume(launches)  # calls that a chip has no kernel for are estimated elsewhere
    figure = getattr(getattr(soc, key.split(".", maxsplit=1)[0]), key.split(".")[1])
    faster = soc.override({key: figure * 1.5})
    cold = L2(soc)
    written = sum(simulate_kernel(t, soc).gm_write for t in launches)
    assert written >= sum(spec.nbytes for spec in op.outputs)
    for trace in launches:
        timing = simulate_kernel(trace, soc, cold)
        assert timing.l2_hit + timing.hbm_bytes >= timing.gm_read
        for name, bound in rooflines_ps(op, trace, timing, soc).items():
            assert timing.core_ps >= bound * 0.999, name
        assert all(busy <= timing.core_ps for busy in timing.busy_ps.values())
        warm, quicker = simulate_kernel(trace, soc), simulate_kernel(trace, faster)
        assert warm.core_ps <= timing.core_ps
        assert quicker.core_ps <= warm.core_ps
        assert warm.gm_read == quicker.gm_read == timing.gm_read
        assert quicker.task_ps <= warm.task_ps
        current, other = (simulate_kernel(trace, chip, L2(soc)) for chip in (soc, faster))
        assert other.task_ps <= current.task_ps  # with what the launch costs, data in memory


@settings(max_examples=60, deadline=None)
@given(CALLS, CHIPS, st.sampled_from(FASTER))
def test_invariants(op: OpCall, chip: str, key: str) -> None:
    check_launches(op, load_soc(chip), key)


@pytest.mark.slow
@settings(max_examples=2000, deadline=None)
@given(CALLS, CHIPS, st.sampled_from(FASTER))
def test_invariants_of_many_kernels(op: OpCall, chip: str, key: str) -> None:
    check_launches(op, load_soc(chip), key)
