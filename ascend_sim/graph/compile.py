"""From an ONNX model to an offline model."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from ascend_sim.graph import aipp
from ascend_sim.graph.errors import AtcError
from ascend_sim.graph.ir import Graph
from ascend_sim.graph.om.writer import write_om
from ascend_sim.graph.onnx_import import import_onnx
from ascend_sim.graph.options import CompileOptions, PassOptions
from ascend_sim.graph.passes import run_all
from ascend_sim.graph.plan import MemoryPlan, plan_memory
from ascend_sim.soc import Soc, SocError, load_soc


def compile_graph(
    source: str | os.PathLike[str] | bytes, soc: Soc, options: CompileOptions | None = None
) -> tuple[Graph, MemoryPlan]:
    """Import, run the passes and plan memory. Raises `AtcError`."""
    options = options or CompileOptions()
    graph = import_onnx(source, options.input_shapes, options.input_format)
    if options.out_nodes:
        _cut(graph, options.out_nodes)
    if options.aipp:
        fp16 = [graph.inputs[c.related_input_rank] for c in options.aipp if c.related_input_rank < len(graph.inputs)]
        for name in set(fp16) & set(options.input_fp16_nodes):
            raise AtcError("E10034", f"--input_fp16_nodes names {name!r}, which AIPP feeds with 8-bit images")
        aipp.insert(graph, options.aipp)
    try:
        run_all(graph, PassOptions(soc, options))
    except (ValueError, KeyError, NotImplementedError) as error:
        raise AtcError("E19999", f"Internal Error! The graph could not be compiled: {error!r}") from error
    return graph, plan_memory(graph)


def compile_model(
    source: str | os.PathLike[str] | bytes, soc: Soc | str, options: CompileOptions | None = None
) -> bytes:
    """The .om of an ONNX model (path or bytes) for a chip. Raises `AtcError`."""
    options = options or CompileOptions()
    if isinstance(soc, str):
        try:
            soc = load_soc(soc)
        except SocError as error:
            raise AtcError("E10001", f"--soc_version: {error}") from None
    name = options.name or ("model" if isinstance(source, bytes) else Path(source).stem)
    gears = [_with_batch(options, batch) for batch in options.dynamic_batch] or [options]
    variants = [compile_graph(source, soc, gear) for gear in gears]
    return write_om(variants, soc, name, options.command, options.dynamic_batch)


def _with_batch(options: CompileOptions, batch: int) -> CompileOptions:
    """The options of one gear: the open batch of each input fixed."""
    shapes = {}
    for name, shape in options.input_shapes.items():
        if -1 in shape[1:]:
            raise AtcError(
                "E10018", f"--dynamic_batch_size: input {name!r} {list(shape)} is open on another axis than 0"
            )
        shapes[name] = (batch, *shape[1:]) if shape[:1] == (-1,) else shape
    return replace(options, input_shapes=shapes, dynamic_batch=())


def _cut(graph: Graph, out_nodes: tuple[str, ...]) -> None:
    """Make ``node:index`` entries (or tensor names) the outputs of the graph."""
    by_node: dict[str, list[str]] = {}
    for node in graph.nodes:
        for origin in (node.name, *node.origin):
            by_node[origin] = node.outputs
    outputs, names = [], []
    makers = {name: f"{node.name}:{i}" for node in graph.nodes for i, name in enumerate(node.outputs)}
    for entry in out_nodes:
        name, _, index = entry.rpartition(":")
        if entry in graph.specs:
            outputs.append(entry)
        elif name in by_node and index.isdigit() and int(index) < len(by_node[name]):
            outputs.append(by_node[name][int(index)])
        else:
            raise AtcError(
                "E11017",
                f"--out_nodes names {entry!r}, which is no operator output of the model",
                'Write "operator:output_index", or the name of a tensor of the ONNX graph.',
            )
        names.append(entry)
    graph.outputs = outputs
    graph.attrs["output_names"] = names
    graph.attrs["output_nodes"] = [makers.get(name, f"{name}:0") for name in outputs]
