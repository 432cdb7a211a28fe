"""Gradients of convolutions run instruction by instruction against the operators' values."""

from __future__ import annotations

from typing import Any

import numpy as np
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


def five(shape: tuple[int, ...], dtype: str) -> TensorSpec:
    n, c, h, w = shape
    c0 = 32 // np.dtype(dtype).itemsize
    return TensorSpec((n, -(-c // c0), h, w, c0), dtype, "NC1HWC0", shape, "NCHW")


def fractals(shape: tuple[int, ...], dtype: str) -> TensorSpec:
    o, c, h, w = shape
    c0 = 32 // np.dtype(dtype).itemsize
    return TensorSpec((-(-c // c0) * h * w, -(-o // 16), 16, c0), dtype, "FRACTAL_Z", shape, "NCHW")


def data(rng: np.random.Generator, dtype: str, *shape: int) -> np.ndarray:
    return (rng.standard_normal(shape) / 4).astype(dtype)


def sizes(shape: tuple[int, ...]) -> tuple[TensorSpec, np.ndarray]:
    array = np.asarray(shape, np.int32)
    return TensorSpec((4,), "int32", const=array.tobytes()), array


def run(chip: str, call: OpCall, arrays: list[Any], stored: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    """(storage bytes of the kernel's result, operator values)."""
    plan = find_kernel(call.type)
    assert plan is not None
    (raw,) = run_plan(call, plan(call, load_soc(chip)), stored)
    return raw, ops.values(call, arrays)[0]


def attributes(stride: tuple[int, int], pads: tuple[int, ...], dilation: int) -> dict[str, Any]:
    return {
        "strides": (1, 1, *stride), "pads": pads, "dilations": (1, 1, dilation, dilation), "data_format": "NCHW",
        "enable_hf32": False,
    }  # fmt: skip


def out_size(size: int, k: int, stride: int, before: int, after: int, dilation: int) -> int:
    return (size + before + after - dilation * (k - 1) - 1) // stride + 1


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from((*CHIPS, "fp32")), st.integers(1, 2), st.integers(1, 40), st.integers(1, 40), st.integers(3, 12),
    st.integers(3, 12), st.integers(1, 3), st.integers(1, 3), st.integers(1, 2), st.tuples(*[st.integers(0, 2)] * 4),
    st.integers(1, 2), st.integers(0, 99),
)  # fmt: skip
def test_input_gradient(
    chip: str, n: int, c: int, o: int, h: int, w: int, kh: int, kw: int, stride: int, pads: tuple[int, ...],
    dilation: int, seed: int,
) -> None:  # fmt: skip
    dtype, chip = ("float32", "Ascend910B2") if chip == "fp32" else ("float16", chip)
    assume(stride == 1 or (dilation == 1 and dtype == "float16" and kh >= stride and kw >= stride))
    assume(max(pads[:2]) <= dilation * (kh - 1) and max(pads[2:]) <= dilation * (kw - 1))
    ho, wo = out_size(h, kh, stride, *pads[:2], dilation), out_size(w, kw, stride, *pads[2:], dilation)
    assume(ho > 0 and wo > 0)
    rng = np.random.default_rng(seed)
    f, dy = data(rng, dtype, o, c, kh, kw), data(rng, dtype, n, o, ho, wo)
    dx = (n, c, h, w)
    spec, size = sizes(dx)
    call = OpCall(
        "Conv2DBackpropInput", (spec, fractals(f.shape, dtype), five(dy.shape, dtype)), (five(dx, dtype),),
        freeze_attrs(attributes((stride, stride), pads, dilation)),
    )  # fmt: skip
    c0 = 32 // f.itemsize
    stored = [size, layout.oihw_to_fractal_z(f, c0), layout.nchw_to_nc1hwc0(dy, c0)]
    raw, want = run(chip, call, [size, f, dy], stored)
    got = layout.nc1hwc0_to_nchw(raw.view(dtype).reshape(call.outputs[0].shape), c)
    tolerance = 3e-3 if dtype == "float16" else 1e-4
    np.testing.assert_allclose(got.astype(np.float32), want.astype(np.float32), rtol=tolerance, atol=tolerance)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from((*CHIPS, "fp32")), st.booleans(), st.integers(1, 3), st.integers(1, 40), st.integers(1, 40),
    st.integers(3, 12), st.integers(3, 12), st.integers(1, 3), st.integers(1, 3), st.integers(1, 2),
    st.tuples(*[st.integers(0, 2)] * 4), st.integers(1, 2), st.integers(0, 99),
)  # fmt: skip
def test_filter_gradient(
    chip: str, wide: bool, n: int, c: int, o: int, h: int, w: int, kh: int, kw: int, stride: int,
    pads: tuple[int, ...], dilation: int, seed: int,
) -> None:  # fmt: skip
    """``wide``: the gradient in float32, also of float16 tensors."""
    dtype, chip = ("float32", "Ascend910B2") if chip == "fp32" else ("float16", chip)
    ho, wo = out_size(h, kh, stride, *pads[:2], dilation), out_size(w, kw, stride, *pads[2:], dilation)
    assume(ho > 0 and wo > 0)
    assume(max(pads[:2]) <= dilation * (kh - 1) and max(pads[2:]) <= dilation * (kw - 1))
    rng = np.random.default_rng(seed)
    x, dy = data(rng, dtype, n, c, h, w), data(rng, dtype, n, o, ho, wo)
    dw = (o, c, kh, kw)
    spec, size = sizes(dw)
    c0 = 32 // x.itemsize
    result = fractals(dw, dtype)
    if wide:
        result = TensorSpec(result.shape, "float32", "FRACTAL_Z", dw, "NCHW")
    call = OpCall(
        "Conv2DBackpropFilter", (five(x.shape, dtype), spec, five(dy.shape, dtype)), (result,),
        freeze_attrs({**attributes((stride, stride), pads, dilation), "filter_size": dw}),
    )  # fmt: skip
    stored = [layout.nchw_to_nc1hwc0(x, c0), size, layout.nchw_to_nc1hwc0(dy, c0)]
    raw, want = run(chip, call, [x, size, dy], stored)
    got = layout.fractal_z_to_oihw(raw.view(result.dtype).reshape(result.shape), dw)
    tolerance = 1e-4 if dtype == "float32" else 4e-3
    np.testing.assert_allclose(got.astype(np.float32), want.astype(np.float32), rtol=tolerance, atol=tolerance)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(("Ascend310P3", "Ascend910A", "Ascend310B1")), st.integers(1, 2), st.integers(1, 60),
    st.integers(6, 24), st.integers(6, 24), st.sampled_from((1, 3, 5)), st.integers(0, 2), st.integers(0, 99),
)  # fmt: skip
def test_input_gradient_of_depthwise(
    run_op: Any, close: Any, chip: str, n: int, c: int, h: int, w: int, k: int, pad: int, seed: int
) -> None:
    pad = min(pad, k // 2)
    rng = np.random.default_rng(seed)
    f = data(rng, "float16", c, 1, k, k)
    dy = data(rng, "float16", n, c, h + 2 * pad - k + 1, w + 2 * pad - k + 1)
    attrs = {"strides": (1, 1, 1, 1), "pads": (pad,) * 4, "dilations": (1, 1, 1, 1), "data_format": "NCHW"}
    size = np.asarray((n, c, h, w), np.int32)
    result = run_op("DepthwiseConv2DBackpropInput", [size, f, dy], chip, const=(0,), **attrs)
    close(*result, ulps=2, absolute=4e-3)
