"""acl.media: JPEG and PNG, decoders and the encoder."""

from __future__ import annotations

import contextlib
import ctypes
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from acl import errors
from acl._api import api
from acl._common import on_stream
from acl._media_channel import buffer_of, channel_of, chip_rules, lacking
from acl._media_descs import ChannelDesc, JpegeConfig, PicDesc, find
from ascend_sim.dvpp import picture as pictures
from ascend_sim.dvpp.errors import BadPicture, BadStream
from ascend_sim.dvpp.picture import Picture
from ascend_sim.dvpp.rules import JPEGD_SIZE, PNGD_SIZE, Range
from ascend_sim.dvpp.tasks import MediaTask
from ascend_sim.dvpp.units import JPEGD, JPEGE, PNGD, count
from ascend_sim.runtime.copies import BadAddress, locate
from ascend_sim.runtime.host import host_thread
from ascend_sim.runtime.stream import Stream
from ascend_sim.runtime.system import system

if TYPE_CHECKING:
    from ascend_sim.dvpp.formats import PixelFormat
    from ascend_sim.dvpp.jpeg import JpegInfo
    from ascend_sim.dvpp.png import PngInfo
    from ascend_sim.dvpp.rules import Rules
    from ascend_sim.runtime.memory import Block

_MODE_JPEGD, _MODE_JPEGE, _MODE_PNGD = 2, 4, 8
_ALIGN_UP = 1  # acldvppJpegdPrecisionMode: odd sizes up instead of down
_ENCODED = (1, 2, 7, 8, 9, 10)  # formats that the JPEG encoder takes


def _host_bytes(address: int, size: int) -> bytes | int:
    """``size`` bytes of host memory, or the code of why they cannot be read."""
    if address == 0:
        return errors.bad("data", 0, "an address of the picture's bytes on the host")
    if size <= 0:
        return errors.bad("size", size, "the number of bytes of the picture")
    try:
        place = locate(system(), address, size, False, "data")
    except BadAddress as error:
        return errors.fail(errors.INVALID_PARAM, f"{error}.")
    if place.device >= 0 and system().soc.chip.run_mode == 1:
        return errors.fail(
            errors.INVALID_PARAM, f"data {address:#x} is device memory: this function runs on the host.",
            "give it the picture's bytes before they are copied to the device.",
        )  # fmt: skip
    return ctypes.string_at(address, size)


def _jpeg_header(address: int, size: int) -> JpegInfo | int:
    from ascend_sim.dvpp import jpeg

    data = _host_bytes(address, size)
    if isinstance(data, int):
        return data
    try:
        return jpeg.info(data)
    except BadStream as error:
        return errors.fail(errors.INVALID_PARAM, f"{error}.")


@api("acl.media.dvpp_jpeg_get_image_info", "acldvppJpegGetImageInfo")
def dvpp_jpeg_get_image_info(data: int, size: int, /) -> tuple[int, int, int, int]:
    header = _jpeg_header(data, size)
    return (0, 0, 0, header) if isinstance(header, int) else (header.width, header.height, header.components, 0)


@api("acl.media.dvpp_jpeg_get_image_info_v2", "acldvppJpegGetImageInfoV2")
def dvpp_jpeg_get_image_info_v2(data: int, size: int, /) -> tuple[int, int, int, int, int]:
    header = _jpeg_header(data, size)
    if isinstance(header, int):
        return 0, 0, 0, 0, header
    ret = errors.fail(errors.UNSUPPORTED_JPEG, f"unsupported JPEG picture: {header.problem}.") if header.problem else 0
    return header.width, header.height, header.components, header.format, ret


@api("acl.media.dvpp_jpeg_predict_dec_size", "acldvppJpegPredictDecSize")
def dvpp_jpeg_predict_dec_size(data: int, size: int, out_format: int, /) -> tuple[int, int]:
    from ascend_sim.dvpp import jpeg

    header = _jpeg_header(data, size)
    if isinstance(header, int):
        return 0, header
    try:
        form = _jpeg_form(header, out_format)
    except BadStream as error:
        return 0, errors.fail(errors.UNSUPPORTED_JPEG if header.problem else errors.INVALID_PARAM, f"{error}.")
    return form.nbytes(*jpeg.output_strides(*jpeg.seen_size(header), chip_rules().jpegd_align)), 0


