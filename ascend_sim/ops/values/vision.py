"""Detection and image operators: ROIAlign, GridSampler2D, non-maximum suppression, pixel rearrangement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascend_sim.ops.registry import Array
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import ShapeError, const_array, data_format, like, need, optional, rank, text
from ascend_sim.ops.values._define import Specs, define
from ascend_sim.ops.values._numeric import float32, narrow
from ascend_sim.ops.values._window import to_channels_first

# ---- ROIAlign: features [N, C, H, W], rois [K, 5] = (image, x1, y1, x2, y2)


def _infer_roi_align(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x, rois = need(inputs, 0, "features"), need(inputs, 1, "rois")
    shape = rank(x, "features", 4, 4)
    count, width = rank(rois, "rois", 2, 2)
    if width != 5:
        raise ShapeError(f"rois is {text(rois)}; expected [K,5] (image, x1, y1, x2, y2)")
    size = int(attrs.get("pooled_height", 0)), int(attrs.get("pooled_width", 0))
    if min(size) < 1:
        raise ShapeError(f"attributes pooled_height and pooled_width are {size}; expected at least 1")
    return [like(x, (count, shape[1], *size))]


def _corners(image: Array, y: Array, x: Array) -> Array:
    """The four corners of bilinear samples of [C, H, W] at grids y [P], x [Q], each times its weight ->
    [4, C, P, Q]; positions more than one pixel outside give 0."""
    h, w = image.shape[1:]
    outside = ((y < -1) | (y > h))[:, None] | ((x < -1) | (x > w))[None, :]
    y, x = np.clip(y, 0, h - 1), np.clip(x, 0, w - 1)
    y0, x0 = np.floor(y).astype(np.int64), np.floor(x).astype(np.int64)
    y1, x1 = np.minimum(y0 + 1, h - 1), np.minimum(x0 + 1, w - 1)
    ly, lx = (y - y0).astype(np.float32)[:, None], (x - x0).astype(np.float32)[None, :]
    top, bottom = image[:, y0], image[:, y1]
    parts = [top[:, :, x0] * (1 - lx) * (1 - ly), top[:, :, x1] * lx * (1 - ly),
             bottom[:, :, x0] * (1 - lx) * ly, bottom[:, :, x1] * lx * ly]  # fmt: skip
    return np.where(outside, np.float32(0), np.stack(parts))


def _roi_align(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """``roi_end_mode`` 0: corners as given; 1: the far corner one pixel further; 2 and 3: shifted by half a pixel."""
    features, rois = arrays[0], arrays[1]
    assert features is not None and rois is not None
    wide = float32(features)
    scale = float(call.attr("spatial_scale", 1.0))
    mode, samples = int(call.attr("roi_end_mode", 1)), int(call.attr("sample_num", 2))
    height, width = call.outputs[0].logical_shape[2:]
    pool = str(call.attr("pool_mode", "avg"))
    out = np.empty(call.outputs[0].logical_shape, np.float32)
    for k, (image, *corners) in enumerate(rois.astype(np.float64).tolist()):
        x1, y1, x2, y2 = (v * scale for v in corners)
        if mode == 1:
            x2, y2 = (corners[2] + 1) * scale, (corners[3] + 1) * scale
        elif mode >= 2:
            x1, y1, x2, y2 = (v - 0.5 for v in (x1, y1, x2, y2))
        w, h = x2 - x1, y2 - y1
        if mode < 2:
            w, h = max(w, 1.0), max(h, 1.0)
        ny = samples if samples > 0 else max(1, int(np.ceil(h / height)))
        nx = samples if samples > 0 else max(1, int(np.ceil(w / width)))
        ys = y1 + (np.arange(height * ny) + 0.5) * h / (height * ny)
        xs = x1 + (np.arange(width * nx) + 0.5) * w / (width * nx)
        if pool == "max":  # of the four weighted corners of each sample, as onnxruntime has it
            corners_ = _corners(wide[int(image)], ys, xs).reshape(4, -1, height, ny, width, nx)
            out[k] = corners_.max((0, 3, 5))
            continue
        grid = _corners(wide[int(image)], ys, xs).sum(0).reshape(-1, height, ny, width, nx)
        out[k] = grid.mean((2, 4))
    return [narrow(out, call.outputs[0].dtype)]


define("ROIAlign", "vision", "features rois rois_n?", _infer_roi_align, _roi_align)


# ---- GridSampler2D: x [N, C, H, W], grid [N, Ho, Wo, 2] of (x, y) in [-1, 1]


def _infer_grid(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x, grid = need(inputs, 0, "x"), need(inputs, 1, "grid")
    shape, places = rank(x, "x", 4, 4), rank(grid, "grid", 4, 4)
    if places[0] != shape[0] or places[3] != 2:
        raise ShapeError(f"grid is {text(grid)}; expected [{shape[0]},H,W,2] for x {text(x)}")
    for name, allowed in (
        ("interpolation_mode", ("bilinear", "nearest", "bicubic")),
        ("padding_mode", ("zeros", "border", "reflection")),
    ):
        if attrs.get(name, allowed[0]) not in allowed:
            raise ShapeError(f"attribute {name} is {attrs[name]!r}; expected one of {', '.join(allowed)}")
    return [like(x, (*shape[:2], *places[1:3]))]


def _reflect(v: Array, low: float, high: float) -> Array:
    span = high - low
    if span <= 0:
        return np.zeros_like(v)
    away = np.abs(v - low)
    turns = np.floor(away / span)
    rest = away - turns * span
    result: Array = np.where(turns % 2 == 0, rest + low, high - rest)
    return result


def place_on_grid(v: Array, size: int, padding: str, align: bool) -> Array:
    """Grid coordinate in [-1, 1] as a pixel coordinate, after border or reflection padding."""
    v = (v + 1) / 2 * (size - 1) if align else ((v + 1) * size - 1) / 2
    return _inside(v, size, padding, align)


def _inside(v: Array, size: int, padding: str, align: bool) -> Array:
    if padding == "border":
        return np.clip(v, 0, size - 1)
    if padding == "reflection":
        v = _reflect(v, 0, size - 1) if align else _reflect(v, -0.5, size - 0.5)
        return np.clip(v, 0, size - 1)
    return v


def _grid_sampler(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x, grid = arrays[0], arrays[1]
    assert x is not None and grid is not None
    wide, places = float32(x), float32(grid)
    align = bool(call.attr("align_corners", False))
    padding, mode = str(call.attr("padding_mode", "zeros")), str(call.attr("interpolation_mode", "bilinear"))
    n, _, h, w = wide.shape
    free = "zeros" if mode == "bicubic" else padding  # bicubic pads tap by tap
    gx, gy = place_on_grid(places[..., 0], w, free, align), place_on_grid(places[..., 1], h, free, align)
    image = np.arange(n)[:, None, None]

    def taps(ix: Array, iy: Array) -> Array:
        """Values [N, Ho, Wo, C] at integer positions; 0 outside when padding is zeros."""
        if mode == "bicubic":
            ix, iy = (
                np.rint(_inside(v.astype(np.float32), s, padding, align)).astype(np.int64)
                for v, s in ((ix, w), (iy, h))
            )
        ok = (ix >= 0) & (ix < w) & (iy >= 0) & (iy < h)
        value = wide[image, :, np.clip(iy, 0, h - 1), np.clip(ix, 0, w - 1)]
        result: Array = np.where(ok[..., None], value, np.float32(0))
        return result

    if mode == "nearest":
        y = taps(np.rint(gx).astype(np.int64), np.rint(gy).astype(np.int64))
    else:
        x0, y0 = np.floor(gx).astype(np.int64), np.floor(gy).astype(np.int64)
        tx, ty = gx - x0, gy - y0
        if mode == "bilinear":
            wx, wy, steps = [1 - tx, tx], [1 - ty, ty], [0, 1]
        else:
            from ascend_sim.ops.values.resize import cubic_weights

            wx, wy, steps = cubic_weights(tx, -0.75), cubic_weights(ty, -0.75), [-1, 0, 1, 2]
        y = np.zeros((*gx.shape, wide.shape[1]), np.float32)
        for dy, vy in zip(steps, wy, strict=True):
            for dx, vx in zip(steps, wx, strict=True):
                y += taps(x0 + dx, y0 + dy) * (vx * vy)[..., None]
    return [narrow(np.ascontiguousarray(np.moveaxis(y, -1, 1)), call.outputs[0].dtype)]


define("GridSampler2D", "vision", "x grid", _infer_grid, _grid_sampler)


# ---- NonMaxSuppressionV6: boxes [N, B, 4], scores [N, classes, B] -> rows (image, class, box)


def _nms_limits(inputs: Specs) -> tuple[int, float, float]:
    """max_output_size, iou_threshold, score_threshold; constants or absent."""
    out: list[float] = []
    for index, name, default in ((2, "max_output_size", 0), (3, "iou_threshold", 0.0), (4, "score_threshold", -np.inf)):
        spec = optional(inputs, index)
        out.append(default if spec is None or not spec.size else const_array(spec, name).reshape(-1)[0].item())
    return int(out[0]), out[1], out[2]


def _infer_nms(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    """Room for every possible row; how many are used depends on values, the rest are -1."""
    boxes, scores = need(inputs, 0, "boxes"), need(inputs, 1, "scores")
    n, count, four = rank(boxes, "boxes", 3, 3)
    images, classes, other = rank(scores, "scores", 3, 3)
    if four != 4 or (images, other) != (n, count):
        raise ShapeError(f"boxes is {text(boxes)} and scores {text(scores)}; expected [N,B,4] and [N,classes,B]")
    room = min(_nms_limits(inputs)[0], count)
    return [TensorSpec((n * classes * room, 3), "int32")]


def _overlaps(box: Array, others: Array) -> Array:
    """Intersection over union of one box (y1, x1, y2, x2) with others."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    both = np.prod(np.maximum(high - low, 0), axis=1)
    area = np.prod(others[:, 2:] - others[:, :2], axis=1)
    union = np.prod(box[2:] - box[:2]) + area - both
    result: Array = np.where(union > 0, both / np.where(union > 0, union, 1), 0)
    return result


