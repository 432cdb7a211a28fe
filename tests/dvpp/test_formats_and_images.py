"""Layouts of pictures in memory, colour conversion, cropping and pasting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as Pillow

from ascend_sim.dvpp import colour, image, vpc
from ascend_sim.dvpp.formats import FORMATS, NV12, NV21, RGB888, YUV400
from ascend_sim.dvpp.image import Image

# sizes in bytes of a picture with strides of 64 x 32, as the public VPC table gives them
BYTES = {0: 64 * 32, 1: 64 * 32 * 3 // 2, 2: 64 * 32 * 3 // 2, 3: 64 * 32 * 2, 4: 64 * 32 * 2, 5: 64 * 32 * 3,
         6: 64 * 32 * 3, 7: 64 * 32, 10: 64 * 32, 12: 64 * 32, 14: 64 * 32, 1000: 64 * 32 * 2}  # fmt: skip


@pytest.mark.parametrize("number", sorted(BYTES))
def test_sizes(number: int) -> None:
    assert FORMATS[number].nbytes(64, 32) == BYTES[number]


def noise(width: int, height: int, number: int, seed: int = 0) -> Image:
    form = FORMATS[number]
    rng = np.random.default_rng(seed)
    if form.kind == "rgb":
        return Image(width, height, {c: rng.integers(0, 256, (height, width), dtype=np.uint8) for c in form.order})
    planes = {"Y": rng.integers(0, 256, (height, width), dtype=np.uint8)}
    if form.kind != "gray":
        shape = (-(-height // form.sub_h), -(-width // form.sub_w))
        planes |= {c: rng.integers(0, 256, shape, dtype=np.uint8) for c in "UV"}
    return Image(width, height, planes)


@pytest.mark.parametrize("number", sorted(FORMATS))
@given(width=st.integers(5, 20), height=st.integers(3, 12), extra=st.integers(0, 9), rows=st.integers(0, 3))
@settings(max_examples=25, deadline=None)
def test_what_is_written_is_read(number: int, width: int, height: int, extra: int, rows: int) -> None:
    form = FORMATS[number]
    width, height = 2 * width, 2 * height
    stride, high = width * form.row_bytes + 2 * extra, height + 2 * rows
    memory = np.full(form.nbytes(stride, high), 7, np.uint8)
    picture = noise(width, height, number)
    image.write(picture, memory, form, stride, high)
    again = image.read(memory, form, width, height, stride, high)
    assert again.planes.keys() == picture.planes.keys()
    for name, plane in picture.planes.items():
        assert np.array_equal(again.planes[name], plane), name


def test_bytes_of_small_pictures() -> None:
    """Byte by byte, as the formats are documented."""
    yuv = Image(2, 2, {"Y": np.array([[1, 2], [3, 4]], np.uint8), "U": np.full((1, 1), 5, np.uint8),
                       "V": np.full((1, 1), 6, np.uint8)})  # fmt: skip
    for form, tail in ((NV12, [5, 6]), (NV21, [6, 5])):
        memory = np.zeros(12, np.uint8)
        image.write(yuv, memory, form, 4, 2)
        assert memory.tolist() == [1, 2, 0, 0, 3, 4, 0, 0, *tail, 0, 0]
    packed = Image(2, 1, {"Y": np.array([[1, 2]], np.uint8), "U": np.array([[5]], np.uint8),
                          "V": np.array([[6]], np.uint8)})  # fmt: skip
    for number, expected in ((7, [1, 5, 2, 6]), (8, [5, 1, 6, 2]), (9, [1, 6, 2, 5]), (10, [6, 1, 5, 2])):
        memory = np.zeros(4, np.uint8)
        image.write(packed, memory, FORMATS[number], 4, 1)
        assert memory.tolist() == expected


def test_wide_bt601_is_pillows_ycbcr() -> None:
    picture = noise(64, 48, 12)
    pixels = np.dstack([picture.planes[c] for c in "RGB"])
    reference = np.asarray(Pillow.fromarray(pixels).convert("YCbCr")).astype(int)
    made = colour.to_yuv(*(picture.planes[c] for c in "RGB"))
    for i, name in enumerate("YUV"):
        assert np.abs(made[name] - reference[:, :, i]).max() <= 1
    back = np.asarray(Pillow.fromarray(reference.astype(np.uint8), "YCbCr").convert("RGB")).astype(int)
    rgb = colour.to_rgb(*(reference[:, :, i].astype(np.uint8) for i in range(3)))
    for i, name in enumerate("RGB"):
        assert np.abs(rgb[name] - back[:, :, i]).max() <= 1


@pytest.mark.parametrize(
    ("matrix", "rgb", "yuv"),
    [
        # ITU-R BT.601 and BT.709, 8 bits: white, black and primaries
        (0, (255, 0, 0), (76, 85, 255)), (0, (255, 255, 255), (255, 128, 128)), (1, (255, 255, 255), (235, 128, 128)),
        (1, (0, 0, 0), (16, 128, 128)), (1, (255, 0, 0), (81, 90, 240)), (3, (255, 0, 0), (63, 102, 240)),
        (3, (0, 255, 0), (173, 42, 26)), (2, (0, 0, 255), (18, 255, 116)), (5, (255, 255, 255), (235, 128, 128)),
    ],
)  # fmt: skip
def test_matrices(matrix: int, rgb: tuple[int, ...], yuv: tuple[int, ...]) -> None:
    planes = [np.full((2, 2), v, np.uint8) for v in rgb]
    made = colour.to_yuv(*planes, matrix)
    assert [int(made[c][0, 0]) for c in "YUV"] == pytest.approx(yuv, abs=1)
    back = colour.to_rgb(made["Y"], made["U"], made["V"], matrix)
    assert [int(back[c][0, 0]) for c in "RGB"] == pytest.approx(rgb, abs=2)


def test_conversion_to_subsampled_formats_averages() -> None:
    picture = noise(16, 8, 5)
    made = colour.convert(picture, NV12)
    u = picture.planes["U"].astype(int)
    mean = (u[0::2, 0::2] + u[1::2, 0::2] + u[0::2, 1::2] + u[1::2, 1::2]) / 4
    assert np.abs(made.planes["U"] - mean).max() <= 0.5
    assert np.array_equal(made.planes["Y"], picture.planes["Y"])
    assert list(colour.convert(picture, YUV400).planes) == ["Y"]
    gray = colour.convert(Image(16, 8, {"Y": picture.planes["Y"]}), RGB888)
    for channel in "RGB":
        assert np.array_equal(gray.planes[channel], picture.planes["Y"])


def test_crop_and_paste_are_slices() -> None:
    picture = noise(40, 30, 1)
    part = image.crop(picture, 8, 6, 20, 10)
    assert np.array_equal(part.planes["Y"], picture.planes["Y"][6:16, 8:28])
    assert np.array_equal(part.planes["V"], picture.planes["V"][3:8, 4:14])
    canvas = Image(64, 48, {n: np.zeros((48 // s, 64 // s), np.uint8) for n, s in (("Y", 1), ("U", 2), ("V", 2))})
    pasted = image.paste(canvas, part, 16, 4)
    assert np.array_equal(pasted.planes["Y"][4:14, 16:36], part.planes["Y"])
    assert np.array_equal(pasted.planes["U"][2:7, 8:18], part.planes["U"])
    assert pasted.planes["Y"].sum(dtype=int) == part.planes["Y"].sum(dtype=int)


@pytest.mark.parametrize(("kind", "mode"), [(1, "edge"), (2, "symmetric"), (3, "reflect")])
def test_borders(kind: int, mode: str) -> None:
    picture = noise(12, 10, 12)
    made = vpc.bordered(picture, RGB888, (1, 2, 2, 1), kind, (0, 0, 0, 0))
    assert np.array_equal(made.planes["G"], np.pad(picture.planes["G"], ((1, 2), (2, 1)), mode=mode))  # type: ignore[call-overload]
    flat = vpc.bordered(noise(12, 10, 1), NV12, (2, 2, 4, 4), 0, (10, 20, 30, 0))
    assert (flat.width, flat.height) == (20, 14)
    assert {int(flat.planes[n][0, 0]) for n in "YUV"} == {10, 20, 30} and flat.planes["U"][0, 0] == 20


def test_histogram_and_table() -> None:
    picture = noise(31, 17, 12)
    counts = vpc.histograms(picture, RGB888)
    for count, name in zip(counts, "RGB", strict=True):
        assert np.array_equal(count, np.histogram(picture.planes[name], 256, (0, 256))[0])
    inverse = np.arange(255, -1, -1).astype(np.uint8)
    made = vpc.mapped(picture, RGB888, [inverse] * 3)
    assert np.array_equal(made.planes["B"], 255 - picture.planes["B"])


def test_pyramid_is_opencvs() -> None:
    plane = noise(32, 24, 0).planes["Y"]
    kernel = np.outer((1, 4, 6, 4, 1), (1, 4, 6, 4, 1)) / 256
    padded = np.pad(plane.astype(float), 2, mode="reflect")
    expected = np.array(
        [[(padded[r : r + 5, c : c + 5] * kernel).sum() for c in range(0, 32, 2)] for r in range(0, 24, 2)]
    )
    made = vpc.pyramid_down(Image(32, 24, {"Y": plane})).planes["Y"]
    assert np.abs(made - expected).max() <= 0.5 + 1e-9
