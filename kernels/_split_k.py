"""Products with a long K and a small result: the cores split K, and the vector cores add their parts.

Parts of K are batches: `Source.matrix` is the distance between them. Each leaves a float32 result in the workspace;
these are summed in fixed order, so that the result does not depend on which core is done first (hicann/ops-nn,
deterministic split-K, restated; there one MIX kernel, here launches one after the other), and cast where the output is
narrower.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ascend_sim.isa.layout import ceil_div
from ascend_sim.ops.registry import find_kernel
from ascend_sim.ops.schema import OpCall, TensorSpec, freeze_attrs

from ._layouts import rewire
from ._matmul import Source
from ._matmul_tiling import MatmulProblem

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

PARTS, SUM = ("workspace", 200), ("workspace", 201)  # float32 results of the parts, and their sum


def parts_of_k(p: MatmulProblem, soc: Soc) -> int:
    """Parts into which the stock rules cut K (hicann/ops-nn, multi-core split-K, restated): K >= 384 x cores with
    fewer 128 x 128 tiles than half of the cores (unless A is plain and B transposed), K >= 27392, or float32 with
    M, N <= 64 and K >= 6144. 1 where they do not apply or no even cut exists."""
    cores = soc.cores.ai_core_count
    tiles = ceil_div(p.m, 128) * ceil_div(p.n, 128)
    if not soc.chip.split_cores or p.batch > 1 or p.nz or p.bias or 2 * tiles >= cores:
        return 1
    short = p.item == 4 and p.m <= 64 and p.n <= 64 and p.k >= 6144
    long = p.k >= 384 * cores and (p.trans_a or not p.trans_b)
    if not (short or long or p.k >= 27392):
        return 1
    units, rest = divmod(p.k, 16)
    return 1 if rest else max(n for n in range(1, cores // tiles + 1) if units % n == 0)


def part(source: Source, size: int) -> Source:
    """The operand whose matrices are stretches of ``size`` of K."""
    return replace(source, matrix=size if source.k_outer else size * source.pitch)


def finish(launch: Any, y: TensorSpec, parts: int, soc: Soc) -> list[Any]:
    """``launch``, which leaves ``parts`` results, the sum of these, and a cast where the output is not float32."""
    add, cast = find_kernel("ReduceSumD"), find_kernel("Cast")
    assert add is not None and cast is not None
    wide = TensorSpec((y.size,), "float32")
    call = OpCall("ReduceSumD", (TensorSpec((parts, y.size), "float32"),), (wide,), freeze_attrs({"axes": (0,)}))
    narrow = y.dtype != "float32"
    sums = {("in", 0): PARTS, ("out", 0): SUM if narrow else ("out", 0)}
    steps = [rewire(launch, {("out", 0): PARTS}), *(rewire(step, sums) for step in add(call, soc))]
    if narrow:
        call = OpCall("Cast", (wide,), (replace(wide, dtype=y.dtype),), freeze_attrs({"dst_type": y.dtype}))
        steps += [rewire(step, {("in", 0): SUM}) for step in cast(call, soc)]
    return steps
