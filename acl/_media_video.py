"""acl.media: video decoder (VDEC) and encoder (VENC)."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import MethodType
from typing import TYPE_CHECKING, Any

from acl import errors, handles
from acl._api import api
from acl._common import current
from acl._media_channel import buffer_of, chip_rules, lacking
from acl._media_descs import Function, PicDesc, StreamDesc, creator, destroyer, find, getter, setter
from ascend_sim.dvpp import picture as pictures
from ascend_sim.dvpp.errors import BadPicture, BadStream, VideoMissing
from ascend_sim.dvpp.picture import Picture
from ascend_sim.dvpp.units import VDEC, VENC, count
from ascend_sim.dvpp.video_tasks import FrameTask, Pending, VideoChannel
from ascend_sim.runtime.host import host_thread
from ascend_sim.runtime.memory import Block, OutOfMemory
from ascend_sim.runtime.system import system

if TYPE_CHECKING:
    from ascend_sim.dvpp.image import Image
    from ascend_sim.dvpp.video import Decoder, Encoder

_U32, _U64 = 2**32 - 1, 2**64 - 1
_SEMI_PLANAR, _RGB = (1, 2), (12, 13)
_CHANNELS = 256
_BUFFER = 8 << 20  # of the encoder's output, B
_LEAST_BUFFER = 5 << 20
_FRAME_ALIGN = 64


@dataclass
class _DecoderChannel:
    video: VideoChannel
    decoder: Decoder
    pending: Pending
    pixels: int = 0  # of the last picture


@dataclass
class VdecChannelDesc:
    channel_id: int = 0
    thread_id: int = 0
    callback: Callable[..., Any] | None = None
    entype: int = 0
    out_pic_format: int = 1
    out_pic_width: int = 0
    out_pic_height: int = 0
    ref_frame_num: int = 8
    out_mode: int = 0
    bit_depth: int = 0
    matrix: int = 0
    channel: _DecoderChannel | None = None
    idle: weakref.ref[Any] | None = None


@dataclass
class VdecFrameConfig:
    pass


@dataclass
class _EncoderChannel:
    """``room`` is the device memory that coded frames are written to, ``at`` where the next one goes."""

    video: VideoChannel
    encoder: Encoder
    room: Block
    own: bool
    at: int = 0
    streams: list[int] = field(default_factory=list)


@dataclass
class VencChannelDesc:
    channel_id: int = 0
    thread_id: int = 0
    callback: Callable[..., Any] | None = None
    pic_format: int = 1
    entype: int = 0
    pic_width: int = 0
    pic_height: int = 0
    key_frame_interval: int = 0
    buf_addr: int = 0
    buf_size: int = _BUFFER
    rc_mode: int = 0
    src_rate: int = 0
    max_bit_rate: int = 0
    ip_prop: int = 70
    channel: _EncoderChannel | None = None
    idle: weakref.ref[Any] | None = None


@dataclass
class VencFrameConfig:
    force_i_frame: int = 0
    eos: int = 0


_VDEC, _VENC = "vdec_create_channel_desc", "venc_create_channel_desc"
_VDEC_FIELDS = {
    "channel_id": (0, _CHANNELS - 1), "thread_id": (0, _U64), "entype": (0, 3), "out_pic_format": (0, _U32),
    "out_pic_width": (0, 8192), "out_pic_height": (0, 8192), "ref_frame_num": (0, 16), "out_mode": (0, 1),
    "bit_depth": (0, 1),
}  # fmt: skip
_VENC_FIELDS = {
    "thread_id": (0, _U64), "entype": (0, 3), "pic_format": (0, _U32), "pic_width": (0, 8192), "pic_height": (0, 8192),
    "key_frame_interval": (1, 65536), "buf_addr": (0, _U64), "buf_size": (_LEAST_BUFFER, _U32),
    "max_bit_rate": (2, 614400), "rc_mode": (0, 2), "src_rate": (1, 120),
}  # fmt: skip

# numbers of aclvdecChannelDescParamType and aclvencChannelDescParamType -> field
_VDEC_PARAMS = {0: "matrix", 1: "out_pic_width", 2: "out_pic_height"}
_VENC_PARAMS = {
    0: "thread_id", 1: "callback", 2: "pic_format", 3: "entype", 4: "pic_width", 5: "pic_height",
    6: "key_frame_interval", 7: "buf_addr", 8: "buf_size", 9: "rc_mode", 10: "src_rate", 11: "max_bit_rate",
    12: "ip_prop",
}  # fmt: skip


def _flag(name: str, kind: type[Any], maker: str, attribute: str) -> Function:
    return setter(name, kind, maker, attribute, 0, 1)


def _make() -> dict[str, Function]:
    made: dict[str, Function] = {}
    for prefix, kind, fields in (("vdec", VdecChannelDesc, _VDEC_FIELDS), ("venc", VencChannelDesc, _VENC_FIELDS)):
        maker = f"{prefix}_create_channel_desc"
        made[maker] = creator(maker, kind)
        for attribute, (least, most) in fields.items():
            name = f"{prefix}_set_channel_desc_{attribute}"
            made[name] = setter(name, kind, maker, attribute, least, most)
        for attribute in ("channel_id", "callback", *fields):
            name = f"{prefix}_get_channel_desc_{attribute}"
            made[name] = getter(name, kind, maker, attribute, None if attribute == "callback" else 0)
    for prefix, config in (("vdec", VdecFrameConfig), ("venc", VencFrameConfig)):
        maker = f"{prefix}_create_frame_config"
        made[maker] = creator(maker, config)
        made[f"{prefix}_destroy_frame_config"] = destroyer(f"{prefix}_destroy_frame_config", config, maker)
    for attribute in ("force_i_frame", "eos"):
        for verb, build in (("set", _flag), ("get", getter)):
            name = f"venc_{verb}_frame_config_{attribute}"
            made[name] = build(name, VencFrameConfig, "venc_create_frame_config", attribute)
    return made


globals().update(_make())


def _destroy_desc(handle: int, kind: type[Any], maker: str) -> int:
    found = find(handle, kind, maker)
    if found is None:
        return errors.INVALID_PARAM
    if found.channel is not None:
        return errors.fail(
            errors.CHANNEL_DESC_IN_USE, f"the channel of {handle:#x} still exists.",
            f"acl.media.{maker.replace('create_channel_desc', 'destroy_channel')} comes first.",
        )  # fmt: skip
    handles.drop(handle)
    return 0


@api("acl.media.vdec_destroy_channel_desc", "aclvdecDestroyChannelDesc")
def vdec_destroy_channel_desc(channel_desc: int, /) -> int:
    return _destroy_desc(channel_desc, VdecChannelDesc, _VDEC)


@api("acl.media.venc_destroy_channel_desc", "aclvencDestroyChannelDesc")
def venc_destroy_channel_desc(channel_desc: int, /) -> int:
    return _destroy_desc(channel_desc, VencChannelDesc, _VENC)


@api("acl.media.vdec_set_channel_desc_callback", "aclvdecSetChannelDescCallback")
def vdec_set_channel_desc_callback(channel_desc: int, function: Callable[..., Any], /) -> int:
    found = find(channel_desc, VdecChannelDesc, _VDEC)
    if found is None:
        return errors.INVALID_PARAM
    found.callback = function
    return 0


@api("acl.media.venc_set_channel_desc_callback", "aclvencSetChannelDescCallback")
def venc_set_channel_desc_callback(channel_desc: int, function: Callable[..., Any], /) -> int:
    found = find(channel_desc, VencChannelDesc, _VENC)
    if found is None:
        return errors.INVALID_PARAM
    found.callback = function
    return 0


def _set_param(handle: int, kind: type[Any], maker: str, number: int, value: Any, names: dict[int, str]) -> int:
    found = find(handle, kind, maker)
    if found is None:
        return errors.INVALID_PARAM
    if number not in names:
        return errors.bad("type", number, f"one of {', '.join(map(str, names))}")
    attribute = names[number]
    least, most = {**_VDEC_FIELDS, **_VENC_FIELDS, "matrix": (0, 5), "ip_prop": (1, 100)}.get(attribute, (0, _U64))
    if attribute == "callback":
        if not callable(value):
            raise TypeError(f"expected a function, got {type(value).__name__}")
    elif type(value) is not int:
        raise TypeError(f"expected int, got {type(value).__name__}")
    elif not least <= value <= most:
        return errors.bad("value", value, f"{least} to {most} for {attribute}")
    setattr(found, attribute, value)
    return 0


def _get_param(handle: int, kind: type[Any], maker: str, number: int, names: dict[int, str]) -> tuple[Any, int]:
    found = find(handle, kind, maker)
    if found is None:
        return 0, errors.INVALID_PARAM
    if number not in names:
        return 0, errors.bad("type", number, f"one of {', '.join(map(str, names))}")
    return getattr(found, names[number]), 0


@api("acl.media.vdec_set_channel_desc_param", "aclvdecSetChannelDescParam")
def vdec_set_channel_desc_param(channel_desc: int, kind: int, value: object, /) -> tuple[int, int]:
    return channel_desc, _set_param(channel_desc, VdecChannelDesc, _VDEC, kind, value, _VDEC_PARAMS)


@api("acl.media.vdec_get_channel_desc_param", "aclvdecGetChannelDescParam")
def vdec_get_channel_desc_param(channel_desc: int, kind: int, /) -> tuple[Any, int]:
    return _get_param(channel_desc, VdecChannelDesc, _VDEC, kind, _VDEC_PARAMS)


@api("acl.media.venc_set_channel_desc_param", "aclvencSetChannelDescParam")
def venc_set_channel_desc_param(channel_desc: int, kind: int, value: object, /) -> tuple[int, int]:
    return channel_desc, _set_param(channel_desc, VencChannelDesc, _VENC, kind, value, _VENC_PARAMS)


@api("acl.media.venc_get_channel_desc_param", "aclvencGetChannelDescParam")
def venc_get_channel_desc_param(channel_desc: int, kind: int, /) -> tuple[Any, int]:
    return _get_param(channel_desc, VencChannelDesc, _VENC, kind, _VENC_PARAMS)


# -- channels ------------------------------------------------------------------------------------------------


def _ready(desc: Any, unit: str, handle: int) -> int:
    """May a channel be created from this descriptor? 0, or the code of why not."""
    if count(system().soc, unit) == 0:
        return lacking(f"{unit.upper()} unit")
    if current() is None:
        return errors.RT_CONTEXT_NULL
    if desc.channel is not None:
        return errors.fail(errors.INVALID_PARAM, f"the channel of {handle:#x} exists already.")
    if desc.callback is None and desc.idle is not None:
        desc.callback = desc.idle()
    if desc.callback is None:
        return errors.fail(
            errors.INVALID_PARAM, "the channel has no callback.", f"acl.media.{unit}_set_channel_desc_callback sets it."
        )
    if desc.thread_id == 0:
        return errors.fail(
            errors.INVALID_PARAM, "the channel has no thread for its callbacks.",
            f"acl.media.{unit}_set_channel_desc_thread_id takes the id of acl.util.start_thread.",
        )  # fmt: skip
    return 0


def _let_go(desc: VdecChannelDesc | VencChannelDesc) -> None:
    """The channel is gone. A callback that is a method must not keep its object alive, which may destroy ``desc``."""
    desc.channel = None
    if isinstance(desc.callback, MethodType):
        desc.idle, desc.callback = weakref.WeakMethod(desc.callback), None


def _no_library(error: VideoMissing) -> int:
    return errors.fail(errors.RT_FEATURE_NOT_SUPPORT, f"{error}.")


@api("acl.media.vdec_create_channel", "aclvdecCreateChannel", "api")
def vdec_create_channel(channel_desc: int, /) -> int:
    desc = find(channel_desc, VdecChannelDesc, _VDEC)
    if desc is None:
        return errors.INVALID_PARAM
    ret = _ready(desc, VDEC, channel_desc)
    if ret:
        return ret
    allowed = _SEMI_PLANAR if chip_rules().old else _SEMI_PLANAR + _RGB
    if desc.out_pic_format not in allowed:
        return errors.bad("out_pic_format", desc.out_pic_format, f"one of {', '.join(map(str, allowed))}")
    from ascend_sim.dvpp.video import Decoder

    try:
        decoder = Decoder(desc.entype)
    except VideoMissing as error:
        return _no_library(error)
    context = current()
    assert context is not None
    video = VideoChannel(context, desc.thread_id, VDEC)
    desc.channel = _DecoderChannel(video, decoder, Pending(video))
    return 0


@api("acl.media.vdec_destroy_channel", "aclvdecDestroyChannel", "sync")
def vdec_destroy_channel(channel_desc: int, /) -> int:
    """Waits until every frame that was sent has been decoded and its callback has returned."""
    desc = find(channel_desc, VdecChannelDesc, _VDEC)
    if desc is None:
        return errors.INVALID_PARAM
    channel = desc.channel
    if channel is None:
        return errors.fail(
            errors.INVALID_PARAM, f"{channel_desc:#x} has no channel.", "acl.media.vdec_create_channel makes it."
        )
    channel.video.submit(_flush(channel), host_thread())
    done = channel.video.wait(host_thread())
    channel.video.close()
    _let_go(desc)
    return 0 if done else _unheard(channel.video)


def _unheard(video: VideoChannel) -> int:
    return errors.fail(
        errors.RT_STREAM_SYNC_TIMEOUT,
        f"{video.open} frames were never reported: thread {video.thread_id} does not run acl.rt.process_report.",
    )


def _flush(channel: _DecoderChannel) -> FrameTask:
    def work(time: int) -> None:
        for picture in channel.decoder.flush():
            channel.pending.deliver(picture, time)
        channel.pending.fail_all(time)

    return FrameTask("VdecFlush", channel.video, lambda: 0, work, False)


# -- decoding ------------------------------------------------------------------------------------------------


def _send(channel_desc: int, stream_desc: int, frame_config: int, pic_desc: int | None, user_data: object) -> int:
    desc = find(channel_desc, VdecChannelDesc, _VDEC)
    stream = find(stream_desc, StreamDesc, "dvpp_create_stream_desc")
    if desc is None or stream is None:
        return errors.INVALID_PARAM
    channel = desc.channel
    if channel is None:
        return errors.fail(
            errors.INVALID_PARAM, f"{channel_desc:#x} has no channel.", "acl.media.vdec_create_channel makes it."
        )
    if frame_config and find(frame_config, VdecFrameConfig, "vdec_create_frame_config") is None:
        return errors.INVALID_PARAM
    if stream.eos:
        channel.video.submit(_flush(channel), host_thread())
        return 0
    picture = None
    if pic_desc is not None:
        picture = find(pic_desc, PicDesc, "dvpp_create_pic_desc")
        if picture is None:
            return errors.INVALID_PARAM
        target = buffer_of(picture.data, max(1, picture.size), "data of the picture", True, channel.video.device.index)
        if isinstance(target, int):
            return target
    if stream.size <= 0:
        return errors.bad("size of the stream", stream.size, "the number of bytes of the coded frame")
    source = buffer_of(stream.data, stream.size, "data of the stream", False, channel.video.device.index, True)
    if isinstance(source, int):
        return source
    data = source.arena.view(stream.data, stream.size).tobytes()  # the program may use its buffer again
    callback = desc.callback
    assert callback is not None

    def store(image: Image | None) -> None:
        if picture is not None:
            picture.ret_code = errors.RT_AICPU_EXCEPTION
            stream.ret_code = picture.ret_code
            if image is not None:
                _store(desc, channel, picture, image)
                stream.ret_code = picture.ret_code

    def work(time: int) -> None:
        channel.pending.add(store, lambda: callback(stream_desc, pic_desc or 0, user_data))
        try:
            for image in channel.decoder.feed(data):
                channel.pending.deliver(image, time)
        except BadStream:
            channel.pending.fail_newest(time)

    def pixels() -> int:
        return channel.pixels or _expected(picture)

    return _sent(channel.video.submit(FrameTask("VdecFrame", channel.video, pixels, work, True), host_thread()))


def _sent(taken: bool) -> int:
    if taken:
        return 0
    return errors.fail(errors.RT_PARAM_INVALID, "the channel's context was destroyed, or its device reset.")


def _expected(picture: PicDesc | None) -> int:
    """Pixels of a frame of which nothing is known yet: what its buffer can hold."""
    if picture is None:
        return 0
    return picture.width * picture.height or picture.size * 2 // 3


def _store(desc: VdecChannelDesc, channel: _DecoderChannel, target: PicDesc, image: Image) -> None:
    """Write a decoded frame into its picture, scaled to the size that channel or picture ask for."""
    from ascend_sim.dvpp import colour, vpc

    channel.pixels = image.width * image.height
    rules = chip_rules()
    width = desc.out_pic_width or target.width or image.width
    height = desc.out_pic_height or target.height or image.height
    form = pictures.form_of(desc.out_pic_format)
    least = rules.strides(form, width, height)
    target.width_stride = max(target.width_stride, least[0])
    target.height_stride = max(target.height_stride, least[1])
    target.width, target.height, target.format = width, height, form.number
    place = system().memory.find(target.data)
    found = Picture(target.data, target.size, form, width, height, target.width_stride, target.height_stride, place)
    try:
        pictures.check_size(found, "output")
    except BadPicture:
        return
    if place is None or found.data + found.nbytes > place.end:
        return
    scaled = vpc.resized(image, width, height, "bilinear")
    found.store(colour.convert(scaled, form, desc.matrix))
    target.ret_code = 0


@api("acl.media.vdec_send_frame", "aclvdecSendFrame", "launch")
def vdec_send_frame(channel_desc: int, stream_desc: int, pic_desc: int, frame_config: int, user_data: object, /) -> int:
    return _send(channel_desc, stream_desc, frame_config, pic_desc, user_data)


@api("acl.media.vdec_send_skipped_frame", "aclvdecSendSkippedFrame", "launch")
def vdec_send_skipped_frame(channel_desc: int, stream_desc: int, frame_config: int, user_data: object, /) -> int:
    return _send(channel_desc, stream_desc, frame_config, None, user_data)


# -- encoding ------------------------------------------------------------------------------------------------


@api("acl.media.venc_create_channel", "aclvencCreateChannel", "api")
def venc_create_channel(channel_desc: int, /) -> int:
    desc = find(channel_desc, VencChannelDesc, _VENC)
    if desc is None:
        return errors.INVALID_PARAM
    ret = _ready(desc, VENC, channel_desc)
    if ret:
        return ret
    sizes = chip_rules().venc_size
    if not sizes.holds(desc.pic_width, desc.pic_height):
        return errors.bad("picture size", (desc.pic_width, desc.pic_height), str(sizes))
    if desc.pic_width % 2 or desc.pic_height % 2:
        return errors.bad("picture size", (desc.pic_width, desc.pic_height), "an even width and height")
    if desc.pic_format not in _SEMI_PLANAR:
        return errors.bad("pic_format", desc.pic_format, "1 (NV12) or 2 (NV21)")
    if desc.key_frame_interval == 0:
        return errors.bad("key_frame_interval", 0, "1 to 65536")
    from ascend_sim.dvpp.video import Encoder

    try:
        encoder = Encoder(
            desc.entype, desc.pic_width, desc.pic_height, desc.src_rate or 30, desc.max_bit_rate,
            desc.key_frame_interval,
        )  # fmt: skip
    except VideoMissing as error:
        return _no_library(error)
    context = current()
    assert context is not None
    room = _room(desc, context.device.index)
    if isinstance(room, int):
        return room
    video = VideoChannel(context, desc.thread_id, VENC)
    desc.channel = _EncoderChannel(video, encoder, room, desc.buf_addr == 0)
    return 0


def _room(desc: VencChannelDesc, device: int) -> Block | int:
    """Device memory for coded frames: the program's, else memory of the channel."""
    if desc.buf_addr:
        return buffer_of(desc.buf_addr, desc.buf_size, "buf_addr", True, device, True)
    try:
        return system().devices[device].arena.allocate(desc.buf_size, desc.buf_size, "acl.media.venc_create_channel")
    except OutOfMemory as error:
        return errors.fail(errors.RT_MEMORY_ALLOCATION, f"{error}.")


