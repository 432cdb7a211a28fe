"""Detection and sampling: RoiAlign, GridSample, DeformConv, MaxUnpool."""

from __future__ import annotations

import numpy as np

from ascend_sim.graph.onnx_import.context import Importer, OnnxNode, Table


def roi_align(imp: Importer, node: OnnxNode) -> None:
    """RoiAlign -> ROIAlign, whose boxes carry the number of their image in front."""
    x, rois, images = node.inputs[:3]
    default = "half_pixel" if imp.opset >= 16 else "output_half_pixel"
    mode = node.attr("coordinate_transformation_mode", default)
    column = imp.emit("Cast", [images], {"dst_type": imp.dtype(rois)})[0]
    column = imp.emit("Unsqueeze", [column], {"axes": [1]})[0]
    boxes = imp.emit("ConcatD", [column, rois], {"concat_dim": 1, "N": 2})[0]
    attrs = {
        "spatial_scale": float(node.attr("spatial_scale", 1.0)),
        "pooled_height": int(node.attr("output_height", 1)),
        "pooled_width": int(node.attr("output_width", 1)),
        "sample_num": int(node.attr("sampling_ratio", 0)),
        "roi_end_mode": 2 if mode == "half_pixel" else 0,
        "pool_mode": node.attr("mode", "avg"),
    }
    imp.emit("ROIAlign", [x, boxes], attrs, node.outputs)


def grid_sample(imp: Importer, node: OnnxNode) -> None:
    """GridSample -> GridSampler2D for images, GridSampler3D for volumes."""
    modes = {"linear": "bilinear", "cubic": "bicubic"}
    mode = node.attr("mode", "bilinear" if imp.opset < 20 else "linear")
    attrs = {
        "interpolation_mode": modes.get(mode, mode),
        "padding_mode": node.attr("padding_mode", "zeros"),
        "align_corners": bool(node.attr("align_corners", 0)),
    }
    spatial = imp.rank(node.inputs[0]) - 2
    if spatial not in (2, 3):
        raise imp.error(f"its input has {spatial} spatial axes; expected 2 or 3")
    imp.emit(f"GridSampler{spatial}D", node.inputs[:2], attrs, node.outputs)


def deform_conv(imp: Importer, node: OnnxNode) -> None:
    """DeformConv -> DeformableConv2D."""
    x, w, offset = node.inputs[:3]
    if imp.rank(x) != 4:
        raise imp.error(f"its input has {imp.rank(x) - 2} spatial axes; expected 2")
    pads = [int(v) for v in node.attr("pads", [0] * 4)]
    attrs = {
        "strides": [1, 1, *(int(v) for v in node.attr("strides", [1, 1]))],
        "pads": [pads[0], pads[2], pads[1], pads[3]],
        "dilations": [1, 1, *(int(v) for v in node.attr("dilations", [1, 1]))],
        "groups": int(node.attr("group", 1)),
        "deformable_groups": int(node.attr("offset_group", 1)),
        "data_format": "NCHW",
    }
    imp.emit("DeformableConv2D", [x, w, offset, node.input(3), node.input(4)], attrs, node.outputs)


def max_unpool(imp: Importer, node: OnnxNode) -> None:
    """MaxUnpool: values back to the flat positions that MaxPool reported -> ScatterNdUpdate into zeros."""
    x, places = node.inputs[:2]
    size = imp.shape(x)[2:]
    axes = len(size)
    kernel = [int(v) for v in node.attr("kernel_shape")]
    strides = [int(v) for v in node.attr("strides", [1] * axes)]
    pads = [int(v) for v in node.attr("pads", [0] * (2 * axes))]
    natural = [(n - 1) * s + k - pads[i] - pads[axes + i]
               for i, (n, s, k) in enumerate(zip(size, strides, kernel, strict=True))]  # fmt: skip
    inner = [*imp.shape(x)[:2], *natural]  # the positions count in the image without extra padding
    shape = imp.ints(node.input(2), "output_shape") if node.input(2) else inner
    total = int(np.prod(inner))
    zeros = imp.const(np.zeros(total, np.dtype(imp.dtype(x))), base="canvas")
    flat = imp.emit("Reshape", [x, imp.const([-1], "int64")])[0]
    rows = imp.emit("Reshape", [places, imp.const([-1, 1], "int64")])[0]
    image = imp.emit("TensorScatterUpdate", [zeros, rows, flat])[0]
    if shape == inner:
        imp.emit("Reshape", [image, imp.const(inner, "int64")], {}, node.outputs)
        return
    image = imp.emit("Reshape", [image, imp.const(inner, "int64")])[0]
    paddings = np.array([[0, n - m] for n, m in zip(shape, inner, strict=True)], np.int64)
    imp.emit("PadV3", [image, imp.const(paddings)], {"mode": "constant", "paddings_contiguous": True}, node.outputs)


TABLE: Table = {
    "RoiAlign": roi_align,
    "GridSample": grid_sample,
    "DeformConv": deform_conv,
    "MaxUnpool": max_unpool,
}
