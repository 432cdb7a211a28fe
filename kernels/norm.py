"""LayerNorm, RmsNorm and AddRmsNorm along the last axes; batch normalisation with known statistics.

A tile is some whole rows; everything runs in float32. Mean and deviation of all rows of a tile come from one fold
each and go back to the rows as per-row values; gamma and beta are loaded once per core. Queues are one deep, as in
the stock kernels (hicann/ops-nn, restated).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from ascend_sim import asc
from ascend_sim.ops.registry import NoKernel, kernel
from ascend_sim.ops.schema import OpCall, TensorSpec
from ascend_sim.ops.shapes import axis_of
from ascend_sim.ops.values.norm import _inner_shape

from . import _lower
from ._flat import global_tensor, vector_copy
from ._lines import Heap, Lines, lines_of, reciprocal, store_results
from ._long_rows import norm_long_launch
from ._map import Operand, plan_map
from ._program import Builder, Reg
from ._rms_norm import rms_norm_launch
from ._rows import rows_of
from ._sync import STEADY, Pipeline
from ._vector import BLOCK, REPEAT, align, ceil_div, deal, item_bytes, legal, padded_dma, phased, vector_cores
from .bn_infer import channel_launch

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

_FLOATS = ("float16", "bfloat16", "float32")


@dataclass(frozen=True)
class NormPlan:
    """``rows`` rows; tiles of ``tile``. ``centre``: subtract the mean; ``gamma``/``beta``: kernel arguments or -1;
    ``add``: a second addend; ``outs``: kernel arguments of y, mean, last statistic and sum (-1: absent);
    ``inverse``: the last statistic is the reciprocal deviation, else the variance."""

    rows: int
    tile: int
    units: int
    lines: Lines
    epsilon: float
    centre: bool
    add: bool
    gamma: int
    beta: int
    outs: tuple[int, int, int, int]
    inverse: bool
    dtypes: tuple[str, ...]
    has_sqrt: bool
    has_div: bool
    padded: bool

    def count(self, block: int) -> int:
        return min(self.units, self.rows - block * self.units)


@asc.jit
def norm_kernel(*gm: asc.GlobalAddress, plan: NormPlan) -> None:
    """Normalise this core's rows."""
    tensors = [global_tensor(a) for a in gm]
    io, lines = plan.lines.io, plan.lines
    area, room = plan.tile * io.pitch, align(plan.tile, 16)
    heap = Heap()
    dtype = plan.dtypes[0]
    taken = heap.take(dtype, area)
    second = heap.take(dtype, area) if plan.add else None
    wide = heap.take("float32", area)
    square = heap.take("float32", area)
    result = heap.take(dtype, area)
    scratch = heap.take("float32", plan.tile * lines.width)
    mean, spare, ones = (heap.take("float32", room) for _ in range(3))
    blocks = heap.take("float32", room * 8) if lines.brcb else None
    stats = {k: heap.take(plan.dtypes[k], room) for k in plan.outs[1:3] if k >= 0}
    vectors = {k: heap.take("float32", io.pitch) for k in (plan.gamma, plan.beta) if k >= 0}
    _parameters(plan, tensors, vectors, wide)
    first, count = asc.get_block_idx() * plan.units, plan.count(asc.get_block_idx())
    share = 1.0 / io.length
    pipe = Pipeline(1)
    for t in asc.steady(ceil_div(count, plan.tile)):
        row = first + t * plan.tile
        n = min(plan.tile, count - t * plan.tile)
        size = n * io.pitch
        pipe.load(0)
        io.load(taken, tensors[0][row * io.length :], n)
        if second is not None:
            io.load(second, tensors[1][row * io.length :], n)
        pipe.compute(0)
        _widen(wide, taken, size)
        if second is not None:
            _widen(square, second, size)
            asc.add(wide, wide, square, count=size)
            _narrow(taken, wide, size)  # the sum as it is stored
        if plan.centre:
            lines.reduce("sum", wide, n, scratch, mean)
            asc.muls(mean, mean, share, count=n)
            _statistic(plan, stats, 1, mean, n)
            lines.spread("sub", wide, wide, mean, n, blocks)
        asc.mul(square, wide, wide, count=size)
        lines.reduce("sum", square, n, scratch, mean)
        asc.muls(mean, mean, share, count=n)
        if not plan.inverse:
            _statistic(plan, stats, 2, mean, n)
        asc.adds(mean, mean, plan.epsilon, count=n)
        if plan.has_sqrt:
            asc.sqrt(spare, mean, count=n)
            reciprocal(mean, spare, ones if plan.has_div else None, n)
        else:
            asc.rsqrt(mean, mean, count=n)
        if plan.inverse:
            _statistic(plan, stats, 2, mean, n)
        lines.spread("mul", wide, wide, mean, n, blocks)
        if plan.gamma >= 0:
            lines.across("mul", wide, wide, vectors[plan.gamma], n)
        if plan.beta >= 0:
            lines.across("add", wide, wide, vectors[plan.beta], n)
        _narrow(result, wide, size)
        pipe.store(0)
        io.store(tensors[plan.outs[0]][row * io.length :], result, n)
        if plan.outs[3] >= 0:
            io.store(tensors[plan.outs[3]][row * io.length :], taken, n)
            asc.set_flag(asc.HardEvent.MTE3_MTE2, STEADY)  # the next load overwrites it
            asc.wait_flag(asc.HardEvent.MTE3_MTE2, STEADY)
        for k, values in stats.items():
            store_results(tensors[k][row:], values, n, plan.padded)
        pipe.done(0)
    pipe.drain()


