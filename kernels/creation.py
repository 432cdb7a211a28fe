"""ZerosLike, OnesLike and Fills: every tile is filled by vdup and stored; nothing is loaded. TensorMove: one buffer,
so loads and stores take turns (the published times of the stock kernel are the sums of both)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ascend_sim import asc
from ascend_sim.ops.registry import NoKernel, kernel
from ascend_sim.ops.schema import OpCall, TensorSpec

from ._copy import Box, copy_launch
from ._flat import flat_launch
from ._program import Builder
from ._vector import item_bytes

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

_WORDS = ("float16", "bfloat16", "float32", "int16", "uint16", "int32", "uint32")


@kernel("ZerosLike", "OnesLike", "Fills")
def plan_fill(call: OpCall, soc: Soc) -> list[asc.Launch]:
    """Types that vdup has no form for are filled as words of the same bits. Raises `NoKernel` where there are none."""
    y = call.outputs[0]
    value = {"ZerosLike": 0.0, "OnesLike": 1.0}.get(call.type, float(call.attr("value", 0.0)))
    if y.size == 0:
        raise NoKernel("empty output")
    seen = y
    if y.dtype not in _WORDS:
        item = item_bytes(y.dtype)
        if value != 0 or (item == 1 and y.size % 2) or item not in (1, 8):
            raise NoKernel(f"{call.type} of {y.dtype}")
        seen = TensorSpec((y.size * item // (2 if item == 1 else 4),), "int16" if item == 1 else "int32")
    if seen.dtype in ("bfloat16",) and not soc.chip.split_cores:
        seen = TensorSpec(seen.shape, "uint16")
        if value != 0:
            raise NoKernel(f"{call.type} of {y.dtype} on this chip")
    b = Builder(soc)
    program = b.build(b.dup(value if seen.dtype.startswith(("float", "bfloat")) else int(value), seen.dtype))
    return [flat_launch(program, seen.size, [("y", seen, "out")], [], [0], [], [("out", 0)], soc)]


@kernel("TensorMove")
def plan_move(call: OpCall, soc: Soc) -> list[asc.Launch]:
    x, y = call.inputs[0], call.outputs[0]
    if x is None or x.size == 0:
        raise NoKernel("no input")
    box = Box(0, 1, 0, 0, ((x.size, 1, 1),))
    return [copy_launch([box], [(("in", 0), x)], [(("out", 0), y)], soc, buffers=1)]
