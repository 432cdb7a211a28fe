"""What every program with the media units does: a channel, pictures in device memory, copies."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from PIL import Image as Pillow

import acl

media = acl.media
NV12, NV21, RGB, BGR = 1, 2, 12, 13
_BYTES = {0: (1, 1), 1: (3, 2), 2: (3, 2), 3: (2, 1), 5: (3, 1), 7: (1, 1), 12: (1, 1), 13: (1, 1), 16: (1, 1)}


def photo(width: int, height: int, seed: int = 0) -> np.ndarray:
    """(rows, columns, 3) RGB, smooth, not saturated."""
    rng = np.random.default_rng(seed)
    base = rng.integers(80, 176, (max(2, height // 16), max(2, width // 16), 3), np.uint8)
    return np.asarray(Pillow.fromarray(base).resize((width, height), Pillow.Resampling.BICUBIC))


def jpeg_bytes(pixels: np.ndarray, **options: Any) -> bytes:
    out = io.BytesIO()
    Pillow.fromarray(pixels).save(out, "JPEG", **{"quality": 95, **options})
    return out.getvalue()


def nv12(pixels: np.ndarray) -> np.ndarray:
    """(rows * 3 / 2, columns) NV12 bytes of an RGB picture, by Pillow."""
    yuv = np.asarray(Pillow.fromarray(pixels).convert("YCbCr"))
    rows, columns = yuv.shape[:2]
    small = yuv[:, :, 1:].reshape(rows // 2, 2, columns // 2, 2, 2).mean(axis=(1, 3))
    return np.concatenate((yuv[:, :, 0], np.rint(small).astype(np.uint8).reshape(rows // 2, columns)))


class MediaProgram:
    """A context with a stream and a picture channel. Every code is checked."""

    def __init__(self) -> None:
        self.stream, ret = acl.rt.create_stream()
        assert ret == 0
        self.channel = media.dvpp_create_channel_desc()
        self.ok(media.dvpp_create_channel(self.channel))
        self.resize = media.dvpp_create_resize_config()
        self._alive: list[bytes] = []

    def ok(self, ret: int) -> None:
        assert ret == 0, (ret, acl.get_recent_err_msg())

    def malloc(self, size: int) -> int:
        address, ret = media.dvpp_malloc(size)
        self.ok(ret)
        return int(address)

    def upload(self, data: bytes) -> int:
        address = self.malloc(len(data))
        self.ok(acl.rt.memcpy(address, len(data), self.host(data), len(data), 1))
        return address

    def host(self, data: bytes) -> int:
        self._alive.append(data)
        return int(acl.util.bytes_to_ptr(data))

    def download(self, address: int, size: int) -> np.ndarray:
        out = bytes(size)
        self.ok(acl.rt.memcpy(acl.util.bytes_to_ptr(out), size, address, size, 2))
        return np.frombuffer(out, np.uint8)

    def picture(
        self, width: int, height: int, form: int = NV12, strides: tuple[int, int] | None = None,
        data: np.ndarray | None = None, desc: int = 0,
    ) -> int:  # fmt: skip
        """A picture descriptor over new memory, filled with rows of ``data`` (without strides)."""
        wide, high = strides or (width * {12: 3, 13: 3, 16: 4, 7: 2}.get(form, 1), height)
        up, down = _BYTES[form]
        size = wide * high * up // down
        desc = desc or media.dvpp_create_pic_desc()
        memory = np.zeros((size // wide, wide), np.uint8)
        if data is not None:
            rows = data.reshape(data.shape[0], -1)
            memory[:height, : rows.shape[1]] = rows[:height]
            memory[high : high + rows.shape[0] - height, : rows.shape[1]] = rows[height:]
        for name, value in {
            "data": self.upload(memory.tobytes()), "size": size, "format": form, "width": width, "height": height,
            "width_stride": wide, "height_stride": high,
        }.items():  # fmt: skip
            self.ok(getattr(media, f"dvpp_set_pic_desc_{name}")(desc, value))
        return int(desc)

    def planes(self, desc: int) -> np.ndarray:
        """(rows, columns) bytes of a picture, strides cut off."""
        get = {n: getattr(media, f"dvpp_get_pic_desc_{n}")(desc)
               for n in ("data", "size", "format", "width", "height", "width_stride", "height_stride")}  # fmt: skip
        up, down = _BYTES[get["format"]]
        wide, high, height = get["width_stride"], get["height_stride"], get["height"]
        memory = self.download(get["data"], wide * high * up // down).reshape(-1, wide)
        columns = get["width"] * {12: 3, 13: 3, 16: 4, 7: 2}.get(get["format"], 1)
        chroma = memory[high : high + (memory.shape[0] - high) * height // high] if up != down else memory[:0]
        return np.concatenate((memory[:height, :columns], chroma[:, :columns]))

    def roi(self, left: int, right: int, top: int, bottom: int) -> int:
        return int(media.dvpp_create_roi_config(left, right, top, bottom))

    def sync(self) -> None:
        self.ok(acl.rt.synchronize_stream(self.stream))
