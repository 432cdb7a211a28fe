"""What media units refuse."""

from __future__ import annotations


class BadPicture(ValueError):
    """A picture or region that a media unit does not accept; says what would be right."""


class BadStream(ValueError):
    """Bytes that are not the picture or video that a decoder was promised."""


class Unsupported(BadStream):
    """A picture of a kind that the decoder does not decode."""


class VideoMissing(RuntimeError):
    """The codec library of video units is not installed."""

    def __init__(self, unit: str) -> None:
        super().__init__(f"{unit} needs PyAV, which is not installed: pip install 'ascend-sim[video]'")
