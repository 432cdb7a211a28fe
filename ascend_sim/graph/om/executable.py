"""The private partition: what this product needs to run a model, and checksums over the whole file.

Layout: magic ``ASIM``, version, CRC-32 of everything else in the file, CRC-32 of the JSON text, its length, the
text. The JSON holds graphs (operators with all their attributes, tensor descriptions, where each lives) and which
part of the weights partition each constant is. Kernels are not stored: they are traced when a model is first run.
"""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any

from ascend_sim.graph.errors import LOAD_MODEL_FAILED, MODEL_PARTITION_FAILED, OmError
from ascend_sim.graph.ir import Graph, Node
from ascend_sim.graph.plan import MemoryPlan, Place
from ascend_sim.ops.dtypes import GE_NUMBER
from ascend_sim.ops.schema import TensorSpec

_HEAD = struct.Struct("<4sIIIQ")
MAGIC = b"ASIM"
VERSION = 1


def pack(body: dict[str, Any]) -> bytes:
    """The partition with an empty file checksum (see `seal`)."""
    text = json.dumps(body, separators=(",", ":"), allow_nan=True).encode()
    return _HEAD.pack(MAGIC, VERSION, 0, zlib.crc32(text), len(text)) + text


def seal(head: bytes, partition: bytes) -> bytes:
    """``head`` is all of the file in front of the partition, which must be its last."""
    magic, version, _, text_crc, size = _HEAD.unpack_from(partition)
    return _HEAD.pack(magic, version, zlib.crc32(head), text_crc, size) + partition[_HEAD.size :]


def unpack(whole: memoryview, partition: memoryview) -> dict[str, Any]:
    """The JSON body after checking both sums. Raises `OmError`."""
    if len(partition) < _HEAD.size:
        raise OmError("the executable partition is truncated", MODEL_PARTITION_FAILED)
    magic, version, file_crc, text_crc, size = _HEAD.unpack_from(partition)
    if magic != MAGIC or version != VERSION or size != len(partition) - _HEAD.size:
        raise OmError(
            f"the executable partition begins with {magic!r}, version {version}, {size} bytes; expected {MAGIC!r}, "
            f"version {VERSION}, {len(partition) - _HEAD.size} bytes",
            MODEL_PARTITION_FAILED,
        )
    text = partition[_HEAD.size :]
    if zlib.crc32(text) != text_crc:
        raise OmError("the executable partition is corrupt: its checksum does not match", LOAD_MODEL_FAILED)
    if zlib.crc32(whole[: len(whole) - len(partition)]) != file_crc:
        raise OmError("the model file is corrupt: its checksum does not match", LOAD_MODEL_FAILED)
    body = json.loads(bytes(text))
    if not isinstance(body, dict):
        raise OmError("the executable partition does not hold an object", MODEL_PARTITION_FAILED)
    return body


def _dump_spec(spec: TensorSpec) -> list[Any]:
    out: list[Any] = [list(spec.shape), spec.dtype, spec.format]
    if spec.origin_shape is not None:
        out += [list(spec.origin_shape), spec.origin_format]
    return out


def _load_spec(raw: list[Any], const: bytes | None = None) -> TensorSpec:
    shape, dtype, fmt, *origin = raw
    if dtype not in GE_NUMBER:
        raise ValueError(f"unknown data type {dtype!r}")
    origin_shape = tuple(int(v) for v in origin[0]) if origin else None
    return TensorSpec(tuple(int(v) for v in shape), dtype, fmt, origin_shape, origin[1] if origin else None, const)


def dump_graph(graph: Graph, plan: MemoryPlan, kinds: dict[str, int]) -> dict[str, Any]:
    """A compiled graph as JSON values; constants only by their place in the weights partition."""
    constants = {}
    for name in graph.constants:
        if name in plan.places:
            place = plan.places[name]
            constants[name] = [place.value, place.nbytes, kinds.get(name, 1)]
    return {
        "name": graph.name,
        "inputs": graph.inputs,
        "outputs": graph.outputs,
        "output_names": graph.attrs.get("output_names", graph.outputs),
        "attrs": {k: v for k, v in graph.attrs.items() if isinstance(v, str | int | float | bool)},
        "nodes": [[n.name, n.type, n.inputs, n.outputs, n.attrs, list(n.origin)] for n in graph.nodes],
        "specs": {name: _dump_spec(spec) for name, spec in graph.specs.items()},
        "constants": constants,
        "places": {name: [p.region, p.value, p.nbytes] for name, p in plan.places.items()},
        "work_size": plan.work_size,
    }


def load_graph(raw: dict[str, Any]) -> tuple[Graph, MemoryPlan, dict[str, tuple[int, int, int]]]:
    """(graph without constant values, plan, constant -> (offset, bytes, filter kind))."""
    try:
        graph = Graph(
            raw["name"],
            [Node(n, t, list(i), list(o), dict(a), tuple(origin)) for n, t, i, o, a, origin in raw["nodes"]],
            list(raw["inputs"]),
            list(raw["outputs"]),
            {name: _load_spec(spec) for name, spec in raw["specs"].items()},
            {},
            {**raw["attrs"], "output_names": list(raw["output_names"])},
        )
        plan = MemoryPlan({name: Place(*place) for name, place in raw["places"].items()}, int(raw["work_size"]))
        constants = {name: (int(a), int(b), int(c)) for name, (a, b, c) in raw["constants"].items()}
    except (KeyError, TypeError, ValueError) as error:
        raise OmError(f"the executable partition is malformed: {error!r}", MODEL_PARTITION_FAILED) from None
    return graph, plan, constants
