"""What would help a hot operator, found by replaying it on changed chips.

An operator is timed as it ran: with its data in L2, or with the L2 full of other data when it fetched from memory. Then
again with one figure changed; the difference is what that change would bring.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ascend_sim.engine.memory import L2
from ascend_sim.ops.cost import op_timing
from ascend_sim.ops.registry import find_kernel
from ascend_sim.ops.schema import OpCall
from ascend_sim.profiling.optable import Row
from ascend_sim.soc import Soc, SocError

HOT, MOST = 0.02, 6  # share of the time of replayed operators from which an operator is looked at, and how many are

# what is tried: words, and figures with the factor they are multiplied by
CHANGES: tuple[tuple[str, Mapping[str, float]], ...] = (
    ("a core clock 20 % higher", {"cores.clock_mhz": 1.2}),
    ("twice the memory bandwidth", {"memory.read_gbps": 2, "memory.write_gbps": 2}),
    ("twice the L2 bandwidth", {"memory.l2_read_gbps": 2, "memory.l2_write_gbps": 2,
                                "memory.core_l1_bytes_per_cycle": 2, "memory.core_ub_bytes_per_cycle": 2}),
    ("half the issue cost of instructions", {"sync.issue_cycles": 0.5}),
)  # fmt: skip
NO_LAUNCH = "no launch of its own (fused into a neighbour)"


@dataclass(frozen=True)
class Gain:
    """``us`` is the time of one run with the change."""

    change: str
    us: float


def gains(call: OpCall, soc: Soc, cold: bool) -> tuple[float, list[Gain]]:
    """(us of one run, what each change brings, the best first)."""
    base = _timed(call, soc, cold)
    found = [Gain(words, _timed(call, changed, cold).us) for words, changed in variants(soc)]
    found.append(Gain(NO_LAUNCH, base.core_ps / 1e6))
    return base.us, sorted(found, key=lambda g: g.us)


def _timed(call: OpCall, soc: Soc, cold: bool) -> Any:
    l2 = L2(soc)
    if not cold:
        op_timing(call, soc, l2)
        return op_timing(call, soc, l2)
    l2.warm_code()
    return op_timing(call, soc, l2)


@lru_cache(maxsize=16)
def variants(soc: Soc) -> tuple[tuple[str, Soc], ...]:
    """The changed chips; a figure that is 0 stays so, and is left out."""
    found = []
    for words, factors in CHANGES:
        changes = {key: value * by for key, by in factors.items()
                   if key in soc.figures and isinstance(value := soc.figures[key].value, int | float)}  # fmt: skip
        try:
            found.append((words, soc.override(changes)))
        except SocError:
            continue
    return tuple(found)


def _is_operator(call: OpCall) -> bool:
    """Kernels that a program wrote itself have no plan to make again."""
    return find_kernel(call.type) is not None


def hot(rows: Sequence[Row]) -> list[int]:
    """Indices of the operators worth looking at, the busiest first."""
    known = (i for i, row in enumerate(rows) if not row.estimated)
    replayed = [i for i in known if (call := rows[i].call) is not None and _is_operator(call)]
    total = sum(rows[i].ps for i in replayed)
    return [i for i in sorted(replayed, key=lambda i: -rows[i].ps) if rows[i].ps >= HOT * total][:MOST]


def advice(rows: Sequence[Row], soc: Soc) -> list[dict[str, Any]]:
    """For the report: per hot operator its index, ``us`` of a run and ``gains`` as (words, saved share of its time)."""
    found = []
    for index in hot(rows):
        row = rows[index]
        assert row.call is not None
        us, best = gains(row.call, soc, cold=2 * row.hbm_bytes > row.gm_bytes)
        if us:
            found.append({"op": index, "us": us, "gains": [[g.change, max(1 - g.us / us, 0.0)] for g in best]})
    return found
