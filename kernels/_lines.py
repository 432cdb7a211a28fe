"""Vector work on a tile of rows: reductions along rows, and applying per-row values or a row vector to all rows.

A tile is ``rows`` rows of ``io.pitch`` elements (see `_rows`). Reductions first fold each row into one 256-byte
repeat, all rows at once where the row pitch fits the 8-bit repeat stride, then reduce each repeat to one value with
the whole-repeat instructions, or by halves and the scalar unit where the chip lacks them for the type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ascend_sim import asc
from ascend_sim.isa.dtypes import as_dtype

from ._rows import Rows
from ._vector import BLOCK, MAX_REPEATS, REPEAT, align, ceil_div, item_bytes, legal, vector_cores

if TYPE_CHECKING:
    from ascend_sim.ops.schema import TensorSpec
    from ascend_sim.soc import Soc

COMBINE: dict[str, Callable[..., Any]] = {"sum": asc.add, "max": asc.max, "min": asc.min, "prod": asc.mul}
_WHOLE = {"sum": "vcadd", "max": "vcmax", "min": "vcmin"}
_PYTHON: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda a, b: a + b, "max": max, "min": min, "prod": lambda a, b: a * b,
}  # fmt: skip


def neutral(how: str, dtype: str) -> float:
    """The value that leaves a reduction unchanged."""
    if how in ("sum", "prod"):
        return 0 if how == "sum" else 1
    if dtype == "int32":
        return -(2**31) if how == "max" else 2**31 - 1
    big = 65504.0 if dtype == "float16" else 3.4028234663852886e38
    return -big if how == "max" else big


class Heap:
    """Hands out UB from the bottom."""

    def __init__(self) -> None:
        self.at = 0

    def take(self, dtype: str, elements: int) -> asc.LocalTensor:
        tensor = asc.LocalTensor(dtype, asc.TPosition.VECCALC, self.at, max(elements, 1))
        self.at += align(max(elements, 1) * item_bytes(dtype), BLOCK)
        return tensor


@dataclass(frozen=True)
class Lines:
    """Rows of ``io`` in work type ``dtype`` on a chip that can (``brcb``) broadcast blocks."""

    io: Rows
    dtype: str
    brcb: bool
    whole: frozenset[str]

    @property
    def width(self) -> int:
        """Elements of a repeat."""
        return REPEAT // item_bytes(self.dtype)

    @property
    def stride(self) -> int:
        """Row pitch in 32-byte blocks."""
        return self.io.pitch * item_bytes(self.dtype) // BLOCK

    def reduce(
        self, how: str, data: asc.LocalTensor, rows: int, scratch: asc.LocalTensor, out: asc.LocalTensor
    ) -> None:
        """out[r] = row r of ``data`` reduced; ``scratch`` holds a repeat per row."""
        asc.duplicate(scratch, neutral(how, self.dtype), count=rows * self.width)
        self.fold(how, data, rows, scratch)
        self.finish(how, scratch, rows, out)

    def fold(self, how: str, data: asc.LocalTensor, rows: int, scratch: asc.LocalTensor) -> None:
        """Combine every row's elements into its repeat of ``scratch``."""
        combine, width, io = COMBINE[how], self.width, self.io
        main = io.pitch - io.unit if io.repeated else io.length
        lanes = ((1 << io.unit) - 1) & ~((1 << io.repeated) - 1)
        if self.stride <= 255:
            params = asc.BinaryRepeatParams(1, 1, 1, 8, self.stride, 8)
            for r in range(0, rows, MAX_REPEATS):
                n, part = min(MAX_REPEATS, rows - r), scratch[r * width :]
                for c in range(0, main, width):
                    combine(part, data[r * io.pitch + c :], part, min(width, main - c), n, params)
                if io.repeated:
                    combine(part, data[r * io.pitch + main :], part, [lanes, 0], n, params)
            return
        in_place = asc.BinaryRepeatParams(1, 1, 1, 0, 8, 0)
        for r in asc.steady(rows):
            part, line = scratch[r * width :], data[r * io.pitch :]
            repeats, rest = divmod(main, width)
            for first in range(0, repeats, MAX_REPEATS):
                n = min(MAX_REPEATS, repeats - first)
                combine(part, line[first * width :], part, width, n, in_place)
            if rest:
                combine(part, line[repeats * width :], part, rest, 1, asc.BinaryRepeatParams())
            if io.repeated:
                combine(part, line[main:], part, [lanes, 0], 1, asc.BinaryRepeatParams())

    def finish(self, how: str, scratch: asc.LocalTensor, rows: int, out: asc.LocalTensor) -> None:
        """One value per repeat of ``scratch``."""
        width = self.width
        if how in self.whole:
            for r in range(0, rows, MAX_REPEATS):
                n, part = min(MAX_REPEATS, rows - r), scratch[r * width :]
                if how == "sum":
                    asc.whole_reduce_sum(out[r:], part, width, n, 1, 1, 8)
                else:
                    extreme = asc.whole_reduce_max if how == "max" else asc.whole_reduce_min
                    extreme(out[r:], part, width, n, 1, 1, 8, asc.ReduceOrder.ORDER_ONLY_VALUE)
            return
        combine, n = COMBINE[how], width // 2
        block = BLOCK // item_bytes(self.dtype)
        while n >= block:
            for r in range(0, rows, MAX_REPEATS):
                m, part = min(MAX_REPEATS, rows - r), scratch[r * width :]
                combine(part, part, part[n:], n, m, asc.BinaryRepeatParams())
            n //= 2
        vector_to_scalar()
        for r in asc.steady(rows):
            total = scratch.get_value(r * width)
            for i in range(1, block):
                total = _PYTHON[how](total, scratch.get_value(r * width + i))
            out.set_value(r, total)
        asc.set_flag(asc.HardEvent.S_V, 3)
        asc.wait_flag(asc.HardEvent.S_V, 3)

    def spread(
        self,
        how: str,
        dst: asc.LocalTensor,
        src: asc.LocalTensor,
        values: asc.LocalTensor,
        rows: int,
        blocks: asc.LocalTensor | None,
    ) -> None:
        """dst = src ``how`` values[r] along every row (sub, mul, add, div); ``blocks`` is room for a block per row."""
        io, width = self.io, self.width
        operation = {"sub": asc.sub, "mul": asc.mul, "add": asc.add, "div": asc.div}[how]
        if self.brcb and blocks is not None:
            for first in range(0, ceil_div(rows, 8), MAX_REPEATS):
                n = min(MAX_REPEATS, ceil_div(rows, 8) - first)
                lanes = BLOCK // item_bytes(self.dtype)
                asc.brcb(blocks[first * 8 * lanes :], values[first * 8 :], n, asc.BrcbRepeatParams(1, 8))
            lanes = BLOCK // item_bytes(self.dtype)
            if self.stride <= 255:
                params = asc.BinaryRepeatParams(1, 1, 0, self.stride, self.stride, 1)
                for r in range(0, rows, MAX_REPEATS):
                    n = min(MAX_REPEATS, rows - r)
                    for c in range(0, io.pitch, width):
                        at = r * io.pitch + c
                        operation(dst[at:], src[at:], blocks[r * lanes :], min(width, io.pitch - c), n, params)
                return
            params = asc.BinaryRepeatParams(1, 1, 0, 8, 8, 0)
            repeats, rest = divmod(io.pitch, width)
            for r in asc.steady(rows):
                for first in range(0, repeats, MAX_REPEATS):
                    at, n = r * io.pitch + first * width, min(MAX_REPEATS, repeats - first)
                    operation(dst[at:], src[at:], blocks[r * lanes :], width, n, params)
                if rest:
                    at = r * io.pitch + repeats * width
                    operation(dst[at:], src[at:], blocks[r * lanes :], rest, 1, params)
            return
        vector_to_scalar()
        scalar = {"sub": asc.adds, "add": asc.adds, "mul": asc.muls}[how]
        for r in asc.steady(rows):
            value = values.get_value(r)
            scalar(dst[r * io.pitch :], src[r * io.pitch :], -value if how == "sub" else value, count=io.pitch)

    def across(self, how: str, dst: asc.LocalTensor, src: asc.LocalTensor, vector: asc.LocalTensor, rows: int) -> None:
        """dst = src ``how`` vector (one value per column) for every row (mul, add)."""
        io, width = self.io, self.width
        operation = {"mul": asc.mul, "add": asc.add}[how]
        if self.stride <= 255:
            params = asc.BinaryRepeatParams(1, 1, 1, self.stride, self.stride, 0)
            for r in range(0, rows, MAX_REPEATS):
                n = min(MAX_REPEATS, rows - r)
                for c in range(0, io.pitch, width):
                    at = r * io.pitch + c
                    operation(dst[at:], src[at:], vector[c:], min(width, io.pitch - c), n, params)
            return
        for r in asc.steady(rows):
            operation(dst[r * io.pitch :], src[r * io.pitch :], vector, count=io.pitch)


