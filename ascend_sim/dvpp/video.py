"""Video codecs: H.264 and H.265 by PyAV, which is optional (extra ``video``).

Encoding types are those of ``acldvppStreamFormat``: 0 H.265 main, 1 to 3 H.264 baseline, main and high.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from ascend_sim.dvpp.errors import BadStream, VideoMissing

if TYPE_CHECKING:
    from ascend_sim.dvpp.image import Image

H265_MAIN, H264_BASELINE, H264_MAIN, H264_HIGH = range(4)
_PROFILES: Final = {H264_BASELINE: "baseline", H264_MAIN: "main", H264_HIGH: "high"}


def library(unit: str) -> Any:
    """PyAV. `VideoMissing` when it is not installed; ``unit`` is who needs it."""
    try:
        import av  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise VideoMissing(unit) from error
    return av


def _image(frame: Any) -> Image:
    import numpy as np

    from ascend_sim.dvpp.image import Image

    if frame.format.name not in ("yuv420p", "yuvj420p"):
        frame = frame.reformat(format="yuv420p")
    planes = {}
    for name, plane in zip("YUV", frame.planes, strict=False):
        rows = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)[: plane.height, : plane.width]
        planes[name] = rows.copy()
    return Image(frame.width, frame.height, planes)


class Decoder:
    """Decodes one stream frame by frame. Frames come out in the order in which they are shown."""

    def __init__(self, kind: int) -> None:
        self._av = library("video decoding")
        self._context = self._av.CodecContext.create("hevc" if kind == H265_MAIN else "h264", "r")
        self._context.thread_count = 1

    def feed(self, data: bytes) -> list[Image]:
        """Frames that are complete with ``data`` (one coded frame). `BadStream` when it cannot be decoded."""
        try:
            return [_image(frame) for frame in self._context.decode(self._av.Packet(data))]
        except self._av.error.FFmpegError as error:
            raise BadStream(f"the video stream cannot be decoded: {error}") from error

    def flush(self) -> list[Image]:
        """What the decoder still holds, at the end of the stream."""
        try:
            return [_image(frame) for frame in self._context.decode(None)]
        except self._av.error.FFmpegError:
            return []


class Encoder:
    """Encodes pictures of one size, one coded frame a picture. ``rate`` is frames per second, ``bits`` the greatest
    rate in kbit/s (0: the encoder's choice), ``interval`` the distance of key frames."""

    def __init__(self, kind: int, width: int, height: int, rate: int, bits: int, interval: int) -> None:
        self._av = library("video encoding")
        context = self._av.CodecContext.create("libx265" if kind == H265_MAIN else "libx264", "w")
        context.width, context.height, context.pix_fmt = width, height, "yuv420p"
        context.framerate = Fraction(rate)
        context.time_base = Fraction(1, rate)
        context.gop_size = interval
        context.thread_count = 1
        context.options = {"preset": "veryfast", "tune": "zerolatency", "forced-idr": "1"}
        if kind == H265_MAIN:
            context.options = {**context.options, "x265-params": "log-level=none:pools=none:frame-threads=1"}
        if bits:
            context.bit_rate = bits * 1000
        if kind in _PROFILES:
            context.profile = _PROFILES[kind].capitalize()
        self._context = context
        self._frames = 0

    def feed(self, picture: Image, key: bool) -> bytes:
        """The coded frame of a 4:2:0 picture; ``key`` makes it a key frame."""
        import numpy as np

        frame = self._av.VideoFrame(picture.width, picture.height, "yuv420p")
        for name, plane in zip("YUV", frame.planes, strict=False):
            rows = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)
            rows[: plane.height, : plane.width] = picture.planes[name]
        frame.pts = self._frames
        self._frames += 1
        if key:
            frame.pict_type = self._av.video.frame.PictureType.I
        return b"".join(bytes(packet) for packet in self._context.encode(frame))

    def flush(self) -> bytes:
        """What the encoder still holds."""
        return b"".join(bytes(packet) for packet in self._context.encode(None))
