"""Convolutions run instruction by instruction against the operator's values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ascend_sim.kernels._execute import run_plan
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ascend_sim import ops
from ascend_sim.isa import layout
from ascend_sim.ops.registry import find_kernel
from ascend_sim.ops.schema import OpCall, TensorSpec, freeze_attrs
from ascend_sim.soc import load_soc

CHIPS = ("Ascend310", "Ascend310P3", "Ascend910A", "Ascend310B1", "Ascend910B2")
ops.load()


def blocked(shape: tuple[int, ...]) -> TensorSpec:
    n, c, h, w = shape
    return TensorSpec((n, -(-c // 16), h, w, 16), "float16", "NC1HWC0", shape, "NCHW")


def fractal_z(w: np.ndarray, groups: int) -> tuple[TensorSpec, np.ndarray]:
    """Weights [O, C / groups, Kh, Kw] as fractals; 16 channels of a depthwise filter share diagonal ones."""
    o, c, kh, kw = w.shape
    if groups > 1 and c == 1 and o % groups == 0:
        multiplier = o // groups
        parts = []
        for first in range(0, groups, 16):
            channels = min(16, groups - first)
            dense = np.zeros((channels * multiplier, 16, kh, kw), w.dtype)
            for i in range(channels * multiplier):
                dense[i, i // multiplier] = w[first * multiplier + i, 0]
            full = np.zeros((16 * multiplier, 16, kh, kw), w.dtype)
            full[: len(dense)] = dense
            parts.append(layout.oihw_to_fractal_z(full))
        stored = np.concatenate(parts)
    else:
        stored = np.concatenate([layout.oihw_to_fractal_z(part) for part in np.split(w, groups)])
    return TensorSpec(stored.shape, "float16", "FRACTAL_Z", w.shape, "NCHW"), stored


def data(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return (rng.standard_normal(shape) / 4).astype(np.float16)


def check(
    chip: str, op: str, x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, attrs: dict[str, Any],
    residual: bool = False, seed: int = 0,
) -> None:  # fmt: skip
    """Run the call in the cube's layouts and compare with the operator's values."""
    inputs: list[Any] = [TensorSpec(x.shape, "float16", "NCHW"), TensorSpec(w.shape, "float16", "NCHW")]
    inputs.append(None if bias is None else TensorSpec(bias.shape, "float16"))
    plain = ops.call(op, inputs, {k: v for k, v in attrs.items() if k != "epilogue"})
    shape = plain.outputs[0].shape
    arrays: list[Any] = [x, w, bias]
    groups = x.shape[1] if op == "DepthwiseConv2D" else attrs.get("groups", 1)
    w_spec, w_stored = fractal_z(w, groups)
    specs: list[Any] = [blocked(x.shape), w_spec, inputs[2]]
    stored: list[Any] = [layout.nchw_to_nc1hwc0(x), w_stored, bias]
    if residual:
        r = data(np.random.default_rng(seed), *shape)
        arrays.append(r)
        specs.append(blocked(shape))
        stored.append(layout.nchw_to_nc1hwc0(r))
    call = OpCall(op, tuple(specs), (blocked(shape),), freeze_attrs(attrs))
    (want,) = ops.values(call, arrays)
    plan = find_kernel(op)
    assert plan is not None
    (raw,) = run_plan(call, plan(call, load_soc(chip)), stored)
    got = layout.nc1hwc0_to_nchw(raw.view(np.float16).reshape(call.outputs[0].shape), shape[1])
    np.testing.assert_allclose(got.astype(np.float32), want.astype(np.float32), rtol=3e-3, atol=3e-3)


STEPS = st.sampled_from(
    ((), (("relu",),), (("leaky_relu", 0.1),), (("add",), ("relu",)), (("hswish",),), (("swish",),))
)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(CHIPS), st.integers(1, 2), st.integers(1, 40), st.integers(1, 40), st.integers(3, 14),
    st.integers(3, 14), st.integers(1, 3), st.integers(1, 3), st.integers(1, 2), st.integers(1, 2),
    st.tuples(*[st.integers(0, 2)] * 4), st.integers(1, 2), st.booleans(), STEPS, st.integers(0, 99),
)  # fmt: skip
def test_conv2d(
    chip: str, n: int, c: int, o: int, h: int, w: int, kh: int, kw: int, sh: int, sw: int,
    pads: tuple[int, int, int, int], dilation: int, bias: bool, steps: Any, seed: int,
) -> None:  # fmt: skip
    span = (dilation * (kh - 1) + 1, dilation * (kw - 1) + 1)
    assume(h + pads[0] + pads[1] >= span[0] and w + pads[2] + pads[3] >= span[1])
    assume(max(pads[:2]) < span[0] and max(pads[2:]) < span[1])
    rng = np.random.default_rng(seed)
    attrs = {
        "strides": (1, 1, sh, sw), "pads": pads, "dilations": (1, 1, dilation, dilation), "data_format": "NCHW",
        "epilogue": steps,
    }  # fmt: skip
    x, f = data(rng, n, c, h, w), data(rng, o, c, kh, kw)
    check(chip, "Conv2D", x, f, data(rng, o) if bias else None, attrs, ("add",) in steps, seed)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("c", "o", "size", "k", "stride", "n"), [
    (3, 64, 40, 7, 2, 1), (64, 256, 14, 1, 1, 2), (256, 64, 9, 3, 1, 1), (512, 96, 7, 1, 2, 1),
])  # fmt: skip
def test_layers(chip: str, c: int, o: int, size: int, k: int, stride: int, n: int) -> None:
    """Shapes of real networks: several tiles, strips and chunks."""
    rng = np.random.default_rng(c)
    attrs = {"strides": (1, 1, stride, stride), "pads": (k // 2,) * 4, "data_format": "NCHW", "epilogue": (("relu",),)}
    check(chip, "Conv2D", data(rng, n, c, size, size), data(rng, o, c, k, k) / 4, data(rng, o), attrs)


@pytest.mark.parametrize("chip", CHIPS)
def test_groups(chip: str) -> None:
    rng = np.random.default_rng(6)
    attrs = {"strides": (1, 1, 1, 1), "pads": (1, 1, 1, 1), "groups": 3, "data_format": "NCHW"}
    check(chip, "Conv2D", data(rng, 1, 96, 9, 10), data(rng, 48, 32, 3, 3), data(rng, 48), attrs)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(CHIPS), st.integers(1, 2), st.integers(2, 70), st.integers(5, 20), st.sampled_from((3, 5)),
    st.integers(1, 2), st.booleans(), st.sampled_from(((), (("relu",),), (("hswish",),))),
)  # fmt: skip
def test_depthwise(chip: str, n: int, c: int, size: int, k: int, stride: int, bias: bool, steps: Any) -> None:
    rng = np.random.default_rng(c)
    attrs = {
        "strides": (1, 1, stride, stride), "pads": (k // 2,) * 4, "data_format": "NCHW", "epilogue": steps,
    }  # fmt: skip
    x, f = data(rng, n, c, size, size), data(rng, c, 1, k, k)
    check(chip, "DepthwiseConv2D", x, f, data(rng, c) if bias else None, attrs)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(CHIPS), st.integers(1, 2), st.integers(1, 40), st.integers(1, 40), st.integers(1, 9),
    st.integers(1, 9), st.integers(1, 3), st.integers(1, 3), st.integers(0, 2), st.integers(0, 2), st.booleans(),
    st.sampled_from(((), (("relu",),), (("sigmoid",),))), st.integers(0, 1), st.integers(0, 99),
)  # fmt: skip
def test_transposed(
    chip: str, n: int, c: int, o: int, h: int, w: int, sh: int, sw: int, more: int, pad: int, bias: bool, steps: Any,
    extra: int, seed: int,
) -> None:  # fmt: skip
    kh, kw = sh + more, sw + max(more - 1, 0)
    extra = min(extra, sh - 1, sw - 1)
    assume(pad < kh and pad < kw)
    assume((h - 1) * sh + kh - 2 * pad + extra > 0 and (w - 1) * sw + kw - 2 * pad + extra > 0)
    rng = np.random.default_rng(seed)
    attrs = {
        "strides": (1, 1, sh, sw), "pads": (pad,) * 4, "data_format": "NCHW", "epilogue": steps,
        "output_padding": (0, 0, extra, extra),
    }  # fmt: skip
    x, f = data(rng, n, c, h, w), data(rng, c, o, kh, kw)
    check(chip, "Conv2DTransposeD", x, f, data(rng, o) if bias else None, attrs)


def test_float32_in_blocks_of_eight() -> None:
    """NC1HWC0 with C0 = 8 on a chip whose cube takes float32: bias, relu, odd block counts."""
    rng = np.random.default_rng(8)
    for c, o, size, k, stride in ((8, 24, 9, 3, 1), (20, 40, 12, 5, 2), (3, 8, 15, 7, 2)):
        x, w = (rng.standard_normal(s).astype(np.float32) for s in ((2, c, size, size), (o, c, k, k)))
        bias = rng.standard_normal(o).astype(np.float32)
        out = (size + 2 * (k // 2) - k) // stride + 1
        specs = (
            TensorSpec((2, -(-c // 8), size, size, 8), "float32", "NC1HWC0", x.shape, "NCHW"),
            TensorSpec((-(-c // 8) * k * k, -(-o // 16), 16, 8), "float32", "FRACTAL_Z", w.shape, "NCHW"),
            TensorSpec((o,), "float32"),
        )
        y = TensorSpec((2, -(-o // 8), out, out, 8), "float32", "NC1HWC0", (2, o, out, out), "NCHW")
        attrs = freeze_attrs({
            "strides": (1, 1, stride, stride), "pads": (k // 2,) * 4, "data_format": "NCHW", "enable_hf32": False,
            "epilogue": (("relu",),),
        })  # fmt: skip
        call = OpCall("Conv2D", specs, (y,), attrs)
        (want,) = ops.values(call, [x, w, bias])
        plan = find_kernel("Conv2D")
        assert plan is not None
        stored = [layout.nchw_to_nc1hwc0(x, 8), layout.oihw_to_fractal_z(w, 8), bias]
        (raw,) = run_plan(call, plan(call, load_soc("Ascend910B2")), stored)
        got = layout.nc1hwc0_to_nchw(raw.view(np.float32).reshape(y.shape), o)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("op", "filters"), [
    ("Conv2D", (24, 20, 3, 3)), ("DepthwiseConv2D", (20, 1, 3, 3)), ("Conv2DTransposeD", (20, 24, 2, 2)),
])  # fmt: skip
def test_plain_layouts(chip: str, op: str, filters: tuple[int, ...]) -> None:
    """Everything in NCHW: layout kernels around, workspaces between."""
    rng = np.random.default_rng(11)
    x, w, bias = data(rng, 2, 20, 9, 10), data(rng, *filters), data(rng, 24 if op != "DepthwiseConv2D" else 20)
    stride, pad = (2, 0) if op == "Conv2DTransposeD" else (1, 1)
    attrs = {"strides": (1, 1, stride, stride), "pads": (pad,) * 4, "data_format": "NCHW"}
    specs = [TensorSpec(x.shape, "float16", "NCHW"), TensorSpec(w.shape, "float16", "NCHW")]
    call = ops.call(op, [*specs, TensorSpec(bias.shape, "float16")], attrs)
    (want,) = ops.values(call, [x, w, bias])
    plan = find_kernel(op)
    assert plan is not None
    (raw,) = run_plan(call, plan(call, load_soc(chip)), [x, w, bias])
    got = raw.view(np.float16).reshape(want.shape).astype(np.float32)
    np.testing.assert_allclose(got, want.astype(np.float32), rtol=3e-3, atol=3e-3)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(CHIPS), st.integers(1, 70), st.integers(1, 40), st.integers(4, 12), st.integers(1, 3),
    st.integers(1, 2), st.booleans(), st.sampled_from((None, (), (("relu",),), (("hswish",),))), st.integers(0, 99),
)  # fmt: skip
def test_int8(chip: str, c: int, o: int, size: int, k: int, stride: int, bias: bool, steps: Any, seed: int) -> None:
    """Integer sums leave as they are, or multiplied by a scale as float16."""
    rng = np.random.default_rng(seed)
    x, w = (rng.integers(-128, 128, s).astype(np.int8) for s in ((1, c, size, size), (o, c, k, k)))
    b = rng.integers(-1000, 1000, o).astype(np.int32) if bias else None
    out = (size + 2 * (k // 2) - k) // stride + 1
    dtype = "int32" if steps is None else "float16"
    scale = float(2 / (128 * 128 * (c * k * k) ** 0.5))
    epilogue = () if steps is None else (("muls", scale), *steps)
    attrs = {"strides": (1, 1, stride, stride), "pads": (k // 2,) * 4, "data_format": "NCHW", "epilogue": epilogue}
    specs = (
        TensorSpec((1, -(-c // 32), size, size, 32), "int8", "NC1HWC0", x.shape, "NCHW"),
        TensorSpec((-(-c // 32) * k * k, -(-o // 16), 16, 32), "int8", "FRACTAL_Z", w.shape, "NCHW"),
        None if b is None else TensorSpec((o,), "int32"),
    )
    y = TensorSpec((1, -(-o // 16), out, out, 16), dtype, "NC1HWC0", (1, o, out, out), "NCHW")
    call = OpCall("Conv2D", specs, (y,), freeze_attrs(attrs))
    (want,) = ops.values(call, [x, w, b])
    plan = find_kernel("Conv2D")
    assert plan is not None
    stored = [layout.nchw_to_nc1hwc0(x, 32), layout.oihw_to_fractal_z(w, 32), b]
    (raw,) = run_plan(call, plan(call, load_soc(chip)), stored)
    got = layout.nc1hwc0_to_nchw(raw.view(dtype).reshape(y.shape), o)
    if dtype == "int32":
        np.testing.assert_array_equal(got, want)
    else:  # the scale keeps 10 bits of its mantissa
        np.testing.assert_allclose(got.astype(np.float32), want.astype(np.float32), rtol=4e-3, atol=4e-3)
