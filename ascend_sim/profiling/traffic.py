"""What the cores of one launch did, counted from its trace: bytes by path, fractals and repeats by type.

Counts are sums over all blocks, by kind of core (``AICORE``, ``AIC``, ``AIV``).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache

from ascend_sim.engine.trace import KernelTrace
from ascend_sim.isa.instr import CubeWork, Load3dWork, MoveWork, VectorWork
from ascend_sim.ops.cost import traces
from ascend_sim.ops.registry import find_kernel
from ascend_sim.ops.schema import OpCall
from ascend_sim.soc import Soc


@dataclass
class Traffic:
    """``moved`` bytes by path (``GM_L1``), ``fractals`` by input type of the cube, ``repeats`` of 256 bytes by type of
    vector instructions, ``read`` the repeats' operands, ``conflicts`` repeats that pay a bank conflict, and how many
    instructions each pipe executed by its name in traces."""

    moved: Counter[str] = field(default_factory=Counter)
    fractals: Counter[str] = field(default_factory=Counter)
    repeats: Counter[str] = field(default_factory=Counter)
    operands: int = 0
    conflicts: int = 0


# vector instructions with two operands, by name without the leading v
TWO_OPERANDS = ("add", "sub", "mul", "div", "max", "min", "and", "or", "cmp", "sel", "mla", "madd", "axpy", "addrelu",
                "subrelu", "cmpv", "muladd")  # fmt: skip


def of_launch(call: OpCall | None, part: int, soc: Soc) -> dict[str, Traffic]:
    """Traffic of the launch ``part`` of an operator by kind of core; empty when there is no trace of it."""
    if call is None or find_kernel(call.type) is None:
        return {}
    known = traces(call, soc)
    return of_trace(known[part]) if part < len(known) else {}


@lru_cache(maxsize=4096)
def of_trace(trace: KernelTrace) -> dict[str, Traffic]:
    found: dict[str, Traffic] = {}
    for index, times in Counter(trace.block_of).items():
        block = trace.blocks[index]
        for program, kind in zip(block.programs, block.kinds, strict=True):
            into = found.setdefault(kind, Traffic())
            for work, count in zip(program.works, program.counts.tolist(), strict=True):
                if count:
                    _add(into, work, count * times)
    return found


def _add(into: Traffic, work: object, times: int) -> None:
    if isinstance(work, MoveWork):
        into.moved[work.path] += work.bursts * work.burst_bytes * times
    elif isinstance(work, Load3dWork):
        into.moved[work.path] += work.nbytes * times
    elif isinstance(work, CubeWork):
        into.fractals[work.dtype] += work.m * work.k * work.n * times
    elif isinstance(work, VectorWork):
        into.repeats[work.dtype.partition("_")[0]] += work.repeats * times
        into.operands += work.repeats * times * (2 if work.op.removeprefix("v") in TWO_OPERANDS else 1)
        into.conflicts += work.bank_conflicts * times
