"""ONNX front end: ONNX to the graph IR, one module per operator family."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ascend_sim.graph.errors import AtcError
from ascend_sim.graph.ir import Graph
from ascend_sim.graph.onnx_import import (
    activation,
    bitwise,
    constants,
    control,
    convolution,
    elementwise,
    gradient,
    indexing,
    logic,
    matmul,
    movement,
    normalization,
    pooling,
    quantized,
    recurrent,
    reduction,
    resize,
    selection,
    sequences,
    shape,
    spectral,
    strings,
    vision,
)
from ascend_sim.graph.onnx_import.context import Importer, Table
from ascend_sim.graph.onnx_import.nodes import convert_nodes, read_array
from ascend_sim.graph.onnx_import.reader import opset_of, read_model
from ascend_sim.ops.schema import TensorSpec

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto

FAMILIES = (
    activation, bitwise, constants, control, convolution, elementwise, gradient, indexing, logic, matmul, movement,
    normalization, pooling, quantized, recurrent, reduction, resize, selection, sequences, shape, spectral, strings,
    vision,
)  # fmt: skip


def converters() -> Table:
    """ONNX operator type -> converter, of all families."""
    table: Table = {}
    for family in FAMILIES:
        table.update(family.TABLE)
    return table


def import_onnx(
    source: str | os.PathLike[str] | bytes,
    input_shapes: Mapping[str, tuple[int, ...]] | None = None,
    input_format: str = "NCHW",
) -> Graph:
    """The graph of an ONNX model with static shapes.

    ``input_shapes`` gives or overrides shapes of inputs by name. Raises `AtcError`: E16002 for an operator without
    converter, E16005 for an opset out of range, E10001/E10016 for shapes that are missing or name no input.
    """
    model = read_model(source)
    opset = opset_of(model)
    _check_names(model)
    graph = Graph(model.graph.name or "graph", [], [], [], {}, {}, {"opset": opset, "framework": "Onnx"})
    importer = Importer(graph, opset)
    _read_initializers(importer, model)
    _declare_inputs(importer, model, dict(input_shapes or {}), input_format)
    importer.domains = {entry.domain: entry.version for entry in model.opset_import}
    convert_nodes(importer, converters(), model.graph.node)
    for value in model.graph.output:
        name = importer.resolve(value.name)
        if name in importer.sequences or name in importer.empty:
            raise AtcError("E16002", f"output {value.name!r} is a sequence or optional, not a tensor")
        if name not in graph.specs:
            raise AtcError("E16001", f"graph output {value.name!r} is made by no node")
        graph.outputs.append(name)
    graph.attrs["output_names"] = [value.name for value in model.graph.output]
    makers = {name: f"{node.name}:{i}" for node in graph.nodes for i, name in enumerate(node.outputs)}
    graph.attrs["output_nodes"] = [makers.get(name, f"{name}:0") for name in graph.outputs]
    return graph


def _check_names(model: ModelProto) -> None:
    """Names are text (a damaged file has bytes there), and a value has one source."""
    sources = [t.name for t in model.graph.initializer]
    sources += [v.name for v in model.graph.input if v.name not in set(sources)]
    for node in model.graph.node:
        sources += [name for name in node.output if name]
        if any(isinstance(name, bytes) for name in (*node.input, *node.output, node.name, node.op_type)):
            raise AtcError("E13005", f"a name of node {node.name!r} is not UTF-8 text", "The file may be damaged.")
    if any(isinstance(name, bytes) for name in (*sources, model.graph.name)):
        raise AtcError("E13005", "a name of the graph is not UTF-8 text", "The file may be damaged.")
    seen: set[str] = set()
    for name in sources:
        if name in seen:
            raise AtcError("E13005", f"value {name!r} is made twice: names of a graph must be unique")
        seen.add(name)


def _read_initializers(importer: Importer, model: ModelProto) -> None:
    for tensor in model.graph.initializer:
        if tensor.data_type == 8:  # strings
            raise AtcError("E16002", f"initializer {tensor.name!r} holds strings, which the device cannot process")
        importer.define(tensor.name, read_array(tensor))
    if model.graph.sparse_initializer:
        raise AtcError("E16002", "the model has sparse initializers", "Store the weights densely.")


def _declare_inputs(
    importer: Importer, model: ModelProto, shapes: dict[str, tuple[int, ...]], input_format: str
) -> None:
    constants_ = importer.graph.constants
    inputs = [v for v in model.graph.input if v.name not in constants_]
    names = [v.name for v in inputs]
    for name in shapes:
        if name not in names:
            close = difflib.get_close_matches(name, names, 1)
            raise AtcError(
                "E10016",
                f"--input_shape names {name!r}, which is not an input of the model",
                f"The inputs are: {', '.join(names)}." + (f" Did you mean {close[0]!r}?" if close else ""),
            )
    for value in inputs:
        importer.graph.inputs.append(value.name)
        importer.graph.specs[value.name] = _input_spec(importer, value, shapes.get(value.name), input_format)


def _input_spec(
    importer: Importer, value: ValueInfoProto, given: tuple[int, ...] | None, input_format: str
) -> TensorSpec:
    tensor = value.type.tensor_type
    if not value.type.HasField("tensor_type"):
        raise AtcError("E16002", f"input {value.name!r} is a sequence, map or optional, not a tensor")
    dims = [d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else -1 for d in tensor.shape.dim]
    declared = tensor.HasField("shape")
    if given is not None:
        if declared and len(given) != len(dims):
            raise AtcError(
                "E10049", f"--input_shape gives {len(given)} dimensions for {value.name!r}, the model has {len(dims)}"
            )
        for i, (new, old) in enumerate(zip(given, dims, strict=False)):
            if declared and old > 0 and new != old:
                raise AtcError(
                    "E10050",
                    f"--input_shape gives {new} for dimension {i} of {value.name!r}, the model fixes it to {old}",
                )
        dims = list(given)
    elif not declared or -1 in dims:
        text = ",".join(str(d) for d in dims) if declared else "?"
        raise AtcError(
            "E10001",
            f"input {value.name!r} has unknown dimensions ({text}) and --input_shape does not give them",
            f'Add for example --input_shape="{value.name}:{",".join(str(d) if d > 0 else "1" for d in dims)}".',
        )
    importer.node = None
    dtype = logic.onnx_dtype(importer, tensor.elem_type)
    fmt = input_format if len(dims) == len(input_format) and input_format != "ND" else "ND"
    spec = TensorSpec(tuple(dims), dtype, fmt)
    importer.check_size(spec, f"input {value.name!r}")
    return spec
