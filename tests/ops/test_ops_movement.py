"""Layout and data movement: exact, against NumPy and onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ops_judge import onnx_run, run_op

from ascend_sim import ops
from ascend_sim.ops.schema import TensorSpec


def arr(*shape: int, dtype: str = "float16") -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(-100, 100, shape).astype(dtype)


def i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize(
    ("shape", "target", "wanted"),
    [
        ((2, 3, 4), (0, -1), (2, 12)),
        ((2, 3, 4), (4, 6), (4, 6)),
        ((1,), (), ()),
        ((), (1, 1), (1, 1)),
        ((0, 3), (3, 0, 1), None),
        ((2, 0), (0, -1), None),
    ],
)
def test_reshape(shape: tuple, target: tuple, wanted: tuple | None) -> None:
    x = arr(*shape)
    if wanted is None:
        x = np.zeros(shape, np.float16)
        (judge,) = onnx_run("Reshape", [x, i64(*target)], {"allowzero": 1} if target == (3, 0, 1) else {})
        wanted = judge.shape
    attrs = {"allowzero": 1} if target == (3, 0, 1) else {}
    (got,) = run_op("Reshape", [x, i64(*target)], attrs, consts=[1])
    assert got.shape == wanted
    np.testing.assert_array_equal(got.reshape(-1), x.reshape(-1))


def test_squeeze_unsqueeze_flatten() -> None:
    x = arr(1, 3, 1, 4)
    assert run_op("Squeeze", [x])[0].shape == (3, 4)
    assert run_op("Squeeze", [x], {"axis": [-2]})[0].shape == (1, 3, 4)
    assert run_op("Unsqueeze", [x], {"axes": [0, -1]})[0].shape == (1, 1, 3, 1, 4, 1)
    assert run_op("ExpandDims", [x, i64(1)], consts=[1])[0].shape == (1, 1, 3, 1, 4)
    assert run_op("Flatten", [x], {"axis": 2})[0].shape == (3, 4)
    assert run_op("FlattenV2", [x], {"axis": 1, "end_axis": -2})[0].shape == (1, 3, 4)
    with pytest.raises(ops.ShapeError, match=r"Squeeze: x is float16.1,3,1,4.; expected size 1 at axis 1"):
        ops.infer("Squeeze", [TensorSpec((1, 3, 1, 4), "float16")], {"axis": [1]})


@settings(max_examples=30, deadline=None)
@given(st.permutations(range(4)), st.booleans())
def test_transpose(perm: list[int], as_input: bool) -> None:
    x = arr(2, 3, 4, 5)
    if as_input:
        (got,) = run_op("Transpose", [x, i64(*perm)], consts=[1])
    else:
        (got,) = run_op("TransposeD", [x], {"perm": perm})
    np.testing.assert_array_equal(got, x.transpose(perm))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat_and_split(axis: int) -> None:
    parts = [arr(2, 3, 4), arr(2, 3, 4) + 1, arr(2, 3, 4) + 2]
    (joined,) = run_op("ConcatD", parts, {"concat_dim": axis})
    np.testing.assert_array_equal(joined, np.concatenate(parts, axis))
    dim = np.array(axis, np.int32)
    np.testing.assert_array_equal(run_op("ConcatV2", [*parts, dim], consts=[3])[0], joined)
    np.testing.assert_array_equal(run_op("Concat", [dim, *parts], consts=[0])[0], joined)
    for got, part in zip(run_op("SplitD", [joined], {"split_dim": axis, "num_split": 3}), parts, strict=True):
        np.testing.assert_array_equal(got, part)
    size = joined.shape[axis]
    got = run_op("SplitVD", [joined], {"split_dim": axis, "size_splits": [1, -1], "num_split": 2})
    for g, w in zip(got, np.split(joined, [1], axis), strict=True):
        np.testing.assert_array_equal(g, w)
    got = run_op("SplitV", [joined, i64(size - 2, 2), dim], consts=[1, 2])
    np.testing.assert_array_equal(got[1], np.split(joined, [size - 2], axis)[1])


def test_pack_unpack() -> None:
    parts = [arr(2, 3), arr(2, 3) + 1]
    (got,) = run_op("Pack", parts, {"axis": 1})
    np.testing.assert_array_equal(got, np.stack(parts, 1))
    for g, p in zip(run_op("Unpack", [got], {"axis": 1, "num": 2}), parts, strict=True):
        np.testing.assert_array_equal(g, p)


BOUND = st.integers(-8, 8)


@settings(max_examples=80, deadline=None)
@given(BOUND, BOUND, st.sampled_from([-3, -2, -1, 1, 2, 3]), st.sampled_from([0, 1]))
def test_strided_slice_equals_onnxruntime(begin: int, end: int, step: int, axis: int) -> None:
    x = arr(6, 5)
    if begin < -x.shape[axis] and step < 0:  # GE follows TensorFlow and Python here: nothing; ONNX: the first element
        wanted = x[:0] if axis == 0 else x[:, :0]
    else:
        (wanted,) = onnx_run("Slice", [x, i64(begin), i64(end), i64(axis), i64(step)], {})
    attrs = {"begin": [begin], "end": [end], "strides": [step], "axes": [axis]}
    np.testing.assert_array_equal(run_op("StridedSliceD", [x], attrs)[0], wanted)
    (got,) = run_op("StridedSliceV2", [x, i64(begin), i64(end), i64(axis), i64(step)], consts=[1, 2, 3, 4])
    np.testing.assert_array_equal(got, wanted)


def test_slice() -> None:
    x = arr(6, 5)
    np.testing.assert_array_equal(run_op("SliceD", [x], {"offsets": [1, 2], "size": [3, -1]})[0], x[1:4, 2:])
    got = run_op(
        "StridedSlice", [x, i64(1, 1), i64(5, 4), i64(2, 1)], {"begin_mask": 1, "end_mask": 2}, consts=[1, 2, 3]
    )
    np.testing.assert_array_equal(got[0], x[:5:2, 1:])
    with pytest.raises(ops.ShapeError, match="SliceD: offset 4 and size 3 leave axis 0"):
        ops.infer("SliceD", [TensorSpec((6, 5), "float16")], {"offsets": [4, 0], "size": [3, 5]})


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
def test_pad_equals_onnxruntime(mode: str) -> None:
    x = arr(4, 5)
    value = np.array(7, np.float16)
    (wanted,) = onnx_run("Pad", [x, i64(1, 2, 3, 0), value], {"mode": mode}, opset=19)
    pads = i64(1, 3, 2, 0)  # begin and end of each axis
    (got,) = run_op("PadV3", [x, pads, value], {"mode": mode}, consts=[1])
    np.testing.assert_array_equal(got, wanted)
    flat = {"mode": mode, "paddings_contiguous": False, "paddings": [1, 2, 3, 0], "constant_values": 7}
    np.testing.assert_array_equal(run_op("PadV3D", [x], flat)[0], wanted)


def test_negative_padding_crops_and_symmetric_mirrors() -> None:
    x = arr(4, 5)
    (got,) = run_op("PadV3D", [x], {"paddings": [[-1, 1], [0, -2]], "constant_values": 3})
    np.testing.assert_array_equal(got, np.pad(x[1:, :-2], ((0, 1), (0, 0)), constant_values=3))
    (got,) = run_op("MirrorPad", [x, i64(1, 2, 0, 3)], {"mode": "SYMMETRIC"}, consts=[1])
    np.testing.assert_array_equal(got, np.pad(x, ((1, 2), (0, 3)), mode="symmetric"))
    with pytest.raises(ops.ShapeError, match="larger than reflect padding"):
        ops.infer("PadV3D", [TensorSpec((2, 2), "float16")], {"paddings": [2, 0, 0, 0], "mode": "reflect"})


def test_tile_and_broadcast() -> None:
    x = arr(2, 1, 3)
    np.testing.assert_array_equal(run_op("Tile", [x, i64(2, 3, 1)], consts=[1])[0], np.tile(x, (2, 3, 1)))
    np.testing.assert_array_equal(
        run_op("BroadcastTo", [x, i64(5, 2, 4, 3)], consts=[1])[0], np.broadcast_to(x, (5, 2, 4, 3))
    )
    (wanted,) = onnx_run("Expand", [x, i64(2, 4, 1)], {})
    np.testing.assert_array_equal(run_op("Expand", [x, i64(2, 4, 1)], consts=[1])[0], wanted)
    with pytest.raises(ops.ShapeError, match="it does not broadcast to"):
        ops.infer("BroadcastToD", [TensorSpec((2, 4), "float16")], {"shape": [2, 1]})


def test_values_needed_for_shapes_must_be_constant() -> None:
    with pytest.raises(ops.ShapeError, match=r"Reshape: input shape \(int64\[2\]\) must be a constant"):
        ops.infer("Reshape", [TensorSpec((2, 3), "float16"), TensorSpec((2,), "int64")], {})


@pytest.mark.parametrize(
    ("fmt", "shape", "dtype", "wanted"),
    [
        ("NC1HWC0", (2, 20, 5, 6), "float16", (2, 2, 5, 6, 16)),
        ("NC1HWC0", (2, 20, 5, 6), "int8", (2, 1, 5, 6, 32)),
        ("FRACTAL_Z", (13, 3, 3, 3), "float16", (9, 1, 16, 16)),  # first convolution of a model compiled by ATC
        ("FRACTAL_Z", (40, 20, 1, 2), "float16", (4, 3, 16, 16)),
        ("FRACTAL_NZ", (3, 33, 20), "float16", (3, 2, 3, 16, 16)),
    ],
)
def test_transdata_keeps_values_and_states_storage(fmt: str, shape: tuple, dtype: str, wanted: tuple) -> None:
    x = arr(*shape, dtype=dtype)
    src = "NCHW" if len(shape) == 4 else "ND"
    call = ops.call("TransData", [TensorSpec(shape, dtype, src)], {"src_format": src, "dst_format": fmt})
    out = call.outputs[0]
    assert (out.shape, out.format, out.origin_shape, out.origin_format) == (wanted, fmt, shape, src)
    assert ops.values(call, [x])[0] is x
    back = ops.infer("TransData", [out], {"src_format": fmt, "dst_format": src})[0]
    assert back.shape == back.logical_shape == shape


def test_empty_tensors_pass_through() -> None:
    x = np.zeros((0, 4), np.float16)
    assert run_op("ConcatD", [x, arr(2, 4)], {"concat_dim": 0})[0].shape == (2, 4)
    assert run_op("TransposeD", [x], {"perm": [1, 0]})[0].shape == (4, 0)
    assert run_op("Relu", [x])[0].shape == (0, 4)
    assert run_op("ReduceSum", [x], {"axes": [0]})[0].tolist() == [0, 0, 0, 0]
    assert run_op("MatMulV2", [arr(2, 3)[:, :0], x])[0].tolist() == [[0] * 4] * 2
    assert run_op("SoftmaxV2", [x], {"axes": [1]})[0].shape == (0, 4)
