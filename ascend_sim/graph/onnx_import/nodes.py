"""Converting nodes one after the other: a graph's own, those of a subgraph, those of a function's body."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ascend_sim.graph.errors import AtcError
from ascend_sim.graph.onnx_import.context import Importer, OnnxNode, Table
from ascend_sim.graph.virtual import array_of, stripped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnx import GraphProto, NodeProto


def read_array(tensor: Any) -> np.ndarray[Any, Any]:
    """The array of a TensorProto. Raises `AtcError` for one that is damaged."""
    from onnx import numpy_helper

    if stripped(tensor):
        return array_of(tensor)
    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        dims = ",".join(map(str, tensor.dims))
        raise AtcError(
            "E13005", f"constant {tensor.name!r} (type {tensor.data_type}, shape [{dims}]) cannot be read: {error}"
        ) from error


def attributes_of(proto: NodeProto) -> dict[str, Any]:
    """Decoded attributes; subgraphs stay `GraphProto`."""
    from onnx import AttributeProto

    out: dict[str, Any] = {}
    for attribute in proto.attribute:
        match attribute.type:
            case AttributeProto.FLOAT:
                out[attribute.name] = attribute.f
            case AttributeProto.INT:
                out[attribute.name] = attribute.i
            case AttributeProto.STRING:
                out[attribute.name] = attribute.s.decode(errors="replace")
            case AttributeProto.TENSOR:
                out[attribute.name] = read_array(attribute.t)
            case AttributeProto.FLOATS:
                out[attribute.name] = list(attribute.floats)
            case AttributeProto.INTS:
                out[attribute.name] = list(attribute.ints)
            case AttributeProto.STRINGS:
                out[attribute.name] = [s.decode(errors="replace") for s in attribute.strings]
            case AttributeProto.GRAPH:
                out[attribute.name] = attribute.g
            case _:
                out[attribute.name] = attribute
    return out


def convert_node(imp: Importer, table: Table, proto: NodeProto, index: int) -> None:
    """Convert one node: by its converter, else by the function that the ONNX standard defines it with."""
    name = imp.scoped(proto.name or f"{proto.op_type}_{index}")
    standard = proto.domain in ("", "ai.onnx")
    converter = table.get(proto.op_type if standard else f"{proto.domain}::{proto.op_type}")
    inputs = tuple(imp.resolve(n) if n else "" for n in proto.input)
    for original, resolved in zip(proto.input, inputs, strict=True):
        if resolved and not imp.known(resolved):
            raise AtcError("E13005", f"node {name!r} ({proto.op_type}) reads {original!r}, which no earlier node makes")
    if converter is None:
        from ascend_sim.graph.onnx_import.functions import expand

        if expand(imp, table, proto, name, inputs):
            return
        raise unsupported(name, proto, table, imp.opset)
    outputs = [imp.bind(n) if n else "" for n in proto.output]
    while outputs and not outputs[-1]:
        outputs.pop()
    node = OnnxNode(proto.op_type, name, inputs, tuple(outputs), attributes_of(proto), proto.domain)
    imp.node = node
    try:
        converter(imp, node)
    except AtcError:
        raise
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise imp.error(f"inputs or attributes do not fit: {error!r}") from error


def convert_nodes(imp: Importer, table: Table, nodes: Iterable[NodeProto]) -> None:
    for index, proto in enumerate(nodes):
        convert_node(imp, table, proto, index)


@contextmanager
def opset(imp: Importer, version: int) -> Iterator[None]:
    """Convert under another opset version for a while (bodies of functions have their own)."""
    before, imp.opset = imp.opset, version
    try:
        yield
    finally:
        imp.opset = before


def inline(imp: Importer, table: Table, graph: GraphProto, prefix: str, inputs: Mapping[str, str]) -> list[str]:
    """Convert a subgraph in place; ``inputs`` gives the graph tensor of each of its input names.

    Returns the tensors of its outputs. Names inside get ``prefix`` and do not leave the subgraph.
    """
    with imp.scope(prefix, inputs):
        for tensor in graph.initializer:
            imp.define(imp.bind(tensor.name), read_array(tensor))
        node = imp.node
        convert_nodes(imp, table, graph.node)
        imp.node = node
        return [imp.resolve(value.name) for value in graph.output]


def unsupported(name: str, proto: NodeProto, table: Table, version: int) -> AtcError:
    domain = proto.domain or "ai.onnx"
    close = difflib.get_close_matches(proto.op_type, table, 1)
    advice = "Replace the operator by supported ones before export, or cut the graph in front of it with --out_nodes."
    if close:
        advice += f" The nearest supported operator is {close[0]!r}."
    if domain != "ai.onnx":
        advice = f"Operators of domain {domain!r} are not standard ONNX; export without them. " + advice
    return AtcError(
        "E16002",
        f"no parser for operator {domain}::{version}::{proto.op_type} (node {name!r}, opset {version})",
        advice,
    )
