"""Products with a long K and a small result: the cores split K and add their parts in memory.

Parts of K are batches whose matrices overlap in one C: `Source.matrix` is the distance between parts. The result starts
from zeros and is kept in float32; 16-bit results are cast afterwards. The stock library sums the parts in fixed order
on the vector cores (hicann/ops-nn, deterministic split-K); here they are added in the order in which cores arrive.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ascend_sim.isa.layout import ceil_div
from ascend_sim.ops.registry import find_kernel
from ascend_sim.ops.schema import OpCall, TensorSpec, freeze_attrs

from ._clear import clear_launch
from ._layouts import rewire
from ._matmul import Source
from ._matmul_tiling import MatmulProblem

if TYPE_CHECKING:
    from ascend_sim.soc import Soc

SUM = ("workspace", 200)  # the float32 result


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


def finish(launch: Any, y: TensorSpec, soc: Soc) -> list[Any]:
    """Zeros before ``launch``, which adds to a float32 result, and a cast behind it where the output is narrower."""
    plan = find_kernel("Cast")
    assert plan is not None
    wide = replace(y, dtype="float32", const=None)
    if y.dtype == "float32":
        return [clear_launch(wide.nbytes, ("out", 0), soc), launch]
    cast = plan(OpCall("Cast", (wide,), (y,), freeze_attrs({"dst_type": y.dtype})), soc)
    return [
        clear_launch(wide.nbytes, SUM, soc), rewire(launch, {("out", 0): SUM}),
        *(rewire(step, {("in", 0): SUM}) for step in cast),
    ]  # fmt: skip
