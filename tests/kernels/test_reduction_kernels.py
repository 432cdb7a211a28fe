"""Reductions and softmax against the operators' NumPy values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ascend_sim.ops.registry import NoKernel

CHIPS = ("Ascend310", "Ascend310P3", "Ascend910A", "Ascend910B2")
chips = st.sampled_from(CHIPS)
seeds = st.integers(0, 2**32 - 1)
shapes = st.lists(st.sampled_from((1, 2, 3, 7, 8, 16, 20, 33, 64, 67, 100)), min_size=1, max_size=3)
axis_lists = st.sets(st.integers(0, 2), min_size=1)
relaxed = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@relaxed
@given(
    chips,
    st.sampled_from(("Sum", "Mean", "Max", "Min", "Prod")),
    st.sampled_from((np.float16, np.float32, np.int32)),
    shapes,
    axis_lists,
    seeds,
)
def test_reduce(
    run_op: Any, close: Any, chip: str, op: str, kind: Any, shape: list[int], axes: set[int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    axes = {a % len(shape) for a in axes}
    if op == "Prod":
        x = np.asarray(1 + rng.standard_normal(shape) * 0.01).astype(kind)
    else:
        x = (rng.standard_normal(shape) * 4).astype(kind)
    try:
        got, want = run_op(f"Reduce{op}D", [x], chip, axes=tuple(sorted(axes)))
    except NoKernel as error:
        assert any(w in str(error) for w in ("scattered", "integers", "shorter than a block"))
        return
    count = np.prod([shape[a] for a in axes])
    exact = kind is np.int32 or op in ("Max", "Min")
    close(got, want, ulps=0 if exact else 2 if kind is np.float16 else 64 + count, absolute=0 if exact else 1e-4)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(
    ("shape", "axes"),
    [((300, 67), (1,)), ((1, 200000), (1,)), ((3, 70, 640), (0,)), ((2, 5000, 20), (1,)), ((6000, 3), (0,))],
)
def test_large_reduce(run_op: Any, close: Any, chip: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float16)
    try:
        close(*run_op("ReduceMaxD", [x], chip, axes=axes))
        close(*run_op("ReduceMeanD", [x], chip, axes=axes), ulps=1, absolute=1e-4)
    except NoKernel:
        assert shape == (6000, 3) and chip != "Ascend910B2"


def test_spatial_reduce(run_op: Any, close: Any) -> None:
    x = np.random.default_rng(0).standard_normal((2, 24, 9, 9)).astype(np.float16)
    for chip in CHIPS:
        got, want = run_op("ReduceMeanD", [x], chip, formats=("NC1HWC0",), axes=(2, 3), keep_dims=True)
        close(got, want, ulps=1, absolute=1e-4)


@relaxed
@given(
    chips,
    st.booleans(),
    st.sampled_from((np.float16, np.float32)),
    st.integers(1, 40),
    st.one_of(st.integers(1, 200), st.sampled_from((1000, 2047, 4096))),
    seeds,
)
def test_softmax_of_rows(
    run_op: Any, close: Any, chip: str, log: bool, kind: Any, rows: int, length: int, seed: int
) -> None:
    x = (np.random.default_rng(seed).standard_normal((rows, length)) * 4).astype(kind)
    try:
        got, want = run_op("LogSoftmaxV2" if log else "SoftmaxV2", [x], chip, axes=(-1,))
    except NoKernel as error:
        assert "shorter than a block" in str(error)
        return
    coarse = chip == "Ascend310" or kind is np.float16
    close(got, want, ulps=4 if coarse else 512, absolute=(8e-3 if log else 1e-3) if coarse else 2e-5)
    if not log:
        np.testing.assert_allclose(got[0].astype(np.float64).sum(-1), 1, atol=4e-3)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("shape", [(2, 21, 30, 30), (1, 3, 100, 333), (2, 5, 17)])
def test_softmax_over_channels(run_op: Any, close: Any, chip: str, shape: tuple[int, ...]) -> None:
    x = (np.random.default_rng(0).standard_normal(shape) * 4).astype(np.float16)
    close(*run_op("SoftmaxV2", [x], chip, axes=(1,)), ulps=4, absolute=1e-3)
    close(*run_op("LogSoftmaxV2", [x], chip, axes=(1,)), ulps=4, absolute=1e-2)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    chips,
    st.sampled_from((np.float16, np.float32)),
    st.integers(1, 20),
    st.one_of(st.integers(16, 300), st.sampled_from((768, 1000, 4096))),
    seeds,
)
def test_normalisation_of_rows(
    run_op: Any, close: Any, chip: str, kind: Any, rows: int, length: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x, y = ((rng.standard_normal((rows, length)) + 1).astype(kind) for _ in range(2))
    gamma, beta = (rng.standard_normal(length).astype(kind) for _ in range(2))
    limits = {"ulps": 2 if kind is np.float16 else 64, "absolute": 2e-3 if kind is np.float16 else 5e-5}
    close(
        *run_op("LayerNormV3", [x, gamma, beta], chip, begin_norm_axis=1, begin_params_axis=1, epsilon=1e-5), **limits
    )
    close(*run_op("LayerNormV4", [x, None, gamma, beta], chip, normalized_shape=(length,)), **limits)
    close(*run_op("RmsNorm", [x, gamma], chip), **limits)
    close(*run_op("AddRmsNorm", [x, y, gamma], chip), **limits)


@pytest.mark.parametrize("chip", CHIPS)
def test_batch_normalisation(run_op: Any, close: Any, chip: str) -> None:
    rng = np.random.default_rng(0)
    for c, formats in ((24, ()), (32, ("NC1HWC0",))):
        x = rng.standard_normal((2, c, 7, 9)).astype(np.float16)
        parts = [rng.standard_normal(c).astype(np.float32) for _ in range(3)]
        variance = rng.uniform(0.5, 2, c).astype(np.float32)
        close(*run_op("BNInfer", [x, *parts, variance], chip, formats=formats), ulps=2, absolute=2e-3)


@relaxed
@given(
    chips,
    st.booleans(),
    st.sampled_from((np.float16, np.float32)),
    st.lists(st.sampled_from((1, 2, 5, 16, 33, 64, 67, 300)), min_size=1, max_size=3),
    st.integers(0, 2),
    seeds,
)
def test_index_of_extreme(
    run_op: Any, close: Any, chip: str, largest: bool, kind: Any, shape: list[int], axis: int, seed: int
) -> None:
    """Few distinct values, so that ties decide: the lowest index wins."""
    assume(np.prod(shape) < 40000)
    x = np.random.default_rng(seed).integers(-3, 4, shape).astype(kind)
    try:
        got, want = run_op("ArgMaxD" if largest else "ArgMinD", [x], chip, dimension=axis % len(shape))
    except NoKernel as error:
        assert any(w in str(error) for w in ("whole-repeat", "shorter than a block"))
        return
    close(got, want)


@pytest.mark.parametrize(
    ("chip", "kind"),
    [("Ascend310", np.float16), ("Ascend310P3", np.float32), ("Ascend910A", np.float32), ("Ascend910B2", np.float16)],
)
def test_rows_longer_than_the_unified_buffer(run_op: Any, close: Any, chip: str, kind: Any) -> None:
    """In pieces: three passes of softmax, two of layer normalisation with its statistics."""
    rng = np.random.default_rng(0)
    n = 70016 if chip == "Ascend310" else 70001
    x = (rng.standard_normal((1, n)) + 3).astype(kind)
    coarse = chip == "Ascend310" or kind is np.float16
    for op, limit in (("SoftmaxV2", 1e-5), ("LogSoftmaxV2", 1e-2)):
        close(*run_op(op, [x], chip, axes=(-1,)), ulps=16 if coarse else 512, absolute=limit if coarse else 1e-5)
    gamma, beta = (rng.standard_normal(n).astype(kind) for _ in range(2))
    limits = {"ulps": 2 if kind is np.float16 else 64, "absolute": 4e-3 if kind is np.float16 else 5e-5}
    close(*run_op("LayerNormV4", [x, None, gamma, beta], chip, normalized_shape=(n,)), **limits)
    attrs = {"begin_norm_axis": 1, "begin_params_axis": 1, "epsilon": 1e-5}
    close(*run_op("LayerNormV3", [x, gamma, beta], chip, **attrs), **limits)


@pytest.mark.parametrize("chip", CHIPS)
def test_softmax_over_a_deep_inner_axis(run_op: Any, close: Any, chip: str) -> None:
    """Columns too long for the unified buffer: the axis is turned to the end and back."""
    x = np.random.default_rng(0).standard_normal((1, 10000, 16)).astype(np.float16)
    close(*run_op("SoftmaxV2", [x], chip, axes=(1,)), ulps=16, absolute=1e-5)
