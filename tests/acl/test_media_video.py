"""acl.media: video decoder and encoder. Streams are made and checked with PyAV."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from media_program import NV12, MediaProgram, media

import acl
from acl import _sim
from ascend_sim.runtime import system as machine

Fails = Callable[..., str]
WIDTH, HEIGHT, FRAMES = 192, 128, 8


def frame(index: int) -> np.ndarray:
    """(rows * 3 / 2, columns): planes Y, U, V of a moving picture, as PyAV's yuv420p arrays."""
    y = (np.add.outer(np.arange(HEIGHT), np.arange(WIDTH)) // 2 + 5 * index) % 200 + 20
    u = np.full((HEIGHT // 4, WIDTH), 90 + 4 * index)
    v = np.full((HEIGHT // 4, WIDTH), 150 - 3 * index)
    return np.concatenate((y, u, v)).astype(np.uint8)


def as_nv12(planes: np.ndarray, height: int = HEIGHT) -> np.ndarray:
    width = planes.shape[1]
    chroma = planes[height:].reshape(2, height // 2, width // 2)
    return np.concatenate((planes[:height], chroma.transpose(1, 2, 0).reshape(height // 2, width)))


def packets(codec: str = "libx264", **options: str) -> tuple[list[bytes], list[np.ndarray]]:
    """Coded frames in stream order, and the pictures that they show, in the order of showing."""
    av = pytest.importorskip("av")
    encoder = av.CodecContext.create(codec, "w")
    encoder.width, encoder.height, encoder.pix_fmt = WIDTH, HEIGHT, "yuv420p"
    encoder.time_base, encoder.framerate = Fraction(1, 25), Fraction(25)
    encoder.options = {"preset": "veryfast", **options}
    coded = []
    for index in range(FRAMES):
        picture = av.VideoFrame.from_ndarray(frame(index), "yuv420p")
        picture.pts = index
        coded += [bytes(p) for p in encoder.encode(picture)]
    coded += [bytes(p) for p in encoder.encode(None)]
    decoder = av.CodecContext.create("hevc" if codec == "libx265" else "h264", "r")
    shown = [f for data in coded for f in decoder.decode(av.Packet(data))] + list(decoder.decode(None))
    return coded, [f.to_ndarray() for f in shown]


class Listener:
    """A thread that runs acl.rt.process_report, as programs with video channels have."""

    def __init__(self) -> None:
        self._context, ret = acl.rt.get_context()
        assert ret == 0
        self._running = True
        self.thread_id, ret = acl.util.start_thread(self._run, [])
        assert ret == 0

    def _run(self, _args: Any) -> None:
        assert acl.rt.set_context(self._context) == 0
        while self._running:
            acl.rt.process_report(50)

    def stop(self) -> None:
        self._running = False
        acl.util.stop_thread(self.thread_id)


class Player(MediaProgram):
    def __init__(self, entype: int = 2, form: int = NV12, **settings: int) -> None:
        super().__init__()
        self.listener = Listener()
        self.seen: list[tuple[int, int, Any, int]] = []
        self.desc = media.vdec_create_channel_desc()
        self.config = media.vdec_create_frame_config()
        for name, value in {"channel_id": 1, "thread_id": self.listener.thread_id, "callback": self.callback,
                            "entype": entype, "out_pic_format": form, **settings}.items():  # fmt: skip
            self.ok(getattr(media, f"vdec_set_channel_desc_{name}")(self.desc, value))
        self.ok(media.vdec_create_channel(self.desc))

    def callback(self, stream: int, picture: int, data: Any) -> None:
        self.seen.append((stream, picture, data, threading.get_ident()))

    def send(self, data: bytes, tag: Any, size: int = WIDTH * HEIGHT * 3 // 2) -> int:
        stream, picture = media.dvpp_create_stream_desc(), media.dvpp_create_pic_desc()
        self.ok(media.dvpp_set_stream_desc_data(stream, self.upload(data)))
        self.ok(media.dvpp_set_stream_desc_size(stream, len(data)))
        self.ok(media.dvpp_set_pic_desc_data(picture, self.malloc(size)))
        self.ok(media.dvpp_set_pic_desc_size(picture, size))
        return int(media.vdec_send_frame(self.desc, stream, picture, self.config, tag))

    def close(self) -> None:
        self.ok(media.vdec_destroy_channel(self.desc))
        self.listener.stop()
        self.ok(media.vdec_destroy_frame_config(self.config))
        self.ok(media.vdec_destroy_channel_desc(self.desc))


@pytest.mark.parametrize(
    ("codec", "entype", "options"),
    [
        ("libx264", 1, {"profile": "baseline"}), ("libx264", 3, {"bf": "2"}),
        ("libx265", 0, {"x265-params": "log-level=none"}),
    ],
)  # fmt: skip
def test_decoding(device: int, codec: str, entype: int, options: dict[str, str]) -> None:
    coded, shown = packets(codec, **options)
    player = Player(entype)
    for index, data in enumerate(coded):
        player.ok(player.send(data, [1, index]))
    player.close()
    assert [tag for _, _, tag, _ in player.seen] == [[1, i] for i in range(FRAMES)]
    assert {ident for *_, ident in player.seen} == {player.listener.thread_id}
    for (stream, picture, _, _), expected in zip(player.seen, shown, strict=True):
        assert media.dvpp_get_pic_desc_ret_code(picture) == media.dvpp_get_stream_desc_ret_code(stream) == 0
        assert np.array_equal(player.planes(picture), as_nv12(expected))


def test_scaling_and_rgb(device: int) -> None:
    coded, _ = packets(profile="baseline")
    player = Player(1, 12, out_pic_width=96, out_pic_height=64)
    player.ok(player.send(coded[0], 0))
    player.close()
    picture = player.seen[0][1]
    assert (media.dvpp_get_pic_desc_width(picture), media.dvpp_get_pic_desc_format(picture)) == (96, 12)
    assert player.planes(picture).shape == (64, 96 * 3)


def test_end_of_stream_and_skipped_frames(device: int) -> None:
    coded, shown = packets(bf="2")
    player = Player(3)
    player.ok(player.send(coded[0], "first"))
    stream = media.dvpp_create_stream_desc()
    media.dvpp_set_stream_desc_data(stream, player.upload(coded[1]))
    media.dvpp_set_stream_desc_size(stream, len(coded[1]))
    player.ok(media.vdec_send_skipped_frame(player.desc, stream, player.config, "skipped"))
    player.ok(player.send(coded[2], "third"))
    last = media.dvpp_create_stream_desc()
    player.ok(media.dvpp_set_stream_desc_eos(last, 1))
    player.ok(media.vdec_send_frame(player.desc, last, 0, player.config, "end"))
    player.close()
    assert [(tag, bool(picture)) for _, picture, tag, _ in player.seen] == [
        ("first", True), ("skipped", False), ("third", True),
    ]  # fmt: skip
    assert np.array_equal(player.planes(player.seen[0][1]), as_nv12(shown[0]))


def test_a_closed_channel_lets_its_callback_go(device: int) -> None:
    pytest.importorskip("av")

    class Owner:
        def callback(self, *_: Any) -> None: ...

    owner = Owner()
    desc = media.vdec_create_channel_desc()
    listener = Listener()
    assert media.vdec_set_channel_desc_thread_id(desc, listener.thread_id) == 0
    assert media.vdec_set_channel_desc_callback(desc, owner.callback) == 0
    gone = weakref.ref(owner)
    for _ in range(2):  # a channel can be made again from its descriptor
        assert media.vdec_create_channel(desc) == 0
        assert media.vdec_destroy_channel(desc) == 0
    del owner
    assert gone() is None
    listener.stop()


def test_a_channel_outlives_its_context(device: int, fails: Fails) -> None:
    coded, _ = packets(profile="baseline")
    context, ret = acl.rt.create_context(0)
    assert ret == 0
    player = Player(1)
    player.ok(player.send(coded[0], 0))
    player.listener.stop()
    assert acl.rt.destroy_context(context) == 0
    assert acl.rt.set_device(0) == 0
    fails(player.send(coded[1], 1), 107000, "context was destroyed")
    assert media.vdec_destroy_channel(player.desc) == 0
    assert media.vdec_destroy_channel_desc(player.desc) == 0


def test_closing_does_not_wait_for_a_thread_that_is_gone(device: int, fails: Fails) -> None:
    coded, _ = packets(profile="baseline")
    player, other = Player(1), Listener()
    player.listener.stop()
    player.ok(player.send(coded[0], 0))
    fails(media.vdec_destroy_channel(player.desc), 507046, "1 frames were never reported", "acl.rt.process_report")
    assert media.vdec_destroy_channel_desc(player.desc) == 0
    other.stop()


def test_frames_take_their_time(device: int) -> None:
    coded, _ = packets(profile="baseline")
    events: list[Any] = []
    observer = _sim.observe(events.append)
    player = Player(1)
    for index, data in enumerate(coded):
        player.ok(player.send(data, index))
    player.close()
    _sim.unobserve(observer)
    spans = [e for e in events if e.kind == "dvpp" and e.args["pixels"]]
    assert len(spans) == FRAMES and all(a.end <= b.start for a, b in pairwise(spans))
    for span in spans:
        assert span.duration == pytest.approx(WIDTH * HEIGHT / 497.7e6 * 1e12, rel=1e-6)


def test_broken_frames_and_small_buffers(device: int) -> None:
    coded, _ = packets(profile="baseline")
    player = Player(1)
    player.ok(player.send(b"\1\2\3\4" * 8, "junk"))
    player.ok(player.send(coded[0], "small", 1024))
    player.ok(player.send(coded[1], "good"))
    player.close()
    codes = {tag: media.dvpp_get_pic_desc_ret_code(picture) for _, picture, tag, _ in player.seen}
    assert codes == {"junk": 507018, "small": 507018, "good": 0}


def test_refusals(device: int, fails: Fails) -> None:
    pytest.importorskip("av")
    desc = media.vdec_create_channel_desc()
    fails(media.vdec_create_channel(desc), 100000, "no callback", "vdec_set_channel_desc_callback")
    assert media.vdec_set_channel_desc_callback(desc, lambda *_: None) == 0
    fails(media.vdec_create_channel(desc), 100000, "no thread", "acl.util.start_thread")
    assert media.vdec_set_channel_desc_thread_id(desc, threading.get_ident()) == 0
    assert media.vdec_set_channel_desc_out_pic_format(desc, 3) == 0
    fails(media.vdec_create_channel(desc), 100000, "out_pic_format is 3")
    fails(media.vdec_set_channel_desc_entype(desc, 4), 100000, "0 to 3")
    assert media.vdec_set_channel_desc_out_pic_format(desc, 1) == 0
    assert media.vdec_create_channel(desc) == 0
    fails(media.vdec_create_channel(desc), 100000, "exists already")
    fails(media.vdec_destroy_channel_desc(desc), 148051, "vdec_destroy_channel comes first")
    stream = media.dvpp_create_stream_desc()
    fails(media.vdec_send_frame(desc, stream, 0, 0, None), 100000)
    fails(media.vdec_send_frame(0, stream, 0, 0, None), 100000, "vdec_create_channel_desc")
    assert media.vdec_destroy_channel(desc) == 0
    fails(media.vdec_send_frame(desc, stream, 0, 0, None), 100000, "has no channel")
    assert media.vdec_get_channel_desc_callback(0) is None
    assert media.vdec_set_channel_desc_param(desc, 1, 640) == (desc, 0)
    assert media.vdec_get_channel_desc_param(desc, 1) == (640, 0)
    assert media.vdec_get_channel_desc_out_pic_width(desc) == 640


def test_without_the_codec_library(device: int, fails: Fails, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    desc = media.vdec_create_channel_desc()
    media.vdec_set_channel_desc_callback(desc, lambda *_: None)
    media.vdec_set_channel_desc_thread_id(desc, threading.get_ident())
    fails(media.vdec_create_channel(desc), 207000, "PyAV", "ascend-sim[video]")


def test_encoding() -> None:
    av = pytest.importorskip("av")
    _sim.reset()
    machine.configure(soc="Ascend310P3", devices=1)
    assert acl.init() == 0 and acl.rt.set_device(0) == 0
    program = MediaProgram()
    listener = Listener()
    coded: list[bytes] = []

    def callback(picture: int, stream: int, data: Any) -> None:
        assert media.dvpp_get_stream_desc_ret_code(stream) == 0
        address, size = media.dvpp_get_stream_desc_data(stream), media.dvpp_get_stream_desc_size(stream)
        coded.append(program.download(address, size).tobytes())
        tags.append((picture, data))

    tags: list[Any] = []
    desc, config = media.venc_create_channel_desc(), media.venc_create_frame_config()
    for name, value in {"thread_id": listener.thread_id, "callback": callback, "entype": 2, "pic_format": NV12,
                        "pic_width": WIDTH, "pic_height": HEIGHT, "key_frame_interval": 16}.items():  # fmt: skip
        program.ok(getattr(media, f"venc_set_channel_desc_{name}")(desc, value))
    assert media.venc_set_channel_desc_param(desc, 10, 25) == (desc, 0)
    assert media.venc_get_channel_desc_src_rate(desc) == 25
    program.ok(media.venc_create_channel(desc))
    pictures = [program.picture(WIDTH, HEIGHT, data=as_nv12(frame(i))) for i in range(FRAMES)]
    for index, picture in enumerate(pictures):
        program.ok(media.venc_set_frame_config_force_i_frame(config, int(index == 4)))
        program.ok(media.venc_send_frame(desc, picture, 0, config, index))
    program.ok(media.venc_set_frame_config_eos(config, 1))
    assert media.venc_get_frame_config_eos(config) == 1
    program.ok(media.venc_send_frame(desc, 0, 0, config, None))
    program.ok(media.venc_destroy_channel(desc))
    listener.stop()
    assert tags == list(zip(pictures, range(FRAMES), strict=True))
    decoder = av.CodecContext.create("h264", "r")
    shown = [f for data in coded for f in decoder.decode(av.Packet(data))] + list(decoder.decode(None))
    assert [f.key_frame for f in shown] == [i in (0, 4) for i in range(FRAMES)]
    for index, picture in enumerate(shown):
        assert np.abs(picture.to_ndarray().astype(int) - frame(index)).mean() < 4
    program.ok(media.venc_destroy_frame_config(config))
    program.ok(media.venc_destroy_channel_desc(desc))


def test_chips_without_an_encoder(device: int, fails: Fails) -> None:
    fails(media.venc_create_channel(media.venc_create_channel_desc()), 207000, "Ascend910B2 has no VENC unit")
