"""Short attribute names in a ModelDef (--enable_attr_compression): every name, and every text that is a value, stands
once in a list of the model; operators and tensors refer to it by index.

A short name is a zero byte and the index in base 127, least digit first, every digit plus one. Source: public sources
of hicann/ge (graph_metadef enum_attr_utils, model_compress_manager).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ascend_sim.graph.om.proto import LIST_BOOL, LIST_INT, LIST_STRING

Message = dict[str, Any]
BASE = 127
VERSION, NAMES, VALUES, TEXTS = "om_compress_version", "attr_name_enum", "attr_value_enum", "attrs_use_string_value"


def short_name(index: int) -> str:
    digits = [index % BASE + 1]
    while index >= BASE:
        index //= BASE
        digits.append(index % BASE + 1)
    return "\0" + "".join(map(chr, digits))


def index_of(name: str) -> int:
    """The index that a short name stands for. Raises ValueError for a digit outside 1..127 or an empty number."""
    digits = [ord(c) for c in name[1:]]
    if not digits or len(digits) > 4 or not all(1 <= d <= BASE for d in digits):
        raise ValueError(f"short attribute name {name!r}")
    return sum((digit - 1) * BASE**place for place, digit in enumerate(digits))


def _holders(model: Message) -> Iterator[Message]:
    """Everything whose attributes are shortened: operators and the descriptions of their tensors."""
    for graph in model.get("graph", []):
        for op in graph.get("op", []):
            yield op
            yield from op.get("input_desc", [])
            yield from op.get("output_desc", [])


def compress(model: Message) -> None:
    """Shorten the attributes of a ModelDef in place."""
    names: dict[str, int] = {}
    texts: list[bool] = []
    values: dict[bytes, int] = {}

    def number(text: bytes) -> int:
        return values.setdefault(bytes(text), len(values))

    for holder in _holders(model):
        attrs: Message = {}
        for name, value in holder.get("attr", {}).items():
            text = "s" in value or value.get("list", {}).get("val_type") == LIST_STRING
            if name not in names:
                names[name] = len(names)
                texts.append(text)
            if texts[names[name]] != text:  # one name, values of two kinds: left as it is
                attrs[name] = value
                continue
            coded = value
            if "s" in value:
                coded = {"i": number(value["s"])}
            elif text:
                coded = {"list": {"i": [number(s) for s in value["list"].get("s", [])], "val_type": LIST_INT}}
            attrs[short_name(names[name])] = coded
        if attrs:
            holder["attr"] = attrs
    model.setdefault("attr", {}).update({
        VERSION: {"i": 1},
        NAMES: {"list": {"s": [n.encode() for n in names], "val_type": LIST_STRING}},
        VALUES: {"list": {"s": list(values), "val_type": LIST_STRING}},
        TEXTS: {"list": {"b": texts, "val_type": LIST_BOOL}},
    })  # fmt: skip


def expand(model: Message) -> None:
    """Undo `compress` in place; a model with full names stays as it is. Raises ValueError for an index out of range."""
    attr = model.get("attr", {})
    if not attr.get(VERSION, {}).get("i"):
        return
    names = [bytes(n).decode(errors="replace") for n in attr.get(NAMES, {}).get("list", {}).get("s", [])]
    values = [bytes(v) for v in attr.get(VALUES, {}).get("list", {}).get("s", [])]
    texts = attr.get(TEXTS, {}).get("list", {}).get("b", [])
    if len(texts) != len(names):
        raise ValueError(f"{len(names)} attribute names and {len(texts)} notes on their values")

    def text(index: int) -> bytes:
        if not 0 <= index < len(values):
            raise ValueError(f"attribute value {index} of {len(values)}")
        return values[index]

    for holder in _holders(model):
        attrs: Message = {}
        for name, value in holder.get("attr", {}).items():
            if not name.startswith("\0"):
                attrs[name] = value
                continue
            index = index_of(name)
            if index >= len(names):
                raise ValueError(f"attribute name {index} of {len(names)}")
            if not texts[index]:
                attrs[names[index]] = value
            elif "list" in value:
                found = [text(i) for i in value["list"].get("i", [])]
                attrs[names[index]] = {"list": {"s": found, "val_type": LIST_STRING}}
            else:
                attrs[names[index]] = {"s": text(value.get("i", 0))}
        if attrs:
            holder["attr"] = attrs
    for name in (VERSION, NAMES, VALUES, TEXTS):
        attr.pop(name, None)
