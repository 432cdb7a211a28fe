"""Single-operator models in onnxruntime, the judge of operator values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ascend_sim import ops
from ascend_sim.ops.schema import TensorSpec


def onnx_run(
    op: str, arrays: Sequence[np.ndarray | None], attrs: dict[str, Any], n_out: int = 1, opset: int = 18
) -> list[np.ndarray]:
    """Outputs of one ONNX operator; float inputs are run in float32."""
    ort = pytest.importorskip("onnxruntime")
    names, feeds, infos = [], {}, []
    for i, a in enumerate(arrays):
        if a is None:
            names.append("")
            continue
        names.append(f"i{i}")
        feeds[f"i{i}"] = a.astype(np.float32) if a.dtype.name in ("float16", "bfloat16") else a
        infos.append(numpy_helper.from_array(feeds[f"i{i}"], f"i{i}"))
    inputs = [helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in infos]
    outputs = [f"o{i}" for i in range(n_out)]
    node = helper.make_node(op, names, outputs, **attrs)
    graph = helper.make_graph(
        [node], "g", inputs, [helper.make_tensor_value_info(o, TensorProto.UNDEFINED, None) for o in outputs]
    )
    for value in graph.output:
        value.ClearField("type")
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    model = onnx.shape_inference.infer_shapes(model)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


def spec(a: np.ndarray | None, fmt: str = "ND", const: bool = False) -> TensorSpec | None:
    if a is None:
        return None
    return TensorSpec(a.shape, a.dtype.name, fmt, const=a.tobytes() if const else None)


def run_op(
    op: str,
    arrays: Sequence[np.ndarray | None],
    attrs: dict[str, Any] | None = None,
    formats: Sequence[str] = (),
    consts: Sequence[int] = (),
) -> list[np.ndarray]:
    """Infer and compute one operator, and check that arrays are what the specs promise."""
    fmts = [*formats, *["ND"] * len(arrays)]
    specs = [spec(a, fmts[i], i in consts) for i, a in enumerate(arrays)]
    call = ops.call(op, specs, attrs or {})
    results = ops.values(call, arrays)
    assert len(results) == len(call.outputs)
    for array, out in zip(results, call.outputs, strict=True):
        assert array.shape == out.logical_shape
        assert array.dtype.name == out.dtype
    return results


def close(actual: np.ndarray, wanted: np.ndarray, dtype: str = "float32") -> None:
    """The tolerances of the product: fp32 rtol 1e-5; half types 2e-3 (bf16 1.6e-2) and 1e-3 of the range."""
    wanted = np.asarray(wanted, np.float64)
    span = float(np.max(np.abs(wanted), initial=0))
    rtol, atol = {"float32": (1e-5, 1e-5), "float16": (2e-3, 1e-3), "bfloat16": (1.6e-2, 8e-3)}[dtype]
    np.testing.assert_allclose(np.asarray(actual, np.float64), wanted, rtol=rtol, atol=atol * max(span, 1e-6))
