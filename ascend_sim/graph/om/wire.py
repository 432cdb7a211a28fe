"""Protobuf wire format for the few messages an .om holds, driven by field tables.

A message is a plain dict from field name to value: int, float, bool, bytes, str, dict (message) or a list of
them. Only what the tables of `ascend_sim.graph.om.proto` name is decoded; unknown fields are skipped. Decoding checks
every length against its bounds and limits the nesting, so no input makes it crash, loop or recurse deeply.

Source: protobuf encoding specification (protobuf.dev/programming-guides/encoding).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
MAX_DEPTH = 64
MAX_VALUES = 4_000_000  # decoded values of one message tree; real models stay below 1 M


class WireError(ValueError):
    """Bytes that are not a legal protobuf message of the expected type."""


@dataclass(frozen=True)
class Field:
    """``kind``: int, uint, bool, float, bytes, str or the name of a message; ``map`` fields hold a dict by str."""

    number: int
    name: str
    kind: str
    repeated: bool = False
    map: bool = False


Table = Mapping[str, tuple[Field, ...]]


def varint(value: int) -> bytes:
    """Base-128 encoding; negative numbers as 64-bit two's complement."""
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _key(number: int, wire: int) -> bytes:
    return varint(number << 3 | wire)


def _scalar(field: Field, value: Any, tables: Table) -> tuple[int, bytes]:
    match field.kind:
        case "int" | "uint":
            return VARINT, varint(int(value))
        case "bool":
            return VARINT, varint(1 if value else 0)
        case "float":
            return FIXED32, struct.pack("<f", value)
        case "bytes":
            return LENGTH, bytes(value)
        case "str":
            return LENGTH, value.encode()
        case _:
            return LENGTH, encode(field.kind, value, tables)


def encode(message: str, value: Mapping[str, Any], tables: Table) -> bytes:
    """Bytes of ``value`` as ``message``. Fields in number order; proto3 defaults are written when present in the dict
    and numbers of repeated fields are packed."""
    fields = {f.name: f for f in tables[message]}
    unknown = value.keys() - fields.keys()
    if unknown:
        raise WireError(f"{message} has no field {sorted(unknown)[0]!r}")
    parts: list[bytes] = []
    for field in tables[message]:
        item = value.get(field.name)
        if item is None:
            continue
        if field.map:
            entry = (Field(1, "key", "str"), Field(2, "value", field.kind))
            for key, sub in item.items():
                body = b""
                for f, v in zip(entry, (key, sub), strict=True):
                    wire, data = _scalar(f, v, tables)
                    body += _key(f.number, wire) + (varint(len(data)) if wire == LENGTH else b"") + data
                parts.append(_key(field.number, LENGTH) + varint(len(body)) + body)
            continue
        if field.repeated and field.kind in ("int", "uint", "bool", "float"):
            body = b"".join(_scalar(field, v, tables)[1] for v in item)
            if body:
                parts.append(_key(field.number, LENGTH) + varint(len(body)) + body)
            continue
        for v in item if field.repeated else (item,):
            wire, data = _scalar(field, v, tables)
            parts.append(_key(field.number, wire) + (varint(len(data)) if wire == LENGTH else b"") + data)
    return b"".join(parts)


