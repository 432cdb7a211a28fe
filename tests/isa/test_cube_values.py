"""Loads into L0, mmad, fixpipe and the L0C exits against matrix statements; data placed by the layout formulas."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import strategies as st
from places import from_l0c, nz, reference_im2col, zn, zz
from strength import cases

from ascend_sim import asc

P = asc.TPosition
seeds = st.integers(0, 1 << 30)


CASES = [("float16", "float32", np.float16), ("bfloat16", "float32", ml_dtypes.bfloat16),
         ("float32", "float32", np.float32), ("int8", "int32", np.int8)]  # fmt: skip


@pytest.mark.parametrize(("src", "dst", "kind"), CASES)
@cases(m=st.integers(1, 40), n=st.integers(1, 40), k=st.integers(1, 70), seed=st.integers(0, 99))
def test_mmad(bench: Any, src: str, dst: str, kind: Any, m: int, n: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, c = rng.integers(-8, 9, (m, k)).astype(kind), rng.integers(-8, 9, (k, n)).astype(kind)
    k0 = 32 // np.dtype(kind).itemsize
    b = bench("Ascend910B2", "AIC")
    b.put("L0A", zz(a, k0))
    b.put("L0B", zn(c, k0))
    bias = rng.integers(-99, 99, n).astype(dst)
    b.put("BT", bias)

    def program() -> None:
        left, right, out = asc.LocalTensor(src, P.A2), asc.LocalTensor(src, P.B2), asc.LocalTensor(dst, P.CO1)
        asc.mmad(out, left, right, asc.MmadParams(m, n, k, cmatrix_init_val=True))
        asc.mmad(out, left, right, asc.MmadParams(m, n, k, cmatrix_init_val=False))
        asc.mmad(out[16384:], left, right, asc.LocalTensor(dst, P.C2), asc.MmadParams(m, n, k, cmatrix_init_val=False))

    b.run(program)
    want = a.astype(np.float64) @ c.astype(np.float64)
    np.testing.assert_array_equal(from_l0c(b, m, n, dst), 2 * want)
    np.testing.assert_array_equal(from_l0c(b, m, n, dst, 65536), want + bias)


def test_half_accumulator_and_int_wrap(bench: Any) -> None:
    b = bench("Ascend910A")
    a, c = np.full((16, 16), 0.1, np.float16), np.full((16, 16), 3, np.float16)
    b.put("L0A", zz(a, 16))
    b.put("L0B", zn(c, 16))

    def program() -> None:
        left, right = asc.LocalTensor("float16", P.A2), asc.LocalTensor("float16", P.B2)
        asc.mmad(asc.LocalTensor("float16", P.CO1), left, right, asc.MmadParams(16, 16, 16))

    b.run(program)
    exact = np.float64(np.float16(0.1)) * 3 * 16
    assert (b.get("L0C", np.float16, 256) == np.float16(exact)).all()


@cases(m1=st.integers(1, 3), k1=st.integers(1, 3), seed=st.integers(0, 99))
def test_load2d_from_nz(bench: Any, m1: int, k1: int, seed: int) -> None:
    """Nz in L1 to Zz in L0A row by row, and to Zn in L0B with transposition (Ascend C matmul pattern)."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-99, 99, (m1 * 16, k1 * 16)).astype(np.float16)
    b = bench("Ascend910B2", "AIC")
    b.put("L1", nz(x, 16))

    def program() -> None:
        one, a2, b2 = (asc.LocalTensor("float16", p) for p in (P.A1, P.A2, P.B2))
        for r in range(m1):
            asc.load_data(a2[r * k1 * 256 :], one, asc.LoadData2DParams(r, k1, m1))
            asc.load_data(b2[r * k1 * 256 :], one, asc.LoadData2DParams(r, k1, m1, if_transpose=True))

    b.run(program)
    np.testing.assert_array_equal(b.get("L0A", np.float16, x.size), zz(x, 16))
    np.testing.assert_array_equal(b.get("L0B", np.float16, x.size), zn(x, 16))


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.int8])
@cases(data=st.data())
def test_nd2nz(bench: Any, kind: Any, data: st.DataObject) -> None:
    n, d = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 50))
    nd, pitch = data.draw(st.integers(1, 3)), d + data.draw(st.integers(0, 9))
    rows = -(-n // 16) * 16
    k0 = 32 // np.dtype(kind).itemsize
    source = np.random.default_rng(n).integers(-99, 99, nd * (n + 1) * pitch).astype(kind)
    per_matrix = -(-d // k0) * rows * k0
    b = bench("Ascend910B2", "AIC", [source])
    b.put("L1", np.zeros(nd * per_matrix, kind))

    def program() -> None:
        g = asc.GlobalTensor()
        g.set_global_buffer(asc.GlobalAddress(kind, 0, 0, source.nbytes))
        one = asc.LocalTensor(kind, P.A1)
        asc.data_copy(one, g, asc.Nd2NzParams(nd, n, d, (n + 1) * pitch, pitch, rows, 1, per_matrix))

    b.run(program)
    got = b.get("L1", kind, nd * per_matrix).reshape(nd, -1)
    for i in range(nd):
        matrix = source[i * (n + 1) * pitch :][: n * pitch]
        matrix = np.pad(matrix, (0, n * pitch - len(matrix))).reshape(n, pitch)[:, :d]
        np.testing.assert_array_equal(got[i], nz(matrix, k0))


def geometry(data: st.DataObject) -> dict[str, Any]:
    kh, kw = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    dh, dw = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 2))
    return {
        "c1": data.draw(st.integers(1, 2)), "h": data.draw(st.integers(dh * (kh - 1) + 1, 8)),
        "w": data.draw(st.integers(dw * (kw - 1) + 1, 8)), "kernel": (kh, kw), "dilation": (dh, dw),
        "stride": (data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))),
        "pads": tuple(data.draw(st.integers(0, 2)) for _ in range(4)),
    }  # fmt: skip


