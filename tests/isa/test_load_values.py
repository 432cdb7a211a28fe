"""Loads into L0 fractal by fractal, sparse weights, constant fills, sliced and padded copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from places import from_l0c, nz, reference_im2col, zn, zz
from strength import cases

from ascend_sim import asc
from ascend_sim.isa.legality import InstructionError

P = asc.TPosition
seeds = st.integers(0, 1 << 30)
f16, f32, i8 = "float16", "float32", "int8"


def whole(dtype: Any, array: np.ndarray, arg: int = 0) -> asc.GlobalTensor:
    g = asc.GlobalTensor()
    g.set_global_buffer(asc.GlobalAddress(dtype, arg, 0, array.nbytes))
    return g


@cases(dtype=st.sampled_from([f16, f32, i8]), path=st.sampled_from(["L1_L0A", "L1_L0B", "GM_L0A", "GM_L0B", "GM_L1"]),
       start=st.integers(0, 9), repeats=st.integers(0, 6), stride=st.integers(0, 3), gap=st.integers(0, 2),
       down=st.booleans(), turn=st.booleans(), seed=seeds,
       chip=st.sampled_from(["Ascend910B2", "Ascend310P3", "Ascend910A", "Ascend310B1"]))  # fmt: skip
def test_load2d(
    bench: Any, dtype: str, path: str, start: int, repeats: int, stride: int, gap: int, down: bool, turn: bool,
    seed: int, chip: str,
) -> None:  # fmt: skip
    """Fractal ``start + r * stride`` goes to fractal ``r * (1 + gap)``."""
    source, target = path.split("_")
    turn = turn and dtype == f16 and target != "L1"
    if down and repeats:
        start = max(start, (repeats - 1) * stride)
    rng = np.random.default_rng(seed)
    per = 512 // np.dtype(dtype).itemsize
    x = rng.integers(-99, 99, (40, per)).astype(dtype)
    b = bench(chip, "AIC" if chip == "Ascend910B2" else None, [x])
    if source == "L1":
        b.put("L1", x)
    before = rng.integers(-99, 99, (24, per)).astype(dtype)
    at = 65536 if target == "L1" else 0
    b.put(target, before, at)
    position = {"L0A": P.A2, "L0B": P.B2, "L1": P.A1}[target]

    def program() -> None:
        frm = asc.LocalTensor(dtype, P.A1) if source == "L1" else whole(dtype, x)
        params = asc.LoadData2DParams(start, repeats, stride, 0, gap, turn, int(down))
        asc.load_data(asc.LocalTensor(dtype, position, at), frm, params)

    b.run(program)
    want = before.copy()
    for r in range(repeats):
        fractal = x[start + r * stride * (-1 if down else 1)]
        want[r * (1 + gap)] = fractal.reshape(16, 16).T.reshape(-1) if turn else fractal
    np.testing.assert_array_equal(b.get(target, dtype, want.size, at).reshape(want.shape), want)


@cases(thorough=90, dtype=st.sampled_from([f16, f32, i8]), to_b=st.booleans(), start=st.integers(0, 3),
       repeats=st.integers(0, 4), stride=st.integers(0, 3), gap=st.integers(0, 2), between=st.integers(0, 2),
       seed=seeds)  # fmt: skip
def test_load_data_with_transpose(
    bench: Any, dtype: str, to_b: bool, start: int, repeats: int, stride: int, gap: int, between: int, seed: int
) -> None:
    """Square blocks of one fractal (16-bit) or two turned; ``between`` lies between the fractals of a result."""
    rng = np.random.default_rng(seed)
    k0 = 32 // np.dtype(dtype).itemsize
    parts, side = (1, 16) if dtype == f16 else (2, 32 if dtype == i8 else 16)
    squares = rng.integers(-99, 99, (16, side, side)).astype(dtype)
    b = bench("Ascend910B2", "AIC")
    b.put("L1", np.concatenate([nz(s, k0) for s in squares]))
    memory = "L0B" if to_b else "L0A"
    before = rng.integers(-99, 99, (64, 16 * k0)).astype(dtype)
    b.put(memory, before)

    def program() -> None:
        params = asc.LoadData2dTransposeParams(start, repeats, stride, gap, between)
        dst = asc.LocalTensor(dtype, P.B2 if to_b else P.A2)
        asc.load_data_with_transpose(dst, asc.LocalTensor(dtype, P.A1), params)

    b.run(program)
    want = before.copy()
    for r in range(repeats):
        turned = nz(np.ascontiguousarray(squares[start + r * stride].T), k0).reshape(parts, -1)
        for i in range(parts):
            want[r * (1 + gap) + i * (1 + between)] = turned[i]
    np.testing.assert_array_equal(b.get(memory, dtype, want.size).reshape(want.shape), want)


@cases(m=st.integers(1, 33), n=st.integers(1, 33), quads=st.integers(1, 24), seed=seeds, again=st.booleans())
def test_sparse_product(bench: Any, m: int, n: int, quads: int, seed: int, again: bool) -> None:
    """Two of every four weights are kept with their places; the product is that of the dense matrix."""
    rng, k = np.random.default_rng(seed), quads * 4
    dense, kept, entry = np.zeros((k, n), np.int64), np.zeros((k // 2, n), np.int8), np.zeros((k // 2, n), np.uint8)
    for q in range(quads):
        for column in range(n):
            first, second = sorted(rng.choice(4, 2, replace=False))
            values = rng.integers(-9, 10, 2)
            dense[q * 4 + first, column], dense[q * 4 + second, column] = values
            kept[q * 2 : q * 2 + 2, column] = values
            entry[q * 2 : q * 2 + 2, column] = first, second - 1
    a = rng.integers(-9, 10, (m, k)).astype(np.int8)
    entries = zn(entry, 32).reshape(-1, 4)
    index = entries[:, 0] | entries[:, 1] << 2 | entries[:, 2] << 4 | entries[:, 3] << 6
    weights = zn(kept, 32)
    fractals = weights.size // 512
    b = bench("Ascend910B2", "AIC")
    b.put("L0A", zz(a, 32))
    b.put("L1", weights, 512)
    b.put("L1", index.astype(np.uint8), 65536 + 128)

    def program() -> None:
        right = asc.LocalTensor(i8, P.B2)
        asc.load_data_with_sparse(
            right, asc.LocalTensor(i8, P.B1), asc.LocalTensor("uint8", P.B1, 65536),
            asc.LoadData2DParams(1, fractals, 0),
        )  # fmt: skip
        out, left = asc.LocalTensor("int32", P.CO1), asc.LocalTensor(i8, P.A2)
        asc.mmad_with_sparse(out, left, right, asc.MmadParams(m, n, k, cmatrix_init_val=True))
        if again:
            asc.mmad_with_sparse(out, left, right, asc.MmadParams(m, n, k, cmatrix_init_val=False))

    b.run(program)
    want = a.astype(np.int64) @ dense * (2 if again else 1)
    np.testing.assert_array_equal(from_l0c(b, m, n, np.int32), want)


@cases(h=st.integers(3, 7), w=st.integers(3, 7), kh=st.integers(1, 3), kw=st.integers(1, 3), stride=st.integers(1, 2),
       pad=st.integers(0, 1), mode=st.integers(0, 1), half=st.booleans(), seed=seeds,
       chip=st.sampled_from(["Ascend310P3", "Ascend910A"]))  # fmt: skip
def test_load3d_small_channels(
    bench: Any, h: int, w: int, kh: int, kw: int, stride: int, pad: int, mode: int, half: bool, seed: int, chip: str
) -> None:
    """Pixels of 4 halves or 8 bytes; a row of a fractal holds four taps side by side."""
    channels, dtype = (4, f16) if half else (8, i8)
    k0 = 16 if half else 32
    fmap = np.random.default_rng(seed).integers(1, 99, (1, h, w, channels)).astype(dtype)
    full = reference_im2col(fmap, (kh, kw), (stride, stride), (pad,) * 4, (1, 1), 0)
    rows, columns = full.shape
    repeats = -(-columns // k0) if mode == 0 else -(-rows // 16)
    b = bench(chip)
    b.put("L1", fmap)

    def program() -> None:
        params = asc.LoadData3DParamsV1(
            pad_list=(pad,) * 4, l1_h=h, l1_w=w, left_top_w=-pad, left_top_h=-pad, stride_w=stride, stride_h=stride,
            filter_w=kw, filter_h=kh, repeat_mode=mode, repeat_time=repeats, c_size=1,
        )  # fmt: skip
        asc.load_data(asc.LocalTensor(dtype, P.A2), asc.LocalTensor(dtype, P.A1), params)

    b.run(program)
    padded = np.pad(full, ((0, 0), (0, -columns % k0)))
    for r in range(repeats):
        row, column = (0, r * k0) if mode == 0 else (16 * r, 0)
        want = padded[row : row + 16, column : column + k0]
        got = b.get("L0A", dtype, 16 * k0, r * 512).reshape(16, k0)
        np.testing.assert_array_equal(got[: len(want)], want)


@cases(c1=st.integers(2, 4), h=st.integers(2, 6), w=st.integers(2, 6), at=st.integers(1, 40), seed=seeds)
def test_load3d_boundary(bench: Any, c1: int, h: int, w: int, at: int, seed: int) -> None:
    """A feature map that runs past the boundary goes on at the start of L1."""
    fmap = np.random.default_rng(seed).integers(1, 99, (c1, h, w, 16)).astype(f16)
    raw = fmap.reshape(-1).view(np.uint8)
    boundary = 8192
    start = max(boundary - min(at * 32, raw.size), 0)
    b = bench("Ascend310P3")
    b.put("L1", raw[: boundary - start], start)
    b.put("L1", raw[boundary - start :], 0)

    def program() -> None:
        asc.set_load_data_boundary(boundary)
        params = asc.LoadData3DParamsV2((0, 0, 0, 0), h, w, c1 * 16, c1 * 16, h * w)
        asc.load_data(asc.LocalTensor(f16, P.A2), asc.LocalTensor(f16, P.A1, start), params)

    b.run(program)
    want = reference_im2col(fmap, (1, 1), (1, 1), (0,) * 4, (1, 1), 0)
    want = zz(np.pad(want, ((0, -len(want) % 16), (0, 0))), 16)
    np.testing.assert_array_equal(b.get("L0A", f16, want.size), want)


@cases(repeat=st.integers(1, 4), stride=st.integers(1, 3), mode=st.integers(0, 1), seed=seeds)
def test_load3d_repeats(bench: Any, repeat: int, stride: int, mode: int, seed: int) -> None:
    """set_load_data_repeat: windows further along m or k, one behind the other in L0A."""
    fmap = np.random.default_rng(seed).integers(1, 99, (12, 14, 16, 16)).astype(f16)
    full = reference_im2col(fmap, (1, 1), (1, 1), (0,) * 4, (1, 1), 0)
    b = bench("Ascend910B2", "AIC")
    b.put("L1", fmap)

    def program() -> None:
        asc.set_load_data_repeat(asc.LoadDataRepeatParam(repeat, stride, mode))
        params = asc.LoadData3DParamsV2((0, 0, 0, 0), 14, 16, 192, 16, 16)
        asc.load_data(asc.LocalTensor(f16, P.A2), asc.LocalTensor(f16, P.A1), params)

    b.run(program)
    for r in range(repeat):
        m, k = (r * stride * 16, 0) if mode == 0 else (0, r * stride * 16)
        want = zz(full[m : m + 16, k : k + 16], 16)
        np.testing.assert_array_equal(b.get("L0A", f16, 256, r * 512), want)


@cases(thorough=120, place=st.sampled_from(["A1", "A2", "B2"]), dtype=st.sampled_from([f16, f32, "int32"]),
       repeat=st.integers(0, 4), blocks=st.integers(0, 3), gap=st.integers(0, 3), value=st.integers(-9, 9),
       chip=st.sampled_from(["Ascend910B2", "Ascend310B1"]))  # fmt: skip
def test_init_const_value(
    bench: Any, place: str, dtype: str, repeat: int, blocks: int, gap: int, value: int, chip: str
) -> None:
    memory, unit = ("L1", 32) if place == "A1" else (f"L0{place[0]}", 512)
    b = bench(chip, "AIC" if chip == "Ascend910B2" else None)
    n = 16384 // np.dtype(dtype).itemsize
    b.put(memory, np.full(n, 77, dtype))

    def program() -> None:
        params = asc.InitConstValueParams(repeat, blocks, gap, value)
        asc.init_const_value(asc.LocalTensor(dtype, getattr(P, place)), params)

    b.run(program)
    want, step = np.full(n, 77, dtype), unit // np.dtype(dtype).itemsize
    for r in range(repeat):
        first = r * (blocks + gap) * step
        want[first : first + blocks * step] = value
    np.testing.assert_array_equal(b.get(memory, dtype, n), want)


@cases(rows=st.integers(2, 6), pieces=st.integers(1, 3), blocks=st.integers(1, 2), skip=st.integers(0, 2),
       row_skip=st.integers(0, 2), first=st.integers(0, 2), inward=st.booleans(), seed=seeds)  # fmt: skip
def test_slices(
    bench: Any, rows: int, pieces: int, blocks: int, skip: int, row_skip: int, first: int, inward: bool, seed: int
) -> None:
    """Pieces of some rows of a matrix in global memory, packed in the unified buffer, or the way back."""
    length, gap = blocks * 8, skip * 8
    width = first * 8 + pieces * (length + gap) + 8
    matrix = np.random.default_rng(seed).integers(-99, 99, (rows, width)).astype(f32)
    chosen = list(range(0, rows, 1 + row_skip))
    columns = [first * 8 + p * (length + gap) for p in range(pieces)]
    picked = np.array([matrix[r, c : c + length] for r in chosen for c in columns]).reshape(-1)
    out = np.zeros((rows, width), f32)
    b = bench("Ascend910B2", None, [matrix if inward else out])
    if not inward:
        b.put("UB", picked)

    def program() -> None:
        end = columns[-1] + length - 1
        outside = [asc.SliceInfo(columns[0], end, gap, blocks, width), asc.SliceInfo(0, chosen[-1], row_skip, 1, rows)]
        inside = [
            asc.SliceInfo(0, length * pieces - 1, 0, blocks, length * pieces),
            asc.SliceInfo(0, len(chosen) - 1, 0, 1, len(chosen)),
        ]
        g, local = whole(f32, matrix), asc.LocalTensor(f32, P.VECIN)
        if inward:
            asc.data_copy(local, g, inside, outside, 2)
        else:
            asc.data_copy(g, local, outside, inside, 2)

    b.run(program)
    if inward:
        np.testing.assert_array_equal(b.get("UB", f32, picked.size), picked)
    else:
        for r in range(rows):
            for c in range(width):
                there = r in chosen and any(k <= c < k + length for k in columns)
                assert out[r, c] == (matrix[r, c] if there else 0)


@cases(count=st.integers(1, 4), length=st.integers(1, 40), chosen=st.one_of(st.none(), st.integers(-9, 9)), seed=seeds)
def test_row_tails_without_padding(bench: Any, count: int, length: int, chosen: int | None, seed: int) -> None:
    """Unpadded rows are filled up with the value of set_pad_value, else with their own first element."""
    x = np.random.default_rng(seed).integers(-99, 99, count * length).astype(np.int16)
    b = bench("Ascend910B2", None, [x])

    def program() -> None:
        if chosen is not None:
            asc.set_pad_value(chosen)
        params = asc.DataCopyExtParams(count, length * 2, 0, 0, 0)
        pad = asc.DataCopyPadExtParams("int16")
        asc.data_copy_pad(asc.LocalTensor("int16", P.VECIN), whole("int16", x), params, pad)

    b.run(program)
    row = -(-length // 16) * 16
    got = b.get("UB", np.int16, count * row).reshape(count, row)
    for r, line in enumerate(x.reshape(count, length)):
        np.testing.assert_array_equal(got[r, :length], line)
        assert (got[r, length:] == (line[0] if chosen is None else chosen)).all()


@pytest.mark.parametrize("chip", ["Ascend310P3", "Ascend310B1", "Ascend910A"])
def test_sparse_weights_exist_on_910b_only(bench: Any, chip: str) -> None:
    b = bench(chip)

    def program() -> None:
        tensors = [asc.LocalTensor(i8, P.B2), asc.LocalTensor(i8, P.B1), asc.LocalTensor("uint8", P.B1)]
        asc.load_data_with_sparse(*tensors, asc.LoadData2DParams())

    with pytest.raises(InstructionError, match="910B only"):
        b.run(program)