def _parameters(
    plan: NormPlan, tensors: Sequence[asc.GlobalTensor], vectors: dict[int, asc.LocalTensor], area: asc.LocalTensor
) -> None:
    """gamma and beta in float32, through the area of the first tile."""
    for k, vector in vectors.items():
        raw = area.reinterpret_cast(plan.dtypes[k])
        plan.lines.io.load(raw, tensors[k], 1)
        asc.set_flag(asc.HardEvent.MTE2_V, STEADY)
        asc.wait_flag(asc.HardEvent.MTE2_V, STEADY)
        _widen(vector, raw, plan.lines.io.pitch)
        asc.set_flag(asc.HardEvent.V_MTE2, STEADY)
        asc.wait_flag(asc.HardEvent.V_MTE2, STEADY)


def _statistic(plan: NormPlan, stats: dict[int, asc.LocalTensor], which: int, values: asc.LocalTensor, n: int) -> None:
    if plan.outs[which] >= 0:
        _narrow(stats[plan.outs[which]], values, n)


def _widen(dst: asc.LocalTensor, src: asc.LocalTensor, count: int) -> None:
    if src.dtype is dst.dtype:
        vector_copy(dst, src, count)
    else:
        asc.cast(dst, src, asc.RoundMode.CAST_NONE, count=count)


def _narrow(dst: asc.LocalTensor, src: asc.LocalTensor, count: int) -> None:
    if src.dtype is dst.dtype:
        vector_copy(dst, src, count)
    else:
        mode = asc.RoundMode.CAST_RINT if dst.dtype.name == "bfloat16" else asc.RoundMode.CAST_NONE
        asc.cast(dst, src, mode, count=count)


