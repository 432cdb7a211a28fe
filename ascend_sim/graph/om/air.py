"""Writing a graph that is not compiled as an .air (``ge.proto.ModelDef`` with inline weights)."""

from __future__ import annotations

from ascend_sim.graph.ir import Graph
from ascend_sim.graph.om.encode import attr, descriptor
from ascend_sim.graph.om.proto import TABLES
from ascend_sim.graph.om.wire import encode


def write_air(graph: Graph) -> bytes:
    """Bytes that `ascend_sim.graph.air.read_air` takes."""
    source: dict[str, str] = {}
    operators: list[dict[str, object]] = []

    def add(name: str, kind: str, inputs: list[str], outputs: list[str], attrs: dict[str, object]) -> None:
        operators.append({
            "name": name,
            "type": kind,
            "input": [source[n] if n else "" for n in inputs],
            "attr": {k: v if isinstance(v, dict) else attr(v) for k, v in attrs.items()},
            "input_desc": [descriptor(n, graph.specs[n], None) for n in inputs if n],
            "output_desc": [descriptor(n, graph.specs[n], None) for n in outputs],
        })  # fmt: skip
        source.update({n: f"{name}:{i}" for i, n in enumerate(outputs)})

    for index, name in enumerate(graph.inputs):
        add(name, "Data", [], [name], {"index": index})
    for name, array in graph.constants.items():
        value = {"t": {"desc": descriptor(name, graph.specs[name], None), "data": array.tobytes()}}
        add(name, "Const", [], [name], {"value": value})
    for node in graph.nodes:
        add(node.name, node.type, node.inputs, node.outputs, dict(node.attrs))
    add("Node_Output", "NetOutput", graph.outputs, [], {})
    message = {"name": graph.name, "version": 1, "graph": [{"name": graph.name, "op": operators}]}
    return encode("ModelDef", message, TABLES)
