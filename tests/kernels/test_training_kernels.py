"""Gated activations, group normalisation, optimizer steps, fills and gradients: instruction values against NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ascend_sim import ops
from ascend_sim.isa import layout
from ascend_sim.ops.registry import find_kernel
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.soc import load_soc

B2 = "Ascend910B2"
KINDS = {"float16": np.float16, "float32": np.float32, "bfloat16": ml_dtypes.bfloat16}
rng = np.random.default_rng(0)


def normal(shape: tuple[int, ...], dtype: str) -> Any:
    return rng.standard_normal(shape).astype(KINDS[dtype])


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize(
    ("shape", "dim"),
    [((7, 100), -1), ((3, 5, 2016), -1), ((64, 3000), 0), ((2, 6, 33), 1), ((300, 1026), -1), ((2,), 0)],
)
def test_swiglu(run_op: Any, close: Any, dtype: str, shape: tuple[int, ...], dim: int) -> None:
    got, want = run_op("SwiGlu", [normal(shape, dtype)], B2, dim=dim)
    close(got, want, ulps=4 if dtype != "float32" else 64, absolute=1e-3)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize(
    ("shape", "groups"), [((2, 8, 6, 7), 4), ((1, 6, 100, 90), 2), ((3, 64, 17), 8), ((50, 4, 31, 3), 1)]
)
@pytest.mark.parametrize("op", ["GroupNorm", "GroupNormSilu"])
def test_group_norm(run_op: Any, close: Any, op: str, dtype: str, shape: tuple[int, ...], groups: int) -> None:
    x, gamma, beta = normal(shape, dtype), normal((shape[1],), dtype), normal((shape[1],), dtype)
    got, want = run_op(op, [x, gamma, beta], B2, num_groups=groups, eps=1e-5)
    close(got, want, ulps=4 if dtype != "float32" else 64, absolute=2e-3 if dtype != "float32" else 2e-5)
    got, want = run_op(op, [x], B2, num_groups=groups, eps=1e-5)
    close(got, want, ulps=4 if dtype != "float32" else 64, absolute=2e-3 if dtype != "float32" else 2e-5)


SCALARS = {"beta1_power": 0.81, "beta2_power": 0.998, "lr": 0.01, "weight_decay": 0.1, "beta1": 0.9, "beta2": 0.999}


def scalars(*names: str) -> list[Any]:
    return [np.asarray({**SCALARS, "epsilon": 1e-6, "momentum": 0.9}[n], np.float32) for n in names]


@pytest.mark.parametrize("chip", [B2, "Ascend910A"])
@pytest.mark.parametrize("n", [40, 5000, 200001])
def test_optimizers(run_op: Any, close: Any, chip: str, n: int) -> None:
    var, m, grad = (rng.standard_normal(n).astype(np.float32) for _ in range(3))
    v = rng.random(n).astype(np.float32)
    limit = {"ulps": 64, "absolute": 1e-4}
    names = ("beta1_power", "beta2_power", "lr", "weight_decay", "beta1", "beta2", "epsilon")
    close(*run_op("ApplyAdamW", [var, m, v, *scalars(*names), grad], chip), **limit)
    names = ("beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon")
    close(*run_op("ApplyAdamD", [var, m, v, *scalars(*names), grad], chip), **limit)
    attrs = {"lr": 0.01, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.01, "eps": 1e-6}
    close(*run_op("ApplyAdamWV2", [var, m, v, grad, np.asarray([3], np.float32)], chip, **attrs), **limit)
    for nesterov in (False, True):
        inputs = [var, m, *scalars("lr"), grad, *scalars("momentum")]
        close(*run_op("ApplyMomentumD", inputs, chip, use_nesterov=nesterov), **limit)
    close(*run_op("ApplyGradientDescent", [var, *scalars("lr"), grad], chip), **limit)


@pytest.mark.parametrize("chip", ["Ascend310", "Ascend310P3", "Ascend910A", B2])
@pytest.mark.parametrize("n", [5, 1000, 70001])
def test_relu_grad(run_op: Any, close: Any, chip: str, n: int) -> None:
    for dtype in ("float16", "float32"):
        close(*run_op("ReluGrad", [normal((n,), dtype), normal((n,), dtype)], chip))


@pytest.mark.parametrize("chip", ["Ascend310P3", "Ascend910A", B2])
@pytest.mark.parametrize("kind", [np.bool_, np.uint8])
def test_dropout_with_a_mask(run_op: Any, chip: str, kind: Any) -> None:
    for dtype in ("float16", "float32"):
        for n in (9, 5003, 70001):
            x, mask = normal((n,), dtype), (rng.random(n) < 0.8).astype(kind)
            got, _ = run_op("DropOutDoMaskV3", [x, mask], chip, keep_prob=0.8)
            want = (x.astype(np.float64) * mask / 0.8).astype(dtype)
            np.testing.assert_allclose(got[0], want, rtol=2e-3 if dtype == "float16" else 2e-7)


@pytest.mark.parametrize("chip", ["Ascend310P3", B2])
@pytest.mark.parametrize("dtype", ["float16", "float32", "int32", "int8", "int64"])
def test_fills_and_moves(run_op: Any, close: Any, chip: str, dtype: str) -> None:
    for shape in ((64,), (1000, 70)):
        x = (rng.standard_normal(shape) * 50).astype(dtype)
        close(*run_op("ZerosLike", [x], chip))
        close(*run_op("TensorMove", [x], chip))
        if dtype not in ("int8", "int64"):
            close(*run_op("OnesLike", [x], chip))
            close(*run_op("Fills", [x], chip, value=3.0))


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize(("rows", "length"), [(5, 7), (33, 1000), (100, 64), (3, 5000), (300, 67)])
def test_softmax_and_gradients(run_op: Any, close: Any, dtype: str, rows: int, length: int) -> None:
    limit = {"ulps": 4 if dtype != "float32" else 64, "absolute": 1e-3 if dtype != "float32" else 1e-5}
    x, grad = normal((rows, length), dtype), normal((rows, length), dtype)
    for op in ("SoftmaxV2", "LogSoftmaxV2"):
        got, want = run_op(op, [x], B2, axes=(-1,))
        close(got, want, **limit)
    close(*run_op("SoftmaxGrad", [want[0], grad], B2, axes=(-1,)), ulps=64, absolute=0.1)
    close(*run_op("LogSoftmaxGrad", [grad, want[0]], B2, axis=(-1,)), ulps=64, absolute=1e-3)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize(
    ("rows", "length"), [(5, 17), (130, 128), (300, 373), (70, 2049), (3, 4096), (100, 3001), (2, 13000), (3, 25000)]
)
def test_rms_norm_variants(run_op: Any, close: Any, dtype: str, rows: int, length: int) -> None:
    limit = {"ulps": 4 if dtype != "float32" else 128, "absolute": 2e-3 if dtype != "float32" else 2e-5}
    x, other, gamma = normal((rows, length), dtype), normal((rows, length), dtype), normal((length,), dtype)
    close(*run_op("RmsNorm", [x, gamma], B2), **limit)
    close(*run_op("AddRmsNorm", [x, other, gamma], B2), **limit)


@pytest.mark.parametrize(
    ("shape", "perm"),
    [((70, 130), (1, 0)), ((3, 5, 17, 33), (3, 2, 1, 0)), ((2, 200, 65), (0, 2, 1)), ((5, 3), (1, 0))],
)
@pytest.mark.parametrize("dtype", ["int64", "float32", "int16"])
def test_transposes_of_any_width(
    run_op: Any, close: Any, dtype: str, shape: tuple[int, ...], perm: tuple[int, ...]
) -> None:
    x = (rng.standard_normal(shape) * 1000).astype(dtype)
    close(*run_op("Transpose", [x, np.asarray(perm)], B2, const=(1,)))


@pytest.mark.parametrize(
    ("n", "c", "h", "w"), [(2, 16, 13, 13), (3, 64, 7, 9), (1, 20, 40, 30), (2, 8, 5, 5), (1, 3, 100, 100)]
)
@pytest.mark.parametrize("c0", [8, 16])
def test_float32_in_channel_blocks(n: int, c: int, h: int, w: int, c0: int) -> None:
    """NCHW -> NC1HWC0 with blocks of 8 or 16 channels and back."""
    x = rng.standard_normal((n, c, h, w)).astype(np.float32)
    packed = layout.nchw_to_nc1hwc0(x, c0)
    spec = TensorSpec(packed.shape, "float32", "NC1HWC0", x.shape, "NCHW")
    check_layout(x, packed, spec)


@pytest.mark.parametrize(("n", "c", "k"), [(16, 8, 3), (48, 24, 3), (64, 3, 11), (20, 12, 5), (32, 16, 1)])
def test_float32_filters_in_fractals(n: int, c: int, k: int) -> None:
    x = rng.standard_normal((n, c, k, k)).astype(np.float32)
    packed = layout.oihw_to_fractal_z(x, 8)
    check_layout(x, packed, TensorSpec(packed.shape, "float32", "FRACTAL_Z", x.shape, "NCHW"))


def check_layout(x: Any, packed: Any, spec: TensorSpec) -> None:
    """The TransData kernels both ways, bit for bit."""
    plain = TensorSpec(x.shape, "float32", "NCHW")
    for a, b, source, target in ((plain, spec, x, packed), (spec, plain, packed, x)):
        call = OpCall("TransData", (a,), (b,), (("dst_format", b.format), ("groups", 1), ("src_format", a.format)))
        ops.load()
        plan = find_kernel("TransData")
        assert plan is not None
        (launch,) = plan(call, load_soc(B2))
        out = np.zeros(b.nbytes, np.uint8)
        launch.execute([np.ascontiguousarray(source).reshape(-1).view(np.uint8).copy(), out])
        assert np.array_equal(out.view(np.float32).reshape(target.shape), target)


@pytest.mark.parametrize("chip", ["Ascend310P3", B2])
@pytest.mark.parametrize("shape", [(8, 50, 169), (4, 7, 40, 16), (3, 9, 3000)])
def test_reduction_on_both_sides(run_op: Any, close: Any, chip: str, shape: tuple[int, ...]) -> None:
    x = normal(shape, "float32")
    axes = np.asarray([0, len(shape) - 1])
    for op in ("ReduceSum", "ReduceMax", "ReduceMean"):
        got, want = run_op(op, [x, axes], chip, const=(1,), keep_dims=False)
        close(got, want, ulps=512, absolute=2e-2 if op == "ReduceSum" else 1e-5)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize(("rows", "length"), [(5, 64), (100, 1000), (70, 4096), (3, 33)])
@pytest.mark.parametrize("smoothed", [False, True])
def test_dynamic_quantisation(run_op: Any, dtype: str, rows: int, length: int, smoothed: bool) -> None:
    """A value halfway between two steps may go either way: the kernel multiplies where NumPy divides."""
    inputs = [normal((rows, length), dtype)] + ([normal((length,), dtype)] if smoothed else [])
    (y, scale), (want, want_scale) = run_op("DynamicQuant", inputs, B2)
    assert np.abs(y.astype(int) - want.astype(int)).max() <= 1
    assert (y != want).mean() < 0.02
    assert np.allclose(scale, want_scale, rtol=1e-6)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize(
    ("shape", "table"),
    [
        ((2, 10, 4, 128), (1, 10, 1, 128)),
        ((2, 4, 33, 64), (1, 1, 33, 64)),
        ((3, 7, 2, 32), (3, 7, 1, 32)),
        ((500, 32), (500, 32)),
    ],
)
def test_rotary_embedding(run_op: Any, close: Any, dtype: str, shape: tuple[int, ...], table: tuple[int, ...]) -> None:
    inputs = [normal(shape, dtype), normal(table, dtype), normal(table, dtype)]
    close(*run_op("RotaryPositionEmbedding", inputs, B2), ulps=4, absolute=1e-6)
