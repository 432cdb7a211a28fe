"""Quantised and grouped products instruction by instruction against NumPy, and their times against published ones."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from ascend_sim.kernels._cube import cube_buffers
from ascend_sim.kernels._execute import run_plan
from ascend_sim.kernels._matmul_tiling import MatmulProblem
from ascend_sim.kernels.grouped_matmul import _order
from ascend_sim.kernels.quant_matmul import quant_tiling
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ascend_sim import ops
from ascend_sim.ops.cost import op_timing
from ascend_sim.ops.registry import find_kernel
from ascend_sim.ops.schema import TensorSpec
from ascend_sim.soc import load_soc

ops.load()
Array = np.ndarray[Any, Any]


def spec(array: Array | None, const: bool = False) -> TensorSpec | None:
    if array is None:
        return None
    name = "bfloat16" if array.dtype == ml_dtypes.bfloat16 else array.dtype.name
    return TensorSpec(array.shape, name, const=array.tobytes() if const else None)


def run(op: str, arrays: list[Array | None], chip: str, const: tuple[int, ...] = (), **attrs: Any) -> Array:
    call = ops.call(op, [spec(a, i in const) for i, a in enumerate(arrays)], attrs)
    plan = find_kernel(op)
    assert plan is not None
    launches = plan(call, load_soc(chip))
    for launch in launches:
        launch.trace()
    kind = ml_dtypes.bfloat16 if call.outputs[0].dtype == "bfloat16" else call.outputs[0].dtype
    (data,) = run_plan(call, launches, arrays)
    return data[: call.outputs[0].nbytes].view(kind).reshape(call.outputs[0].shape)


@settings(max_examples=24, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from((1, 17, 50, 200)), st.integers(1, 400), st.integers(1, 300), st.booleans(), st.booleans(),
    st.sampled_from(("float16", "bfloat16", "int32", "int8")), st.sampled_from(("", "int32", "float32", "bfloat16")),
    st.booleans(), st.sampled_from(("column", "one", "packed")), st.integers(0, 99),
)  # fmt: skip
def test_quantised(
    m: int, k: int, n: int, ta: bool, tb: bool, dtype: str, bias: str, tokens: bool, scales: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    if dtype in ("int32", "int8"):
        tokens, bias = False, bias if bias == "int32" else ""
    mixed = dtype == "bfloat16" or tokens or bias not in ("", "int32")
    if dtype == "int8" or (scales == "packed" and not mixed):
        scales = "packed"
    elif scales == "packed":
        scales = "column"
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((m, k), (k, n)))
    scale = ((rng.random(1 if scales == "one" else n) + 0.5) * 1e-3).astype(np.float32)
    scale = (scale.view(np.uint32) & 0xFFFFE000).view(np.float32)  # what the fixpipe keeps of a scale
    stored = scale
    if scales == "packed":
        stored = scale.view(np.uint32).astype(np.uint64) | np.uint64(1 << 46)
    c = None
    if bias:
        kind = ml_dtypes.bfloat16 if bias == "bfloat16" else np.dtype(bias)
        c = (rng.integers(-5000, 5000, n) if bias == "int32" else rng.standard_normal(n)).astype(kind)
    per = rng.random(m).astype(np.float32) if tokens else None
    got = run("QuantBatchMatmulV3", [a.T.copy() if ta else a, b.T.copy() if tb else b, stored, None, c, per],
              "Ascend910B2", dtype=dtype, transpose_x1=ta, transpose_x2=tb)  # fmt: skip
    whole = a.astype(np.int64) @ b.astype(np.int64) + (c.astype(np.int64) if bias == "int32" else 0)
    if dtype == "int32":
        np.testing.assert_array_equal(got, whole)
        return
    real = whole * scale.astype(np.float64) * (1 if per is None else per[:, None].astype(np.float64))
    if bias not in ("", "int32"):
        real = real + c.astype(np.float64)
    if dtype == "int8":
        assert np.abs(got.astype(np.int64) - np.clip(np.rint(real), -128, 127)).max() <= 1
        return
    eps = 2.0**-8 if dtype == "bfloat16" else 2.0**-11
    np.testing.assert_allclose(got.astype(np.float64), real, rtol=2 * eps, atol=1e-3)


def test_quantised_batches() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-9, 9, shape).astype(np.int8) for shape in ((3, 1, 20, 64), (2, 64, 48)))
    scale = np.full(48, 0.5, np.float32)
    got = run("QuantBatchMatmulV3", [a, b, scale], "Ascend910B2", dtype="float16")
    np.testing.assert_array_equal(got.astype(np.float64), (a.astype(int) @ b.astype(int)) * 0.5)


@settings(max_examples=16, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(("Ascend910B2", "Ascend310B1")), st.lists(st.sampled_from((0, 1, 7, 16, 130)), min_size=1,
    max_size=4), st.integers(1, 300), st.integers(1, 300), st.booleans(), st.booleans(),
    st.sampled_from(("float16", "bfloat16")), st.integers(0, 99),
)  # fmt: skip
def test_grouped(
    chip: str, sizes: list[int], k: int, n: int, trans: bool, bias: bool, dtype: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    sizes[0] += 1
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" and chip == "Ascend910B2" else np.float16
    x = (rng.standard_normal((sum(sizes), k)) / 4).astype(kind)
    w = (rng.standard_normal((len(sizes), k, n)) / 4).astype(kind)
    c = rng.standard_normal((len(sizes), n)).astype(np.float32 if kind is not np.float16 else np.float16)
    listed = np.cumsum(sizes)
    stored = np.ascontiguousarray(w.swapaxes(1, 2)) if trans else w
    got = run("GroupedMatmul", [x, stored, c if bias else None, listed], chip, (3,), transpose_weight=trans)
    want, at = np.zeros((sum(sizes), n)), 0
    for g, rows in enumerate(sizes):
        want[at : at + rows] = x[at : at + rows].astype(np.float64) @ w[g].astype(np.float64)
        want[at : at + rows] += c[g].astype(np.float64) if bias else 0
        at += rows
    tolerance = 1e-2 if kind is not np.float16 else 2e-3
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=tolerance, atol=tolerance)


def test_tiles_of_a_large_group_run_along_diagonals() -> None:
    order = list(_order(10, 3))
    assert sorted(order) == [(i, j) for i in range(10) for j in range(3)]
    assert order[:8] == [(i, i % 3) for i in range(8)]
    assert list(_order(2, 3)) == [(i, j) for i in range(2) for j in range(3)]


def test_stock_tile_of_int8() -> None:
    """Depths of the vendor's expected tiling of 8192 x 8192 x 8192: A six steps of 128, B two."""
    t = quant_tiling(MatmulProblem(8192, 8192, 8192, 1, 1), cube_buffers(load_soc("Ascend910B2")))
    assert (t.base_m, t.base_n, t.base_k, t.step_ka, t.step_kb) == (128, 256, 128, 6, 2)


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "us"),
    [
        ("QuantBatchMatmulV3", [((1024, 2048), "int8"), ((2048, 2048), "int8"), ((2048,), "uint64")],
         {"dtype": "float16"}, 31.88),
        ("QuantBatchMatmulV3", [((1024, 2048), "int8"), ((2048, 2048), "int8"), ((2048,), "float32")],
         {"dtype": "bfloat16"}, 40.24),
        ("GroupedMatmul", [((1009, 1024), "float16"), ((8, 1024, 1024), "float16"), None],
         {"transpose_weight": True}, 31.08),
    ],
)  # fmt: skip
def test_times_near_silicon(op: str, inputs: list[Any], attrs: dict[str, Any], us: float) -> None:
    """cann-bench, 910B2, L2 flushed before each run."""
    from ascend_sim.engine.memory import L2

    specs = [None if x is None else TensorSpec(*x) for x in inputs]
    if op == "GroupedMatmul":
        listed = np.array([307, 337, 367, 396, 425, 454, 483, 1009])
        specs.append(TensorSpec((8,), "int64", const=listed.tobytes()))
    soc = load_soc("Ascend910B2")
    assert op_timing(ops.call(op, specs, attrs), soc, L2(soc)).us == pytest.approx(us, rel=0.25)
