"""acl.media: what the picture units compute, against Pillow."""

from __future__ import annotations

import ctypes
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from media_program import BGR, NV12, NV21, RGB, MediaProgram, jpeg_bytes, media, nv12, photo
from PIL import Image as Pillow

import acl
from acl import _sim
from ascend_sim.runtime import system as machine
from ascend_sim.soc import load_soc


@pytest.fixture
def program(device: int) -> MediaProgram:
    return MediaProgram()


def started(soc: str) -> MediaProgram:
    _sim.reset()
    machine.configure(soc=soc, devices=1)
    assert acl.init() == 0 and acl.rt.set_device(0) == 0
    return MediaProgram()


def worst(a: Any, b: Any) -> int:
    return int(np.abs(a.astype(int) - b.astype(int)).max())


def decode(program: MediaProgram, data: bytes, form: int = NV12) -> int:
    size, ret = media.dvpp_jpeg_predict_dec_size(program.host(data), len(data), form)
    program.ok(ret)
    desc = media.dvpp_create_pic_desc()
    media.dvpp_set_pic_desc_data(desc, program.malloc(size))
    media.dvpp_set_pic_desc_size(desc, size)
    media.dvpp_set_pic_desc_format(desc, form)
    source = program.upload(data)
    program.ok(media.dvpp_jpeg_decode_async(program.channel, source, len(data), desc, program.stream))
    program.sync()
    assert media.dvpp_get_pic_desc_ret_code(desc) == 0
    return int(desc)


