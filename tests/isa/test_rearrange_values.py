"""Instructions that move lanes about, stated element by element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from lane_statement import f16, f32, i16, i32, lane_on, masks, u16, u32
from strength import cases

from ascend_sim import asc
from ascend_sim.isa.legality import InstructionError

seeds = st.integers(0, 1 << 30)
V = asc.TPosition.VECCALC
WORDS = [f16, f32, i16, i32, u16, u32]


def numbers(rng: np.random.Generator, n: int, dtype: str) -> np.ndarray:
    return rng.integers(0, 1000, n).astype(dtype)


@pytest.mark.parametrize("chip", ["Ascend310P3", "Ascend310B1"])
@cases(dtype=st.sampled_from(WORDS), seed=seeds, repeats=st.integers(0, 4), src_rep=st.sampled_from([0, 8, 10]),
       data=st.data(), base=st.integers(0, 8))  # fmt: skip
def test_scatter(
    bench: Any, chip: str, dtype: str, seed: int, repeats: int, src_rep: int, data: st.DataObject, base: int
) -> None:
    """Offsets of one instruction are different: the order of equal ones is not documented."""
    rng, b, size = np.random.default_rng(seed), bench(chip), np.dtype(dtype).itemsize
    width = 256 // size
    count = data.draw(st.one_of(st.none(), st.integers(1, 300)))
    mask = data.draw(masks(width))
    lanes = count if count is not None else repeats * width
    x, before = numbers(rng, 2048, dtype), numbers(rng, 1024, dtype)
    where = rng.permutation(1000)[: max(lanes, 1)]
    b.put("UB", x, 0)
    b.put("UB", (where * size).astype(np.uint32), 16384)
    b.put("UB", before, 32768)

    def program() -> None:
        dst, src = asc.LocalTensor(dtype, V, 32768, 1024), asc.LocalTensor(dtype, V, 0, 2048)
        offsets = asc.LocalTensor(u32, V, 16384, max(lanes, 8))
        if count is not None:
            asc.scatter(dst, src, offsets, base * size, count=count)
        else:
            asc.scatter(dst, src, offsets, base * size, mask, repeats, src_rep)

    b.run(program)
    want = before.copy()
    for lane in range(lanes):
        r, place = divmod(lane, width)
        if count is not None:
            want[where[lane] + base] = x[lane]
        elif lane_on(mask, place):
            want[where[lane] + base] = x[r * src_rep * 32 // size + place]
    np.testing.assert_array_equal(b.get("UB", dtype, 1024, 32768), want)


@pytest.mark.parametrize("chip", ["Ascend910B2", "Ascend310B1", "Ascend310P3"])
@cases(dtype=st.sampled_from([i16, f16, i32, f32]), first=st.integers(-500, 500), data=st.data(),
       repeats=st.integers(0, 4), blk=st.integers(1, 2), rep=st.sampled_from([8, 16, 17]))  # fmt: skip
def test_create_vec_index(
    bench: Any, chip: str, dtype: str, first: int, data: st.DataObject, repeats: int, blk: int, rep: int
) -> None:
    b, size = bench(chip), np.dtype(dtype).itemsize
    width, per = 256 // size, 32 // size
    count = data.draw(st.one_of(st.none(), st.integers(0, 700)))
    mask = data.draw(masks(width))
    before = np.full(4096, 7, dtype)
    b.put("UB", before, 0)

    def program() -> None:
        dst = asc.LocalTensor(dtype, V, 0, 4096)
        if count is not None:
            asc.arange(dst, first, count)
        else:
            asc.create_vec_index(dst, first, mask, repeats, blk, rep)

    b.run(program)
    want = before.copy()
    if count is not None:
        want[:count] = first + np.arange(count)
    else:
        for r in range(repeats):
            for lane in range(width):
                if lane_on(mask, lane):
                    want[r * rep * per + lane // per * blk * per + lane % per] = first + r * width + lane
    np.testing.assert_array_equal(b.get("UB", dtype, 4096, 0), want)


@cases(thorough=90, dtype=st.sampled_from([f16, f32, u16, u32]), repeats=st.integers(0, 5), blk=st.integers(1, 2),
       rep=st.sampled_from([8, 16]), seed=seeds)  # fmt: skip
def test_gatherb(bench: Any, dtype: str, repeats: int, blk: int, rep: int, seed: int) -> None:
    rng, b = np.random.default_rng(seed), bench("Ascend910B2")
    raw, before = rng.integers(0, 256, (128, 32)).astype(np.uint8), rng.integers(0, 256, 8192).astype(np.uint8)
    which = rng.integers(0, 128, repeats * 8)
    b.put("UB", raw, 0)
    b.put("UB", (which * 32).astype(np.uint32), 4096)
    b.put("UB", before, 8192)
    n = 8192 // np.dtype(dtype).itemsize

    def program() -> None:
        source = asc.LocalTensor(dtype, V, 0, n // 2)
        offsets = asc.LocalTensor(u32, V, 4096, 64)
        asc.gatherb(asc.LocalTensor(dtype, V, 8192, n), source, offsets, repeats, asc.GatherRepeatParams(blk, rep))

    b.run(program)
    want = before.copy()
    for i, block in enumerate(which):
        at = (i // 8 * rep + i % 8 * blk) * 32
        want[at : at + 32] = raw[block]
    np.testing.assert_array_equal(b.get("UB", np.uint8, 8192, 8192), want)


@cases(dtype=st.sampled_from([f16, f32, u16, i32]), repeats=st.integers(1, 4), seed=seeds, data=st.data(),
       src_blk=st.integers(1, 2), src_rep=st.sampled_from([0, 8, 16]), pattern_rep=st.integers(0, 2))  # fmt: skip
def test_gather_mask_by_tensor(
    bench: Any, dtype: str, repeats: int, seed: int, data: st.DataObject, src_blk: int, src_rep: int, pattern_rep: int
) -> None:
    rng, b, size = np.random.default_rng(seed), bench("Ascend910B2"), np.dtype(dtype).itemsize
    width, per = 256 // size, 32 // size
    count = data.draw(st.one_of(st.none(), st.integers(1, width)))
    elements = count or width
    x = numbers(rng, 4096, dtype)
    bits = rng.integers(0, 256, 512).astype(np.uint8)
    b.put("UB", x, 0)
    b.put("UB", bits, 16384)
    word = u16 if size == 2 else u32

    def program() -> int:
        pattern = asc.LocalTensor(word, V, 16384, 512 // size)
        params = asc.GatherMaskParams(src_blk, repeats, src_rep, pattern_rep)
        dst, src = asc.LocalTensor(dtype, V, 20480, 2048), asc.LocalTensor(dtype, V, 0, 4096)
        asc.gather_mask(dst, src, pattern, count is not None, count or 0, params)
        return asc.get_gather_mask_remain_count()

    kept = b.run(program)
    want = []
    for r in range(repeats):
        for lane in range(elements):
            byte = bits[r * pattern_rep * 32 + lane // 8]
            if byte >> lane % 8 & 1:
                want.append(x[r * src_rep * per + lane // per * src_blk * per + lane % per])
    assert kept == len(want)
    np.testing.assert_array_equal(b.get("UB", dtype, len(want), 20480), np.array(want, dtype))


@cases(n=st.integers(1, 2), c=st.integers(1, 20), hw=st.sampled_from([32, 64, 96]), seed=seeds,
       dtype=st.sampled_from(["int8", f16, f32, u32]), chip=st.sampled_from(["Ascend910B2", "Ascend310P3"]),
       back=st.booleans())  # fmt: skip
def test_transpose_images(
    bench: Any, n: int, c: int, hw: int, seed: int, dtype: str, chip: str, back: bool
) -> None:
    if dtype in (f32, u32) and chip == "Ascend310P3":
        return
    rng, b = np.random.default_rng(seed), bench(chip)
    x = rng.integers(-100, 100, (n, hw, c) if back else (n, c, hw)).astype(dtype)
    b.put("UB", x, 0)
    kind = asc.TransposeType.TRANSPOSE_NHWC2NCHW if back else asc.TransposeType.TRANSPOSE_NCHW2NHWC
    limit = 49152 // np.dtype(dtype).itemsize

    def program() -> None:
        params = asc.TransposeParamsExt(n, c, hw // 32, 32, kind)
        tensors = [asc.LocalTensor(dtype, V, at, limit) for at in (49152, 0, 98304)]
        asc.transpose(*tensors, params)

    b.run(program)
    np.testing.assert_array_equal(b.get("UB", dtype, x.size, 49152), x.transpose(0, 2, 1).reshape(-1))


@cases(dtype=st.sampled_from([f16, i16, u16]), seed=seeds,
       chip=st.sampled_from(["Ascend910B2", "Ascend310P3", "Ascend310", "Ascend310B1"]))  # fmt: skip
def test_transpose_square(bench: Any, dtype: str, seed: int, chip: str) -> None:
    b = bench(chip)
    x = numbers(np.random.default_rng(seed), 256, dtype)
    b.put("UB", x, 0)
    b.run(lambda: asc.transpose(asc.LocalTensor(dtype, V, 1024, 256), asc.LocalTensor(dtype, V, 0, 256)))
    np.testing.assert_array_equal(b.get("UB", dtype, 256, 1024).reshape(16, 16), x.reshape(16, 16).T)


@cases(repeats=st.integers(1, 3), seed=seeds, as_tensor=st.booleans())
def test_trans_data_to_5hd_by_address(bench: Any, repeats: int, seed: int, as_tensor: bool) -> None:
    """Rows by byte address, also read from tensors of addresses: 16 rows of 16 halves to 16 columns."""
    b = bench("Ascend910B2")
    x = numbers(np.random.default_rng(seed), 16 * 16 * repeats, f16).reshape(16, repeats, 16)
    b.put("UB", x, 0)
    sources = [i * repeats * 32 for i in range(16)]
    targets = [8192 + i * repeats * 32 for i in range(16)]
    b.put("UB", np.array(targets, np.uint64), 16384)
    b.put("UB", np.array(sources, np.uint64), 16512)

    def program() -> None:
        params = asc.TransDataTo5HDParams(False, False, repeats, 1, 1)
        if as_tensor:
            lists = [asc.LocalTensor("uint64", V, at, 16) for at in (16384, 16512)]
            asc.trans_data_to_5hd(*lists, params, f16)
        else:
            asc.trans_data_to_5hd(targets, sources, params, f16)

    b.run(program)
    got = b.get("UB", f16, 256 * repeats, 8192).reshape(16, repeats, 16)
    np.testing.assert_array_equal(got, x.transpose(2, 1, 0))


@cases(dtype=st.sampled_from([f16, u16, f32, i32]), mask=st.integers(1, 64), repeats=st.integers(0, 5),
       blk=st.lists(st.integers(1, 2), min_size=2, max_size=2), src_rep=st.sampled_from([0, 8, 16]),
       seed=seeds)  # fmt: skip
def test_copy(bench: Any, dtype: str, mask: int, repeats: int, blk: list[int], src_rep: int, seed: int) -> None:
    rng, b, per = np.random.default_rng(seed), bench("Ascend910B2"), 32 // np.dtype(dtype).itemsize
    x, before = numbers(rng, 4096, dtype), numbers(rng, 4096, dtype)
    b.put("UB", x, 0)
    b.put("UB", before, 32768)

    def program() -> None:
        dst, src = asc.LocalTensor(dtype, V, 32768, 4096), asc.LocalTensor(dtype, V, 0, 4096)
        asc.copy(dst, src, mask, repeats, asc.CopyRepeatParams(*blk, 24, src_rep))

    b.run(program)
    want = before.copy()
    for r in range(repeats):
        for lane in range(mask):
            at = r * 24 * per + lane // per * blk[0] * per + lane % per
            want[at] = x[r * src_rep * per + lane // per * blk[1] * per + lane % per]
    np.testing.assert_array_equal(b.get("UB", dtype, 4096, 32768), want)


def test_offsets_outside_the_tensor_are_named(bench: Any) -> None:
    b = bench("Ascend310P3")
    b.put("UB", np.array([0, 2, 4, 4000], np.uint32), 4096)

    def program() -> None:
        tensors = [asc.LocalTensor(f16, V, 8192, 16), asc.LocalTensor(f16, V, 0, 16), asc.LocalTensor(u32, V, 4096, 8)]
        asc.scatter(*tensors, 0, count=4)

    with pytest.raises(InstructionError, match=r"dst_offset.*4000") as error:
        b.run(program)
    assert error.value.place is not None and error.value.place[0] == __file__
