"""Arithmetic that an operator asks for at least: what its roofline rests on."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2, prod

from ascend_sim.ops.schema import ITEM_BITS, OpCall
from ascend_sim.ops.shapes import data_format, format_of


@dataclass(frozen=True)
class Arithmetic:
    """``macs`` multiply-accumulates on the cube in ``dtype``; ``vector`` element operations (one per lane and
    cycle) on elements of ``item_bytes``."""

    macs: int = 0
    vector: int = 0
    dtype: str = "float16"
    item_bytes: int = 2


def _elements(call: OpCall) -> int:
    return max([prod(s.logical_shape) for s in (*call.inputs, *call.outputs) if s is not None], default=0)


def matmul_macs(call: OpCall) -> int:
    """M x N x K, times the batch."""
    a = call.inputs[0]
    assert a is not None
    shape = a.logical_shape
    transposed = call.attr("transpose_x1", call.attr("adj_x1", call.attr("transpose_a", False)))
    depth = shape[-2] if transposed and len(shape) > 1 else shape[-1]
    if call.type == "FullyConnection":
        depth = prod(shape[int(call.attr("axis", 1)) :])
    depth = int(depth)
    return prod(call.outputs[0].logical_shape) * depth


def conv_macs(call: OpCall) -> int:
    """Output elements (input elements for a transposed convolution) times what each one multiplies."""
    if "Backprop" in call.type:
        return _gradient_macs(call)
    x, w = call.inputs[0], call.inputs[1]
    assert x is not None and w is not None
    shape = w.logical_shape
    if format_of(w).endswith("CN"):
        shape = (shape[-1], shape[-2], *shape[:-2])
    per = prod(shape[1:])
    if call.type == "DepthwiseConv2D":
        per = prod(shape[2:])
    if "Transpose" in call.type:
        return prod(x.logical_shape) * per
    return prod(call.outputs[0].logical_shape) * per


def _gradient_macs(call: OpCall) -> int:
    """A gradient multiplies as much as its convolution: every element of ``out_backprop`` by one filter."""
    dy = call.inputs[-1]
    w = call.outputs[0] if "Filter" in call.type else call.inputs[1 if len(call.inputs) > 2 else 0]
    assert dy is not None and w is not None
    shape = w.logical_shape
    if format_of(w).endswith("CN"):
        shape = (shape[-1], shape[-2], *shape[:-2])
    return prod(dy.logical_shape) * prod(shape[2:] if call.type.startswith("Depthwise") else shape[1:])


def window_operations(call: OpCall) -> int:
    """Pooling: output elements times window size, at least one operation per input element."""
    x = call.inputs[0] if call.inputs[0] is not None and call.inputs[0].const is None else call.outputs[0]
    size, ksize = prod(x.logical_shape), call.attr("ksize")
    if not ksize or call.attr("global_pooling", False):
        return size
    fmt = data_format(dict(call.attrs), x, "NCHW")
    window = prod(int(k) for k, letter in zip(ksize, fmt, strict=False) if letter in "DHW")
    return max(size, prod(call.outputs[0].logical_shape) * window)


def _attention(call: OpCall, dtype: str) -> Arithmetic:
    """Two products forward, five in the gradient, over every score; on the scores scale, maximum, difference,
    exponential and sum in float32. What a mask hides counts: its size is not known here."""
    q, k = call.inputs[0], call.inputs[1]
    assert q is not None and k is not None
    heads = int(call.attr("num_heads", call.attr("head_num", 1)))
    layout = str(call.attr("input_layout", "BSH")).partition("_")[0]
    shape = dict(zip(layout, q.logical_shape, strict=False))
    keys = dict(zip(layout, k.logical_shape, strict=False)).get("S", 1)
    width = shape.get("D", shape.get("H", 1) // max(heads, 1))
    scores = shape.get("B", 1) * shape.get("N", heads) * shape.get("S", 1) * keys
    products = 5 if call.type.endswith("Grad") else 2
    return Arithmetic(products * scores * width, 5 * scores, dtype, 4)


def work_of(call: OpCall, family: str) -> Arithmetic:
    """Least arithmetic of a call; families without a formula count one operation per element."""
    first = next((s for s in call.inputs if s is not None), None)
    dtype = first.dtype if first is not None else call.outputs[0].dtype
    item = max(ITEM_BITS[dtype] // 8, 1)
    count = _elements(call)
    if family == "matmul":
        return Arithmetic(matmul_macs(call), 0, dtype, item)
    if family == "conv":
        return Arithmetic(conv_macs(call), 0, dtype, item)
    if family == "attention":
        return _attention(call, dtype)
    if family == "recurrent":
        weights = sum(prod(s.logical_shape) for s in call.inputs[1:3] if s is not None)
        steps, batch = first.logical_shape[:2] if first is not None else (1, 1)
        if call.attr("layout", 0):
            steps, batch = batch, steps
        rows = steps * -(-batch // 16) * 16  # every step is a product of its own, on whole fractals
        return Arithmetic(weights * rows, prod(call.outputs[0].logical_shape) * 10, dtype, item)
    if family == "pooling":
        return Arithmetic(0, window_operations(call), dtype, item)
    if family in ("softmax", "norm"):
        return Arithmetic(0, 4 * count, dtype, item)  # two reductions, two passes over the elements
    if family == "sort":
        last = first.logical_shape[-1] if first is not None and first.logical_shape else 1
        return Arithmetic(0, count * max(1, ceil(log2(max(last, 2)))), dtype, item)
    if family in ("layout", "movement"):
        return Arithmetic(0, 0, dtype, item)
    steps = call.attr("steps", ())
    return Arithmetic(0, count * max(1, len(steps)), dtype, item)
