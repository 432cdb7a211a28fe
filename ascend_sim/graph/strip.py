"""An ONNX file without the data of its weights, for times only."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path

from ascend_sim.graph.errors import AtcError
from ascend_sim.graph.om.wire import LENGTH, VARINT, varint
from ascend_sim.graph.virtual import LIMIT, MARK

# Field numbers of onnx.proto
_GRAPH, _NODE, _INITIALIZER, _ATTRIBUTE, _TENSOR = 7, 1, 5, 5, 5
_TYPE, _EXTERNAL, _LOCATION = 2, 13, 14
_DATA = (4, 5, 9, 10)  # float_data, int32_data, raw_data, double_data
_WEIGHTS = (1, 2, 3, 10, 11, 16, 17, 18, 19, 20, 22)  # float32 uint8 int8 float16 float64 bfloat16 float8 ... int4

Bytes = mmap.mmap | bytes


def _varint(data: Bytes, pos: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while pos < end:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
        shift += 7
    raise ValueError("a number runs past its message")


def _fields(data: Bytes, pos: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """(number, wire type, first byte of the field, start, end of its content)."""
    while pos < end:
        first = pos
        key, pos = _varint(data, pos, end)
        wire = key & 7
        if wire == LENGTH:
            size, pos = _varint(data, pos, end)
            stop = pos + size
        elif wire == VARINT:
            _, stop = _varint(data, pos, end)
        else:
            stop = pos + {1: 8, 5: 4}.get(wire, end)
        if stop > end:
            raise ValueError("a field runs past its message")
        yield key >> 3, wire, first, pos, stop
        pos = stop


def _message(number: int, content: bytes) -> bytes:
    return varint(number << 3 | LENGTH) + varint(len(content)) + content


def _text(number: int, text: str) -> bytes:
    return _message(number, text.encode())


def _tensor(data: Bytes, pos: int, end: int) -> bytes:
    kind, dropped, kept = 0, 0, []
    for number, wire, first, start, stop in _fields(data, pos, end):
        if number == _TYPE and wire == VARINT:
            kind = _varint(data, start, stop)[0]
        if number in _DATA and wire == LENGTH and stop - start > LIMIT:
            dropped += stop - start
        elif number == _EXTERNAL:
            dropped += 1
        elif number != _LOCATION:
            kept.append(bytes(data[first:stop]))
    if not dropped or kind not in _WEIGHTS:
        return bytes(data[pos:end])
    place = _message(_EXTERNAL, _text(1, "location") + _text(2, MARK))
    return b"".join([*kept, place, varint(_LOCATION << 3), b"\1"])


def _rewrite(data: Bytes, pos: int, end: int, path: tuple[int, ...], inner: tuple[tuple[int, ...], ...]) -> bytes:
    """A message with the tensors at ``inner`` (paths of field numbers) stripped."""
    parts, plain = [], pos
    for number, wire, first, start, stop in _fields(data, pos, end):
        here = (*path, number)
        if wire != LENGTH or not any(known[: len(here)] == here for known in inner):
            continue
        parts.append(bytes(data[plain:first]))
        plain = stop
        content = _tensor(data, start, stop) if here in inner else _rewrite(data, start, stop, here, inner)
        parts.append(_message(number, content))
    parts.append(bytes(data[plain:end]))
    return b"".join(parts)


def strip(path: str | os.PathLike[str]) -> bytes:
    """The ONNX file without the data of its weights; they are not read, nor are files of external data.

    Raises `AtcError` for a file that is missing or no protobuf."""
    inner = ((_GRAPH, _INITIALIZER), (_GRAPH, _NODE, _ATTRIBUTE, _TENSOR))
    try:
        with Path(path).open("rb") as file:
            if not os.fstat(file.fileno()).st_size:
                raise AtcError("E16004", f"{path} is empty")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _rewrite(data, 0, len(data), (), inner)
    except FileNotFoundError:
        raise AtcError("E10410", f"model file {path} does not exist", "Check the path given to --model.") from None
    except OSError as error:
        raise AtcError("E13001", f"model file {path} cannot be opened: {error.strerror}") from None
    except ValueError:
        raise AtcError("E13005", f"{path} is not an ONNX model: its protobuf cannot be parsed") from None
