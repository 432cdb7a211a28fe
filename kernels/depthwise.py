"""DepthwiseConv2D: a grouped convolution whose groups of 16 channels share diagonal fractals of weights.

The cube multiplies each 16 pixel x 16 channel fractal of a filter tap with a diagonal 16 x 16 fractal. Values run as
a grouped convolution with one input block and ``multiplier`` output blocks per group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ascend_sim.kernels._layouts import around
from ascend_sim.kernels.conv2d import conv_format, conv_launch, conv_problem, merged_groups
from ascend_sim.ops.registry import NoKernel, kernel
from ascend_sim.ops.shapes import format_of

if TYPE_CHECKING:
    from ascend_sim import asc
    from ascend_sim.ops.schema import OpCall
    from ascend_sim.soc import Soc


def filter_dims(call: OpCall) -> tuple[int, int, int]:
    """(output channels per input channel, Kh, Kw) of the filter: [C * m, 1, Kh, Kw], or [Kh, Kw, C, m] for HWCN."""
    x, f = call.inputs[0], call.inputs[1]
    assert x is not None and f is not None
    shape = f.logical_shape
    channels = x.logical_shape[conv_format(call).index("C")]
    if format_of(f).endswith("CN"):
        return shape[3], shape[0], shape[1]
    if shape[1] != 1 or shape[0] % channels:
        raise NoKernel(f"depthwise filter {shape} for {channels} channels")
    return shape[0] // channels, shape[2], shape[3]


@kernel("DepthwiseConv2D")
def plan_depthwise(call: OpCall, soc: Soc) -> list[asc.Launch]:
    """Launches of a DepthwiseConv2D call; see `ascend_sim.kernels.conv2d.plan_conv2d`."""
    x, f = call.inputs[0], call.inputs[1]
    assert x is not None and f is not None
    if x.dtype != "float16" or f.dtype != "float16":
        raise NoKernel(f"DepthwiseConv2D of {x.dtype} x {f.dtype}: the kernel takes float16")
    multiplier, kh, kw = filter_dims(call)
    channels = x.logical_shape[conv_format(call).index("C")]

    def direct(inner: OpCall, chip: Soc) -> list[asc.Launch]:
        problem = conv_problem(inner, channels, 1, multiplier, (kh, kw))
        return [conv_launch(inner, chip, problem, channels * multiplier)]

    merged = merged_groups(channels, 1, multiplier)
    return around(call, soc, {0: "NC1HWC0", 1: "FRACTAL_Z"}, "NC1HWC0", direct, merged, channels)
