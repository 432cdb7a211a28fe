"""Conv and ConvTranspose over 1 to 3 spatial axes (1-D ones as 2-D with height 1)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ascend_sim.graph.onnx_import import integer
from ascend_sim.graph.onnx_import.context import Importer, OnnxNode, Table
from ascend_sim.graph.onnx_import.windows import FORMATS, Geometry, geometry, numbers

STRIDE_LIMIT, KERNEL_LIMIT = 63, 255  # of load3d (public Ascend C manual, LoadData3DParamsV2)


def _lifted(imp: Importer, node: OnnxNode) -> tuple[str, str, int]:
    """Input and filter with two or three spatial axes, and the number of axes they had."""
    x, w = node.inputs[0], node.inputs[1]
    spatial = imp.rank(x) - 2
    if imp.rank(w) != imp.rank(x):
        raise imp.error(f"its filter has rank {imp.rank(w)}, its input rank {imp.rank(x)}")
    if spatial == 1:
        x = imp.emit("Unsqueeze", [x], {"axes": [2]})[0]
        value = imp.constant(w)
        w = (
            imp.const(value[:, :, None, :], base="filter")
            if value is not None
            else imp.emit("Unsqueeze", [w], {"axes": [2]})[0]
        )
    elif not 1 <= spatial <= 3:
        raise imp.error(f"its input has {spatial} spatial axes; 1 to 3 are supported")
    return x, w, spatial


def _deliver(imp: Importer, node: OnnxNode, op: str, inputs: list[str], attrs: dict[str, Any], spatial: int) -> None:
    """Emit the operator; the height of a 1-D source goes away again."""
    if spatial > 1:
        imp.emit(op, inputs, attrs, node.outputs)
    else:
        imp.emit("Squeeze", imp.emit(op, inputs, attrs), {"axis": [2]}, node.outputs)


def _framed(imp: Importer, node: OnnxNode, window: Geometry) -> None:
    """A 1-D convolution whose window the cube's loader cannot address (a short-time transform): frames are gathered
    and multiplied as a matrix."""
    x, w, bias = node.inputs[0], node.inputs[1], node.input(2)
    (kernel,), (stride,), (dilation,), (before, after) = window.kernel, window.strides, window.dilations, window.pads
    if before or after:
        pads = imp.const(np.array([[0, 0], [0, 0], [before, after]], np.int64))
        attrs: dict[str, Any] = {"mode": "constant", "paddings_contiguous": True}
        x = imp.emit("PadV3", [x, pads, imp.const(0, imp.dtype(x))], attrs)[0]
    n, c, length = imp.shape(x)
    out = (length - dilation * (kernel - 1) - 1) // stride + 1
    places = np.arange(out)[:, None] * stride + np.arange(kernel)[None, :] * dilation
    frames = imp.emit("GatherV2", [x, imp.const(places, "int64"), imp.const(2, "int64")], {"batch_dims": 0})[0]
    if c > 1:
        frames = imp.emit("TransposeD", [frames], {"perm": [0, 2, 1, 3]})[0]
    rows = imp.emit("Reshape", [frames, imp.const([n * out, c * kernel], "int64")])[0]
    filters = imp.emit("Reshape", [w, imp.const([imp.shape(w)[0], c * kernel], "int64")])[0]
    inputs = [rows, filters, *([bias] if bias else [])]
    y = imp.emit("MatMulV2", inputs, {"transpose_x1": False, "transpose_x2": True})[0]
    y = imp.emit("Reshape", [y, imp.const([n, out, imp.shape(w)[0]], "int64")])[0]
    imp.emit("TransposeD", [y], {"perm": [0, 2, 1]}, node.outputs)


def conv(imp: Importer, node: OnnxNode) -> None:
    """Conv -> Conv2D, DepthwiseConv2D when every channel is its own group, Conv3D for volumes; on int8 when both
    factors were dequantised."""
    if not integer.conv(imp, node):
        plain_conv(imp, node, {})


def plain_conv(imp: Importer, node: OnnxNode, more: dict[str, Any]) -> None:
    """A convolution as it stands, with ``more`` attributes."""
    size, kernel = imp.shape(node.inputs[0])[2:], imp.shape(node.inputs[1])[2:]
    if len(size) == len(kernel) == 1 and int(node.attr("group", 1)) == 1:
        window = geometry(imp, node, size, kernel)
        if window.strides[0] > STRIDE_LIMIT or window.kernel[0] > KERNEL_LIMIT:
            _framed(imp, node, window)
            return
    x, w, spatial = _lifted(imp, node)
    window = geometry(imp, node, size, kernel).lifted()
    groups = int(node.attr("group", 1))
    attrs: dict[str, Any] = {
        "strides": [1, 1, *window.strides],
        "pads": list(window.pads),
        "dilations": [1, 1, *window.dilations],
        "data_format": FORMATS[window.axes],
        **more,
    }
    depthwise = window.axes == 2 and groups > 1 and groups == imp.shape(x)[1] and imp.shape(w)[1] == 1
    op = "DepthwiseConv2D" if depthwise and imp.shape(w)[0] == groups else f"Conv{window.axes}D"
    if op != "DepthwiseConv2D":
        attrs["groups"] = groups
    _deliver(imp, node, op, [x, w, node.input(2)], attrs, spatial)


def conv_transpose(imp: Importer, node: OnnxNode) -> None:
    """ConvTranspose -> Conv2DTransposeD or Conv3DTransposeD; the filter keeps ONNX's order (input channels first)."""
    size = imp.shape(node.inputs[0])[2:]
    x, w, spatial = _lifted(imp, node)
    auto = node.attr("auto_pad", "NOTSET")
    kernel = imp.shape(node.inputs[1])[2:]
    explicit = {k: v for k, v in node.attrs.items() if k != "auto_pad"}  # here it means the output's size
    window = geometry(imp, OnnxNode(node.type, node.name, node.inputs, node.outputs, explicit), size, kernel)
    extra = list(numbers(imp, node, "output_padding", spatial, 0))
    full = [
        s * (n - 1) + d * (k - 1) + 1 + p
        for s, n, d, k, p in zip(window.strides, size, window.dilations, window.kernel, extra, strict=True)
    ]
    wanted = node.attr("output_shape")
    target: list[int] = []
    if wanted is not None:
        target = [int(v) for v in wanted][-spatial:]
    elif auto in ("SAME_UPPER", "SAME_LOWER"):
        target = [n * s for n, s in zip(size, window.strides, strict=True)]
    pads = list(window.pads) if auto in ("NOTSET", "") else [0] * (2 * spatial)
    if target:
        total = [max(f - t, 0) for f, t in zip(full, target, strict=True)]
        low = [t // 2 if auto != "SAME_LOWER" else t - t // 2 for t in total]
        pads = [v for t, before in zip(total, low, strict=True) for v in (before, t - before)]
        extra = [e + max(t - f, 0) for e, t, f in zip(extra, target, full, strict=True)]
    else:
        target = [f - pads[2 * i] - pads[2 * i + 1] for i, f in enumerate(full)]
    flat = spatial == 1
    groups = int(node.attr("group", 1))
    window = window.lifted()
    attrs = {
        "input_size": [imp.shape(x)[0], imp.shape(w)[1] * groups, *([1] if flat else []), *target],
        "strides": [1, 1, *window.strides],
        "pads": [*([0, 0] if flat else []), *pads],
        "dilations": [1, 1, *window.dilations],
        "groups": groups,
        "output_padding": [0, 0, *([0] if flat else []), *extra],
        "data_format": FORMATS[window.axes],
    }
    _deliver(imp, node, f"Conv{window.axes}DTransposeD", [x, w, node.input(2)], attrs, spatial)


TABLE: Table = {"Conv": conv, "ConvTranspose": conv_transpose}
