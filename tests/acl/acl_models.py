"""Small models for the tests of acl.mdl."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from ascend_sim.graph.compile import compile_model

HIDDEN = 64
BATCH = 4


@cache
def weights() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    rng = np.random.default_rng(7)
    scale = np.float32(1 / 8)
    return (
        rng.standard_normal((32, HIDDEN), np.float32) * scale,
        rng.standard_normal((HIDDEN, 10), np.float32) * scale,
    )


def expected(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """What the model computes, in fp32."""
    first, second = weights()
    result: NDArray[np.float32] = np.maximum(x @ first, 0) @ second
    return result


@cache
def mlp(soc: str = "Ascend910B2") -> bytes:
    """A compiled two-layer perceptron: x float32 [4, 32] -> y float32 [4, 10]."""
    first, second = weights()
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w1"], ["h"], name="fc1"),
            helper.make_node("Relu", ["h"], ["r"], name="act"),
            helper.make_node("MatMul", ["r", "w2"], ["y"], name="fc2"),
        ],
        "mlp",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [BATCH, 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [BATCH, 10])],
        [numpy_helper.from_array(first, "w1"), numpy_helper.from_array(second, "w2")],
    )
    model: Any = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    return compile_model(model.SerializeToString(), soc)
