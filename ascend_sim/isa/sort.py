"""Semantics of the sorting instructions: pairs of score and index (310B, 910B) and region proposals (310, 910, 310P).

A pair takes 8 bytes: the score in the low bytes (half or float32), a uint32 index in the high four; half pairs leave
two bytes between. A region proposal is eight elements: x1, y1, x2, y2, score, label and two reserved. Everything sorts
by score, greatest first; of equal scores the earlier one comes first. Source: asc-devkit, pages Sort32, MrgSort,
RpSort16, MrgSort4, ProposalConcat, ProposalExtract.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.isa.buffers import View
from ascend_sim.isa.instr import Pipe
from ascend_sim.isa.rows import instruction, observed

Array = NDArray[Any]
V = Pipe.V
PAIR = 8  # bytes of a (score, index) pair
SCORE = 4  # element of a region proposal that it is sorted by
GROUP = 16  # proposals per repeat


def _descending(scores: Array) -> Array:
    """Stable order, greatest first, along the last axis. NaN counts as smallest."""
    keys = np.where(np.isnan(scores), -np.inf, scores.astype(np.float32))
    return np.argsort(-keys, axis=-1, kind="stable")


@instruction(
    "vbitsort32", "sort32", V, "each repeat sorts 32 scores with their indices into (score, index) pairs",
    "src0 half or float32, src1 uint32", "src1 starts on 128 bytes, src0 on 32 elements, dst on 256 bytes",
    "repeat_times 0..255",
)  # fmt: skip
def run_sort32(dst: View, scores: View, index: View, repeats: int) -> None:
    if not repeats:
        return
    n = repeats * 32
    s = scores.flat(n).reshape(repeats, 32)
    i = index.flat(n).reshape(repeats, 32)
    order = _descending(s)
    size = scores.dtype.size
    raw = dst.flat(n * PAIR // size).view(np.uint8).reshape(n, PAIR)
    raw[:, :size] = np.take_along_axis(s, order, 1).reshape(-1, 1).view(np.uint8)
    if size == 2:
        raw[:, 2:4] = 0
    raw[:, 4:] = np.take_along_axis(i, order, 1).reshape(-1, 1).view(np.uint8)


def merge_order(scores: Sequence[Array], stop: bool) -> tuple[Array, list[int]]:
    """How sorted queues interleave: (queue number of each output, elements taken of each queue). ``stop``: end when a
    queue that had elements runs out."""
    taken = [0] * len(scores)
    out: list[int] = []
    keys = [np.where(np.isnan(s), -np.inf, s.astype(np.float32)).tolist() for s in scores]
    sizes = [len(s) for s in keys]
    while True:
        best = -1
        for q, key in enumerate(keys):
            if taken[q] < sizes[q] and (best < 0 or key[taken[q]] > keys[best][taken[best]]):
                best = q
        if best < 0:
            break
        out.append(best)
        taken[best] += 1
        if stop and taken[best] == sizes[best]:
            break
    return np.array(out, np.int64), taken


def _merge(
    dst: View, sources: Sequence[View], lengths: Sequence[int], stop: bool, repeats: int, unit: int, at: int
) -> list[int]:
    """Merge queues of ``unit``-byte items whose score lies ``at`` bytes into the item; every repeat goes on behind the
    queues of the one before."""
    size = dst.dtype.size
    step, taken = sum(lengths) * unit, [0] * len(lengths)
    for r in range(repeats):
        items = [
            s.strided((n * unit // size,), (size,), r * step).view(np.uint8).reshape(n, unit)
            for s, n in zip(sources, lengths, strict=True)
        ]
        scores = [np.ascontiguousarray(x[:, at : at + size]).view(dst.dtype.np).reshape(-1) for x in items]
        order, done = merge_order(scores, stop)
        out = np.empty((len(order), unit), np.uint8)
        for q, rows in enumerate(items):
            out[order == q] = rows[: done[q]]
        target = dst.strided((out.size // size,), (size,), r * step)
        target[...] = out.reshape(-1).view(dst.dtype.np)
        taken = [x + y for x, y in zip(taken, done, strict=True)]
    return taken


@instruction(
    "vmrgsort4v2", "mrg_sort", V, "up to four sorted queues of (score, index) pairs merged into one",
    "element_lengths 0..4095 in pairs; valid_bit 3, 7 or 15; dst and sources do not overlap",
    "repeat_times above 1 needs four equally long adjacent queues without suspension",
)  # fmt: skip
def run_merge_pairs(
    dst: View, sources: Sequence[View], lengths: Sequence[int], stop: bool, repeats: int
) -> list[int]:
    """Returns how many pairs of each queue were taken."""
    return _merge(dst, sources, lengths, stop, repeats, PAIR, 0)


@instruction(
    "vmrgsort4", "mrg_sort4", V, "up to four sorted queues of region proposals merged into one",
    "element_lengths 0..4095 in proposals; valid_bit 3, 7 or 15; dst and sources do not overlap",
    "repeat_times above 1 needs four equally long adjacent queues without suspension",
)  # fmt: skip
def run_merge_proposals(
    dst: View, sources: Sequence[View], lengths: Sequence[int], stop: bool, repeats: int
) -> list[int]:
    """Returns how many proposals of each queue were taken."""
    size = dst.dtype.size
    return _merge(dst, sources, lengths, stop, repeats, 8 * size, SCORE * size)


@instruction(
    "vbitsort", "rp_sort16", V, "each repeat sorts 16 region proposals by score", "repeat_times 0..255"
)
def run_rp_sort16(dst: View, src: View, repeats: int) -> None:
    if not repeats:
        return
    rows = src.flat(repeats * GROUP * 8).reshape(repeats, GROUP, 8)
    order = _descending(rows[:, :, SCORE])
    dst.flat(repeats * GROUP * 8).reshape(repeats, GROUP, 8)[...] = np.take_along_axis(rows, order[..., None], 1)


@instruction(
    "vconcat", "proposal_concat", V, "each repeat puts 16 elements into one field of 16 region proposals",
    "repeat_times 0..255, mode_number 0..5 (x1 y1 x2 y2 score label)",
)  # fmt: skip
def run_proposal_concat(dst: View, src: View, repeats: int, field: int) -> None:
    n = repeats * GROUP
    if n:
        dst.flat(n * 8).reshape(n, 8)[:, field] = src.flat(n)


@instruction(
    "vextract", "proposal_extract", V, "each repeat takes one field out of 16 region proposals",
    "repeat_times 0..255, mode_number 0..5 (x1 y1 x2 y2 score label)",
)  # fmt: skip
def run_proposal_extract(dst: View, src: View, repeats: int, field: int) -> None:
    n = repeats * GROUP
    if n:
        dst.flat(n)[...] = src.flat(n * 8).reshape(n, 8)[:, field].copy()


@observed
def run_extract_pairs(dst: Sequence[View], src: View, count: int) -> None:
    """Scores and indices of ``count`` pairs, apart: ``dst`` is (values, indices)."""
    value, index = dst
    size = value.dtype.size
    raw = src.flat(count * PAIR // size).view(np.uint8).reshape(count, PAIR)
    value.flat(count)[...] = np.ascontiguousarray(raw[:, :size]).view(value.dtype.np).reshape(-1)
    index.flat(count)[...] = np.ascontiguousarray(raw[:, 4:]).view(np.uint32).reshape(-1)