def _jpeg_form(header: JpegInfo, number: int) -> PixelFormat:
    """The format of the decoded picture. `BadStream` when there is none."""
    from ascend_sim.dvpp import jpeg

    if header.problem:
        raise BadStream(f"unsupported JPEG picture: {header.problem}")
    if not JPEGD_SIZE.holds(header.width, header.height):
        raise BadStream(f"JPEG picture of {header.width}x{header.height}: expected {JPEGD_SIZE}")
    form = jpeg.output_form(number, header.format)
    if form is None:
        names = ", ".join(f"{f.number} ({f.name})" for f in jpeg.output_forms(header.format))
        raise BadStream(f"this JPEG picture cannot be decoded to pixel format {number}: expected one of {names}")
    return form


class _Decoding(ABC):
    """One decoding: ``data`` is looked at when the stream reaches it, the output's descriptor is filled in."""

    def __init__(self, data: int, size: int, source: Block, desc: PicDesc, target: Block, rules: Rules) -> None:
        self.data, self.size, self.source = data, size, source
        self.desc, self.target, self.rules = desc, target, rules
        self.output = (desc.data, desc.size, desc.format, desc.width_stride)
        self.block_room = target.address + target.size - desc.data

    def bytes(self) -> bytes:
        return self.source.arena.view(self.data, self.size).tobytes()

    def failed(self, _why: str) -> None:
        self.desc.ret_code = errors.RT_AICPU_EXCEPTION

    @abstractmethod
    def plan(self) -> tuple[object, Picture]:
        """What the header says, and the picture that it becomes. `BadStream` when it cannot be decoded."""

    def light(self) -> None:
        self.tell(self.plan()[1])

    def picture(self, form: PixelFormat, width: int, height: int, strides: tuple[int, int]) -> Picture:
        """The output, which must fit into its buffer. `BadStream` when it does not."""
        address, size, _, _ = self.output
        found = Picture(address, min(size, self.block_room), form, width, height, *strides, self.target)
        try:
            pictures.check_size(found, "output")
        except BadPicture as error:
            raise BadStream(str(error)) from None
        return found

    def tell(self, found: Picture) -> None:
        """The descriptor says what the buffer holds."""
        desc = self.desc
        desc.format, desc.width, desc.height = found.form.number, found.width, found.height
        desc.width_stride, desc.height_stride, desc.ret_code = found.width_stride, found.height_stride, 0


class _JpegDecoding(_Decoding):
    precision = 0

    def plan(self) -> tuple[JpegInfo, Picture]:
        from ascend_sim.dvpp import jpeg

        header = jpeg.info(self.bytes())
        form = _jpeg_form(header, self.output[2])
        width, height = jpeg.seen_size(header)
        strides = jpeg.output_strides(width, height, self.rules.jpegd_align)
        wider = self.output[3]
        if self.rules.jpegd_keeps and wider > strides[0] and wider % self.rules.jpegd_align == 0:
            strides = (wider, strides[1])
        up = self.precision == _ALIGN_UP
        if form.even_width:
            width += width % 2 if up else -(width % 2)
        if form.even_height:
            height += height % 2 if up else -(height % 2)
        return header, self.picture(form, width, height, strides)

    def look(self) -> tuple[Sequence[int], bool]:
        header, _ = self.plan()
        return [header.width * header.height], header.software or header.orientation != 1

    def work(self) -> None:
        from ascend_sim.dvpp import image, jpeg

        header, found = self.plan()
        decoded = jpeg.fitted(jpeg.decode(self.bytes(), header), found.form, *jpeg.seen_size(header))
        padded = image.extended(decoded, found.width_stride, found.height_stride)
        image.write(padded, found.memory(), found.form, found.width_stride, found.height_stride)
        self.tell(found)


class _PngDecoding(_Decoding):
    def plan(self) -> tuple[PngInfo, Picture]:
        from ascend_sim.dvpp import png

        header = png.info(self.bytes())
        form = _png_form(header, self.output[2])
        return header, self.picture(
            form, header.width, header.height, png.output_strides(form, header.width, header.height)
        )

    def look(self) -> tuple[Sequence[int], bool]:
        header, _ = self.plan()
        return [header.width * header.height], False

    def work(self) -> None:
        from ascend_sim.dvpp import png

        _, found = self.plan()
        found.store(png.decode(self.bytes(), found.form))
        self.tell(found)


def _png_form(header: PngInfo, number: int) -> PixelFormat:
    from ascend_sim.dvpp import png

    if header.problem:
        raise BadStream(f"unsupported PNG picture: {header.problem}")
    if not PNGD_SIZE.holds(header.width, header.height):
        raise BadStream(f"PNG picture of {header.width}x{header.height}: expected {PNGD_SIZE}")
    form = png.output_form(number, header)
    if form is None:
        raise BadStream(
            f"this PNG picture cannot be decoded to pixel format {number}: expected 12 (RGB888)"
            + (", 16 (RGBA8888)" if header.alpha else "")
        )
    return form