def select_boxes(boxes: Array, scores: Array, limit: int, iou: float, least: float) -> list[int]:
    """Greedy suppression: best score first (ties: lowest index), dropping overlaps above ``iou``."""
    order = [int(i) for i in np.argsort(-scores, kind="stable") if scores[i] > least]
    kept: list[int] = []
    for index in order:
        if len(kept) == limit:
            break
        if not kept or np.max(_overlaps(boxes[index], boxes[kept])) <= iou:
            kept.append(index)
    return kept


def _selected(arrays: Sequence[Array | None], call: OpCall) -> Array:
    """Rows (image, class, box) of the boxes that are kept."""
    boxes, scores = arrays[0], arrays[1]
    assert boxes is not None and scores is not None
    limit, iou, least = _nms_limits(call.inputs)
    wide = boxes.astype(np.float64)
    if call.attr("center_point_box", 0):
        half = wide[..., 2:] / 2
        corners = np.concatenate([wide[..., 1::-1] - half[..., ::-1], wide[..., 1::-1] + half[..., ::-1]], -1)
    else:
        corners = np.concatenate(
            [np.minimum(wide[..., :2], wide[..., 2:]), np.maximum(wide[..., :2], wide[..., 2:])], -1
        )
    rows = [
        (image, label, box)
        for image in range(scores.shape[0])
        for label in range(scores.shape[1])
        for box in select_boxes(corners[image], scores[image, label].astype(np.float64), limit, iou, least)
    ]
    return np.array(rows, np.int32).reshape(-1, 3)


