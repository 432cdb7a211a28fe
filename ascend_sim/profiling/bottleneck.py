"""What bounds an operator, in the words of msopprof's roofline view.

An operator is compared with the roofs of global memory and L2: the share of its time that the work takes at peak.
Above 0.8 it is bound by compute or memory, whichever is the longer at peak; else by latency: of the pipeline when no
pipe is busy for 80 % of the time in the core, otherwise of the kind of the busiest pipe. Source: Ascend/msopprof,
roofline.cpp and user guide.
"""

from __future__ import annotations

from collections.abc import Mapping

from ascend_sim import ops
from ascend_sim.ops.cost import compute_ps
from ascend_sim.ops.registry import find
from ascend_sim.ops.schema import OpCall
from ascend_sim.ops.work import work_of
from ascend_sim.soc import Soc

COMPUTE, MEMORY = "compute bound", "memory bound"
PIPELINE = "latency bound:pipeline caused"
MEMORY_LATENCY, COMPUTE_LATENCY = "latency bound:memory caused", "latency bound:compute caused"
BOUND, BUSY = 0.8, 0.8
MTE = ("mte1", "mte2", "mte3", "aiv_mte2", "fixpipe")

ADVICE = {
    COMPUTE: "The arithmetic runs near its peak: only fewer or cheaper operations (int8, sparsity) help.",
    MEMORY: "Memory runs near its peak: fuse with a neighbour, keep data in L2, or use a narrower type.",
    PIPELINE: "No pipe is busy: the launch, waits between pipes or too few blocks cost the time. Fuse, batch, "
    "or overlap (double buffers, fewer barriers).",
    MEMORY_LATENCY: "Transfers take the time without using the bandwidth: longer bursts, aligned rows, larger tiles.",
    COMPUTE_LATENCY: "Computing takes the time below its peak: longer repeats, full lanes and fractals, no conflicts.",
}


def arithmetic(call: OpCall, soc: Soc) -> tuple[int, float, str]:
    """Operations of a call (a multiply-accumulate is two), the us they take at peak on all cores, and the unit."""
    ops.load()
    op = find(call.type)
    family = op.family if op is not None else ""
    work = work_of(call, family)
    time, unit = compute_ps(call, soc, family)
    return (2 * work.macs if unit == "cube" else work.vector), float(time) / 1e6, unit


def peak_share(us: float, compute_us: float, paths: Mapping[float, int]) -> tuple[float, str]:
    """The best share of a roof that an operation of ``us`` reaches, and which: `COMPUTE` or `MEMORY`.

    ``compute_us`` is the time of its arithmetic at peak, ``paths`` maps bandwidths (GB/s) to bytes moved."""
    best, word = 0.0, MEMORY
    for gbps, nbytes in paths.items():
        move_us = nbytes / gbps / 1e3
        share = max(compute_us, move_us) / us if us else 0.0
        if share > best:
            best, word = share, COMPUTE if compute_us > move_us else MEMORY
    return best, word


def classify(share: float, word: str, ratios: Mapping[str, float]) -> str:
    """One of the five words. ``share`` and ``word`` as `peak_share` gives them; ``ratios`` of the pipes."""
    if share > BOUND:
        return word
    busiest = max(ratios, key=lambda p: (ratios[p], p)) if ratios else ""
    if not busiest or ratios[busiest] < BUSY:
        return PIPELINE
    return MEMORY_LATENCY if busiest in MTE else COMPUTE_LATENCY
