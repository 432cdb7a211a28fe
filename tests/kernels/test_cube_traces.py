"""Traces of the cube kernels: folding changes nothing, tilings and times against published figures."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from ascend_sim.kernels._matmul_tiling import CubeBuffers, MatmulProblem, tile
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ascend_sim import asc, ops
from ascend_sim.engine.memory import L2
from ascend_sim.engine.simulate import simulate_kernel
from ascend_sim.engine.trace import KernelTrace
from ascend_sim.isa.instr import MoveWork, Work
from ascend_sim.ops.cost import op_timing
from ascend_sim.ops.registry import find_kernel
from ascend_sim.ops.schema import OpCall, TensorSpec, freeze_attrs
from ascend_sim.soc import load_soc

CHIPS = ("Ascend310", "Ascend310P3", "Ascend910A", "Ascend310B1", "Ascend910B2")
ops.load()


def blocked(n: int, c: int, h: int, w: int) -> TensorSpec:
    return TensorSpec((n, -(-c // 16), h, w, 16), "float16", "NC1HWC0", (n, c, h, w), "NCHW")


def conv(n: int, c: int, o: int, size: int, k: int, stride: int, steps: Any = (("relu",),)) -> OpCall:
    out = (size + 2 * (k // 2) - k) // stride + 1
    y = blocked(n, o, out, out)
    w = TensorSpec((-(-c // 16) * k * k, -(-o // 16), 16, 16), "float16", "FRACTAL_Z", (o, c, k, k), "NCHW")
    inputs = [blocked(n, c, size, size), w, TensorSpec((o,), "float16"), *([y] if ("add",) in steps else [])]
    attrs = {"strides": (1, 1, stride, stride), "pads": (k // 2,) * 4, "data_format": "NCHW", "epilogue": steps}
    return OpCall("Conv2D", tuple(inputs), (y,), freeze_attrs(attrs))


def depthwise(n: int, c: int, size: int, k: int) -> OpCall:
    w = TensorSpec((-(-c // 16) * k * k, 1, 16, 16), "float16", "FRACTAL_Z", (c, 1, k, k), "NCHW")
    attrs = {"strides": (1, 1, 1, 1), "pads": (k // 2,) * 4, "data_format": "NCHW"}
    x = blocked(n, c, size, size)
    return OpCall("DepthwiseConv2D", (x, w, TensorSpec((c,), "float16")), (x,), freeze_attrs(attrs))


def transposed(n: int, c: int, o: int, size: int) -> OpCall:
    w = TensorSpec((-(-o // 16) * 16, -(-c // 16), 16, 16), "float16", "FRACTAL_Z", (c, o, 4, 4), "NCHW")
    attrs = {"strides": (1, 1, 2, 2), "pads": (1, 1, 1, 1), "data_format": "NCHW"}
    y = blocked(n, o, 2 * size, 2 * size)
    inputs = (blocked(n, c, size, size), w, TensorSpec((o,), "float16"))
    return OpCall("Conv2DTransposeD", inputs, (y,), freeze_attrs(attrs))


def matmul(m: int, k: int, n: int, dtype: str = "float16") -> OpCall:
    return ops.call("MatMulV2", [TensorSpec((m, k), dtype), TensorSpec((k, n), dtype)])


def trace(call: OpCall, chip: str) -> KernelTrace:
    plan = find_kernel(call.type)
    assert plan is not None
    (launch,) = plan(call, load_soc(chip))
    return launch.trace()


def plain(start: int, stop: int | None = None, step: int = 1, tail: int = 2) -> Iterator[int]:
    return iter(range(start) if stop is None else range(start, stop, step))


def work_counts(traced: KernelTrace) -> dict[tuple[str, Work], int]:
    total: dict[tuple[str, Work], int] = {}
    for index in traced.block_of:
        for kind, program in zip(traced.blocks[index].kinds, traced.blocks[index].programs, strict=True):
            for work, n in zip(program.works, program.counts.tolist(), strict=True):
                if isinstance(work, MoveWork) and work.align >= 32:  # iterations that differ in this alone fold
                    work = work._replace(align=32)  # noqa: PLW2901
                total[kind, work] = total.get((kind, work), 0) + n
    return total


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(CHIPS), st.integers(0, 3), st.sampled_from((1, 3, 8)), st.integers(1, 12), st.integers(1, 12),
    st.sampled_from((7, 14, 20)), st.sampled_from((1, 3)), st.integers(1, 2),
    st.sampled_from((("relu",), ("swish",))), st.booleans(),
)  # fmt: skip
def test_folding_changes_nothing(
    chip: str, kind: int, n: int, c1: int, o1: int, size: int, k: int, stride: int, step: Any, residual: bool
) -> None:
    """A folded trace executes the works of the unfolded one, and takes the same time but for 512-byte alignment."""
    steps = (("add",), step) if residual and step == ("relu",) else (step,)
    call = (
        conv(n, c1 * 16, o1 * 16, size, k, stride, steps), depthwise(n, c1 * 16, size, 3),
        transposed(n, c1 * 16, o1 * 16, min(size, 14)), matmul(n * size, c1 * 64, o1 * 48),
    )[kind]  # fmt: skip
    assume(not (residual and chip == "Ascend910B2"))
    folded = trace(call, chip)
    steady = asc.steady
    asc.steady = plain
    try:
        whole = trace(call, chip)
    finally:
        asc.steady = steady
    assert work_counts(folded) == work_counts(whole)
    soc = load_soc(chip)
    assert simulate_kernel(folded, soc).core_ps == pytest.approx(simulate_kernel(whole, soc).core_ps, rel=0.02)


# M x K x N, A and B transposed -> base M, N, K and steps (hicann/ops-nn, expectations of its MatMulV3 tiling
# tests; the last one comes from the older tiler)
GOLDEN = (
    ((8192, 8192, 8192, False, False), (128, 256, 64, 8, 4)),
    ((8192, 3072, 1536, False, False), (128, 256, 64, 4, 4)),
    ((1024, 256, 768, True, False), (256, 128, 64, None, None)),
    ((150, 1024, 131328, False, False), (128, 128, 64, 8, 8)),
    ((16384, 5121, 1709, False, False), (128, 256, 64, 8, 4)),
    ((640, 513, 320, False, False), (128, 80, 64, 8, 8)),
    ((121926, 64, 64, False, False), (128, 64, 64, 1, 1)),
    ((32, 1408, 11264, False, True), (32, 128, 128, 2, 2)),
)


@pytest.mark.parametrize(("shape", "expected"), GOLDEN)
def test_stock_tilings(shape: Any, expected: Any) -> None:
    m, k, n, ta, tb = shape
    found = tile(MatmulProblem(m, k, n, trans_a=ta, trans_b=tb), CubeBuffers(65536, 65536, 131072, 524288, 24, True))
    got = (found.base_m, found.base_n, found.base_k, found.step_ka, found.step_kb)
    assert all(e is None or e == g for e, g in zip(expected, got, strict=True)), found


def test_few_rows_take_a_divisor_of_the_columns() -> None:
    """Cores of the older tiler: 22 for 11264 columns (expectation of hicann/ops-nn), 16 and 24 for the float32 layers
    of an AlexNet training profile (mac times of Ascend/msinsight's sample)."""
    buffers = CubeBuffers(65536, 65536, 131072, 524288, 24, True)
    for (m, k, n), item, tb, cores in (
        ((32, 1408, 11264), 2, True, 22), ((32, 9216, 4096), 4, True, 16), ((32, 4096, 9216), 4, False, 24),
    ):  # fmt: skip
        assert tile(MatmulProblem(m, k, n, item=item, trans_b=tb), buffers).cores == cores


def test_cold_float32_weights() -> None:
    """Layers of the same profile, whose weights may or may not lie in L2: 357, 58.1 and 290 us."""
    soc = load_soc("Ascend910B2")
    for m, k, n, tb, us in ((32, 9216, 4096, True, 357), (32, 4096, 1000, True, 58.1), (32, 4096, 9216, False, 290)):
        shape = (n, k) if tb else (k, n)
        inputs = [TensorSpec((m, k), "float32"), TensorSpec(shape, "float32")]
        call = ops.call("MatMulV2", inputs, {"transpose_x2": tb})
        l2 = L2(soc)
        l2.fill_dirty()
        assert op_timing(call, soc).us < us < op_timing(call, soc, l2).us * 1.1


# us of public MatMulV2 / MatMulV3 profiles (cann-bench on 910B2, inputs cold; asc-devkit sample on 910B1)
MEASURED = (
    ("Ascend910B2", 1024, 1024, 1024, "float16", 15.65), ("Ascend910B2", 4096, 4096, 4096, "float16", 525.95),
    ("Ascend910B2", 8192, 8192, 8192, "float16", 4038.4), ("Ascend910B2", 2048, 4096, 2048, "bfloat16", 156.5),
    ("Ascend910B2", 1, 4096, 4096, "float16", 29.93), ("Ascend910B2", 128, 4096, 4096, "float16", 34.55),
    ("Ascend910B2", 512, 4096, 4096, "float16", 95.29), ("Ascend910B1", 8192, 8192, 8192, "float16", 4081.6),
)  # fmt: skip


@pytest.mark.parametrize(("chip", "m", "k", "n", "dtype", "us"), MEASURED)
def test_matmul_times(chip: str, m: int, k: int, n: int, dtype: str, us: float) -> None:
    soc = load_soc(chip)
    l2 = L2(soc)
    l2.flush_cold()
    timing = op_timing(matmul(m, k, n, dtype), soc, l2)
    assert timing.us == pytest.approx(us, rel=0.15)
    assert not timing.estimated
    if m * n * k >= 4096**3:
        assert timing.bound == "mte2"


def test_large_matmul_keeps_the_cube_busy() -> None:
    """mac time of the 8192^3 sample on 910B1: 3082 us."""
    timing = simulate_kernel(trace(matmul(8192, 8192, 8192), "Ascend910B1"), load_soc("Ascend910B1"))
    assert timing.busy_ps["cube"] / 1e6 == pytest.approx(3082.2, rel=0.03)


# AlexNet training profile on 910B2: float32 in blocks of 8 channels, batch 32
ALEXNET = (
    (64, 192, 27, 5, 158.7, 123.2), (192, 384, 13, 3, 77.9, 64.1), (384, 256, 13, 3, 103.7, 85.9),
)  # fmt: skip


@pytest.mark.parametrize(("c", "o", "size", "k", "us", "mac"), ALEXNET)
def test_convolution_times(c: int, o: int, size: int, k: int, us: float, mac: float) -> None:
    x = TensorSpec((32, c // 8, size, size, 8), "float32", "NC1HWC0", (32, c, size, size), "NCHW")
    y = TensorSpec((32, o // 8, size, size, 8), "float32", "NC1HWC0", (32, o, size, size), "NCHW")
    w = TensorSpec((c // 8 * k * k, o // 16, 16, 8), "float32", "FRACTAL_Z", (o, c, k, k), "NCHW")
    attrs = freeze_attrs({"strides": (1, 1, 1, 1), "pads": (k // 2,) * 4, "data_format": "NCHW"})
    call = OpCall("Conv2D", (x, w, TensorSpec((o,), "float32")), (y,), attrs)
    timing = op_timing(call, load_soc("Ascend910B2"))
    assert timing.us == pytest.approx(us, rel=0.2)
    assert dict(timing.busy_ps)["cube"] / 1e6 == pytest.approx(mac, rel=0.05)


def test_traces_are_quick() -> None:
    """A network's distinct convolutions trace in seconds on a laptop, a large product in a fraction of one."""
    calls = [conv(1, 3, 64, 224, 7, 2)]
    for c, o, size in ((64, 64, 56), (256, 128, 56), (512, 256, 28), (1024, 512, 14)):
        calls += [conv(1, c, o, size, 1, 1), conv(1, o, o, size, 3, 1), conv(1, o, 4 * o, size, 1, 1)]
    start = time.perf_counter()
    for call in calls:
        trace(call, "Ascend310P3")
    trace(matmul(8192, 8192, 8192), "Ascend910B1")
    assert time.perf_counter() - start < 5