@pytest.mark.parametrize("soc", ["Ascend310", "Ascend310P3", "Ascend910A", "Ascend910B2", "Ascend310B1"])
def test_decode_resize_encode_on_every_generation(soc: str) -> None:
    program = started(soc)
    pixels = photo(320, 192)
    data = jpeg_bytes(pixels)
    host = program.host(data)
    assert media.dvpp_jpeg_get_image_info(host, len(data)) == (320, 192, 3, 0)
    assert media.dvpp_jpeg_get_image_info_v2(host, len(data)) == (320, 192, 3, 2, 0)
    decoded = decode(program, data)
    align = 128 if soc in ("Ascend310", "Ascend910A") else 64
    wide = -(-320 // align) * align
    assert media.dvpp_get_pic_desc_width_stride(decoded) == wide
    made, seen = program.planes(decoded), nv12(np.asarray(Pillow.open(io.BytesIO(data)).convert("RGB")))
    assert worst(made[:192], seen[:192]) <= 2 and worst(made[192:], seen[192:]) <= 3  # Pillow interpolates chroma

    small = program.picture(160, 96)
    config = media.dvpp_create_resize_config()
    program.ok(media.dvpp_set_resize_config_interpolation(config, 1))
    assert media.dvpp_get_resize_config_interpolation(config) == 1
    program.ok(media.dvpp_vpc_resize_async(program.channel, decoded, small, config, program.stream))
    program.sync()
    reference = np.asarray(Pillow.fromarray(nv12(pixels)[:192]).resize((160, 96), Pillow.Resampling.BOX))
    assert worst(program.planes(small)[:96], reference) <= 3  # halving: bilinear takes the mean of four pixels

    quality = media.dvpp_create_jpege_config()
    program.ok(media.dvpp_set_jpege_config_level(quality, 100))
    assert media.dvpp_get_jpege_config_level(quality) == 100
    bound, ret = media.dvpp_jpeg_predict_enc_size(small, quality)
    program.ok(ret)
    out, size = program.malloc(bound), ctypes.c_uint32(bound)
    at = ctypes.addressof(size)
    program.ok(media.dvpp_jpeg_encode_async(program.channel, small, out, at, quality, program.stream))
    program.sync()
    assert 0 < size.value <= bound
    again = np.asarray(Pillow.open(io.BytesIO(program.download(out, size.value).tobytes())).convert("YCbCr"))
    assert worst(again[:, :, 0], program.planes(small)[:96]) <= 3


@pytest.mark.parametrize("sampling", [0, 1, 2])
@pytest.mark.parametrize("form", [NV12, NV21])
def test_decoding_every_sampling(program: MediaProgram, sampling: int, form: int) -> None:
    data = jpeg_bytes(photo(130, 98), subsampling=sampling)
    desc = decode(program, data, form)
    reference = nv12(np.asarray(Pillow.open(io.BytesIO(data)).convert("RGB")))
    if form == NV21:
        reference[98:] = reference[98:].reshape(49, 65, 2)[:, :, ::-1].reshape(49, 130)
    made = program.planes(desc)
    assert worst(made[:98], reference[:98]) <= 2
    assert np.abs(made[98:].astype(int) - reference[98:]).mean() < 2


def test_decoding_keeps_the_format_of_the_source(program: MediaProgram) -> None:
    data = jpeg_bytes(photo(128, 64), subsampling=0)
    desc = decode(program, data, 10000)
    assert media.dvpp_get_pic_desc_format(desc) == 6  # YVU444SP
    assert media.dvpp_jpeg_predict_dec_size(program.host(data), len(data), 10000) == (128 * 64 * 3, 0)


def test_odd_sizes_are_cut_to_even_ones(program: MediaProgram) -> None:
    desc = decode(program, jpeg_bytes(photo(131, 99)))
    assert (media.dvpp_get_pic_desc_width(desc), media.dvpp_get_pic_desc_height(desc)) == (130, 98)
    assert (media.dvpp_get_pic_desc_width_stride(desc), media.dvpp_get_pic_desc_height_stride(desc)) == (192, 112)


def test_gray(program: MediaProgram) -> None:
    pixels = photo(64, 64)[:, :, 0]
    data = jpeg_bytes(pixels)
    made = program.planes(decode(program, data))
    assert worst(made[:64], np.asarray(Pillow.open(io.BytesIO(data)))) == 0 and (made[64:] == 128).all()


# -- image unit ------------------------------------------------------------------------------------------------


def test_crop(program: MediaProgram) -> None:
    given = nv12(photo(128, 96))
    source, target = program.picture(128, 96, data=given), program.picture(64, 32)
    roi = program.roi(32, 95, 16, 47)
    program.ok(media.dvpp_vpc_crop_async(program.channel, source, target, roi, program.stream))
    program.sync()
    made = program.planes(target)
    assert np.array_equal(made[:32], given[16:48, 32:96]) and np.array_equal(made[32:], given[96 + 8 : 96 + 24, 32:96])


def test_crop_and_paste_leaves_the_rest(program: MediaProgram) -> None:
    given, ground = nv12(photo(128, 96)), np.full((96 * 3 // 2, 128), 9, np.uint8)
    source, target = program.picture(128, 96, data=given), program.picture(128, 96, data=ground)
    crop, paste = program.roi(0, 127, 0, 95), program.roi(16, 79, 8, 55)
    program.ok(media.dvpp_vpc_crop_and_paste_async(program.channel, source, target, crop, paste, program.stream))
    program.sync()
    made = program.planes(target)
    half = np.asarray(Pillow.fromarray(given[:96]).resize((64, 48), Pillow.Resampling.BOX))
    assert worst(made[8:56, 16:80], half) <= 1
    outside = np.ones(made.shape, bool)
    outside[8:56, 16:80] = outside[96 + 4 : 96 + 28, 16:80] = False
    assert (made[outside] == 9).all()


@pytest.mark.parametrize("method", ["crop_resize", "crop_resize_paste"])
def test_crop_resize_variants(program: MediaProgram, method: str) -> None:
    given = nv12(photo(128, 96))
    source, target = program.picture(128, 96, data=given), program.picture(64, 64)
    config = media.dvpp_create_resize_config()
    program.ok(media.dvpp_set_resize_config_interpolation(config, 2))
    rois = [program.roi(0, 63, 0, 63)]
    if method == "crop_resize_paste":
        rois.append(program.roi(0, 31, 0, 31))
    call = getattr(media, f"dvpp_vpc_{method}_async")
    program.ok(call(program.channel, source, target, *rois, config, program.stream))
    program.sync()
    made, step = program.planes(target), 2 if len(rois) == 2 else 1
    size = 64 // step
    assert np.array_equal(made[:size, :size], given[:64:step, :64:step])


def test_batches(program: MediaProgram) -> None:
    first, second = nv12(photo(128, 96, 1)), nv12(photo(128, 96, 2))
    sources, targets = media.dvpp_create_batch_pic_desc(2), media.dvpp_create_batch_pic_desc(3)
    for i, given in enumerate((first, second)):
        program.picture(128, 96, data=given, desc=media.dvpp_get_pic_desc(sources, i))
    outs = [program.picture(32, 32, desc=media.dvpp_get_pic_desc(targets, i)) for i in range(3)]
    crops = [program.roi(0, 31, 0, 31), program.roi(32, 63, 32, 63), program.roi(64, 95, 0, 31)]
    call = media.dvpp_vpc_batch_crop_async(program.channel, sources, [2, 1], targets, crops, program.stream)
    assert call == (targets, 0)
    program.sync()
    for out, given, (x, y) in zip(outs, (first, first, second), ((0, 0), (32, 32), (64, 0)), strict=True):
        assert np.array_equal(program.planes(out)[:32], given[y : y + 32, x : x + 32])

    pastes = [program.roi(0, 15, 0, 15), program.roi(16, 31, 0, 15), program.roi(0, 15, 16, 31)]
    args = (program.channel, sources, [2, 1], targets, crops, pastes)
    assert media.dvpp_vpc_batch_crop_and_paste_async(*args, program.stream) == (targets, 0)
    assert media.dvpp_vpc_batch_crop_resize_paste_async(*args, program.resize, program.stream) == (targets, 0)
    resized = media.dvpp_vpc_batch_crop_resize_async(*args[:5], program.resize, program.stream)
    assert resized == (targets, 0)
    border = media.dvpp_create_border_config()
    program.ok(media.dvpp_set_border_config_left(border, 8))
    program.ok(media.dvpp_set_border_config_right(border, 8))
    for index, value in enumerate((1, 2, 3)):
        program.ok(media.dvpp_set_border_config_value(border, index, value))
        assert media.dvpp_get_border_config_value(border, index) == value
    made = media.dvpp_vpc_batch_crop_resize_make_border_async(*args[:5], [border] * 3, program.resize, program.stream)
    assert made == (targets, 0)
    program.sync()
    last = program.planes(outs[2])
    assert (last[:32, :8] == 1).all() and (last[32:, 0:8:2] == 2).all() and (last[32:, 1:8:2] == 3).all()
    program.ok(media.dvpp_destroy_batch_pic_desc(targets))
    assert media.dvpp_get_pic_desc_width(outs[0]) == 0


def test_colour_conversion(program: MediaProgram) -> None:
    pixels = photo(64, 48)
    source = program.picture(64, 48, data=nv12(pixels))
    for form, channels in ((RGB, slice(None)), (BGR, slice(None, None, -1))):
        target = program.picture(64, 48, form)
        program.ok(media.dvpp_vpc_convert_color_async(program.channel, source, target, program.stream))
        program.sync()
        made = program.planes(target).reshape(48, 64, 3)
        assert np.abs(made.astype(int) - pixels[:, :, channels]).mean() < 3  # chroma was halved
    flat = np.full((48, 64, 3), (200, 30, 90), np.uint8)
    target = program.picture(64, 48)
    source = program.picture(64, 48, RGB, data=flat)
    program.ok(media.dvpp_vpc_convert_color_async(program.channel, source, target, program.stream))
    program.sync()
    assert worst(program.planes(target), nv12(flat)) <= 1
    desc, ret = media.dvpp_set_channel_desc_param(program.channel, 0, 1)  # narrow BT.601
    assert (desc, ret) == (program.channel, 0)
    assert media.dvpp_get_channel_desc_param(program.channel, 0) == (1, 0)
    white = program.picture(64, 48, RGB, data=np.full((48, 64, 3), 255, np.uint8))
    program.ok(media.dvpp_vpc_convert_color_async(program.channel, white, target, program.stream))
    program.sync()
    assert (program.planes(target)[:48] == 235).all()


def test_border(program: MediaProgram) -> None:
    given = nv12(photo(64, 48))
    border = media.dvpp_create_border_config()
    program.ok(media.dvpp_set_border_config_border_type(border, 1))
    for name, value in (("top", 2), ("bottom", 4), ("left", 6), ("right", 8)):
        program.ok(getattr(media, f"dvpp_set_border_config_{name}")(border, value))
        assert getattr(media, f"dvpp_get_border_config_{name}")(border) == value
    source, target = program.picture(64, 48, data=given), program.picture(78, 54)
    program.ok(media.dvpp_vpc_make_border_async(program.channel, source, target, border, program.stream))
    program.sync()
    assert np.array_equal(program.planes(target)[:54], np.pad(given[:48], ((2, 4), (6, 8)), mode="edge"))


def test_descriptions_that_change_after_the_call(program: MediaProgram) -> None:
    """A task works with what was described when it was submitted."""
    given = nv12(photo(64, 48))
    border = media.dvpp_create_border_config()
    program.ok(media.dvpp_set_border_config_border_type(border, 1))
    program.ok(media.dvpp_set_border_config_left(border, 2))
    source, target = program.picture(64, 48, data=given), program.picture(66, 48)
    program.ok(media.dvpp_vpc_make_border_async(program.channel, source, target, border, program.stream))
    for name in ("top", "bottom", "left", "right"):
        program.ok(getattr(media, f"dvpp_set_border_config_{name}")(border, 1))
    program.ok(media.dvpp_destroy_border_config(border))
    for setter, value in (("width", 8), ("height", 8), ("width_stride", 16), ("height_stride", 8), ("size", 16)):
        program.ok(getattr(media, f"dvpp_set_pic_desc_{setter}")(source, value))
    program.sync()
    assert np.array_equal(program.planes(target)[:48], np.pad(given[:48], ((0, 0), (2, 0)), mode="edge"))


def test_histogram_table_and_pyramid(program: MediaProgram) -> None:
    given = nv12(photo(64, 48))
    source, hist = program.picture(64, 48, data=given), media.dvpp_create_hist()
    assert media.dvpp_get_hist_dims(hist) == 3
    program.ok(media.dvpp_vpc_calc_hist_async(program.channel, source, hist, 0, program.stream))
    program.sync()
    assert media.dvpp_get_hist_ret_code(hist) == 0
    address, length, ret = media.dvpp_get_hist_data(hist, 0)
    assert (length, ret) == (256, 0)
    counts = np.ctypeslib.as_array((ctypes.c_uint32 * 256).from_address(address))
    assert np.array_equal(counts, np.bincount(given[:48].ravel(), minlength=256))
    program.ok(media.dvpp_clear_hist(hist))
    assert counts.sum() == 0

    lut = media.dvpp_create_lut_map()
    assert media.dvpp_get_lut_map_dims(lut) == 3
    for dim in range(3):
        address, length, ret = media.dvpp_get_lut_map_data(lut, dim)
        assert (length, ret) == (256, 0)
        ctypes.memmove(address, bytes(range(255, -1, -1)), 256)
    target = program.picture(64, 48)
    program.ok(media.dvpp_vpc_equalize_hist_async(program.channel, source, target, lut, program.stream))
    program.sync()
    assert np.array_equal(program.planes(target), 255 - given)

    half = program.picture(32, 24)
    program.ok(media.dvpp_vpc_pyr_down_async(program.channel, source, half, 0, program.stream))
    program.sync()
    kernel = np.outer((1, 4, 6, 4, 1), (1, 4, 6, 4, 1)) / 256
    padded = np.pad(given[:48].astype(float), 2, mode="reflect")
    expected = [[(padded[r : r + 5, c : c + 5] * kernel).sum() for c in range(0, 64, 2)] for r in range(0, 48, 2)]
    assert np.abs(program.planes(half)[:24] - np.array(expected)).max() <= 0.51


@pytest.mark.parametrize(("mode", "form"), [("RGB", 12), ("L", 12), ("RGBA", 16)])
def test_png(program: MediaProgram, mode: str, form: int) -> None:
    picture = Pillow.fromarray(photo(130, 70)).convert(mode)
    out = io.BytesIO()
    picture.save(out, "PNG")
    data = out.getvalue()
    assert media.dvpp_png_get_image_info(program.host(data), len(data)) == (130, 70, 0)
    size, ret = media.dvpp_png_predict_dec_size(program.host(data), len(data), form)
    channels = 4 if form == 16 else 3
    assert (size, ret) == (256 * channels * 80, 0)
    desc = media.dvpp_create_pic_desc()
    media.dvpp_set_pic_desc_data(desc, program.malloc(size))
    media.dvpp_set_pic_desc_size(desc, size)
    media.dvpp_set_pic_desc_format(desc, 10000)
    source = program.upload(data)
    program.ok(media.dvpp_png_decode_async(program.channel, source, len(data), desc, program.stream))
    program.sync()
    assert media.dvpp_get_pic_desc_format(desc) == form
    made = program.planes(desc).reshape(70, 130, channels)
    assert np.array_equal(made, np.asarray(picture.convert("RGBA" if form == 16 else "RGB")))


# -- time ------------------------------------------------------------------------------------------------------


@pytest.fixture
def events() -> Iterator[list[Any]]:
    """Every event from now on."""
    seen: list[Any] = []
    observer = _sim.observe(seen.append)
    yield seen
    _sim.unobserve(observer)


@pytest.mark.parametrize(
    ("soc", "unit", "fps", "total"),
    [
        # frames per second at 1080p of one channel and of all units (public performance pages)
        ("Ascend310P3", "VPC", 360, 4320), ("Ascend310P3", "JPEGD", 128, 2048), ("Ascend310P3", "JPEGE", 128, 1024),
        ("Ascend310", "VPC", 360, 1440), ("Ascend310", "JPEGD", 128, 256), ("Ascend910A", "JPEGD", 128, 2048),
        ("Ascend310P3", "PNGD", 4, 24), ("Ascend310P3", "VDEC", 240, 2880), ("Ascend310P3", "VENC", 240, 720),
        ("Ascend310B1", "JPEGD", 128, 512),
    ],
)  # fmt: skip
def test_rates(soc: str, unit: str, fps: int, total: int) -> None:
    from ascend_sim.dvpp import units

    chip, kind, pixels = load_soc(soc), unit.lower(), 1920 * 1080
    assert units.job_ps(chip, kind, pixels) == pytest.approx(1e12 / fps, rel=0.005)
    pool, number = units.Units(chip), 240
    _, end = pool.reserve(kind, 0, [pixels] * number)
    assert number / (end / 1e12) == pytest.approx(total, rel=0.01)


def test_tasks_are_asynchronous_in_order_and_timed(program: MediaProgram, events: list[Any]) -> None:
    given = nv12(photo(1920, 1080))
    source, middle, last = program.picture(1920, 1080, data=given), program.picture(640, 360), program.picture(320, 180)
    config = media.dvpp_create_resize_config()
    program.ok(media.dvpp_vpc_resize_async(program.channel, source, middle, config, program.stream))
    program.ok(media.dvpp_vpc_resize_async(program.channel, middle, last, config, program.stream))
    assert acl.rt.stream_query(program.stream) == (1, 0)
    assert not program.planes(last).any()  # not there yet
    program.sync()
    assert program.planes(last)[:180].any()
    first, second = [e for e in events if e.kind == "dvpp"]
    assert first.end <= second.start and first.args["op_type"] == "VPC" and first.name == "VpcResize"
    pixels = 1920 * 1080
    assert first.duration == pytest.approx(pixels / 746.5e6 * 1e12, rel=1e-6)
    assert second.duration == pytest.approx(640 * 360 / 746.5e6 * 1e12, rel=1e-6)  # the larger picture counts


def test_a_batch_uses_all_units(program: MediaProgram, events: list[Any]) -> None:
    sources, targets = media.dvpp_create_batch_pic_desc(1), media.dvpp_create_batch_pic_desc(12)
    program.picture(512, 512, desc=media.dvpp_get_pic_desc(sources, 0))
    for i in range(12):
        program.picture(256, 256, desc=media.dvpp_get_pic_desc(targets, i))
    rois = [program.roi(0, 511, 0, 511)] * 12
    _, ret = media.dvpp_vpc_batch_crop_resize_async(
        program.channel, sources, [12], targets, rois, program.resize, program.stream
    )
    program.ok(ret)
    program.sync()
    (event,) = [e for e in events if e.kind == "dvpp"]
    assert event.args["pictures"] == 12
    assert event.duration == pytest.approx(512 * 512 / 746.5e6 * 1e12, rel=1e-6)


def test_two_channels_share_two_decoders_of_a_310() -> None:
    program = started("Ascend310")
    data = jpeg_bytes(photo(640, 480))
    source, size = program.upload(data), 640 * 480 * 3 // 2
    streams = [acl.rt.create_stream()[0] for _ in range(3)]
    before = _sim.host().now
    for stream in streams:
        desc = media.dvpp_create_pic_desc()
        media.dvpp_set_pic_desc_data(desc, program.malloc(size))
        media.dvpp_set_pic_desc_size(desc, size)
        media.dvpp_set_pic_desc_format(desc, NV12)
        program.ok(media.dvpp_jpeg_decode_async(program.channel, source, len(data), desc, stream))
    for stream in streams:
        assert acl.rt.synchronize_stream(stream) == 0
    one = 640 * 480 / 265.4e6 * 1e12
    assert 2 * one < _sim.host().now - before < 2.3 * one


@pytest.mark.parametrize(("soc", "streams", "fps"), [("Ascend310P3", 1, 128), ("Ascend310P3", 20, 2048),
                                                   ("Ascend310", 1, 128), ("Ascend310", 4, 256)])  # fmt: skip
def test_decoding_rate_of_a_program(soc: str, streams: int, fps: int) -> None:
    """Frames per second at 1080p as the public pages count them: one stream a channel, tasks queued ahead."""
    _sim.reset()
    machine.configure(soc=soc, devices=1)
    assert acl.init() == 0 and acl.rt.set_device(0) == 0
    _sim.set_values_mode("none")
    program = MediaProgram()
    data = jpeg_bytes(photo(1920, 1080))
    size, _ = media.dvpp_jpeg_predict_dec_size(program.host(data), len(data), NV12)
    source, lanes, each = program.upload(data), [acl.rt.create_stream()[0] for _ in range(streams)], 12
    descs = []
    for _ in lanes:
        desc = media.dvpp_create_pic_desc()
        media.dvpp_set_pic_desc_data(desc, program.malloc(size))
        media.dvpp_set_pic_desc_size(desc, size)
        media.dvpp_set_pic_desc_format(desc, NV12)
        descs.append(desc)
    start = _sim.host().now
    for _ in range(each):
        for lane, desc in zip(lanes, descs, strict=True):
            program.ok(media.dvpp_jpeg_decode_async(program.channel, source, len(data), desc, lane))
    for lane in lanes:
        program.ok(acl.rt.synchronize_stream(lane))
    assert media.dvpp_get_pic_desc_ret_code(descs[0]) == 0 and media.dvpp_get_pic_desc_width(descs[0]) == 1920
    assert streams * each / ((_sim.host().now - start) / 1e12) == pytest.approx(fps, rel=0.08)


def test_media_tasks_are_in_the_profile(program: MediaProgram) -> None:
    from ascend_sim.profiling.msprof_tables import task_time
    from ascend_sim.profiling.store import EventStore

    store = EventStore()
    _sim.observe(store)
    source, target = program.picture(64, 48), program.picture(32, 24)
    program.ok(media.dvpp_vpc_resize_async(program.channel, source, target, program.resize, program.stream))
    program.sync()
    _sim.unobserve(store)
    assert [row[1:3] for row in task_time(store)] == [["VpcResize", "DVPP"]]
