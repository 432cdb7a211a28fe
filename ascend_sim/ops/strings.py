"""Tensors of strings in device memory.

Every element has room for `ROOM` bytes. The tensor begins with one head per element (64-bit offset from the tensor's
start, 64-bit length), as GE's StringHead (public header ``ge/tensor.h`` family, DT_STRING); the characters follow in
UTF-8.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOM = 256  # bytes of an element, its head included
HEAD = 16

Array = NDArray[Any]


def pack(values: Array, room: int) -> NDArray[np.uint8]:
    """A tensor of strings as bytes. Raises ValueError when its text does not fit into ``room`` bytes."""
    texts = [str(v).encode() for v in values.reshape(-1)]
    heads = np.zeros((len(texts), 2), "<i8")
    at = HEAD * len(texts)
    for row, text in zip(heads, texts, strict=True):
        row[:] = at, len(text)
        at += len(text)
    if at > room:
        raise ValueError(f"{len(texts)} strings take {at} bytes; the tensor has {room}")
    return np.frombuffer(heads.tobytes() + b"".join(texts), np.uint8)


def unpack(raw: NDArray[np.uint8], shape: Sequence[int]) -> Array:
    """Bytes as a tensor of strings; a head that points outside gives an empty string."""
    count = prod(shape)
    data = raw.tobytes()
    out = np.empty(count, object)
    heads = np.frombuffer(data[: HEAD * count].ljust(HEAD * count, b"\0"), "<i8").reshape(count, 2)
    for i, (at, length) in enumerate(heads.tolist()):
        inside = HEAD * count <= at and length >= 0 and at + length <= len(data)
        out[i] = data[at : at + length].decode(errors="replace") if inside else ""
    return out.reshape(tuple(shape))
