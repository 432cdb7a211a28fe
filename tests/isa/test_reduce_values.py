"""Reducing instructions against statements over single lanes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from strength import cases

from ascend_sim import asc

CHIP = "Ascend910B2"
types = st.sampled_from(["float16", "float32"])


def active(mask: Any, width: int) -> list[int]:
    if isinstance(mask, int):
        return list(range(mask))
    return [i for i in range(width) if mask[i // 64] >> i % 64 & 1]


def draw_mask(data: st.DataObject, width: int) -> Any:
    bits = st.lists(st.integers(1, (1 << min(width, 64)) - 1), min_size=width // 64, max_size=width // 64)
    return data.draw(st.one_of(st.integers(1, width), bits))


def operands(bench: Any, dtype: str, seed: int) -> tuple[Any, np.ndarray, np.ndarray]:
    b = bench(CHIP)
    rng = np.random.default_rng(seed)
    # small integers: sums are exact in any order
    x = rng.integers(-9, 10, 32768 // np.dtype(dtype).itemsize).astype(dtype)
    d = rng.integers(-9, 10, 8192 // np.dtype(dtype).itemsize).astype(dtype)
    b.put("UB", d, 0)
    b.put("UB", x, 32768)
    return b, x, d


def issue(b: Any, dtype: str, call: Any) -> None:
    b.run(lambda: call(*(asc.LocalTensor(dtype, asc.TPosition.VECIN, at) for at in (0, 32768))))


@pytest.mark.parametrize("kind", ["sum", "max", "min"])
@cases(dtype=types, data=st.data(), seed=st.integers(0, 99), repeat=st.integers(1, 5), blk=st.integers(1, 2),
       rep=st.sampled_from([0, 8, 16]), out=st.integers(1, 3))  # fmt: skip
def test_whole_reduce(
    bench: Any, kind: str, dtype: str, data: st.DataObject, seed: int, repeat: int, blk: int, rep: int, out: int
) -> None:
    size = np.dtype(dtype).itemsize
    width, per = 256 // size, 32 // size
    mask = draw_mask(data, width)
    lanes = active(mask, width)
    b, x, d = operands(bench, dtype, seed)
    order = data.draw(st.sampled_from(list(asc.ReduceOrder)))
    if kind == "sum":
        issue(b, dtype, lambda t, s: asc.whole_reduce_sum(t, s, mask, repeat, out, blk, rep))
    else:
        call = asc.whole_reduce_max if kind == "max" else asc.whole_reduce_min
        issue(b, dtype, lambda t, s: call(t, s, mask, repeat, out, blk, rep, order))
    index_type = np.uint16 if size == 2 else np.uint32
    for r in range(repeat):
        values = [float(x[(r * rep + i // per * blk) * per + i % per]) for i in lanes]
        if kind == "sum":
            d[r * out] = sum(values)
            continue
        best = max(values) if kind == "max" else min(values)
        index = np.array([lanes[values.index(best)]], index_type).view(dtype)[0]
        if order == asc.ReduceOrder.ORDER_ONLY_VALUE:
            d[r * out] = best
        elif order == asc.ReduceOrder.ORDER_ONLY_INDEX:
            d[r * out] = index
        else:
            pair = [best, index] if order == asc.ReduceOrder.ORDER_VALUE_INDEX else [index, best]
            d[r * out * 2 : r * out * 2 + 2] = pair
    np.testing.assert_array_equal(b.get("UB", dtype, len(d)).view(np.uint8), d.view(np.uint8))


@pytest.mark.parametrize("kind", ["sum", "max", "min"])
@cases(dtype=types, data=st.data(), seed=st.integers(0, 99), repeat=st.integers(1, 5), blk=st.integers(1, 2))
def test_block_reduce(
    bench: Any, kind: str, dtype: str, data: st.DataObject, seed: int, repeat: int, blk: int
) -> None:
    per = 32 // np.dtype(dtype).itemsize
    width = per * 8
    mask = draw_mask(data, width)
    b, x, d = operands(bench, dtype, seed)
    call = {"sum": asc.block_reduce_sum, "max": asc.block_reduce_max, "min": asc.block_reduce_min}[kind]
    issue(b, dtype, lambda t, s: call(t, s, repeat, mask, 1, blk, 16))
    for r in range(repeat):
        for block in range(8):
            lanes = [i for i in active(mask, width) if i // per == block]
            values = [x[(r * 16 + block * blk) * per + i % per] for i in lanes]
            if values:
                d[r * 8 + block] = {"sum": sum, "max": max, "min": min}[kind](values)
    np.testing.assert_array_equal(b.get("UB", dtype, len(d)), d)


@cases(dtype=types, repeat=st.integers(1, 5), seed=st.integers(0, 99), n=st.integers(1, 64))
def test_pair_reduce(bench: Any, dtype: str, repeat: int, seed: int, n: int) -> None:
    width = 256 // np.dtype(dtype).itemsize
    b, x, d = operands(bench, dtype, seed)
    issue(b, dtype, lambda t, s: asc.pair_reduce_sum(t, s, repeat, n, 1, 1, 8))
    for r in range(repeat):
        for pair in range((n + 1) // 2):
            lanes = [x[r * width + i] for i in (2 * pair, 2 * pair + 1) if i < n]
            d[r * width // 2 + pair] = sum(lanes)
    np.testing.assert_array_equal(b.get("UB", dtype, len(d)), d)


@cases(dtype=types, n=st.integers(1, 3000), seed=st.integers(0, 99))
def test_tensor_reduce(bench: Any, dtype: str, n: int, seed: int) -> None:
    b, x, _ = operands(bench, dtype, seed)

    def program() -> None:
        s = asc.LocalTensor(dtype, asc.TPosition.VECIN, 32768)
        tmp = asc.LocalTensor(dtype, asc.TPosition.VECCALC, 1024)
        size = np.dtype(dtype).itemsize
        outs = [asc.LocalTensor(dtype, asc.TPosition.VECIN, i * 32, 32 // size) for i in range(3)]
        asc.reduce_sum(outs[0], s, tmp, n)
        asc.reduce_max(outs[1], s, tmp, n, True)
        asc.reduce_min(outs[2], s, tmp, n)

    b.run(program)
    per = 32 // np.dtype(dtype).itemsize
    got = b.get("UB", dtype, 3 * per)
    part = x[:n].astype(np.float64)
    assert got[0] == part.sum()
    assert got[per] == part.max()
    index = got[per + 1 : per + 2].view(np.uint16 if per == 16 else np.uint32)[0]
    assert index == part.argmax()
    assert got[2 * per] == part.min()


def test_order_of_sums_documented(bench: Any) -> None:
    """asc-devkit's example of half sums: 60000 + 60000 saturates, then -30000 + 100, in a saturating chip's tree."""
    x = np.array([60000, 60000, -30000, 100], np.float16)
    b = bench("Ascend910A")
    b.put("UB", x, 32768)
    issue(b, "float16", lambda t, s: asc.whole_reduce_sum(t, s, 4, 1, 1, 1, 8))
    # (60000 + 60000 -> 65504) + (-30000 + 100), rounded to half
    assert b.get("UB", np.float16, 1)[0] == np.float16(65504 - 29900)


@pytest.mark.parametrize("chip", ["Ascend910B2", "Ascend310P3"])
def test_float_sum_order(bench: Any, chip: str) -> None:
    """910B adds repeat results one after the other, the others by a tree (asc-devkit, reduce notes)."""
    x = np.random.default_rng(3).uniform(0, 1, 64 * 5).astype(np.float32)
    b = bench(chip)
    b.put("UB", x, 32768)

    def program() -> None:
        s, d = (asc.LocalTensor("float32", asc.TPosition.VECIN, at) for at in (32768, 0))
        asc.reduce_sum(d, s, asc.LocalTensor("float32", asc.TPosition.VECCALC, 1024), 320)

    b.run(program)

    def tree(v: np.ndarray) -> np.float32:
        while len(v) > 1:
            v = np.array([v[i] + v[i + 1] for i in range(0, len(v), 2)], np.float32)
        return v[0]

    rows = [tree(row) for row in x.reshape(5, 64)]
    if chip == "Ascend910B2":
        want = rows[0]
        for value in rows[1:]:
            want = np.float32(want + value)
    else:
        want = tree(np.array(rows + [np.float32(0)] * 3, np.float32))
    assert b.get("UB", np.float32, 1)[0] == want
