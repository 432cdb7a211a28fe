"""The wire codec against google.protobuf built from the same field numbers."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_sim.graph.om.proto import TABLES
from ascend_sim.graph.om.wire import WireError, decode, encode

_KINDS = {"int": 3, "uint": 4, "bool": 8, "float": 2, "bytes": 12, "str": 9}  # FieldDescriptorProto.Type


def _classes() -> dict[str, Any]:
    """Message classes of protobuf's own implementation for the tables."""
    file = descriptor_pb2.FileDescriptorProto(name="om_test.proto", package="t", syntax="proto3")
    for name, fields in TABLES.items():
        message = file.message_type.add(name=name)
        for field in fields:
            target = message.field.add(name=field.name, number=field.number)
            target.label = 3 if field.repeated or field.map else 1
            if field.map:
                entry = message.nested_type.add(name="".join(p.title() for p in field.name.split("_")) + "Entry")
                entry.options.map_entry = True
                entry.field.add(name="key", number=1, type=9, label=1)
                value = entry.field.add(name="value", number=2, label=1)
                _type(value, field.kind)
                target.type, target.type_name = 11, f".t.{name}.{entry.name}"
            else:
                _type(target, field.kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"t.{name}")) for name in TABLES}


def _type(target: Any, kind: str) -> None:
    if kind in _KINDS:
        target.type = _KINDS[kind]
    else:
        target.type, target.type_name = 11, f".t.{kind}"


CLASSES = _classes()

_desc = st.fixed_dictionaries(
    {
        "name": st.text(max_size=8),
        "dtype": st.integers(1, 41),
        "shape": st.fixed_dictionaries({"dim": st.lists(st.integers(-1, 2**40), min_size=1, max_size=4)}),
        "layout": st.sampled_from(["ND", "NC1HWC0"]),
        "size": st.integers(-(2**62), 2**62),
        "data_offset": st.integers(0, 2**50),
        "attr": st.dictionaries(
            st.text(min_size=1, max_size=4),
            st.fixed_dictionaries({"i": st.integers(-(2**63), 2**63 - 1)}),
            min_size=1,
            max_size=2,
        ),
    }
)


@settings(max_examples=60, deadline=None)
@given(st.lists(_desc, min_size=1, max_size=3), st.lists(st.integers(-5, 2**60), min_size=1, max_size=5))
def test_protobuf_reads_what_we_write_and_back(descs: list[dict[str, Any]], offsets: list[int]) -> None:
    op = {"name": "a", "type": "Add", "input": ["x:0", ""], "output_desc": descs, "output_i": offsets}
    model = {"name": "m", "graph": [{"name": "g", "op": [op]}], "attr": {"f": {"f": 0.5}, "s": {"s": b"\0x"}}}
    data = encode("ModelDef", model, TABLES)
    parsed = CLASSES["ModelDef"]()
    parsed.ParseFromString(data)
    seen = parsed.graph[0].op[0]
    assert list(seen.output_i) == offsets and list(seen.input) == ["x:0", ""]
    assert [list(d.shape.dim) for d in seen.output_desc] == [d["shape"]["dim"] for d in descs]
    assert [d.attr[k].i for d, s in zip(seen.output_desc, descs, strict=True) for k in s["attr"]] == [
        v["i"] for s in descs for v in s["attr"].values()
    ]
    assert parsed.attr["f"].f == 0.5 and parsed.attr["s"].s == b"\0x"
    again = decode("ModelDef", parsed.SerializeToString(), TABLES)  # protobuf's bytes, our reader
    assert again["graph"][0]["op"][0]["output_i"] == offsets
    assert again["attr"]["s"]["s"] == b"\0x"
    assert [d.get("name", "") for d in again["graph"][0]["op"][0]["output_desc"]] == [d["name"] for d in descs]


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_arbitrary_bytes_decode_or_raise(data: bytes) -> None:
    with contextlib.suppress(WireError):
        assert isinstance(decode("ModelDef", data, TABLES), dict)


def test_deep_nesting_is_refused() -> None:
    data = b""
    for _ in range(500):  # AttrDef.g -> GraphDef.attr -> ...
        data = b"\x12" + _varint(len(data)) + data
        data = b"\x5a" + _varint(len(data)) + data
        data = b"\x6a" + _varint(len(data)) + data
    with pytest.raises(WireError, match="nest"):
        decode("AttrDef", data, TABLES)


def _varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])
