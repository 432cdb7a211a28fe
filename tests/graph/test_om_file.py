"""The .om container: read by an independent reader, and never trusted."""

from __future__ import annotations

import random
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graph_models import make_model, randn
from onnx import helper

from ascend_sim.graph.compile import compile_model
from ascend_sim.graph.errors import OmError
from ascend_sim.graph.executor import LoadedModel
from ascend_sim.graph.om import attr_names, container, read_om
from ascend_sim.graph.om.foreign import guess
from ascend_sim.graph.om.inout import InOut, IoDesc, read_inout, write_inout
from ascend_sim.graph.om.proto import TABLES
from ascend_sim.graph.om.wire import decode, encode
from ascend_sim.graph.options import CompileOptions
from ascend_sim.soc import load_soc

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


def _reordered(om: bytes, source: random.Random) -> bytes:
    """The partitions in another order, with a table that fits them."""
    (count,) = struct.unpack_from("<I", om, 256)
    entries = [struct.unpack_from("<IIQQ", om, 264 + 24 * i) for i in range(count)]
    parts, at = [], 264 + 24 * count
    for kind, _, _, size in entries:
        parts.append((kind, om[at : at + size]))
        at += size
    source.shuffle(parts)
    return container.write_container(container.read_header(memoryview(om))[0], parts)


def _damaged(om: bytes, source: random.Random) -> bytes:
    data = bytearray(om)
    how = source.randrange(6)
    if how == 0:
        del data[source.randrange(len(data)) :]
    elif how == 1:
        data[source.randrange(len(data))] ^= 1 << source.randrange(8)
    elif how == 2:
        a, b = sorted(source.sample(range(len(data)), 2))
        part = data[a:b]
        data[a:b] = part[len(part) // 2 :] + part[: len(part) // 2]
    elif how == 3:
        at = source.randrange(len(data))
        data[at : at + 4] = source.randbytes(4)
    elif how == 4:  # the tables, which everything is found by
        at = source.randrange(256, 264 + 24 * 6)
        data[at] = source.randrange(256)
    else:
        data = bytearray(_reordered(om, source))
    return bytes(data)


def _fuzz(om: bytes, count: int) -> None:
    source = random.Random(7)
    for _ in range(count):
        data = _damaged(om, source)
        if data != om:
            _attempt(data)


def test_damaged_files_give_an_error(om: bytes) -> None:
    _fuzz(om, 400)


_BUDGET = """
import random, resource, sys, time
sys.path.insert(0, {tests!r})
from test_om_file import _damaged, _foreign
from ascend_sim.graph.atc_info import model_info
from ascend_sim.graph.errors import OmError
from ascend_sim.graph.executor import LoadedModel
from ascend_sim.graph.om.to_json import model_json
om, theirs = open({path!r}, "rb").read(), _foreign()
LoadedModel.from_bytes(theirs).calls  # imports
source, errors, slowest = random.Random(7), 0, 0.0
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
for i in range({count}):
    foreign = i % 5 == 0  # no checksum guards these: they may load, and then everything about them must be said
    data = _damaged(theirs if foreign else om, source)
    started = time.perf_counter()
    try:
        model = LoadedModel.from_bytes(data)
        assert foreign or data == om, "a damaged file was loaded"
        model_info(model.source), model_json(model.source.model), model.calls
    except OmError:
        errors += 1
    slowest = max(slowest, time.perf_counter() - started)
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(errors, slowest, int(peak.split()[1]) / 1024)
"""


@pytest.mark.slow
def test_many_damaged_files_give_an_error(om: bytes, tmp_path: Path) -> None:
    """5,000 files: at most one second each, and 500 MB for all of them."""
    (tmp_path / "m.om").write_bytes(om)
    code = _BUDGET.format(tests=str(Path(__file__).parent), path=str(tmp_path / "m.om"), count=5000)
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=1200)
    assert out.returncode == 0, out.stderr
    errors, slowest, megabytes = map(float, out.stdout.split())
    print(f"{errors:.0f} errors, slowest {slowest:.3f} s, {megabytes:.0f} MB")
    assert errors > 4000 and slowest <= 1 and megabytes <= 500


def test_model_of_another_chip_is_refused(om: bytes) -> None:
    model = LoadedModel.from_bytes(om)
    model.check_soc(load_soc("Ascend310P3"))
    with pytest.raises(OmError, match=r"E10001.*Ascend310P3.*Ascend910B4"):
        model.check_soc(load_soc("Ascend910B4"))


def _tensor(shape: list[int], layout: str = "ND", origin: list[int] | None = None, dtype: int = 1) -> dict[str, Any]:
    attr: dict[str, Any] = {"origin_format": {"s": b"NCHW"}}
    if origin:
        attr["origin_shape"] = {"list": {"i": origin, "val_type": 2}}
    return {"dtype": dtype, "shape": {"dim": shape}, "layout": layout, "attr": attr}


