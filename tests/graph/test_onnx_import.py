"""ONNX operators through import, passes, .om and values, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from graph_models import FP32, check, make_model, randn, rng, run
from onnx import TensorProto, helper, numpy_helper

from ascend_sim.graph.compile import compile_model
from ascend_sim.graph.errors import AtcError
from ascend_sim.graph.onnx_import import converters, import_onnx
from ascend_sim.graph.options import CompileOptions

X = randn(2, 6, 9, 10)
POSITIVE = np.abs(randn(3, 4, seed=5)) + 0.5


def one(
    op: str, arrays: list[Any], constants: dict[int, Any] | None = None, opset: int = 13, outputs: int = 1, **attrs: Any
) -> None:
    """Check one operator; ``constants`` are inputs by position that are initializers."""
    constants = constants or {}
    total = len(arrays) + len(constants)
    stream = iter(arrays)
    inputs, fixed = {}, {}
    names = []
    for i in range(total):
        name = f"i{i}"
        names.append(name)
        if i in constants:
            if constants[i] is None:
                names[-1] = ""
            else:
                fixed[name] = np.asarray(constants[i])
        else:
            inputs[name] = next(stream)
    outs = [f"y{k}" for k in range(outputs)]
    node = helper.make_node(op, names, outs, **attrs)
    check(make_model([node], inputs, outs, fixed, opset), inputs)


@pytest.mark.parametrize(
    "attrs",
    [
        {"pads": [1, 1, 1, 1]},
        {"strides": [2, 1], "pads": [0, 1, 2, 3]},
        {"dilations": [2, 2], "pads": [2, 2, 2, 2]},
        {"auto_pad": "SAME_UPPER", "strides": [1, 2]},
        {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
        {"auto_pad": "VALID"},
        {"group": 3, "pads": [1, 1, 1, 1]},
        {"group": 6},
    ],
)
def test_conv(attrs: dict[str, Any]) -> None:
    group = attrs.get("group", 1)
    one("Conv", [X], {1: randn(12, 6 // group, 3, 3, seed=1), 2: randn(12, seed=2)}, **attrs)


def test_depthwise_conv_keeps_its_operator() -> None:
    w = randn(6, 1, 3, 3, seed=1)
    node = helper.make_node("Conv", ["x", "w"], ["y"], group=6, pads=[1, 1, 1, 1])
    loaded = check(make_model([node], {"x": X}, ["y"], {"w": w}), {"x": X})
    assert "DepthwiseConv2D" in [c.call.type for c in loaded.calls]


def test_conv_1d() -> None:
    one("Conv", [randn(2, 4, 20)], {1: randn(8, 4, 3, seed=1)}, pads=[1, 2], strides=[2])


@pytest.mark.parametrize(
    "attrs",
    [
        {"strides": [2, 2]},
        {"strides": [2, 3], "pads": [1, 0, 1, 2], "output_padding": [1, 1]},
        {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
        {"group": 2},
    ],
)
def test_conv_transpose(attrs: dict[str, Any]) -> None:
    one("ConvTranspose", [X], {1: randn(6, 4, 3, 3, seed=1), 2: randn(4 * attrs.get("group", 1), seed=2)}, **attrs)


@pytest.mark.parametrize(
    ("a", "b"), [((4, 5), (5, 6)), ((2, 3, 4, 5), (5, 6)), ((2, 3, 4, 5), (3, 5, 6)), ((5,), (5, 6)), ((4, 5), (5,))]
)
def test_matmul(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    one("MatMul", [randn(*a), randn(*b, seed=1)])
    one("MatMul", [randn(*a)], {1: randn(*b, seed=1)})


@pytest.mark.parametrize("bias", [(6,), (1, 6), (4, 1), (), None])
def test_gemm(bias: tuple[int, ...] | None) -> None:
    constants = {1: randn(6, 5, seed=1)} | ({2: randn(*bias, seed=2)} if bias is not None else {})
    one("Gemm", [randn(4, 5)], constants, transB=1, alpha=0.5, beta=2.0)


@pytest.mark.parametrize(
    "op",
    [
        "Relu",
        "Sigmoid",
        "Tanh",
        "Exp",
        "Erf",
        "Abs",
        "Neg",
        "Floor",
        "Ceil",
        "Round",
        "Softplus",
        "Softsign",
        "Sign",
        "Sin",
        "Cos",
        "HardSigmoid",
        "Elu",
        "Selu",
        "LeakyRelu",
    ],
)
def test_unary(op: str) -> None:
    one(op, [randn(3, 4)])


def test_hard_swish_and_mish() -> None:
    one("HardSwish", [randn(3, 4)], opset=14)
    one("Mish", [randn(3, 4)], opset=18)


@pytest.mark.parametrize("op", ["Sqrt", "Log", "Reciprocal"])
def test_positive_unary(op: str) -> None:
    one(op, [POSITIVE])


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Max", "Min"])
@pytest.mark.parametrize("other", [(3, 4), (4,), (1,), (3, 1)])
def test_binary(op: str, other: tuple[int, ...]) -> None:
    one(op, [randn(3, 4), np.abs(randn(*other, seed=1)) + 0.5])
    one(op, [randn(3, 4)], {1: np.abs(randn(*other, seed=1)) + 0.5})
    one(op, [randn(3, 4)], {0: np.abs(randn(*other, seed=1)) + 0.5})


def test_variadic() -> None:
    one("Sum", [randn(3, 4), randn(3, 4, seed=1), randn(4, seed=2)])
    one("Mean", [randn(3, 4), randn(3, 4, seed=1), randn(3, 4, seed=2)])


def test_pow() -> None:
    for exponent in (2.0, 0.5, 3.0):
        one("Pow", [POSITIVE], {1: np.float32(exponent)})
    one("Pow", [POSITIVE], {1: np.int64(3)})


@pytest.mark.parametrize("bounds", [(0.0, 6.0), (-1.0, 1.0), (0.0, None), (None, 0.5)])
def test_clip(bounds: tuple[float | None, float | None]) -> None:
    constants = {i + 1: None if v is None else np.float32(v) for i, v in enumerate(bounds)}
    one("Clip", [randn(3, 4) * 5], constants)


@pytest.mark.parametrize("shape", [(6, 1, 1), (1,), (10,), (6, 9, 1)])
def test_prelu(shape: tuple[int, ...]) -> None:
    one("PRelu", [X], {1: randn(*shape, seed=1)})


@pytest.mark.parametrize(("opset", "axis"), [(11, 1), (11, 2), (13, 1), (13, -1)])
def test_softmax(opset: int, axis: int) -> None:
    one("Softmax", [randn(2, 3, 4)], opset=opset, axis=axis)
    one("LogSoftmax", [randn(2, 3, 4)], opset=opset, axis=axis)


@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ("MaxPool", {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1}),
        ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
        ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
        ("AveragePool", {"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
        ("GlobalAveragePool", {}),
        ("GlobalMaxPool", {}),
    ],
)
def test_pool(op: str, attrs: dict[str, Any]) -> None:
    one(op, [X], **attrs)


def test_normalisation() -> None:
    scale, bias, mean = (randn(6, seed=s) for s in (1, 2, 3))
    one("BatchNormalization", [X], {1: scale, 2: bias, 3: mean, 4: np.abs(randn(6, seed=4)) + 0.5}, epsilon=1e-3)
    one("InstanceNormalization", [X], {1: scale, 2: bias})
    one("LRN", [X], size=5, alpha=1e-2, beta=0.7, bias=1.5)
    one("LayerNormalization", [X], {1: randn(10, seed=1), 2: randn(10, seed=2)}, opset=17)
    one("LayerNormalization", [X], {1: randn(9, 10, seed=1)}, opset=17, axis=2)


@pytest.mark.parametrize(
    "op",
    ["ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"],
)
def test_reduce(op: str) -> None:
    for keep in (0, 1):
        if op == "ReduceSum":
            one(op, [X], {1: np.asarray([1, -1])}, keepdims=keep)
        else:
            one(op, [X], axes=[1, -1], keepdims=keep)
            one(op, [X], {1: np.asarray([2])}, opset=18, keepdims=keep)
    one(op, [X])


def test_arg_and_top_k() -> None:
    one("ArgMax", [X], axis=1, keepdims=0)
    one("ArgMin", [X], axis=-1)
    one("TopK", [X], {1: np.asarray([3])}, outputs=2, axis=-1)
    one("TopK", [X], {1: np.asarray([2])}, outputs=2, axis=1, largest=0)
    one("CumSum", [X], {1: np.asarray(2)}, reverse=1)


def test_shapes() -> None:
    one("Reshape", [X], {1: np.asarray([0, -1, 10])})
    one("Flatten", [X], axis=2)
    one("Squeeze", [randn(2, 1, 3, 1)], {1: np.asarray([1])})
    one("Squeeze", [randn(2, 1, 3, 1)])
    one("Unsqueeze", [randn(2, 3)], {1: np.asarray([0, -1])})
    one("Unsqueeze", [randn(2, 3)], opset=11, axes=[1])
    one("Expand", [randn(3, 1)], {1: np.asarray([2, 1, 4])})


def test_movement() -> None:
    one("Concat", [X, X * 2], axis=1)
    one("Split", [X], outputs=3, axis=1)
    one("Split", [X], {1: np.asarray([1, 5])}, outputs=2, axis=1)
    one("Transpose", [X], perm=[0, 2, 3, 1])
    one("Transpose", [X])
    one("Gather", [X], {1: np.asarray([[0, -1], [2, 3]])}, axis=1)
    one("Pad", [X], {1: np.asarray([0, 0, 1, 2, 0, 0, 3, 4]), 2: np.float32(1.5)})
    one("Pad", [X], {1: np.asarray([0, 0, 1, 2, 0, 0, 3, 4])}, mode="reflect")
    one("Pad", [X], {1: np.asarray([0, 0, 1, 2, 0, 0, 3, 4])}, mode="edge")
    one("Pad", [X], {1: np.asarray([0, 0, -1, 2, 0, 0, 0, -3])})
    one("Tile", [randn(2, 3)], {1: np.asarray([2, 2])})
    one("DepthToSpace", [randn(1, 8, 3, 2)], blocksize=2)
    one("DepthToSpace", [randn(1, 8, 3, 2)], blocksize=2, mode="CRD")
    one("SpaceToDepth", [randn(1, 2, 4, 6)], blocksize=2)


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps"),
    [([1, 0], [5, 9], [1, 2], [1, 2]), ([-1], [-100], [3], [-1]), ([2], [1000], [2], [3]), ([-3], [-1], [1], [1])],
)
def test_slice(starts: list[int], ends: list[int], axes: list[int], steps: list[int]) -> None:
    one("Slice", [X], {i + 1: np.asarray(v) for i, v in enumerate((starts, ends, axes, steps))})


@pytest.mark.parametrize(
    "attrs",
    [
        {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        {"mode": "nearest"},
        {"mode": "linear", "coordinate_transformation_mode": "half_pixel"},
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
        {"mode": "linear", "coordinate_transformation_mode": "asymmetric"},
        {"mode": "cubic"},
    ],
)
def test_resize(attrs: dict[str, Any]) -> None:
    one("Resize", [X], {1: None, 2: np.asarray([1, 1, 2, 3], np.float32)}, **attrs)
    one("Resize", [X], {1: None, 2: None, 3: np.asarray([2, 6, 13, 7])}, **attrs)


def test_logic() -> None:
    a, b = randn(3, 4), randn(3, 4, seed=1)
    for op in ("Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual"):
        one(op, [a, b], opset=16)
    flags = rng().random((3, 4)) > 0.5
    one("Not", [flags])
    one("And", [flags, ~flags])
    one("Where", [flags, a, b])
    one("Cast", [a], to=TensorProto.INT64)
    one("Cast", [flags], to=TensorProto.FLOAT)


def test_shape_arithmetic_is_folded() -> None:
    """Shape -> Gather -> Mul -> Concat -> Reshape, as exporters write flattening."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Unsqueeze", ["n", "axes"], ["n1"]),
        helper.make_node("Concat", ["n1", "rest"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
        helper.make_node("Relu", ["y"], ["z"]),
    ]
    constants = {"zero": np.asarray(0), "axes": np.asarray([0]), "rest": np.asarray([-1])}
    loaded = check(make_model(nodes, {"x": X}, ["z"], constants), {"x": X})
    assert [c.call.type for c in loaded.calls] == ["Relu"]


def test_unknown_operator_names_node_operator_and_opset() -> None:
    node = helper.make_node("TfIdfVectorizer", ["x"], ["y"], name="clean")
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)])
    with pytest.raises(AtcError, match=r"E16002.*ai\.onnx::14::TfIdfVectorizer.*clean"):
        compile_model(model.SerializeToString(), "Ascend310")


