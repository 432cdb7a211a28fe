"""Gradients of a convolution: the plans of Conv2DBackpropInput and Conv2DBackpropFilter.

The gradient of the input is at stride 1 a convolution of ``out_backprop`` with the filter turned around and transposed,
run by the convolution kernel; at other strides a transposed convolution. The gradient of the filter has a kernel of its
own, and zeros written before it where cores add to its output.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from ascend_sim import asc
from ascend_sim.isa.layout import ceil_div
from ascend_sim.ops.registry import NoKernel, kernel
from ascend_sim.ops.schema import ITEM_BITS, OpCall

from ._clear import clear_launch
from ._conv_tiling import ConvProblem
from ._cube import cube_buffers, cube_code, cube_kind, load3d_v2
from ._exit import plan_exit
from ._filter_grad import filter_grad_kernel
from ._filter_grad_walk import FilterPlan, signature, tile_filter
from ._layouts import around, rewire
from .conv2d import conv_format, conv_launch, filter_dims, spatial
from .conv_transpose import plan_conv_transpose

if TYPE_CHECKING:
    from ascend_sim.soc import Soc


def _check(call: OpCall, soc: Soc, *dtypes: str) -> None:
    types = ("float16", "bfloat16", "float32") if soc.cube.fp32_cycles_per_fractal else ("float16",)
    if len(set(dtypes)) > 1 or dtypes[0] not in types:
        raise NoKernel(f"gradient of {' x '.join(dtypes)}: the kernel takes {', '.join(types)}")
    if int(call.attr("groups", 1)) != 1:
        raise NoKernel("gradient of a grouped convolution")


@kernel("Conv2DBackpropInput", "Conv2DBackpropInputD")
def plan_conv_backprop_input(call: OpCall, soc: Soc) -> list[asc.Launch]:
    """Launches of the gradient of a convolution's input. Raises `NoKernel` for groups and for types the cube of this
    chip does not take."""
    at = 1 if call.type == "Conv2DBackpropInput" else 0
    f, dy = call.inputs[at], call.inputs[at + 1]
    assert f is not None and dy is not None
    _check(call, soc, dy.dtype, f.dtype)
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


@kernel("Conv2DBackpropFilter", "Conv2DBackpropFilterD")
def plan_conv_backprop_filter(call: OpCall, soc: Soc) -> list[asc.Launch]:
    """Launches of the gradient of a filter, FRACTAL_Z in the input type or float32. Raises `NoKernel` for groups and
    for types the cube of this chip does not take."""
    at = 2 if call.type == "Conv2DBackpropFilter" else 1
    x, dy, dw = call.inputs[0], call.inputs[at], call.outputs[0]
    assert x is not None and dy is not None
    _check(call, soc, x.dtype, dy.dtype)
    if dw.dtype not in (x.dtype, "float32"):
        raise NoKernel(f"gradient in {dw.dtype} of a convolution of {x.dtype}")
    inner = replace(call, type="Conv2DBackpropFilterD", inputs=(x, dy))
    launches = around(inner, soc, {0: "NC1HWC0", 1: "NC1HWC0"}, "FRACTAL_Z", _filter)
    return [rewire(launch, {("in", 1): ("in", at)}) for launch in launches]


def _filter(call: OpCall, soc: Soc) -> list[asc.Launch]:
    x, dy, dw = call.inputs[0], call.inputs[1], call.outputs[0]
    assert x is not None and dy is not None
    fmt, item = conv_format(call), ITEM_BITS[x.dtype] // 8
    c0 = 32 // item
    if x.shape[-1] != c0 or dy.shape[-1] != c0:
        raise NoKernel(f"blocks of {x.shape[-1]} and {dy.shape[-1]} channels of {x.dtype}; the cube takes {c0}")
    cout, _, kh, kw = dw.logical_shape
    sh, sw = spatial(tuple(call.attr("strides", (1, 1, 1, 1))), fmt)
    dh, dw_ = spatial(tuple(call.attr("dilations", (1, 1, 1, 1))), fmt)
    top, bottom, left, right = call.attr("pads", (0, 0, 0, 0))
    (h, w), (ho, wo) = spatial(x.logical_shape, fmt), spatial(dy.logical_shape, fmt)
    conv = ConvProblem(
        x.logical_shape[fmt.index("N")], 1, x.shape[1], h, w, ceil_div(cout, 16), ho, wo, kh, kw, sh, sw, dh, dw_,
        (left, right, top, bottom), item,
    )  # fmt: skip
    if dw.shape[:3] != (conv.k1, conv.n1, 16) or dw.shape[3] not in (c0, 16):
        raise NoKernel(f"gradient stored as {dw.shape}; expected {(conv.k1, conv.n1, 16, c0)}")
    atomic = dw.dtype == "float32" and soc.chip.arch != "m100"  # which has no adding writes
    leave = plan_exit(soc, "float32", dw.dtype, (), 0, None, 16, rows=False)
    split = dw.shape[3] != 16
    if split and leave.kind != "fixpipe":
        raise NoKernel(f"gradient in blocks of {dw.shape[3]} channels on a chip without a fixpipe")
    tiling = tile_filter(conv, cube_buffers(soc), atomic)
    plan = FilterPlan(
        conv, tiling, replace(leave, split=split), x.dtype, ("x", "dy", "y"), dy.shape[1], load3d_v2(soc),
        x.dtype == "float32" and bool(call.attr("enable_hf32", True)), dw.shape[3],
    )  # fmt: skip
    launch = asc.Launch(
        filter_grad_kernel, block_dim=prod(tiling.split), kind=cube_kind(soc),
        args=[("in", 0), ("in", 1), ("out", 0)],
        gm=[("x", x.dtype, x.nbytes, "in"), ("dy", dy.dtype, dy.nbytes, "in"), ("y", dw.dtype, dw.nbytes, "out")],
        consts={"plan": plan}, soc=soc, signature=lambda block: signature(plan, block), code=cube_code(),
    )  # fmt: skip
    # What no core writes, or what several add to, starts from zero.
    cleared = plan.atomic or dy.shape[1] * c0 < conv.n1 * 16
    return [clear_launch(dw.nbytes, ("out", 0), soc), launch] if cleared else [launch]
