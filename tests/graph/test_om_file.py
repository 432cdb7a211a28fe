"""The .om container: read by an independent reader, and never trusted."""

from __future__ import annotations

import random
import struct
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest
from graph_models import make_model, randn
from onnx import helper

from ascend_sim.graph.compile import compile_model
from ascend_sim.graph.errors import OmError
from ascend_sim.graph.executor import LoadedModel
from ascend_sim.graph.om import container, read_om
from ascend_sim.graph.om.inout import InOut, IoDesc, read_inout, write_inout
from ascend_sim.graph.om.proto import TABLES
from ascend_sim.graph.om.wire import encode

W = randn(20, 13, 3, 3, seed=1)
DW = randn(20, 1, 3, 3, seed=2)


@pytest.fixture(scope="module")
def om() -> bytes:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1], name="first"),
        helper.make_node("Conv", ["a", "dw"], ["b"], pads=[1, 1, 1, 1], group=20, name="second"),
        helper.make_node("Relu", ["b"], ["y"], name="act"),
    ]
    model = make_model(nodes, {"x": randn(1, 13, 8, 8)}, ["y"], {"w": W, "dw": DW})
    return compile_model(model.SerializeToString(), "Ascend310P3")


# --- an independent reader: public layout only, no code of the product ---


def _varint(data: bytes, pos: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, pos
        shift += 7


def _fields(data: bytes) -> dict[int, list[Any]]:
    out: dict[int, list[Any]] = {}
    pos = 0
    while pos < len(data):
        key, pos = _varint(data, pos)
        if key & 7 == 0:
            value, pos = _varint(data, pos)
        elif key & 7 == 5:
            value, pos = struct.unpack_from("<f", data, pos)[0], pos + 4
        else:
            size, pos = _varint(data, pos)
            value, pos = data[pos : pos + size], pos + size
        out.setdefault(key >> 3, []).append(value)
    return out


def _packed(data: bytes) -> list[int]:
    out, pos = [], 0
    while pos < len(data):
        value, pos = _varint(data, pos)
        out.append(value)
    return out


def _partitions(data: bytes) -> dict[int, bytes]:
    magic, head = struct.unpack_from("<4sI", data)
    (model_length,) = struct.unpack_from("<Q", data, 184)
    assert (magic, head, model_length) == (b"IMOD", 256, len(data) - 256)
    (count,) = struct.unpack_from("<I", data, 256)
    start = 264 + 24 * count
    out = {}
    for i in range(count):
        kind, _, offset, size = struct.unpack_from("<IIQQ", data, 264 + 24 * i)
        out[kind] = data[start + offset : start + offset + size]
    return out


def _constants(data: bytes) -> dict[str, tuple[list[int], int, bytes]]:
    """Shape, proto dtype and bytes of every Const."""
    parts = _partitions(data)
    graph = _fields(_fields(parts[0])[7][0])
    out = {}
    for op in map(_fields, graph[6]):
        if op[2] != [b"Const"]:
            continue
        attrs = {e[1][0]: _fields(e[2][0]) for e in map(_fields, op[10])}
        desc = _fields(_fields(attrs[b"value"][12][0])[1][0])
        offset, size = desc.get(18, [0])[0], desc[11][0]
        assert offset % 512 == 0
        shape = _packed(_fields(desc[3][0])[1][0])
        out[op[1][0].decode()] = (shape, desc[2][0], parts[1][offset : offset + size])
    return out


def test_weights_are_stored_like_atc_stores_them(om: bytes) -> None:
    """FRACTAL_Z [C1*Kh*Kw, N1, 16, 16] in fp16, decoded here by index arithmetic."""
    stored = [
        (s, np.frombuffer(b, np.float16).reshape(s)) for s, t, b in _constants(om).values() if t == 2 and len(s) == 4
    ]
    (conv,) = [a for s, a in stored if s == [9, 2, 16, 16]]
    for n, c, kh, kw in [(0, 0, 0, 0), (19, 12, 2, 2), (16, 3, 1, 2), (5, 7, 2, 0)]:
        assert conv[kh * 3 + kw, n // 16, n % 16, c] == np.float16(W[n, c, kh, kw])
    assert not conv[:, 1, 4:].any() and not conv[..., 13:].any()  # padding
    (depthwise,) = [a for s, a in stored if s == [18, 1, 16, 16]]
    assert depthwise[1 * 9 + 4, 0, 3, 3] == np.float16(DW[19, 0, 1, 1])
    assert np.count_nonzero(depthwise) == np.count_nonzero(DW.astype(np.float16))


def test_graph_is_ge_style(om: bytes) -> None:
    graph = _fields(_fields(_partitions(om)[0])[7][0])
    types = [_fields(op)[2][0].decode() for op in graph[6]]
    assert types[0] == "Data" and types[-1] == "NetOutput"
    assert types.count("Cast") == 2 and types.count("TransData") == 2
    assert {"Const", "Conv2D", "DepthwiseConv2D"} <= set(types) and "Relu" not in types
    attrs = {e[1][0]: _fields(e[2][0]) for e in map(_fields, _fields(_partitions(om)[0])[11])}
    assert attrs[b"soc_version"][2] == [b"Ascend310P3"]
    tasks = _fields(_partitions(om)[2])[10]
    assert len(tasks) == sum(t not in ("Data", "Const", "NetOutput", "Reshape") for t in types)


def test_input_and_output_description(om: bytes) -> None:
    data = _partitions(om)[8]
    assert struct.unpack_from("<I", data) == (0,)
    count, nbytes, fmt, dtype, name_len, dims_len, v2_len, range_len = struct.unpack_from("<IQiiIIII", data, 8)
    assert (count, nbytes, fmt, dtype) == (1, 13 * 64 * 4, 0, 0)  # fp32 NCHW
    at = 8 + 36
    assert data[at : at + name_len] == b"x"
    assert struct.unpack_from("<4q", data, at + name_len) == (1, 13, 8, 8)
    assert (dims_len, v2_len, range_len) == (32, 32, 0)
    described = read_om(om).in_out
    assert described.outputs[0].name == "act:0:y" and described.outputs[0].size == 20 * 64 * 4


def test_private_partition_is_outside_the_known_types(om: bytes) -> None:
    kinds = [kind for kind in _partitions(om) if kind > 26]
    assert kinds == [container.SIM_EXECUTABLE]


def test_reader_needs_no_onnx(om: bytes, tmp_path: Any) -> None:
    path = tmp_path / "m.om"
    path.write_bytes(om)
    code = (
        "import sys; sys.modules['onnx'] = None; sys.modules['google.protobuf'] = None\n"
        "from ascend_sim.graph.executor import LoadedModel\n"
        f"m = LoadedModel.from_file({str(path)!r}); import numpy as np\n"
        "print(m.run_values([np.ones((1, 13, 8, 8), np.float32)])[0].shape)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert out.stdout.strip() == "(1, 20, 8, 8)", out.stderr


@pytest.mark.parametrize("keep", [0, 1, 100, 255, 256, 300, 1000, -1])
def test_truncated(om: bytes, keep: int) -> None:
    with pytest.raises(OmError) as error:
        read_om(om[:keep])
    assert error.value.ret == 145006
    assert any(word in str(error.value) for word in ("truncated", "shorter"))


def test_text_and_foreign_bytes() -> None:
    with pytest.raises(OmError, match="text") as error:
        read_om(b"this is not a model\n" * 40)
    assert error.value.ret == 145000
    with pytest.raises(OmError, match="begins with"):
        read_om(b"\x7fELF" + bytes(400))
    with pytest.raises(OmError, match="cannot be read") as error:
        read_om("/nonexistent/model.om")
    assert error.value.ret == 145002


def test_encrypted_is_refused(om: bytes) -> None:
    with pytest.raises(OmError, match="encrypted"):
        read_om(om[:80] + b"\1" + om[81:])


def _attempt(data: bytes) -> None:
    started = time.perf_counter()
    with pytest.raises(OmError):
        LoadedModel.from_bytes(data)
    assert time.perf_counter() - started < 1


def _fuzz(om: bytes, count: int) -> None:
    source = random.Random(7)
    for _ in range(count):
        data = bytearray(om)
        how = source.randrange(4)
        if how == 0:
            del data[source.randrange(len(data)) :]
        elif how == 1:
            data[source.randrange(len(data))] ^= 1 << source.randrange(8)
        elif how == 2:
            a, b = sorted(source.sample(range(len(data)), 2))
            part = data[a:b]
            data[a:b] = part[len(part) // 2 :] + part[: len(part) // 2]
        else:
            at = source.randrange(len(data))
            data[at : at + 4] = source.randbytes(4)
        if bytes(data) != om:
            _attempt(bytes(data))


def test_damaged_files_give_an_error(om: bytes) -> None:
    _fuzz(om, 400)


@pytest.mark.slow
def test_many_damaged_files_give_an_error(om: bytes) -> None:
    _fuzz(om, 5000)


def test_model_of_another_chip_is_refused(om: bytes) -> None:
    from ascend_sim.soc import load_soc

    model = LoadedModel.from_bytes(om)
    model.check_soc(load_soc("Ascend310P3"))
    with pytest.raises(OmError, match=r"E10001.*Ascend310P3.*Ascend910B4"):
        model.check_soc(load_soc("Ascend910B4"))


def _foreign() -> bytes:
    """A model as another ATC would write it: genuine layout, no executable of ours."""
    desc = {"dtype": 1, "shape": {"dim": [1, 4]}, "layout": "ND", "size": 16}
    ops = [
        {"name": "x", "type": "Data", "output_desc": [desc]},
        {"name": "r", "type": "Relu", "input": ["x:0"], "input_desc": [desc], "output_desc": [desc]},
    ]
    model = {
        "name": "f",
        "graph": [{"name": "g", "op": ops}],
        "attr": {"soc_version": {"s": b"Ascend310B4"}, "memory_size": {"i": 4096}, "weight_size": {"i": 512}},
    }
    io = InOut((IoDesc("x", 16, (1, 4), "ND", "float32"),), (IoDesc("r:0:y", 16, (1, 4), "ND", "float32"),))
    parts = [(8, write_inout(io)), (0, encode("ModelDef", model, TABLES)), (1, bytes(512)), (3, b"\x7fELF" * 8)]
    return container.write_container(container.Header("f", platform_version="1.11.z.0"), parts)


def test_foreign_model_is_described_but_not_run() -> None:
    model = LoadedModel.from_bytes(_foreign())
    assert not model.executable
    assert model.soc_version == "Ascend310B4"
    assert (model.inputs[0].name, model.inputs[0].dims, model.work_size, model.weight_size) == ("x", (1, 4), 4096, 512)
    with pytest.raises(OmError, match="another ATC"):
        model.run_values([np.zeros((1, 4), np.float32)])


def test_old_table_form_is_read() -> None:
    """Files whose header carries the 32-bit length have 12-byte table entries."""
    io = write_inout(InOut((IoDesc("x", 16, (1, 4), "ND", "float32"),), ()))
    model = encode("ModelDef", {"name": "old"}, TABLES)
    table = struct.pack("<IIIIIII", 2, 8, 0, len(io), 0, len(io), len(model))
    payload = table + io + model
    header = bytearray(container.pack_header(container.Header("old"), 0))
    struct.pack_into("<I", header, 76, len(payload))
    assert read_om(bytes(header) + payload).in_out.inputs[0].name == "x"


def test_inout_round_trip() -> None:
    io = InOut((IoDesc("a", 8, (-1, 2), "ND", "int32", (-1, 2), ((1, 4), (2, 2))),), (), (1, 2, 4))
    assert read_inout(memoryview(write_inout(io))) == io


def test_extents_stay_inside_the_weights(om: bytes) -> None:
    model = LoadedModel.from_bytes(om)
    places = [p for p in model._variants[0].plan.places.values() if p.region == "weight"]
    assert places and max(p.value + p.nbytes for p in places) <= model.weight_size