def test_foreign_domain_is_unknown() -> None:
    node = helper.make_node("FusedMatMul", ["x", "x"], ["y"], domain="com.microsoft")
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 2])],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 14), helper.make_opsetid("com.microsoft", 1)]
    )
    with pytest.raises(AtcError, match=r"com\.microsoft"):
        import_onnx(model.SerializeToString())


@pytest.mark.parametrize("opset", [-1, 29])
def test_opset_out_of_range(opset: int) -> None:
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": X}, ["y"])
    model.opset_import[0].version = opset
    with pytest.raises(AtcError, match=f"E16005.*opset {opset}"):
        import_onnx(model.SerializeToString())


def test_open_dimensions_need_input_shape() -> None:
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": X}, ["y"])
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    with pytest.raises(AtcError, match=r"E10001.*'x'.*-1,6,9,10"):
        import_onnx(model.SerializeToString())
    assert import_onnx(model.SerializeToString(), {"x": (4, 6, 9, 10)}).specs["y"].shape == (4, 6, 9, 10)
    with pytest.raises(AtcError, match="E10016"):
        import_onnx(model.SerializeToString(), {"z": (4, 6, 9, 10)})
    with pytest.raises(AtcError, match="E10049"):
        import_onnx(model.SerializeToString(), {"x": (4, 6)})
    with pytest.raises(AtcError, match="E10050"):
        import_onnx(model.SerializeToString(), {"x": (4, 7, 9, 10)})


