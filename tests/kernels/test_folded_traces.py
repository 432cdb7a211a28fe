"""A trace folds loops and shares one program among like blocks; it must count what every block issues in full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from ascend_sim import ops
from ascend_sim.engine.trace import KernelTrace, TraceBuilder
from ascend_sim.isa.instr import MoveWork, VectorWork
from ascend_sim.ops import registry
from ascend_sim.ops.schema import OpCall, TensorSpec, freeze_attrs
from ascend_sim.soc import load_soc

BLOCKS = "NC1HWC0"
POOL = {"ksize": (1, 1, 3, 3), "strides": (1, 1, 2, 2), "pads": (1, 1, 1, 1), "padding_mode": "CALCULATED"}
TO = {"src_format": "NCHW", "dst_format": BLOCKS}
FROM = {"src_format": BLOCKS, "dst_format": "NCHW"}
Case = tuple[str, list[tuple[int, ...]], str, str, dict[str, Any]]
CASES: list[Case] = [
    ("TransData", [(30, 100, 9, 9)], "", BLOCKS, TO),
    ("TransData", [(30, 100, 9, 9)], BLOCKS, "", FROM),
    ("TransData", [(3, 33, 13, 17)], "", BLOCKS, TO),
    ("TransData", [(20, 50, 160)], "", "FRACTAL_NZ", {"src_format": "ND", "dst_format": "FRACTAL_NZ"}),
    ("TransData", [(777, 67)], "FRACTAL_NZ", "", {"src_format": "FRACTAL_NZ", "dst_format": "ND"}),
    ("MaxPoolV3", [(2, 64, 200, 200)], BLOCKS, BLOCKS, POOL),
    ("AvgPoolV2", [(3, 40, 13, 15)], BLOCKS, BLOCKS, POOL),
    ("GlobalAveragePool", [(3, 40, 13, 15)], BLOCKS, BLOCKS, {}),
    ("ResizeNearestNeighborV2D", [(1, 64, 56, 56)], BLOCKS, BLOCKS, {"size": (112, 112)}),
    ("ResizeBilinearV2D", [(2, 64, 50, 50)], BLOCKS, BLOCKS, {"size": (71, 83)}),
    ("Mul", [(3, 40, 13, 15), (3, 40, 1, 1)], BLOCKS, BLOCKS, {}),
    ("Mul", [(50, 333, 64), (50, 1, 64)], "", "", {}),
    ("Add", [(777, 67), (67,)], "", "", {}),
    ("Add", [(3, 70001), (3, 70001)], "", "", {}),
    ("SoftmaxV2", [(777, 67)], "", "", {"axes": (-1,)}),
    ("SoftmaxV2", [(90, 7, 1111)], "", "", {"axes": (1,)}),
    ("ReduceSumD", [(3, 70001)], "", "", {"axes": (1,)}),
    ("ReduceMaxD", [(90, 7, 1111)], "", "", {"axes": (1,)}),
    ("ArgMaxD", [(777, 67)], "", "", {"dimension": 1}),
    ("TransposeD", [(777, 67)], "", "", {"perm": (1, 0)}),
    ("ConcatD", [(90, 7, 60), (90, 9, 60)], "", "", {"concat_dim": 1}),
    ("SliceD", [(777, 67)], "", "", {"offsets": (1, 16), "size": (776, 47)}),
    ("RmsNorm", [(777, 67), (67,)], "", "", {}),
]


def stored(shape: tuple[int, ...], fmt: str) -> TensorSpec:
    if fmt == BLOCKS:
        n, c, h, w = shape
        return TensorSpec((n, -(-c // 16), h, w, 16), "float16", fmt, shape, "NCHW")
    if fmt == "FRACTAL_NZ":
        *b, m, k = shape
        return TensorSpec((*b, -(-k // 16), -(-m // 16), 16, 16), "float16", fmt, shape, "ND")
    return TensorSpec(shape, "float16", "NCHW" if len(shape) == 4 else "ND")


def counts(trace: KernelTrace) -> list[tuple[int, dict[Any, int]]]:
    """Per block: instructions executed, and how often each work. Global addresses count as aligned to 32 bytes or
    not, which is what timing asks; bank conflicts, which depend on every local address, are left out."""
    found = []
    for index in trace.block_of:
        program = trace.blocks[index].programs[0]
        works: dict[Any, int] = {}
        for work, n in zip(program.works, program.counts.tolist(), strict=True):
            key: Any = work
            if isinstance(work, MoveWork):
                key = work._replace(align=32 if work.align >= 32 else 1)
            elif isinstance(work, VectorWork):
                key = work._replace(bank_conflicts=0)
            works[key] = works.get(key, 0) + n
        found.append((program.executed, works))
    return found


def unfolded(self: TraceBuilder, indices: Sequence[int], tail: int = 2) -> Iterator[int]:
    yield from indices


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{'x'.join(map(str, c[1][0]))}")
def test_folding_and_sharing_lose_nothing(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    op, shapes, fmt, out_fmt, attrs = case
    ops.load()
    plan = registry.find_kernel(op)
    assert plan is not None
    logical = [stored(s, "") for s in shapes]
    outs = ops.infer(op, logical, attrs)
    results = [TensorSpec(o.shape, o.dtype, o.format) for o in outs]
    if out_fmt:
        results[0] = stored(outs[0].logical_shape, out_fmt)
    call = OpCall(op, tuple(stored(s, fmt) for s in shapes), tuple(results), freeze_attrs(attrs))
    for chip in ("Ascend310P3", "Ascend910B2"):
        for launch in plan(call, load_soc(chip)):
            short = counts(launch.trace())
            launch.signature = None  # type: ignore[attr-defined]
            with monkeypatch.context() as patch:
                patch.setattr(TraceBuilder, "steady", unfolded)
                full = counts(launch.trace())
            assert short == full, chip
