"""Cast of int64 on chips whose vector unit has no 64-bit conversions: the scalar unit reads each number and leaves its
low word, or whether it is zero; the vector unit makes floats of the words.

For short tensors (masks, positions) only; numbers beyond 32 bits wrap on the way to floats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ascend_sim import asc
from ascend_sim.ops.registry import NoKernel
from ascend_sim.ops.schema import OpCall

from ._flat import global_tensor
from ._vector import BLOCK, align, ceil_div, deal, item_bytes, memory_dtype, vector_cores

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

UNIT = 32  # numbers whose results fill whole blocks of every type
LIMIT = 16384  # numbers; the scalar unit is slow
TYPES = ("bool", "int32", "float16", "float32")


@dataclass(frozen=True)
class Cast64Plan:
    """``total`` numbers, ``block`` of them on each core; the last core steps back to end where the tensor ends."""

    total: int
    block: int
    target: str

    def first(self, index: int) -> int:
        return max(min(index * self.block, self.total - self.block), 0)


def _word(value: int) -> int:
    low = value & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low


@asc.jit
def cast64_kernel(src: asc.GlobalAddress, dst: asc.GlobalAddress, plan: Cast64Plan) -> None:
    """Convert this core's numbers."""
    source, target = global_tensor(src), global_tensor(dst)
    start, size = plan.first(asc.get_block_idx()), align(plan.block, UNIT)
    numbers = asc.LocalTensor("int64", asc.TPosition.VECCALC, 0, size)
    flags = plan.target == "bool"
    words = asc.LocalTensor("uint8" if flags else "int32", asc.TPosition.VECCALC, 8 * size, size)
    whole = plan.block % UNIT == 0
    if whole:
        asc.data_copy(numbers.reinterpret_cast("uint32"), source[start:].reinterpret_cast("uint32"), 2 * size)
        asc.pipe_barrier(asc.PipeID.ALL)
    for i in asc.steady(plan.block):
        value = int(numbers.get_value(i) if whole else source.get_value(start + i))
        words.set_value(i, int(value != 0) if flags else _word(value))
    asc.pipe_barrier(asc.PipeID.ALL)
    result = words
    if plan.target.startswith("float"):
        result = asc.LocalTensor("float32", asc.TPosition.VECCALC, 12 * size, size)
        asc.cast(result, words, asc.RoundMode.CAST_NONE, size)
        if plan.target == "float16":
            asc.pipe_barrier(asc.PipeID.V)
            narrow = asc.LocalTensor("float16", asc.TPosition.VECCALC, 16 * size, size)
            asc.cast(narrow, result, asc.RoundMode.CAST_NONE, size)
            result = narrow
        asc.pipe_barrier(asc.PipeID.ALL)
    if whole:
        asc.data_copy(target[start:], result, size)
        return
    for i in range(plan.block):
        target.set_value(start + i, result.get_value(i))


def cast64_launch(call: OpCall, soc: Soc) -> asc.Launch:
    """The launch of a Cast of int64. Raises `NoKernel` for long tensors and other targets than `TYPES`."""
    x, y = call.inputs[0], call.outputs[0]
    if x is None or y.dtype not in TYPES or not 0 < y.size <= LIMIT:
        raise NoKernel(f"int64 -> {y.dtype} of {y.size} elements by the scalar unit")
    kind, cores = vector_cores(soc)
    block, blocks = deal(y.size, cores, UNIT) if y.size >= UNIT else (y.size, 1)
    block = min(block, y.size // UNIT * UNIT or y.size)
    blocks = ceil_div(y.size, block)
    if align(block, UNIT) * 18 + BLOCK > soc.buffers.ub_bytes:
        raise NoKernel(f"{block} numbers on a core")
    dtype = memory_dtype(y.dtype)
    assert item_bytes(x.dtype) == 8
    return asc.Launch(
        cast64_kernel, block_dim=blocks, kind=kind, args=(("in", 0), ("out", 0)),
        gm=[("x", "int64", x.nbytes, "in"), ("y", dtype, y.nbytes, "out")],
        consts={"plan": Cast64Plan(y.size, block, y.dtype)}, soc=soc,
        signature=lambda block: 0,
    )  # fmt: skip
