"""Operators that address elements: gathers and scatters by index, one-hot, triangles, reversal."""

from __future__ import annotations

import numpy as np

from ascend_sim.graph.onnx_import.context import Importer, OnnxNode, Table

SCATTERS = {
    "none": "TensorScatterUpdate", "add": "TensorScatterAdd", "max": "TensorScatterMax", "min": "TensorScatterMin",
    "mul": "ScatterNdMul",
}  # fmt: skip


def gather_elements(imp: Importer, node: OnnxNode) -> None:
    imp.emit("GatherElements", node.inputs[:2], {"dim": int(node.attr("axis", 0))}, node.outputs)


def gather_nd(imp: Importer, node: OnnxNode) -> None:
    """GatherND -> GatherNd; known indices are flattened into one row number each: GatherV2."""
    x, places = node.inputs[:2]
    value, shape = imp.constant(places), imp.shape(x)
    if value is not None and value.size and not node.attr("batch_dims", 0):
        lead = shape[: value.shape[-1]]
        if (value < -np.asarray(lead)).any() or (value >= lead).any():
            raise imp.error(f"an index is out of range for shape {list(shape)}")
        rows = np.ravel_multi_index(tuple(np.moveaxis(value % lead, -1, 0)), lead)
        flat = imp.emit("Reshape", [x, imp.const([-1, *shape[len(lead) :]], "int64")])[0]
        names = [flat, imp.const(np.asarray(rows), "int64", "rows"), imp.const(0, "int64")]
        imp.emit("GatherV2", names, {"batch_dims": 0}, node.outputs)
        return
    imp.emit("GatherNd", node.inputs[:2], {"batch_dims": int(node.attr("batch_dims", 0))}, node.outputs)


def scatter_elements(imp: Importer, node: OnnxNode) -> None:
    """ScatterElements, and Scatter as it was called before opset 11."""
    attrs = {"axis": int(node.attr("axis", 0)), "reduction": node.attr("reduction", "none")}
    imp.emit("ScatterElements", node.inputs[:3], attrs, node.outputs)


def scatter_nd(imp: Importer, node: OnnxNode) -> None:
    """ScatterND -> one TensorScatter operator per reduction."""
    how = node.attr("reduction", "none")
    if how not in SCATTERS:
        raise imp.error(f"reduction {how!r} is not one of {', '.join(SCATTERS)}")
    imp.emit(SCATTERS[how], node.inputs[:3], {}, node.outputs)


def tensor_scatter(imp: Importer, node: OnnxNode) -> None:
    """TensorScatter (a key-value cache gets new rows at one place per batch) -> ScatterUpdate along the axis."""
    cache, update = node.inputs[:2]
    rank = imp.rank(cache)
    axis = imp.axis(int(node.attr("axis", -2)), rank)
    batch, length, count = imp.shape(cache)[0], imp.shape(cache)[axis], imp.shape(update)[axis]
    starts = node.input(2) or imp.const(np.zeros(batch, np.int64), base="starts")
    column = [batch, *[1] * (rank - 1)]
    places = imp.emit("Reshape", [starts, imp.const(column, "int64")])[0]
    steps = imp.const(np.arange(count).reshape([-1 if i == axis else 1 for i in range(rank)]), "int64", "steps")
    if imp.dtype(places) != "int64":
        places = imp.emit("Cast", [places], {"dst_type": "int64"})[0]
    places = imp.emit("Add", [places, steps])[0]
    if node.attr("mode", "linear") == "circular":
        places = imp.emit("FloorMod", [places, imp.const(length, "int64")])[0]
    places = imp.emit("BroadcastTo", [places, imp.const(list(imp.shape(update)), "int64")])[0]
    attrs = {"axis": axis, "reduction": "none"}
    imp.emit("ScatterElements", [cache, places, update], attrs, node.outputs)


def one_hot(imp: Importer, node: OnnxNode) -> None:
    """OneHot -> Ascend's OneHot; indices become int64, ``values`` its off and on value."""
    indices, depth, values = node.inputs[:3]
    count = int(np.asarray(imp.value(depth, "depth")).reshape(-1)[0])
    if imp.dtype(indices) not in ("int32", "int64"):
        indices = imp.emit("Cast", [indices], {"dst_type": "int64"})[0]
    off, on = (imp.emit("StridedSliceD", [values], {"begin": [i], "end": [i + 1], "strides": [1]})[0] for i in (0, 1))
    attrs = {"axis": int(node.attr("axis", -1))}
    imp.emit("OneHot", [indices, imp.const(count, "int32"), on, off], attrs, node.outputs)


def trilu(imp: Importer, node: OnnxNode) -> None:
    k = imp.ints(node.input(1), "k")[0] if node.input(1) else 0
    imp.emit("Triu" if node.attr("upper", 1) else "Tril", node.inputs[:1], {"diagonal": k}, node.outputs)


def reverse_sequence(imp: Importer, node: OnnxNode) -> None:
    attrs = {"seq_dim": int(node.attr("time_axis", 0)), "batch_dim": int(node.attr("batch_axis", 1))}
    imp.emit("ReverseSequence", node.inputs[:2], attrs, node.outputs)


def col2im(imp: Importer, node: OnnxNode) -> None:
    """Col2Im: columns of blocks added into an image."""
    image, block = imp.ints(node.inputs[1], "image_shape"), imp.ints(node.inputs[2], "block_shape")
    axes = len(image)
    pads = [int(v) for v in node.attr("pads", [0] * (2 * axes))]
    attrs = {
        "output_size": image,
        "kernel_size": block,
        "dilation": [int(v) for v in node.attr("dilations", [1] * axes)],
        "padding": [v for pair in zip(pads[:axes], pads[axes:], strict=True) for v in pair],
        "stride": [int(v) for v in node.attr("strides", [1] * axes)],
    }
    imp.emit("Col2im", node.inputs[:1], attrs, node.outputs)


TABLE: Table = {
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "Scatter": scatter_elements,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "TensorScatter": tensor_scatter,
    "OneHot": one_hot,
    "Trilu": trilu,
    "ReverseSequence": reverse_sequence,
    "Col2Im": col2im,
}
