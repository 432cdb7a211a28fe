"""Instruction-by-instruction values of compiled models agree with whole-operator values: layouts, formats and
epilogues of the graph are those the kernels expect."""

from __future__ import annotations

import numpy as np
import pytest
from graph_models import make_model, randn
from onnx import helper

from ascend_sim.graph.compile import compile_model
from ascend_sim.graph.executor import LoadedModel

N = helper.make_node


@pytest.mark.parametrize("soc", ["Ascend310", "Ascend310P3", "Ascend910A", "Ascend910B4"])
def test_kernels_give_the_operator_values(soc: str) -> None:
    nodes = [
        N("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        N("Relu", ["a"], ["b"]),
        N("Conv", ["b", "dw"], ["c"], pads=[1, 1, 1, 1], group=20),
        N("HardSwish", ["c"], ["d"]),
        N("Conv", ["d", "w2"], ["e"]),
        N("Add", ["e", "b"], ["f"]),
        N("Relu", ["f"], ["g"]),
        N("MaxPool", ["g"], ["h"], kernel_shape=[2, 2], strides=[2, 2]),
        N("GlobalAveragePool", ["h"], ["i"]),
        N("Flatten", ["i"], ["j"]),
        N("Gemm", ["j", "fc", "fb"], ["k"]),
        N("Softmax", ["k"], ["y"]),
    ]
    constants = {
        "w": randn(20, 3, 3, 3, seed=1) * 0.3, "dw": randn(20, 1, 3, 3, seed=2) * 0.3,
        "w2": randn(20, 20, 1, 1, seed=3) * 0.2, "fc": randn(20, 16, seed=4) * 0.3, "fb": randn(16, seed=5),
    }  # fmt: skip
    x = randn(1, 3, 10, 10)
    model = make_model(nodes, {"x": x}, ["y"], constants, opset=14)
    loaded = LoadedModel.from_bytes(compile_model(model.SerializeToString(), soc))
    whole = loaded.run_values([x])[0]
    steps = loaded.run_values([x], mode="instruction")[0]
    np.testing.assert_allclose(steps, whole, atol=2e-3)
