"""Geometry of sliding windows: ONNX's attributes and auto_pad as explicit numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ascend_sim.graph.onnx_import.context import Importer, OnnxNode

FORMATS = {2: "NCHW", 3: "NCDHW"}


def same_pads(size: int, kernel: int, stride: int, dilation: int, lower: bool) -> tuple[int, int]:
    """Padding (before, after) that makes the output ceil(size / stride) long."""
    span = dilation * (kernel - 1) + 1
    total = max((-(-size // stride) - 1) * stride + span - size, 0)
    small, large = total // 2, total - total // 2
    return (large, small) if lower else (small, large)


@dataclass(frozen=True)
class Geometry:
    """Per spatial axis: kernel, strides, dilations; ``pads`` are pairs (before, after) in a row."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]

    @property
    def axes(self) -> int:
        return len(self.kernel)

    def lifted(self) -> Geometry:
        """A 1-D window as a 2-D one of height 1; others unchanged."""
        if self.axes != 1:
            return self
        return Geometry((1, *self.kernel), (1, *self.strides), (1, *self.dilations), (0, 0, *self.pads))


def numbers(imp: Importer, node: OnnxNode, name: str, count: int, default: int) -> tuple[int, ...]:
    """An attribute with one number per spatial axis."""
    given = tuple(int(v) for v in node.attr(name, [default] * count))
    if len(given) != count:
        raise imp.error(f"{name} {list(given)} should hold {count} numbers")
    return given


def geometry(imp: Importer, node: OnnxNode, size: Sequence[int], kernel: Sequence[int]) -> Geometry:
    """The window of a convolution or pool over a spatial ``size``."""
    axes = len(size)
    if len(kernel) != axes or not 1 <= axes <= 3:
        raise imp.error(f"a window of {list(kernel)} over {axes} spatial axes; 1 to 3 are supported")
    strides, dilations = numbers(imp, node, "strides", axes, 1), numbers(imp, node, "dilations", axes, 1)
    auto = node.attr("auto_pad", "NOTSET")
    pads = [0] * (2 * axes)
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        ends = (
            same_pads(n, k, s, d, auto == "SAME_LOWER")
            for n, k, s, d in zip(size, kernel, strides, dilations, strict=True)
        )
        pads = [v for pair in ends for v in pair]
    elif auto in ("NOTSET", ""):
        given = [int(v) for v in node.attr("pads", pads)]
        if len(given) != 2 * axes:
            raise imp.error(f"pads {given} should hold {2 * axes} numbers")
        pads = [v for pair in zip(given[:axes], given[axes:], strict=True) for v in pair]
    elif auto != "VALID":
        raise imp.error(f"auto_pad {auto!r} is not NOTSET, SAME_UPPER, SAME_LOWER or VALID")
    return Geometry(tuple(int(k) for k in kernel), strides, dilations, tuple(pads))