def _foreign() -> bytes:
    """A model as another ATC would write it: genuine layout, short attribute names, a fused convolution that has lost
    its strides, no executable of ours."""
    x = _tensor([1, 1, 16, 16, 16], "NC1HWC0", [1, 3, 16, 16], 2)
    y = _tensor([1, 2, 8, 8, 16], "NC1HWC0", [1, 20, 8, 8], 2)
    w, bias = _tensor([9, 2, 16, 16], "FRACTAL_Z", [20, 3, 3, 3], 2), _tensor([20], dtype=2)
    value = {"t": {"desc": {**bias, "data_offset": 512, "weight_size": 40}}}
    ops = [
        {"name": "x", "type": "Data", "output_desc": [x]},
        {"name": "w", "type": "Const", "output_desc": [w]},
        {"name": "b", "type": "Const", "attr": {"value": value}, "output_desc": [bias]},
        {
            "name": "c", "type": "Conv2D", "input": ["x:0", "w:0", "b:0"], "input_desc": [x, w, bias],
            "output_desc": [y], "attr": {"_pattern": {"s": b"Convolution"}, "names": {"list": {"s": [b"a", b"b"],
            "val_type": 1}}},
        },
        {"name": "f", "type": "AutomaticBufferFusionOp", "input": ["c:0"], "input_desc": [y], "output_desc": [y]},
        {"name": "out", "type": "NetOutput", "input": ["f:0"], "input_desc": [y]},
    ]  # fmt: skip
    model = {
        "name": "f",
        "graph": [{"name": "g", "op": ops}],
        "attr": {"soc_version": {"s": b"Ascend310B4"}, "memory_size": {"i": 4096}, "weight_size": {"i": 1024}},
    }
    model = decode("ModelDef", encode("ModelDef", model, TABLES), TABLES)  # no two parts are one object
    attr_names.compress(model)
    io = InOut((IoDesc("x", 16, (1, 4), "ND", "float32"),), (IoDesc("r:0:y", 16, (1, 4), "ND", "float32"),))
    parts = [(8, write_inout(io)), (0, encode("ModelDef", model, TABLES)), (1, bytes(1024)), (3, b"\x7fELF" * 8)]
    return container.write_container(container.Header("f", platform_version="1.11.z.0"), parts)


def test_foreign_model_is_described_but_not_run() -> None:
    model = LoadedModel.from_bytes(_foreign())
    assert not model.executable
    assert model.soc_version == "Ascend310B4"
    assert (model.inputs[0].name, model.inputs[0].dims, model.work_size, model.weight_size) == ("x", (1, 4), 4096, 1024)
    with pytest.raises(OmError, match="another ATC"):
        model.run_values([np.zeros((1, 4), np.float32)])


def test_foreign_model_is_timed_operator_by_operator() -> None:
    chip = load_soc("Ascend310B4")
    timed = list(LoadedModel.from_bytes(_foreign()).operator_timings(chip))
    assert [(node.name, node.call.type) for node, _ in timed] == [("c", "Conv2D"), ("f", "Relu")]
    assert all(t.estimated and t.task_ps > 0 and t.reason for _, t in timed)
    conv = timed[0][0].call
    assert (conv.attr("strides"), conv.attr("pads"), conv.attr("groups")) == ((1, 1, 2, 2), (1, 1, 1, 1), 1)
    assert conv.inputs[2] is not None and conv.inputs[2].shape == (20,)


@pytest.mark.parametrize(
    ("large", "small", "kernel", "expected"),
    [(224, 112, 7, (2, 3)), (56, 56, 3, (1, 1)), (56, 56, 1, (1, 0)), (55, 27, 3, (2, 0)), (224, 55, 11, (4, 2))],
)
def test_stride_and_padding_follow_from_sizes(large: int, small: int, kernel: int, expected: tuple[int, int]) -> None:
    stride, pad = guess(large, small, kernel)
    assert (large + 2 * pad - kernel) // stride + 1 == small
    assert (stride, pad) == expected or stride == expected[0]


def test_short_attribute_names_are_read() -> None:
    """Read by hand: names begin with a zero byte; digits of base 127, least first, each plus one."""
    model = _fields(_partitions(_foreign())[0])
    attrs = {e[1][0]: _fields(e[2][0]) for e in map(_fields, model[11])}
    names = [n.decode() for n in _fields(attrs[b"attr_name_enum"][1][0])[2]]
    values = [v.decode() for v in _fields(attrs[b"attr_value_enum"][1][0])[2]]
    assert attrs[b"om_compress_version"][3] == [1]
    conv = next(op for op in map(_fields, _fields(model[7][0])[6]) if op[2] == [b"Conv2D"])
    found = {e[1][0]: _fields(e[2][0]) for e in map(_fields, conv[10])}
    key = b"\0" + bytes([names.index("_pattern") + 1])
    assert values[found[key].get(3, [0])[0]] == "Convolution"
    om = LoadedModel.from_bytes(_foreign()).source
    attr = next(op for op in om.model["graph"][0]["op"] if op["type"] == "Conv2D")["attr"]
    assert attr == {"_pattern": {"s": b"Convolution"}, "names": {"list": {"s": [b"a", b"b"], "val_type": 1}}}
    assert [attr_names.index_of(attr_names.short_name(i)) for i in (0, 126, 127, 16128, 16129)] == [
        0, 126, 127, 16128, 16129
    ]  # fmt: skip


def test_short_attribute_names_are_written(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    model = make_model(nodes, {"x": randn(2, 8)}, ["y"], {"w": randn(8, 4)}).SerializeToString()
    options = [CompileOptions(compress_attrs=short) for short in (False, True)]
    plain, short = (read_om(compile_model(model, "Ascend310P3", o)) for o in options)
    assert short.sizes["MODEL_DEF"] < plain.sizes["MODEL_DEF"]
    assert short.model == plain.model


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
