"""Convolutions against onnxruntime; integer ones against exact integer sums."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ops_judge import close, onnx_run, run_op

from ascend_sim import ops
from ascend_sim.ops.schema import TensorSpec

CASES = st.fixed_dictionaries(
    {
        "n": st.integers(1, 2),
        "groups": st.sampled_from([1, 1, 2, 3]),
        "in_per": st.integers(1, 4),
        "out_per": st.integers(1, 4),
        "size": st.tuples(st.integers(5, 11), st.integers(5, 11)),
        "kernel": st.tuples(st.integers(1, 3), st.integers(1, 3)),
        "strides": st.tuples(st.integers(1, 3), st.integers(1, 3)),
        "dilations": st.tuples(st.integers(1, 2), st.integers(1, 2)),
        "pads": st.tuples(*[st.integers(0, 2)] * 4),  # top, bottom, left, right
        "bias": st.booleans(),
        "dtype": st.sampled_from(["float32", "float16"]),
        "nhwc": st.booleans(),
        "seed": st.integers(0, 99),
    }
)


def conv_case(c: dict, transposed: bool = False) -> tuple[list, dict, dict, list[str]]:
    rng = np.random.default_rng(c["seed"])
    cin, cout = c["groups"] * c["in_per"], c["groups"] * c["out_per"]
    x = rng.standard_normal((c["n"], cin, *c["size"])).astype(c["dtype"])
    shape = (cin, c["out_per"]) if transposed else (cout, c["in_per"])
    w = rng.standard_normal((*shape, *c["kernel"])).astype(c["dtype"])
    b = rng.standard_normal(cout).astype(c["dtype"]) if c["bias"] else None
    t, bt, left, r = c["pads"]
    onnx_attrs = {
        "strides": c["strides"], "dilations": c["dilations"], "pads": [t, left, bt, r], "group": c["groups"],
    }  # fmt: skip
    fmt = "NHWC" if c["nhwc"] else "NCHW"

    def four(v: tuple[int, int]) -> list[int]:
        return [1, *v, 1] if c["nhwc"] else [1, 1, *v]

    attrs = {
        "strides": four(c["strides"]), "dilations": four(c["dilations"]), "pads": list(c["pads"]),
        "groups": c["groups"], "data_format": fmt,
    }  # fmt: skip
    return [x, w, b], onnx_attrs, attrs, [fmt, "HWCN" if c["nhwc"] else "NCHW"]


def as_format(x: np.ndarray, w: np.ndarray, nhwc: bool) -> tuple[np.ndarray, np.ndarray]:
    return (x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0)) if nhwc else (x, w)


@settings(max_examples=60, deadline=None)
@given(CASES)
def test_conv2d_equals_onnxruntime(c: dict) -> None:
    (x, w, b), onnx_attrs, attrs, formats = conv_case(c)
    (wanted,) = onnx_run("Conv", [x, w, b], onnx_attrs)
    xs, ws = as_format(x, w, c["nhwc"])
    (got,) = run_op("Conv2D", [xs, ws, b], attrs, formats)
    close(got.transpose(0, 3, 1, 2) if c["nhwc"] else got, wanted, c["dtype"])


@settings(max_examples=30, deadline=None)
@given(CASES, st.integers(1, 3))
def test_depthwise_equals_onnxruntime(c: dict, multiplier: int) -> None:
    c = c | {"groups": c["in_per"] + 1, "in_per": 1, "out_per": multiplier}
    (x, w, b), onnx_attrs, attrs, formats = conv_case(c)
    (wanted,) = onnx_run("Conv", [x, w, b], onnx_attrs)
    attrs.pop("groups")
    xs = x.transpose(0, 2, 3, 1) if c["nhwc"] else x
    # HWCK: [Kh, Kw, C, multiplier]
    ws = w.reshape(c["groups"], multiplier, *c["kernel"]).transpose(2, 3, 0, 1) if c["nhwc"] else w
    (got,) = run_op("DepthwiseConv2D", [xs, ws, b], attrs, formats)
    close(got.transpose(0, 3, 1, 2) if c["nhwc"] else got, wanted, c["dtype"])


@settings(max_examples=40, deadline=None)
@given(CASES, st.tuples(st.integers(0, 1), st.integers(0, 1)))
def test_transposed_equals_onnxruntime(c: dict, extra: tuple[int, int]) -> None:
    extra = tuple(min(e, s - 1) for e, s in zip(extra, c["strides"], strict=True))
    pads = tuple(min(p, (c["kernel"][i // 2] - 1) * c["dilations"][i // 2]) for i, p in enumerate(c["pads"]))
    c = c | {"pads": pads}
    (x, w, b), onnx_attrs, attrs, formats = conv_case(c, transposed=True)
    (wanted,) = onnx_run("ConvTranspose", [x, w, b], onnx_attrs | {"output_padding": extra})
    attrs["output_padding"] = [0, *extra, 0] if c["nhwc"] else [0, 0, *extra]
    xs, ws = as_format(x, w, c["nhwc"])
    (got,) = run_op("Conv2DTransposeD", [xs, ws, b], attrs, formats)
    close(got.transpose(0, 3, 1, 2) if c["nhwc"] else got, wanted, c["dtype"])


@pytest.mark.parametrize(("channels", "left"), [(16, "int8"), (400, "int8"), (24, "uint8")])
def test_int8_convolution_is_exact(channels: int, left: str) -> None:
    rng = np.random.default_rng(1)
    low, high = (0, 256) if left == "uint8" else (-128, 128)
    x = rng.integers(low, high, (1, channels, 6, 6)).astype(left)
    w = rng.integers(-128, 128, (5, channels, 3, 3)).astype(np.int8)
    attrs = {"strides": [1] * 4, "pads": [1] * 4, "dilations": [1] * 4, "groups": 1, "data_format": "NCHW"}
    (got,) = run_op("Conv2D", [x, w, None], attrs, ["NCHW", "NCHW"])
    padded = np.pad(x.astype(np.int64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    wanted = np.zeros((1, 5, 6, 6), np.int64)
    for i in range(3):
        for j in range(3):
            wanted += np.einsum("nchw,oc->nohw", padded[:, :, i : i + 6, j : j + 6], w[:, :, i, j].astype(np.int64))
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, wanted)


def test_epilogue_runs_before_the_only_rounding() -> None:
    x = np.full((1, 1, 1, 1), 2048, np.float16)
    w = np.ones((1, 1, 1, 1), np.float16)
    residual = np.full((1, 1, 1, 1), 1, np.float16)
    bias = np.full(1, 1, np.float16)  # 2048 + 1 rounds to 2048 in fp16, 2048 + 1 + 1 does not
    attrs = {"strides": [1] * 4, "pads": [0] * 4, "data_format": "NCHW", "epilogue": (("add",), ("relu",))}
    (got,) = run_op("Conv2D", [x, w, bias, residual], attrs, ["NCHW"] * 4)
    assert got.item() == 2050


def test_columns_are_gathered_in_bounded_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    ops.load(kernels=False)
    from ascend_sim.ops.values import conv

    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 3, 17, 13)).astype("f4"), rng.standard_normal((4, 3, 3, 3)).astype("f4")
    attrs = {"strides": [1] * 4, "pads": [1] * 4, "data_format": "NCHW"}
    (whole,) = run_op("Conv2D", [x, w, None], attrs, ["NCHW"] * 2)
    monkeypatch.setattr(conv, "_COLUMN_BYTES", 27 * 13 * 4 * 3)
    (pieces,) = run_op("Conv2D", [x, w, None], attrs, ["NCHW"] * 2)
    close(pieces, whole)


@pytest.mark.parametrize(
    ("w_shape", "attrs", "words"),
    [
        ((8, 4, 3, 3), {}, "filter is float16.8,4,3,3.*x is float16.1,3,8,8"),
        ((8, 3, 9, 9), {}, "window of 9 along spatial axis 0 does not fit into the input's 8"),
        ((8, 3, 3, 3), {"strides": [1, 1]}, "attribute strides is .1, 1.; expected 4 values"),
        ((8, 3, 3, 3), {"strides": [1, 1, 0, 1]}, "stride 0"),
    ],
)
def test_errors_name_operator_input_and_shape(w_shape: tuple, attrs: dict, words: str) -> None:
    x = TensorSpec((1, 3, 8, 8), "float16", "NCHW")
    w = TensorSpec(w_shape, "float16", "NCHW")
    with pytest.raises(ops.ShapeError, match=f"Conv2D: .*{words}"):
        ops.infer("Conv2D", [x, w, None], {"strides": [1] * 4, "data_format": "NCHW"} | attrs)
