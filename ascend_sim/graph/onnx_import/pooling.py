"""MaxPool, AveragePool and the global pools."""

from __future__ import annotations

from ascend_sim.graph.onnx_import.context import Importer, OnnxNode, Table
from ascend_sim.graph.onnx_import.windows import explicit_pads


def _pool(imp: Importer, node: OnnxNode, ir: str, extra: dict[str, object]) -> None:
    x = node.inputs[0]
    spatial = imp.rank(x) - 2
    if spatial not in (1, 2):
        raise imp.error(f"its input has {spatial} spatial axes; 1-D and 2-D pools are supported")
    kernel = [int(v) for v in node.attr("kernel_shape")]
    strides = [int(v) for v in node.attr("strides", [1] * spatial)]
    dilations = [int(v) for v in node.attr("dilations", [1] * spatial)]
    if spatial == 1:
        x = imp.emit("Unsqueeze", [x], {"axes": [2]})[0]
        kernel, strides, dilations = [1, *kernel], [1, *strides], [1, *dilations]
    if any(d != 1 for d in dilations):
        raise imp.error(f"dilations {dilations} are not supported by {ir}", "Use a pool without dilation.", "E16002")
    top, left, bottom, right = explicit_pads(imp, node, imp.shape(x)[2:], kernel, strides, dilations, spatial)
    attrs: dict[str, object] = {
        "ksize": [1, 1, *kernel],
        "strides": [1, 1, *strides],
        "padding_mode": "CALCULATED",
        "pads": [top, bottom, left, right],
        "global_pooling": False,
        "ceil_mode": bool(node.attr("ceil_mode", 0)),
        "data_format": "NCHW",
        **extra,
    }
    if spatial == 2:
        imp.emit(ir, [x], attrs, node.outputs[:1])
    else:
        y = imp.emit(ir, [x], attrs)[0]
        imp.emit("Squeeze", [y], {"axis": [2]}, node.outputs[:1])


def max_pool(imp: Importer, node: OnnxNode) -> None:
    if len(node.outputs) > 1 and node.outputs[1]:
        raise imp.error("its second output (Indices) is not supported", "Remove the MaxUnpool that reads it.", "E16002")
    _pool(imp, node, "MaxPoolV3", {})


def average_pool(imp: Importer, node: OnnxNode) -> None:
    _pool(imp, node, "AvgPoolV2", {"exclusive": not node.attr("count_include_pad", 0)})


def global_average_pool(imp: Importer, node: OnnxNode) -> None:
    imp.emit("GlobalAveragePool", node.inputs[:1], {}, node.outputs)


def global_max_pool(imp: Importer, node: OnnxNode) -> None:
    x = node.inputs[0]
    axes = imp.const(list(range(2, imp.rank(x))), "int64")
    imp.emit("ReduceMax", [x, axes], {"keep_dims": True}, node.outputs)


TABLE: Table = {
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "GlobalAveragePool": global_average_pool,
    "GlobalMaxPool": global_max_pool,
}
