"""From an ONNX model to an offline model."""

from __future__ import annotations

import os
from pathlib import Path

from ascend_sim.graph import aipp, dynamic
from ascend_sim.graph.errors import AtcError
from ascend_sim.graph.ir import Graph
from ascend_sim.graph.om.writer import write_om
from ascend_sim.graph.onnx_import import import_onnx
from ascend_sim.graph.options import CompileOptions, PassOptions
from ascend_sim.graph.passes import PIPELINE, run_all
from ascend_sim.graph.plan import MemoryPlan, plan_memory
from ascend_sim.graph.specialize import compile_open
from ascend_sim.soc import Soc, SocError, load_soc

STEPS = len(PIPELINE) + 2  # of one graph, as the progress bar counts


def import_graph(source: str | os.PathLike[str] | bytes, options: CompileOptions) -> Graph:
    """The imported graph up to --out_nodes, before any pass. Raises `AtcError`."""
    graph = import_onnx(source, options.input_shapes, options.input_format)
    if not graph.inputs:
        raise AtcError("E16001", "the graph has no input", "A model without inputs computes nothing on the device.")
    if options.out_nodes:
        _cut(graph, options.out_nodes)
    return graph


def compile_graph(
    source: str | os.PathLike[str] | bytes, soc: Soc, options: CompileOptions | None = None
) -> tuple[Graph, MemoryPlan]:
    """Import, run the passes and plan memory; all shapes are fixed. Raises `AtcError`."""
    options = options or CompileOptions()
    options.progress.step("read the model")
    return lower(import_graph(source, options), soc, options)


def lower(graph: Graph, soc: Soc, options: CompileOptions) -> tuple[Graph, MemoryPlan]:
    """Run the passes on an imported graph and plan memory. Raises `AtcError`."""
    if options.aipp:
        fp16 = [graph.inputs[c.related_input_rank] for c in options.aipp if c.related_input_rank < len(graph.inputs)]
        for name in set(fp16) & set(options.input_fp16_nodes):
            raise AtcError("E10034", f"--input_fp16_nodes names {name!r}, which AIPP feeds with 8-bit images")
        aipp.insert(graph, options.aipp)
    try:
        run_all(graph, PassOptions(soc, options))
    except (ValueError, KeyError, NotImplementedError) as error:
        raise AtcError("E19999", f"Internal Error! The graph could not be compiled: {error!r}") from error
    options.progress.step("plan memory")
    return graph, plan_memory(graph, options.reuse_memory)


def compile_model(
    source: str | os.PathLike[str] | bytes, soc: Soc | str, options: CompileOptions | None = None
) -> bytes:
    """The .om of an ONNX model (path or bytes) for a chip. Raises `AtcError`."""
    options = options or CompileOptions()
    dynamic.check(options)
    if isinstance(soc, str):
        try:
            soc = load_soc(soc)
        except SocError as error:
            raise AtcError("E10001", f"--soc_version: {error}") from None
    name = options.name or ("model" if isinstance(source, bytes) else Path(source).stem)
    kind = dynamic.kind_of(options)
    if kind == dynamic.SHAPE:
        options.progress.begin(STEPS + 1)
        example, origin = compile_open(source, soc, options)
        return write_om([example], soc, name, options.command, kind, source=origin, short=options.compress_attrs)
    gears = dynamic.gears(options)
    options.progress.begin(max(len(gears), 1) * STEPS + 1)
    variants = [compile_graph(source, soc, dynamic.fixed(options, gear.shapes)) for gear in gears]
    if not gears:
        variants = [compile_graph(source, soc, options)]
    values = [gear.values for gear in gears]
    options.progress.step("write the model")
    order = tuple(options.input_shapes)
    return write_om(variants, soc, name, options.command, kind, values, order, short=options.compress_attrs)


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
