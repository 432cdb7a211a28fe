"""MatMulV2, BatchMatMulV2, GEMM and FullyConnection: the plan, from an operator call to a launch of `matmul_kernel`."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ascend_sim import asc
from ascend_sim.isa.layout import ceil_div
from ascend_sim.ops.registry import NoKernel, find_kernel, kernel
from ascend_sim.ops.schema import ITEM_BITS, OpCall, TensorSpec, freeze_attrs

from ._arguments import conv_arguments
from ._cube import cube_buffers, cube_code, cube_kind, nd2nz
from ._exit import plan_exit
from ._layouts import around, rewire
from ._matmul import MatmulPlan, Source, kinds_of, matmul_kernel
from ._matmul_tiling import MatmulProblem, align, tile
from ._mix import work_bytes
from ._split_k import finish, part, parts_of_k

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

FORMATS = ("FRACTAL_NZ", "FRACTAL_Z")
TRANSPOSES = {"GEMM": ("transpose_a", "transpose_b")} | {
    name + version: flags
    for name, flags in (("MatMul", ("transpose_x1", "transpose_x2")), ("BatchMatMul", ("adj_x1", "adj_x2")))
    for version in ("", "V2", "V3")
}


@kernel(*TRANSPOSES)
def plan_matmul(call: OpCall, soc: Soc) -> list[asc.Launch]:
    """Launches of a matrix product. Raises `NoKernel` for types, formats and scales the kernel does not do."""
    a, b = call.inputs[0], call.inputs[1]
    assert a is not None and b is not None
    flags = TRANSPOSES[call.type]
    trans = bool(call.attr(flags[0], False)), bool(call.attr(flags[1], False))
    if call.type == "GEMM":
        call = _gemm(call)
    if a.dtype == "int8" and call.outputs[0].dtype == "int32" and soc.chip.split_cores:
        return _integers(call, soc, trans)
    wanted, out = _formats(call, soc)
    return around(call, soc, wanted, out, lambda inner, s: _launches(inner, s, *trans))


def _integers(call: OpCall, soc: Soc, trans: tuple[bool, bool]) -> list[asc.Launch]:
    """A product of int8 whose sums leave as they are: the quantised product without scales."""
    plan = find_kernel("QuantBatchMatmulV3")
    a, b, bias, *more = [*call.inputs, None][: max(len(call.inputs), 3)]
    if plan is None or any(s is not None for s in more) or call.attr("epilogue", ()):
        raise NoKernel("a product of int8 with an epilogue")
    if any(s is not None and s.format in FORMATS for s in (a, b, call.outputs[0])):
        raise NoKernel("a product of int8 in fractals")
    inputs = (a, b, TensorSpec((1,), "uint64"), None, bias)
    attrs = freeze_attrs({"transpose_x1": trans[0], "transpose_x2": trans[1]})
    launches = plan(OpCall("QuantBatchMatmulV3", inputs, call.outputs, attrs), soc)
    return [rewire(launch, {("in", 4): ("in", 2)}) for launch in launches]


def _gemm(call: OpCall) -> OpCall:
    """A GEMM whose C is a bias row and whose scales are 1 is a plain product."""
    c = call.inputs[2] if len(call.inputs) > 2 else None
    for name, index in (("alpha", 3), ("beta", 4)):
        spec = call.inputs[index] if len(call.inputs) > index else None
        value = call.attr(name, 1.0)
        if spec is not None:
            if spec.const is None:
                raise NoKernel(f"GEMM with {name} known at run time only")
            value = float(np.frombuffer(spec.const, spec.dtype)[0])
        if value != 1.0 and (name == "alpha" or c is not None):
            raise NoKernel(f"GEMM with {name} = {value}")
    if c is not None and prod(c.logical_shape[:-1]) != 1:
        raise NoKernel(f"GEMM with C of shape {c.logical_shape}: only a row is added")
    return OpCall("MatMulV2", call.inputs[:3], call.outputs, call.attrs)


def _formats(call: OpCall, soc: Soc) -> tuple[dict[int, str], str]:
    """Formats to run in: those of the call, fractals where rows are not whole 32-byte blocks on chips that move
    rows in such blocks only."""
    y = call.outputs[0]
    wanted: dict[int, str] = {}
    if nd2nz(soc):
        if _large(call, soc):
            wanted = {i: "FRACTAL_NZ" for i in (0, 1) if _awkward(call.inputs[i])}
        return wanted, y.format
    for i in (0, 1):
        spec = call.inputs[i]
        assert spec is not None
        if spec.format not in FORMATS and spec.logical_shape[-1] % 16:
            wanted[i] = "FRACTAL_NZ"
    out = y.format if y.format in FORMATS or y.logical_shape[-1] % 16 == 0 else "FRACTAL_NZ"
    return wanted, out


def _large(call: OpCall, soc: Soc) -> bool:
    """Whether the stock library takes MatMulV3 (hicann/ops-nn, restated): much work on every core with
    cores that come out even, or matrices beyond the L2."""
    a, b, y = call.inputs[0], call.inputs[1], call.outputs[0]
    assert a is not None and b is not None
    if not soc.chip.split_cores or len(a.logical_shape) != 2 or len(b.logical_shape) != 2:
        return False
    m, n = y.logical_shape
    k, cores = a.size // m, soc.cores.ai_core_count
    tiles = min(ceil_div(m, 128) * ceil_div(n, 256), ceil_div(m, 256) * ceil_div(n, 128))
    fractals = ceil_div(m, 16) * ceil_div(n, 16) * ceil_div(k, 16)
    if all(1024 <= size <= 10368 for size in (m, n, k)) and fractals // cores > 90000:
        return tiles / (ceil_div(tiles, cores) * cores) > 0.7
    sizes, l2 = (a.nbytes, b.nbytes, y.nbytes), soc.memory.l2_bytes
    return m >= 1152 and n >= 960 and (sum(sizes) >= l2 or 3 * max(sizes) >= 2 * l2)


def _awkward(spec: TensorSpec | None) -> bool:
    """Rows of a 16-bit matrix that the transfer into L1 does not turn into fractals on the way: the vector cores bring
    the whole matrix into fractals first (stock pre-pass; there one MIX kernel, here a launch of its own)."""
    assert spec is not None
    nbytes = spec.logical_shape[-1] * ITEM_BITS[spec.dtype] // 8
    short = (nbytes <= 256 and nbytes % 32 == 0) or nbytes == 384
    return spec.format not in FORMATS and ITEM_BITS[spec.dtype] == 16 and nbytes % 256 != 0 and not short


def _source(spec: TensorSpec, trans: bool, right: bool, k0: int) -> Source:
    """Layout of an operand. A is k-outer when stored M x K, B when stored N x K."""
    rows, columns = spec.logical_shape[-2:]
    k_outer = trans if right else not trans
    if spec.format == "FRACTAL_Z":
        if not right or trans is None:
            raise NoKernel("FRACTAL_Z is a layout of the right operand")
        blocks = spec.shape[1]
        return Source(True, True, blocks * 16, spec.size)
    if spec.format == "FRACTAL_NZ":
        panel = spec.shape[-3] * spec.shape[-2]
        return Source(True, k_outer, panel, prod(spec.shape[-4:]))
    return Source(False, k_outer, columns, rows * columns)


def _batches(shape: tuple[int, ...], lead: tuple[int, ...]) -> tuple[int, ...]:
    """Matrix index of an operand with batch axes ``shape`` for every batch of the result."""
    index = np.arange(prod(shape)).reshape(shape)
    return tuple(np.broadcast_to(index, lead).reshape(-1).tolist())


def _launches(call: OpCall, soc: Soc, trans_a: bool, trans_b: bool) -> list[asc.Launch]:
    a, b, y = call.inputs[0], call.inputs[1], call.outputs[0]
    assert a is not None and b is not None
    if a.dtype != b.dtype or a.dtype not in ("float16", "bfloat16", "float32"):
        raise NoKernel(f"product of {a.dtype} x {b.dtype}: the kernel takes two floats of one type")
    if a.dtype != "float16" and not soc.cube.fp32_cycles_per_fractal:
        raise NoKernel(f"the cube of {soc.name} does not take {a.dtype}")
    sa, sb = a.logical_shape, b.logical_shape
    m, k = (sa[-1], sa[-2]) if trans_a else sa[-2:]
    n = sb[-2] if trans_b else sb[-1]
    item = ITEM_BITS[a.dtype] // 8
    lead = tuple(np.broadcast_shapes(sa[:-2], sb[:-2]))
    source_a, source_b = _source(a, trans_a, False, 32 // item), _source(b, trans_b, True, 32 // item)
    rows = y.format not in FORMATS
    a_of, b_of = _batches(sa[:-2], lead), _batches(sb[:-2], lead)
    batch = len(a_of)
    if batch > 1 and rows and not source_a.fractal and not trans_a and prod(sb[:-2]) == 1 and prod(sa[:-2]) == batch:
        m, batch, a_of, b_of = m * batch, 1, (0,), (0,)  # one product of all rows
    if not rows and y.dtype != "float16":
        raise NoKernel(f"FRACTAL_NZ output of {y.dtype}")
    if y.dtype not in ("float16", "bfloat16", "float32"):
        raise NoKernel(f"output of {y.dtype}")
    out_pitch = n if rows else y.shape[-3] * y.shape[-2] * 16
    out_matrix = m * n if rows else prod(y.shape[-4:])
    bias = call.inputs[2] if len(call.inputs) > 2 else None
    if bias is not None and bias.logical_shape[-1] != n:
        raise NoKernel(f"bias of {bias.logical_shape} for {n} columns")
    steps = tuple(call.attr("epilogue", ()))
    operands = conv_arguments(call, "a", "b")
    problem = MatmulProblem(m, k, n, batch, item, trans_a, trans_b, source_a.fractal, bias is not None)
    parts = 1 if steps or not rows else parts_of_k(problem, soc)
    if parts > 1:
        size, a_of = k // parts, tuple(range(parts))
        b_of, source_a, source_b = a_of, part(source_a, size), part(source_b, size)
        problem = replace(problem, k=size, batch=parts)
    plan = _plan(
        soc, problem, a.dtype, "float32" if parts > 1 else y.dtype, source_a, source_b, a_of, b_of, out_pitch,
        out_matrix, rows, steps, operands.roles, None if bias is None else bias.dtype,
        bool(call.attr("enable_hf32", False)),
    )  # fmt: skip
    kind = cube_kind(soc)
    if plan.exit.kind == "mix":
        kind = "MIX"
        size = work_bytes(plan.exit, plan.tiling.base_m * plan.tiling.base_n, plan.tiling.cores)
        operands = operands.with_workspace(plan.exit.middle, size)
    gm = operands.gm
    if parts > 1:
        gm = (*gm[:-1], ("y", "float32", 4 * parts * m * n, "out"))
    launch = asc.Launch(
        matmul_kernel, block_dim=plan.tiling.cores, kind=kind, args=operands.args, gm=gm, consts={"plan": plan},
        soc=soc, signature=lambda block: kinds_of(plan, block), code=cube_code(kind),
    )  # fmt: skip
    return finish(launch, y, parts, soc) if parts > 1 else [launch]


@lru_cache(maxsize=4096)
def _plan(
    soc: Soc, problem: MatmulProblem, dtype: str, out: str, a: Source, b: Source, a_of: tuple[int, ...],
    b_of: tuple[int, ...], out_pitch: int, out_matrix: int, rows: bool, steps: tuple[tuple[object, ...], ...],
    roles: tuple[str, ...], bias: str | None, hf32: bool,
) -> MatmulPlan:  # fmt: skip
    leave = plan_exit(soc, "float32", out, steps, roles.count("extra"), bias, align(problem.n, 16), rows=rows)
    roles = (*roles, "work") if leave.kind == "mix" else roles
    return MatmulPlan(
        problem, tile(problem, cube_buffers(soc)), leave, dtype, a, b, a_of, b_of, out_pitch, out_matrix,
        roles, nd2nz(soc), soc.chip.split_cores, hf32,
    )  # fmt: skip
