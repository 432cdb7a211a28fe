"""Operators that move elements: Concat, Split, Slice, Transpose, Gather, Pad, Tile, Expand, depth and space."""

from __future__ import annotations

from typing import Any

import numpy as np

from ascend_sim.graph.onnx_import.context import Array, Importer, OnnxNode, Table


def concat(imp: Importer, node: OnnxNode) -> None:
    inputs = [n for n in node.inputs if n]
    if len(inputs) == 1:
        imp.alias(node.outputs[0], inputs[0])
        return
    axis = imp.axis(int(node.attr("axis")), imp.rank(inputs[0]))
    kept = [n for n in inputs if imp.shape(n)[axis] != 0] or inputs[:1]
    imp.emit("ConcatD", kept, {"concat_dim": axis, "N": len(kept)}, node.outputs)


def split(imp: Importer, node: OnnxNode) -> None:
    """Split -> SplitD for equal parts, SplitVD otherwise."""
    x = node.inputs[0]
    axis = imp.axis(int(node.attr("axis", 0)), imp.rank(x))
    total, count = imp.shape(x)[axis], len(node.outputs)
    if imp.opset >= 13:
        sizes = imp.ints(node.input(1), "split") if node.input(1) else None
    else:
        given = node.attr("split")
        sizes = None if given is None else [int(v) for v in given]
    if sizes is None:
        part = -(-total // count)
        sizes = [min(part, total - i * part) for i in range(count)]
    if sum(sizes) != total or len(sizes) != count:
        raise imp.error(f"split {sizes} does not divide axis {axis} of length {total} into {count} parts")
    names = [n or imp.fresh("split") for n in node.outputs]
    if count == 1:
        imp.alias(names[0], x)
    elif len(set(sizes)) == 1:
        imp.emit("SplitD", [x], {"split_dim": axis, "num_split": count}, names)
    else:
        imp.emit("SplitVD", [x], {"size_splits": sizes, "split_dim": axis, "num_split": count}, names)


def slice_(imp: Importer, node: OnnxNode) -> None:
    """Slice -> StridedSliceD on all axes."""
    x = node.inputs[0]
    shape = imp.shape(x)
    if imp.opset >= 10:
        starts, ends = imp.ints(node.inputs[1], "starts"), imp.ints(node.inputs[2], "ends")
        axes = imp.ints(node.input(3), "axes") if node.input(3) else list(range(len(starts)))
        steps = imp.ints(node.input(4), "steps") if node.input(4) else [1] * len(starts)
    else:
        starts, ends = list(node.attr("starts")), list(node.attr("ends"))
        axes = list(node.attr("axes", range(len(starts))))
        steps = [1] * len(starts)
    begin, end, strides = [0] * len(shape), list(shape), [1] * len(shape)
    for start, stop, given, step in zip(starts, ends, axes, steps, strict=True):
        axis = imp.axis(given, len(shape), "axes")
        if step == 0:
            raise imp.error("a step is 0")
        begin[axis], end[axis], step_ = slice(start, stop, step).indices(shape[axis])
        strides[axis] = step_
    if begin == [0] * len(shape) and end == list(shape) and all(s == 1 for s in strides):
        imp.alias(node.outputs[0], x)
        return
    masks: dict[str, int] = {}
    for axis, (stop, step) in enumerate(zip(end, strides, strict=True)):
        if step < 0 and stop < 0:  # down to and including element 0
            masks["end_mask"] = masks.get("end_mask", 0) | 1 << axis
            end[axis] = 0
    imp.emit("StridedSliceD", [x], {"begin": begin, "end": end, "strides": strides, **masks}, node.outputs)


def transpose(imp: Importer, node: OnnxNode) -> None:
    x = node.inputs[0]
    perm = [int(v) for v in node.attr("perm", range(imp.rank(x) - 1, -1, -1))]
    if perm == list(range(len(perm))):
        imp.alias(node.outputs[0], x)
        return
    imp.emit("TransposeD", [x], {"perm": perm}, node.outputs)


def gather(imp: Importer, node: OnnxNode) -> None:
    x, indices = node.inputs[:2]
    axis = imp.axis(int(node.attr("axis", 0)), imp.rank(x))
    value = imp.constant(indices)
    if value is not None and value.size:
        size, low, high = imp.shape(x)[axis], int(value.min()), int(value.max())
        if low < -size or high >= size:
            raise imp.error(f"index {low if low < -size else high} is out of range for {size} entries on axis {axis}")
    if value is not None and bool(np.any(value < 0)):
        indices = imp.const(np.where(value < 0, value + imp.shape(x)[axis], value), base="indices")
    imp.emit("GatherV2", [x, indices, imp.const(axis, "int64")], {"batch_dims": 0}, node.outputs)


def pad(imp: Importer, node: OnnxNode) -> None:
    """Pad -> PadV3 with paddings as pairs per axis."""
    x = node.inputs[0]
    rank = imp.rank(x)
    mode = node.attr("mode", "constant")
    if imp.opset >= 11:
        flat = imp.ints(node.inputs[1], "pads")
        value = imp.constant(node.input(2))
        fill = 0.0 if value is None else value.reshape(-1)[0]
        moving = node.input(2) if value is None else ""
        axes = imp.ints(node.input(3), "axes") if node.input(3) else list(range(rank))
    else:
        flat = [int(v) for v in (node.attr("pads") or node.attr("paddings"))]
        fill, axes, moving = float(node.attr("value", 0.0)), list(range(rank)), ""
    half = len(axes)
    if len(flat) != 2 * half:
        raise imp.error(f"pads {flat} should hold {2 * half} numbers")
    pairs = np.zeros((rank, 2), np.int64)
    for i, axis in enumerate(axes):
        pairs[imp.axis(axis, rank, "axes")] = flat[i], flat[half + i]
    if not pairs.any():
        imp.alias(node.outputs[0], x)
        return
    if (pairs < 0).any():  # negative padding crops
        shape = imp.shape(x)
        begin = [int(max(-before, 0)) for before, _ in pairs]
        end = [int(n - max(-after, 0)) for n, (_, after) in zip(shape, pairs, strict=True)]
        x = imp.emit("StridedSliceD", [x], {"begin": begin, "end": end, "strides": [1] * rank})[0]
        pairs = np.maximum(pairs, 0)
        if not pairs.any():
            imp.alias(node.outputs[0], x)
            return
    if mode != "constant":
        _repeat_edges(imp, node, x, pairs, mode)
        return
    inputs = [x, imp.const(pairs), moving or imp.const(fill, imp.dtype(x))]
    imp.emit("PadV3", inputs, {"mode": mode, "paddings_contiguous": True}, node.outputs)


def _repeat_edges(imp: Importer, node: OnnxNode, x: str, pairs: Array, mode: str) -> None:
    """Padding with the tensor's own values (reflect, edge, wrap): one gather along every padded axis."""
    if mode not in ("reflect", "edge", "wrap"):
        raise imp.error(f"mode {mode!r} is not constant, reflect, edge or wrap")
    padded = [axis for axis, pair in enumerate(pairs.tolist()) if any(pair)]
    for axis in padded:
        size = imp.shape(x)[axis]
        if size == 0 or (mode == "reflect" and size == 1):
            raise imp.error(f"axis {axis} of length {size} has nothing to {mode}")
        how: Any = mode
        places = np.pad(np.arange(size), pairs[axis], how)
        names = [x, imp.const(places, "int64"), imp.const(axis, "int64")]
        x = imp.emit("GatherV2", names, {"batch_dims": 0}, node.outputs if axis == padded[-1] else None)[0]


def tile(imp: Importer, node: OnnxNode) -> None:
    imp.ints(node.inputs[1], "repeats")
    imp.emit("Tile", node.inputs[:2], {}, node.outputs)


def expand(imp: Importer, node: OnnxNode) -> None:
    """Expand: broadcasting both ways -> BroadcastTo."""
    x = node.inputs[0]
    target = list(np.broadcast_shapes(imp.shape(x), tuple(imp.ints(node.inputs[1], "shape"))))
    if target == list(imp.shape(x)):
        imp.alias(node.outputs[0], x)
        return
    imp.emit("BroadcastTo", [x, imp.const(target, "int64")], {}, node.outputs)


def depth_to_space(imp: Importer, node: OnnxNode) -> None:
    """DepthToSpace as Reshape, Transpose, Reshape."""
    x, block = node.inputs[0], int(node.attr("blocksize"))
    n, c, h, w = imp.shape(x)
    if c % (block * block):
        raise imp.error(f"{c} channels are not divisible by blocksize {block} squared")
    if node.attr("mode", "DCR") == "DCR":
        split_shape, perm = [n, block, block, c // block**2, h, w], [0, 3, 4, 1, 5, 2]
    else:
        split_shape, perm = [n, c // block**2, block, block, h, w], [0, 1, 4, 2, 5, 3]
    y = imp.emit("Reshape", [x, imp.const(split_shape, "int64")])[0]
    y = imp.emit("TransposeD", [y], {"perm": perm})[0]
    imp.emit("Reshape", [y, imp.const([n, c // block**2, h * block, w * block], "int64")], {}, node.outputs)


def space_to_depth(imp: Importer, node: OnnxNode) -> None:
    x, block = node.inputs[0], int(node.attr("blocksize"))
    n, c, h, w = imp.shape(x)
    if h % block or w % block:
        raise imp.error(f"height {h} and width {w} are not divisible by blocksize {block}")
    y = imp.emit("Reshape", [x, imp.const([n, c, h // block, block, w // block, block], "int64")])[0]
    perm = [0, 3, 5, 1, 2, 4] if node.attr("mode", "DCR") == "DCR" else [0, 1, 3, 5, 2, 4]
    y = imp.emit("TransposeD", [y], {"perm": perm})[0]
    imp.emit("Reshape", [y, imp.const([n, c * block**2, h // block, w // block], "int64")], {}, node.outputs)


TABLE: Table = {
    "Concat": concat,
    "Split": split,
    "Slice": slice_,
    "Transpose": transpose,
    "Gather": gather,
    "Pad": pad,
    "Tile": tile,
    "Expand": expand,
    "DepthToSpace": depth_to_space,
    "SpaceToDepth": space_to_depth,
}
