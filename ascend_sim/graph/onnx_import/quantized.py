"""Quantisation and integer arithmetic: QuantizeLinear, DequantizeLinear, and products of 8-bit integers.

Products run on the cube in int8 when the types are 8 bits and zero points are constants that it can take; else in
float32, which is exact as long as sums stay below 2**24.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ascend_sim.graph.onnx_import import integer
from ascend_sim.graph.onnx_import.context import Importer, OnnxNode, Table
from ascend_sim.graph.onnx_import.logic import onnx_dtype

QUANTISED = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "uint16": (0, 65535)}


@dataclass(frozen=True)
class Scale:
    """Scale and zero point of a quantised tensor as graph tensors that broadcast against it ("" = 0)."""

    scale: str
    zero: str


def _aligned(imp: Importer, vector: str, x: str, axis: int, block: int) -> str:
    """A scale or zero point shaped to broadcast against ``x``: one value, one per entry of an axis, or one per block
    of ``block`` entries."""
    if not vector:
        return ""
    rank, shape = imp.rank(x), imp.shape(vector)
    if imp.spec(vector).size == 1:
        return imp.emit("Reshape", [vector, imp.const(np.zeros(0, np.int64))])[0] if shape else vector
    if len(shape) == 1 and not block:
        target = [1] * rank
        target[imp.axis(axis, rank)] = shape[0]
        return imp.emit("Reshape", [vector, imp.const(target, "int64")])[0] if rank > 1 else vector
    if len(shape) != rank or not block:
        raise imp.error(f"its scale of shape {list(shape)} does not fit the input {list(imp.shape(x))}")
    axis = imp.axis(axis, rank)
    wide = [*shape[: axis + 1], block, *shape[axis + 1 :]]
    spread = imp.emit("Unsqueeze", [vector], {"axes": [axis + 1]})[0]
    spread = imp.emit("BroadcastTo", [spread, imp.const(wide, "int64")])[0]
    merged = [*shape[:axis], shape[axis] * block, *shape[axis + 1 :]]
    spread = imp.emit("Reshape", [spread, imp.const(merged, "int64")])[0]
    size = imp.shape(x)[axis]
    if size != merged[axis]:
        end = [*merged[:axis], size, *merged[axis + 1 :]]
        spread = imp.emit("StridedSliceD", [spread], {"begin": [0] * rank, "end": end, "strides": [1] * rank})[0]
    return spread


def _cast(imp: Importer, name: str, dtype: str) -> str:
    return name if not name or imp.dtype(name) == dtype else imp.emit("Cast", [name], {"dst_type": dtype})[0]


def _quantised(imp: Importer, x: str, scale: Scale, dtype: str, outputs: tuple[str, ...] | None) -> str:
    """round(x / scale) + zero, clamped to the type; half to even."""
    if dtype not in QUANTISED:
        raise imp.error(f"quantisation to {dtype} is not supported", code="E16002")
    y = imp.emit("Round", [imp.emit("RealDiv", [x, _cast(imp, scale.scale, imp.dtype(x))])[0]])[0]
    kind = imp.dtype(y)
    if scale.zero:
        y = imp.emit("Add", [y, _cast(imp, scale.zero, kind)])[0]
    low, high = (imp.const(v, kind) for v in QUANTISED[dtype])
    y = imp.emit("ClipByValue", [y, low, high])[0]
    return imp.emit("Cast", [y], {"dst_type": dtype}, outputs)[0]


def quantize_linear(imp: Importer, node: OnnxNode) -> None:
    """QuantizeLinear -> Quantize when the scale is per tensor or per axis; per block, in elementary operators."""
    x, scale, zero = node.inputs[0], node.inputs[1], node.input(2)
    axis, block = int(node.attr("axis", 1)), int(node.attr("block_size", 0))
    number = int(node.attr("output_dtype", 0))
    dtype = imp.dtype(zero) if zero else onnx_dtype(imp, number) if number else "uint8"
    if dtype not in QUANTISED:
        raise imp.error(f"quantisation to {dtype} is not supported", code="E16002")
    if imp.dtype(x) not in ("float32", "float16", "bfloat16"):
        x = _cast(imp, x, "float32")
    if block or imp.dtype(x) != "float32":
        x = _cast(imp, x, "float32")
        parts = Scale(_aligned(imp, _cast(imp, scale, "float32"), x, axis, block), _aligned(imp, zero, x, axis, block))
        _quantised(imp, x, parts, dtype, node.outputs)
        return
    attrs = {"dtype": dtype, "axis": imp.axis(axis, imp.rank(x)) if imp.spec(scale).size > 1 else 0}
    scale = _cast(imp, scale, "float32")
    imp.emit("Quantize", [x, scale, *([zero] if zero else [])], attrs, node.outputs)
    point = imp.constant(zero) if zero else np.zeros(1, np.int64)
    if dtype == "uint8" and point is not None and imp.constant(node.outputs[0]) is None:
        # the cube multiplies int8: the same less 128, which goes away when nothing reads it
        less = imp.const((point.astype(np.int64) - 128).astype(np.int8), base="zero")
        imp.signed[node.outputs[0]] = imp.emit("Quantize", [x, scale, less], {**attrs, "dtype": "int8"})[0]


def _dequantised(imp: Importer, x: str, scale: Scale, dtype: str, outputs: tuple[str, ...] | None) -> str:
    """(x - zero) * scale."""
    y = _cast(imp, x, "float32")
    if scale.zero:
        y = imp.emit("Sub", [y, _cast(imp, scale.zero, "float32")])[0]
    if dtype == "float32":
        return imp.emit("Mul", [y, _cast(imp, scale.scale, "float32")], {}, outputs)[0]
    y = imp.emit("Mul", [y, _cast(imp, scale.scale, "float32")])[0]
    return imp.emit("Cast", [y], {"dst_type": dtype}, outputs)[0]


def dequantize_linear(imp: Importer, node: OnnxNode) -> None:
    x, scale, zero = node.inputs[0], node.inputs[1], node.input(2)
    axis, block = int(node.attr("axis", 1)), int(node.attr("block_size", 0))
    number = int(node.attr("output_dtype", 0))
    parts = Scale(_aligned(imp, scale, x, axis, block), _aligned(imp, zero, x, axis, block))
    dtype = onnx_dtype(imp, number) if number else imp.dtype(scale)
    _dequantised(imp, x, parts, dtype, node.outputs)
    if not block:
        integer.remember(imp, node.outputs[0], x, scale, zero, axis)


def _whole(imp: Importer, name: str) -> int | None:
    """A zero point that is one known number (0 when absent)."""
    if not name:
        return 0
    value = imp.constant(name)
    if value is None or value.size == 0 or (value != value.reshape(-1)[0]).any():
        return None
    return int(value.reshape(-1)[0])


def _shifted(imp: Importer, x: str, zero: str, axis: int) -> str:
    """x - zero as float32."""
    wide = _cast(imp, x, "float32")
    if not zero or _whole(imp, zero) == 0:
        return wide
    return imp.emit("Sub", [wide, _cast(imp, _aligned(imp, zero, x, axis, 0), "float32")])[0]


def _on_cube(imp: Importer, a: str, b: str, a_zero: str, b_zero: str) -> bool:
    types = (imp.dtype(a), imp.dtype(b))
    return all(t == "int8" for t in types) and _whole(imp, a_zero) == 0 and _whole(imp, b_zero) == 0


def integer_matmul(imp: Importer, a: str, b: str, a_zero: str, b_zero: str) -> str:
    """(a - a_zero) @ (b - b_zero) as int32."""
    if _on_cube(imp, a, b, a_zero, b_zero):
        return _matmul(imp, a, b)
    rows = _shifted(imp, a, a_zero, -2)
    columns = _shifted(imp, b, b_zero, -1)
    return _cast(imp, _matmul(imp, rows, columns), "int32")


def _matmul(imp: Importer, a: str, b: str) -> str:
    from ascend_sim.graph.onnx_import.matmul import product

    return product(imp, a, b)


def matmul_integer(imp: Importer, node: OnnxNode) -> None:
    y = integer_matmul(imp, node.inputs[0], node.inputs[1], node.input(2), node.input(3))
    imp.alias(node.outputs[0], y)


def _convolution(imp: Importer, node: OnnxNode, x: str, w: str, bias: str) -> str:
    from ascend_sim.graph.onnx_import.convolution import conv

    out = imp.fresh(node.name)
    conv(imp, OnnxNode("Conv", node.name, (x, w, bias), (out,), node.attrs, node.domain))
    return out


def integer_conv(imp: Importer, node: OnnxNode, x: str, w: str, x_zero: str, w_zero: str) -> str:
    """Convolution of x - x_zero with w - w_zero as int32; padding is x_zero."""
    if _on_cube(imp, x, w, x_zero, w_zero):
        return _convolution(imp, node, x, w, "")
    return _cast(imp, _convolution(imp, node, _shifted(imp, x, x_zero, 1), _shifted(imp, w, w_zero, 0), ""), "int32")


def conv_integer(imp: Importer, node: OnnxNode) -> None:
    imp.alias(node.outputs[0], integer_conv(imp, node, node.inputs[0], node.inputs[1], node.input(2), node.input(3)))


def _requantised(
    imp: Importer, acc: str, scales: tuple[str, str, str], zero: str, dtype: str, axis: int, outputs: tuple[str, ...]
) -> None:
    """int32 sums to 8 bits: times a_scale * b_scale / y_scale, rounded half to even, plus the zero point."""
    a, b, y = (_cast(imp, s, "float32") for s in scales)
    a, b = _aligned(imp, a, acc, axis if axis == 1 else -2, 0), _aligned(imp, b, acc, axis, 0)
    factor = imp.emit("RealDiv", [imp.emit("Mul", [a, b])[0], _aligned(imp, y, acc, axis, 0)])[0]
    value = imp.emit("Round", [imp.emit("Mul", [_cast(imp, acc, "float32"), factor])[0]])[0]
    if zero:
        value = imp.emit("Add", [value, _cast(imp, _aligned(imp, zero, acc, axis, 0), "float32")])[0]
    low, high = (imp.const(v, "float32") for v in QUANTISED[dtype])
    value = imp.emit("ClipByValue", [value, low, high])[0]
    imp.emit("Cast", [value], {"dst_type": dtype}, outputs)


def qlinear_matmul(imp: Importer, node: OnnxNode) -> None:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.inputs[:8]
    acc = integer_matmul(imp, a, b, a_zero, b_zero)
    _requantised(imp, acc, (a_scale, b_scale, y_scale), y_zero, imp.dtype(y_zero), -1, node.outputs)


def qlinear_conv(imp: Importer, node: OnnxNode) -> None:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = node.inputs[:8]
    acc = integer_conv(imp, node, x, w, x_zero, w_zero)
    if node.input(8):
        acc = imp.emit("Add", [acc, _aligned(imp, node.input(8), acc, 1, 0)])[0]
    _requantised(imp, acc, (x_scale, w_scale, y_scale), y_zero, imp.dtype(y_zero), 1, node.outputs)


TABLE: Table = {
    "QuantizeLinear": quantize_linear,
    "DequantizeLinear": dequantize_linear,
    "MatMulInteger": matmul_integer,
    "ConvInteger": conv_integer,
    "QLinearMatMul": qlinear_matmul,
    "QLinearConv": qlinear_conv,
}
