"""Products of dequantised tensors, computed on the integers: int8 on the cube, int32 sums, one scale per channel.

A convolution or matrix product whose factors both come from DequantizeLinear with known scales, with symmetric weights,
becomes Conv2D, DepthwiseConv2D or MatMulV2 of int8 and AscendDequant. A zero point of the input goes into the
convolution's ``offset_x`` or the product's bias; uint8 is shifted to int8.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ascend_sim.graph.onnx_import.context import Importer, OnnxNode

Array = NDArray[np.generic]


@dataclass(frozen=True)
class Quantised:
    """int8 tensor ``name`` that stands for (name - zero) * scale; ``scale`` is one number or one per entry of
    ``axis``."""

    name: str
    scale: NDArray[np.float32]
    zero: int
    axis: int


def remember(imp: Importer, real: str, x: str, scale: str, zero: str, axis: int) -> None:
    """``real`` is ``x`` dequantised; kept when a product can use the integers."""
    factor = imp.constant(scale)
    point = imp.constant(zero) if zero else np.zeros(1, np.int64)
    if factor is None or point is None or point.size == 0 or (point != point.reshape(-1)[0]).any():
        return
    whole = int(point.reshape(-1)[0])
    signed = imp.signed.get(x, x)
    if imp.dtype(x) == "uint8":
        if signed == x:
            return
        whole -= 128
    elif imp.dtype(x) != "int8":
        return
    imp.quantised[real] = Quantised(signed, np.asarray(factor, np.float32).reshape(-1), whole, axis)


def _factors(imp: Importer, node: OnnxNode) -> tuple[Quantised, Quantised] | None:
    a, b = (imp.quantised.get(n) for n in node.inputs[:2])
    if a is None or b is None or a.scale.size != 1 or b.zero != 0 or imp.constant(b.name) is None:
        return None
    return a, b


def _bias(imp: Importer, name: str, scale: NDArray[np.float32]) -> NDArray[np.float64] | None:
    """The bias in units of the sums; None when it is not known."""
    if not name:
        return np.zeros(scale.shape)
    value = imp.constant(name)
    if value is None or value.size not in (1, scale.size):
        return None
    return np.rint(value.reshape(-1).astype(np.float64) / scale)


def _word(scale: NDArray[np.float32]) -> NDArray[np.uint64]:
    """Scales as AscendDequant has them: the bits of a float32 in a 64-bit word."""
    return np.ascontiguousarray(scale, np.float32).view(np.uint32).astype(np.uint64)


def _dequant(imp: Importer, acc: str, scale: NDArray[np.float32], dtype: str, outputs: tuple[str, ...]) -> None:
    word = imp.const(_word(scale), base="deq_scale")
    imp.emit("AscendDequant", [acc, word], {"sqrt_mode": False, "relu_flag": False, "dtype": dtype}, outputs)


def conv(imp: Importer, node: OnnxNode) -> bool:
    """A convolution on the integers; False when it has to be computed on the dequantised tensors."""
    found = _factors(imp, node)
    if found is None or imp.rank(node.inputs[0]) != 4:
        return False
    x, w = found
    channels = imp.shape(w.name)[0]
    if w.scale.size not in (1, channels) or (w.scale.size > 1 and w.axis % 4 != 0):
        return False
    scale = np.broadcast_to(x.scale * w.scale, (channels,)).astype(np.float32)
    bias = _bias(imp, node.input(2), scale)
    if bias is None or np.abs(bias).max(initial=0) >= 2.0**31:
        return False
    from ascend_sim.graph.onnx_import.convolution import plain_conv

    constant = imp.const(bias.astype(np.int32), base="bias") if bias.any() else ""
    out = imp.fresh(node.name)
    inner = OnnxNode("Conv", node.name, (x.name, w.name, constant), (out,), node.attrs, node.domain)
    plain_conv(imp, inner, {"offset_x": x.zero} if x.zero else {})
    _dequant(imp, out, scale, imp.dtype(node.inputs[0]), node.outputs)
    return True


def product(imp: Importer, node: OnnxNode, transposed: bool = False, bias_name: str = "") -> bool:
    """A matrix product with constant weights on the integers; False when it cannot be."""
    found = _factors(imp, node)
    if found is None or imp.rank(node.inputs[1]) != 2 or imp.rank(node.inputs[0]) < 2:
        return False
    a, b = found
    weights = imp.value(b.name, "weights").astype(np.int64)
    columns = weights.shape[0 if transposed else 1]
    wanted = 0 if transposed else 1
    if b.scale.size not in (1, columns) or (b.scale.size > 1 and b.axis % 2 != wanted):
        return False
    scale = np.broadcast_to(a.scale * b.scale, (columns,)).astype(np.float32)
    bias = _bias(imp, bias_name, scale)
    if bias is None:
        return False
    total = np.broadcast_to(bias, (columns,)) - a.zero * weights.sum(axis=1 if transposed else 0)
    if np.abs(total).max(initial=0) >= 2.0**31:
        return False
    shape = imp.shape(a.name)
    rows = a.name
    if len(shape) > 2:
        rows = imp.emit("Reshape", [rows, imp.const([-1, shape[-1]], "int64")])[0]
    inputs = [rows, b.name, *([imp.const(total.astype(np.int32), base="bias")] if total.any() else [])]
    acc = imp.emit("MatMulV2", inputs, {"transpose_x1": False, "transpose_x2": transposed})[0]
    kind = imp.dtype(node.inputs[0])
    if len(shape) == 2:
        _dequant(imp, acc, scale, kind, node.outputs)
        return True
    real = imp.fresh(node.name)
    _dequant(imp, acc, scale, kind, (real,))
    imp.emit("Reshape", [real, imp.const([*shape[:-1], columns], "int64")], {}, node.outputs)
    return True
