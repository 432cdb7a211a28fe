"""Elementwise operators against onnxruntime and plain float64 NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ops_judge import close, onnx_run, run_op

from ascend_sim import ops
from ascend_sim.ops.schema import TensorSpec

# Ascend IR name, attributes, ONNX name, attributes, input range
ONNX_UNARY: list[tuple[str, dict[str, Any], str, dict[str, Any], tuple[float, float]]] = [
    ("Relu", {}, "Relu", {}, (-4, 4)),
    ("LeakyRelu", {"negative_slope": 0.1}, "LeakyRelu", {"alpha": 0.1}, (-4, 4)),
    ("Elu", {"alpha": 0.7}, "Elu", {"alpha": 0.7}, (-4, 4)),
    ("Selu", {}, "Selu", {}, (-4, 4)),
    ("CeluV2", {"alpha": 1.3}, "Celu", {"alpha": 1.3}, (-4, 4)),
    ("Sigmoid", {}, "Sigmoid", {}, (-20, 20)),
    ("HardSigmoid", {"alpha": 0.2, "beta": 0.5}, "HardSigmoid", {"alpha": 0.2, "beta": 0.5}, (-4, 4)),
    ("HardSwish", {}, "HardSwish", {}, (-5, 5)),
    ("ThresholdedRelu", {"alpha": 0.5}, "ThresholdedRelu", {"alpha": 0.5}, (-4, 4)),
    ("Shrink", {"lambd": 0.5, "bias": 0.1}, "Shrink", {"lambd": 0.5, "bias": 0.1}, (-2, 2)),
    ("Softplus", {}, "Softplus", {}, (-30, 30)),
    ("Softsign", {}, "Softsign", {}, (-4, 4)),
    ("Mish", {}, "Mish", {}, (-6, 6)),
    ("Tanh", {}, "Tanh", {}, (-6, 6)),
    ("Erf", {}, "Erf", {}, (-5, 5)),
    ("Exp", {}, "Exp", {}, (-8, 8)),
    ("Log", {}, "Log", {}, (0.01, 9)),
    ("Sqrt", {}, "Sqrt", {}, (0, 9)),
    ("Reciprocal", {}, "Reciprocal", {}, (0.1, 9)),
    ("Abs", {}, "Abs", {}, (-9, 9)),
    ("Neg", {}, "Neg", {}, (-9, 9)),
    ("Sign", {}, "Sign", {}, (-9, 9)),
    ("Floor", {}, "Floor", {}, (-9, 9)),
    ("Ceil", {}, "Ceil", {}, (-9, 9)),
    ("Round", {}, "Round", {}, (-9, 9)),
    ("Sin", {}, "Sin", {}, (-9, 9)),
    ("Cos", {}, "Cos", {}, (-9, 9)),
    ("Tan", {}, "Tan", {}, (-1, 1)),
    ("Asin", {}, "Asin", {}, (-1, 1)),
    ("Acos", {}, "Acos", {}, (-1, 1)),
    ("Atan", {}, "Atan", {}, (-9, 9)),
    ("Sinh", {}, "Sinh", {}, (-3, 3)),
    ("Cosh", {}, "Cosh", {}, (-3, 3)),
    ("Asinh", {}, "Asinh", {}, (-9, 9)),
    ("Acosh", {}, "Acosh", {}, (1, 9)),
    ("Atanh", {}, "Atanh", {}, (-0.9, 0.9)),
]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("case", ONNX_UNARY, ids=lambda c: c[0])
def test_unary_equals_onnxruntime(case: tuple, dtype: str) -> None:
    name, attrs, onnx_name, onnx_attrs, (low, high) = case
    x = np.random.default_rng(7).uniform(low, high, (3, 5, 7)).astype(dtype)
    (wanted,) = onnx_run(onnx_name, [x], onnx_attrs)
    (got,) = run_op(name, [x], attrs)
    close(got, wanted, dtype)


def test_gelu_forms() -> None:
    x = np.linspace(-6, 6, 1001).astype("f4")
    d = x.astype(np.float64)
    tanh = 0.5 * d * (1 + np.tanh(np.sqrt(2 / np.pi) * (d + 0.044715 * d**3)))
    close(run_op("Gelu", [x])[0], tanh)
    (exact,) = onnx_run("Gelu", [x], {"approximate": "none"}, opset=20)
    close(run_op("GeluV2", [x], {"approximate": "none"})[0], exact)
    close(run_op("GeluV2", [x], {"approximate": "tanh"})[0], tanh)
    close(run_op("FastGelu", [x])[0], d / (1 + np.exp(-1.702 * d)))
    close(run_op("Swish", [x], {"scale": 1.5})[0], d / (1 + np.exp(-1.5 * d)))


def test_exp_log_power_attributes() -> None:
    x = np.linspace(0.1, 4, 50).astype("f4")
    d = x.astype(np.float64)
    close(run_op("Exp", [x], {"base": 2.0, "scale": 0.5, "shift": 1.0})[0], 2 ** (0.5 * d + 1))
    close(run_op("Log", [x], {"base": 10.0, "scale": 2.0, "shift": 3.0})[0], np.log10(2 * d + 3))
    close(run_op("Power", [x], {"power": 1.5, "scale": 2.0, "shift": 1.0})[0], (2 * d + 1) ** 1.5)
    close(run_op("Rsqrt", [x])[0], d**-0.5)
    close(run_op("Muls", [x], {"value": 2.5})[0], 2.5 * d)


SHAPES = st.sampled_from(
    [((3, 4), (3, 4)), ((2, 3, 4), (4,)), ((2, 1, 4), (3, 1)), ((), (2, 2)), ((5,), ()), ((0, 3), (1, 3)), ((), ())]
)
ONNX_BINARY = {
    "Add": "Add", "Sub": "Sub", "Mul": "Mul", "RealDiv": "Div", "Maximum": "Max", "Minimum": "Min", "Pow": "Pow",
}  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(ONNX_BINARY)), SHAPES, st.sampled_from(["float32", "float16"]), st.integers(0, 99))
def test_binary_equals_onnxruntime(name: str, shapes: tuple, dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (np.asarray(rng.uniform(0.5, 3, s)).astype(dtype) for s in shapes)
    (wanted,) = onnx_run(ONNX_BINARY[name], [a, b], {})
    (got,) = run_op(name, [a, b])
    assert got.shape == wanted.shape
    close(got, wanted, dtype)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["Add", "Sub", "Mul"]),
    st.lists(st.floats(-60000, 60000, width=16), min_size=1, max_size=20),
    st.floats(-60000, 60000, width=16),
)
def test_half_arithmetic_rounds_once(name: str, values: list[float], other: float) -> None:
    """The result is the fp16 nearest to the exact one (exact in float64 for +, -, * of fp16 values)."""
    a, b = np.array(values, np.float16), np.array([other], np.float16)
    exact = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}[name](a.astype("f8"), b.astype("f8"))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(run_op(name, [a, b])[0], exact.astype(np.float16))


def test_bfloat16_rounds_once() -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal(500).astype(ml_dtypes.bfloat16)
    b = rng.standard_normal(500).astype(ml_dtypes.bfloat16)
    exact = a.astype("f4") * b.astype("f4")
    (got,) = run_op("Mul", [a, b])
    np.testing.assert_array_equal(got, exact.astype(ml_dtypes.bfloat16))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), st.integers(-50, 50)), min_size=1, max_size=30))
def test_integer_division_truncates(pairs: list[tuple[int, int]]) -> None:
    a = np.array([p[0] for p in pairs], np.int32)
    b = np.array([p[1] or 7 for p in pairs], np.int32)
    wanted = [
        int(abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1) for x, y in zip(a.tolist(), b.tolist(), strict=True)
    ]
    np.testing.assert_array_equal(run_op("Div", [a, b])[0], np.array(wanted).astype(np.int32))
    np.testing.assert_array_equal(
        run_op("FloorMod", [a, b])[0], [x % y for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    )


def test_cast_truncates_saturates_and_wraps() -> None:
    x = np.array([-1.7, 1.7, 300.0, -300.0, np.nan, np.inf, 2.5], np.float32)
    np.testing.assert_array_equal(run_op("Cast", [x], {"dst_type": 2})[0], [-1, 1, 127, -128, 0, 127, 2])
    np.testing.assert_array_equal(run_op("Cast", [x], {"dst_type": "uint8"})[0], [0, 1, 255, 0, 0, 255, 2])
    big = np.array([1e30, -1e30], np.float32)
    np.testing.assert_array_equal(run_op("Cast", [big], {"dst_type": 9})[0], [2**63 - 1, -(2**63)])
    np.testing.assert_array_equal(run_op("Cast", [np.array([300, -1])], {"dst_type": "uint8"})[0], [44, 255])
    np.testing.assert_array_equal(run_op("Cast", [np.array([0.0, 0.1, -0.0])], {"dst_type": "bool"})[0], [0, 1, 0])
    half = np.array([1.0, 1 + 2**-11, 1 + 3 * 2**-11, 1e6], np.float32)
    np.testing.assert_array_equal(
        run_op("Cast", [half], {"dst_type": "float16"})[0], np.array([1, 1, 1 + 2**-9, np.inf], np.float16)
    )
    with pytest.raises(ops.ShapeError, match="Cast: attribute dst_type: dtype number 99"):
        ops.infer("Cast", [TensorSpec((1,), "float32")], {"dst_type": 99})


def test_prelu_clip_addn() -> None:
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((2, 4, 3, 3)).astype("f2"), rng.uniform(0, 1, 4).astype("f2")
    (wanted,) = onnx_run("PRelu", [x, w.reshape(4, 1, 1)], {})
    close(run_op("PRelu", [x, w])[0], wanted, "float16")
    low, high = np.array(-0.5, "f2"), np.array(0.7, "f2")
    np.testing.assert_array_equal(run_op("ClipByValue", [x, low, high])[0], np.clip(x, low, high))
    (total,) = run_op("AddN", [x, x, x])
    np.testing.assert_array_equal(total, (3 * x.astype("f8")).astype("f2"))


def test_fused_steps_equal_the_operators_in_turn() -> None:
    rng = np.random.default_rng(3)
    x, y, s = (rng.standard_normal((2, 4, 3, 3)).astype("f4") for _ in range(3))
    steps = (("add",), ("hswish",), ("muls", 0.5), ("rsub",), ("clip", -1.0, 1.0))
    (got,) = run_op("FusedElementwise", [x, y, s], {"steps": steps})
    t = run_op("HardSwish", run_op("Add", [x, y]))[0] * 0.5
    close(got, np.clip(s - t, -1, 1))


@pytest.mark.parametrize(
    ("op", "shapes", "attrs", "words"),
    [
        ("Add", ((2, 3), (2, 4)), {}, r"Add: x2 \[2, 4\] does not broadcast .* at axis 1"),
        ("Add", ((2, 3), None), {}, r"Add: input 1 \(x2\) is missing"),
        ("PRelu", ((2, 3, 4), (5,)), {}, "PRelu: weight"),
        ("FusedElementwise", ((2, 3),), {"steps": (("add",),)}, "consumes 1 further inputs, not 0"),
        ("FusedElementwise", ((2, 3),), {"steps": (("frobnicate",),)}, "'frobnicate'.* is unknown"),
    ],
)
def test_errors(op: str, shapes: tuple, attrs: dict, words: str) -> None:
    specs = [None if s is None else TensorSpec(s, "float16") for s in shapes]
    with pytest.raises(ops.ShapeError, match=words):
        ops.infer(op, specs, attrs)


def test_mixed_types_are_an_error() -> None:
    with pytest.raises(
        ops.ShapeError, match=r"Add: x2 is float16\[2\] but x1 is float32\[2\]; expected the same dtype"
    ):
        ops.infer("Add", [TensorSpec((2,), "float32"), TensorSpec((2,), "float16")], {})
    with pytest.raises(ops.ShapeError, match=r"Sqrt: x is int32\[2\]; expected a floating-point type"):
        ops.infer("Sqrt", [TensorSpec((2,), "int32")], {})
    with pytest.raises(ops.UnknownOpError, match="'Frobnicate'"):
        ops.infer("Frobnicate", [], {})
