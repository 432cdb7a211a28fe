"""Every operator of common networks in every version of opsets 9 to 18, against onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from graph_models import check, make_model, randn, rng
from onnx import TensorProto, helper, numpy_helper

from benchmarks.onnx_suite.operators import OPERATORS

OLDEST, NEWEST = 9, 18
X = randn(2, 6, 5, 8)
V = randn(3, 4, seed=3)
BOOL = rng(4).random((3, 4)) > 0.5
INT = rng(5).integers(-9, 9, (3, 4))
POSITIVE = np.abs(V) + 0.5
BYTES = rng(6).integers(0, 255, (2, 4), np.uint8)


class Call:
    """One node: ``inputs`` in order, as arrays to feed, `Fixed` ones, or None (absent)."""

    def __init__(self, *inputs: Any, outputs: int = 1, tolerance: float = 1e-4, **attrs: Any) -> None:
        self.inputs, self.outputs, self.attrs, self.tolerance = inputs, outputs, attrs, tolerance


class Fixed:
    def __init__(self, value: Any, dtype: Any = None) -> None:
        self.value = np.asarray(value, dtype)


def axes(opset: int, since: int, x: Any, value: list[int], **attrs: Any) -> Call:
    """Axes as an attribute before opset ``since``, as an input from then on."""
    return Call(x, Fixed(value, np.int64), **attrs) if opset >= since else Call(x, axes=value, **attrs)


def softmax(opset: int) -> Call:
    return Call(X, axis=1 if opset >= 13 else 2)


def slice_(opset: int) -> Call:
    if opset < 10:
        return Call(X, starts=[1, -3], ends=[5, 100], axes=[1, 3])
    parts = ([1, -3], [5, 100], [1, 3], [2, 1])
    return Call(X, *(Fixed(p, np.int64) for p in parts))


def split(opset: int) -> Call:
    if opset < 13:
        return Call(X, axis=1, split=[2, 4], outputs=2)
    return Call(X, Fixed([2, 4], np.int64), axis=1, outputs=2)


def pad(opset: int) -> Call:
    pads = [0, 0, 1, 2, 0, 0, 3, 1]
    if opset < 11:
        return Call(X, mode="reflect", pads=[0, 0, 1, 2, 0, 0, 3, 1])
    return Call(X, Fixed(pads, np.int64), Fixed(1.5, np.float32))


def clip(opset: int) -> Call:
    if opset < 11:
        return Call(X, min=-0.5, max=0.75)
    return Call(X, Fixed(-0.5, np.float32), Fixed(0.75, np.float32))


def resize(opset: int) -> Call:
    scales = Fixed([1, 1, 2, 2], np.float32)
    if opset < 11:
        return Call(X, scales, mode="nearest")
    how = {"coordinate_transformation_mode": "half_pixel"}
    if opset < 13:
        return Call(X, Fixed([], np.float32), scales, mode="linear", **how)
    return Call(X, None, scales, mode="linear", **how)


def dropout(opset: int) -> Call:
    return Call(X, ratio=0.4) if opset < 12 else Call(X, Fixed(0.4, np.float32))


def top_k(opset: int) -> Call:
    return Call(X, k=3, axis=-1, outputs=2) if opset < 10 else Call(X, Fixed([3], np.int64), axis=-1, outputs=2)


def recurrent(gates: int, states: int, extra: int) -> Callable[[int], Call]:
    def make(opset: int) -> Call:
        hidden, width = 5, 4
        weights = (
            randn(2, gates * hidden, width, seed=1), randn(2, gates * hidden, hidden, seed=2),
            randn(2, 2 * gates * hidden, seed=3),
        )  # fmt: skip
        start = [randn(2, 2, hidden, seed=4 + i) for i in range(extra)]
        fixed = [Fixed(w * 0.4) for w in weights]
        return Call(
            randn(3, 2, width), *fixed, None, *start, hidden_size=hidden, direction="bidirectional",
            outputs=1 + states, tolerance=1e-3,
        )  # fmt: skip

    return make


def quantised_matmul(opset: int) -> Call:
    scale, zero = Fixed(0.02, np.float32), Fixed(120, np.uint8)
    b = Fixed(rng(7).integers(0, 255, (4, 3), np.uint8))
    return Call(BYTES, scale, zero, b, scale, zero, Fixed(0.05, np.float32), zero)


def quantised_conv(opset: int) -> Call:
    x, w = rng(1).integers(0, 255, (1, 3, 6, 6), np.uint8), rng(2).integers(-127, 127, (4, 3, 3, 3), np.int8)
    scales = Fixed(0.02, np.float32), Fixed([0.01, 0.02, 0.03, 0.04], np.float32)
    bias = Fixed([5, -7, 100, 0], np.int32)
    return Call(
        x, scales[0], Fixed(3, np.uint8), Fixed(w), scales[1], Fixed(np.zeros(4), np.int8), Fixed(0.2, np.float32),
        Fixed(100, np.uint8), bias, pads=[1, 1, 1, 1],
    )  # fmt: skip


def suppression(opset: int) -> Call:
    corners = np.sort(rng(8).random((1, 12, 2, 2)), axis=2).reshape(1, 12, 4)[..., [0, 1, 2, 3]].astype(np.float32)
    scores = rng(9).random((1, 2, 12)).astype(np.float32)
    limits = Fixed([4], np.int64), Fixed([0.3], np.float32), Fixed([0.2], np.float32)
    return Call(corners, scores, *limits)


def roi_align(opset: int) -> Call:
    rois = np.array([[0, 0, 4, 3], [1, 1, 6, 4]], np.float32)
    attrs = {"output_height": 3, "output_width": 2, "sampling_ratio": 2, "spatial_scale": 1.0}
    return Call(X, rois, np.array([0, 1]), **attrs)


def scatter_nd(opset: int) -> Call:
    return Call(V, Fixed([[0, 1], [2, 3]], np.int64), randn(2), **({"reduction": "add"} if opset >= 16 else {}))


def scatter_elements(opset: int) -> Call:
    attrs: dict[str, Any] = {"reduction": "add"} if opset >= 16 else {}
    return Call(V, Fixed([[0, 1, 2, 0]], np.int64), randn(1, 4), axis=0, **attrs)


def unsqueeze(opset: int) -> Call:
    return axes(opset, 13, X, [0, 2])


def arg(opset: int) -> Call:
    return Call(X, axis=2, keepdims=0)


def simple(*inputs: Any, **attrs: Any) -> Callable[[int], Call]:
    return lambda opset: Call(*inputs, **attrs)


def reduced(since: int, x: Any = X, value: tuple[int, ...] = (1, 3)) -> Callable[[int], Call]:
    return lambda opset: axes(opset, since, x, list(value), keepdims=0)


C = 6
CALLS: dict[str, Callable[[int], Call]] = {
    **{op: simple(X) for op in (
        "Relu", "Sigmoid", "Tanh", "HardSigmoid", "Identity", "GlobalAveragePool", "GlobalMaxPool", "Erf", "Flatten",
        "Floor", "Exp", "Neg", "HardSwish", "LeakyRelu", "Cos", "Sin", "Abs", "Ceil", "Round", "Sign", "Elu",
        "Softplus", "Shape", "Size", "IsNaN",
    )},
    **{op: simple(V, randn(4, seed=9)) for op in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Sum")},
    **{op: simple(INT, rng(1).integers(1, 5, (4,))) for op in (
        "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Mod",
    )},
    **{op: simple(BOOL, BOOL[::-1].copy()) for op in ("And", "Or")},
    **{op: simple(POSITIVE) for op in ("Sqrt", "Log", "Reciprocal")},
    **{op: reduced(18) for op in ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2", "ReduceLogSumExp")},
    "ReduceSum": reduced(13),
    "Conv": simple(X, Fixed(randn(4, 3, 3, 3, seed=1)), Fixed(randn(4)), group=2, pads=[1, 0, 1, 2], strides=[2, 1]),
    "ConvTranspose": simple(X, Fixed(randn(6, 4, 3, 3, seed=1)), Fixed(randn(4)), strides=[2, 2], pads=[1, 1, 0, 1]),
    "Concat": simple(X, X[:, :2].copy(), axis=1),
    "Reshape": simple(X, Fixed([0, -1, 4], np.int64)),
    "Transpose": simple(X, perm=[0, 2, 3, 1]),
    "ConstantOfShape": simple(Fixed([2, 3], np.int64), value=numpy_helper.from_array(np.array([2.5], np.float32))),
    "Constant": simple(value=numpy_helper.from_array(V)),
    "Unsqueeze": unsqueeze,
    "Squeeze": lambda opset: axes(opset, 13, X[:1, :, :1].copy(), [0, 2]),
    "Slice": slice_,
    "MaxPool": lambda opset: Call(X, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1],
                                  **({"ceil_mode": 1} if opset >= 10 else {})),
    "AveragePool": simple(X, kernel_shape=[3, 2], strides=[1, 2], pads=[1, 0, 1, 1], count_include_pad=1),
    "Softmax": softmax,
    "LogSoftmax": softmax,
    "Cast": simple(X * 4, to=TensorProto.INT32),
    "Gemm": simple(V, Fixed(randn(5, 4)), Fixed(randn(5)), transB=1, alpha=0.5, beta=2.0),
    "Gather": simple(X, Fixed([[0, 2], [-1, 1]], np.int64), axis=1),
    "MatMul": simple(randn(2, 3, 4), Fixed(randn(4, 5))),
    "BatchNormalization": simple(X, *(Fixed(np.abs(randn(C, seed=i)) + 0.1) for i in range(4))),
    "Not": simple(BOOL),
    "Pad": pad,
    "Clip": clip,
    "Pow": simple(POSITIVE, Fixed(1.7, np.float32)),
    "Resize": resize,
    "Where": lambda opset: Call(BOOL, V, randn(4)),
    "Expand": simple(randn(3, 1), Fixed([2, 1, 4], np.int64)),
    "LSTM": recurrent(4, 2, 2),
    "GRU": recurrent(3, 1, 1),
    "RNN": recurrent(1, 1, 1),
    "Split": split,
    "PRelu": simple(X, Fixed(np.abs(randn(C, 1, 1)))),
    "Dropout": dropout,
    "LRN": simple(X, size=3, alpha=0.01, beta=0.6, bias=1.5),
    "Range": simple(Fixed(2, np.int64), Fixed(11, np.int64), Fixed(3, np.int64)),
    "DynamicQuantizeLinear": simple(V, outputs=3),
    "ConvInteger": simple(rng(1).integers(0, 255, (1, 3, 6, 6), np.uint8),
                          Fixed(rng(2).integers(0, 255, (4, 3, 3, 3), np.uint8)), Fixed(7, np.uint8),
                          Fixed(9, np.uint8)),
    "MatMulInteger": simple(BYTES, Fixed(rng(2).integers(0, 255, (4, 3), np.uint8)), Fixed(7, np.uint8),
                            Fixed(9, np.uint8)),
    "LayerNormalization": simple(X, Fixed(randn(8)), Fixed(randn(8)), axis=-1),
    "Trilu": simple(V, Fixed(1, np.int64), upper=0),
    "ScatterND": scatter_nd,
    "CumSum": simple(V, Fixed(1, np.int64), exclusive=1, reverse=1),
    "NonMaxSuppression": suppression,
    "RoiAlign": roi_align,
    "TopK": top_k,
    "NonZero": simple(INT),
    "QuantizeLinear": simple(V, Fixed(0.03, np.float32), Fixed(100, np.uint8)),
    "DequantizeLinear": simple(BYTES, Fixed(0.03, np.float32), Fixed(100, np.uint8)),
    "QLinearConv": quantised_conv,
    "QLinearMatMul": quantised_matmul,
    "GridSample": simple(X, (rng(3).random((2, 4, 4, 2)) * 2 - 1).astype(np.float32), align_corners=1),
    "Einsum": simple(randn(2, 3, 4), randn(2, 4, 5), equation="bij,bjk->bik"),
    "GatherND": simple(X, Fixed([[0, 1], [1, 3]], np.int64)),
    "GatherElements": simple(V, Fixed([[0, 1, 0, 3], [3, 2, 1, 0], [1, 1, -1, 0]], np.int64), axis=1),
    "ScatterElements": scatter_elements,
    "ArgMax": arg,
    "ArgMin": arg,
    "InstanceNormalization": simple(X, Fixed(randn(C)), Fixed(randn(C, seed=2))),
    "Gelu": simple(X),
    "Tile": simple(V, Fixed([2, 3], np.int64)),
    "DepthToSpace": lambda opset: Call(randn(1, 8, 3, 4), blocksize=2, **({"mode": "CRD"} if opset >= 11 else {})),
    "SpaceToDepth": simple(randn(1, 3, 4, 6), blocksize=2),
    "OneHot": simple(INT, Fixed(5, np.int64), Fixed([0.5, 2], np.float32), axis=1),
}  # fmt: skip


def versions(operator: str) -> list[int]:
    """The opsets from 9 to 18 that begin a version of the operator (9 for one that is older)."""
    since = {s.since_version for s in onnx.defs.get_all_schemas_with_history() if s.name == operator and s.domain == ""}
    return sorted({max(v, OLDEST) for v in since if v <= NEWEST})


CASES = [(op, opset) for op in sorted(OPERATORS) if op in CALLS for opset in versions(op)]


def test_every_operator_of_the_list_has_a_case() -> None:
    # control flow has its own tests; onnxruntime lacks the withdrawn first version of GroupNormalization
    assert {op for op in OPERATORS if versions(op)} - set(CALLS) == {"If", "Loop", "GroupNormalization"}


@pytest.mark.parametrize(("operator", "opset"), CASES, ids=[f"{op}-{v}" for op, v in CASES])
def test_operator(operator: str, opset: int) -> None:
    call = CALLS[operator](opset)
    inputs, constants, names = {}, {}, []
    for i, value in enumerate(call.inputs):
        names.append("" if value is None else f"i{i}")
        if isinstance(value, Fixed):
            constants[f"i{i}"] = value.value
        elif value is not None:
            inputs[f"i{i}"] = value
    outputs = [f"y{k}" for k in range(call.outputs)]
    nodes = [helper.make_node(operator, names, outputs, **call.attrs)]
    if not inputs:  # a model needs one
        inputs["x"] = V
        nodes.append(helper.make_node("Relu", ["x"], ["z"]))
        outputs.append("z")
    check(make_model(nodes, inputs, outputs, constants, opset), inputs, rtol=call.tolerance, atol=1e-5)