@pytest.mark.parametrize("data", [b"", b"hello, this is text", b"\x08\x07"])
def test_not_a_model(data: bytes) -> None:
    with pytest.raises(AtcError, match=r"E13005|E16004"):
        import_onnx(data)


def test_wrong_shapes_name_the_node() -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])],
        [numpy_helper.from_array(randn(5, 4), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    with pytest.raises(AtcError, match=r"product.*MatMul.*K"):
        import_onnx(model.SerializeToString())


def test_file_is_read_with_external_data(tmp_path: Any) -> None:
    model = make_model([helper.make_node("Add", ["x", "w"], ["y"])], {"x": X}, ["y"], {"w": randn(6, 9, 10)})
    stored = onnx.ModelProto()
    stored.CopyFrom(model)
    onnx.save(stored, tmp_path / "m.onnx", save_as_external_data=True, location="m.bin", size_threshold=0)
    loaded = run(model, {"x": X})[0]
    from ascend_sim.graph.executor import LoadedModel

    other = LoadedModel.from_bytes(compile_model(tmp_path / "m.onnx", "Ascend910B2", FP32)).run_values([X])
    np.testing.assert_array_equal(loaded[0], other[0])
    (tmp_path / "m.bin").unlink()
    with pytest.raises(AtcError, match="external data"):
        import_onnx(tmp_path / "m.onnx")


def test_every_converter_is_registered_once() -> None:
    from ascend_sim.graph.onnx_import import FAMILIES

    names = [name for family in FAMILIES for name in family.TABLE]
    assert len(names) == len(set(names)) == len(converters())
    for name in names:
        domain, _, operator = name.rpartition("::")
        onnx.defs.get_schema(operator, domain)  # a real ONNX operator


def test_nodes_of_equal_or_no_name_stay_apart() -> None:
    nodes = [helper.make_node("Exp", ["x"], ["a"], name="n"), helper.make_node("Sin", ["a"], ["b"], name="n"),
             helper.make_node("Cos", ["b"], ["c"]), helper.make_node("Abs", ["c"], ["y"])]  # fmt: skip
    graph = import_onnx(make_model(nodes, {"x": X}, ["y"]).SerializeToString())
    names = [n.name for n in graph.nodes]
    assert len(set(names)) == 4 and names[0] == "n"


def test_inputs_and_constants_as_outputs() -> None:
    nodes = [helper.make_node("Identity", ["x"], ["y"]), helper.make_node("Identity", ["w"], ["z"]),
             helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Reshape", ["a", "s"], ["b"])]  # fmt: skip
    constants = {"w": randn(3), "s": np.asarray([-1])}
    check(make_model(nodes, {"x": X}, ["y", "z", "a", "b"], constants), {"x": X})
    got, _ = run(make_model(nodes, {"x": X}, ["y", "z", "a", "b"], constants), {"x": X}, "Ascend310", CompileOptions())
    np.testing.assert_allclose(got[0], X, rtol=1e-3)
