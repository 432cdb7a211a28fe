"""The compiled graph as ``ge.proto.ModelDef`` and ``domi.ModelTaskDef``, the way ATC lays them out."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ascend_sim.graph.ir import Graph, Node
from ascend_sim.graph.om import attr_names
from ascend_sim.graph.om.inout import AIPP_INPUT, DYNAMIC_INPUT, InOut, IoDesc
from ascend_sim.graph.om.proto import (
    LIST_BOOL,
    LIST_FLOAT,
    LIST_INT,
    LIST_STRING,
    PROTO_DTYPES,
    TABLES,
)
from ascend_sim.graph.om.wire import encode
from ascend_sim.graph.plan import MemoryPlan, Place, constants_in_order, is_free
from ascend_sim.ops.schema import TensorSpec
from ascend_sim.soc import Soc

Message = dict[str, Any]
FEATURE_BASE = 0x80000000  # logical base address of the work area in task arguments, as ATC writes it
TASK_KERNEL = 0
KERNEL_TE = 2


def attr(value: Any) -> Message:
    """An AttrDef. Nested tuples (epilogue steps) become strings ``name:parameter:...``."""
    if isinstance(value, bool):
        return {"b": value}
    if isinstance(value, int):
        return {"i": value}
    if isinstance(value, float):
        return {"f": value}
    if isinstance(value, str):
        return {"s": value.encode()}
    if isinstance(value, bytes):
        return {"s": value}
    items = list(value)
    if all(isinstance(v, bool) for v in items):
        return {"list": {"b": items, "val_type": LIST_BOOL}}
    if all(isinstance(v, int) for v in items):
        return {"list": {"i": items, "val_type": LIST_INT}}
    if all(isinstance(v, int | float) for v in items):
        return {"list": {"f": [float(v) for v in items], "val_type": LIST_FLOAT}}
    texts = [":".join(str(p) for p in v) if isinstance(v, list | tuple) else str(v) for v in items]
    return {"list": {"s": [t.encode() for t in texts], "val_type": LIST_STRING}}


def descriptor(name: str, spec: TensorSpec, place: Place | None) -> Message:
    """A TensorDescriptor; weights carry their place in the weights partition."""
    weight = place is not None and place.region == "weight"
    attrs = {"origin_format": attr(spec.origin_format or spec.format)}
    if spec.origin_shape is not None:
        attrs["origin_shape"] = attr(spec.origin_shape)
    message: Message = {
        "name": name,
        "dtype": PROTO_DTYPES[spec.dtype],
        "shape": {"dim": list(spec.shape)},
        "layout": spec.format,
        "attr": attrs,
        "size": spec.nbytes,
    }
    if weight:
        assert place is not None
        message |= {"weight_size": place.nbytes, "data_offset": place.value}
    return message


class _Encoder:
    def __init__(self, graph: Graph, plan: MemoryPlan) -> None:
        self.graph = graph
        self.plan = plan
        self.source: dict[str, str] = {}  # tensor -> "op:index"
        self.ops: list[Message] = []

    def _desc(self, name: str) -> Message:
        return descriptor(name, self.graph.specs[name], self.plan.places.get(name))

    def _address(self, name: str) -> int:
        place = self.plan.places.get(name)
        return place.value if place is not None and place.region == "work" else 0

    def add(self, name: str, op_type: str, inputs: list[str], outputs: list[str], attrs: Mapping[str, Any]) -> None:
        sources = [self.source[n] if n else "" for n in inputs]
        pairs = [s.rsplit(":", 1) for s in sources if s]
        self.ops.append({
            "name": name,
            "type": op_type,
            "input": sources,
            "attr": {k: v if isinstance(v, dict) else attr(v) for k, v in attrs.items()},
            "id": len(self.ops),
            "stream_id": 0,
            "src_name": [p[0] for p in pairs],
            "src_index": [int(p[1]) for p in pairs],
            "input_i": [self._address(n) for n in inputs if n],
            "output_i": [self._address(n) for n in outputs],
            "is_input_const": [n in self.graph.constants for n in inputs if n],
            "input_desc": [self._desc(n) for n in inputs if n],
            "output_desc": [self._desc(n) for n in outputs],
        })  # fmt: skip
        for index, output in enumerate(outputs):
            self.source[output] = f"{name}:{index}"

    def graph_def(self) -> Message:
        graph = self.graph
        for index, name in enumerate(graph.inputs):
            self.add(name, "Data", [], [name], {"index": index})
        for name in constants_in_order(graph):
            value = {"t": {"desc": self._desc(name)}}
            self.add(name, "Const", [], [name], {"value": value})
        for node in graph.nodes:
            self.add(node.name, node.type, node.inputs, node.outputs, _node_attrs(node))
        self.add("Node_Output", "NetOutput", graph.outputs, [], {})
        return {"name": graph.name, "op": self.ops}


def _node_attrs(node: Node) -> dict[str, Any]:
    attrs = dict(node.attrs)
    if len(node.origin) > 1:
        attrs["_datadump_original_op_names"] = list(node.origin)
    if node.attrs.get("epilogue") or node.attrs.get("steps"):
        attrs["_sim_fused_ops"] = [str(step[0]) for step in node.attrs.get("epilogue") or node.attrs["steps"]]
    return attrs


def output_node_names(graph: Graph) -> list[str]:
    """``node:index:topname`` of every output, as attr_model_out_nodes_name stores them."""
    return [f"{n}:{top}" for n, top in zip(graph.attrs["output_nodes"], graph.attrs["output_names"], strict=True)]


def ports(graph: Graph) -> tuple[list[IoDesc], list[IoDesc]]:
    """Inputs and outputs of one compiled graph."""
    images = {
        node.inputs[0]: (int(node.attrs["network"][0]), -1, -1, -1)
        for node in graph.nodes if node.type == "Aipp" and len(node.inputs) > 1
    }  # fmt: skip
    inputs = []
    for name in graph.inputs:
        spec = graph.specs[name]
        dims = images.get(name, spec.shape)  # sizes of dynamic AIPP's images are open
        fmt = "NHWC" if name in images else spec.format
        inputs.append(IoDesc(name, spec.nbytes, dims, fmt, spec.dtype))
    outputs = []
    for full, name in zip(output_node_names(graph), graph.outputs, strict=True):
        spec = graph.specs[name]
        fmt = spec.format if spec.origin_shape is not None else "NCHW" if len(spec.shape) == 4 else "ND"
        outputs.append(IoDesc(full, spec.nbytes, spec.shape, fmt, spec.dtype))
    return inputs, outputs


def in_out(
    graphs: Sequence[Graph], kind: str = "", gears: Sequence[tuple[int, ...]] = (), order: Sequence[str] = ()
) -> InOut:
    """What pyACL says about the inputs and outputs: sizes of the largest gear, -1 where gears differ, and with gears
    the extra input that carries the choice (in front of the parameters of dynamic AIPP)."""
    found = [ports(graph) for graph in graphs]
    inputs = [_union(versions) for versions in zip(*(i for i, _ in found), strict=True)]
    outputs = [_union(versions) for versions in zip(*(o for _, o in found), strict=True)]
    if not gears:
        return InOut(tuple(inputs), tuple(outputs))
    first = next((i for i, port in enumerate(inputs) if port.name.startswith(AIPP_INPUT)), len(inputs))
    width = len(gears[0])
    inputs.insert(first, IoDesc(DYNAMIC_INPUT, 4 * width, (width,), "ND", "int32"))
    shapes = tuple(
        ",".join(map(str, (gear, index, *port.dims))) for gear, (_, outs) in enumerate(found)
        for index, port in enumerate(outs)
    )  # fmt: skip
    return InOut(
        tuple(inputs),
        tuple(outputs),
        tuple(gear[0] for gear in gears) if kind == "batch" else (),
        tuple(gears) if kind == "image" else (),
        tuple(gears) if kind == "dims" else (),
        shapes,
        tuple(order) if kind == "dims" else (),
    )


def _union(versions: Sequence[IoDesc]) -> IoDesc:
    """One port of all gears: the largest size, -1 on the axes where they differ."""
    dims = tuple(sizes[0] if len(set(sizes)) == 1 else -1 for sizes in zip(*(v.dims for v in versions), strict=True))
    return replace(versions[0], size=max(v.size for v in versions), dims=dims)


def largest(graphs: Sequence[Graph]) -> int:
    """Index of the gear with the largest inputs: what runs when none is chosen."""
    return max(range(len(graphs)), key=lambda i: (sum(graphs[i].specs[n].nbytes for n in graphs[i].inputs), i))


def model_def(
    variants: Sequence[tuple[Graph, MemoryPlan]], soc: Soc, name: str, command: str, version: str, short: bool = False
) -> bytes:
    """ModelDef of the compiled graphs; the first GraphDef is that of the largest gear. ``short``: with short attribute
    names."""
    chosen = largest([graph for graph, _ in variants])
    graph, plan = variants[chosen]
    attrs = {
        "atc_cmdline": command,
        "atc_version": f"sim {version}",
        "soc_version": soc.name,
        "framework_type": "Onnx",
        "memory_size": plan.work_size,
        "zero_copy_memory_size": sum(
            graph.specs[n].nbytes for n in (*graph.inputs, *graph.outputs) if n in plan.places
        ),
        "weight_size": plan.weight_size,
        "stream_num": 1,
        "event_num": 0,
        "label_num": 0,
        "core_type": 0,
        "task_gen_base_addr": FEATURE_BASE,
        "task_gen_weight_addr": FEATURE_BASE + plan.work_size,
        "attr_model_out_nodes_name": output_node_names(graph),
    }
    order = [chosen, *(i for i in reversed(range(len(variants))) if i != chosen)]
    message = {
        "name": name,
        "version": 1,
        "graph": [_Encoder(*variants[i]).graph_def() for i in order],
        "attr": {key: attr(value) for key, value in attrs.items()},
    }
    if short:
        attr_names.compress(message)
    return encode("ModelDef", message, TABLES)


def task_info(graph: Graph, plan: MemoryPlan) -> bytes:
    """One kernel task per device operator, its arguments the logical addresses of inputs and outputs."""

    def address(name: str) -> int:
        place = plan.places[name]
        base = {"work": FEATURE_BASE, "weight": FEATURE_BASE + plan.work_size}.get(place.region, 0)
        return base + place.value if base else place.value

    tasks: list[Message] = []
    for index, node in enumerate(graph.nodes):
        if is_free(node):
            continue
        args = [address(n) for n in (*node.inputs, *node.outputs) if n and n in plan.places]
        kernel = {
            "context": {"kernel_type": KERNEL_TE, "op_index": index, "args_count": len(args)},
            "block_dim": 1,
            "args_size": 8 * len(args),
            "args": struct.pack(f"<{len(args)}Q", *args),
            "kernel_name": f"sim_{node.type}",
        }
        tasks.append({"id": len(tasks), "type": TASK_KERNEL, "stream_id": 0, "kernel": kernel})
    message = {
        "version": "0.0.0",
        "task": tasks,
        "memory_size": plan.work_size,
        "stream_num": 1,
        "weight_size": plan.weight_size,
        "base_addr": FEATURE_BASE,
        "weight_addr": FEATURE_BASE + plan.work_size,
        "batch_num": 1,
    }
    return encode("ModelTaskDef", message, TABLES)
