"""Conv2D and grouped convolution: the plan, from an operator call to launches of `conv_kernel`."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

from ascend_sim import asc
from ascend_sim.isa.layout import merged_groups
from ascend_sim.ops.registry import NoKernel, kernel
from ascend_sim.ops.schema import ITEM_BITS, OpCall
from ascend_sim.ops.shapes import format_of

from ._arguments import conv_arguments
from ._conv import conv_kernel
from ._conv_tiling import ConvProblem, deepen, strips_of, tile_conv
from ._conv_walk import ConvPlan, bias_columns
from ._cube import FRACTAL, cube_buffers, cube_code, cube_kind, load3d_v2
from ._exit import plan_exit
from ._layouts import around
from ._mix import work_bytes

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ascend_sim.soc import Soc


def spatial(values: tuple[int, ...], fmt: str) -> tuple[int, int]:
    return values[fmt.index("H")], values[fmt.index("W")]


def conv_format(call: OpCall) -> str:
    """Axis order of the attributes and of x as the user wrote it."""
    x = call.inputs[0]
    assert x is not None
    own = format_of(x)
    return str(call.attr("data_format") or (own if own in ("NCHW", "NHWC") else "NCHW"))


def conv_problem(call: OpCall, groups: int, cin: int, cout: int, kernel_hw: tuple[int, int]) -> ConvProblem:
    """Geometry of a Conv2D call; ``cin``, ``cout`` per group."""
    x, y = call.inputs[0], call.outputs[0]
    assert x is not None
    fmt = conv_format(call)
    size = x.logical_shape
    h, w = spatial(size, fmt)
    ho, wo = spatial(y.logical_shape, fmt)
    sh, sw = spatial(tuple(call.attr("strides", (1, 1, 1, 1))), fmt)
    dh, dw = spatial(tuple(call.attr("dilations", (1, 1, 1, 1))), fmt)
    top, bottom, left, right = call.attr("pads", (0, 0, 0, 0))
    merged, c1, n1 = merged_groups(groups, cin, cout, x.shape[-1])
    return ConvProblem(
        size[fmt.index("N")], merged, c1, h, w, n1, ho, wo, *kernel_hw, sh, sw, dh, dw, (left, right, top, bottom),
        ITEM_BITS[x.dtype] // 8,
    )  # fmt: skip


def filter_dims(call: OpCall) -> tuple[int, int, int, int]:
    """(Cout, Cin / groups, Kh, Kw) of the filter."""
    f = call.inputs[1]
    assert f is not None
    shape = f.logical_shape
    fmt = format_of(f)
    fmt = fmt if set(fmt) >= set("NCHW") and len(fmt) == 4 else "NCHW"
    n, c, h, w = (shape[fmt.index(a)] for a in "NCHW")
    return n, c, h, w


@kernel("Conv2D")
def plan_conv2d(call: OpCall, soc: Soc) -> list[asc.Launch]:
    """Launches of a Conv2D call. x in NC1HWC0 and weights in FRACTAL_Z run as one kernel, other formats get TransData
    launches around it. Raises `NoKernel` for types the cube of this chip does not take."""
    x, f = call.inputs[0], call.inputs[1]
    assert x is not None and f is not None
    groups = int(call.attr("groups", 1))
    types = ("float16", "int8", *(("bfloat16", "float32") if soc.cube.fp32_cycles_per_fractal else ()))
    if x.dtype != f.dtype or x.dtype not in types or (groups > 1 and x.dtype not in ("float16", "bfloat16")):
        raise NoKernel(f"Conv2D of {x.dtype} x {f.dtype} in {groups} groups: the kernel takes {', '.join(types)}")
    if call.attr("offset_x", 0):
        raise NoKernel("Conv2D with a zero point of its input")
    cout, cin, _, _ = filter_dims(call)
    merged = merged_groups(groups, cin, cout // groups)
    return around(call, soc, {0: "NC1HWC0", 1: "FRACTAL_Z"}, "NC1HWC0", _direct, merged, groups)


def _direct(call: OpCall, soc: Soc) -> list[asc.Launch]:
    cout, cin, kh, kw = filter_dims(call)
    groups = int(call.attr("groups", 1))
    return [conv_launch(call, soc, conv_problem(call, groups, cin, cout // groups, (kh, kw)), cout)]


def conv_launch(call: OpCall, soc: Soc, problem: ConvProblem, channels: int) -> asc.Launch:
    """One launch of the convolution kernel for a call whose tensors are in the cube's layouts."""
    x, f, y = call.inputs[0], call.inputs[1], call.outputs[0]
    assert x is not None and f is not None
    c0 = 32 // problem.item
    if x.shape[-1] != c0 or f.shape[-1] != c0:
        raise NoKernel(f"blocks of {x.shape[-1]} and {f.shape[-1]} channels of {x.dtype}; the cube takes {c0}")
    wanted = (problem.groups * problem.k1, problem.n1, 16, c0)
    if problem.backward:
        wanted = (problem.w_blocks * problem.taps, problem.w_rows // 16, 16, c0)
    if f.shape != wanted:
        raise NoKernel(f"filter stored as {f.shape}; FRACTAL_Z of {problem.groups} merged groups is {wanted}")
    if x.shape[1] != problem.groups * problem.c1:
        raise NoKernel(f"{x.shape[1]} blocks of input channels for {problem.groups} groups of {problem.c1}")
    steps = tuple(call.attr("epilogue", ()))
    operands = conv_arguments(call)
    bias = call.inputs[2] if len(call.inputs) > 2 else None
    plan = _conv_plan(
        soc, problem, channels, steps, operands.roles, None if bias is None else bias.dtype, x.dtype, y.dtype,
        y.shape[-1], y.shape[1], x.dtype == "float32" and bool(call.attr("enable_hf32", True)),
    )  # fmt: skip
    blocks = prod(plan.tiling.split)
    kind = cube_kind(soc)
    if plan.exit.kind == "mix":
        kind = "MIX"
        operands = operands.with_workspace(plan.exit.middle, work_bytes(plan.exit, plan.l0c // 4, blocks))
    return asc.Launch(
        conv_kernel, block_dim=blocks, kind=kind, args=operands.args, gm=operands.gm, consts={"plan": plan}, soc=soc,
        signature=lambda block: block_signature(plan, block), code=cube_code(kind),
    )  # fmt: skip


def block_signature(plan: ConvPlan, block: int) -> Hashable:
    """Equal for blocks that issue the same instructions."""
    core = plan.core(block)
    kinds = tuple(s.kind for s in strips_of(plan.problem, plan.tiling.strip_rows, core.rows, core.lead))
    return core.images[1], core.groups[1], core.blocks[1], kinds


@lru_cache(maxsize=4096)
def _conv_plan(
    soc: Soc, problem: ConvProblem, channels: int, steps: tuple[tuple[object, ...], ...],
    roles: tuple[str, ...], bias: str | None, dtype: str, out: str, out_c0: int, out_c1: int, hf32: bool,
) -> ConvPlan:  # fmt: skip
    extras = roles.count("extra")
    acc = "int32" if dtype == "int8" else "float32"
    first = plan_exit(soc, acc, out, steps, extras, bias, 16, rows=False)
    problem = replace(problem, exit_cycles=first.cost(), extras=extras)
    tiling = tile_conv(problem, cube_buffers(soc), bias is not None)
    leave = plan_exit(soc, acc, out, steps, extras, bias, bias_columns(problem, tiling), rows=False)
    if out_c0 != 16:
        if leave.kind != "fixpipe":
            raise NoKernel(f"output in blocks of {out_c0} channels behind an epilogue")
        leave = replace(leave, split=True)
    roles = (*roles, "work") if leave.kind == "mix" else roles
    tiling, a_parts, w_parts = deepen(problem, tiling, cube_buffers(soc), soc.sync.flag_ids, leave.bias)
    return ConvPlan(
        problem, tiling, leave, dtype, roles, load3d_v2(soc), tiling.tile_m * tiling.step_k * FRACTAL,
        tiling.tile_n * (tiling.step_k + problem.surplus) * FRACTAL, tiling.tile_m * tiling.tile_n * 1024, 2, channels,
        a_parts, w_parts, out_c0, out_c1, hf32,
    )  # fmt: skip
