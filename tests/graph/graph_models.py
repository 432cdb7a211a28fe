"""Small ONNX models and checks that the tests of this room share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from ascend_sim.graph.compile import compile_model
from ascend_sim.graph.executor import LoadedModel
from ascend_sim.graph.options import CompileOptions

Array = NDArray[Any]
FP32 = CompileOptions(precision_mode="must_keep_origin_dtype")
_TYPES = {
    np.dtype(np.float32): TensorProto.FLOAT,
    np.dtype(np.int64): TensorProto.INT64,
    np.dtype(np.bool_): TensorProto.BOOL,
    np.dtype(np.int32): TensorProto.INT32,
    np.dtype(np.float16): TensorProto.FLOAT16,
    np.dtype(np.uint8): TensorProto.UINT8,
    np.dtype(np.int8): TensorProto.INT8,
}


def make_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Array],
    outputs: Sequence[str],
    constants: Mapping[str, Array] | None = None,
    opset: int = 13,
) -> onnx.ModelProto:
    """A model whose inputs have the shapes and types of the given arrays."""
    graph = helper.make_graph(
        list(nodes),
        "test",
        [helper.make_tensor_value_info(n, _TYPES[a.dtype], a.shape) for n, a in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8
    inferred = onnx.shape_inference.infer_shapes(model)
    known = {v.name: v for v in [*inferred.graph.value_info, *inferred.graph.output]}
    del model.graph.output[:]
    model.graph.output.extend(known[n] for n in outputs)
    return model


def reference(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return [np.asarray(v) for v in session.run(None, dict(inputs))]


def run(
    model: onnx.ModelProto, inputs: Mapping[str, Array], soc: str = "Ascend910B2", options: CompileOptions = FP32
) -> tuple[list[Array], LoadedModel]:
    loaded = LoadedModel.from_bytes(compile_model(model.SerializeToString(), soc, options))
    return loaded.run_values([inputs[d.name] for d in loaded.inputs]), loaded


def check(
    model: onnx.ModelProto,
    inputs: Mapping[str, Array],
    soc: str = "Ascend910B2",
    options: CompileOptions = FP32,
    rtol: float = 1e-4,
    atol: float = 1e-5,
) -> LoadedModel:
    """Compile, load, run and compare with onnxruntime."""
    got, loaded = run(model, inputs, soc, options)
    for value, expected in zip(got, reference(model, inputs), strict=True):
        assert value.shape == expected.shape and value.dtype == expected.dtype
        np.testing.assert_allclose(value.astype(np.float64), expected.astype(np.float64), rtol=rtol, atol=atol)
    return loaded


def cosine(a: Array, b: Array) -> float:
    x, y = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    return float(x @ y / np.sqrt((x @ x) * (y @ y)))


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def randn(*shape: int, seed: int = 0) -> Array:
    return rng(seed).standard_normal(shape).astype(np.float32)