@api("acl.media.venc_destroy_channel", "aclvencDestroyChannel", "sync")
def venc_destroy_channel(channel_desc: int, /) -> int:
    """Waits until every picture that was sent has been encoded and its callback has returned."""
    desc = find(channel_desc, VencChannelDesc, _VENC)
    if desc is None:
        return errors.INVALID_PARAM
    channel = desc.channel
    if channel is None:
        return errors.fail(
            errors.INVALID_PARAM, f"{channel_desc:#x} has no channel.", "acl.media.venc_create_channel makes it."
        )
    done = channel.video.wait(host_thread())
    channel.video.close()
    _let_go(desc)
    if channel.own:
        channel.room.arena.release(channel.room)
    for handle in channel.streams:
        handles.drop(handle)
    return 0 if done else _unheard(channel.video)


def _encoder_input(desc: VencChannelDesc, given: PicDesc) -> Picture:
    """The picture to encode; its strides may be left out. `BadPicture` when it does not fit the channel."""
    width, height = given.width or desc.pic_width, given.height or desc.pic_height
    if (width, height) != (desc.pic_width, desc.pic_height):
        raise BadPicture(f"picture of {width}x{height}: expected {desc.pic_width}x{desc.pic_height} of the channel")
    least = -(-width // 16) * 16
    stride = given.width_stride or least
    if stride < width or stride % 16:
        raise BadPicture(f"input width stride {stride}: expected a multiple of 16, at least {least}")
    form = pictures.form_of(desc.pic_format)
    return Picture(given.data, given.size, form, width, height, stride, max(height, given.height_stride))


@api("acl.media.venc_send_frame", "aclvencSendFrame", "launch")
def venc_send_frame(channel_desc: int, pic_desc: int, reserve: object, frame_config: int, user_data: object, /) -> int:
    desc = find(channel_desc, VencChannelDesc, _VENC)
    config = find(frame_config, VencFrameConfig, "venc_create_frame_config")
    if desc is None or config is None:
        return errors.INVALID_PARAM
    channel = desc.channel
    if channel is None:
        return errors.fail(
            errors.INVALID_PARAM, f"{channel_desc:#x} has no channel.", "acl.media.venc_create_channel makes it."
        )
    if config.eos:  # the encoder holds nothing back: once its queue is empty, the program may free its pictures
        channel.video.stream.synchronize(host_thread())
        return 0
    given = find(pic_desc, PicDesc, "dvpp_create_pic_desc")
    if given is None:
        return errors.INVALID_PARAM
    try:
        source = _encoder_input(desc, given)
        pictures.check_size(source, "input")
    except BadPicture as error:
        return errors.fail(errors.INVALID_PARAM, f"{error}.")
    block = buffer_of(source.data, source.nbytes, "data of the picture", False, channel.video.device.index, True)
    if isinstance(block, int):
        return block
    source = replace(source, block=block)
    callback, key = desc.callback, bool(config.force_i_frame)
    assert callback is not None

    def work(time: int) -> None:
        result = StreamDesc(format=desc.entype, ret_code=errors.RT_AICPU_EXCEPTION)
        if block.alive:
            _write(channel, result, channel.encoder.feed(source.load(), key))
        handle = handles.new(result)
        channel.streams.append(handle)

        def call() -> None:
            callback(pic_desc, handle, user_data)
            channel.streams.remove(handle)
            handles.drop(handle)

        channel.video.report(time, call)

    pixels = source.width * source.height
    return _sent(channel.video.submit(FrameTask("VencFrame", channel.video, lambda: pixels, work, True), host_thread()))


def _write(channel: _EncoderChannel, result: StreamDesc, coded: bytes) -> None:
    """Put a coded frame into the channel's memory, which is used in turn."""
    size = channel.room.size
    if not coded or len(coded) > size:
        return
    if channel.at + len(coded) > size:
        channel.at = 0
    address = channel.room.address + channel.at
    ctypes.memmove(address, coded, len(coded))
    channel.at += -(-len(coded) // _FRAME_ALIGN) * _FRAME_ALIGN
    result.data, result.size, result.ret_code = address, len(coded), 0
