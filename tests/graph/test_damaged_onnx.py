"""ONNX files no exporter writes: each is refused with a code and a message that names the node or tensor."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from ascend_sim.graph.compile import compile_model
from ascend_sim.graph.errors import AtcError

FLOAT = TensorProto.FLOAT


def model(nodes: list[onnx.NodeProto], shape: tuple[int, ...] = (2, 3), **constants: np.ndarray) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", FLOAT, list(shape))],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    made.ir_version = 8
    return made


def refused(made: onnx.ModelProto) -> str:
    with pytest.raises(AtcError) as caught:
        compile_model(made.SerializeToString(), "Ascend310P3")
    return str(caught.value)


@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        ("Softmax", {"axis": 7}), ("LogSoftmax", {"axis": -3}), ("ArgMax", {"axis": 2}), ("Flatten", {"axis": 5}),
        ("Concat", {"axis": 2}), ("Gather", {"axis": 2}), ("ReduceMean", {"axes": [4]}), ("Split", {"axis": 3}),
        ("Transpose", {"perm": [0, 2]}),
    ],
)  # fmt: skip
def test_axis_out_of_range(op: str, attrs: dict) -> None:
    inputs = ["x", "i"] if op == "Gather" else ["x", "x"] if op == "Concat" else ["x"]
    said = refused(model([helper.make_node(op, inputs, ["y"], name="bad", **attrs)], i=np.zeros(1, np.int64)))
    assert said.startswith("E14001") and "'bad'" in said and str(next(iter(attrs.values()))).strip("[]") in said


def test_slice_axis_out_of_range() -> None:
    one = np.ones(1, np.int64)
    said = refused(model([helper.make_node("Slice", ["x", "s", "e", "a"], ["y"])], s=one * 0, e=one, a=one * 5))
    assert "E14001" in said and "5" in said


def test_constant_index_out_of_range() -> None:
    said = refused(model([helper.make_node("Gather", ["x", "i"], ["y"], axis=1, name="bad")], i=np.array([0, 3])))
    assert "E14001" in said and "index 3" in said and "'bad'" in said


def test_value_made_twice() -> None:
    said = refused(model([helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["x"], ["y"])]))
    assert "E13005" in said and "'y'" in said


def test_tensor_beyond_any_memory() -> None:
    said = refused(model([helper.make_node("Relu", ["x"], ["y"])], shape=(1 << 40, 1 << 40)))
    assert "'x'" in said and "bytes" in said


def test_constant_whose_data_does_not_fit_its_shape() -> None:
    made = model([helper.make_node("Add", ["x", "w"], ["y"])], w=np.ones(3, np.float32))
    made.graph.initializer[0].dims[0] = 4
    said = refused(made)
    assert "E13005" in said and "'w'" in said and "[4]" in said


@settings(max_examples=300)
@given(st.data())
def test_damaged_bytes_give_an_atc_error_or_a_model(data: st.DataObject) -> None:
    made = model(
        [
            helper.make_node("Reshape", ["x", "s"], ["a"]),
            helper.make_node("Conv", ["a", "w"], ["b"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["b"], ["c"]),
            helper.make_node("Softmax", ["c"], ["y"], axis=1),
        ],
        (1, 32),
        s=np.array([1, 2, 4, 4]),
        w=np.ones((3, 2, 3, 3), np.float32),
    )
    damaged = bytearray(made.SerializeToString())
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        compile_model(bytes(damaged), "Ascend310P3")
    except AtcError as error:
        assert "E19999" not in str(error)
