"""Conv2DTransposeD: the plan, from an operator call to launches of `deconv_kernel`."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

from ascend_sim import asc
from ascend_sim.isa.layout import ceil_div
from ascend_sim.ops.registry import NoKernel, kernel

from ._arguments import conv_arguments
from ._cube import FRACTAL, cube_buffers, cube_code, cube_kind, load3d_v2
from ._deconv import deconv_kernel
from ._deconv_walk import DeconvPlan, DeconvProblem, DeconvTiling, signature
from ._exit import plan_exit
from ._layouts import around
from ._matmul_tiling import BIAS_BYTES, CubeBuffers
from ._mix import work_bytes
from .conv2d import conv_format, filter_dims, spatial

if TYPE_CHECKING:
    from ascend_sim.ops.schema import OpCall
    from ascend_sim.soc import Soc


@lru_cache(maxsize=1024)
def tile_deconv(p: DeconvProblem, b: CubeBuffers) -> DeconvTiling:
    """Cores by least work of the busiest one (images x q rows x output blocks, rows of 16 positions); strips and
    weights in a quarter of L1 per buffer. Raises NoKernel when the weights of one output block do not fit."""
    q0, q1 = p.rows
    width = p.columns[1] - p.columns[0]
    best: tuple[int, tuple[int, int, int]] | None = None
    for i in range(1, min(p.batch, b.cores) + 1):
        for r in range(1, min(q1 - q0, b.cores // i) + 1):
            for n in range(1, min(p.n1, b.cores // (i * r)) + 1):
                rows = ceil_div(q1 - q0, r)
                work = ceil_div(p.batch, i) * ceil_div(rows * width, 16) * ceil_div(p.n1, n)
                if best is None or work < best[0]:
                    best = work, (i, r, n)
    assert best is not None
    split = best[1]
    rows, n1 = ceil_div(q1 - q0, split[1]), ceil_div(p.n1, split[2])
    per_block = p.kh * p.kw * p.c1 * FRACTAL
    room = b.l1 - 2 * BIAS_BYTES
    tile_n = min(n1, 8, b.l1 // 4 // per_block)
    w_slots = 2
    if tile_n == 0:
        tile_n, w_slots = 1, 1
    if per_block > b.l1 // 2:
        raise NoKernel(f"{per_block} bytes of weights for 16 output channels do not fit L1")
    halo = p.taps((0, 0))[0] - 1
    strip = rows
    row_bytes = p.w * 32 * p.c1
    while strip > 1 and 2 * (strip + halo) * row_bytes > room - w_slots * tile_n * per_block:
        strip = ceil_div(strip, 2)
    a_bytes = min(strip + halo, p.h) * row_bytes
    if 2 * a_bytes + w_slots * tile_n * per_block > room:
        raise NoKernel(f"strips of {a_bytes} bytes do not fit L1")
    m1 = ceil_div((strip + 1) * (width + p.kw), 16)
    top = min(b.l0c // 2 // 1024 // tile_n, b.l0a // 2 // FRACTAL, 32)
    tile_m = ceil_div(m1, ceil_div(m1, top))
    k1 = p.c1 * ceil_div(p.kh, p.sh) * ceil_div(p.kw, p.sw)
    step_k = min(b.l0a // 2 // FRACTAL // tile_m, b.l0b // 2 // FRACTAL // tile_n, k1)
    return DeconvTiling(split, strip, tile_n, tile_m, step_k, a_bytes, tile_n * per_block, w_slots)


@kernel("Conv2DTransposeD", "Conv2DTranspose")
def plan_conv_transpose(call: OpCall, soc: Soc) -> list[asc.Launch]:
    """Launches of a transposed convolution. Raises `NoKernel` for groups, dilation, other types than float16, and
    filters smaller than the stride."""
    if call.type == "Conv2DTranspose":
        raise NoKernel("the output size is an input tensor")
    x, f = call.inputs[0], call.inputs[1]
    assert x is not None and f is not None
    fmt = conv_format(call)
    if x.dtype != "float16" or f.dtype != "float16":
        raise NoKernel(f"transposed convolution of {x.dtype} x {f.dtype}: the kernel takes float16")
    if int(call.attr("groups", 1)) != 1 or spatial(tuple(call.attr("dilations", (1, 1, 1, 1))), fmt) != (1, 1):
        raise NoKernel("transposed convolution with groups or dilation")
    return around(call, soc, {0: "NC1HWC0", 1: "FRACTAL_Z"}, "NC1HWC0", _direct)


def _direct(call: OpCall, soc: Soc) -> list[asc.Launch]:
    x, f, y = call.inputs[0], call.inputs[1], call.outputs[0]
    assert x is not None and f is not None
    fmt = conv_format(call)
    cin, cout, kh, kw = filter_dims(call)
    sh, sw = spatial(tuple(call.attr("strides", (1, 1, 1, 1))), fmt)
    if kh < sh or kw < sw:
        raise NoKernel(f"filter {kh} x {kw} leaves gaps at stride {sh} x {sw}")
    top, _, left, _ = call.attr("pads", (0, 0, 0, 0))
    size = x.logical_shape
    h, w = spatial(size, fmt)
    ho, wo = spatial(y.logical_shape, fmt)
    problem = DeconvProblem(
        size[fmt.index("N")], ceil_div(cin, 16), h, w, ceil_div(cout, 16), ho, wo, kh, kw, sh, sw, top, left
    )
    steps = tuple(call.attr("epilogue", ()))
    operands = conv_arguments(call)
    bias = call.inputs[2] if len(call.inputs) > 2 else None
    tiling = tile_deconv(problem, cube_buffers(soc))
    columns = ceil_div(problem.n1, tiling.split[2]) * 16
    leave = plan_exit(
        soc, "float32", y.dtype, steps, operands.roles.count("extra"), None if bias is None else bias.dtype, columns,
        rows=False, scattered=True,
    )  # fmt: skip
    blocks = prod(tiling.split)
    kind = cube_kind(soc)
    if leave.kind == "mix":
        kind = "MIX"
        operands = operands.with_workspace(leave.middle, work_bytes(leave, tiling.tile_m * tiling.tile_n * 256, blocks))
    plan = DeconvPlan(problem, tiling, leave, x.dtype, operands.roles, load3d_v2(soc), cout)
    return [
        asc.Launch(
            deconv_kernel, block_dim=blocks, kind=kind, args=operands.args, gm=operands.gm, consts={"plan": plan},
            soc=soc, signature=lambda block: signature(plan, block), code=cube_code(kind),
        )
    ]  # fmt: skip
