"""Matrix products run instruction by instruction against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ascend_sim.kernels._execute import run_plan
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ascend_sim import ops
from ascend_sim.isa import layout
from ascend_sim.ops.dtypes import numpy_dtype
from ascend_sim.ops.registry import find_kernel
from ascend_sim.ops.schema import OpCall, TensorSpec, freeze_attrs
from ascend_sim.soc import load_soc

CHIPS = ("Ascend310", "Ascend310P3", "Ascend910A", "Ascend310B1", "Ascend910B2")
ops.load()


def nz_spec(shape: tuple[int, ...], dtype: str = "float16") -> TensorSpec:
    *lead, m, n = shape
    return TensorSpec((*lead, -(-n // 16), -(-m // 16), 16, 16), dtype, "FRACTAL_NZ", shape, "ND")


def run(call: OpCall, chip: str, inputs: list[np.ndarray | None]) -> np.ndarray:
    plan = find_kernel(call.type)
    assert plan is not None
    (data,) = run_plan(call, plan(call, load_soc(chip)), inputs)
    return data.view(call.outputs[0].dtype).reshape(call.outputs[0].shape)


def data(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return (rng.standard_normal(shape) / 4).astype(np.float16)


def close(got: np.ndarray, want: np.ndarray) -> None:
    np.testing.assert_allclose(got.astype(np.float32), want, rtol=2e-3, atol=2e-3)


@settings(max_examples=24, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(CHIPS), st.integers(1, 90), st.integers(1, 6), st.integers(1, 6), st.booleans(), st.booleans(),
    st.booleans(), st.sampled_from(((), (("relu",),), (("leaky_relu", 0.1),), (("sigmoid",),))), st.integers(0, 99),
)  # fmt: skip
def test_rows(chip: str, m: int, k16: int, n16: int, ta: bool, tb: bool, bias: bool, steps: Any, seed: int) -> None:
    """ND operands; sizes in whole blocks where the chip moves rows in blocks only."""
    free = load_soc(chip).chip.has_fixpipe
    k, n = (k16 * 21, n16 * 13) if free else (k16 * 16, n16 * 16)
    m = m if free or not ta else -(-m // 16) * 16
    rng = np.random.default_rng(seed)
    a, b, c = data(rng, m, k), data(rng, k, n), data(rng, n)
    want = a.astype(np.float32) @ b.astype(np.float32) + (c.astype(np.float32) if bias else 0)
    for name, *args in steps:
        if name == "relu":
            want = np.maximum(want, 0)
        elif name == "leaky_relu":
            want = np.where(want > 0, want, want * args[0])
        else:
            want = 1 / (1 + np.exp(-want))
    stored = [a.T if ta else a, b.T if tb else b, c if bias else None]
    call = OpCall(
        "MatMulV2",
        tuple(None if s is None else TensorSpec(s.shape, "float16") for s in stored),
        (TensorSpec((m, n), "float16"),),
        freeze_attrs({"transpose_x1": ta, "transpose_x2": tb, "epilogue": steps}),
    )
    close(run(call, chip, stored), want)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(CHIPS), st.integers(1, 70), st.integers(1, 200), st.integers(1, 90), st.booleans(), st.booleans(),
    st.booleans(), st.integers(0, 99),
)  # fmt: skip
def test_fractals(chip: str, m: int, k: int, n: int, ta: bool, tb: bool, residual: bool, seed: int) -> None:
    """FRACTAL_NZ operands and result, any sizes, a residual added on the way out."""
    rng = np.random.default_rng(seed)
    a, b, r = data(rng, m, k), data(rng, k, n), data(rng, m, n)
    want = a.astype(np.float32) @ b.astype(np.float32)
    stored = [layout.nd_to_nz(a.T if ta else a), layout.nd_to_nz(b.T if tb else b)]
    specs: list[TensorSpec | None] = [nz_spec((k, m) if ta else (m, k)), nz_spec((n, k) if tb else (k, n))]
    attrs: dict[str, Any] = {"transpose_x1": ta, "transpose_x2": tb}
    inputs: list[Any] = list(stored)
    if residual:
        specs += [None, nz_spec((m, n))]
        inputs += [None, layout.nd_to_nz(r)]
        attrs["epilogue"] = (("add",),)
        want = want + r.astype(np.float32)
    call = OpCall("MatMulV2", tuple(specs), (nz_spec((m, n)),), freeze_attrs(attrs))
    got = run(call, chip, inputs)
    close(layout.nz_to_nd(got.reshape(got.shape[0], -1, 16), m, n), want)


@pytest.mark.parametrize("chip", CHIPS)
def test_batches_broadcast(chip: str) -> None:
    rng = np.random.default_rng(3)
    a, b = data(rng, 3, 1, 33, 48), data(rng, 2, 48, 32)
    call = ops.call("BatchMatMulV2", [TensorSpec(a.shape, "float16"), TensorSpec(b.shape, "float16")])
    close(run(call, chip, [a, b]), a.astype(np.float32) @ b.astype(np.float32))


def test_sums_of_halves_leave_the_cube_unrounded() -> None:
    rng = np.random.default_rng(6)
    a, b = data(rng, 2, 33, 48), data(rng, 2, 48, 24)
    specs = [TensorSpec(a.shape, "float16"), TensorSpec(b.shape, "float16")]
    call = ops.call("BatchMatMulV2", specs, {"y_dtype": "float32"})
    want = a.astype(np.float32) @ b.astype(np.float32)
    assert call.outputs[0].dtype == "float32"
    np.testing.assert_allclose(run(call, "Ascend910B2", [a, b]), want, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(ops.values(call, [a, b])[0], want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("chip", CHIPS)
def test_weights_in_fractal_z(chip: str) -> None:
    rng = np.random.default_rng(4)
    a, w, c = data(rng, 20, 64), data(rng, 24, 64), data(rng, 24)
    spec = TensorSpec((4, 2, 16, 16), "float16", "FRACTAL_Z", (24, 64), "ND")
    call = OpCall(
        "MatMulV2", (nz_spec((20, 64)), spec, TensorSpec((24,), "float16")), (nz_spec((20, 24)),),
        freeze_attrs({"transpose_x2": True}),
    )  # fmt: skip
    stored = layout.oihw_to_fractal_z(w.reshape(24, 64, 1, 1))
    got = run(call, chip, [layout.nd_to_nz(a), stored, c])
    want = a.astype(np.float32) @ w.astype(np.float32).T + c.astype(np.float32)
    close(layout.nz_to_nd(got.reshape(2, -1, 16), 20, 24), want)


def test_float32_and_hf32() -> None:
    rng = np.random.default_rng(5)
    for ta in (False, True):
        for tb in (False, True):
            a, b = rng.standard_normal((70, 100)).astype(np.float32), rng.standard_normal((100, 50)).astype(np.float32)
            call = ops.call(
                "MatMulV2",
                [TensorSpec((a.T if ta else a).shape, "float32"), TensorSpec((b.T if tb else b).shape, "float32")],
                {"transpose_x1": ta, "transpose_x2": tb},
            )
            got = run(call, "Ascend910B2", [a.T if ta else a, b.T if tb else b])
            np.testing.assert_allclose(got, a @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize(("m", "k", "n", "ta", "tb"), [
    (48, 9280, 80, False, False), (48, 9280, 64, True, False), (20, 27520, 36, False, True),
])  # fmt: skip
def test_split_k(dtype: str, m: int, k: int, n: int, ta: bool, tb: bool) -> None:
    """A long reduction into a small result: the cores add parts of it, in float32 whatever the output."""
    rng = np.random.default_rng(k)
    shapes = (k, m) if ta else (m, k), (n, k) if tb else (k, n)
    a, b = (rng.standard_normal(s).astype(numpy_dtype(dtype)) for s in shapes)
    inputs = [TensorSpec(x.shape, dtype) for x in (a, b)]
    call = ops.call("MatMulV2", inputs, {"transpose_x1": ta, "transpose_x2": tb})
    plan = find_kernel("MatMulV2")
    assert plan is not None
    launches = plan(call, load_soc("Ascend910B2"))
    assert len(launches) == (2 if dtype == "float32" else 3)
    (raw,) = run_plan(call, launches, [a, b])
    got = raw.view(numpy_dtype(dtype)).reshape(m, n).astype(np.float64)
    wide = [x.astype(np.float64).T if t else x.astype(np.float64) for x, t in ((a, ta), (b, tb))]
    tolerance = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1e-5}[dtype]
    np.testing.assert_allclose(got, wide[0] @ wide[1], rtol=tolerance, atol=tolerance * k**0.5)


def test_awkward_rows_become_fractals_first() -> None:
    """Large 16-bit products whose rows are no multiple of 256 bytes: the vector cores lay out such an operand before
    the cube begins (stock pre-pass of 16384 x 5121 x 1709); rows that fit, and small products, go as they are."""
    soc, plan = load_soc("Ascend910B2"), find_kernel("MatMulV2")
    assert plan is not None

    def kinds(m: int, k: int, n: int, dtype: str = "float16") -> list[str]:
        call = ops.call("MatMulV2", [TensorSpec((m, k), dtype), TensorSpec((k, n), dtype)])
        return [launch.kind for launch in plan(call, soc)]  # type: ignore[attr-defined]

    assert kinds(16384, 5121, 1709) == ["AIV", "AIV", "AIC"]
    assert kinds(4096, 4096, 4100) == ["AIV", "AIC"]
    assert kinds(4096, 4096, 4096) == ["AIC"]
    assert kinds(640, 513, 320) == ["AIC"]
    assert kinds(4096, 4097, 4096, "float32") == ["AIC"]


def test_parts_of_k_are_summed_in_order() -> None:
    """No core adds to what another wrote: the result is the same whatever order the cores finish in."""
    soc, plan = load_soc("Ascend910B2"), find_kernel("MatMulV2")
    assert plan is not None
    call = ops.call("MatMulV2", [TensorSpec((16, 65536), "float16"), TensorSpec((65536, 64), "float16")])
    launches = plan(call, soc)
    assert [launch.kind for launch in launches] == ["AIC", "AIV", "AIV"]  # type: ignore[attr-defined]
    works = [w for launch in launches for b in launch.trace().blocks for p in b.programs for w in p.works]
    assert "atomic" not in {getattr(w, "mode", "") for w in works}
