"""Constant, ConstantOfShape, Range and other values known at compile time."""

from __future__ import annotations

import numpy as np

from ascend_sim.graph.onnx_import.context import Importer, OnnxNode, Table


def constant(imp: Importer, node: OnnxNode) -> None:
    for name, dtype in (
        ("value", None), ("value_float", "float32"), ("value_floats", "float32"), ("value_int", "int64"),
        ("value_ints", "int64"),
    ):  # fmt: skip
        if name in node.attrs:
            imp.define(node.outputs[0], np.asarray(node.attrs[name], dtype))
            return
    raise imp.error(f"its value attribute {sorted(node.attrs)} is not supported")


def constant_of_shape(imp: Importer, node: OnnxNode) -> None:
    shape = imp.ints(node.inputs[0], "shape")
    value = np.asarray(node.attr("value", np.zeros(1, np.float32)))
    imp.define(node.outputs[0], np.full(shape, value.reshape(-1)[0], value.dtype))


def range_(imp: Importer, node: OnnxNode) -> None:
    parts = [imp.value(n, what) for n, what in zip(node.inputs, ("start", "limit", "delta"), strict=True)]
    start, limit, delta = (np.asarray(p).reshape(-1)[0] for p in parts)
    count = max(int(np.ceil((float(limit) - float(start)) / float(delta))), 0)
    imp.define(node.outputs[0], (start + np.arange(count) * delta).astype(start.dtype))


def eye_like(imp: Importer, node: OnnxNode) -> None:
    from ascend_sim.graph.onnx_import.logic import onnx_dtype

    shape = imp.shape(node.inputs[0])
    dtype = onnx_dtype(imp, node.attrs["dtype"]) if "dtype" in node.attrs else imp.dtype(node.inputs[0])
    imp.define(node.outputs[0], np.eye(shape[0], shape[1], int(node.attr("k", 0)), dtype=np.dtype(dtype)))


TABLE: Table = {
    "Constant": constant,
    "ConstantOfShape": constant_of_shape,
    "Range": range_,
    "EyeLike": eye_like,
}
