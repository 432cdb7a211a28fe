"""Loading an .om: description of any, and for those made here the graph and its constants."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ascend_sim.graph.errors import (
    MODEL_PARTITION_FAILED,
    PATH_INVALID,
    UNSUPPORTED,
    WEIGHT_PARTITION_FAILED,
    OmError,
)
from ascend_sim.graph.evaluate import constant_spec
from ascend_sim.graph.ir import Graph
from ascend_sim.graph.om import attr_names, container, executable
from ascend_sim.graph.om.inout import InOut, read_inout
from ascend_sim.graph.om.proto import TABLES
from ascend_sim.graph.om.wire import WireError, decode
from ascend_sim.graph.plan import MemoryPlan
from ascend_sim.graph.storage import from_storage

_WITHOUT_GRAPH = {**TABLES, "ModelDef": tuple(field for field in TABLES["ModelDef"] if field.name != "graph")}
SOURCE_LIMIT = 1 << 31  # protobuf messages are smaller


@dataclass
class OmFile:
    """An opened model file. ``body`` is the private partition's content, None for files made elsewhere."""

    container: container.Container
    in_out: InOut
    body: dict[str, Any] | None
    sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.container.header.name

    @cached_property
    def attrs(self) -> dict[str, Any]:
        """Attributes of the model by name (AttrDef messages), without reading its graph. Raises `OmError`."""
        data = self.container.partition(container.MODEL_DEF)
        if data is None:
            raise OmError("the model has no MODEL_DEF partition", MODEL_PARTITION_FAILED)
        try:
            found: dict[str, Any] = decode("ModelDef", data, _WITHOUT_GRAPH).get("attr", {})
        except WireError as error:
            raise OmError(f"MODEL_DEF is corrupt: {error}", MODEL_PARTITION_FAILED) from None
        return found

    @cached_property
    def model(self) -> dict[str, Any]:
        """The decoded ModelDef with full attribute names. Raises `OmError` when it is malformed."""
        data = self.container.partition(container.MODEL_DEF)
        if data is None:
            raise OmError("the model has no MODEL_DEF partition", MODEL_PARTITION_FAILED)
        try:
            message = decode("ModelDef", data, TABLES)
            attr_names.expand(message)
        except (WireError, ValueError) as error:
            raise OmError(f"MODEL_DEF is corrupt: {error}", MODEL_PARTITION_FAILED) from None
        return message

    @cached_property
    def soc_version(self) -> str:
        """Name of the chip the model was compiled for; "" when the file does not say."""
        if self.body is not None:
            return str(self.body.get("soc", ""))
        raw = self.attrs.get("soc_version", {}).get("s", b"")
        return bytes(raw).decode(errors="replace")

    def graphs(self) -> list[tuple[Graph, MemoryPlan]]:
        """The executable graphs with their constants. Raises `OmError` for files made elsewhere."""
        if self.body is None:
            raise OmError(
                f"model {self.name!r} was compiled by another ATC (for {self.soc_version or 'an unknown chip'}): its "
                "kernels are machine code, and fused operators lost their attributes, so it can be described but not "
                "executed; convert its ONNX source with this atc",
                UNSUPPORTED,
            )
        weights = self.container.partition(container.WEIGHTS_DATA)
        if weights is None:
            raise OmError("the model has no WEIGHTS_DATA partition", WEIGHT_PARTITION_FAILED)
        out = []
        for raw in self.body.get("graphs", []):
            graph, plan, constants = executable.load_graph(raw)
            plan.weight_size = int(self.body.get("weight_size", 0))
            for name, (offset, size, kind) in constants.items():
                _load_constant(graph, weights, name, offset, size, kind)
            out.append((graph, plan))
        if not out:
            raise OmError("the executable partition holds no graph", MODEL_PARTITION_FAILED)
        return out


    @cached_property
    def source(self) -> bytes | None:
        """The ONNX bytes that a model of open shapes is compiled from. Raises `OmError` when they are malformed."""
        data = self.container.partition(container.SIM_SOURCE)
        if data is None:
            return None
        unpacker = zlib.decompressobj()
        try:
            found = unpacker.decompress(data, SOURCE_LIMIT)
        except zlib.error as error:
            raise OmError(f"the source of the model cannot be unpacked: {error}", MODEL_PARTITION_FAILED) from None
        if not unpacker.eof:
            raise OmError("the source of the model is truncated", MODEL_PARTITION_FAILED)
        return found


def _load_constant(graph: Graph, weights: memoryview, name: str, offset: int, size: int, kind: int) -> None:
    spec = graph.specs.get(name)
    if spec is None or offset < 0 or offset + size > len(weights) or size != spec.nbytes:
        raise OmError(f"constant {name!r} does not lie inside the weights partition", WEIGHT_PARTITION_FAILED)
    value = from_storage(weights[offset : offset + size], spec, kind)
    value.setflags(write=False)
    graph.constants[name] = value
    if spec.origin_shape is None:
        graph.specs[name] = constant_spec(value, spec.format)


def read_om(source: str | os.PathLike[str] | bytes | memoryview) -> OmFile:
    """Open a model file or its bytes. Raises `OmError` with the code that pyACL returns."""
    if isinstance(source, bytes | memoryview):
        data = memoryview(source).cast("B")
    else:
        path = Path(source)
        if path.is_dir():
            raise OmError(f"model path {path} is a directory", PATH_INVALID)
        try:
            data = memoryview(path.read_bytes())
        except OSError as error:
            raise OmError(f"model file {path} cannot be read: {error.strerror or error}", PATH_INVALID) from None
    parsed = container.read_container(data)
    sizes = {container.PARTITION_NAMES.get(kind, str(kind)): len(part) for kind, part in parsed.models[0]}
    private = parsed.partition(container.SIM_EXECUTABLE)
    if private is None and parsed.header.platform_version == container.OURS:
        raise OmError("the model file is corrupt: its executable partition is missing", MODEL_PARTITION_FAILED)
    body = executable.unpack(data, private) if private is not None else None
    described = parsed.partition(container.MODEL_INOUT_INFO)
    in_out = read_inout(described) if described is not None else InOut((), ())
    return OmFile(parsed, in_out, body, sizes)
