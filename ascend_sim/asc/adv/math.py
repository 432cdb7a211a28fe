"""Element functions: ``tanh(dst, src, count, temp_buffer, is_reuse_source)`` and its like.

The language composes them of vector instructions; here each is its number of passes over the operands, with the values
of `ascend_sim.isa.functions`.
"""

from __future__ import annotations

from typing import Any

from ascend_sim.asc.calls_vector import axpy as _axpy
from ascend_sim.asc.calls_vector import issue, named, operand
from ascend_sim.asc.checked import Checked, check_operand, check_overlap
from ascend_sim.asc.machine import current
from ascend_sim.asc.tensor import LocalTensor
from ascend_sim.isa import functions
from ascend_sim.isa.buffers import REPEAT
from ascend_sim.isa.instr import VectorWork
from ascend_sim.isa.lanes import Lanes
from ascend_sim.isa.layout import ceil_div
from ascend_sim.isa.legality import InstructionError

_INTEGER = ("int16", "uint16")


def _apply(
    call: str, dst: LocalTensor, sources: tuple[LocalTensor, ...], count: int | None, temp: LocalTensor | None
) -> None:
    core = current()
    legal = _INTEGER if call == "xor" else ("float16", "float32")
    if any(t.dtype is not dst.dtype for t in sources) or dst.dtype.name not in legal:
        given = ", ".join(t.dtype.name for t in (dst, *sources))
        raise InstructionError(call, "data types", given, f"all alike, {' or '.join(legal)}")
    n = min(t.get_size() for t in (dst, *sources)) if count is None else int(count)
    if n < 0:
        raise InstructionError(call, "count", n, "must not be negative")
    operands = [operand("dst", dst, call), *(operand(f"src{i}", t, call) for i, t in enumerate(sources))]
    nbytes = n * dst.dtype.size
    for o in operands:
        check_operand(core.rules, call, o, nbytes)
    for o in operands[1:]:
        check_overlap(call, operands[0], nbytes, o, nbytes)
    if temp is not None:
        check_operand(core.rules, call, operand("temp_buffer", temp, call), 0)
    if not n:
        return
    passes = (functions.TWO if call in functions.TWO else functions.ONE)[call][1]
    # half is computed in float32, in between two conversions
    wide = dst.dtype.name == "float16"
    size = 4 if wide else dst.dtype.size
    repeats = ceil_div(n * size, REPEAT)
    op, dtype = ("vand", dst.dtype.name) if call == "xor" else ("vmul", "float32")
    works = [VectorWork(op, dtype, repeats, core.rules.counter_mode)] * passes
    if wide:
        works = [
            *[VectorWork("vconv", "float16_float32", repeats, core.rules.counter_mode)] * len(sources), *works,
            VectorWork("vconv", "float32_float16", repeats, core.rules.counter_mode),
        ]  # fmt: skip
    issue(core, Checked(tuple(works), Lanes(n)), dst, *sources, temp)
    if core.memory is not None:
        functions.run_function(core.view(dst), [core.view(t) for t in sources], n, call)


def _one(call: str, text: str) -> Any:
    def function(
        dst: LocalTensor, src: LocalTensor, count: int | None = None, temp_buffer: LocalTensor | None = None,
        is_reuse_source: bool = False,
    ) -> None:  # fmt: skip
        _apply(call, dst, (src,), count, temp_buffer)

    return named(function, call, f"dst = {text}. half or float32.")


def _two(call: str, text: str) -> Any:
    def function(
        dst: LocalTensor, src0: LocalTensor, src1: LocalTensor, count: int | None = None,
        temp_buffer: LocalTensor | None = None, is_reuse_source: bool = False,
    ) -> None:  # fmt: skip
        _apply(call, dst, (src0, src1), count, temp_buffer)

    return named(function, call, f"dst = {text}.")


acos = _one("acos", "arc cosine of src")
acosh = _one("acosh", "area hyperbolic cosine of src")
asin = _one("asin", "arc sine of src")
asinh = _one("asinh", "area hyperbolic sine of src")
atan = _one("atan", "arc tangent of src")
atanh = _one("atanh", "area hyperbolic tangent of src")
ceil = _one("ceil", "src rounded up")
cos = _one("cos", "cosine of src")
cosh = _one("cosh", "hyperbolic cosine of src")
digamma = _one("digamma", "derivative of the logarithm of gamma(src)")
erf = _one("erf", "error function of src")
erfc = _one("erfc", "1 - error function of src")
floor = _one("floor", "src rounded down")
frac = _one("frac", "src less its integer part")
lgamma = _one("lgamma", "logarithm of |gamma(src)|")
log = _one("log", "natural logarithm of src")
round = _one("round", "src rounded half to even")
sign = _one("sign", "-1, 0 or 1")
sin = _one("sin", "sine of src")
sinh = _one("sinh", "hyperbolic sine of src")
tan = _one("tan", "tangent of src")
tanh = _one("tanh", "hyperbolic tangent of src")
trunc = _one("trunc", "src rounded towards zero")
power = _two("power", "src0 to the power src1, half or float32")
xor = _two("xor", "src0 exclusive or src1, int16 or uint16")


def exp(
    dst: LocalTensor, src: LocalTensor, count: int | None = None, taylor_expand_level: int = 0,
    temp_buffer: LocalTensor | None = None, is_reuse_source: bool = False,
) -> None:  # fmt: skip
    """dst = e ** src by a table of whole powers and ``taylor_expand_level`` terms. half or float32."""
    _apply("exp", dst, (src,), count, temp_buffer)


def axpy(
    dst: LocalTensor, src: LocalTensor, scalar: float, count: int | None = None,
    temp_buffer: LocalTensor | None = None, is_reuse_source: bool = False,
) -> None:  # fmt: skip
    """dst = src x scalar + dst, the first ``count`` elements."""
    _axpy(dst, src, scalar, count=src.get_size() if count is None else count)