def _start(channel_desc: int, mode: int, what: str, stream: int) -> tuple[ChannelDesc, Stream] | int:
    channel = channel_of(channel_desc, mode, what)
    if isinstance(channel, int):
        return channel
    found, ret = on_stream(stream)
    return ret if found is None else (channel, found)


def _decode(
    kind: type[_JpegDecoding] | type[_PngDecoding],
    name: str,
    unit: str,
    mode: int,
    args: tuple[int, int, int, int, int],
) -> int:
    channel_desc, data, size, out_pic, stream = args
    if count(system().soc, unit) == 0:
        return lacking(f"{unit.upper()} unit")
    started = _start(channel_desc, mode, f"the {unit.upper()} unit", stream)
    if isinstance(started, int):
        return started
    channel, found = started
    desc = find(out_pic, PicDesc, "dvpp_create_pic_desc")
    if desc is None:
        return errors.INVALID_PARAM
    if size <= 0:
        return errors.bad("size", size, "the number of bytes of the picture")
    source = buffer_of(data, size, "data", False, found.device.index)
    if isinstance(source, int):
        return source
    target = buffer_of(desc.data, max(1, desc.size), "data of the output picture", True, found.device.index)
    if isinstance(target, int):
        return target
    decoding = kind(data, size, source, desc, target, chip_rules())
    if isinstance(decoding, _JpegDecoding):
        decoding.precision = channel.precision
    with contextlib.suppress(BadStream):  # the data may still be on its way; if not, the descriptor is right at once
        decoding.tell(decoding.plan()[1])
    blocks = (source, target)
    task = MediaTask(name, unit, (), decoding.work, blocks, decoding.failed, decoding.look, decoding.light)
    found.submit(task, host_thread())
    return 0


@api("acl.media.dvpp_jpeg_decode_async", "acldvppJpegDecodeAsync", "launch")
def dvpp_jpeg_decode_async(channel_desc: int, data: int, size: int, out_pic: int, stream: int, /) -> int:
    return _decode(_JpegDecoding, "JpegDecode", JPEGD, _MODE_JPEGD, (channel_desc, data, size, out_pic, stream))


@api("acl.media.dvpp_png_decode_async", "acldvppPngDecodeAsync", "launch")
def dvpp_png_decode_async(channel_desc: int, data: int, size: int, out_pic: int, stream: int, /) -> int:
    return _decode(_PngDecoding, "PngDecode", PNGD, _MODE_PNGD, (channel_desc, data, size, out_pic, stream))


# -- PNG headers ---------------------------------------------------------------------------------------------


def _png_header(address: int, size: int) -> PngInfo | int:
    from ascend_sim.dvpp import png

    data = _host_bytes(address, size)
    if isinstance(data, int):
        return data
    try:
        return png.info(data)
    except BadStream as error:
        return errors.fail(errors.INVALID_PARAM, f"{error}.")


@api("acl.media.dvpp_png_get_image_info", "acldvppPngGetImageInfo")
def dvpp_png_get_image_info(data: int, size: int, /) -> tuple[int, int, int]:
    header = _png_header(data, size)
    return (0, 0, header) if isinstance(header, int) else (header.width, header.height, 0)


@api("acl.media.dvpp_png_predict_dec_size", "acldvppPngPredictDecSize")
def dvpp_png_predict_dec_size(data: int, size: int, out_format: int, /) -> tuple[int, int]:
    from ascend_sim.dvpp import png

    header = _png_header(data, size)
    if isinstance(header, int):
        return 0, header
    try:
        form = _png_form(header, out_format)
    except BadStream as error:
        return 0, errors.fail(errors.INVALID_PARAM, f"{error}.")
    return form.nbytes(*png.output_strides(form, header.width, header.height)), 0


# -- encoding ------------------------------------------------------------------------------------------------


