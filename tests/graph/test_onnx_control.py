"""Control flow of ONNX models, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from graph_models import check, make_model, randn, reference, run
from onnx import TensorProto, helper

from ascend_sim.graph.errors import AtcError
from ascend_sim.graph.onnx_import import import_onnx

X = randn(3, 4)


def subgraph(nodes: list[onnx.NodeProto], inputs: list[Any], outputs: list[str]) -> onnx.GraphProto:
    return helper.make_graph(
        nodes, "body", inputs, [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in outputs]
    )


def value(name: str, kind: int = TensorProto.FLOAT, shape: tuple[int, ...] | None = None) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def if_node(**branches: list[onnx.NodeProto]) -> onnx.NodeProto:
    graphs = {name: subgraph(nodes, [], [nodes[-1].output[0]]) for name, nodes in branches.items()}
    for graph in graphs.values():
        graph.output[0].CopyFrom(value(graph.output[0].name, TensorProto.FLOAT, (3, 4)))
    return helper.make_node("If", ["c"], ["y"], **graphs)


BRANCHES = {
    "then_branch": [helper.make_node("Exp", ["x"], ["a"])],
    "else_branch": [helper.make_node("Neg", ["x"], ["t"]), helper.make_node("Abs", ["t"], ["a"])],
}


@pytest.mark.parametrize("condition", [True, False])
def test_if_of_a_known_condition_keeps_one_branch(condition: bool) -> None:
    model = make_model([if_node(**BRANCHES)], {"x": X}, ["y"], {"c": np.asarray(condition)})
    loaded = check(model, {"x": X})
    assert [c.call.type for c in loaded.calls] == (["Exp"] if condition else ["FusedElementwise"])


@pytest.mark.parametrize("condition", [True, False])
def test_if_of_a_computed_condition_selects(condition: bool) -> None:
    given = {"x": X, "c": np.asarray(condition)}
    check(make_model([if_node(**BRANCHES)], given, ["y"]), given)


def body(*outputs: str) -> onnx.GraphProto:
    """s' = s * w + i, with s' also collected; goes on while told to."""
    nodes = [
        helper.make_node("Identity", ["go"], ["again"]),
        helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["s", "w"], ["m"]),
        helper.make_node("Add", ["m", "f"], ["next"]),
        helper.make_node("ReduceMax", ["next"], ["top"], keepdims=0),
    ]
    inputs = [value("i", TensorProto.INT64, ()), value("go", TensorProto.BOOL, ()), value("s", shape=(3, 4))]
    graph = helper.make_graph(nodes, "body", inputs, [value("again", TensorProto.BOOL, ()),
                                                      value("next", shape=(3, 4)), value("top", shape=())])  # fmt: skip
    return graph


def test_loop_is_unrolled() -> None:
    node = helper.make_node("Loop", ["count", "true", "x"], ["y", "tops"], body=body())
    constants = {"count": np.asarray(4), "true": np.asarray(True), "w": randn(4, seed=1)}
    loaded = check(make_model([node], {"x": X}, ["y", "tops"], constants), {"x": X})
    assert sum(c.call.type == "ReduceMax" for c in loaded.calls) == 4


def test_loop_of_unknown_length_names_the_input() -> None:
    node = helper.make_node("Loop", ["count", "", "x"], ["y", "tops"], body=body())
    model = make_model([node], {"x": X, "count": np.asarray(4)}, ["y"], {"w": randn(4, seed=1)})
    with pytest.raises(AtcError, match=r"Loop.*'M' \(count\) is not a compile-time constant.*inputs 'count'"):
        import_onnx(model.SerializeToString())


def doubling(more: str = "sum") -> onnx.GraphProto:
    """s' = 2 s, as long as the sum of s' stays below the bound."""
    nodes = [
        helper.make_node("Add", ["s", "s"], ["next"]),
        helper.make_node("ReduceSum", ["next"], ["sum"], keepdims=0),
        helper.make_node("Less", ["sum", "bound"], ["again"]),
    ]
    inputs = [value("i", TensorProto.INT64, ()), value("go", TensorProto.BOOL, ()), value("s", shape=(3, 4))]
    outputs = [value("again", TensorProto.BOOL, ()), value("next", shape=(3, 4))]
    if more:
        outputs.append(value(more, shape=()))
    return helper.make_graph(nodes, "body", inputs, outputs)


@pytest.mark.parametrize("bound", [0.0, 50.0, 300.0, 1e9])
@pytest.mark.parametrize("start", [True, False])
def test_loop_ends_where_the_data_say_so(bound: float, start: bool) -> None:
    node = helper.make_node("Loop", ["count", "start", "x"], ["y"], body=doubling(""))
    given = {"x": np.abs(X) + 1, "bound": np.asarray(bound, np.float32), "start": np.asarray(start)}
    check(make_model([node], given, ["y"], {"count": np.asarray(7)}), given)


@pytest.mark.parametrize(
    ("count", "more", "words"),
    [(7, "sum", "scan outputs then have an unknown length"), (5000, "", "may run 5000 times")],
)
def test_loop_that_cannot_be_guarded_says_why(count: int, more: str, words: str) -> None:
    node = helper.make_node("Loop", ["count", "", "x"], ["y", *(["sums"] if more else [])], body=doubling(more))
    given = {"x": X, "bound": np.asarray(9, np.float32)}
    model = make_model([node], given, ["y"], {"count": np.asarray(count)})
    with pytest.raises(AtcError, match=words):
        import_onnx(model.SerializeToString())


@pytest.mark.parametrize("backward", [0, 1])
def test_scan(backward: int) -> None:
    nodes = [helper.make_node("Add", ["s", "part"], ["t"]), helper.make_node("Identity", ["t"], ["out"])]
    inner = helper.make_graph(nodes, "body", [value("s", shape=(4,)), value("part", shape=(4,))],
                              [value("t", shape=(4,)), value("out", shape=(4,))])  # fmt: skip
    node = helper.make_node(
        "Scan", ["start", "x"], ["last", "all"], body=inner, num_scan_inputs=1, scan_input_directions=[backward],
        scan_output_directions=[backward],
    )  # fmt: skip
    given = {"x": X, "start": randn(4, seed=2)}
    check(make_model([node], given, ["last", "all"]), given)


def test_sequences_inside_a_graph() -> None:
    nodes = [
        helper.make_node("SplitToSequence", ["x", "sizes"], ["parts"], axis=1),
        helper.make_node("SequenceAt", ["parts", "one"], ["second"]),
        helper.make_node("SequenceInsert", ["parts", "second", "zero"], ["longer"]),
        helper.make_node("SequenceErase", ["longer", "one"], ["shorter"]),
        helper.make_node("ConcatFromSequence", ["shorter"], ["y"], axis=1),
        helper.make_node("SequenceLength", ["shorter"], ["count"]),
    ]
    constants = {"sizes": np.asarray([1, 2, 1]), "one": np.asarray(1), "zero": np.asarray(0)}
    check(make_model(nodes, {"x": X}, ["y", "count"], constants), {"x": X})


def test_functions_of_a_model_are_expanded() -> None:
    """Operators by their standard function, and those the model itself defines."""
    own = helper.make_function(
        "mine", "Twice", ["a"], ["b"],
        [helper.make_node("Add", ["a", "a"], ["t"]), helper.make_node("Relu", ["t"], ["b"])],
        [helper.make_opsetid("", 18)],
    )  # fmt: skip
    graph = helper.make_graph(
        [helper.make_node("Twice", ["x"], ["m"], domain="mine"),
         helper.make_node("MeanVarianceNormalization", ["m"], ["y"], axes=[1])],
        "g", [value("x", shape=(3, 4))], [value("y", shape=(3, 4))],
    )  # fmt: skip
    model = helper.make_model(
        graph, functions=[own], opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("mine", 1)]
    )
    model.ir_version = 8
    check(model, {"x": X})


def test_results_as_large_as_their_values_make_them() -> None:
    """NonZero, and what reads it."""
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"]),
        helper.make_node("Transpose", ["places"], ["rows"], perm=[1, 0]),
        helper.make_node("GatherND", ["x", "rows"], ["found"]),
        helper.make_node("ReduceSum", ["found"], ["total"], keepdims=0),
    ]
    x = np.where(X > 0, X, np.float32(0))
    check(make_model(nodes, {"x": x}, ["places", "found", "total"]), {"x": x})


def test_weights_of_a_quantised_model() -> None:
    """QuantizeLinear and DequantizeLinear around a product."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "t", "u"], ["v"], axis=1),
        helper.make_node("MatMul", ["d", "v"], ["y"]),
    ]
    constants = {
        "s": np.asarray(0.02, np.float32), "z": np.asarray(3, np.int8),
        "w": np.arange(-10, 10, dtype=np.int8).reshape(4, 5), "t": np.abs(randn(5)) * 0.1, "u": np.zeros(5, np.int8),
    }  # fmt: skip
    check(make_model(nodes, {"x": X}, ["y"], constants), {"x": X})


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize("soc", ["Ascend910B2", "Ascend310P3"])
def test_dequantised_products_run_on_integers(kind: Any, soc: str) -> None:
    """A quantised convolution with padding, zero point and bias, and a quantised Gemm."""
    x = randn(1, 4, 6, 6)
    zero = np.asarray(117 if kind is np.uint8 else -11, kind)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "t", "u"], ["v"], axis=0),
        helper.make_node("Conv", ["d", "v", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Flatten", ["r"], ["f"]),
        helper.make_node("QuantizeLinear", ["f", "s", "z"], ["g"]),
        helper.make_node("DequantizeLinear", ["g", "s", "z"], ["h"]),
        helper.make_node("DequantizeLinear", ["m", "s", "o"], ["n"]),
        helper.make_node("Gemm", ["h", "n", "k"], ["y"], transB=1),
    ]
    rng = np.random.default_rng(0)
    scales = np.array([0.01, 0.02, 0.015], np.float32)
    s = np.float32(0.025)
    constants = {
        "s": np.asarray(s), "z": zero, "o": np.asarray(0, np.int8), "t": scales, "u": np.zeros(3, np.int8),
        "w": rng.integers(-127, 128, (3, 4, 3, 3), np.int8), "m": rng.integers(-127, 128, (5, 108), np.int8),
        "b": rng.integers(-900, 900, 3).astype(np.float32) * s * scales, "k": np.zeros(5, np.float32),
    }  # fmt: skip
    model = make_model(nodes, {"x": x}, ["c", "y"], constants)
    (sums, product), loaded = run(model, {"x": x}, soc)
    wanted = reference(model, {"x": x})
    np.testing.assert_allclose(sums, wanted[0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(product, wanted[1], atol=0.3)  # two roundings at a tie: 127 * 0.025 * 0.025 each
    cube = [c.call.inputs[0].dtype for c in loaded.calls if c.call.type in ("Conv2D", "MatMulV2") and c.call.inputs[0]]
    assert cube == ["int8", "int8"]


@pytest.mark.parametrize("lengths", [(5, 5, 5), (5, 2, 4)])
def test_full_lengths_of_a_recurrent_network_are_left_out(lengths: tuple[int, ...]) -> None:
    """Some exporters name the lengths of a batch even where none is shorter."""
    node = helper.make_node("LSTM", ["x", "w", "r", "", "lengths"], ["y", "h"], hidden_size=16)
    constants = {"w": randn(1, 64, 8, seed=1), "r": randn(1, 64, 16, seed=2), "lengths": np.asarray(lengths, np.int32)}
    given = {"x": randn(5, 3, 8, seed=3)}
    loaded = check(make_model([node], given, ["y", "h"], constants), given)
    (call,) = (c.call for c in loaded.calls if c.call.type == "CommonLSTM")
    named = len(call.inputs) > 4 and call.inputs[4] is not None
    assert named == (lengths != (5, 5, 5))