def vector_to_scalar() -> None:
    """Let the scalar unit wait for the vector unit."""
    asc.set_flag(asc.HardEvent.V_S, 3)
    asc.wait_flag(asc.HardEvent.V_S, 3)


def store_results(target: asc.GlobalTensor, results: asc.LocalTensor, n: int, padded: bool) -> None:
    """Store ``n`` values; without byte-exact DMA the scalar unit brings those that do not fill a block."""
    unit = BLOCK // results.dtype.size
    whole = n // unit * unit
    if padded and whole < n:
        asc.data_copy_pad(target, results, asc.DataCopyParams(1, n * results.dtype.size, 0, 0))
        return
    if whole:
        asc.data_copy(target, results, whole)
    if whole < n:
        asc.set_flag(asc.HardEvent.V_S, 2)
        asc.wait_flag(asc.HardEvent.V_S, 2)
        for i in range(whole, n):
            target.set_value(i, results.get_value(i))


def lines_of(soc: Soc, io: Rows, dtype: str) -> Lines:
    """Row work on this chip."""
    whole = frozenset(how for how, name in _WHOLE.items() if legal(soc, name, dtype))
    return Lines(io, as_dtype(dtype).name, legal(soc, "vbrcb", dtype), whole)


def reciprocal(dst: asc.LocalTensor, src: asc.LocalTensor, ones: asc.LocalTensor | None, count: int) -> None:
    """dst = 1 / src; ``ones`` is room for a dividend on chips with vdiv, None without."""
    if ones is None:
        asc.reciprocal(dst, src, count=count)
        return
    asc.duplicate(ones, 1.0, count=count)
    asc.div(dst, ones, src, count=count)


def line_launch(
    function: Any, x: TensorSpec, y: TensorSpec, plan: Any, signature: Any, blocks: int, soc: Soc, serial: bool = False
) -> asc.Launch:
    """Launch of a kernel that turns ``x`` into ``y`` line by line on the vector cores."""
    return asc.Launch(
        function,
        block_dim=blocks,
        kind=vector_cores(soc)[0],
        args=(("in", 0), ("out", 0)),
        gm=[("x", x.dtype, x.nbytes, "in"), ("y", y.dtype, y.nbytes, "out")],
        consts={"plan": plan},
        soc=soc,
        signature=signature,
        code="norm",
        serial=serial,
    )
