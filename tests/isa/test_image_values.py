"""Image loads with preprocessing, pixel by pixel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from strength import cases

from ascend_sim import asc
from ascend_sim.isa.legality import InstructionError

Format = asc.AippInputFormat
BYTES = {Format.XRGB8888_U8: 4, Format.RGB888_U8: 3, Format.YUV400_U8: 1}


def tensor(array: np.ndarray, at: int = 0) -> asc.GlobalTensor:
    g = asc.GlobalTensor()
    g.set_global_buffer(asc.GlobalAddress("uint8", 0, at, array.nbytes))
    return g


def sample(image: np.ndarray, kind: Any, width: int, height: int, y: int, x: int, swap: dict[str, bool]) -> list[int]:
    """The channels of one pixel, exchanged."""
    if kind == Format.YUV420SP_U8:
        plane = image[width * height :]
        u, v = (int(plane[y // 2 * width + x // 2 * 2 + i]) for i in range(2))
        return [int(image[y * width + x]), *((v, u) if swap["is_swap_uv"] else (u, v))]
    size = BYTES[kind]
    pixel = [int(c) for c in image[(y * width + x) * size :][:size]]
    if kind == Format.XRGB8888_U8:
        pixel = pixel[1:] if swap["is_swap_ax"] else pixel[:3]
    return pixel[::-1] if swap["is_swap_rb"] else pixel


def source_of(i: int, n: int, mode: int) -> int | None:
    """Row or column a border position is copied from; None for a constant."""
    if 0 <= i < n:
        return i
    if mode == 0:
        return None
    if mode == 1:
        return min(max(i, 0), n - 1)
    if mode == 2:
        return i % n
    return -1 - i if i < 0 else 2 * n - 1 - i


@cases(everyday=10, thorough=120, data=st.data(), kind=st.sampled_from(list(Format)), seed=st.integers(0, 1 << 30),
       dtype=st.sampled_from(["int8", "float16", "uint8"]),
       chip=st.sampled_from(["Ascend310P3", "Ascend310B1", "Ascend910B2"]))  # fmt: skip
def test_load_image(bench: Any, data: st.DataObject, kind: Any, seed: int, dtype: str, chip: str) -> None:
    if dtype == "uint8" and chip == "Ascend910B2":
        dtype = "int8"
    rng = np.random.default_rng(seed)
    yuv = kind == Format.YUV420SP_U8
    width, height = data.draw(st.integers(2, 8)) * 2, data.draw(st.integers(2, 6)) * 2
    left, top = data.draw(st.integers(0, 1)) * 2, data.draw(st.integers(0, 1)) * 2
    columns = data.draw(st.integers(2, width - left))
    rows = data.draw(st.integers(2, height - top))
    mode = data.draw(st.integers(0, 3))
    pads = [data.draw(st.integers(0, 2)) for _ in range(4)]  # left, right, top, bottom
    if mode == 0:
        pads[2:] = [0, 0]
    swap = {f"is_swap_{name}": data.draw(st.booleans()) for name in ("rb", "uv", "ax")}
    convert = data.draw(st.booleans()) and kind != Format.YUV400_U8
    four = data.draw(st.booleans())
    matrix = [int(m) for m in rng.integers(-300, 300, 9)]
    bias = [int(x) for x in rng.integers(0, 128, 3)]
    mean = [int(x) for x in rng.integers(0, 128, 3)]
    low, factor = rng.uniform(-4, 4, 3).astype(np.float16), rng.uniform(0, 1, 3).astype(np.float16)
    border = [int(x) for x in rng.integers(0, 99, 4)]
    n = width * height * (1 if yuv else BYTES[kind]) * (3 if yuv else 2) // 2
    image = rng.integers(0, 256, n).astype(np.uint8)
    b = bench(chip, "AIC" if chip == "Ascend910B2" else None, [image])
    channels = 4 if four else 32 // np.dtype(dtype).itemsize

    def program() -> None:
        csc = asc.AippColorSpaceConvParams(convert, *matrix, *bias, *bias)
        config = asc.AippParams(
            dtype, asc.AippPaddingParams(mode, *border), asc.AippSwapParams(**swap),
            dtc_params=asc.AippDataTypeConvParams(*mean, *(float(x) for x in low), *(float(x) for x in factor)),
            c_padding_params=asc.AippChannelPaddingParams(int(four), 9), csc_params=csc,
        )  # fmt: skip
        planes = [tensor(image)] + ([tensor(image, width * height)] if yuv else [])
        asc.set_aipp_functions(*planes, kind, config)
        asc.load_image_to_local(
            asc.LocalTensor(dtype, asc.TPosition.A1),
            asc.LoadImageToLocalParams(columns, rows, left, top, width, pads[2], pads[3], pads[0], pads[1]),
        )

    b.run(program)
    out_rows, out_columns = rows + pads[2] + pads[3], columns + pads[0] + pads[1]
    got = b.get("L1", dtype, out_rows * out_columns * channels).reshape(out_rows, out_columns, channels)
    for i in range(out_rows):
        for j in range(out_columns):
            y, x = source_of(i - pads[2], rows, mode), source_of(j - pads[0], columns, mode)
            count = 1 if kind == Format.YUV400_U8 else 3
            if y is None or x is None:
                want: list[Any] = border[:count]
            else:
                pixel = sample(image, kind, width, height, top + y, left + x, swap)
                if convert:
                    shifted = [p - q if yuv else p for p, q in zip(pixel, bias, strict=True)]
                    lines = [sum(matrix[3 * r + c] * shifted[c] for c in range(3)) >> 8 for r in range(3)]
                    pixel = [min(max(v + (0 if yuv else bias[r]), 0), 255) for r, v in enumerate(lines)]
                if dtype == "uint8":
                    want = pixel
                elif dtype == "int8":
                    want = [min(max(p - m, -128), 127) for p, m in zip(pixel, mean, strict=False)]
                else:
                    exact = [np.float32(p) - np.float32(mean[c]) - np.float32(low[c]) for c, p in enumerate(pixel)]
                    want = [np.float16(x * np.float32(factor[c])) for c, x in enumerate(exact)]
            np.testing.assert_array_equal(got[i, j], [*want, *[9] * (channels - count)])


@cases(rows=st.integers(0, 5), columns=st.integers(0, 7), pixel=st.sampled_from([1, 3, 4]), gap=st.integers(0, 9),
       wide=st.booleans(), seed=st.integers(0, 1 << 30),
       chip=st.sampled_from(["Ascend310P3", "Ascend310B1"]))  # fmt: skip
def test_load_image_by_channel(
    bench: Any, rows: int, columns: int, pixel: int, gap: int, wide: bool, seed: int, chip: str
) -> None:
    """The short form: chosen bytes of a pixel, less an offset, times a factor, as halves; other channels zero."""
    rng = np.random.default_rng(seed)
    pitch, stored = columns * pixel + gap, 16 if wide else 4
    n = min(pixel, 3)
    order = [int(i) for i in rng.permutation(pixel)[:n]]
    offset = [float(x) for x in rng.integers(0, 99, n)]
    scale = [float(x) / 64 for x in rng.integers(1, 64, n)]
    image = rng.integers(0, 256, max(rows * pitch, 1)).astype(np.uint8)
    b = bench(chip, None, [image])

    def program() -> None:
        params = asc.ImageParams(rows, columns, pitch, pixel, tuple(order), tuple(offset), tuple(scale), stored)
        asc.load_image(asc.LocalTensor("float16", asc.TPosition.A1), tensor(image), params)

    b.run(program)
    got = b.get("L1", np.float16, rows * columns * stored).reshape(rows, columns, stored)
    for y, x, channel in np.ndindex(rows, columns, stored):
        want = 0.0
        if channel < n:
            want = (int(image[y * pitch + x * pixel + order[channel]]) - offset[channel]) * scale[channel]
        assert got[y, x, channel] == np.float16(want)


def test_single_line(bench: Any) -> None:
    image = np.arange(64, dtype=np.uint8)
    b = bench("Ascend310P3", None, [image])
    b.put("L1", np.full(4096, 77, np.uint8))

    def program() -> None:
        config = asc.AippParams("uint8", single_line_params=asc.AippSingleLineParams(True))
        asc.set_aipp_functions(tensor(image), Format.YUV400_U8, config)
        params = asc.LoadImageToLocalParams(8, 8, 0, 1, 8)
        asc.load_image_to_local(asc.LocalTensor("uint8", asc.TPosition.A1), params)

    b.run(program)
    got = b.get("L1", np.uint8, 512).reshape(16, 32)
    assert got[:8, 0].tolist() == list(range(8, 16)) and (got[8:] == 77).all()


BAD = [
    ("Ascend910A", {}, {}, "chip"),
    ("Ascend310P3", {"format": 3}, {}, "format"),
    ("Ascend310P3", {"mode": 4}, {}, "padding_mode"),
    ("Ascend310P3", {"format": Format.YUV420SP_U8}, {}, "src1"),
    ("Ascend310P3", {}, {"horiz_size": 1}, "horiz_size"),
    ("Ascend310P3", {}, {"horiz_start_pos": 1}, "horiz_start_pos"),
    ("Ascend310P3", {}, {"left_pad_size": 33}, "left_pad_size"),
    ("Ascend310P3", {}, {"top_pad_size": 1}, "top_pad_size"),
    ("Ascend310P3", {"mode": 2}, {"left_pad_size": 5}, "left_pad_size"),
    ("Ascend310P3", {}, {"horiz_size": 8, "horiz_start_pos": 2}, "exceeds the image"),
    ("Ascend310P3", {}, {"vert_size": 100}, "runs past its end"),
    ("Ascend310P3", {"dtype": "float16"}, {}, "data type"),
]


@pytest.mark.parametrize(("chip", "settings", "load", "named"), BAD)
def test_image_restrictions(bench: Any, chip: str, settings: dict[str, Any], load: dict[str, int], named: str) -> None:
    image = np.zeros(64, np.uint8)

    def program() -> None:
        config = asc.AippParams(settings.get("dtype", "uint8"), asc.AippPaddingParams(settings.get("mode", 0)))
        asc.set_aipp_functions(tensor(image), settings.get("format", Format.YUV400_U8), config)
        params = asc.LoadImageToLocalParams(**({"horiz_size": 4, "vert_size": 4, "src_horiz_size": 8} | load))
        asc.load_image_to_local(asc.LocalTensor("uint8", asc.TPosition.A1), params)

    with pytest.raises(InstructionError, match=named) as error:
        bench(chip, None, [image]).run(program)
    assert error.value.place is not None and error.value.place[0] == __file__


def test_load_needs_settings(bench: Any) -> None:
    def program() -> None:
        asc.load_image_to_local(asc.LocalTensor("uint8", asc.TPosition.A1), asc.LoadImageToLocalParams())

    with pytest.raises(InstructionError, match="set_aipp_functions was not called"):
        bench("Ascend310P3").run(program)
