"""Computing conversions, dequantisation and interpolation, stated lane by lane."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from lane_statement import check, f, f16, f32, i16, i32, lane_on, masks
from strength import cases

from ascend_sim import asc
from ascend_sim.isa.legality import InstructionError

seeds = st.integers(0, 1 << 30)
i8, u8 = "int8", "uint8"


def narrow(value: Any, dtype: str) -> Any:
    """Half to even and saturating, as the vector unit converts."""
    if dtype == f16:
        return np.clip(value, -65504, 65504)
    info = np.iinfo(dtype)
    return int(np.clip(np.rint(np.float64(value)), info.min, info.max))


PAIRS = [("mul_cast", i8, f16), ("mul_cast", u8, f16)] + [
    (name, dst, src) for name in ("add_relu_cast", "sub_relu_cast") for dst, src in ((i8, f16), (i8, i16), (f16, f32))
]
COMPUTE = {
    "mul_cast": lambda a, b: a * b,
    "add_relu_cast": lambda a, b: max(a + b, 0),
    "sub_relu_cast": lambda a, b: max(a - b, 0),
}


@pytest.mark.parametrize(("name", "dst", "src"), PAIRS)
@cases(data=st.data(), seed=seeds, chip=st.sampled_from(["Ascend910B2", "Ascend310P3"]))
def test_computing_conversions(
    bench: Any, name: str, dst: str, src: str, data: st.DataObject, seed: int, chip: str
) -> None:
    size = np.dtype(src).itemsize
    mask, repeat = data.draw(masks(256 // size)), data.draw(st.integers(0, 4))
    blk = [1, data.draw(st.integers(1, 2)), data.draw(st.integers(1, 2))]
    rep = [8, data.draw(st.sampled_from([0, 8, 16])), data.draw(st.sampled_from([0, 8, 9]))]
    params = asc.BinaryRepeatParams(*blk, *rep)
    check(bench, seed, [dst, src, src], mask, repeat, blk, rep,
          lambda d, a, b: narrow(COMPUTE[name](a, b), dst),
          lambda d, a, b: getattr(asc, name)(d, a, b, mask, repeat, params), chip=chip)  # fmt: skip


@cases(data=st.data(), seed=seeds, chip=st.sampled_from(["Ascend910B2", "Ascend310P3", "Ascend310"]),
       scale=st.floats(0.01, 3))  # fmt: skip
def test_add_deq_relu(bench: Any, data: st.DataObject, seed: int, chip: str, scale: float) -> None:
    mask, repeat = data.draw(masks(64)), data.draw(st.integers(0, 4))
    rep = [4, data.draw(st.sampled_from([0, 8, 16])), 8]
    factor = np.float64(np.float16(scale))

    def issue(d: Any, a: Any, b: Any) -> None:
        asc.set_deq_scale(scale)
        asc.add_deq_relu(d, a, b, mask, repeat, asc.BinaryRepeatParams(1, 1, 1, *rep))

    check(bench, seed, [f16, i32, i32], mask, repeat, [1] * 3, rep,
          lambda d, a, b: f(max(np.float16((a + b) * factor), 0)), issue, chip=chip)  # fmt: skip


def dequantised(value: int, scale: float, offset: int, signed: bool) -> int:
    """``scale`` keeps float32 with 10 mantissa bits."""
    kept = (np.array(scale, f).view(np.uint32) & np.uint32(0xFFFFE000)).view(f)
    whole = int(np.rint(np.float64(kept) * value + offset))
    return max(-128, min(127, whole)) if signed else max(0, min(255, whole))


@cases(data=st.data(), seed=seeds, upper=st.booleans(), signed=st.booleans(), vector=st.booleans(),
       chip=st.sampled_from(["Ascend910B2", "Ascend310P3"]))  # fmt: skip
def test_cast_deq_to_bytes(
    bench: Any, data: st.DataObject, seed: int, upper: bool, signed: bool, vector: bool, chip: str
) -> None:
    rng, b = np.random.default_rng(seed), bench(chip)
    mask, repeat = data.draw(masks(128)), data.draw(st.integers(0, 4))
    scales, offsets = rng.uniform(0.01, 2, 16), rng.integers(-100, 100, 16)
    source, before = rng.integers(-300, 300, 2048).astype(np.int16), rng.integers(0, 256, 4096).astype(np.uint8)
    b.put("UB", source, 0)
    b.put("UB", before, 8192)
    dtype = i8 if signed else u8

    def program() -> None:
        target = asc.LocalTensor(dtype, asc.TPosition.VECOUT, 8192, 4096)
        x = asc.LocalTensor(i16, asc.TPosition.VECIN, 0, 2048)
        if vector:
            registers = asc.LocalTensor("uint64", asc.TPosition.VECCALC, 16384, 16)
            info = asc.VdeqInfo(tuple(scales), tuple(int(o) for o in offsets), (signed,) * 16)
            asc.set_deq_scale(registers, info)
        else:
            asc.set_deq_scale(float(scales[0]), int(offsets[0]), signed)
        asc.cast_deq(target, x, mask, repeat, asc.UnaryRepeatParams(1, 1, 8, 8), True, vector, upper)

    b.run(program)
    want = before.copy()
    for r in range(repeat):
        for lane in range(128):
            if lane_on(mask, lane):
                which = lane % 16 if vector else 0
                value = dequantised(int(source[r * 128 + lane]), scales[which], int(offsets[which]), signed)
                want[r * 256 + lane // 16 * 32 + lane % 16 + 16 * upper] = value & 0xFF
    np.testing.assert_array_equal(b.get("UB", np.uint8, 4096, 8192), want)


@cases(n=st.integers(1, 500), seed=seeds, scale=st.floats(0.01, 3))
def test_cast_deq_to_half(bench: Any, n: int, seed: int, scale: float) -> None:
    b = bench("Ascend910B2")
    x = np.random.default_rng(seed).integers(-5000, 5000, n).astype(np.int32)
    b.put("UB", x, 0)

    def program() -> None:
        asc.set_deq_scale(scale)
        target = asc.LocalTensor(f16, asc.TPosition.VECOUT, 8192, n)
        asc.cast_deq(target, asc.LocalTensor(i32, asc.TPosition.VECIN, 0, n), n, False, False)

    b.run(program)
    want = (x.astype(np.float64) * np.float64(np.float16(scale))).astype(np.float16)
    np.testing.assert_array_equal(b.get("UB", np.float16, n, 8192), want)


@cases(h=st.integers(1, 4), v=st.integers(1, 3), per_block=st.booleans(), mask=masks(128), seed=seeds,
       chip=st.sampled_from(["Ascend910B2", "Ascend310P3"]), gap=st.sampled_from([128, 160]))  # fmt: skip
def test_bilinear_interpolation(
    bench: Any, h: int, v: int, per_block: bool, mask: Any, seed: int, chip: str, gap: int
) -> None:
    rng, b = np.random.default_rng(seed), bench(chip)
    n = h * v
    image = rng.integers(-8, 8, 2048).astype(np.float16)
    offsets = (rng.integers(0, 128, n * 8) * 32).astype(np.uint32)
    weights = (rng.integers(-4, 5, n * (8 if per_block else 1)) / 4).astype(np.float16)
    before = rng.integers(-8, 8, 1024).astype(np.float16)
    for values, at in ((image, 0), (offsets, 4096), (weights, 8192), (before, 12288)):
        b.put("UB", values, at)
    V = asc.TPosition.VECCALC

    def program() -> None:
        asc.bilinear_interpolation(
            asc.LocalTensor(f16, V, 12288, 1024), asc.LocalTensor(f16, V, 0, 2048),
            asc.LocalTensor("uint32", V, 4096, n * 8), asc.LocalTensor(f16, V, 8192, len(weights)), mask, h, per_block,
            1, gap, v, asc.LocalTensor(f16, V, 16384, 4096),
        )  # fmt: skip

    b.run(program)
    want = before.copy()
    for row in range(v):
        for lane in range(128):
            if not lane_on(mask, lane):
                continue
            total = None
            for step in range(h):
                r = row * h + step
                pixel = image[offsets[r * 8 + lane // 16] // 2 + lane % 16]
                weight = weights[r * 8 + lane // 16 if per_block else r]
                product = np.float16(f(pixel) * f(weight))
                total = product if total is None else np.float16(f(total) + f(product))
            want[row * gap + lane] = total
    np.testing.assert_array_equal(b.get("UB", np.float16, 1024, 12288), want)


def test_interpolation_offsets_are_checked(bench: Any) -> None:
    b, V = bench("Ascend910B2"), asc.TPosition.VECCALC
    b.put("UB", np.full(8, 4096, np.uint32), 4096)

    def program() -> None:
        asc.bilinear_interpolation(
            asc.LocalTensor(f16, V, 12288, 128), asc.LocalTensor(f16, V, 0, 64),
            asc.LocalTensor("uint32", V, 4096, 8), asc.LocalTensor(f16, V, 8192, 16), 128, 1, False, 1, 128, 1,
            asc.LocalTensor(f16, V, 16384, 4096),
        )  # fmt: skip

    with pytest.raises(InstructionError, match=r"src0_offset.*4096"):
        b.run(program)