def _encoder_input(desc: PicDesc, sizes: Range) -> Picture:
    """The picture that the JPEG encoder is given. `BadPicture` when it takes no such picture."""
    form = pictures.form_of(desc.format)
    if form.number not in _ENCODED:
        raise BadPicture(f"pixel format {form.number} ({form.name}): the encoder takes NV12, NV21 and packed YUV 4:2:2")
    if not sizes.holds(desc.width, desc.height):
        raise BadPicture(f"picture of {desc.width}x{desc.height}: expected {sizes}")
    pictures.check_even(form, desc.width, desc.height, "input")
    step = -(-desc.width * form.row_bytes // 16) * 16
    stride, rows = desc.width_stride or step, desc.height_stride or desc.height
    if stride < step or stride % 16:
        raise BadPicture(f"input width stride {stride}: expected a multiple of 16, at least {step}")
    high = max(32, -(-desc.height // 16) * 16)
    if rows not in (desc.height, high):
        raise BadPicture(f"input height stride {rows}: expected the height {desc.height}, or {high}")
    return Picture(desc.data, desc.size, form, desc.width, desc.height, stride, rows)


@api("acl.media.dvpp_jpeg_predict_enc_size", "acldvppJpegPredictEncSize")
def dvpp_jpeg_predict_enc_size(in_pic: int, jpege_config: int, /) -> tuple[int, int]:
    from ascend_sim.dvpp import jpeg

    desc = find(in_pic, PicDesc, "dvpp_create_pic_desc")
    if desc is None or find(jpege_config, JpegeConfig, "dvpp_create_jpege_config") is None:
        return 0, errors.INVALID_PARAM
    try:
        found = _encoder_input(desc, chip_rules().jpege_size)
    except BadPicture as error:
        return 0, errors.fail(errors.INVALID_PARAM, f"{error}.")
    return jpeg.encoded_bound(found.form, found.width, found.height), 0


@api("acl.media.dvpp_jpeg_encode_async", "acldvppJpegEncodeAsync", "launch")
def dvpp_jpeg_encode_async(
    channel_desc: int, in_pic: int, out_ptr: int, size_ptr: int, jpege_config: int, stream: int, /
) -> int:
    started = _start(channel_desc, _MODE_JPEGE, "the JPEGE unit", stream)
    if isinstance(started, int):
        return started
    channel, found = started
    device = found.device.index
    desc = find(in_pic, PicDesc, "dvpp_create_pic_desc")
    config = find(jpege_config, JpegeConfig, "dvpp_create_jpege_config")
    if desc is None or config is None:
        return errors.INVALID_PARAM
    room = _room(size_ptr)
    if isinstance(room, str):
        return errors.fail(errors.INVALID_PARAM, room)
    sizes = chip_rules().jpege_size
    try:
        given = _encoder_input(desc, Range(sizes.least, (channel.width, channel.height)))
        pictures.check_size(given, "input")
    except BadPicture as error:
        return errors.fail(errors.INVALID_PARAM, f"{error}.")
    source = buffer_of(given.data, given.nbytes, "data of the input picture", False, device)
    if isinstance(source, int):
        return source
    target = buffer_of(out_ptr, room, "out_ptr", True, device)
    if isinstance(target, int):
        return target
    given = replace(given, block=source)
    level = config.level

    def work() -> None:
        from ascend_sim.dvpp import jpeg

        encoded = jpeg.encode(given.load(), level)
        if len(encoded) > room:
            raise BadStream(
                f"the encoded picture has {len(encoded)} B, the buffer {room} B: "
                "acl.media.dvpp_jpeg_predict_enc_size says how large it must be"
            )
        if isinstance(_room(size_ptr), str):
            raise BadStream(f"size_ptr {size_ptr:#x} is no longer memory of this process")
        ctypes.memmove(out_ptr, encoded, len(encoded))
        ctypes.c_uint32.from_address(size_ptr).value = len(encoded)
        desc.ret_code = 0

    def failed(_why: str) -> None:
        desc.ret_code = errors.RT_AICPU_EXCEPTION

    pixels = [given.width * given.height]
    found.submit(MediaTask("JpegEncode", JPEGE, pixels, work, (source, target), failed), host_thread())
    return 0


def _room(size_ptr: int) -> int | str:
    """The buffer size that a host uint32 holds, or why it cannot be read."""
    if size_ptr == 0:
        return "argument size_ptr is 0: expected the address of a uint32 on the host that holds the buffer's size."
    try:
        place = locate(system(), size_ptr, 4, True, "size_ptr")
    except BadAddress as error:
        return f"{error}."
    if place.device >= 0 and system().soc.chip.run_mode == 1:
        return f"size_ptr {size_ptr:#x} is device memory: expected the address of a uint32 on the host."
    room = ctypes.c_uint32.from_address(size_ptr).value
    return room or f"the uint32 at size_ptr {size_ptr:#x} is 0: expected the size of the output buffer."