def _launch(
    call: OpCall, soc: Soc, addends: Sequence[int], length: int, gamma: int, beta: int, outs: Sequence[int | None],
    epsilon: float, centre: bool, inverse: bool,
) -> asc.Launch:  # fmt: skip
    """``addends``, ``gamma`` and ``beta`` number inputs (-1: absent), ``outs`` outputs in plan order."""
    numbers = [*addends, *[k for k in (gamma, beta) if k >= 0]]
    ins = [call.inputs[k] for k in numbers]
    specs: list[TensorSpec] = []
    for spec in ins:
        if spec is None or spec.dtype not in _FLOATS or spec.format not in ("ND", "NCHW", "NHWC"):
            raise NoKernel("normalisation of this type or format")
        specs.append(spec)
    present = [o for o in outs if o is not None and o < len(call.outputs)]
    results = [call.outputs[o] for o in present]
    x = specs[0]
    for spec in specs[len(addends) :]:
        if spec.size != length:
            raise NoKernel("parameters that do not cover a row")
    io = rows_of(soc, length, [item_bytes(s.dtype) for s in (*specs, results[0])])
    rows = x.size // length
    if io.mode == "scalar" and rows * length > 4096:
        raise NoKernel(f"rows of {length} elements are shorter than a block")
    lines = lines_of(soc, io, "float32")
    item = item_bytes(x.dtype)
    per_row = io.pitch * (8 + item * (3 if len(addends) == 2 else 2)) + REPEAT + 12 + 8 + (32 if lines.brcb else 0)
    room = soc.buffers.ub_bytes - 8 * io.pitch - 24 * BLOCK - 16 * (12 + 8 + 32)
    place = {o: len(numbers) + i for i, o in enumerate(present)}
    arguments = [-1 if o is None else place.get(o, -1) for o in outs]
    index = {k: i for i, k in enumerate(numbers)}
    if per_row > room:
        if not centre or len(addends) > 1 or arguments[3] >= 0:
            raise NoKernel(f"a row of {length} elements does not fit the unified buffer")
        return norm_long_launch(
            list(zip(numbers, specs, strict=True)), list(zip(present, results, strict=True)),
            (index.get(gamma, -1), index.get(beta, -1)), (arguments[0], arguments[1], arguments[2]), length, epsilon,
            inverse, soc,
        )  # fmt: skip
    kind, cores = vector_cores(soc)
    units, blocks = deal(rows, cores)
    tile = min(room // per_row, units)
    plan = NormPlan(
        rows, tile, units, lines, epsilon, centre, len(addends) == 2, index.get(gamma, -1), index.get(beta, -1),
        (arguments[0], arguments[1], arguments[2], arguments[3]), inverse,
        tuple(s.dtype for s in (*specs, *results)), legal(soc, "vsqrt", "float32"), legal(soc, "vdiv", "float32"),
        padded_dma(soc),
    )  # fmt: skip
    args = [("in", k) for k in numbers] + [("out", o) for o in present]
    gm = [(f"x{k}", s.dtype, s.nbytes, "in") for k, s in zip(numbers, specs, strict=True)]
    gm += [(f"y{o}", s.dtype, s.nbytes, "out") for o, s in zip(present, results, strict=True)]
    sizes = {item_bytes(s.dtype) for s in (x, results[0])}
    row_starts = [lambda b, n=n: b * units * length * n for n in sorted(sizes)]
    signature = phased(plan.count, *row_starts, lambda b: b * units * item, lambda b: b * units * 4)
    return asc.Launch(
        norm_kernel, blocks, kind, args, gm, {"plan": plan}, soc=soc, signature=signature, code="ascendc", serial=True
    )


@kernel("LayerNorm", "LayerNormV3")
def plan_layer_norm(call: OpCall, soc: Soc) -> list[asc.Launch]:
    x = call.inputs[0]
    if x is None:
        raise NoKernel("no input")
    axis = axis_of(int(call.attr("begin_norm_axis", 0)), len(x.shape))
    if axis_of(int(call.attr("begin_params_axis", 0)), len(x.shape)) != axis:
        raise NoKernel("parameters that do not cover a row")
    beta = 2 if len(call.inputs) > 2 and call.inputs[2] is not None else -1
    epsilon = float(call.attr("epsilon", 1e-7))
    inverse = call.type == "LayerNormV3"
    return [_launch(call, soc, (0,), prod(x.shape[axis:]), 1, beta, (0, 1, 2, None), epsilon, True, inverse)]


@kernel("LayerNormV4")
def plan_layer_norm_v4(call: OpCall, soc: Soc) -> list[asc.Launch]:
    length = prod(_inner_shape(call.inputs, dict(call.attrs)))
    gamma, beta = (k if len(call.inputs) > k and call.inputs[k] is not None else -1 for k in (2, 3))
    epsilon = float(call.attr("epsilon", 1e-5))
    return [_launch(call, soc, (0,), length, gamma, beta, (0, 1, 2, None), epsilon, True, True)]


@kernel("RmsNorm", "AddRmsNorm")
def plan_rms_norm(call: OpCall, soc: Soc) -> list[asc.Launch]:
    add = call.type == "AddRmsNorm"
    gamma = call.inputs[2 if add else 1]
    if gamma is None:
        raise NoKernel("no gamma")
    specs = [s for s in call.inputs[: 3 if add else 2] if s is not None]
    if soc.chip.split_cores and all(s.dtype in _FLOATS and s.format in ("ND", "NCHW", "NHWC") for s in specs):
        return [rms_norm_launch(specs, list(enumerate(call.outputs)), add, float(call.attr("epsilon", 1e-6)), soc)]
    outs = (0, None, 1, 2 if add else None)
    addends = (0, 1) if add else (0,)
    epsilon = float(call.attr("epsilon", 1e-6))
    return [_launch(call, soc, addends, gamma.size, len(addends), -1, outs, epsilon, False, True)]


@kernel("BNInfer", "BNInferenceD")
def plan_bn_infer(call: OpCall, soc: Soc) -> list[asc.Launch]:
    """(x - mean) / sqrt(variance + epsilon) * scale + offset with per-channel parameters."""
    x = call.inputs[0]
    order = (1, 2, 3, 4) if call.type == "BNInfer" else (3, 4, 1, 2)  # scale, offset, mean, variance
    if x is None or x.dtype not in _FLOATS:
        raise NoKernel("no input")
    if x.format == "NC1HWC0" and x.dtype == "float16" and x.shape[1] * x.shape[-1] == x.logical_shape[1]:
        return [channel_launch(call, soc, order)]
    if call.attr("epilogue", ()):
        raise NoKernel(f"{call.type} with an epilogue outside half blocks of channels")
    present = [k for k in order if len(call.inputs) > k and call.inputs[k] is not None]
    inputs: list[TensorSpec | None] = list(call.inputs)
    for k in present:
        inputs[k] = _per_channel(call.inputs[k], x)
    epsilon = float(call.attr("epsilon", 1e-5))

    def make(b: Builder, operands: Sequence[Operand]) -> list[Reg]:
        found = {k: o.as_type(b, "float32") for k, o in zip((0, *present), operands, strict=True)}
        factor = _lower.rsqrt(b, b.adds(found[order[3]], epsilon))
        if order[0] in found:
            factor = b.mul(factor, found[order[0]])
        y = b.mul(b.sub(found[0], found[order[2]]), factor)
        if order[1] in found:
            y = b.add(y, found[order[1]])
        return [b.cast(y, call.outputs[0].dtype)]

    seen = OpCall(call.type, tuple(inputs), call.outputs, call.attrs)
    return plan_map(seen, soc, make, inputs=(0, *present))


def _per_channel(spec: TensorSpec | None, x: TensorSpec) -> TensorSpec:
    """A vector of C values as it broadcasts against ``x``."""
    if spec is None:
        raise NoKernel("no input")
    if x.format == "NC1HWC0":
        c0 = x.shape[-1]
        if spec.size % c0:
            raise NoKernel(f"{spec.size} channels do not fill blocks of {c0}")
        shape: tuple[int, ...] = (1, spec.size // c0, 1, 1, c0)
        return TensorSpec(shape, spec.dtype, x.format, (1, spec.size, 1, 1), "NCHW")
    if x.format not in ("ND", "NCHW"):
        raise NoKernel(f"batch normalisation of {x.format}")
    return TensorSpec((1, spec.size, *(1,) * (len(x.shape) - 2)), spec.dtype, x.format)