@cases(data=st.data(), chip=st.sampled_from(["Ascend910B2", "Ascend310P3", "Ascend310B1"]))
def test_load3d_v2(bench: Any, data: st.DataObject, chip: str) -> None:
    g = geometry(data)
    fmap = np.random.default_rng(0).integers(1, 99, (g["c1"], g["h"], g["w"], 16)).astype(np.float16)
    full = reference_im2col(fmap, g["kernel"], g["stride"], g["pads"], g["dilation"], 5)
    rows, cols = full.shape
    m0 = data.draw(st.integers(0, (rows - 1) // 16)) * 16
    k0 = data.draw(st.integers(0, cols // 16 - 1)) * 16
    m = data.draw(st.integers(1, min(rows - m0, 64)))
    k = data.draw(st.integers(1, (cols - k0) // 16)) * 16
    b = bench(chip, "AIC" if chip == "Ascend910B2" else None)
    b.put("L1", fmap)
    to_b, transposed = data.draw(st.booleans()), data.draw(st.booleans())

    def program() -> None:
        asc.set_load_data_padding_value(5)
        params = asc.LoadData3DParamsV2(
            g["pads"], g["h"], g["w"], g["c1"] * 16, k, m, k0, m0, g["stride"][1], g["stride"][0], g["kernel"][1],
            g["kernel"][0], g["dilation"][1], g["dilation"][0], transposed and not to_b,
        )  # fmt: skip
        asc.load_data(asc.LocalTensor("float16", P.B2 if to_b else P.A2), asc.LocalTensor("float16", P.A1), params)

    b.run(program)
    window = full[m0 : m0 + m, k0 : k0 + k]
    mp = -(-m // 16) * 16
    window = np.pad(window, ((0, mp - m), (0, 0)))
    want = zn(window, 16) if to_b else zz(window.T if transposed else window, 16)
    np.testing.assert_array_equal(b.get("L0B" if to_b else "L0A", np.float16, want.size), want)


@cases(data=st.data(), mode=st.integers(0, 1))
def test_load3d_v1(bench: Any, data: st.DataObject, mode: int) -> None:
    """Fractals of the im2col matrix one tap (16 columns) wide."""
    g = geometry(data)
    fmap = np.random.default_rng(0).integers(1, 99, (g["c1"], g["h"], g["w"], 16)).astype(np.float16)
    full = reference_im2col(fmap, g["kernel"], g["stride"], g["pads"], g["dilation"], 0)
    rows, taps = full.shape[0], full.shape[1] // 16
    kh, kw = g["kernel"]
    left, right, top, _ = g["pads"]
    ow = (g["w"] + left + right - g["dilation"][1] * (kw - 1) - 1) // g["stride"][1] + 1
    tap = data.draw(st.integers(0, taps - 1))
    first = data.draw(st.integers(0, rows - 1))
    repeat = data.draw(st.integers(1, taps - tap)) if mode == 0 else data.draw(st.integers(1, -(-(rows - first) // 16)))
    jump = data.draw(st.integers(1, 2))
    b = bench(data.draw(st.sampled_from(["Ascend910A", "Ascend310P3", "Ascend310"])))
    b.put("L1", fmap)

    def program() -> None:
        asc.set_fmatrix(g["h"], g["w"], g["pads"])
        params = asc.LoadData3DParamsV1(
            l1_h=0, l1_w=0, c1_index=tap // (kh * kw), fetch_filter_w=tap % kw, fetch_filter_h=tap // kw % kh,
            left_top_w=first % ow * g["stride"][1] - left, left_top_h=first // ow * g["stride"][0] - top,
            stride_w=g["stride"][1], stride_h=g["stride"][0], filter_w=kw, filter_h=kh,
            dilation_filter_w=g["dilation"][1], dilation_filter_h=g["dilation"][0], jump_stride=jump, repeat_mode=mode,
            repeat_time=repeat,
        )  # fmt: skip
        asc.load_data(asc.LocalTensor("float16", P.A2), asc.LocalTensor("float16", P.A1), params)

    b.run(program)
    for r in range(repeat):
        position = first + (16 * r if mode else 0)
        column = (tap + (0 if mode else r)) * 16
        want = full[position : position + 16, column : column + 16]
        got = b.get("L0A", np.float16, 256, r * jump * 512).reshape(16, 16)
        np.testing.assert_array_equal(got[: len(want)], want)


@pytest.mark.parametrize(("kind", "side"), [(np.float16, 16), (np.int8, 32), (np.float32, 16)])
def test_load_data_with_transpose(bench: Any, kind: Any, side: int) -> None:
    """A square block of fractals in L1 arrives transposed."""
    k0 = 32 // np.dtype(kind).itemsize
    x = np.random.default_rng(0).integers(-99, 99, (side, side)).astype(kind)
    b = bench("Ascend910B2", "AIC")
    b.put("L1", nz(x, k0))

    def program() -> None:
        asc.load_data_with_transpose(
            asc.LocalTensor(kind, P.B2), asc.LocalTensor(kind, P.B1), asc.LoadData2dTransposeParams(0, 1, 1)
        )

    b.run(program)
    np.testing.assert_array_equal(b.get("L0B", kind, x.size), nz(np.ascontiguousarray(x.T), k0))


@cases(m=st.integers(1, 40), n=st.integers(1, 3), extra=st.integers(0, 9), relu=st.booleans(), seed=st.integers(0, 99))
def test_fixpipe(bench: Any, m: int, n: int, extra: int, relu: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    c = rng.uniform(-9, 9, (m, n * 16)).astype(np.float32)
    pitch = n * 16 + extra
    rows = np.zeros((m, pitch), np.float16)
    panels = np.zeros(n * (m + 1) * 16, np.float16)
    b = bench("Ascend910B2", "AIC", [rows, panels])
    mp = -(-m // 16) * 16
    b.put("L0C", nz(c, 16))

    def program() -> None:
        out = [asc.GlobalTensor(), asc.GlobalTensor()]
        for i, g in enumerate(out):
            g.set_global_buffer(asc.GlobalAddress("float16", i, 0, (rows, panels)[i].nbytes))
        src = asc.LocalTensor("float32", P.CO1)
        p = asc.FixpipeParamsV220(n * 16, m, mp, pitch, asc.QuantModes.F322F16, relu_en=relu)
        asc.fixpipe(out[0], src, p)
        asc.fixpipe(out[1], src, p._replace(dst_stride=m + 1), asc.FixpipeConfig.cfg_nz())

    b.run(program)
    want = (np.maximum(c, 0) if relu else c).astype(np.float16)
    np.testing.assert_array_equal(rows[:, : n * 16], want)
    assert (rows[:, n * 16 :] == 0).all()
    np.testing.assert_array_equal(panels, nz(want, 16, m + 1)[: panels.size])


@cases(seed=st.integers(0, 999), scale=st.floats(0.01, 2), offset=st.integers(-20, 20), signed=st.booleans())
def test_fixpipe_quantisation(bench: Any, seed: int, scale: float, offset: int, signed: bool) -> None:
    """asc-devkit's golden scripts in own words: multiply, round, clamp to 9 bits, add the offset, clamp."""
    c = np.random.default_rng(seed).integers(-400, 400, (16, 32)).astype(np.int32)
    bits = np.float32(scale).view(np.uint32) & 0xFFFFE000
    word = int(bits) | (offset & 0x1FF) << 37 | int(signed) << 46
    out = np.zeros((16, 32), np.int8 if signed else np.uint8)
    b = bench("Ascend910B2", "AIC", [out])
    b.put("L0C", nz(c, 16))

    def program() -> None:
        g = asc.GlobalTensor()
        g.set_global_buffer(asc.GlobalAddress(out.dtype, 0, 0, out.nbytes))
        p = asc.FixpipeParamsV220(32, 16, 16, 32, asc.QuantModes.REQ8, word)
        asc.fixpipe(g, asc.LocalTensor("int32", P.CO1), p)

    b.run(program)
    x = np.rint(c.astype(np.float32) * bits.view(np.float32))
    whole = np.clip(x, -256, 255) + offset
    want = np.clip(whole, -128, 127) if signed else np.clip(whole, 0, 255)
    np.testing.assert_array_equal(out, want.astype(out.dtype))


@cases(n=st.integers(1, 3), m1=st.integers(1, 3), gap=st.integers(0, 2), seed=st.integers(0, 99), relu=st.booleans())
def test_coupled_exit_and_bias(bench: Any, n: int, m1: int, gap: int, seed: int, relu: bool) -> None:
    """L0C to the unified buffer with conversion, and a bias row broadcast into L0C, on chips without fixpipe."""
    rng = np.random.default_rng(seed)
    c = rng.uniform(-9, 9, (n, m1, 16, 16)).astype(np.float32)
    bias = rng.uniform(-9, 9, (n, 16)).astype(np.float32)
    for chip in ("Ascend310", "Ascend310P3", "Ascend910A"):
        b = bench(chip)
        b.put("L0C", c)
        b.put("UB", bias, 65536)
        b.put("UB", np.zeros(16384, np.float16), 0)

        def program() -> None:
            e = asc.DataCopyEnhancedParams(asc.BlockMode.BLOCK_MODE_MATRIX, is_relu_in=relu)
            out, acc = asc.LocalTensor("float16", P.CO2), asc.LocalTensor("float32", P.CO1)
            asc.data_copy(out, acc, asc.DataCopyParams(n, m1, 0, gap), e)
            row = asc.LocalTensor("float32", P.VECIN, 65536)
            vector = asc.DataCopyEnhancedParams(asc.BlockMode.BLOCK_MODE_VECTOR)
            asc.data_copy(acc[n * m1 * 256 :], row, asc.DataCopyParams(1, n, 0, 0), vector)

        b.run(program)
        pitch = m1 * 256 + gap * 16
        got = b.get("UB", np.float16, n * pitch).reshape(n, pitch)[:, : m1 * 256].reshape(n, m1, 16, 16)
        np.testing.assert_array_equal(got, (np.maximum(c, 0) if relu else c).astype(np.float16))
        spread = b.get("L0C", np.float32, n * 256, c.nbytes).reshape(n, 16, 16)
        for i in range(n):
            assert (spread[i] == bias[i]).all()


@cases(count=st.integers(0, 3), length=st.integers(0, 3), src_gap=st.integers(0, 2), dst_gap=st.integers(0, 2),
       seed=seeds, pair=st.sampled_from([("float32", "float32"), ("int32", "int32"), ("float16", "float16")]),
       chip=st.sampled_from(["Ascend310", "Ascend310P3", "Ascend910A"]))  # fmt: skip
def test_fractals_into_l0c(
    bench: Any, count: int, length: int, src_gap: int, dst_gap: int, seed: int, pair: tuple[str, str], chip: str
) -> None:
    """Whole fractals from the unified buffer to L0C, with gaps on both sides."""
    src, dst = pair
    x = np.random.default_rng(seed).integers(-99, 99, 4096).astype(src)
    b = bench(chip)
    b.put("UB", x)
    b.put("L0C", np.zeros(8192, dst))

    def program() -> None:
        matrix = asc.DataCopyEnhancedParams(asc.BlockMode.BLOCK_MODE_MATRIX)
        params = asc.DataCopyParams(count, length, src_gap, dst_gap)
        asc.data_copy(asc.LocalTensor(dst, P.CO1), asc.LocalTensor(src, P.VECIN), params, matrix)

    b.run(program)
    want, gap = np.zeros(8192, dst), src_gap * 32 // x.itemsize
    for i in range(count):
        values = x[i * (length * 256 + gap) :][: length * 256]
        want[i * (length + dst_gap) * 256 :][: length * 256] = values
    np.testing.assert_array_equal(b.get("L0C", dst, 8192), want)


def test_hf32(bench: Any) -> None:
    """float32 inputs lose the mantissa bits below the 10 stored ones, half to even."""
    a = np.float32(1) + np.float32(2) ** -11
    b = bench("Ascend910B2", "AIC")
    b.put("L0A", zz(np.full((16, 8), a, np.float32), 8))
    b.put("L0B", zn(np.eye(8, 16, dtype=np.float32), 8))

    def program() -> None:
        asc.set_hf32_mode(True)
        left, right = asc.LocalTensor("float32", P.A2), asc.LocalTensor("float32", P.B2)
        asc.mmad(asc.LocalTensor("float32", P.CO1), left, right, asc.MmadParams(16, 16, 8))

    b.run(program)
    assert from_l0c(b, 1, 1, np.float32)[0, 0] == 1.0  # a tie, to the even neighbour
