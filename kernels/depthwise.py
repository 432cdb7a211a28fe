"""DepthwiseConv2D: a grouped convolution whose groups of 16 channels share diagonal fractals of weights.

The cube multiplies each 16 pixel x 16 channel fractal of a filter tap with a diagonal 16 x 16 fractal. At stride 1,
where load3d is slow, fractals come by plain loads (`ascend_sim.kernels._depthwise`); otherwise the kernel of grouped
convolutions runs with one input block and ``multiplier`` output blocks per group.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ascend_sim import asc
from ascend_sim.isa.layout import ceil_div, merged_groups
from ascend_sim.ops.registry import NoKernel, kernel
from ascend_sim.ops.shapes import format_of

from ._arguments import conv_arguments
from ._cube import cube_buffers, cube_code, cube_kind
from ._depthwise import DepthPlan, DepthProblem, depthwise_kernel, signature, tile_depthwise
from ._exit import plan_exit
from ._layouts import around, rewire
from .conv2d import conv_format, conv_launch, conv_problem, spatial

if TYPE_CHECKING:
    from ascend_sim.ops.schema import OpCall, TensorSpec
    from ascend_sim.soc import Soc

    from ._conv_tiling import ConvProblem


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
        if problem.sh == problem.sw == 1 and multiplier == 1 and not chip.chip.split_cores:
            launch = stride_one(inner, chip, problem, channels)
            if launch is not None:
                return [launch]
        return [conv_launch(inner, chip, problem, channels * multiplier)]

    merged = merged_groups(channels, 1, multiplier)
    return around(call, soc, {0: "NC1HWC0", 1: "FRACTAL_Z"}, "NC1HWC0", direct, merged, channels)


@kernel("DepthwiseConv2DBackpropInput", "DepthwiseConv2DBackpropInputD")
def plan_depthwise_backprop_input(call: OpCall, soc: Soc) -> list[asc.Launch]:
    """Launches of the gradient of the input at stride 1: the depthwise convolution of ``out_backprop`` with the filter
    turned around. Raises `NoKernel` for strides, for several outputs a channel, and on split cores."""
    at = 0 if call.type.endswith("D") else 1
    f, dy = call.inputs[at], call.inputs[at + 1]
    assert f is not None and dy is not None
    inner = replace(call, type="DepthwiseConv2D", inputs=(dy, f))
    fmt = conv_format(inner)
    multiplier, kh, kw = filter_dims(inner)
    channels = dy.logical_shape[fmt.index("C")]
    if dy.dtype != "float16" or f.dtype != "float16" or multiplier != 1 or soc.chip.split_cores:
        raise NoKernel(f"depthwise gradient of {dy.dtype}, {multiplier} outputs a channel, on {soc.name}")
    if spatial(tuple(call.attr("strides", (1, 1, 1, 1))), fmt) != (1, 1):
        raise NoKernel("depthwise gradient at a stride")
    dh, dw = spatial(tuple(call.attr("dilations", (1, 1, 1, 1))), fmt)
    top, bottom, left, right = call.attr("pads", (0, 0, 0, 0))
    far, wide = dh * (kh - 1), dw * (kw - 1)
    pads = (far - top, far - bottom, wide - left, wide - right)
    if min(pads) < 0:
        raise NoKernel(f"pads {(top, bottom, left, right)} exceed the filter {kh} x {kw}")

    def direct(one: OpCall, chip: Soc) -> list[asc.Launch]:
        problem = conv_problem(one, channels, 1, 1, (kh, kw))
        problem = replace(problem, pads=(pads[2], pads[3], pads[0], pads[1]))
        launch = stride_one(one, chip, problem, channels, turned=True)
        if launch is None:
            raise NoKernel("the rows of a core do not fit")
        return [launch]

    merged = merged_groups(channels, 1, 1)
    launches = around(inner, soc, {0: "NC1HWC0", 1: "FRACTAL_Z"}, "NC1HWC0", direct, merged, channels)
    return [rewire(launch, {("in", 0): ("in", at + 1), ("in", 1): ("in", at)}) for launch in launches]


def stride_one(
    call: OpCall, soc: Soc, conv: ConvProblem, channels: int, turned: bool = False
) -> asc.Launch | None:
    """Launch of the plain-load kernel, or None where the rows of a core do not fit."""
    x, f, y = call.inputs[0], call.inputs[1], call.outputs[0]
    assert x is not None and f is not None
    problem = DepthProblem(
        conv.batch, conv.groups, conv.h, conv.w, conv.ho, conv.wo, conv.kh, conv.kw, conv.dh, conv.dw, conv.pads,
        soc.chip.has_fixpipe,
    )  # fmt: skip
    tiling = tile_depthwise(problem, cube_buffers(soc), soc.sync.flag_ids - soc.chip.has_fixpipe)
    if tiling is None:
        return None
    steps = tuple(call.attr("epilogue", ()))
    operands = conv_arguments(call)
    bias = call.inputs[2] if len(call.inputs) > 2 else None
    columns = ceil_div(problem.groups, tiling.split[1]) * 16
    leave = plan_exit(
        soc, "float32", y.dtype, steps, operands.roles.count("extra"), None if bias is None else bias.dtype, columns,
        rows=False,
    )  # fmt: skip
    plan = DepthPlan(problem, tiling, leave, operands.roles, channels, turned=turned)
    return asc.Launch(
        depthwise_kernel, block_dim=tiling.split[0] * tiling.split[1] * tiling.split[2], kind=cube_kind(soc),
        args=operands.args, gm=operands.gm, consts={"plan": plan}, soc=soc,
        signature=lambda block: signature(plan, block), code=cube_code(),
    )  # fmt: skip


def average_launch(x: TensorSpec, y: TensorSpec, soc: Soc, problem: DepthProblem) -> asc.Launch | None:
    """Average pooling as a depthwise convolution whose weights are all one over the window's size, as the stock
    operator with its assist matrix (stored copies of the TBE repository, Apache-2.0). None where it does not fit."""
    tiling = tile_depthwise(problem, cube_buffers(soc), soc.sync.flag_ids - soc.chip.has_fixpipe)
    if tiling is None:
        return None
    tiling = replace(tiling, run=ceil_div(problem.groups, tiling.split[1]))
    leave = plan_exit(soc, "float32", y.dtype, (), 0, None, 16, rows=False)
    plan = DepthPlan(problem, tiling, leave, ("x", "y"), problem.groups * 16, 1.0 / problem.taps)
    return asc.Launch(
        depthwise_kernel, block_dim=tiling.split[0] * tiling.split[1] * tiling.split[2], kind=cube_kind(soc),
        args=(("in", 0), ("out", 0)), gm=[("x", x.dtype, x.nbytes, "in"), ("y", y.dtype, y.nbytes, "out")],
        consts={"plan": plan}, soc=soc, signature=lambda block: signature(plan, block),
    )  # fmt: skip