def _nms(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """NonMaxSuppressionV6 fills what is left with -1."""
    rows = _selected(arrays, call)
    out = np.full(call.outputs[0].shape, -1, np.int32)
    out[: len(rows)] = rows
    return [out]


def _nms_rows(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    """NonMaxSuppressionV7 gives the rows there are, at most as many as its spec says."""
    return [_selected(arrays, call)]


for _name, _values in (("NonMaxSuppressionV6", _nms), ("NonMaxSuppressionV7", _nms_rows)):
    define(_name, "aicpu", "boxes scores max_output_size? iou_threshold? score_threshold?", _infer_nms, _values)


# ---- pixels


def _infer_depth_to_space(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    shape = rank(x, "x", 4, 4)
    fmt = data_format(attrs, x, "NHWC")
    n, c, h, w = (shape[fmt.index(letter)] for letter in "NCHW")
    block = int(attrs.get("block_size", 0))
    if block < 1 or c % (block * block):
        raise ShapeError(f"x is {text(x)}; its {c} channels do not divide by block_size={block} squared")
    named = {"N": n, "C": c // block**2, "H": h * block, "W": w * block}
    return [like(x, tuple(named[letter] for letter in fmt))]


def _depth_to_space(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x, spec = arrays[0], call.inputs[0]
    assert x is not None and spec is not None
    fmt = data_format(dict(call.attrs), spec, "NHWC")
    x = to_channels_first(x, fmt)
    n, c, h, w = x.shape
    b = int(call.attr("block_size"))
    if str(call.attr("mode", "DCR")) == "CRD":
        y = x.reshape(n, c // b**2, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    else:
        y = x.reshape(n, b, b, c // b**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    y = y.reshape(n, c // b**2, h * b, w * b)
    return [np.ascontiguousarray(np.moveaxis(y, 1, -1) if fmt.endswith("C") else y)]


define("DepthToSpace", "movement", "x", _infer_depth_to_space, _depth_to_space)


def _infer_space_to_depth(inputs: Specs, attrs: dict[str, Any]) -> list[TensorSpec]:
    x = need(inputs, 0, "x")
    shape = rank(x, "x", 4, 4)
    fmt = data_format(attrs, x, "NHWC")
    n, c, h, w = (shape[fmt.index(letter)] for letter in "NCHW")
    block = int(attrs.get("block_size", 0))
    if block < 1 or h % block or w % block:
        raise ShapeError(f"x is {text(x)}; height and width do not divide by block_size={block}")
    named = {"N": n, "C": c * block**2, "H": h // block, "W": w // block}
    return [like(x, tuple(named[letter] for letter in fmt))]


def _space_to_depth(arrays: Sequence[Array | None], call: OpCall) -> list[Array]:
    x, spec = arrays[0], call.inputs[0]
    assert x is not None and spec is not None
    fmt = data_format(dict(call.attrs), spec, "NHWC")
    x = to_channels_first(x, fmt)
    n, c, h, w = x.shape
    b = int(call.attr("block_size"))
    y = x.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4).reshape(n, c * b * b, h // b, w // b)
    return [np.ascontiguousarray(np.moveaxis(y, 1, -1) if fmt.endswith("C") else y)]


define("SpaceToDepth", "movement", "x", _infer_space_to_depth, _space_to_depth)
