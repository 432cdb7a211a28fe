"""Every vector instruction against a lane-by-lane statement of its documentation, over random operands, masks, repeats
and strides, on byte-exact images of the unified buffer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from lane_statement import CHIP, check, f, f16, f32, fill, i16, i32, masks, reps, strides, u16, u32
from strength import cases

from ascend_sim import asc
from ascend_sim.isa.enums import RoundMode

TWO = {
    "add": (lambda a, b: a + b, [f16, f32, i16, i32]),
    "sub": (lambda a, b: a - b, [f16, f32, i16, i32]),
    "mul": (lambda a, b: a * b, [f16, f32, i32]),
    "div": (lambda a, b: a / b, [f16, f32]),
    "max": (lambda a, b: a if a > b else b, [f16, f32, i16, i32]),
    "min": (lambda a, b: a if a < b else b, [f16, f32, i16, i32]),
    "bitwise_and": (lambda a, b: a & b, [i16, u16]),
    "bitwise_or": (lambda a, b: a | b, [i16, u16]),
    "sub_relu": (lambda a, b: max(a - b, 0), [f16, f32, i16]),
    "add_relu": (lambda a, b: max(a + b, 0), [f16, f32, i16]),
}
THREE = {
    "mul_add_dst": lambda d, a, b: a * b + d,
    "fused_mul_add": lambda d, a, b: a * d + b,
    "fused_mul_add_relu": lambda d, a, b: max(a * d + b, f(0)),
}
ONE = {
    "abs": (abs, [f16, f32]),
    "relu": (lambda a: max(a, 0), [f16, f32, i32]),
    "exp": (np.exp, [f16, f32]),
    "ln": (np.log, [f16, f32]),
    "sqrt": (np.sqrt, [f16, f32]),
    "rsqrt": (lambda a: f(1) / np.sqrt(a), [f16, f32]),
    "reciprocal": (lambda a: f(1) / a, [f16, f32]),
    "bitwise_not": (lambda a: ~a, [i16, u16]),
}
SCALAR = {
    "adds": (lambda a, s: a + s, [f16, f32, i16, i32]),
    "muls": (lambda a, s: a * s, [f16, f32, i16, i32]),
    "maxs": (max, [f16, f32, i16, i32]),
    "mins": (min, [f16, f32, i16, i32]),
    "leaky_relu": (lambda a, s: a if a >= 0 else a * s, [f16, f32]),
    "shift_left": (lambda a, s: a << s, [i16, i32, u16, u32]),
    "shift_right": (lambda a, s: a >> s, [i16, i32, u16, u32]),
}


@pytest.mark.parametrize(("name", "dtype"), [(n, t) for n, (_, ts) in TWO.items() for t in ts])
@cases(data=st.data(), seed=st.integers(0, 1 << 30))
def test_two_operands(bench: Any, name: str, dtype: str, data: st.DataObject, seed: int) -> None:
    width = 256 // np.dtype(dtype).itemsize
    mask, repeat = data.draw(masks(width)), data.draw(st.integers(0, 5))
    blk = [data.draw(strides) for _ in range(3)]
    rep = [data.draw(st.sampled_from([24, 30])), data.draw(reps), data.draw(reps)]
    params = asc.BinaryRepeatParams(*blk, *rep)
    statement = TWO[name][0]
    check(bench, seed, [dtype] * 3, mask, repeat, blk, rep, lambda d, a, b: statement(a, b),
          lambda d, a, b: getattr(asc, name)(d, a, b, mask, repeat, params), positive=name == "div")  # fmt: skip


@pytest.mark.parametrize("dtype", [f16, f32])
@pytest.mark.parametrize("name", list(THREE))
@cases(data=st.data(), seed=st.integers(0, 1 << 30))
def test_multiply_add(bench: Any, name: str, dtype: str, data: st.DataObject, seed: int) -> None:
    mask, repeat = data.draw(masks(256 // np.dtype(dtype).itemsize)), data.draw(st.integers(0, 4))
    params = asc.BinaryRepeatParams()
    check(bench, seed, [dtype] * 3, mask, repeat, [1] * 3, [8] * 3, THREE[name],
          lambda d, a, b: getattr(asc, name)(d, a, b, mask, repeat, params))  # fmt: skip


@pytest.mark.parametrize(("name", "dtype"), [(n, t) for n, (_, ts) in ONE.items() for t in ts])
@cases(data=st.data(), seed=st.integers(0, 1 << 30))
def test_one_operand(bench: Any, name: str, dtype: str, data: st.DataObject, seed: int) -> None:
    mask, repeat = data.draw(masks(256 // np.dtype(dtype).itemsize)), data.draw(st.integers(0, 5))
    blk, rep = [data.draw(strides), data.draw(strides)], [24, data.draw(reps)]
    statement = ONE[name][0]
    check(bench, seed, [dtype] * 2, mask, repeat, blk, rep, lambda d, a: statement(a),
          lambda d, a: getattr(asc, name)(d, a, mask, repeat, asc.UnaryRepeatParams(*blk, *rep)),
          positive=name in ("ln", "sqrt", "rsqrt", "reciprocal"))  # fmt: skip


@pytest.mark.parametrize(("name", "dtype"), [(n, t) for n, (_, ts) in SCALAR.items() for t in ts])
@cases(data=st.data(), seed=st.integers(0, 1 << 30))
def test_scalar_operand(bench: Any, name: str, dtype: str, data: st.DataObject, seed: int) -> None:
    mask, repeat = data.draw(masks(256 // np.dtype(dtype).itemsize)), data.draw(st.integers(0, 5))
    rep = [24, data.draw(reps)]
    scalar: Any = data.draw(st.integers(0, 9)) if "int" in dtype else data.draw(st.floats(-2, 2))
    rounded = scalar if "int" in dtype else f(np.asarray(scalar).astype(f).astype(dtype))
    statement = SCALAR[name][0]
    check(bench, seed, [dtype] * 2, mask, repeat, [1, 1], rep, lambda d, a: statement(a, rounded),
          lambda d, a: getattr(asc, name)(d, a, scalar, mask, repeat, asc.UnaryRepeatParams(1, 1, *rep)))  # fmt: skip


@pytest.mark.parametrize(("dst", "src"), [(f16, f16), (f32, f32), (f32, f16)])
@cases(data=st.data(), seed=st.integers(0, 1 << 30))
def test_axpy(bench: Any, dst: str, src: str, data: st.DataObject, seed: int) -> None:
    mask, repeat = data.draw(masks(256 // np.dtype(dst).itemsize)), data.draw(st.integers(0, 4))
    scalar = data.draw(st.floats(-2, 2))
    s = f(np.asarray(scalar).astype(f).astype(src))
    rep = [8, 8 if src == dst else 4]
    check(bench, seed, [dst, src], mask, repeat, [1, 1], rep, lambda d, a: a * s + d,
          lambda d, a: asc.axpy(d, a, scalar, mask, repeat, asc.UnaryRepeatParams(1, 1, *rep)))  # fmt: skip


@pytest.mark.parametrize(
    ("dst", "src", "mode"),
    [(f32, f16, 0), (f16, f32, 0), (f16, f32, RoundMode.FLOOR), (i32, f32, RoundMode.ROUND), (i32, f16, RoundMode.CEIL),
     (i16, f16, RoundMode.TRUNC), (f16, i16, 0), (f32, i32, 0), ("int8", f16, 0), (f16, "uint8", 0)],
)  # fmt: skip
@cases(data=st.data(), seed=st.integers(0, 1 << 30))
def test_cast(bench: Any, dst: str, src: str, mode: int, data: st.DataObject, seed: int) -> None:
    sizes = [np.dtype(t).itemsize for t in (dst, src)]
    mask, repeat = data.draw(masks(256 // max(sizes))), data.draw(st.integers(0, 4))
    rep = [8 * s // max(sizes) for s in sizes]
    rounding = {0: np.rint, RoundMode.FLOOR: np.floor, RoundMode.CEIL: np.ceil, RoundMode.TRUNC: np.trunc,
                RoundMode.ROUND: lambda x: np.trunc(x + np.copysign(0.5, x))}  # fmt: skip

    def statement(old: Any, a: Any) -> Any:
        if not dst.startswith("float"):
            return rounding[mode](np.float64(a))
        if mode == RoundMode.FLOOR:
            near = np.asarray(a).astype(np.float16)
            return near if near <= a else np.nextafter(near, np.float16(-np.inf))
        return a

    check(bench, seed, [dst, src], mask, repeat, [1, 1], rep, statement,
          lambda d, a: asc.cast(d, a, mode, mask, repeat, asc.UnaryRepeatParams(1, 1, *rep)))  # fmt: skip


@cases(n=st.integers(1, 5000), seed=st.integers(0, 1 << 30), dtype=st.sampled_from([f16, f32, i32]))
def test_first_n_form(bench: Any, n: int, seed: int, dtype: str) -> None:
    rng = np.random.default_rng(seed)
    for chip in (CHIP, "Ascend310P3", "Ascend910A"):
        b = bench(chip)
        x, y = fill(rng, dtype)[:n], fill(rng, dtype)[:n]
        b.put("UB", x, 32768)
        b.put("UB", y, 65536)
        before = b.get("UB", dtype, 8192).copy()

        def program() -> None:
            d, s, t = (asc.LocalTensor(dtype, asc.TPosition.VECIN, at) for at in (0, 32768, 65536))
            asc.add(d, s, t, n)

        b.run(program)
        got = b.get("UB", dtype, 8192)
        np.testing.assert_array_equal(got[:n], (x.astype(f) + y.astype(f)).astype(dtype) if dtype != i32 else x + y)
        np.testing.assert_array_equal(got[n:].view(np.uint8), before[n:].view(np.uint8))


def test_accumulation_idiom(bench: Any) -> None:
    """dst = src1 with repeat stride 0 sums the repeats of src0 one after the other."""
    b = bench(CHIP)
    x = np.random.default_rng(1).uniform(-1, 1, 64 * 10).astype(f)
    b.put("UB", x, 4096)
    b.put("UB", np.zeros(64, f), 0)

    def program() -> None:
        d, s = asc.LocalTensor(f32, asc.TPosition.VECIN, 0), asc.LocalTensor(f32, asc.TPosition.VECIN, 4096)
        asc.add(d, s, d, 64, 10, asc.BinaryRepeatParams(1, 1, 1, 0, 8, 0))

    b.run(program)
    want = np.zeros(64, f)
    for row in x.reshape(10, 64):
        want = row + want
    np.testing.assert_array_equal(b.get("UB", f, 64), want)


@cases(total=st.integers(1, 700))
def test_counter_mode(bench: Any, total: int) -> None:
    b = bench(CHIP)
    x = np.arange(1024, dtype=f)
    b.put("UB", x, 8192)
    b.put("UB", np.full(1024, -1, f), 0)

    def program() -> None:
        d, s = asc.LocalTensor(f32, asc.TPosition.VECIN, 0), asc.LocalTensor(f32, asc.TPosition.VECIN, 8192)
        asc.set_mask_count()
        asc.set_vector_mask(0, total, dtype=asc.float32, mode=asc.MaskMode.COUNTER)
        asc.adds(d, s, 1.0, asc.half, 1, asc.UnaryRepeatParams(), False)
        asc.set_mask_norm()
        asc.reset_mask()

    b.run(program)
    got = b.get("UB", f, 1024)
    np.testing.assert_array_equal(got[:total], x[:total] + 1)
    assert (got[total:] == -1).all()


@cases(dtype=st.sampled_from([f16, f32, i32, u16]), data=st.data())
def test_duplicate(bench: Any, dtype: str, data: st.DataObject) -> None:
    width = 256 // np.dtype(dtype).itemsize
    mask, repeat = data.draw(masks(width)), data.draw(st.integers(0, 4))
    value = data.draw(st.integers(0, 100))
    blk = data.draw(st.integers(1, 2))
    check(bench, 0, [dtype], mask, repeat, [blk], [16], lambda d: value,
          lambda d: asc.duplicate(d, value, mask, repeat, blk, 16))  # fmt: skip


@cases(thorough=90, dtype=st.sampled_from([f16, f32, i32, i16, u16, u32]), repeats=st.integers(0, 5),
       blk=st.integers(1, 2),
       rep=st.sampled_from([8, 16, 17]), seed=st.integers(0, 1 << 30),
       chip=st.sampled_from([CHIP, "Ascend310B1", "Ascend310P3"]))  # fmt: skip
def test_brcb(bench: Any, dtype: str, repeats: int, blk: int, rep: int, seed: int, chip: str) -> None:
    b = bench(chip)
    x = fill(np.random.default_rng(seed), dtype)[: 8 * repeats]
    before = fill(np.random.default_rng(seed + 1), dtype)[: 32768 // np.dtype(dtype).itemsize]
    b.put("UB", x, 32768)
    b.put("UB", before)
    per = 32 // np.dtype(dtype).itemsize

    def program() -> None:
        d, s = asc.LocalTensor(dtype, asc.TPosition.VECIN, 0), asc.LocalTensor(dtype, asc.TPosition.VECIN, 32768)
        asc.brcb(d, s, repeats, asc.BrcbRepeatParams(blk, rep))

    b.run(program)
    want = before.copy()
    for i, value in enumerate(x):
        at = (i // 8 * rep + i % 8 * blk) * per
        want[at : at + per] = value
    np.testing.assert_array_equal(b.get("UB", dtype, len(want)), want)


@cases(dtype=st.sampled_from([f16, f32]), seed=st.integers(0, 1 << 30), mode=st.sampled_from(list(asc.CMPMODE)),
       groups=st.integers(1, 6))  # fmt: skip
def test_compare_and_select(bench: Any, dtype: str, seed: int, mode: asc.CMPMODE, groups: int) -> None:
    rng = np.random.default_rng(seed)
    n = groups * 256 // np.dtype(dtype).itemsize
    x, y = rng.integers(-3, 4, n).astype(dtype), rng.integers(-3, 4, n).astype(dtype)
    b = bench(CHIP)
    b.put("UB", x, 8192)
    b.put("UB", y, 16384)

    def program() -> None:
        bits = asc.LocalTensor("uint8", asc.TPosition.VECIN, 0)
        s, t, d, e = (asc.LocalTensor(dtype, asc.TPosition.VECIN, at) for at in (8192, 16384, 24576, 32768))
        asc.compare(bits, s, t, mode, n)
        asc.select(d, bits, s, t, asc.SelMode.VSEL_TENSOR_TENSOR_MODE, n)
        asc.select(e, bits, s, 7.0, asc.SelMode.VSEL_TENSOR_SCALAR_MODE, n)
        asc.compare_scalar(bits, s, 1.0, mode, n)

    b.run(program)
    compare = {"LT": x < y, "GT": x > y, "EQ": x == y, "LE": x <= y, "GE": x >= y, "NE": x != y}
    bits = compare[mode.name]
    np.testing.assert_array_equal(b.get("UB", dtype, n, 24576), np.where(bits, x, y))
    np.testing.assert_array_equal(b.get("UB", dtype, n, 32768), [a if k else 7 for a, k in zip(x, bits, strict=False)])
    one = np.asarray(1).astype(dtype)
    against = {"LT": x < one, "GT": x > one, "EQ": x == one, "LE": x <= one, "GE": x >= one, "NE": x != one}
    got = b.get("UB", np.uint8, n // 8)
    for i, want in enumerate(against[mode.name]):
        assert bool(got[i // 8] >> i % 8 & 1) == want


@cases(dtype=st.sampled_from([f16, f32]), seed=st.integers(0, 1 << 30), mode=st.sampled_from(list(asc.CMPMODE)),
       repeats=st.integers(1, 4), chip=st.sampled_from(["Ascend910A", "Ascend310P3", CHIP]))  # fmt: skip
def test_select_by_register(bench: Any, dtype: str, seed: int, mode: asc.CMPMODE, repeats: int, chip: str) -> None:
    """The comparison register of one repeat selects in every repeat."""
    rng, b, width = np.random.default_rng(seed), bench(chip), 256 // np.dtype(dtype).itemsize
    x, y = (rng.integers(-3, 4, repeats * width).astype(dtype) for _ in range(2))
    b.put("UB", x, 8192)
    b.put("UB", y, 16384)

    def program() -> None:
        s, t, d = (asc.LocalTensor(dtype, asc.TPosition.VECIN, at) for at in (8192, 16384, 0))
        asc.compare(s, t, mode, width, asc.BinaryRepeatParams())
        asc.select(d, s, t, repeat_times=repeats, repeat_params=asc.BinaryRepeatParams(), sel_mode=asc.SelMode(0))

    b.run(program)
    name = {"LT": "less", "GT": "greater", "EQ": "equal", "LE": "less_equal", "GE": "greater_equal", "NE": "not_equal"}
    keep = np.tile(getattr(np, name[mode.name])(x[:width], y[:width]), repeats)
    np.testing.assert_array_equal(b.get("UB", dtype, repeats * width), np.where(keep, x, y))


@cases(dtype=st.sampled_from([f16, f32]), n=st.integers(1, 600), seed=st.integers(0, 1 << 30))
def test_gather(bench: Any, dtype: str, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = fill(rng, dtype)[:1000]
    index = rng.integers(0, 900, n)
    b = bench(CHIP)
    b.put("UB", x, 8192)
    b.put("UB", (index * x.itemsize).astype(np.uint32), 16384)

    def program() -> None:
        d, s = asc.LocalTensor(dtype, asc.TPosition.VECIN, 0), asc.LocalTensor(dtype, asc.TPosition.VECIN, 8192, 1000)
        o = asc.LocalTensor("uint32", asc.TPosition.VECIN, 16384)
        asc.gather(d, s, o, 32, n)

    b.run(program)
    shift = 32 // x.itemsize
    np.testing.assert_array_equal(b.get("UB", dtype, n), [x[i + shift] for i in index])


@pytest.mark.parametrize("pattern", [1, 2, 3, 4, 5, 6, 7])
@cases(everyday=3, dtype=st.sampled_from([f16, f32, i32, u16]), repeats=st.integers(1, 4), n=st.integers(0, 128),
       seed=st.integers(0, 1 << 30))  # fmt: skip
def test_gather_mask_patterns(bench: Any, pattern: int, dtype: str, repeats: int, n: int, seed: int) -> None:
    """Fixed patterns over whole repeats (n = 0) or over the first n lanes of each."""
    b, width = bench(CHIP), 256 // np.dtype(dtype).itemsize
    n = min(n, width)
    x = fill(np.random.default_rng(seed), dtype)[: repeats * width]
    b.put("UB", x, 8192)

    def program() -> int:
        d, s = asc.LocalTensor(dtype, asc.TPosition.VECIN, 0), asc.LocalTensor(dtype, asc.TPosition.VECIN, 8192)
        return asc.gather_mask(d, s, pattern, n > 0, n, asc.GatherMaskParams(1, repeats, 8, 0))

    kept = b.run(program)
    want = []
    for row in x.reshape(repeats, width):
        lanes = row[: n or width]
        first, step = {1: (0, 2), 2: (1, 2), 3: (0, 4), 4: (1, 4), 5: (2, 4), 6: (3, 4), 7: (0, 1)}[pattern]
        want.append(lanes[first::step])
    packed = np.concatenate(want)
    assert kept == len(packed)
    np.testing.assert_array_equal(b.get("UB", dtype, kept), packed)


@cases(dtype=st.sampled_from([f16, i16, f32, "int8"]), repeat=st.integers(1, 4), seed=st.integers(0, 99),
       high=st.tuples(st.booleans(), st.booleans()))  # fmt: skip
def test_trans_data_to_5hd(bench: Any, dtype: str, repeat: int, seed: int, high: tuple[bool, bool]) -> None:
    """16 rows whose repeats lie one block apart; destinations 16 rows likewise."""
    size = np.dtype(dtype).itemsize
    per = 32 // size
    x = np.random.default_rng(seed).integers(-99, 99, (16, repeat, per)).astype(dtype)
    b = bench(CHIP)
    b.put("UB", np.zeros(16 * repeat * per, dtype), 0)
    b.put("UB", x, 8192)

    def program() -> None:
        rows = [[asc.LocalTensor(dtype, asc.TPosition.VECIN, base + i * repeat * 32) for i in range(16)]
                for base in (0, 8192)]  # fmt: skip
        asc.trans_data_to_5hd(*rows, asc.TransDataTo5HDParams(*high, repeat, 1, 1))

    b.run(program)
    got = b.get("UB", dtype, 16 * repeat * per).reshape(16, repeat, per)
    for r in range(repeat):
        if size == 2:
            np.testing.assert_array_equal(got[:, r], x[:, r].T)
        elif size == 4:
            for j in range(8):
                np.testing.assert_array_equal(got[2 * j, r], x[:8, r, j])
                np.testing.assert_array_equal(got[2 * j + 1, r], x[8:, r, j])
        else:
            d, s = (16 if h else 0 for h in high)
            for j in range(16):
                np.testing.assert_array_equal(got[j, r, d : d + 16], x[:, r, s + j])


def test_transpose(bench: Any) -> None:
    b = bench(CHIP)
    x = np.arange(256, dtype=np.int16)
    b.put("UB", x, 512)

    def program() -> None:
        d, s = asc.LocalTensor("int16", asc.TPosition.VECIN, 0), asc.LocalTensor("int16", asc.TPosition.VECIN, 512)
        asc.transpose(d, s)

    b.run(program)
    np.testing.assert_array_equal(b.get("UB", np.int16, 256).reshape(16, 16), x.reshape(16, 16).T)


def test_bfloat16_and_deq_scale(bench: Any) -> None:
    b = bench(CHIP)
    x = np.linspace(-3, 3, 64, dtype=f)
    b.put("UB", x, 1024)
    b.put("UB", np.arange(64, dtype=np.int32), 2048)

    def program() -> None:
        s, d = asc.LocalTensor(f32, asc.TPosition.VECIN, 1024), asc.LocalTensor("bfloat16", asc.TPosition.VECIN, 0)
        asc.cast(d, s, RoundMode.RINT, 64)
        asc.cast(s, d, RoundMode.NONE, 64)
        asc.set_deq_scale(0.5)
        i, h = asc.LocalTensor("int32", asc.TPosition.VECIN, 2048), asc.LocalTensor("float16", asc.TPosition.VECIN, 512)
        asc.cast(h, i, RoundMode.NONE, 64)

    b.run(program)
    import ml_dtypes

    np.testing.assert_array_equal(b.get("UB", f, 64, 1024), x.astype(ml_dtypes.bfloat16).astype(f))
    np.testing.assert_array_equal(b.get("UB", np.float16, 64, 512), np.arange(64) / 2)


@cases(dtype=st.sampled_from([f16, f32, i32, i16]), mask=st.integers(1, 64), name=st.sampled_from(["adds", "maxs"]))
def test_last_blocks_of_the_buffer(bench: Any, dtype: str, mask: int, name: str) -> None:
    """A masked repeat touches the blocks of its active lanes only, so operands may end with the buffer."""
    b, size = bench(CHIP), np.dtype(dtype).itemsize
    nbytes = -(-mask * size // 32) * 32
    at = 196608 - nbytes
    x = fill(np.random.default_rng(mask), dtype)[: nbytes // size]
    b.put("UB", x, at)

    def program() -> None:
        t = asc.LocalTensor(dtype, asc.TPosition.VECIN, at, nbytes // size)
        getattr(asc, name)(t, t, 3, mask, 1, asc.UnaryRepeatParams())

    b.run(program)
    want = x.copy()
    want[:mask] = x[:mask] + np.asarray(3, dtype) if name == "adds" else np.maximum(x[:mask], np.asarray(3, dtype))
    np.testing.assert_array_equal(b.get("UB", dtype, len(x), at), want)
