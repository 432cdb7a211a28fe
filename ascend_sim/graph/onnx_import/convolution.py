"""Conv and ConvTranspose (1-D ones as 2-D with height 1)."""

from __future__ import annotations

from typing import Any

from ascend_sim.graph.onnx_import.context import Importer, OnnxNode, Table
from ascend_sim.graph.onnx_import.windows import explicit_pads


def _as_2d(imp: Importer, node: OnnxNode) -> tuple[str, str, int]:
    """Input and filter as 4-D tensors, and the number of spatial axes they had."""
    x, w = node.inputs[0], node.inputs[1]
    spatial = imp.rank(x) - 2
    if imp.rank(w) != imp.rank(x):
        raise imp.error(f"its filter has rank {imp.rank(w)}, its input rank {imp.rank(x)}")
    if spatial == 1:
        axes = imp.const([2], "int64")
        x = imp.emit("Unsqueeze", [x], {"axes": [2]})[0]
        value = imp.constant(w)
        w = (
            imp.const(value[:, :, None, :], base="filter")
            if value is not None
            else imp.emit("Unsqueeze", [w, axes], {"axes": [2]})[0]
        )
    elif spatial != 2:
        raise imp.error(
            f"its input has {spatial} spatial axes", "1-D and 2-D convolutions are supported; reshape 3-D ones."
        )
    return x, w, spatial


def _pairs(values: list[int], fill: int) -> list[int]:
    return [fill, *values] if len(values) == 1 else values


def conv(imp: Importer, node: OnnxNode) -> None:
    """Conv -> Conv2D, or DepthwiseConv2D when every channel is its own group."""
    x, w, spatial = _as_2d(imp, node)
    kernel = list(imp.shape(w)[2:])
    strides = _pairs(list(node.attr("strides", [1] * spatial)), 1)
    dilations = _pairs(list(node.attr("dilations", [1] * spatial)), 1)
    top, left, bottom, right = explicit_pads(imp, node, imp.shape(x)[2:], kernel, strides, dilations, spatial)
    groups = int(node.attr("group", 1))
    attrs: dict[str, Any] = {
        "strides": [1, 1, *strides],
        "pads": [top, bottom, left, right],
        "dilations": [1, 1, *dilations],
        "data_format": "NCHW",
    }
    inputs = [x, w, node.input(2)]
    depthwise = groups > 1 and groups == imp.shape(x)[1] and imp.shape(w)[1] == 1
    op = "DepthwiseConv2D" if depthwise and imp.shape(w)[0] == groups else "Conv2D"
    if op == "Conv2D":
        attrs["groups"] = groups
    if spatial == 2:
        imp.emit(op, inputs, attrs, node.outputs)
    else:
        y = imp.emit(op, inputs, attrs)[0]
        imp.emit("Squeeze", [y], {"axis": [2]}, node.outputs)


def conv_transpose(imp: Importer, node: OnnxNode) -> None:
    """ConvTranspose -> Conv2DTransposeD; the filter keeps ONNX's order (input channels first)."""
    x, w, spatial = _as_2d(imp, node)
    kernel = list(imp.shape(w)[2:])
    strides = _pairs(list(node.attr("strides", [1] * spatial)), 1)
    dilations = _pairs(list(node.attr("dilations", [1] * spatial)), 1)
    extra = _pairs(list(node.attr("output_padding", [0] * spatial)), 0)
    groups = int(node.attr("group", 1))
    size = imp.shape(x)[2:]
    span = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    full = [s * (n - 1) + e + p for s, n, e, p in zip(strides, size, span, extra, strict=True)]
    wanted = node.attr("output_shape")
    auto = node.attr("auto_pad", "NOTSET")
    if wanted is not None:
        target = _pairs([int(v) for v in wanted][-spatial:], 1)
    elif auto in ("SAME_UPPER", "SAME_LOWER"):
        target = [n * s for n, s in zip(size, strides, strict=True)]
    else:
        target = []
    if target:
        total = [max(f - t, 0) for f, t in zip(full, target, strict=True)]
        low = [t // 2 if auto != "SAME_LOWER" else t - t // 2 for t in total]
        pads = [low[0], total[0] - low[0], low[1], total[1] - low[1]]
        extra = [e + max(t - f, 0) for e, t, f in zip(extra, target, full, strict=True)]
    else:
        given = list(node.attr("pads", [0] * (2 * spatial))) if auto == "NOTSET" else [0] * (2 * spatial)
        if spatial == 1:
            given = [0, given[0], 0, given[1]]
        pads = [given[0], given[2], given[1], given[3]]
        target = [full[0] - pads[0] - pads[1], full[1] - pads[2] - pads[3]]
    channels = imp.shape(w)[1] * groups
    attrs = {
        "input_size": [imp.shape(x)[0], channels, *target],
        "strides": [1, 1, *strides],
        "pads": pads,
        "dilations": [1, 1, *dilations],
        "groups": groups,
        "output_padding": [0, 0, *extra],
        "data_format": "NCHW",
    }
    inputs = [x, w, node.input(2)]
    if spatial == 2:
        imp.emit("Conv2DTransposeD", inputs, attrs, node.outputs)
    else:
        y = imp.emit("Conv2DTransposeD", inputs, attrs)[0]
        imp.emit("Squeeze", [y], {"axis": [2]}, node.outputs)


TABLE: Table = {"Conv": conv, "ConvTranspose": conv_transpose}
