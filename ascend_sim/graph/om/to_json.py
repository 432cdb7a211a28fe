"""A ModelDef as JSON (``atc --mode=1``): field names of the schema, maps as lists of key and value, bytes as text."""

from __future__ import annotations

import base64
from typing import Any

from ascend_sim.graph.om.proto import PROTO_DTYPE_NAMES, TABLES

_DTYPE_LABELS = {"float32": "DT_FLOAT", "float64": "DT_DOUBLE", "bfloat16": "DT_BF16"}


def _dtype(number: int) -> str:
    name = PROTO_DTYPE_NAMES.get(number, "undefined")
    return _DTYPE_LABELS.get(name, "DT_" + name.upper())


def _bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return base64.b64encode(value).decode()


def _value(message: str, name: str, kind: str, value: Any) -> Any:
    if kind == "bytes":
        return _bytes(value)
    if kind == "str":
        return value.encode("utf-8", "surrogateescape").decode(errors="replace")
    if kind in ("int", "uint", "bool", "float"):
        return _dtype(value) if (message, name) == ("TensorDescriptor", "dtype") else value
    return model_json(value, kind)


def model_json(value: dict[str, Any], message: str = "ModelDef") -> dict[str, Any]:
    """JSON values of a decoded message."""
    out: dict[str, Any] = {}
    for field in TABLES[message]:
        item = value.get(field.name)
        if item is None:
            continue
        if field.map:
            out[field.name] = [
                {"key": key, "value": _value(message, field.name, field.kind, sub)} for key, sub in item.items()
            ]
        elif field.repeated:
            out[field.name] = [_value(message, field.name, field.kind, sub) for sub in item]
        else:
            out[field.name] = _value(message, field.name, field.kind, item)
    return out
