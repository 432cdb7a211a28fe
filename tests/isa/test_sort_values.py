"""Sorting instructions against Python's stable sort of (score, index) pairs and of region proposals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from strength import cases

from ascend_sim import asc
from ascend_sim.asc import adv

PAIRS, PROPOSALS = "Ascend910B2", "Ascend310P3"
seeds = st.integers(0, 1 << 30)
floats = st.sampled_from(["float16", "float32"])


def scores(rng: np.random.Generator, n: int, dtype: str) -> np.ndarray:
    return rng.integers(-20, 20, n).astype(dtype)  # many ties


def pairs(score: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Bytes of (score, index) pairs, eight to a pair."""
    raw = np.zeros((len(score), 8), np.uint8)
    raw[:, : score.itemsize] = np.ascontiguousarray(score).reshape(-1, 1).view(np.uint8)
    raw[:, 4:] = np.ascontiguousarray(index.astype(np.uint32)).reshape(-1, 1).view(np.uint8)
    return raw.reshape(-1)


def descending(values: list[Any]) -> list[int]:
    """Positions in the order of a stable descending sort."""
    return sorted(range(len(values)), key=lambda i: -float(values[i]))


def local(dtype: str, at: int, n: int) -> asc.LocalTensor:
    return asc.LocalTensor(dtype, asc.TPosition.VECCALC, at, n)


