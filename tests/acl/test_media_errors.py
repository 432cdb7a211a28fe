"""acl.media: what is refused, with which code, and that the message says what would be right."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from media_program import NV12, RGB, MediaProgram, jpeg_bytes, media, nv12, photo

import acl
from acl import _sim
from ascend_sim.runtime import system as machine

Fails = Callable[..., str]


@pytest.fixture
def program(device: int) -> MediaProgram:
    return MediaProgram()


def started(soc: str) -> MediaProgram:
    _sim.reset()
    machine.configure(soc=soc, devices=1)
    assert acl.init() == 0 and acl.rt.set_device(0) == 0
    return MediaProgram()


def changed(program: MediaProgram, **fields: int) -> int:
    """What a resize of a good picture with these fields of the input changed returns."""
    source, target = program.picture(64, 48), program.picture(32, 24)
    for name, value in fields.items():
        desc = source
        if name.startswith("out_"):
            desc, name = target, name[4:]  # noqa: PLW2901
        assert getattr(media, f"dvpp_set_pic_desc_{name}")(desc, value) == 0
    return int(media.dvpp_vpc_resize_async(program.channel, source, target, program.resize, program.stream))


@pytest.mark.parametrize(
    ("soc", "fields", "words"),
    [
        ("Ascend310P3", {"width": 60, "width_stride": 60}, ["width stride 60", "multiple of 16", "64 would do"]),
        ("Ascend310", {"width_stride": 72}, ["width stride 72", "multiple of 16", "80 would do"]),
        ("Ascend310", {"height": 47, "height_stride": 47}, ["height 47 is odd", "46 or 48"]),
        ("Ascend910B2", {"width": 63}, ["width 63 is odd", "62 or 64"]),
        ("Ascend910B2", {"width_stride": 32}, ["width stride 32", "at least 64"]),
        ("Ascend910B2", {"height_stride": 40}, ["height stride 40", "at least 48"]),
        ("Ascend910B2", {"size": 3000}, ["buffer of 3000 B", "takes 4608 B"]),
        ("Ascend910B2", {"format": 99}, ["pixel format 99"]),
        ("Ascend310", {"out_format": 12}, ["output format 12", "NV12"]),
        ("Ascend310P3", {"format": 18}, ["pixel format 18"]),
        ("Ascend910B2", {"width": 8, "height": 4}, ["8x4", "10x6 to 8192x8192"]),
        ("Ascend910B2", {"out_width": 4098, "out_width_stride": 4098}, ["4098x24", "10x6 to 4096x8192"]),
        ("Ascend910B2", {"data": 0}, ["data of the input picture", "acl.media.dvpp_malloc"]),
        ("Ascend910B2", {"data": 4096 + 8}, ["multiple of 16"]),
        ("Ascend910B2", {"out_data": 0}, ["data of the output picture"]),
    ],
)
def test_pictures(soc: str, fields: dict[str, int], words: list[str], fails: Fails) -> None:
    fails(changed(started(soc), **fields), 100000, *words)


def test_scaling_limits(program: MediaProgram, fails: Fails) -> None:
    wide = program.picture(1024, 64)
    thin = program.picture(16, 64)
    call = media.dvpp_vpc_resize_async(program.channel, wide, thin, program.resize, program.stream)
    fails(call, 100000, "1024 to 16", "1/32 to 16", "32 to 16384")
    call = media.dvpp_vpc_resize_async(program.channel, thin, wide, program.resize, program.stream)
    fails(call, 100000, "16 to 1024")


@pytest.mark.parametrize(
    ("soc", "crop", "paste", "words"),
    [
        ("Ascend310", (1, 32, 0, 31), None, ["left 1 should be even", "right 32 should be odd"]),
        ("Ascend310", (0, 31, 0, 30), None, ["bottom 30 should be odd"]),
        ("Ascend310P3", (0, 63, 0, 31), (8, 39, 0, 31), ["left 8", "multiple of 16", "0 or 16"]),
        ("Ascend910B2", (0, 64, 0, 31), None, ["does not lie inside", "right <= 63"]),
        ("Ascend910B2", (31, 0, 0, 31), None, ["left < right"]),
        ("Ascend910B2", (0, 7, 0, 31), None, ["8x32", "at least 10x6"]),
        ("Ascend910B2", (0, 31, 0, 31), (0, 31, 0, 99), ["paste region", "bottom <= 47"]),
    ],
)
def test_regions(soc: str, crop: tuple[int, ...], paste: Any, words: list[str], fails: Fails) -> None:
    program = started(soc)
    source, target = program.picture(64, 48), program.picture(64, 48)
    rois = [program.roi(*crop)] + ([program.roi(*paste)] if paste else [])
    call = media.dvpp_vpc_crop_and_paste_async if paste else media.dvpp_vpc_crop_async
    fails(call(program.channel, source, target, *rois, program.stream), 100000, *words)


def test_memory_must_be_the_units(program: MediaProgram, fails: Fails) -> None:
    plain, ret = acl.rt.malloc(4608, 0)
    assert ret == 0
    fails(changed(program, data=plain), 100000, "allocated by acl.rt.malloc", "acl.media.dvpp_malloc only")
    host, ret = acl.rt.malloc_host(4608)
    assert ret == 0
    fails(changed(program, data=host), 100000, "host memory", "acl.rt.memcpy")
    short = program.malloc(1024)
    fails(changed(program, data=short), 100000, "passes the end of its block")
    gone = program.malloc(1 << 20)
    program.malloc(64)  # its address is not handed out again at once
    assert media.dvpp_free(gone) == 0
    fails(changed(program, data=gone), 100000, "freed")
    fails(media.dvpp_free(gone), 107000, "freed before")


def test_channels(program: MediaProgram, fails: Fails) -> None:
    fails(media.dvpp_destroy_channel_desc(program.channel), 148051, "dvpp_destroy_channel comes before")
    fails(media.dvpp_create_channel(program.channel), 100000, "exists already")
    other = media.dvpp_create_channel_desc()
    source, target = program.picture(64, 48), program.picture(32, 24)
    call = media.dvpp_vpc_resize_async(other, source, target, program.resize, program.stream)
    fails(call, 100000, "has no channel", "dvpp_create_channel comes first")
    fails(media.dvpp_destroy_channel(other), 100000, "has no channel")
    assert media.dvpp_set_channel_desc_mode(other, 2) == 0
    assert media.dvpp_create_channel(other) == 0
    call = media.dvpp_vpc_resize_async(other, source, target, program.resize, program.stream)
    fails(call, 100000, "mode 2", "image unit")
    assert media.dvpp_get_channel_desc_channel_id(other) != media.dvpp_get_channel_desc_channel_id(program.channel)
    assert media.dvpp_destroy_channel(other) == 0 and media.dvpp_destroy_channel_desc(other) == 0
    fails(media.dvpp_destroy_channel_desc(other), 100000, "destroyed earlier")
    fails(media.dvpp_set_channel_desc_mode(program.channel, 99), 100000, "mode is 99")
    fails(media.dvpp_set_channel_desc_param(program.channel, 0, 9), 100000, "0 to 5")
    fails(media.dvpp_get_channel_desc_param(program.channel, 17), 100000, "type is 17")


def test_no_context(fails: Fails) -> None:
    desc = media.dvpp_create_channel_desc()
    fails(media.dvpp_create_channel(desc), 107002, "no current context")
    fails(media.dvpp_malloc(64), 107002)


def test_descriptors(program: MediaProgram, fails: Fails) -> None:
    pic = media.dvpp_create_pic_desc()
    assert media.dvpp_destroy_pic_desc(pic) == 0
    fails(media.dvpp_destroy_pic_desc(pic), 100000, "was a PicDesc that acl.media.dvpp_destroy_pic_desc destroyed")
    fails(media.dvpp_set_pic_desc_width(pic, 4), 100000)
    assert media.dvpp_get_pic_desc_width(pic) == 0
    acl.get_recent_err_msg()
    config = media.dvpp_create_jpege_config()
    fails(media.dvpp_set_jpege_config_level(config, 101), 100000, "0 to 100")
    fails(media.dvpp_set_resize_config_interpolation(config, 1), 100000, "JpegeConfig, not a ResizeConfig")
    fails(media.dvpp_set_pic_desc_width(program.picture(64, 48), -1), 100000)
    assert media.dvpp_create_batch_pic_desc(257) == 0
    acl.get_recent_err_msg()
    batch = media.dvpp_create_batch_pic_desc(2)
    assert media.dvpp_get_pic_desc(batch, 2) == 0
    acl.get_recent_err_msg()
    roi = program.roi(0, 1, 0, 1)
    assert media.dvpp_set_roi_config(roi, 0, 31, 0, 31) == 0 and media.dvpp_set_roi_config_left(roi, 2) == 0
    assert media.dvpp_destroy_roi_config(roi) == 0
    with pytest.raises(TypeError):
        media.dvpp_set_pic_desc_width(pic, "4")


def test_interpolations_of_chips(fails: Fails) -> None:
    program = started("Ascend310P3")
    source, target = program.picture(64, 48), program.picture(32, 32)
    assert media.dvpp_set_resize_config_interpolation(program.resize, 3) == 0
    call = media.dvpp_vpc_resize_async(program.channel, source, target, program.resize, program.stream)
    fails(call, 100000, "interpolation 3", "0, 1, 2")
    fails(media.dvpp_set_resize_config_interpolation(program.resize, 9), 100000, "0 to 5")


def test_batches(program: MediaProgram, fails: Fails) -> None:
    sources, targets = media.dvpp_create_batch_pic_desc(1), media.dvpp_create_batch_pic_desc(2)
    rois = [program.roi(0, 31, 0, 31)] * 2
    args = (program.channel, sources)
    call = media.dvpp_vpc_batch_crop_async(*args, [1], targets, rois, program.stream)
    assert call[0] == targets
    fails(call, 100000, "ask for 1 regions, but there are 2 outputs")
    fails(media.dvpp_vpc_batch_crop_async(*args, [2], targets, rois[:1], program.stream), 100000, "1 entries")
    fails(media.dvpp_vpc_batch_crop_async(*args, [1, 1], targets, rois, program.stream), 100000, "at most 1 input")
    for wrong in ([], [1] * 257):
        with pytest.raises(ValueError, match="1 to 256"):
            media.dvpp_vpc_batch_crop_async(*args, wrong, targets, rois, program.stream)


@pytest.mark.parametrize("soc", ["Ascend310", "Ascend910A"])
def test_what_the_first_generation_lacks(soc: str, fails: Fails) -> None:
    program = started(soc)
    source, target, hist = program.picture(64, 48), program.picture(64, 48), media.dvpp_create_hist()
    channel, stream = program.channel, program.stream
    fails(media.dvpp_vpc_convert_color_async(channel, source, target, stream), 207000, soc, "convert_color")
    fails(media.dvpp_vpc_calc_hist_async(channel, source, hist, 0, stream), 207000)
    fails(media.dvpp_vpc_pyr_down_async(channel, source, target, 0, stream), 207000)
    fails(media.dvpp_vpc_equalize_hist_async(channel, source, target, hist, stream), 207000)
    fails(media.dvpp_vpc_make_border_async(channel, source, target, hist, stream), 207000)
    fails(media.dvpp_png_decode_async(channel, source, 10, target, stream), 207000, "PNGD")
    fails(media.dvpp_set_channel_desc_mode(channel, 1), 207000)
    fails(media.dvpp_set_channel_desc_param(channel, 0, 1), 207000)


# -- codecs ----------------------------------------------------------------------------------------------------


def decoding(program: MediaProgram, data: bytes, size: int = 1 << 16, form: int = NV12) -> tuple[int, int]:
    desc = media.dvpp_create_pic_desc()
    media.dvpp_set_pic_desc_data(desc, program.malloc(size))
    media.dvpp_set_pic_desc_size(desc, size)
    media.dvpp_set_pic_desc_format(desc, form)
    source = program.upload(data)
    ret = media.dvpp_jpeg_decode_async(program.channel, source, len(data), desc, program.stream)
    return desc, ret or acl.rt.synchronize_stream(program.stream)


def test_unsupported_jpeg(program: MediaProgram, fails: Fails) -> None:
    data = jpeg_bytes(photo(64, 64), progressive=True)
    host = program.host(data)
    assert media.dvpp_jpeg_get_image_info(host, len(data)) == (64, 64, 3, 0)
    fails(media.dvpp_jpeg_get_image_info_v2(host, len(data)), 148052, "progressive")
    fails(media.dvpp_jpeg_predict_dec_size(host, len(data), NV12), 148052, "progressive")
    desc, ret = decoding(program, data)
    fails(ret, 507018, "JpegDecode", "progressive")
    assert media.dvpp_get_pic_desc_ret_code(desc) == 507018


def test_jpeg_decoding_failures(program: MediaProgram, fails: Fails) -> None:
    data = jpeg_bytes(photo(64, 64))
    fails(decoding(program, data, 4096)[1], 507018, "buffer of 4096 B is too small", "takes 6144 B")
    fails(decoding(program, data, form=RGB)[1], 507018, "pixel format 12", "NV12")
    fails(decoding(program, b"\0" * 64)[1], 507018, "no JPEG picture")
    fails(decoding(program, jpeg_bytes(photo(16, 64)))[1], 507018, "16x64", "32x32 to 8192x8192")
    fails(media.dvpp_jpeg_get_image_info(program.host(b"\x89PNG" + b"\0" * 20), 24), 100000, "no JPEG picture")
    fails(media.dvpp_jpeg_get_image_info(0, 24), 100000, "data is 0")
    device = program.upload(data)
    fails(media.dvpp_jpeg_get_image_info(device, len(data)), 100000, "device memory")
    host = program.host(data)
    desc = program.picture(64, 64)
    call = media.dvpp_jpeg_decode_async(program.channel, host, len(data), desc, program.stream)
    fails(call, 100000, "data")


def test_a_buffer_freed_too_early(program: MediaProgram, fails: Fails) -> None:
    source, target = program.picture(64, 48), program.picture(32, 24)
    program.ok(media.dvpp_vpc_resize_async(program.channel, source, target, program.resize, program.stream))
    program.ok(media.dvpp_free(media.dvpp_get_pic_desc_data(source)))
    fails(acl.rt.synchronize_stream(program.stream), 507018, "VpcResize", "was freed before the task ran")
    assert media.dvpp_get_pic_desc_ret_code(target) == 507018


def test_encoder(program: MediaProgram, fails: Fails) -> None:
    config, good = media.dvpp_create_jpege_config(), program.picture(64, 48, data=nv12(photo(64, 48)))
    out, size = program.malloc(20000), ctypes.c_uint32(20000)
    at = ctypes.addressof(size)

    def encode(pic: int, pointer: int = at, target: int = out) -> int:
        return int(media.dvpp_jpeg_encode_async(program.channel, pic, target, pointer, config, program.stream))

    fails(encode(program.picture(64, 48, RGB)), 100000, "RGB888", "NV12")
    fails(encode(program.picture(30, 48)), 100000, "30x48", "32x32")
    fails(encode(program.picture(60, 48)), 100000, "width stride 60", "multiple of 16")
    fails(encode(good, 0), 100000, "size_ptr is 0")
    fails(encode(good, 8), 100000, "size_ptr")
    fails(encode(good, target=0), 100000, "out_ptr")
    size.value = 30000
    fails(encode(good), 100000, "passes the end of its block")
    size.value = 100
    program.ok(encode(good))
    fails(acl.rt.synchronize_stream(program.stream), 507018, "the buffer 100 B", "predict_enc_size")
    size.value = 0
    fails(encode(good), 100000, "is 0: expected the size")
    fails(media.dvpp_jpeg_predict_enc_size(program.picture(64, 48, RGB), config), 100000, "RGB888")


@given(
    number=st.integers(0, 20), width=st.integers(0, 9000), height=st.integers(0, 9000), wide=st.integers(0, 9000),
    high=st.integers(0, 9000), size=st.integers(0, 1 << 22), soc=st.sampled_from(["Ascend310", "Ascend310P3"]),
    left=st.integers(0, 200), right=st.integers(0, 200), mode=st.integers(0, 5),
)  # fmt: skip
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_nothing_dies(
    number: int, width: int, height: int, wide: int, high: int, size: int, soc: str, left: int, right: int, mode: int
) -> None:
    program = started(soc)
    desc = media.dvpp_create_pic_desc()
    data = program.malloc(1 << 20)
    for name, value in {"data": data, "size": size, "format": number, "width": width, "height": height,
                        "width_stride": wide, "height_stride": high}.items():  # fmt: skip
        assert getattr(media, f"dvpp_set_pic_desc_{name}")(desc, value) == 0
    fine = program.picture(64, 48, data=np.zeros((72, 64), np.uint8))
    media.dvpp_set_resize_config_interpolation(program.resize, mode)
    roi = program.roi(left, right, left, right)
    stream = program.stream
    for a, b in ((desc, fine), (fine, desc)):
        calls = (
            media.dvpp_vpc_resize_async(program.channel, a, b, program.resize, stream),
            media.dvpp_vpc_crop_async(program.channel, a, b, roi, stream),
            media.dvpp_vpc_crop_and_paste_async(program.channel, a, b, roi, roi, stream),
        )
        assert all(ret in (0, 100000) for ret in calls)
    assert acl.rt.synchronize_stream(stream) in (0, 507018)
