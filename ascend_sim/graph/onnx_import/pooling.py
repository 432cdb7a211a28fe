"""MaxPool, AveragePool, LpPool over 1 to 3 spatial axes, and the global pools."""

from __future__ import annotations

from typing import Any

from ascend_sim.graph.onnx_import.context import Importer, OnnxNode, Table
from ascend_sim.graph.onnx_import.windows import FORMATS, Geometry, geometry


def _window(imp: Importer, node: OnnxNode, x: str) -> Geometry:
    kernel = node.attr("kernel_shape")
    if kernel is None:
        raise imp.error("it has no kernel_shape")
    return geometry(imp, node, imp.shape(x)[2:], kernel)


def _attributes(node: OnnxNode, window: Geometry) -> dict[str, Any]:
    attrs: dict[str, Any] = {
        "ksize": [1, 1, *window.kernel],
        "strides": [1, 1, *window.strides],
        "padding_mode": "CALCULATED",
        "pads": list(window.pads),
        "global_pooling": False,
        "ceil_mode": bool(node.attr("ceil_mode", 0)),
        "data_format": FORMATS[window.axes],
    }
    if any(d != 1 for d in window.dilations):
        attrs["dilations"] = [1, 1, *window.dilations]
    return attrs


def pool(
    flat: str, volume: str, extra: dict[str, Any], imp: Importer, node: OnnxNode, x: str, outputs: Any = None
) -> str:
    """One pool: operator ``flat`` on images, ``volume`` with three spatial axes."""
    window = _window(imp, node, x)
    attrs = {**_attributes(node, window.lifted()), **extra}
    if window.axes == 1:
        lifted = imp.emit("Unsqueeze", [x], {"axes": [2]})[0]
        return imp.emit("Squeeze", imp.emit(flat, [lifted], attrs), {"axis": [2]}, outputs)[0]
    return imp.emit(flat if window.axes == 2 else volume, [x], attrs, outputs)[0]


def max_pool(imp: Importer, node: OnnxNode) -> None:
    """MaxPool -> MaxPoolV3, MaxPool3D, or MaxPoolWithArgmaxV1 when positions are wanted."""
    if len(node.outputs) < 2 or not node.outputs[1]:
        pool("MaxPoolV3", "MaxPool3D", {}, imp, node, node.inputs[0], node.outputs[:1])
        return
    x = node.inputs[0]
    window = _window(imp, node, x)
    attrs = {**_attributes(node, window), "storage_order": int(node.attr("storage_order", 0))}
    if window.axes != 2:
        raise imp.error("its second output (Indices) exists for images only", code="E16002")
    imp.emit("MaxPoolWithArgmaxV1", [x], attrs, node.outputs)


def average_pool(imp: Importer, node: OnnxNode) -> None:
    """AveragePool -> AvgPoolV2 or AvgPool3D."""
    extra = {"exclusive": not node.attr("count_include_pad", 0)}
    pool("AvgPoolV2", "AvgPool3D", extra, imp, node, node.inputs[0], node.outputs[:1])


def lp_pool(imp: Importer, node: OnnxNode) -> None:
    """LpPool: (sum of |x| ** p over the window) ** (1 / p)."""
    p = float(node.attr("p", 2))
    x = imp.emit("Abs", node.inputs[:1])[0]
    kind = imp.dtype(x)
    x = imp.emit("Square", [x])[0] if p == 2 else imp.emit("Pow", [x, imp.const(p, kind)])[0] if p != 1 else x
    total = {"exclusive": False, "divisor_override": 1}
    if p == 1:
        pool("AvgPoolV2", "AvgPool3D", total, imp, node, x, node.outputs)
        return
    y = pool("AvgPoolV2", "AvgPool3D", total, imp, node, x)
    if p == 2:
        imp.emit("Sqrt", [y], {}, node.outputs)
    else:
        imp.emit("Pow", [y, imp.const(1 / p, kind)], {}, node.outputs)


def global_average_pool(imp: Importer, node: OnnxNode) -> None:
    imp.emit("GlobalAveragePool", node.inputs[:1], {}, node.outputs)


def global_max_pool(imp: Importer, node: OnnxNode) -> None:
    x = node.inputs[0]
    axes = imp.const(list(range(2, imp.rank(x))), "int64")
    imp.emit("ReduceMax", [x, axes], {"keep_dims": True}, node.outputs)


def global_lp_pool(imp: Importer, node: OnnxNode) -> None:
    """GlobalLpPool: the p-norm over all spatial axes."""
    x, p = node.inputs[0], float(node.attr("p", 2))
    axes = imp.const(list(range(2, imp.rank(x))), "int64")
    if p == 2:
        total = imp.emit("ReduceSum", [imp.emit("Square", [x])[0], axes], {"keep_dims": True})[0]
        imp.emit("Sqrt", [total], {}, node.outputs)
        return
    power = imp.emit("Pow", [imp.emit("Abs", [x])[0], imp.const(p, imp.dtype(x))])[0]
    total = imp.emit("ReduceSum", [power, axes], {"keep_dims": True})[0]
    imp.emit("Pow", [total, imp.const(1 / p, imp.dtype(x))], {}, node.outputs)


TABLE: Table = {
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "LpPool": lp_pool,
    "GlobalAveragePool": global_average_pool,
    "GlobalMaxPool": global_max_pool,
    "GlobalLpPool": global_lp_pool,
}
