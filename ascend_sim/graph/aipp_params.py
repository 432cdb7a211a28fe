"""Parameters of dynamic AIPP as they lie in the model's extra input: 64 bytes for the batch, 96 for each image.

Layout: public ATC manual, ``kAippDynamicPara`` and ``kAippDynamicBatchPara``; image formats are numbered as in
aclAippInputFormat (0: not set). Minima and reciprocals are fp16.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from ascend_sim.graph.aipp_config import DYNAMIC, FORMATS, AippConfig

# format, csc, rbuv swap, ax swap, images, 3 pad | width, height | 9 matrix, 3 pad | output bias, input bias, 2+16 pad
_HEAD = struct.Struct("<B4b3x2i9h6x6B2x16x")
# crop, resize, padding, rotation, 4 pad | crop x y w h | resize in w h out w h | top bottom left right | mean min var
_IMAGE = struct.Struct("<4b4x12i4h4H4H16x")
MAX_IMAGES = 127


def params_size(images: int) -> int:
    """Bytes of the parameters of a batch (acl.mdl.get_aipp_data_size)."""
    return _HEAD.size + images * _IMAGE.size


def _half(values: Sequence[float]) -> list[int]:
    with np.errstate(over="ignore"):
        return [int(v) for v in np.asarray(values, np.float16).view(np.uint16)]


def _floats(bits: Sequence[int]) -> tuple[float, ...]:
    return tuple(float(v) for v in np.asarray(bits, np.uint16).view(np.float16))


def pack_params(images: Sequence[AippConfig]) -> bytes:
    """One configuration an image; what holds for the whole batch is taken from the first. Raises ValueError."""
    if not 1 <= len(images) <= MAX_IMAGES:
        raise ValueError(f"AIPP parameters for {len(images)} images; expected 1..{MAX_IMAGES}")
    first = images[0]
    number = next((k for k, v in FORMATS.items() if v == first.input_format), 0)
    parts = [_HEAD.pack(
        number, first.csc_switch, first.rbuv_swap_switch, first.ax_swap_switch, len(images), first.src_image_size_w,
        first.src_image_size_h, *first.matrix, *first.output_bias, *first.input_bias,
    )]  # fmt: skip
    for image in images:
        parts.append(_IMAGE.pack(
            image.crop, 0, image.padding, 0, image.load_start_pos_w, image.load_start_pos_h, image.crop_size_w,
            image.crop_size_h, 0, 0, 0, 0, image.top_padding_size, image.bottom_padding_size, image.left_padding_size,
            image.right_padding_size, *image.mean, *_half(image.min_chn), *_half(image.var_reci),
        ))  # fmt: skip
    return b"".join(parts)


def unpack_params(data: bytes) -> list[AippConfig]:
    """The configuration of every image. Raises ValueError for data that `pack_params` does not write."""
    if len(data) < _HEAD.size:
        raise ValueError(f"AIPP parameters have {len(data)} bytes, expected at least {_HEAD.size}")
    fmt, csc, rbuv, ax, count, width, height, *rest = _HEAD.unpack_from(data)
    if not 1 <= count <= MAX_IMAGES or params_size(count) > len(data):
        raise ValueError(f"AIPP parameters name {count} images in {len(data)} bytes; acl.mdl.set_input_aipp sets them")
    shared: dict[str, Any] = {
        "aipp_mode": DYNAMIC, "input_format": FORMATS.get(fmt, ""), "csc_switch": bool(csc),
        "rbuv_swap_switch": bool(rbuv), "ax_swap_switch": bool(ax), "src_image_size_w": width,
        "src_image_size_h": height, "matrix": tuple(rest[:9]), "output_bias": tuple(rest[9:12]),
        "input_bias": tuple(rest[12:15]),
    }  # fmt: skip
    images = []
    for index in range(count):
        crop, _, padding, _, *numbers = _IMAGE.unpack_from(data, _HEAD.size + index * _IMAGE.size)
        x, y, w, h, _, _, _, _, top, bottom, left, right = numbers[:12]
        images.append(AippConfig(
            **shared, crop=bool(crop), padding=bool(padding), load_start_pos_w=x, load_start_pos_h=y, crop_size_w=w,
            crop_size_h=h, top_padding_size=top, bottom_padding_size=bottom, left_padding_size=left,
            right_padding_size=right, mean=tuple(numbers[12:16]), min_chn=_floats(numbers[16:20]),
            var_reci=_floats(numbers[20:24]),
        ))  # fmt: skip
    return images
