"""The first convolution on 8-bit images: preprocessing (AIPP) on the way to L1, four channels packed a pixel (C04)
where the filter is stored so, and max pooling on the way out. Runs on `conv_kernel`."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

from ascend_sim import asc
from ascend_sim.isa.layout import ceil_div
from ascend_sim.ops.registry import NoKernel, kernel
from ascend_sim.ops.schema import OpCall

from ._arguments import conv_arguments
from ._conv import conv_kernel
from ._conv_pool import ROWS
from ._conv_tiling import ConvProblem, ConvTiling, deepen, tile_conv
from ._conv_walk import ConvPlan, Image, Pool, bias_columns
from ._cube import FRACTAL, cube_buffers, cube_code, cube_kind, load3d_v2
from ._exit import plan_exit
from .conv2d import block_signature

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

_PIXEL = {"RGB888_U8": 3, "XRGB8888_U8": 4, "YUV400_U8": 1}
STRIP = 8  # rows of the convolution brought to L1 at once when it is pooled


def image_of(aipp: dict[str, Any], channels: int) -> Image:
    """How pixels become channels. Raises `NoKernel` for what the image load does not do."""
    pixel = _PIXEL.get(aipp["input_format"])
    if pixel is None or aipp["csc_switch"] or aipp["padding"]:
        raise NoKernel(f"AIPP of {aipp['input_format']} with colour conversion or padding")
    order = list(range(pixel))
    if pixel == 4:
        order = order[:3] if aipp["ax_swap_switch"] else order[1:]
    if aipp["rbuv_swap_switch"] and len(order) == 3:
        order.reverse()
    crop = aipp["crop"]
    offset = tuple(float(a) + float(b) for a, b in zip(aipp["mean"], aipp["min_chn"], strict=True))
    return Image(
        aipp["src_image_size_h"], aipp["src_image_size_w"], pixel, aipp["load_start_pos_h"] if crop else 0,
        aipp["load_start_pos_w"] if crop else 0, tuple(order[:channels]), offset[:channels],
        tuple(float(v) for v in aipp["var_reci"][:channels]),
    )  # fmt: skip


@kernel("AippConv2D")
def plan_aipp_conv(call: OpCall, soc: Soc) -> list[asc.Launch]:
    x, f, y = call.inputs[0], call.inputs[1], call.outputs[0]
    assert x is not None and f is not None
    small = bool(call.attr("small_channel"))
    wanted = "FRACTAL_Z_C04" if small else "FRACTAL_Z"
    if f.format != wanted or f.dtype != "float16" or y.format != "NC1HWC0":
        raise NoKernel(f"filter in {f.format} and output in {y.format}; the kernel takes {wanted} and NC1HWC0")
    cout, cin, kh, kw = f.logical_shape
    aipp = dict(call.attr("aipp"))
    image = image_of(aipp, cin)
    h, w = (aipp["crop_size_h"], aipp["crop_size_w"]) if aipp["crop"] else (image.rows, image.columns)
    sh, sw = call.attr("strides")[2:]
    dh, dw = tuple(call.attr("dilations", (1, 1, 1, 1)))[2:]
    top, bottom, left, right = call.attr("pads", (0, 0, 0, 0))
    ho = (h + top + bottom - dh * (kh - 1) - 1) // sh + 1
    wo = (w + left + right - dw * (kw - 1) - 1) // sw + 1
    problem = ConvProblem(
        x.shape[0], 1, 1, h, w, ceil_div(cout, 16), ho, wo, kh, kw, sh, sw, dh, dw, (left, right, top, bottom), 2,
        small=small,
    )  # fmt: skip
    if small and not load3d_v2(soc):
        raise NoKernel("packed channels need the window form of load3d")
    pool = call.attr("pool", None)
    pooled = None
    if pool is not None:
        rows, columns = y.shape[2:4]
        pooled = Pool(3, 2, 1, rows, columns)
        if wo % 16 or columns % 8 or ho != 2 * rows or wo != 2 * columns:
            raise NoKernel(f"pooling of {ho} x {wo} into {rows} x {columns}")
    bias = call.inputs[2] if len(call.inputs) > 2 else None
    operands = conv_arguments(call)
    plan = _plan(
        soc, problem, cout, tuple(call.attr("epilogue", ())), operands.roles, None if bias is None else bias.dtype,
        y.dtype, y.shape[1], image, pooled,
    )  # fmt: skip
    return [
        asc.Launch(
            conv_kernel, block_dim=prod(plan.tiling.split), kind=cube_kind(soc), args=operands.args, gm=operands.gm,
            consts={"plan": plan}, soc=soc, signature=lambda block: block_signature(plan, block), code=cube_code(),
        )
    ]  # fmt: skip


@lru_cache(maxsize=256)
def _plan(
    soc: Soc, problem: ConvProblem, channels: int, steps: tuple[tuple[object, ...], ...], roles: tuple[str, ...],
    bias: str | None, out: str, out_c1: int, image: Image, pool: Pool | None,
) -> ConvPlan:  # fmt: skip
    extras = roles.count("extra")
    buffers = cube_buffers(soc)
    first = plan_exit(soc, "float32", out, steps, extras, bias, 16, rows=False)
    problem = replace(problem, exit_cycles=first.cost(), extras=extras)
    tiling = tile_conv(problem, buffers, bias is not None) if pool is None else _pooled_tiling(problem, soc, pool)
    leave = plan_exit(soc, "float32", out, steps, extras, bias, bias_columns(problem, tiling), rows=False)
    if leave.kind == "mix" or (pool is not None and leave.program is not None):
        raise NoKernel("this epilogue behind the first convolution")
    a_parts = w_parts = 1
    if pool is None:
        tiling, a_parts, w_parts = deepen(problem, tiling, buffers, soc.sync.flag_ids, leave.bias)
    return ConvPlan(
        problem, tiling, leave, "float16", roles, load3d_v2(soc), tiling.tile_m * tiling.step_k * FRACTAL,
        tiling.tile_n * tiling.step_k * FRACTAL, tiling.tile_m * tiling.tile_n * 1024, 2, channels, a_parts, w_parts,
        16, out_c1, False, image, pool,
    )  # fmt: skip


def _pooled_tiling(p: ConvProblem, soc: Soc, pool: Pool) -> ConvTiling:
    """Tiles of two rows; images go to the cores first, then rows."""
    b = cube_buffers(soc)
    images = min(p.batch, b.cores)
    rows = min(b.cores // images, pool.rows) if p.batch < b.cores else 1
    tile = ROWS * p.wo // 16
    step = max(min(b.l0a // 2 // FRACTAL // tile, b.l0b // 2 // FRACTAL // p.n1, p.k1), 0)
    count = min((STRIP - 1) * p.sh + p.dh * (p.kh - 1) + 1, p.h)
    a_bytes, w_bytes = count * p.w * p.pixel, p.k1 * p.n1 * FRACTAL
    ub = (ROWS + 2) * p.n1 * p.wo * 32 + 2 * p.n1 * pool.columns * 32 + 8192
    if not step or tile * p.n1 * 2048 > b.l0c or 2 * a_bytes + w_bytes > b.l1 or ub > soc.buffers.ub_bytes:
        raise NoKernel("two rows of the convolution do not fit the core")
    return ConvTiling((images, 1, rows, 1), STRIP, p.n1, tile, p.n1, step, 1, 1, 2, 1, True, a_bytes, w_bytes)