@cases(dtype=floats, repeats=st.integers(0, 7), seed=seeds, chip=st.sampled_from([PAIRS, "Ascend310B1"]))
def test_sort32(bench: Any, dtype: str, repeats: int, seed: int, chip: str) -> None:
    rng, b, n = np.random.default_rng(seed), bench(chip), repeats * 32
    s, i = scores(rng, n, dtype), rng.integers(0, 1 << 32, n, dtype=np.uint32)
    b.put("UB", s, 0)
    b.put("UB", i, 8192)
    size = np.dtype(dtype).itemsize

    def program() -> None:
        asc.sort32(local(dtype, 16384, n * 8 // size), local(dtype, 0, n), local("uint32", 8192, n), repeats)

    before = b.get("UB", np.uint8, 8192, 16384)
    b.run(program)
    want = before.copy()
    for r in range(repeats):
        order = [r * 32 + k for k in descending(list(s[r * 32 : r * 32 + 32]))]
        want[r * 256 : r * 256 + 256] = pairs(s[order], i[order])
    np.testing.assert_array_equal(b.get("UB", np.uint8, 8192, 16384), want)


def merged(queues: list[np.ndarray], stop: bool) -> tuple[list[tuple[int, int]], list[int]]:
    """(queue, position) in merged order and elements taken; ties go to the earlier queue."""
    at, out = [0] * len(queues), []
    while any(at[q] < len(queues[q]) for q in range(len(queues))):
        heads = [(-float(queues[q][at[q]]), q) for q in range(len(queues)) if at[q] < len(queues[q])]
        q = min(heads)[1]
        out.append((q, at[q]))
        at[q] += 1
        if stop and at[q] == len(queues[q]):
            break
    return out, at


def draw_queues(rng: np.random.Generator, lengths: list[int], dtype: str) -> list[np.ndarray]:
    return [np.sort(scores(rng, n, dtype))[::-1] for n in lengths]


@cases(dtype=floats, lengths=st.lists(st.integers(1, 40), min_size=2, max_size=4), stop=st.booleans(), seed=seeds)
def test_mrg_sort(bench: Any, dtype: str, lengths: list[int], stop: bool, seed: int) -> None:
    rng, b = np.random.default_rng(seed), bench(PAIRS)
    queues = draw_queues(rng, lengths, dtype)
    indices = [rng.integers(0, 1 << 32, n, dtype=np.uint32) for n in lengths]
    for q, (s, i) in enumerate(zip(queues, indices, strict=True)):
        b.put("UB", pairs(s, i), q * 1024)
    per = 8 // np.dtype(dtype).itemsize
    total = sum(lengths)
    padded = (*lengths, *[0] * (4 - len(lengths)))

    def program() -> Any:
        sources = [local(dtype, q * 1024, n * per) for q, n in enumerate(lengths)]
        info = asc.MrgSort4Info(padded, stop, {2: 3, 3: 7, 4: 15}[len(lengths)], 1)
        asc.mrg_sort(local(dtype, 16384, total * per), asc.MrgSortSrcList(dtype, *sources), info)
        return asc.get_mrg_sort_result()

    taken = b.run(program)
    order, counts = merged(queues, stop)
    assert [int(x) for x in taken[: len(lengths)]] == counts
    want = pairs(np.array([queues[q][k] for q, k in order]), np.array([indices[q][k] for q, k in order]))
    np.testing.assert_array_equal(b.get("UB", np.uint8, len(want), 16384), want)


@cases(dtype=floats, length=st.integers(1, 20), repeats=st.integers(1, 5), seed=seeds)
def test_mrg_sort_repeats(bench: Any, dtype: str, length: int, repeats: int, seed: int) -> None:
    """Each repeat merges the four adjacent queues behind those of the one before."""
    rng, b, per = np.random.default_rng(seed), bench(PAIRS), 8 // np.dtype(dtype).itemsize
    queues = draw_queues(rng, [length] * 4 * repeats, dtype)
    index = np.arange(4 * repeats * length, dtype=np.uint32)
    b.put("UB", pairs(np.concatenate(queues), index), 0)
    taken: list[int] = [0] * 4

    def program() -> None:
        sources = [local(dtype, q * length * 8, length * per * 4 * repeats) for q in range(4)]
        target = local(dtype, 65536, 4 * length * per * repeats)
        asc.mrg_sort(target, asc.MrgSortSrcList(dtype, *sources), [length] * 4, taken, 15, repeats, False)

    b.run(program)
    rows = []
    for r in range(repeats):
        order, _ = merged(queues[4 * r : 4 * r + 4], False)
        rows += [(4 * r + q) * length + k for q, k in order]
    want = pairs(np.concatenate(queues)[rows], index[rows])
    np.testing.assert_array_equal(b.get("UB", np.uint8, len(want), 65536), want)
    assert len(set(taken)) == 1 and taken[0] % length == 0


@pytest.mark.parametrize("chip", [PAIRS, "Ascend310B1"])
@cases(dtype=floats, groups=st.integers(1, 21), full=st.booleans(), seed=seeds)
def test_sort_and_extract(bench: Any, chip: str, dtype: str, groups: int, full: bool, seed: int) -> None:
    rng, b, n = np.random.default_rng(seed), bench(chip), groups * 32
    s, i = scores(rng, n, dtype), rng.permutation(n).astype(np.uint32)
    b.put("UB", s, 0)
    b.put("UB", i, 8192)
    per = 8 // np.dtype(dtype).itemsize

    def program() -> None:
        index = local("uint32", 8192, n)
        target, tmp = local(dtype, 16384, n * per), local(dtype, 32768, n * per)
        ready = local(dtype, 49152, n)
        adv.concat(ready, local(dtype, 0, n), tmp, groups)
        asc.sort(target, ready, index, tmp, groups, full)
        adv.extract(local(dtype, 57344, n), local("uint32", 61440, n), target, groups)

    b.run(program)
    size = n if full else 32
    order = [a + k for a in range(0, n, size) for k in descending(list(s[a : a + size]))]
    np.testing.assert_array_equal(b.get("UB", dtype, n, 57344), s[order])
    np.testing.assert_array_equal(b.get("UB", np.uint32, n, 61440), i[order])


def proposals(rng: np.random.Generator, n: int, dtype: str) -> np.ndarray:
    return rng.integers(-30, 30, (n, 8)).astype(dtype)


@cases(dtype=floats, repeats=st.integers(0, 6), seed=seeds)
def test_rp_sort16(bench: Any, dtype: str, repeats: int, seed: int) -> None:
    rng, b = np.random.default_rng(seed), bench(PROPOSALS)
    rows = proposals(rng, repeats * 16, dtype)
    b.put("UB", rows, 0)
    n = repeats * 128
    b.run(lambda: asc.rp_sort16(local(dtype, 16384, n), local(dtype, 0, n), repeats))
    want = [rows[a + k] for a in range(0, repeats * 16, 16) for k in descending(list(rows[a : a + 16, 4]))]
    got = b.get("UB", dtype, n, 16384).reshape(-1, 8)
    np.testing.assert_array_equal(got, np.array(want, dtype).reshape(-1, 8))


@cases(dtype=floats, lengths=st.lists(st.integers(1, 20), min_size=2, max_size=4), stop=st.booleans(), seed=seeds)
def test_mrg_sort4(bench: Any, dtype: str, lengths: list[int], stop: bool, seed: int) -> None:
    rng, b, unit = np.random.default_rng(seed), bench(PROPOSALS), 8 * np.dtype(dtype).itemsize
    rows = [proposals(rng, n, dtype) for n in lengths]
    rows = [x[descending(list(x[:, 4]))] for x in rows]
    for q, x in enumerate(rows):
        b.put("UB", x, q * 1024)
    total = sum(lengths)

    def program() -> Any:
        sources = [local(dtype, q * 1024, n * 8) for q, n in enumerate(lengths)]
        info = asc.MrgSort4Info((*lengths, *[0] * (4 - len(lengths))), stop, (1 << len(lengths)) - 1, 1)
        asc.mrg_sort4(local(dtype, 16384, total * 8), asc.MrgSortSrcList(dtype, *sources), info)
        return asc.get_mrg_sort_result()

    taken = b.run(program)
    order, counts = merged([x[:, 4] for x in rows], stop)
    assert [int(x) for x in taken[: len(lengths)]] == counts
    want = np.array([rows[q][k] for q, k in order])
    np.testing.assert_array_equal(b.get("UB", dtype, want.size, 16384).reshape(want.shape), want)
    assert unit * total <= 16384


@cases(dtype=floats, repeats=st.integers(0, 6), field=st.integers(0, 5), seed=seeds)
def test_proposal_concat(bench: Any, dtype: str, repeats: int, field: int, seed: int) -> None:
    rng, b, n = np.random.default_rng(seed), bench(PROPOSALS), repeats * 16
    rows, values = proposals(rng, n, dtype), scores(rng, n, dtype)
    b.put("UB", rows, 0)
    b.put("UB", values, 16384)
    b.run(lambda: asc.proposal_concat(local(dtype, 0, n * 8), local(dtype, 16384, n), repeats, field))
    rows[:, field] = values
    np.testing.assert_array_equal(b.get("UB", dtype, n * 8, 0).reshape(-1, 8), rows)


@cases(dtype=floats, repeats=st.integers(0, 6), field=st.integers(0, 5), seed=seeds)
def test_proposal_extract(bench: Any, dtype: str, repeats: int, field: int, seed: int) -> None:
    rng, b, n = np.random.default_rng(seed), bench(PROPOSALS), repeats * 16
    rows = proposals(rng, n, dtype)
    b.put("UB", rows, 0)
    b.run(lambda: asc.proposal_extract(local(dtype, 16384, n), local(dtype, 0, n * 8), repeats, field))
    np.testing.assert_array_equal(b.get("UB", dtype, n, 16384), rows[:, field])


def test_nan_sorts_last(bench: Any) -> None:
    b = bench(PAIRS)
    s = np.arange(32, dtype=np.float32)
    s[3] = np.nan
    b.put("UB", s, 0)
    b.put("UB", np.arange(32, dtype=np.uint32), 8192)
    b.run(lambda: asc.sort32(local("float32", 16384, 64), local("float32", 0, 32), local("uint32", 8192, 32), 1))
    index = b.get("UB", np.uint32, 64, 16384)[1::2]
    assert index[0] == 31 and index[-1] == 3


def test_lengths_of_sorted_queues(bench: Any) -> None:
    b = bench(PAIRS)
    assert b.run(lambda: (asc.get_sort_len(64, "float32"), asc.get_sort_offset(64, "float16"))) == (128, 256)
    assert bench(PROPOSALS).run(lambda: asc.get_sort_len(64, "float16")) == 512
