"""Padding of sliding windows: ONNX's auto_pad as explicit numbers."""

from __future__ import annotations

from collections.abc import Sequence

from ascend_sim.graph.onnx_import.context import Importer, OnnxNode


def same_pads(size: int, kernel: int, stride: int, dilation: int, lower: bool) -> tuple[int, int]:
    """Padding (before, after) that makes the output ceil(size / stride) long."""
    span = dilation * (kernel - 1) + 1
    total = max((-(-size // stride) - 1) * stride + span - size, 0)
    small, large = total // 2, total - total // 2
    return (large, small) if lower else (small, large)


def explicit_pads(
    imp: Importer,
    node: OnnxNode,
    size: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    spatial: int,
) -> tuple[int, int, int, int]:
    """(top, left, bottom, right) of a 2-D window; for 1-D sources the height has none."""
    auto = node.attr("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        ends = [
            same_pads(n, k, s, d, auto == "SAME_LOWER")
            for n, k, s, d in zip(size, kernel, strides, dilations, strict=True)
        ]
        return ends[0][0], ends[1][0], ends[0][1], ends[1][1]
    if auto == "VALID":
        return 0, 0, 0, 0
    if auto != "NOTSET":
        raise imp.error(f"auto_pad {auto!r} is not NOTSET, SAME_UPPER, SAME_LOWER or VALID")
    pads = [int(v) for v in node.attr("pads", [0] * (2 * spatial))]
    if len(pads) != 2 * spatial:
        raise imp.error(f"pads {pads} should hold {2 * spatial} numbers")
    if spatial == 1:
        return 0, pads[0], 0, pads[1]
    return pads[0], pads[1], pads[2], pads[3]
