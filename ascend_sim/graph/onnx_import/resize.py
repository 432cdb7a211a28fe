"""Resize and Upsample."""

from __future__ import annotations

import math

from ascend_sim.graph.onnx_import.context import Importer, OnnxNode, Table


def _sizes(imp: Importer, node: OnnxNode) -> tuple[list[int], list[float]]:
    """Output size and scale of every axis."""
    shape = imp.shape(node.inputs[0])
    rank = len(shape)
    if node.type == "Upsample" or imp.opset == 10:
        scales_in, sizes_in = node.input(1), ""
        given = node.attr("scales") if not scales_in else None
    else:
        scales_in, sizes_in, given = node.input(2), node.input(3), None
    axes = [imp.axis(int(a), rank, "axes") for a in node.attr("axes", range(rank))]
    sizes, scales = list(shape), [1.0] * rank
    if sizes_in and (value := imp.ints(sizes_in, "sizes")):
        policy = node.attr("keep_aspect_ratio_policy", "stretch")
        ratios = [value[i] / shape[axis] for i, axis in enumerate(axes)]
        if policy != "stretch":
            ratio = min(ratios) if policy == "not_larger" else max(ratios)
            ratios = [ratio] * len(axes)
            value = [math.floor(ratio * shape[axis] + 0.5) for axis in axes]
        for i, axis in enumerate(axes):
            sizes[axis], scales[axis] = value[i], ratios[i]
        return sizes, scales
    if given is not None:
        factors = [float(v) for v in given]
    else:
        factors = [float(v) for v in imp.value(scales_in, "scales").reshape(-1)]
    if len(factors) != len(axes):
        raise imp.error(f"{len(factors)} scales for {len(axes)} axes")
    for factor, axis in zip(factors, axes, strict=True):
        sizes[axis], scales[axis] = math.floor(shape[axis] * factor), factor
    return sizes, scales


def resize(imp: Importer, node: OnnxNode) -> None:
    """Resize -> ResizeNearestNeighborV2 or ResizeBilinearV2 where GE's two coordinate rules cover it, else Resize."""
    x = node.inputs[0]
    shape = imp.shape(x)
    sizes, scales = _sizes(imp, node)
    mode = node.attr("mode", "nearest")
    default = "asymmetric" if node.type == "Upsample" or imp.opset < 11 else "half_pixel"
    transform = node.attr("coordinate_transformation_mode", default)
    rounding = node.attr("nearest_mode", "floor" if default == "asymmetric" else "round_prefer_floor")
    if sizes == list(shape) and transform != "tf_crop_and_resize":
        imp.alias(node.outputs[0], x)
        return
    exact = len(shape) == 4 and sizes[:2] == list(shape[:2]) and not node.attr("antialias", 0)
    exact = exact and all(s == n * f for s, n, f in zip(sizes, shape, scales, strict=True))
    target = imp.const(sizes[2:], "int32")
    if exact and mode == "nearest" and transform == "asymmetric" and rounding == "floor":
        imp.emit("ResizeNearestNeighborV2", [x, target], {"align_corners": False, "half_pixel_centers": False},
                 node.outputs)  # fmt: skip
        return
    linear = {"asymmetric": (False, False), "half_pixel": (False, True), "align_corners": (True, False),
              "pytorch_half_pixel": (False, True)}  # fmt: skip
    if exact and mode == "linear" and transform in linear and min(sizes[2:]) > 1:
        align, half = linear[transform]
        imp.emit("ResizeBilinearV2", [x, target], {"align_corners": align, "half_pixel_centers": half}, node.outputs)
        return
    attrs = {
        "coordinate_transformation_mode": transform,
        "cubic_coeff_a": float(node.attr("cubic_coeff_a", -0.75)),
        "exclude_outside": int(node.attr("exclude_outside", 0)),
        "mode": mode,
        "nearest_mode": rounding,
        "antialias": int(node.attr("antialias", 0)),
        "extrapolation_value": float(node.attr("extrapolation_value", 0.0)),
    }
    if transform == "tf_crop_and_resize":
        rank = len(shape)
        axes = [imp.axis(int(a), rank, "axes") for a in node.attr("axes", range(rank))]
        given = [float(v) for v in imp.value(node.input(1), "roi").reshape(-1)]
        first, last = [0.0] * rank, [1.0] * rank
        for i, axis in enumerate(axes):
            first[axis], last[axis] = given[i], given[len(axes) + i]
        attrs["roi"] = (*first, *last)
        attrs["sizes"] = tuple(sizes)
        imp.emit("Resize", [x], attrs, node.outputs)
        return
    if imp.opset > 10 and node.type == "Resize" and node.input(3) and imp.constant(node.input(3)) is not None:
        imp.emit("Resize", [x, "", "", imp.const(sizes, "int64")], attrs, node.outputs)
    else:
        imp.emit("Resize", [x], {**attrs, "scales": tuple(scales)}, node.outputs)


TABLE: Table = {"Resize": resize, "Upsample": resize}
