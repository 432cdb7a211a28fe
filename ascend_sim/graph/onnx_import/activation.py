"""Activation functions and softmax."""

from __future__ import annotations

from functools import partial

import numpy as np

from ascend_sim.graph.onnx_import.context import Importer, OnnxNode, Table


def plain(ir: str, imp: Importer, node: OnnxNode) -> None:
    imp.emit(ir, node.inputs[:1], {}, node.outputs)


def leaky_relu(imp: Importer, node: OnnxNode) -> None:
    imp.emit("LeakyRelu", node.inputs[:1], {"negative_slope": float(node.attr("alpha", 0.01))}, node.outputs)


def prelu(imp: Importer, node: OnnxNode) -> None:
    """PRelu; one slope per channel becomes a vector, other slopes the rank of the input."""
    x, slope = node.inputs[:2]
    rank, shape = imp.rank(x), imp.shape(slope)
    full = (1,) * (rank - len(shape)) + tuple(shape)
    if imp.opset < 7 and rank > 1 and shape == (imp.shape(x)[1],):  # channels, before broadcasting was general
        full = (1, shape[0], *(1,) * (rank - 2))
    per_channel = rank > 1 and all(n == 1 for i, n in enumerate(full) if i != 1) and full[1] == imp.shape(x)[1]
    target = [full[1]] if per_channel else list(full)
    if target != list(shape) and imp.spec(slope).size != 1:
        slope = imp.emit("Reshape", [slope, imp.const(target, "int64")])[0]
    imp.emit("PRelu", [x, slope], {}, node.outputs)


def hard_sigmoid(imp: Importer, node: OnnxNode) -> None:
    attrs = {"alpha": float(node.attr("alpha", 0.2)), "beta": float(node.attr("beta", 0.5))}
    imp.emit("HardSigmoid", node.inputs[:1], attrs, node.outputs)


def elu(imp: Importer, node: OnnxNode) -> None:
    imp.emit("Elu", node.inputs[:1], {"alpha": float(node.attr("alpha", 1.0))}, node.outputs)


def clip(imp: Importer, node: OnnxNode) -> None:
    """Clip -> Relu6 or ClipByValue; a missing bound is the dtype's extreme."""
    x = node.inputs[0]
    dtype = imp.dtype(x)
    info = np.finfo(dtype) if dtype.startswith("float") else np.iinfo(dtype)
    bounds: list[str] = []
    for index, (name, default) in enumerate((("min", info.min), ("max", info.max))):
        given = node.input(index + 1) if imp.opset >= 11 else ""
        if given:
            bounds.append(given)
        else:
            value = node.attr(name, default)
            bounds.append(imp.const(np.clip(value, info.min, info.max), dtype))
    low, high = (imp.constant(b) for b in bounds)
    if low is not None and high is not None and low.size == high.size == 1 and dtype.startswith("float"):
        lo, hi = float(low.reshape(-1)[0]), float(high.reshape(-1)[0])
        if (lo, hi) == (0.0, 6.0):
            imp.emit("Relu6", [x], {}, node.outputs)
            return
        if lo == 0.0 and hi >= float(info.max):
            imp.emit("Relu", [x], {}, node.outputs)
            return
    imp.emit("ClipByValue", [x, *bounds], {}, node.outputs)


def softmax(ir: str, imp: Importer, node: OnnxNode) -> None:
    """Softmax over one axis (opset 13) or over all axes from ``axis`` on (before)."""
    x = node.inputs[0]
    shape = imp.shape(x)
    if imp.opset >= 13:
        axes = [imp.axis(int(node.attr("axis", -1)), len(shape))]
    else:
        first = imp.axis(int(node.attr("axis", 1)), len(shape)) if len(shape) > 1 else 0
        axes = list(range(first, len(shape)))
        kept = [a for a in axes if shape[a] != 1]  # an axis of length 1 changes nothing
        axes = kept or axes[-1:]
    imp.emit(ir, [x], {"axes": axes}, node.outputs)


def gelu(imp: Importer, node: OnnxNode) -> None:
    """Gelu (opset 20): the tanh form is GE's Gelu, the exact one GeluV2."""
    exact = node.attr("approximate", "none") == "none"
    imp.emit("GeluV2" if exact else "Gelu", node.inputs[:1], {"approximate": "none"} if exact else {}, node.outputs)


def thresholded_relu(imp: Importer, node: OnnxNode) -> None:
    imp.emit("ThresholdedRelu", node.inputs[:1], {"alpha": float(node.attr("alpha", 1.0))}, node.outputs)


def celu(imp: Importer, node: OnnxNode) -> None:
    imp.emit("CeluV2", node.inputs[:1], {"alpha": float(node.attr("alpha", 1.0))}, node.outputs)


def selu(imp: Importer, node: OnnxNode) -> None:
    """Selu with its usual constants; others are a scaled Elu."""
    attrs = {
        "alpha": float(node.attr("alpha", 1.67326319217681884765625)),
        "scale": float(node.attr("gamma", 1.05070102214813232421875)),
    }
    imp.emit("Elu", node.inputs[:1], attrs, node.outputs)


def shrink(imp: Importer, node: OnnxNode) -> None:
    attrs = {"lambd": float(node.attr("lambd", 0.5)), "bias": float(node.attr("bias", 0.0))}
    imp.emit("Shrink", node.inputs[:1], attrs, node.outputs)


TABLE: Table = {
    "Relu": partial(plain, "Relu"),
    "Sigmoid": partial(plain, "Sigmoid"),
    "Tanh": partial(plain, "Tanh"),
    "HardSwish": partial(plain, "HardSwish"),
    "Softplus": partial(plain, "Softplus"),
    "Softsign": partial(plain, "Softsign"),
    "Mish": partial(plain, "Mish"),
    "LeakyRelu": leaky_relu,
    "PRelu": prelu,
    "HardSigmoid": hard_sigmoid,
    "Elu": elu,
    "Clip": clip,
    "Softmax": partial(softmax, "SoftmaxV2"),
    "LogSoftmax": partial(softmax, "LogSoftmaxV2"),
    "Gelu": gelu,
    "ThresholdedRelu": thresholded_relu,
    "Celu": celu,
    "Selu": selu,
    "Shrink": shrink,
}
