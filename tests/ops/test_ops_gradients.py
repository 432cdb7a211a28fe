"""Gradients of convolution and pooling against finite definitions in NumPy, and against each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ascend_sim import ops
from ascend_sim.ops.schema import TensorSpec

ops.load(kernels=False)


def spec(a: np.ndarray, fmt: str = "NCHW") -> TensorSpec:
    return TensorSpec(a.shape, a.dtype.name, fmt)


def size_of(shape: tuple[int, ...]) -> TensorSpec:
    return TensorSpec((4,), "int32", const=np.asarray(shape, np.int32).tobytes())


def sizes(shape: tuple[int, ...]) -> np.ndarray:
    return np.asarray(shape, np.int32)


def forward(x: np.ndarray, w: np.ndarray, stride: int, pads: tuple[int, ...], dilation: int, groups: int) -> np.ndarray:
    """Convolution in float64 by its definition."""
    n, c, h, wide = x.shape
    o, per, kh, kw = w.shape
    padded = np.zeros((n, c, h + pads[0] + pads[1], wide + pads[2] + pads[3]))
    padded[:, :, pads[0] : pads[0] + h, pads[2] : pads[2] + wide] = x
    ho = (padded.shape[2] - dilation * (kh - 1) - 1) // stride + 1
    wo = (padded.shape[3] - dilation * (kw - 1) - 1) // stride + 1
    y = np.zeros((n, o, ho, wo))
    for k in range(o):
        first = k // (o // groups) * per
        for i in range(ho):
            for j in range(wo):
                a, b = i * stride, j * stride
                rows, columns = a + dilation * np.arange(kh), b + dilation * np.arange(kw)
                part = padded[:, first : first + per][:, :, rows[:, None], columns]
                y[:, k, i, j] = (part * w[k]).sum(axis=(1, 2, 3))
    return y


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 2), st.integers(1, 3), st.integers(1, 3), st.integers(1, 2), st.integers(3, 7), st.integers(3, 7),
    st.integers(1, 3), st.integers(1, 3), st.tuples(*[st.integers(0, 2)] * 4), st.integers(1, 2), st.integers(0, 99),
)  # fmt: skip
def test_gradients_are_adjoint_to_the_convolution(
    n: int, c: int, o: int, groups: int, h: int, w: int, k: int, stride: int, pads: tuple[int, ...], dilation: int,
    seed: int,
) -> None:  # fmt: skip
    """<conv(x, f), dy> = <x, dx> = <f, df> for every x, f and dy."""
    assume(min(h + pads[0] + pads[1], w + pads[2] + pads[3]) >= dilation * (k - 1) + 1)
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, c * groups, h, w)).astype(np.float32)
    f = rng.standard_normal((o * groups, c, k, k)).astype(np.float32)
    y = forward(x, f, stride, pads, dilation, groups)
    dy = rng.standard_normal(y.shape).astype(np.float32)
    attrs = {"strides": (1, 1, stride, stride), "pads": pads, "dilations": (1, 1, dilation, dilation),
             "groups": groups, "data_format": "NCHW"}  # fmt: skip
    inner = (y * dy).sum()
    call = ops.call("Conv2DBackpropInput", [size_of(x.shape), spec(f), spec(dy)], attrs)
    (dx,) = ops.values(call, [sizes(x.shape), f, dy])
    call = ops.call("Conv2DBackpropFilterD", [spec(x), spec(dy)], {**attrs, "filter_size": f.shape})
    (df,) = ops.values(call, [x, dy])
    assert dx.shape == x.shape and df.shape == f.shape
    np.testing.assert_allclose((dx.astype(np.float64) * x).sum(), inner, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose((df.astype(np.float64) * f).sum(), inner, rtol=1e-3, atol=1e-3)


def test_filter_gradient_by_definition() -> None:
    rng = np.random.default_rng(3)
    x, dy = (rng.standard_normal(s).astype(np.float32) for s in ((2, 3, 6, 5), (2, 4, 3, 3)))
    attrs = {"strides": (1, 1, 2, 2), "pads": (1, 1, 1, 1), "data_format": "NCHW"}
    call = ops.call("Conv2DBackpropFilter", [spec(x), size_of((4, 3, 3, 3)), spec(dy)], attrs)
    (got,) = ops.values(call, [x, sizes((4, 3, 3, 3)), dy])
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    want = np.zeros((4, 3, 3, 3))
    for o, c, a, b in np.ndindex(want.shape):
        want[o, c, a, b] = (padded[:, c, a : a + 5 : 2, b : b + 5 : 2] * dy[:, o]).sum()
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_depthwise_gradients() -> None:
    rng = np.random.default_rng(4)
    x, f = (rng.standard_normal(s).astype(np.float32) for s in ((1, 5, 7, 7), (5, 1, 3, 3)))
    attrs: dict[str, Any] = {"strides": (1, 1, 1, 1), "pads": (1, 1, 1, 1), "data_format": "NCHW"}
    y = forward(x, f, 1, (1, 1, 1, 1), 1, 5)
    dy = rng.standard_normal(y.shape).astype(np.float32)
    call = ops.call("DepthwiseConv2DBackpropInput", [size_of(x.shape), spec(f), spec(dy)], attrs)
    (dx,) = ops.values(call, [sizes(x.shape), f, dy])
    call = ops.call("DepthwiseConv2DBackpropFilter", [spec(x), size_of(f.shape), spec(dy)], attrs)
    (df,) = ops.values(call, [x, sizes(f.shape), dy])
    np.testing.assert_allclose((dx * x).sum(), (y * dy).sum(), rtol=1e-3)
    np.testing.assert_allclose((df * f).sum(), (y * dy).sum(), rtol=1e-3)


def test_wrong_gradient_shape_is_named() -> None:
    x, dy = np.zeros((1, 3, 6, 6), np.float32), np.zeros((1, 4, 5, 5), np.float32)
    attrs = {"strides": (1, 1, 1, 1), "pads": (1, 1, 1, 1), "data_format": "NCHW", "filter_size": (4, 3, 3, 3)}
    with pytest.raises(ops.ShapeError, match=r"out_backprop .* \[6, 6\]"):
        ops.call("Conv2DBackpropFilterD", [spec(x), spec(dy)], attrs)


@settings(max_examples=20, deadline=None)
@given(
    st.integers(3, 8), st.integers(3, 8), st.integers(1, 3), st.integers(1, 3), st.booleans(), st.booleans(),
    st.integers(0, 99),
)  # fmt: skip
def test_pool_gradients(h: int, w: int, k: int, stride: int, ceil: bool, exclusive: bool, seed: int) -> None:
    """Window by window, by definition; all values differ, so the maximum is unique."""
    rng = np.random.default_rng(seed)
    pad = k // 2
    x = rng.permutation(2 * 3 * h * w).reshape(2, 3, h, w).astype(np.float32)
    attrs = {"ksize": (1, 1, k, k), "strides": (1, 1, stride, stride), "padding_mode": "CALCULATED", "pads": (pad,) * 4,
             "ceil_mode": ceil, "data_format": "NCHW", "exclusive": exclusive}  # fmt: skip
    y = ops.values(ops.call("MaxPoolV3", [spec(x)], attrs), [x])[0]
    dy = rng.standard_normal(y.shape).astype(np.float32)
    dx = ops.values(ops.call("MaxPoolV3Grad", [spec(x), spec(y), spec(dy)], attrs), [x, y, dy])[0]
    call = ops.call("AvgPoolV2Grad", [size_of(x.shape), spec(dy)], attrs)
    average = ops.values(call, [sizes(x.shape), dy])[0]
    want, mean = np.zeros(x.shape), np.zeros(x.shape)
    for n, c, i, j in np.ndindex(dy.shape):
        a, b = i * stride - pad, j * stride - pad
        rows, columns = slice(max(a, 0), min(a + k, h)), slice(max(b, 0), min(b + k, w))
        part = x[n, c, rows, columns]
        p, q = np.unravel_index(part.argmax(), part.shape)
        want[n, c, rows.start + p, columns.start + q] += dy[n, c, i, j]
        count = part.size if exclusive else (min(a + k, h + pad) - a) * (min(b + k, w + pad) - b)
        mean[n, c, rows, columns] += dy[n, c, i, j] / count
    np.testing.assert_allclose(dx, want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(average, mean, rtol=1e-4, atol=1e-5)
