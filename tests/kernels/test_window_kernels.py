"""Pooling, global pooling and resize in NC1HWC0 against the operators' NumPy values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ascend_sim import ops
from ascend_sim.ops.schema import TensorSpec

CHIPS = ("Ascend310", "Ascend310P3", "Ascend910A", "Ascend910B2")
chips = st.sampled_from(CHIPS)
seeds = st.integers(0, 2**32 - 1)
BLOCKS = ("NC1HWC0",)


def half(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


def window(kernel: tuple[int, int], strides: tuple[int, int], pads: tuple[int, ...], **more: Any) -> dict[str, Any]:
    return {"ksize": (1, 1, *kernel), "strides": (1, 1, *strides), "pads": pads, "padding_mode": "CALCULATED", **more}


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    chips,
    st.integers(1, 2),
    st.integers(1, 40),
    st.tuples(st.integers(1, 25), st.integers(1, 25)),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.integers(0, 1),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    seeds,
)
def test_pooling(
    run_op: Any,
    close: Any,
    chip: str,
    n: int,
    c: int,
    size: tuple[int, int],
    kernel: tuple[int, int],
    strides: tuple[int, int],
    pad: int,
    ceil: bool,
    average: bool,
    exclusive: bool,
    seed: int,
) -> None:
    pads = (min(pad, kernel[0] - 1),) * 2 + (min(pad, kernel[1] - 1),) * 2
    assume(all(s + 2 * p >= k for s, p, k in zip(size, pads[::2], kernel, strict=True)))
    assume(not (kernel[0] == 1 and strides[0] > 1))
    attrs = window(kernel, strides, pads, ceil_mode=ceil)
    x = half(seed, n, c, *size)
    if average:
        close(*run_op("AvgPoolV2", [x], chip, formats=BLOCKS, exclusive=exclusive, **attrs), ulps=1, absolute=1e-3)
    else:
        close(*run_op("MaxPoolV3", [x], chip, formats=BLOCKS, **attrs))


@pytest.mark.parametrize("chip", CHIPS)
def test_pooling_of_networks(run_op: Any, close: Any, chip: str) -> None:
    """The poolings of ResNet, SqueezeNet, VGG and DenseNet at 224 x 224, fewer channels."""
    close(
        *run_op("MaxPoolV3", [half(0, 1, 16, 112, 112)], chip, formats=BLOCKS, **window((3, 3), (2, 2), (1, 1, 1, 1)))
    )
    close(
        *run_op("MaxPoolV3", [half(0, 1, 16, 111, 111)], chip, formats=BLOCKS, **window((3, 3), (2, 2), (0, 0, 0, 0)))
    )
    close(
        *run_op("MaxPoolV3", [half(0, 1, 16, 224, 224)], chip, formats=BLOCKS, **window((2, 2), (2, 2), (0, 0, 0, 0)))
    )
    x = half(0, 1, 16, 56, 56)
    close(
        *run_op("AvgPoolV2", [x], chip, formats=BLOCKS, **window((2, 2), (2, 2), (0, 0, 0, 0))), ulps=1, absolute=1e-3
    )


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from((*CHIPS, "Ascend310B1")),
    st.integers(1, 2),
    st.integers(1, 40),
    st.tuples(st.integers(4, 30), st.integers(4, 30)),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.integers(0, 1),
    st.booleans(),
    st.booleans(),
    seeds,
)
def test_gradients_of_pooling(
    run_op: Any,
    close: Any,
    chip: str,
    n: int,
    c: int,
    size: tuple[int, int],
    kernel: tuple[int, int],
    strides: tuple[int, int],
    pad: int,
    ceil: bool,
    ties: bool,
    seed: int,
) -> None:
    """Also with many equal elements in a window: the first of them takes the gradient."""
    pads = (min(pad, kernel[0] - 1),) * 2 + (min(pad, kernel[1] - 1),) * 2
    attrs = window(kernel, strides, pads, ceil_mode=ceil, data_format="NCHW")
    x = half(seed, n, c, *size)
    x = np.round(x) if ties else x
    (y,) = ops.values(ops.call("MaxPoolV3", [TensorSpec(x.shape, "float16", "NCHW")], attrs), [x])
    dy = half(seed + 1, *y.shape)
    close(*run_op("MaxPoolV3Grad", [x, y, dy], chip, formats=BLOCKS * 3, **attrs), ulps=1, absolute=1e-3)
    attrs["exclusive"] = ties
    sizes = np.asarray(x.shape, np.int32)
    result = run_op(
        "AvgPoolV2Grad", [sizes, dy], chip, formats=("", *BLOCKS), out_format="NC1HWC0", const=(0,), **attrs
    )
    close(*result, ulps=1, absolute=1e-3)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(chips, st.integers(1, 3), st.integers(1, 60), st.integers(1, 30), st.integers(1, 30), st.booleans(), seeds)
def test_global_pooling(
    run_op: Any, close: Any, chip: str, n: int, c: int, h: int, w: int, average: bool, seed: int
) -> None:
    op = "GlobalAveragePool" if average else "GlobalMaxPool"
    close(
        *run_op(op, [half(seed, n, c, h, w)], chip, formats=BLOCKS), ulps=1 if average else 0, absolute=1e-4 * average
    )


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    chips,
    st.integers(1, 40),
    st.tuples(st.integers(1, 20), st.integers(1, 20)),
    st.tuples(st.integers(1, 40), st.integers(1, 40)),
    st.booleans(),
    st.sampled_from(("", "align_corners", "half_pixel_centers")),
    seeds,
)
def test_resize(
    run_op: Any,
    close: Any,
    chip: str,
    c: int,
    size: tuple[int, int],
    out: tuple[int, int],
    linear: bool,
    how: str,
    seed: int,
) -> None:
    attrs: dict[str, Any] = {how: True} if how else {}
    x = half(seed, 2, c, *size)
    if linear:
        got, want = run_op("ResizeBilinearV2D", [x], chip, formats=BLOCKS, size=out, **attrs)
        close(got, want, ulps=1, absolute=2e-3)
    else:
        close(*run_op("ResizeNearestNeighborV2D", [x], chip, formats=BLOCKS, size=out, **attrs))


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("factor", [2, 4, 8])
def test_integer_upscaling(run_op: Any, close: Any, chip: str, factor: int) -> None:
    x = half(factor, 1, 24, 20, 30)
    scales = np.asarray([1, 1, factor, factor], np.float32)
    attrs = {"coordinate_transformation_mode": "asymmetric", "mode": "nearest", "nearest_mode": "floor"}
    close(*run_op("Resize", [x, None, scales], chip, formats=BLOCKS, const=(2,), **attrs))


@pytest.mark.parametrize("chip", CHIPS)
def test_plain_pictures_go_through_channel_blocks(run_op: Any, close: Any, chip: str) -> None:
    """NCHW in and out: TransData, the kernel, TransData."""
    x = half(0, 2, 20, 12, 15)
    attrs = window((3, 3), (2, 2), (1, 1, 1, 1), data_format="NCHW")
    close(*run_op("MaxPoolV3", [x], chip, **attrs))
    close(*run_op("AvgPoolV2", [x], chip, **attrs), ulps=1, absolute=1e-3)
    close(*run_op("GlobalAveragePool", [x], chip), ulps=1, absolute=1e-4)
    close(*run_op("ResizeBilinearV2D", [x], chip, size=(9, 20)), ulps=1, absolute=2e-3)
    scales = np.asarray([1, 1, 2, 2], np.float32)
    ways = {"coordinate_transformation_mode": "asymmetric", "mode": "nearest", "nearest_mode": "floor"}
    close(*run_op("Resize", [x, None, scales], chip, const=(2,), **ways))
