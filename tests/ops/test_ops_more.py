"""Quantisation, recurrent networks, einsum, creation and vision operators against onnxruntime and NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from ops_judge import close, onnx_run, run_op

from ascend_sim import ops
from ascend_sim.ops.schema import TensorSpec


def normal(*shape: int, dtype: str = "float32", scale: float = 1.0) -> np.ndarray:
    return (np.random.default_rng(sum(shape)).standard_normal(shape) * scale).astype(dtype)


# ---- quantisation


def test_quantise_and_back() -> None:
    x = normal(3, 4, 5, scale=3)
    scale, zero = np.array([0.05, 0.02, 0.1, 0.03], "f4"), np.array([3, -4, 0, 7], np.int8)
    (wanted,) = onnx_run("QuantizeLinear", [x, scale, zero], {"axis": 1})
    (got,) = run_op("Quantize", [x, scale, zero.astype("i4")], {"axis": 1, "dtype": "int8"})
    np.testing.assert_array_equal(got, wanted)
    (wanted,) = onnx_run("DequantizeLinear", [got, scale, zero], {"axis": 1})
    (back,) = run_op("AscendAntiQuantV2", [got, scale, -zero.astype("f4")], {"axis": 1, "dst_type": "float32"})
    close(back, wanted)


def test_ascend_quant_formula() -> None:
    x = np.array([0.24, 0.26, -100, 100, 0.125, np.nan], np.float16)
    (got,) = run_op("AscendQuant", [x], {"scale": 4.0, "offset": -3.0})
    np.testing.assert_array_equal(got, [-2, -2, -128, 127, -2, 0])  # 0.125 * 4 - 3 = -2.5 goes to even
    (got,) = run_op("AscendQuant", [x[:1]], {"scale": 4.0, "offset": 0.0, "round_mode": "Ceil", "sqrt_mode": True})
    assert got.item() == 4
    word = np.array([np.float32(0.5).view(np.uint32)], np.uint64) | np.uint64(1 << 40)
    acc = np.array([[3, -3]], np.int32)
    (got,) = run_op("AscendDequant", [acc, word], {"relu_flag": True})
    assert got.dtype == np.float16 and got.tolist() == [[1.5, 0]]
    assert run_op("AscendRequant", [acc * 100, word])[0].tolist() == [[127, -128]]
    y, s = run_op("DynamicQuant", [normal(4, 6, dtype="float16")])
    assert y.dtype == np.int8 and np.abs(y).max(axis=-1).tolist() == [127] * 4
    close(y * s[:, None], normal(4, 6, dtype="float16"), "bfloat16")


# ---- recurrent


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_equals_onnxruntime(kind: str, direction: str) -> None:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    d, steps, batch, width, hidden = (2 if direction == "bidirectional" else 1), 5, 3, 4, 6
    x, w = normal(steps, batch, width), normal(d, gates * hidden, width, scale=0.5)
    r, b = normal(d, gates * hidden, hidden, scale=0.5), normal(d, 2 * gates * hidden)
    lengths, h0, c0 = np.array([5, 2, 4], np.int32), normal(d, batch, hidden), normal(d + 1, batch, hidden)[:d]
    inputs = [x, w, r, b, lengths, h0, *([c0, normal(d, 3 * hidden)] if kind == "LSTM" else [])]
    attrs = {"hidden_size": hidden, "direction": direction}
    if kind == "GRU":
        attrs["linear_before_reset"] = 1
    wanted = onnx_run(kind, inputs, attrs, n_out=3 if kind == "LSTM" else 2)
    for got, want in zip(run_op(f"Common{kind}", inputs, attrs), wanted, strict=True):
        close(got, want)
    short = [x, w, r]
    wanted = onnx_run(kind, short, {"hidden_size": hidden, "direction": direction})
    close(run_op(f"Common{kind}", short, {"hidden_size": hidden, "direction": direction})[0], wanted[0])


def test_recurrent_activations_and_errors() -> None:
    x, w, r = normal(3, 2, 4), normal(1, 6, 4), normal(1, 6, 6)
    attrs = {"hidden_size": 6, "activations": ["LeakyRelu"], "activation_alpha": [0.3], "clip": 0.7}
    (wanted,) = onnx_run("RNN", [x, w, r], attrs)
    close(run_op("CommonRNN", [x, w, r], attrs)[0], wanted)
    with pytest.raises(ops.ShapeError, match=r"CommonLSTM: w is float32\[1,6,4\]; expected \[1,24,4\]"):
        ops.infer("CommonLSTM", [TensorSpec(a.shape, "float32") for a in (x, w, r)], {"hidden_size": 6})


def test_dynamic_rnn_equals_the_onnx_lstm() -> None:
    steps, batch, width, hidden = 4, 2, 3, 5
    x, w, r = normal(steps, batch, width), normal(1, 4 * hidden, width), normal(1, 4 * hidden, hidden)
    b = normal(1, 8 * hidden)
    y, _, c = onnx_run("LSTM", [x, w, r, b], {"hidden_size": hidden}, n_out=3)
    order = [0, 3, 2, 1]  # ONNX has i o f c, GE i j f o

    def gates(a: np.ndarray) -> np.ndarray:
        return a.reshape(4, hidden, -1)[order].reshape(4 * hidden, -1)

    weights = np.concatenate([gates(w[0]), gates(r[0])], 1).T
    bias = gates((b[0, : 4 * hidden] + b[0, 4 * hidden :])[:, None])[:, 0]
    got = run_op("DynamicRNN", [x, np.ascontiguousarray(weights), bias])
    close(got[0], y[:, 0])
    close(got[2][-1], c[0])


def test_dynamic_gru_equals_the_onnx_gru() -> None:
    steps, batch, width, hidden = 4, 2, 3, 5
    x, w, r = normal(steps, batch, width), normal(1, 3 * hidden, width), normal(1, 3 * hidden, hidden)
    b = normal(1, 6 * hidden)
    for after in (0, 1):
        (y,) = onnx_run("GRU", [x, w, r, b], {"hidden_size": hidden, "linear_before_reset": after})
        inputs = [x, w[0].T, r[0].T, b[0, : 3 * hidden], b[0, 3 * hidden :]]
        got = run_op("DynamicGRUV2", [np.ascontiguousarray(a) for a in inputs], {"reset_after": bool(after)})
        close(got[0], y[:, 0])


# ---- einsum and creation


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(3, 4), (4, 5)]),
        ("bhid,bhjd->bhij", [(2, 3, 4, 5), (2, 3, 6, 5)]),
        ("...ij->...ji", [(2, 3, 4)]),
        ("ii->i", [(4, 4)]),
        ("i,j", [(3,), (4,)]),
        ("bij, bjk, k -> bi", [(2, 3, 4), (2, 4, 5), (5,)]),
        ("...i,...i->...", [(2, 3), (2, 3)]),
    ],
)
def test_einsum(equation: str, shapes: list) -> None:
    arrays = [normal(*s) for s in shapes]
    (wanted,) = onnx_run("Einsum", arrays, {"equation": equation})
    close(run_op("Einsum", arrays, {"equation": equation})[0], wanted)


def test_einsum_errors() -> None:
    with pytest.raises(ops.ShapeError, match=r"Einsum: x1 is float16\[5,2\]: letter 'j' of 'ij,jk->ik' is 4 elsewhere"):
        ops.infer("Einsum", [TensorSpec((3, 4), "float16"), TensorSpec((5, 2), "float16")], {"equation": "ij,jk->ik"})


def test_creation() -> None:
    for values in ((1, 10, 3), (10, 1, -4), (1.0, 2.0, 0.25), (5, 5, 1)):
        arrays = [np.array(v, np.float32 if isinstance(v, float) else np.int64) for v in values]
        (wanted,) = onnx_run("Range", arrays, {})
        np.testing.assert_array_equal(run_op("Range", arrays, consts=[0, 1, 2])[0], wanted)
    dims = np.array([2, 3], np.int64)
    np.testing.assert_array_equal(run_op("Fill", [dims, np.array(4, "f2")], consts=[0])[0], np.full((2, 3), 4))
    x = normal(2, 3, dtype="float16")
    assert run_op("ZerosLike", [x])[0].any() == 0 and run_op("OnesLike", [x])[0].all()
    np.testing.assert_array_equal(run_op("Eye", [], {"num_rows": 3, "num_columns": 4})[0], np.eye(3, 4))
    np.testing.assert_array_equal(run_op("ReverseV2D", [x], {"axis": [1]})[0], x[:, ::-1])
    np.testing.assert_array_equal(run_op("Roll", [x], {"shifts": [1], "dims": [1]})[0], np.roll(x, 1, 1))


# ---- vision


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("mode", ["avg"])
def test_roi_align_equals_onnxruntime(aligned: bool, mode: str) -> None:
    x = normal(2, 3, 9, 11)
    rois = np.array([[1, 1.5, 7, 8.25], [0, 0, 4, 3], [2.2, 3.3, 30, 14]], "f4")
    image = np.array([0, 1, 1], np.int64)
    transform = "half_pixel" if aligned else "output_half_pixel"
    judge = {
        "output_height": 3, "output_width": 4, "sampling_ratio": 2, "spatial_scale": 0.8, "mode": mode,
        "coordinate_transformation_mode": transform,
    }  # fmt: skip
    (wanted,) = onnx_run("RoiAlign", [x, rois, image], judge)
    attrs = {
        "pooled_height": 3, "pooled_width": 4, "sample_num": 2, "spatial_scale": 0.8,
        "roi_end_mode": 2 if aligned else 0,
    }  # fmt: skip
    (got,) = run_op("ROIAlign", [x, np.concatenate([image[:, None].astype("f4"), rois], 1)], attrs)
    close(got, wanted)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [0, 1])
def test_grid_sampler_equals_onnxruntime(mode: str, padding: str, align: int) -> None:
    x, grid = normal(2, 3, 5, 6), normal(2, 4, 7, 2, scale=0.8)
    (wanted,) = onnx_run(
        "GridSample", [x, grid], {"mode": mode, "padding_mode": padding, "align_corners": align}, opset=16
    )
    attrs = {"interpolation_mode": mode, "padding_mode": padding, "align_corners": bool(align)}
    got = run_op("GridSampler2D", [x, grid], attrs)[0]
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("center", [0, 1])
def test_non_maximum_suppression_equals_onnxruntime(center: int) -> None:
    rng = np.random.default_rng(4)
    corner = rng.uniform(0, 8, (2, 30, 2))
    size = rng.uniform(1, 5, (2, 30, 2))
    boxes = np.concatenate([corner, size if center else corner + size], -1).astype("f4")
    scores = rng.uniform(0, 1, (2, 3, 30)).astype("f4")
    limits = [np.array([6], np.int64), np.array([0.4], "f4"), np.array([0.3], "f4")]
    (wanted,) = onnx_run("NonMaxSuppression", [boxes, scores, *limits], {"center_point_box": center})
    (got,) = run_op("NonMaxSuppressionV6", [boxes, scores, *limits], {"center_point_box": center}, consts=[2, 3, 4])
    np.testing.assert_array_equal(got[: len(wanted)], wanted)
    assert (got[len(wanted) :] == -1).all()


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_and_space(mode: str) -> None:
    x = normal(2, 12, 3, 4)
    (wanted,) = onnx_run("DepthToSpace", [x], {"blocksize": 2, "mode": mode})
    attrs = {"block_size": 2, "mode": mode, "data_format": "NCHW"}
    np.testing.assert_array_equal(run_op("DepthToSpace", [x], attrs, ["NCHW"])[0], wanted)
    nhwc = run_op("DepthToSpace", [x.transpose(0, 2, 3, 1)], attrs | {"data_format": "NHWC"}, ["NHWC"])[0]
    np.testing.assert_array_equal(nhwc.transpose(0, 3, 1, 2), wanted)
    (back,) = onnx_run("SpaceToDepth", [wanted], {"blocksize": 2})
    np.testing.assert_array_equal(run_op("SpaceToDepth", [wanted], attrs, ["NCHW"])[0], back)


@pytest.mark.parametrize("exclude", [0, 1])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_antialiased_resize_equals_onnxruntime(mode: str, exclude: int) -> None:
    x = normal(1, 2, 12, 11)
    sizes = np.array([1, 2, 5, 4], np.int64)
    attrs = {"mode": mode, "coordinate_transformation_mode": "half_pixel", "antialias": 1, "exclude_outside": exclude}
    (wanted,) = onnx_run("Resize", [x, None, None, sizes], attrs)
    got = run_op("Resize", [x, None, None, sizes], attrs, consts=[3])[0]
    np.testing.assert_allclose(got, wanted, atol=1e-4)
