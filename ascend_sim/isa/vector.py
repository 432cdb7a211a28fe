"""Semantics of the elementwise vector instructions. Each function takes lane values and returns the result lanes.

half and bf16 lanes arrive as float32 and are rounded once; integers wrap. Accuracy: exp, ln, sqrt and division as
IEEE float32 (asc-devkit states 1 ulp); reciprocal and rsqrt are exact here, hardware is coarser.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.isa.buffers import View
from ascend_sim.isa.dtypes import DataType, cast_values, int4, int8, pack_int4, unpack_int4
from ascend_sim.isa.instr import Pipe
from ascend_sim.isa.lanes import (
    Lanes,
    compute,
    finish,
    one_by_one,
    read_lanes,
    single_repeat,
    write_lanes,
)
from ascend_sim.isa.rows import ROWS, instruction, observed

Array = NDArray[Any]
V = Pipe.V

_ALIGNED = "operands are aligned to 32 bytes"
_OVERLAP = "within a repeat, source and destination are the same or disjoint"


@instruction("vadd", "add", V, "dst = src0 + src1", _ALIGNED, _OVERLAP)
def vadd(a: Array, b: Array) -> Any:
    return a + b


@instruction("vsub", "sub", V, "dst = src0 - src1", _ALIGNED, _OVERLAP)
def vsub(a: Array, b: Array) -> Any:
    return a - b


@instruction("vmul", "mul", V, "dst = src0 * src1", _ALIGNED, _OVERLAP)
def vmul(a: Array, b: Array) -> Any:
    return a * b


@instruction("vdiv", "div", V, "dst = src0 / src1", _ALIGNED, _OVERLAP)
def vdiv(a: Array, b: Array) -> Any:
    return a / b


@instruction("vmax", "max", V, "dst = max(src0, src1)", _ALIGNED, _OVERLAP)
def vmax(a: Array, b: Array) -> Any:
    return np.maximum(a, b)


@instruction("vmin", "min", V, "dst = min(src0, src1)", _ALIGNED, _OVERLAP)
def vmin(a: Array, b: Array) -> Any:
    return np.minimum(a, b)


@instruction("vand", "bitwise_and", V, "dst = src0 & src1", _ALIGNED, _OVERLAP)
def vand(a: Array, b: Array) -> Any:
    return a & b


@instruction("vor", "bitwise_or", V, "dst = src0 | src1", _ALIGNED, _OVERLAP)
def vor(a: Array, b: Array) -> Any:
    return a | b


@instruction("vaddrelu", "add_relu", V, "dst = max(src0 + src1, 0)", _ALIGNED, _OVERLAP)
def vaddrelu(a: Array, b: Array) -> Any:
    return np.maximum(a + b, a.dtype.type(0))


@instruction("vsubrelu", "sub_relu", V, "dst = max(src0 - src1, 0)", _ALIGNED, _OVERLAP)
def vsubrelu(a: Array, b: Array) -> Any:
    return np.maximum(a - b, a.dtype.type(0))


@instruction("vmla", "mul_add_dst", V, "dst = src0 * src1 + dst", _ALIGNED, _OVERLAP)
def vmla(d: Array, a: Array, b: Array) -> Any:
    return a.astype(d.dtype, copy=False) * b.astype(d.dtype, copy=False) + d


@instruction("vmadd", "fused_mul_add", V, "dst = src0 * dst + src1", _ALIGNED, _OVERLAP)
def vmadd(d: Array, a: Array, b: Array) -> Any:
    return a * d + b


@instruction("vmaddrelu", "fused_mul_add_relu", V, "dst = max(src0 * dst + src1, 0)", _ALIGNED, _OVERLAP)
def vmaddrelu(d: Array, a: Array, b: Array) -> Any:
    return np.maximum(a * d + b, d.dtype.type(0))


@instruction("vadds", "adds", V, "dst = src + scalar", _ALIGNED, _OVERLAP)
def vadds(a: Array, s: Any) -> Any:
    return a + s


@instruction("vmuls", "muls", V, "dst = src * scalar", _ALIGNED, _OVERLAP)
def vmuls(a: Array, s: Any) -> Any:
    return a * s


@instruction("vmaxs", "maxs", V, "dst = max(src, scalar)", _ALIGNED, _OVERLAP)
def vmaxs(a: Array, s: Any) -> Any:
    return np.maximum(a, s)


@instruction("vmins", "mins", V, "dst = min(src, scalar)", _ALIGNED, _OVERLAP)
def vmins(a: Array, s: Any) -> Any:
    return np.minimum(a, s)


@instruction("vlrelu", "leaky_relu", V, "dst = src if src >= 0 else src * scalar", _ALIGNED, _OVERLAP)
def vlrelu(a: Array, s: Any) -> Any:
    return np.where(a >= 0, a, a * s)


@instruction("vaxpy", "axpy", V, "dst = src * scalar + dst", _ALIGNED, _OVERLAP)
def vaxpy(d: Array, a: Array, s: Any) -> Any:
    return a.astype(d.dtype, copy=False) * d.dtype.type(s) + d


@instruction("vshl", "shift_left", V, "dst = src << scalar", "0 <= scalar <= width of the type")
def vshl(a: Array, s: Any) -> Any:
    if int(s) >= a.dtype.itemsize * 8:
        return np.zeros_like(a)
    return a << a.dtype.type(s)


@instruction(
    "vshr", "shift_right", V, "dst = src >> scalar, arithmetic when signed", "0 <= scalar <= width of the type"
)
def vshr(a: Array, s: Any) -> Any:
    width = a.dtype.itemsize * 8
    if int(s) >= width:
        return np.where(a < 0, a.dtype.type(-1), a.dtype.type(0)) if a.dtype.kind == "i" else np.zeros_like(a)
    return a >> a.dtype.type(s)


@instruction("vabs", "abs", V, "dst = |src|", _ALIGNED, _OVERLAP)
def vabs(a: Array) -> Any:
    return np.abs(a)


@instruction("vrelu", "relu", V, "dst = max(src, 0)", _ALIGNED, _OVERLAP)
def vrelu(a: Array) -> Any:
    return np.maximum(a, a.dtype.type(0))


@instruction("vexp", "exp", V, "dst = e ** src", _ALIGNED, _OVERLAP)
def vexp(a: Array) -> Any:
    return np.exp(a)


@instruction("vln", "ln", V, "dst = natural logarithm of src", _ALIGNED, _OVERLAP)
def vln(a: Array) -> Any:
    return np.log(a)


@instruction("vsqrt", "sqrt", V, "dst = square root of src", _ALIGNED, _OVERLAP)
def vsqrt(a: Array) -> Any:
    return np.sqrt(a)


@instruction("vrsqrt", "rsqrt", V, "dst = 1 / square root of src", _ALIGNED, _OVERLAP)
def vrsqrt(a: Array) -> Any:
    return a.dtype.type(1) / np.sqrt(a)


@instruction("vrec", "reciprocal", V, "dst = 1 / src", _ALIGNED, _OVERLAP)
def vrec(a: Array) -> Any:
    return a.dtype.type(1) / a


@instruction("vnot", "bitwise_not", V, "dst = ~src", _ALIGNED, _OVERLAP)
def vnot(a: Array) -> Any:
    return ~a


READS_DST = frozenset({"vmla", "vmadd", "vmaddrelu", "vaxpy"})


@observed
def run_elementwise(
    op: str, dst: View, sources: Sequence[View], lanes: Lanes, saturate: bool, scalar: Any = None
) -> None:
    """Execute an elementwise instruction. ``scalar`` is the immediate of the scalar forms; it is first converted to
    the type of the first source."""
    if one_by_one(lanes):
        single = lanes._replace(repeats=1)
        for i in range(lanes.repeats):
            shifted = [single_repeat(s, lanes, k + 1, i) for k, s in enumerate(sources)]
            run_elementwise(op, single_repeat(dst, lanes, 0, i), shifted, single, saturate, scalar)
        return
    function: Callable[..., Array] = ROWS[op].function
    with np.errstate(all="ignore"):
        operands = [compute(read_lanes(s, lanes, k + 1), s.dtype) for k, s in enumerate(sources)]
        if op in READS_DST:
            operands.insert(0, compute(read_lanes(dst, lanes, 0), dst.dtype))
        if scalar is not None:
            operands.append(scalar_value(scalar, sources[0].dtype, operands[-1].dtype))
        write_lanes(dst, lanes, finish(function(*operands), dst.dtype, saturate))


def scalar_value(scalar: Any, dtype: DataType, as_type: Any) -> Any:
    """An immediate as the instruction sees it: rounded to the source type, then widened like the lanes."""
    if dtype.is_int():
        return np.asarray(int(scalar)).astype(dtype.np)[()]
    return np.asarray(scalar, np.float64).astype(np.float32).astype(dtype.np).astype(as_type)[()]


@instruction("vdup", "duplicate", V, "dst lanes = scalar", _ALIGNED)
def run_duplicate(dst: View, scalar: Any, lanes: Lanes) -> None:
    value = scalar_value(scalar, dst.dtype, dst.dtype.np)
    if lanes.n >= 0:
        dst.flat(lanes.n)[...] = value
        return
    shape = read_lanes(dst, lanes, 0).shape
    write_lanes(dst, lanes, np.full(shape, value, dst.dtype.np))


@instruction(
    "vconv", "cast", V, "dst = src converted with a rounding mode",
    "the pair of types and the mode exist on the chip", "masks and repeats count the wider type",
)  # fmt: skip
def run_cast(dst: View, src: View, mode: int, lanes: Lanes, saturate: bool, scale: float | None = None) -> None:
    with np.errstate(all="ignore"):
        values = read_lanes(src, lanes, 1)
        if scale is not None:
            values = values.astype(np.float32) * np.float32(scale)
        write_lanes(dst, lanes, cast_values(values, dst.dtype, mode, saturate))


@observed
def run_cast_int4(dst: View, src: View, mode: int, count: int) -> None:
    """`run_cast` to or from int4 (two to a byte), ``count`` even."""
    if dst.dtype is int4:
        dst.flat(count)[...] = pack_int4(cast_values(src.flat(count), int8, mode).clip(-8, 7))
    else:
        dst.flat(count)[...] = unpack_int4(src.flat(count)).astype(dst.dtype.np)


@instruction("vcopy", "copy", V, "dst = src, masked, between repeats", _ALIGNED)
def run_copy(dst: View, src: View, lanes: Lanes) -> None:
    write_lanes(dst, lanes, read_lanes(src, lanes, 1).copy())
