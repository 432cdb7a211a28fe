"""Attributes of a decoded protobuf message as plain Python values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ascend_sim.graph.om.proto import PROTO_DTYPE_NAMES


def value(message: Mapping[str, Any]) -> Any:
    """The value of an AttrDef: int, float, bool, str, list of them, or a dict (NamedAttrs). Absent numbers are 0, as in
    proto3; tensors and graphs stay messages."""
    for key in ("i", "f", "b"):
        if key in message:
            return message[key]
    if "s" in message:
        return bytes(message["s"]).decode(errors="replace")
    if "dt" in message:
        return PROTO_DTYPE_NAMES.get(message["dt"], message["dt"])
    if "list" in message:
        return _items(message["list"])
    if "list_list_int" in message:
        return [list(part.get("list_i", [])) for part in message["list_list_int"].get("list_list_i", [])]
    if "func" in message:
        return attributes(message["func"].get("attr", {}))
    return next(iter(message.values()), 0)


def _items(message: Mapping[str, Any]) -> list[Any]:
    for key in ("i", "f", "b"):
        if message.get(key):
            return list(message[key])
    if message.get("s"):
        return [bytes(s).decode(errors="replace") for s in message["s"]]
    if message.get("dt"):
        return [PROTO_DTYPE_NAMES.get(n, n) for n in message["dt"]]
    return []


def attributes(messages: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """All attributes of an operator by name."""
    return {key: value(message) for key, message in messages.items()}
