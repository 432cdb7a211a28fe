"""Execution order: branches that overflow L2 when their operators alternate run one after the other."""

from __future__ import annotations

from itertools import pairwise

import pytest
from graph_models import check, make_model, randn
from onnx import helper

from ascend_sim.engine.memory import L2
from ascend_sim.graph.compile import compile_graph, compile_model
from ascend_sim.graph.edit import sort_nodes
from ascend_sim.graph.executor import LoadedModel
from ascend_sim.graph.ir import Graph
from ascend_sim.graph.options import CompileOptions
from ascend_sim.graph.passes import order
from ascend_sim.soc import load_soc

BRANCHES, DEPTH = 4, 6
CHIP = "Ascend310"  # 8 MiB of L2


def alternating(size: int) -> bytes:
    """``BRANCHES`` chains of softmaxes over a [size, size] matrix, listed level by level, joined in the end."""
    nodes = []
    for level in range(DEPTH):
        for branch in range(BRANCHES):
            source = "x" if level == 0 else f"t{branch}_{level - 1}"
            nodes.append(helper.make_node("Softmax", [source], [f"t{branch}_{level}"], axis=(branch + level) % 2))
    last = f"t0_{DEPTH - 1}"
    for branch in range(1, BRANCHES):
        name = "y" if branch == BRANCHES - 1 else f"s{branch}"
        nodes.append(helper.make_node("Add", [last, f"t{branch}_{DEPTH - 1}"], [name]))
        last = name
    return make_model(nodes, {"x": randn(size, size)}, ["y"]).SerializeToString()


def names(graph: Graph) -> list[str]:
    return [node.outputs[0] for node in graph.nodes if node.type == "SoftmaxV2"]


def test_branches_run_one_after_the_other_when_they_do_not_fit() -> None:
    chip = load_soc(CHIP)
    data = alternating(1200)  # 2.9 MB a tensor: two branches fit into L2, four do not
    plain = compile_graph(data, chip, CompileOptions(switched_off=frozenset(("order",))))[0]
    found = compile_graph(data, chip)[0]
    assert [n.partition("_")[0] for n in names(plain)][:4] == ["t0", "t1", "t2", "t3"]
    runs = [n.partition("_")[0] for n in names(found)]
    assert sum(a != b for a, b in pairwise(runs)) < 3 * BRANCHES
    capacity = chip.memory.l2_bytes
    assert order.missed(found, found.nodes, capacity) < 0.5 * order.missed(plain, plain.nodes, capacity)
    before = list(found.nodes)
    sort_nodes(found)  # still an order in which everything is made before it is read
    assert found.nodes == before


def test_small_tensors_keep_the_order_of_the_model() -> None:
    chip = load_soc(CHIP)
    plain = compile_graph(alternating(64), chip, CompileOptions(switched_off=frozenset(("order",))))[0]
    assert names(compile_graph(alternating(64), chip)[0]) == names(plain)


@pytest.mark.parametrize("off", [(), ("order",)])
def test_time_follows_the_traffic(off: tuple[str, ...]) -> None:
    chip = load_soc(CHIP)
    om = compile_model(alternating(1200), chip, CompileOptions(switched_off=frozenset(off)))
    l2 = L2(chip)
    read = [t.hbm_bytes for _, t in LoadedModel.from_bytes(om).operator_timings(chip, l2)]
    assert (sum(read) < 70e6) == (off == ())


def test_values_stay() -> None:
    import onnx

    check(onnx.load_from_string(alternating(16)), {"x": randn(16, 16)})
