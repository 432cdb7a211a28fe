"""JPEG and PNG against Pillow, and against ffmpeg's decoder where PyAV is installed."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as Pillow

from ascend_sim.dvpp import colour, jpeg, png
from ascend_sim.dvpp.errors import BadStream, Unsupported
from ascend_sim.dvpp.formats import FORMATS, NV12, NV21, RGB888, RGBA8888
from ascend_sim.dvpp.image import Image

KINDS = {0: jpeg.CSS_444, 1: jpeg.CSS_422, 2: jpeg.CSS_420}


def photo(width: int, height: int, mode: str = "RGB") -> Any:
    rng = np.random.default_rng(width * height)
    base = Pillow.fromarray(rng.integers(80, 176, (height // 8, width // 8, 3), np.uint8))  # RGB never saturates
    return base.resize((width, height), Pillow.Resampling.BICUBIC).convert(mode)


def encoded(picture: Any, **options: Any) -> bytes:
    out = io.BytesIO()
    picture.save(out, "JPEG", **options)
    return out.getvalue()


@pytest.mark.parametrize("size", [(64, 48), (321, 245), (322, 246), (33, 32)])
@pytest.mark.parametrize("sampling", [0, 1, 2])
def test_planes_give_pillows_picture(size: tuple[int, int], sampling: int) -> None:
    data = encoded(photo(*size), quality=92, subsampling=sampling)
    header = jpeg.info(data)
    assert (header.width, header.height, header.components, header.format) == (*size, 3, KINDS[sampling])
    planes = jpeg.decode(data, header)
    reference = np.asarray(Pillow.open(io.BytesIO(data)).convert("YCbCr")).astype(int)
    assert np.abs(planes.planes["Y"] - reference[:, :, 0]).max() <= 2
    w, h = header.subsampling
    for i, name in enumerate("UV", 1):
        mean = colour.shrink(reference[:, :, i].astype(np.uint8), w, h).astype(int)
        assert np.abs(planes.planes[name] - mean).mean() < 2  # Pillow interpolates chroma


@pytest.mark.parametrize("size", [(321, 245), (322, 246), (640, 480)])
@pytest.mark.parametrize("sampling", [0, 1, 2])
def test_planes_are_those_of_the_file(size: tuple[int, int], sampling: int) -> None:
    av = pytest.importorskip("av")
    data = encoded(photo(*size), quality=95, subsampling=sampling)
    decoder = av.CodecContext.create("mjpeg", "r")
    frame = (decoder.decode(av.Packet(data)) or decoder.decode(None))[0]
    mine = jpeg.decode(data, jpeg.info(data))
    for plane, name in zip(frame.planes, "YUV", strict=True):
        samples = np.frombuffer(plane, np.uint8).reshape(plane.height, plane.line_size)[:, : plane.width].astype(int)
        assert np.abs(samples - mine.planes[name]).max() <= 2


def test_gray_and_nv12_outputs() -> None:
    data = encoded(photo(64, 48, "L"))
    header = jpeg.info(data)
    assert header.format == jpeg.CSS_GRAY and header.components == 1
    made = jpeg.fitted(jpeg.decode(data, header), NV12, 64, 48)
    assert np.array_equal(made.planes["Y"], np.asarray(Pillow.open(io.BytesIO(data))))
    assert (made.planes["U"] == 128).all() and made.planes["U"].shape == (24, 32)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_turns_the_picture(orientation: int) -> None:
    from PIL import ImageOps

    exif = Pillow.Exif()
    exif[0x0112] = orientation
    data = encoded(photo(64, 48), quality=95, subsampling=0, exif=exif)
    header = jpeg.info(data)
    assert header.orientation == orientation
    turned = jpeg.decode(data, header)
    seen = np.asarray(ImageOps.exif_transpose(Pillow.open(io.BytesIO(data))).convert("YCbCr")).astype(int)
    assert (turned.height, turned.width) == seen.shape[:2] and jpeg.seen_size(header) == (turned.width, turned.height)
    assert np.abs(turned.planes["Y"] - seen[:, :, 0]).max() <= 2


def test_what_the_decoder_refuses() -> None:
    progressive = encoded(photo(64, 48), progressive=True)
    header = jpeg.info(progressive)
    assert "progressive" in header.problem
    with pytest.raises(Unsupported, match="progressive"):
        jpeg.decode(progressive, header)
    with pytest.raises(BadStream, match="no JPEG"):
        jpeg.info(b"\x89PNG1234")
    cmyk = encoded(photo(64, 48, "CMYK"))
    assert "4 components" in jpeg.info(cmyk).problem


@given(cut=st.integers(0, 2000), flips=st.lists(st.tuples(st.integers(0, 1999), st.integers(0, 255)), max_size=6))
@settings(max_examples=150, deadline=None)
def test_broken_files_are_refused_not_fatal(cut: int, flips: list[tuple[int, int]]) -> None:
    data = bytearray(encoded(photo(64, 48), quality=60))
    for at, value in flips:
        data[at % len(data)] = value
    try:
        header = jpeg.info(bytes(data[:cut]) if cut < len(data) else bytes(data))
        made = jpeg.decode(bytes(data), header)
    except BadStream:
        return
    assert made.planes["Y"].dtype == np.uint8


@pytest.mark.parametrize(("number", "form"), [(1, NV12), (2, NV21), (7, FORMATS[7])])
@pytest.mark.parametrize("level", [100, 50, 0])
def test_encoder_keeps_planes(number: int, form: Any, level: int) -> None:
    planes = colour.convert(Image(64, 48, {c: np.asarray(photo(64, 48))[:, :, i] for i, c in enumerate("RGB")}), form)
    data = jpeg.encode(planes, level)
    assert len(data) <= jpeg.encoded_bound(form, 64, 48)
    again = jpeg.decode(data, jpeg.info(data))
    assert again.subsampling == planes.subsampling
    for name in "YUV":
        worst = 3 if level != 50 else 40
        assert np.abs(again.planes[name].astype(int) - planes.planes[name]).max() <= worst
    assert len(jpeg.encode(planes, 1)) < len(jpeg.encode(planes, 50)) < len(jpeg.encode(planes, 100))


def test_bound_holds_for_noise() -> None:
    rng = np.random.default_rng(1)
    planes = Image(128, 96, {"Y": rng.integers(0, 256, (96, 128), dtype=np.uint8)} | {
        c: rng.integers(0, 256, (48, 64), dtype=np.uint8) for c in "UV"})  # fmt: skip
    assert len(jpeg.encode(planes, 100)) <= jpeg.encoded_bound(NV12, 128, 96)


@pytest.mark.parametrize(("mode", "form"), [("RGB", RGB888), ("L", RGB888), ("RGBA", RGBA8888), ("LA", RGBA8888)])
def test_png(mode: str, form: Any) -> None:
    picture = photo(64, 48).convert(mode)
    out = io.BytesIO()
    picture.save(out, "PNG")
    header = png.info(out.getvalue())
    assert (header.width, header.height, header.problem) == (64, 48, "")
    assert png.output_form(10000, header) is form
    made = png.decode(out.getvalue(), form)
    reference = np.asarray(picture.convert(form.order))
    for i, name in enumerate(form.order):
        assert np.array_equal(made.planes[name], reference[:, :, i])
    assert png.output_strides(form, 64, 48) == (128 * len(form.order), 48)


def test_png_refusals() -> None:
    out = io.BytesIO()
    photo(64, 48).convert("P").save(out, "PNG")
    assert "palette" in png.info(out.getvalue()).problem
    with pytest.raises(BadStream):
        png.info(b"\xff\xd8\xff\xe0")
    out = io.BytesIO()
    photo(64, 48).save(out, "PNG")
    with pytest.raises(BadStream):
        png.decode(out.getvalue()[:200], RGB888)
