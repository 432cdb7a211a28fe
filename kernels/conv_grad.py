"""Conv2DBackpropInput: the plan. At stride 1 it is a convolution of ``out_backprop`` with the filter turned around and
transposed, run by the convolution kernel; at other strides a transposed convolution."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ascend_sim.isa.layout import ceil_div
from ascend_sim.ops.registry import NoKernel, kernel
from ascend_sim.ops.schema import ITEM_BITS, OpCall

from ._conv_tiling import ConvProblem
from ._layouts import around, rewire
from .conv2d import conv_format, conv_launch, filter_dims, spatial
from .conv_transpose import plan_conv_transpose

if TYPE_CHECKING:
    from ascend_sim import asc
    from ascend_sim.soc import Soc


@kernel("Conv2DBackpropInput", "Conv2DBackpropInputD")
def plan_conv_backprop_input(call: OpCall, soc: Soc) -> list[asc.Launch]:
    """Launches of the gradient of a convolution's input. Raises `NoKernel` for groups and for types the cube of this
    chip does not take."""
    at = 1 if call.type == "Conv2DBackpropInput" else 0
    f, dy = call.inputs[at], call.inputs[at + 1]
    assert f is not None and dy is not None
    types = ("float16", "bfloat16", "float32") if soc.cube.fp32_cycles_per_fractal else ("float16",)
    if dy.dtype != f.dtype or dy.dtype not in types:
        raise NoKernel(f"gradient of {dy.dtype} x {f.dtype}: the kernel takes {', '.join(types)}")
    if int(call.attr("groups", 1)) != 1:
        raise NoKernel("gradient of a grouped convolution's input")
    inner = replace(call, type="Conv2DTransposeD", inputs=(dy, f))
    if spatial(tuple(call.attr("strides", (1, 1, 1, 1))), conv_format(inner)) == (1, 1):
        launches = around(inner, soc, {0: "NC1HWC0", 1: "FRACTAL_Z"}, "NC1HWC0", _stride_one)
    else:
        launches = plan_conv_transpose(inner, soc)
    return [rewire(launch, {("in", 0): ("in", at + 1), ("in", 1): ("in", at)}) for launch in launches]


def _stride_one(call: OpCall, soc: Soc) -> list[asc.Launch]:
    dy, f, dx = call.inputs[0], call.inputs[1], call.outputs[0]
    assert dy is not None and f is not None
    fmt = conv_format(call)
    _, cin, kh, kw = filter_dims(call)
    dh, dw = spatial(tuple(call.attr("dilations", (1, 1, 1, 1))), fmt)
    top, bottom, left, right = call.attr("pads", (0, 0, 0, 0))
    far, wide = dh * (kh - 1), dw * (kw - 1)
    pads = (wide - left, wide - right, far - top, far - bottom)
    if min(pads) < 0:
        raise NoKernel(f"pads {(top, bottom, left, right)} exceed the filter {kh} x {kw}")
    (h, w), (ho, wo) = spatial(dy.logical_shape, fmt), spatial(dx.logical_shape, fmt)
    problem = ConvProblem(
        dy.logical_shape[fmt.index("N")], 1, dy.shape[1], h, w, ceil_div(cin, 16), ho, wo, kh, kw, 1, 1, dh, dw, pads,
        ITEM_BITS[dy.dtype] // 8, backward=True, w_rows=f.shape[1] * 16, w_blocks=f.shape[0] // (kh * kw),
    )  # fmt: skip
    return [conv_launch(call, soc, problem, cin)]
