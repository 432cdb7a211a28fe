"""Memory plan: nothing that is alive at the same time shares bytes, everything is aligned, and reuse happens."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_sim.graph.ir import Graph, Node
from ascend_sim.graph.plan import ALIGN, plan_memory
from ascend_sim.ops.schema import TensorSpec


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Random chains of Add and Reshape over tensors of different sizes."""
    count = draw(st.integers(1, 14))
    names, nodes = ["x"], []
    specs = {"x": TensorSpec((64,), "float16"), "s": TensorSpec((1,), "int64")}
    for i in range(count):
        name = f"t{i}"
        if draw(st.integers(0, 3)) == 0:
            source = draw(st.sampled_from(names))
            nodes.append(Node(f"n{i}", "Reshape", [source, "s"], [name]))
            specs[name] = specs[source]
        else:
            inputs = [draw(st.sampled_from(names)) for _ in range(2)]
            nodes.append(Node(f"n{i}", "Add", inputs, [name]))
            specs[name] = TensorSpec((draw(st.integers(1, 4000)),), "float16")
        names.append(name)
    outputs = draw(st.lists(st.sampled_from(names[1:]), min_size=1, max_size=2, unique=True))
    return Graph("g", nodes, ["x"], outputs, specs, {"s": None})  # type: ignore[dict-item]


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_live_tensors_do_not_overlap(graph: Graph) -> None:
    plan = plan_memory(graph)
    buffers: dict[tuple[int, int], tuple[int, int]] = {}
    root: dict[str, str] = {}
    for node in graph.nodes:
        if node.type == "Reshape":
            root[node.outputs[0]] = root.get(node.inputs[0], node.inputs[0])
    born: dict[str, int] = {}
    dies: dict[str, int] = {}
    for step, node in enumerate(graph.nodes):
        for name in node.outputs:
            if node.type != "Reshape":
                born[name] = step
                dies[name] = max(dies.get(name, 0), step)
        for name in node.inputs:
            dies[root.get(name, name)] = step
    for name in graph.outputs:
        dies[root.get(name, name)] = len(graph.nodes)
    work = {n: plan.places[n] for n in born if plan.places[n].region == "work"}
    for a, pa in work.items():
        assert pa.value % ALIGN == 0 and pa.value + pa.nbytes <= plan.work_size
        for b, pb in work.items():
            if a < b and born[a] <= dies[b] and born[b] <= dies[a]:
                assert pa.value + pa.nbytes <= pb.value or pb.value + pb.nbytes <= pa.value, (a, b)
    for name, source in root.items():
        assert plan.places[name] == plan.places[source] or name in graph.outputs
    del buffers


def test_a_chain_needs_two_buffers() -> None:
    nodes = [Node(f"n{i}", "Relu", [f"t{i}"], [f"t{i + 1}"]) for i in range(10)]
    specs = {f"t{i}": TensorSpec((1000,), "float16") for i in range(11)}
    plan = plan_memory(Graph("g", nodes, ["t0"], ["t10"], specs, {}))
    assert plan.work_size == 2 * 2048
    assert plan.places["t0"].region == "input" and plan.places["t10"].region == "output"