class _Decoder:
    def __init__(self, data: bytes | memoryview, tables: Table) -> None:
        self.data = bytes(data)
        self.tables = {name: {f.number: f for f in fields} for name, fields in tables.items()}
        self.values = 0

    def varint(self, pos: int, end: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            if pos >= end:
                raise WireError(f"a number runs past its message at byte {pos}")
            byte = self.data[pos]
            pos += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFFFFFFFFFFFFFF, pos
            shift += 7
            if shift > 63:
                raise WireError(f"a number is longer than ten bytes at byte {pos}")

    def payload(self, wire: int, pos: int, end: int) -> tuple[int, int, int]:
        """(start, end, next position) of a field's bytes."""
        if wire == VARINT:
            _, after = self.varint(pos, end)
            return pos, after, after
        if wire == LENGTH:
            size, start = self.varint(pos, end)
        elif wire in (FIXED64, FIXED32):
            size, start = (8 if wire == FIXED64 else 4), pos
        else:
            raise WireError(f"wire type {wire} at byte {pos} is not used in proto3")
        if size > end - start:
            raise WireError(f"a field of {size} bytes at byte {start} runs past its message, which ends at {end}")
        return start, start + size, start + size

    def number(self, kind: str, wire: int, pos: int, end: int) -> tuple[Any, int]:
        if kind == "float":
            if wire == FIXED32 and end - pos >= 4:
                return struct.unpack_from("<f", self.data, pos)[0], pos + 4
            raise WireError(f"a float is truncated at byte {pos}")
        raw, pos = self.varint(pos, end)
        if kind == "bool":
            return bool(raw), pos
        return (raw - (1 << 64) if kind == "int" and raw >> 63 else raw), pos

    def message(self, name: str, pos: int, end: int, depth: int = 0) -> dict[str, Any]:
        if depth > MAX_DEPTH:
            raise WireError(f"messages nest deeper than {MAX_DEPTH}")
        table = self.tables[name]
        out: dict[str, Any] = {}
        while pos < end:
            key, pos = self.varint(pos, end)
            field, wire = table.get(key >> 3), key & 7
            start, stop, after = self.payload(wire, pos, end)
            self.values += 1
            if self.values > MAX_VALUES:
                raise WireError(f"more than {MAX_VALUES} values")
            if field is not None:
                self.store(out, field, wire, start, stop, depth)
            pos = after
        return out

    def store(self, out: dict[str, Any], field: Field, wire: int, start: int, stop: int, depth: int) -> None:
        scalar = field.kind in ("int", "uint", "bool", "float")
        if field.map:
            if wire != LENGTH:
                raise WireError(f"map field {field.name} has wire type {wire}")
            key, value = self.entry(field, start, stop, depth)
            out.setdefault(field.name, {})[key] = value
        elif scalar and field.repeated and wire == LENGTH:  # packed
            items = out.setdefault(field.name, [])
            inner = FIXED32 if field.kind == "float" else VARINT
            while start < stop:
                value, start = self.number(field.kind, inner, start, stop)
                items.append(value)
                self.values += 1
        else:
            value = self.single(field, wire, start, stop, depth)
            if field.repeated:
                out.setdefault(field.name, []).append(value)
            else:
                out[field.name] = value

    def single(self, field: Field, wire: int, start: int, stop: int, depth: int) -> Any:
        if field.kind in ("int", "uint", "bool", "float"):
            if wire != (FIXED32 if field.kind == "float" else VARINT):
                raise WireError(f"field {field.name} has wire type {wire}")
            return self.number(field.kind, wire, start, stop)[0]
        if wire != LENGTH:
            raise WireError(f"field {field.name} has wire type {wire}")
        if field.kind == "bytes":
            return self.data[start:stop]
        if field.kind == "str":
            return self.data[start:stop].decode(errors="surrogateescape")
        return self.message(field.kind, start, stop, depth + 1)

    def entry(self, field: Field, pos: int, end: int, depth: int) -> tuple[str, Any]:
        key: str = ""
        value: Any = None
        while pos < end:
            tag, pos = self.varint(pos, end)
            start, stop, after = self.payload(tag & 7, pos, end)
            if tag >> 3 == 1:
                key = self.data[start:stop].decode(errors="surrogateescape")
            elif tag >> 3 == 2:
                value = self.single(field, tag & 7, start, stop, depth)
            pos = after
        if value is None:
            value = {} if field.kind not in ("int", "uint", "bool", "float", "bytes", "str") else 0
        return key, value


def decode(message: str, data: bytes | memoryview, tables: Table) -> dict[str, Any]:
    """The dict that `encode` takes. Raises `WireError` on malformed bytes."""
    decoder = _Decoder(data, tables)
    return decoder.message(message, 0, len(decoder.data))
