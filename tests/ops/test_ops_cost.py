"""Operator cost: traces once, addresses by argument, sums over launches, and the estimate's floor."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_sim import ops
from ascend_sim.engine.memory import L2
from ascend_sim.engine.trace import Block, GmArg, KernelTrace, TraceBuilder
from ascend_sim.isa.instr import MoveWork, Pipe, VectorWork
from ascend_sim.ops import cost, registry
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.soc import Soc, load_soc

ELEMENTS = 4096


class FakeLaunch:
    """Loads its input, adds, stores its output through a workspace argument."""

    made = 0

    def __init__(self, soc: Soc, args: tuple[tuple[str, int], ...]) -> None:
        self.kind = "AIV" if soc.chip.split_cores else "AICORE"
        self.args = args

    def trace(self) -> KernelTrace:
        FakeLaunch.made += 1
        b = TraceBuilder()
        nbytes = ELEMENTS * 2
        b.execute(Pipe.MTE2, MoveWork("GM_UB", 1, nbytes, gm=0))
        b.set_flag(Pipe.MTE2, Pipe.V, 0)
        b.wait_flag(Pipe.MTE2, Pipe.V, 0)
        b.execute(Pipe.V, VectorWork("vadd", "float16", nbytes // 256))
        b.set_flag(Pipe.V, Pipe.MTE3, 0)
        b.wait_flag(Pipe.V, Pipe.MTE3, 0)
        b.execute(Pipe.MTE3, MoveWork("UB_GM", 1, nbytes, gm=1))
        roles = {"in": "in", "out": "out", "workspace": "workspace"}
        gm = tuple(GmArg(f"a{i}", nbytes, roles[r]) for i, (r, _) in enumerate(self.args))
        return KernelTrace("fake", self.kind, (Block((b.build(),), (self.kind,)),), (0,), gm)

    def execute(self, buffers: Any) -> None:
        raise NotImplementedError


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> type[FakeLaunch]:
    """Relu planned as two launches: in -> workspace, workspace -> out."""
    ops.load()
    monkeypatch.setattr(cost, "_plans", OrderedDict())
    monkeypatch.setitem(
        registry._KERNELS,
        "Relu",
        lambda call, soc: [
            FakeLaunch(soc, (("in", 0), ("workspace", 0))),
            FakeLaunch(soc, (("workspace", 0), ("out", 0))),
        ],
    )
    FakeLaunch.made = 0
    return FakeLaunch


def relu(n: int = ELEMENTS) -> OpCall:
    return ops.call("Relu", [TensorSpec((n,), "float16")])


def test_launches_add_up_and_traces_are_made_once(fake: type[FakeLaunch]) -> None:
    soc = load_soc("Ascend910B2")
    first = cost.op_timing(relu(), soc)
    assert (len(first.kernels), first.estimated, first.reason) == (2, False, "")
    assert first.task_ps == sum(k.task_ps for k in first.kernels)
    assert first.us == pytest.approx(first.task_ps / 1e6)
    assert first.bytes() == {"gm_read": 4 * ELEMENTS, "gm_write": 4 * ELEMENTS, "l2_hit": first.l2_hit}
    assert set(first.pipes()) == {"scalar", "vector", "mte2", "mte3"}
    assert cost.op_timing(relu(), soc) == first
    assert fake.made == 2
    cost.op_timing(relu(), soc.override({"memory.read_gbps": 500.0}))  # only replayed
    assert fake.made == 2
    cost.op_timing(relu(), load_soc("Ascend310P3"))  # other instruction set: traced anew
    assert fake.made == 4


def test_addresses_reach_the_cache_by_argument(fake: type[FakeLaunch]) -> None:
    soc = load_soc("Ascend910B2")
    l2 = L2(soc)
    nbytes, far = ELEMENTS * 2, 1 << 35
    cold = cost.op_timing(relu(), soc, l2, [far, 2 * far])
    assert l2.access(far, nbytes, False) == 0, "the input is resident"
    assert l2.access(2 * far, nbytes, False) == 0, "the output is resident"
    assert cold.kernels[0].hbm_bytes > 0, "the input came from memory"
    assert cold.kernels[1].l2_hit > cold.kernels[0].l2_hit, "the workspace was found in the cache"
    warm = cost.op_timing(relu(), soc, l2, [far, 2 * far])
    assert warm.core_ps < cold.core_ps
    assert warm.gm_read == warm.l2_hit or warm.l2_hit > cold.l2_hit


def test_default_addresses_are_the_same_buffers_each_time(fake: type[FakeLaunch]) -> None:
    soc = load_soc("Ascend910B2")
    l2 = L2(soc)
    cold = cost.op_timing(relu(), soc, l2)
    assert cost.op_timing(relu(), soc, l2).us < cold.us


def test_wrong_number_of_addresses(fake: type[FakeLaunch]) -> None:
    with pytest.raises(ValueError, match=r"addresses has 1 entries; expected one per input and output of Relu: 2"):
        cost.op_timing(relu(), load_soc("Ascend910B2"), None, [0])


def test_a_plan_may_decline(fake: type[FakeLaunch], monkeypatch: pytest.MonkeyPatch) -> None:
    def decline(call: OpCall, soc: Soc) -> list[Any]:
        raise registry.NoKernel("odd shape")

    monkeypatch.setitem(registry._KERNELS, "Relu", decline)
    timing = cost.op_timing(relu(), load_soc("Ascend910B2"))
    assert timing.estimated and timing.reason == "odd shape" and timing.confidence == "guess"


def test_host_operators_and_empty_outputs_take_no_device_time() -> None:
    soc = load_soc("Ascend310")
    shape = TensorSpec((2,), "int64", const=bytes(16))
    timing = cost.op_timing(
        OpCall("Reshape", (TensorSpec((0,), "float16"), shape), (TensorSpec((0, 0), "float16"),)), soc
    )
    assert (timing.us, timing.estimated, timing.kernels) == (0, False, ())
    empty = ops.call("Relu", [TensorSpec((0, 3), "float16")])
    assert cost.op_timing(empty, soc).us == 0


def test_unknown_operator() -> None:
    with pytest.raises(ops.UnknownOpError, match="Frobnicate"):
        cost.op_timing(OpCall("Frobnicate", (), ()), load_soc("Ascend310"))


SOCS = ("Ascend310", "Ascend310P3", "Ascend910A", "Ascend910B4")


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(SOCS), st.sampled_from(["MatMulV2", "SoftmaxV2", "Sinh"]), st.tuples(*[st.integers(1, 2048)] * 3)
)
def test_estimate_is_flagged_and_never_beats_the_roofline(name: str, op: str, sizes: tuple[int, int, int]) -> None:
    """Floor from public figures: memory bandwidth, and 4096 fp16 multiply-accumulates a cycle and core."""
    soc, (m, k, n) = load_soc(name), sizes
    a, b = TensorSpec((m, k), "float16"), TensorSpec((k, n), "float16")
    call = ops.call(op, [a, b] if op == "MatMulV2" else [a])
    timing = cost._roofline(call, soc, L2(soc), cost._addresses(call, None), "none")
    assert timing.estimated and not timing.kernels and timing.confidence == "guess" and timing.reason
    read = sum(s.nbytes for s in call.inputs if s is not None)
    floor_us = read / soc.memory.read_gbps / 1e3
    if op == "MatMulV2":
        floor_us = max(floor_us, m * k * n / 4096 / soc.cores.ai_core_count / soc.cores.clock_mhz)
    assert timing.core_ps / 1e6 >= floor_us * 0.999
    assert timing.us >= timing.core_ps / 1e6 + soc.launch.head_us * 0.999
    assert timing.gm_read == read


def test_estimate_keeps_the_cache_up_to_date() -> None:
    soc = load_soc("Ascend910B2")
    l2 = L2(soc)
    call = ops.call("Sinh", [TensorSpec((1 << 20,), "float32")])
    first = cost._roofline(call, soc, l2, cost._addresses(call, None), "none")
    again = cost._roofline(call, soc, l2, cost._addresses(call, None), "none")
    assert first.l2_hit == 0 and again.l2_hit == again.gm_read
    assert again.core_ps < first.core_ps


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "macs"),
    [
        ("MatMulV2", [(8, 16), (16, 4)], {}, 8 * 16 * 4),
        ("BatchMatMulV2", [(3, 16, 8), (16, 4)], {"adj_x1": True}, 3 * 8 * 16 * 4),
        (
            "Conv2D",
            [(1, 8, 10, 10), (6, 4, 3, 3)],
            {"strides": [1] * 4, "pads": [1] * 4, "groups": 2, "data_format": "NCHW"},
            6 * 100 * 4 * 9,
        ),
        (
            "Conv2DTransposeD",
            [(1, 8, 5, 5), (8, 3, 2, 2)],
            {"strides": [1, 1, 2, 2], "pads": [0] * 4, "data_format": "NCHW"},
            8 * 25 * 3 * 4,
        ),
        (
            "DepthwiseConv2D",
            [(1, 8, 10, 10), (8, 1, 3, 3)],
            {"strides": [1] * 4, "pads": [1] * 4, "data_format": "NCHW"},
            8 * 100 * 9,
        ),
    ],
)
def test_multiply_accumulates(op: str, inputs: list, attrs: dict, macs: int) -> None:
    from ascend_sim.ops.work import work_of

    fmt = "NCHW" if "data_format" in attrs else "ND"
    call = ops.call(op, [TensorSpec(s, "float16", fmt) for s in inputs], attrs)
    found = ops.find(op)
    assert found is not None
    assert work_of(call, found.family).macs == macs


@pytest.mark.parametrize("name", ["Ascend910B2", "Ascend310P3", "Ascend910A", "Ascend310"])
def test_a_time_names_the_figures_it_rests_on(name: str) -> None:
    """The confidence word is that of the weakest figure, and a figure that is said to decide the time does."""
    soc = load_soc(name)
    call = ops.call("MatMulV2", [TensorSpec((1024, 1024), "float16")] * 2, {})
    timing = cost.op_timing(call, soc)
    counts = timing.figures(soc)
    assert sum(counts.values()) == len(timing.rests_on())
    assert timing.confidence == next(word for word in reversed(list(counts)) if counts[word])
    slower = cost.op_timing(call, soc.override({"cube.fp16_cycles_per_fractal": 4.0}))
    assert slower.us > timing.us
    assert slower.rests_on()["cube.fp16_cycles_per_fractal"] > timing.rests_on()["cube.fp16_cycles_per_fractal"]
