"""Cost of collective communication: D = alpha + n beta + n gamma a step, summed over the steps of the algorithm.

The model is the one of HCCL's public documentation (Ascend CANN, HCCL user guide): alpha is the latency of a step, beta
the time to send a byte over one link, gamma the time to reduce a byte. Inside a server the devices are a full mesh:
every pair has its own link and a device uses all at once. Every figure is the chip's (``[link]``, ``[memory]``).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, log2
from typing import TYPE_CHECKING

from ascend_sim.runtime.link import picoseconds

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

ALGORITHMS = ("mesh", "ring")


@dataclass(frozen=True)
class Step:
    """``times`` equal steps that each send ``nbytes`` over one link and reduce ``reduced`` bytes."""

    times: int
    nbytes: int
    reduced: int = 0


def _part(nbytes: int, ranks: int) -> int:
    return ceil(nbytes / ranks)


def steps(name: str, nbytes: int, ranks: int, algorithm: str = "mesh") -> list[Step]:
    """Steps of a collective. ``nbytes`` is the whole message of one rank: the tensor of allreduce, broadcast, reduce,
    send; the *gathered* tensor of allgather; the *full* input of reduce_scatter, alltoall, scatter and gather.

    ValueError for a name or algorithm that does not exist."""
    if algorithm not in ALGORITHMS:
        raise ValueError(f"algorithm {algorithm!r}: expected one of {', '.join(ALGORITHMS)}")
    if ranks <= 1 or nbytes == 0:
        return [Step(1, 0)]
    part = _part(nbytes, ranks)
    mesh = algorithm == "mesh"
    gather = [Step(1 if mesh else ranks - 1, part)]
    # in a mesh all parts arrive in one step, and are reduced one after the other
    scatter = [Step(1, part, part * (ranks - 1)) if mesh else Step(ranks - 1, part, part)]
    known = {
        "allreduce": [*scatter, *gather],
        "reduce_scatter": scatter,
        "allgather": gather,
        "broadcast": [*gather, *gather],  # scatter the parts, then gather them
        "reduce": [*scatter, *gather],
        "scatter": gather,
        "gather": gather,
        "alltoall": [Step(1, part)] if mesh else [Step(ranks - 1, part)],
        "send": [Step(1, nbytes)],
        "recv": [Step(1, nbytes)],
        "barrier": [Step(max(1, ceil(log2(ranks))), 0)],
    }
    if name not in known:
        raise ValueError(f"collective {name!r}: expected one of {', '.join(known)}")
    return known[name]


def collective_ps(soc: Soc, name: str, nbytes: int, ranks: int, algorithm: str = "mesh") -> int:
    """Duration in ps of a collective on devices of one server."""
    link = soc.link
    alpha = picoseconds(link.peer_fixed_us)
    beta = 1000 / Fraction(str(link.peer_gbps))
    gamma = 2 * 1000 / Fraction(str(soc.memory.read_gbps))  # two operands are read for every reduced byte
    total = Fraction(0)
    for step in steps(name, nbytes, ranks, algorithm):
        total += step.times * (alpha + step.nbytes * beta + step.reduced * gamma)
    return round(total)
