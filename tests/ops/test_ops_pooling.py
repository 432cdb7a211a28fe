"""Poolings against onnxruntime."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from ops_judge import close, onnx_run, run_op

from ascend_sim import ops
from ascend_sim.ops.schema import TensorSpec

CASES = st.fixed_dictionaries(
    {
        "size": st.tuples(st.integers(5, 12), st.integers(5, 12)),
        "kernel": st.tuples(st.integers(1, 4), st.integers(1, 4)),
        "strides": st.tuples(st.integers(1, 3), st.integers(1, 3)),
        "dilations": st.tuples(st.integers(1, 2), st.integers(1, 2)),
        "pads": st.tuples(*[st.integers(0, 2)] * 4),
        "ceil": st.booleans(),
        "nhwc": st.booleans(),
        "dtype": st.sampled_from(["float32", "float16"]),
        "seed": st.integers(0, 99),
    }
)


def pool_case(c: dict) -> tuple[np.ndarray, dict, dict]:
    pads = tuple(min(p, c["kernel"][i // 2] - 1) for i, p in enumerate(c["pads"]))
    x = np.random.default_rng(c["seed"]).standard_normal((2, 3, *c["size"])).astype(c["dtype"])
    top, bottom, left, right = pads
    judge = {
        "kernel_shape": c["kernel"], "strides": c["strides"], "dilations": c["dilations"],
        "pads": [top, left, bottom, right], "ceil_mode": int(c["ceil"]),
    }  # fmt: skip

    def four(v: tuple[int, int]) -> list[int]:
        return [1, *v, 1] if c["nhwc"] else [1, 1, *v]

    attrs = {
        "ksize": four(c["kernel"]), "strides": four(c["strides"]), "dilations": four(c["dilations"]),
        "padding_mode": "CALCULATED", "pads": pads, "ceil_mode": c["ceil"],
        "data_format": "NHWC" if c["nhwc"] else "NCHW",
    }  # fmt: skip
    spans = [d * (k - 1) + 1 for d, k in zip(c["dilations"], c["kernel"], strict=True)]
    assume(all(s + p >= n for s, p, n in zip(c["size"], (top + bottom, left + right), spans, strict=True)))
    return x, judge, attrs


def run_pool(op: str, x: np.ndarray, attrs: dict) -> np.ndarray:
    nhwc = attrs["data_format"] == "NHWC"
    (got,) = run_op(op, [x.transpose(0, 2, 3, 1) if nhwc else x], attrs, [attrs["data_format"]])
    return got.transpose(0, 3, 1, 2) if nhwc else got


@settings(max_examples=60, deadline=None)
@given(CASES)
def test_max_pool_equals_onnxruntime(c: dict) -> None:
    x, judge, attrs = pool_case(c)
    (wanted,) = onnx_run("MaxPool", [x], judge)
    np.testing.assert_array_equal(run_pool("MaxPoolV3", x, attrs).astype("f4"), wanted)


@cache
def judge_counts_trailing_pads() -> bool:
    """onnxruntime 1.23 leaves padding at the end out of the count at opset 19."""
    attrs = {"kernel_shape": [2, 1], "pads": [0, 0, 1, 0], "count_include_pad": 1}
    (got,) = onnx_run("AveragePool", [np.ones((1, 1, 3, 1), "f4")], attrs, opset=19)
    return bool(got.ravel()[-1] == 0.5)


@settings(max_examples=60, deadline=None)
@given(CASES, st.booleans())
def test_avg_pool_equals_onnxruntime(c: dict, exclusive: bool) -> None:
    x, judge, attrs = pool_case(c | {"dilations": (1, 1)})
    judge.pop("dilations")
    assume(exclusive or not any(judge["pads"][2:]) or judge_counts_trailing_pads())
    (wanted,) = onnx_run("AveragePool", [x], judge | {"count_include_pad": int(not exclusive)}, opset=19)
    close(run_pool("AvgPoolV2", x, attrs | {"exclusive": exclusive}), wanted, c["dtype"])


@pytest.mark.parametrize("op", ["MaxPool", "AvgPool"])
@pytest.mark.parametrize(("padding", "judge"), [("SAME", "SAME_UPPER"), ("VALID", "VALID")])
def test_padding_modes(op: str, padding: str, judge: str) -> None:
    x = np.random.default_rng(0).standard_normal((1, 2, 9, 8)).astype("f4")
    onnx_name = {"MaxPool": "MaxPool", "AvgPool": "AveragePool"}[op]
    (wanted,) = onnx_run(onnx_name, [x], {"kernel_shape": [3, 2], "strides": [2, 2], "auto_pad": judge})
    attrs = {"ksize": [1, 3, 2, 1], "strides": [1, 2, 2, 1], "padding": padding, "data_format": "NHWC"}
    close(run_pool(op, x, attrs), wanted)


def test_max_pool_keeps_infinities_and_negative_values() -> None:
    x = np.array([[-np.inf, -3.0], [-2.0, -np.inf]], np.float16).reshape(1, 1, 2, 2)
    attrs = {"ksize": [1, 1, 2, 2], "strides": [1, 1, 1, 1], "pads": [1, 1, 1, 1], "data_format": "NCHW"}
    (got,) = run_op("MaxPoolV3", [x], attrs, ["NCHW"])
    np.testing.assert_array_equal(got[0, 0], [[-np.inf, -3, -3], [-2, -2, -3], [-2, -2, -np.inf]])


def test_global_and_adaptive_pools() -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 7, 5)).astype("f2")
    close(run_op("GlobalAveragePool", [x])[0], onnx_run("GlobalAveragePool", [x], {})[0], "float16")
    np.testing.assert_array_equal(run_op("GlobalMaxPool", [x])[0], x.max((2, 3), keepdims=True))
    attrs = {"ksize": [1, 1, 1, 1], "strides": [1, 1, 1, 1], "global_pooling": True, "data_format": "NCHW"}
    close(run_op("AvgPoolV2", [x], attrs, ["NCHW"])[0], x.astype("f8").mean((2, 3), keepdims=True), "float16")
    (got,) = run_op("AdaptiveAvgPool2d", [x], {"output_size": [3, 2]})
    wanted = [
        [x[..., a:b, c:d].astype("f8").mean((2, 3)) for c, d in ((0, 3), (2, 5))] for a, b in ((0, 3), (2, 5), (4, 7))
    ]
    close(got, np.moveaxis(np.array(wanted), (0, 1), (-2, -1)), "float16")


def test_max_pool_of_integers() -> None:
    x = np.random.default_rng(0).integers(-100, 100, (1, 2, 6, 6)).astype(np.int8)
    attrs = {"ksize": [1, 1, 2, 2], "strides": [1, 1, 2, 2], "data_format": "NCHW"}
    (got,) = run_op("MaxPoolV3", [x], attrs, ["NCHW"])
    np.testing.assert_array_equal(got, x.reshape(1, 2, 3, 2, 3, 2).max((3, 5)))


def test_errors() -> None:
    x = TensorSpec((1, 3, 4, 4), "float16", "NCHW")
    with pytest.raises(ops.ShapeError, match=r"MaxPoolV3: window of 9 along spatial axis 0 does not fit"):
        ops.infer("MaxPoolV3", [x], {"ksize": [1, 1, 9, 9], "strides": [1, 1, 1, 1]})
    with pytest.raises(ops.ShapeError, match=r"MaxPoolV3: attribute padding_mode is 'FULL'"):
        ops.infer("MaxPoolV3", [x], {"ksize": [1, 1, 2, 2], "strides": [1] * 4, "padding_mode": "full"})
    with pytest.raises(ops.ShapeError, match=r"MaxPoolV3: attribute ksize is missing"):
        ops.infer("MaxPoolV3", [x], {})
