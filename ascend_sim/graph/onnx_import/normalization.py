"""BatchNormalization, LayerNormalization, InstanceNormalization, LRN and the p-norms."""

from __future__ import annotations

import numpy as np

from ascend_sim.graph.onnx_import.context import Importer, OnnxNode, Table


def batch_norm(imp: Importer, node: OnnxNode) -> None:
    """Inference BatchNormalization -> BNInfer; training -> BatchNorm and the running averages."""
    if node.attr("training_mode", 0):
        _training_batch_norm(imp, node)
        return
    attrs = {"epsilon": float(node.attr("epsilon", 1e-5)), "data_format": "NCHW"}
    imp.emit("BNInfer", node.inputs[:5], attrs, node.outputs[:1])


def _training_batch_norm(imp: Importer, node: OnnxNode) -> None:
    x, scale, offset, mean, variance = node.inputs[:5]
    attrs = {"epsilon": float(node.attr("epsilon", 1e-5)), "data_format": "NCHW", "is_training": True}
    _, *_, batch_mean, batch_variance = imp.emit("BatchNorm", [x, scale, offset], attrs, [node.outputs[0], *[""] * 4])
    momentum = float(node.attr("momentum", 0.9))
    pairs = zip(node.outputs[1:], (mean, variance), (batch_mean, batch_variance), strict=False)
    for target, running, batch in pairs:
        if target:
            old = imp.emit("Mul", [running, imp.const(momentum, imp.dtype(running))])[0]
            new = imp.emit("Mul", [batch, imp.const(1.0 - momentum, imp.dtype(batch))])[0]
            imp.emit("Add", [old, new], {}, [target])


def layer_norm(imp: Importer, node: OnnxNode) -> None:
    """LayerNormalization over the axes from ``axis`` on -> LayerNormV4."""
    x, gamma, beta = node.inputs[0], node.inputs[1], node.input(2)
    shape = imp.shape(x)
    axis = imp.axis(int(node.attr("axis", -1)), len(shape))
    inner = list(shape[axis:])
    dims = imp.const(inner, "int64")
    inputs = [x, dims, gamma, beta or imp.const(np.zeros(inner), imp.dtype(x))]
    imp.emit("LayerNormV4", inputs, {"epsilon": float(node.attr("epsilon", 1e-5))}, node.outputs)


def instance_norm(imp: Importer, node: OnnxNode) -> None:
    """InstanceNormalization in elementary operators."""
    x, scale, bias = node.inputs[:3]
    rank = imp.rank(x)
    axes = imp.const(list(range(2, rank)), "int64")
    mean = imp.emit("ReduceMean", [x, axes], {"keep_dims": True})[0]
    centred = imp.emit("Sub", [x, mean])[0]
    square = imp.emit("Square", [centred])[0]
    variance = imp.emit("ReduceMean", [square, axes], {"keep_dims": True})[0]
    epsilon = imp.const(float(node.attr("epsilon", 1e-5)), imp.dtype(x))
    deviation = imp.emit("Sqrt", [imp.emit("Add", [variance, epsilon])[0]])[0]
    normal = imp.emit("RealDiv", [centred, deviation])[0]
    shape = imp.const([1, -1, *[1] * (rank - 2)], "int64")
    scaled = imp.emit("Mul", [normal, imp.emit("Reshape", [scale, shape])[0]])[0]
    imp.emit("Add", [scaled, imp.emit("Reshape", [bias, shape])[0]], {}, node.outputs)


def lrn(imp: Importer, node: OnnxNode) -> None:
    """LRN across channels; GE's alpha is per element, ONNX's per window."""
    size = int(node.attr("size"))
    attrs = {
        "depth_radius": (size - 1) // 2,
        "bias": float(node.attr("bias", 1.0)),
        "alpha": float(node.attr("alpha", 1e-4)) / size,
        "beta": float(node.attr("beta", 0.75)),
        "norm_region": "ACROSS_CHANNELS",
        "data_format": "NCHW",
    }
    imp.emit("LRN", node.inputs[:1], attrs, node.outputs)


def lp_normalization(imp: Importer, node: OnnxNode) -> None:
    x = node.inputs[0]
    axes = imp.const([int(node.attr("axis", -1))], "int64")
    if int(node.attr("p", 2)) == 1:
        norm = imp.emit("ReduceSum", [imp.emit("Abs", [x])[0], axes], {"keep_dims": True})[0]
    else:
        total = imp.emit("ReduceSum", [imp.emit("Square", [x])[0], axes], {"keep_dims": True})[0]
        norm = imp.emit("Sqrt", [total])[0]
    imp.emit("DivNoNan", [x, norm], {}, node.outputs)


TABLE: Table = {
    "BatchNormalization": batch_norm,
    "LayerNormalization": layer_norm,
    "InstanceNormalization": instance_norm,
    "LRN": lrn,
    "LpNormalization": lp_normalization,
}
